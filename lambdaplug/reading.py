"""Objectives, measures, costs and schedules from their text, for configuration files."""

import ast
import difflib
import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

from . import costs, measures, objectives, schedules
from .checking import shown
from .costs import Cost
from .custom import Custom
from .errors import LambdaplugError
from .hosts import presets
from .measures import Measure
from .objectives import Objective, constructions
from .objectives.constructions import Construction
from .schedules import Watcher
from .values import Value

__all__ = ["read"]

NUMBERS = {"inf": math.inf, "nan": math.nan}
BASES = {Value, Cost, Custom, Measure, Objective, Construction, Watcher}  # what is in the modules and not for calling


def read(text: str) -> Any:
    """The objective, measure, cost or schedule that a text says: what ``repr`` prints of it, or what you would type.

    For configuration files. Nothing is evaluated: the text may have calls of the public names, numbers, text, lists and
    dicts, and nothing else. A function (as of ``lp.custom`` or ``gain=``) has no text.

    Parameters
    ----------
    text : str
        Such as ``"Mixture([(0.7, LambdaRank('ndcg@10')), (0.3, QuerySoftmax())])"``; ``lp.`` before a name may stay.

    Returns
    -------
    Objective, Measure, Cost or schedule
        Equal to the one whose ``repr`` the text is.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> objective = lp.read("LambdaRank('ndcg@10', cost=Sigmoid(mu=-1), normalize='std')")
    >>> objective == lp.LambdaRank("ndcg@10", cost=lp.Sigmoid(-1), normalize="std")
    True
    >>> lp.read(repr(lp.linear(0.1, 0.01)))
    linear(start=0.1, rate=0.01)
    """
    if not isinstance(text, str):
        raise LambdaplugError(f"read: expected a text such as \"LambdaRank('ndcg@10')\", got {shown(text)}.")
    try:
        made = _made(ast.parse(text.strip(), mode="eval").body)
    except LambdaplugError:
        raise
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:  # the last two: nested too deep
        raise _not_read(text, f"it is no call as Python has it ({error}).") from None
    if not isinstance(made, Value):
        raise _not_read(text, "it is no objective, measure, cost or schedule.")
    return made


@functools.cache
def names() -> dict[str, Callable[..., Any]]:
    """What may be called, by the name that is called."""
    found: dict[str, Callable[..., Any]] = {"objective": objectives.objective, "interpolate": objectives.interpolate}
    for room in (objectives, constructions, measures, costs, schedules):
        for thing in vars(room).values():
            if isinstance(thing, type) and issubclass(thing, (Value, Construction)) and thing not in BASES:
                found[getattr(thing, "called_as", "") or thing.__name__] = thing
    return found | {f"presets.{name}": getattr(presets, name) for name in presets.__all__}


def _made(node: ast.expr) -> Any:
    """What this part of the text says."""
    match node:
        case ast.Constant(value=str() | int() | float() | None as value):
            return value
        case ast.Name(id=name) if name in NUMBERS:
            return NUMBERS[name]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Name(id="inf")):
            return -math.inf
        case ast.List(elts=parts):
            return [_made(part) for part in parts]
        case ast.Tuple(elts=parts):
            return tuple(_made(part) for part in parts)
        case ast.Dict(keys=keys, values=values) if None not in keys:
            return {_made(key): _made(value) for key, value in zip(keys, values, strict=True) if key is not None}
        case ast.Call(func=ast.Name() | ast.Attribute() as function, args=args, keywords=keywords):
            return _called(ast.unparse(function), args, keywords)
    hint = " A name stands with its brackets: QuerySoftmax()." if isinstance(node, (ast.Name, ast.Attribute)) else ""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        hint = " A measure's text goes where a measure belongs: LambdaRank('ndcg@10'), lp.metric('ndcg@10')."
    raise _not_read(ast.unparse(node), f"a text may have calls, numbers, text, lists and dicts, no more.{hint}")


def _called(name: str, args: list[ast.expr], keywords: list[ast.keyword]) -> Any:
    name = name.removeprefix("lambdaplug.").removeprefix("lp.")
    known = names()
    if name not in known:
        raise _not_read(name, f"there is no such name.{_nearest(name, known)} There are: {', '.join(sorted(known))}.")
    parameters = list(inspect.signature(known[name]).parameters)
    for keyword in keywords:
        if keyword.arg not in parameters:
            said = f"{keyword.arg}=" if keyword.arg else "**"
            hint = _nearest(keyword.arg or "", parameters)
            raise _not_read(
                f"{name}({said}...)", f"{name} has no such parameter.{hint} It takes: {', '.join(parameters)}."
            )
    made, named = [_made(one) for one in args], {str(one.arg): _made(one.value) for one in keywords}
    try:
        return known[name](*made, **named)
    except TypeError as error:
        raise _not_read(f"{name}(...)", f"{error}. It takes: {', '.join(parameters)}.") from None


def _nearest(word: str, known: Any) -> str:
    by_case = {one.lower(): one for one in known}
    found = difflib.get_close_matches(word.lower(), by_case, n=1, cutoff=0.5)
    return f" The nearest is {by_case[found[0]]!r}." if found else ""


def _not_read(text: str, why: str) -> LambdaplugError:
    return LambdaplugError(
        f"read: cannot read {shown(text)}: {why} Expected what repr(...) prints, such as \"LambdaRank('ndcg@10')\" or "
        "\"Mixture([(0.7, LambdaRank('ndcg@10')), (0.3, QuerySoftmax())])\"."
    )
