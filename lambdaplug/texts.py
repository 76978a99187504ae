"""Values from their text: calls of known names, with numbers, text, lists and dicts in them. Nothing is evaluated."""

import ast
import difflib
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from .checking import shown
from .errors import LambdaplugError

__all__ = ["made_of", "nearest"]

Makers: TypeAlias = Mapping[str, Callable[..., Any]]

NUMBERS = {"inf": math.inf, "nan": math.nan}


def made_of(text: str, makers: Makers, example: str) -> Any:
    """What a text says; ``makers`` are what it may call, by name, and ``example`` is shown where it cannot be read."""
    try:
        return _made(ast.parse(text.strip(), mode="eval").body, makers)
    except LambdaplugError:
        raise
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:  # the last two: nested too deep
        raise LambdaplugError(f"cannot read {shown(text)}: {error}. Expected a text such as {example}.") from None


def _made(node: ast.expr, makers: Makers) -> Any:
    """What this part of the text says."""
    match node:
        case ast.Constant(value=str() | int() | float() | None as value):
            return value
        case ast.Name(id=name) if name in NUMBERS:
            return NUMBERS[name]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant() | ast.Name() as operand):
            return -_made(operand, makers)
        case ast.List(elts=parts):
            return [_made(part, makers) for part in parts]
        case ast.Tuple(elts=parts):
            return tuple(_made(part, makers) for part in parts)
        case ast.Dict(keys=keys, values=values) if None not in keys:
            return {_made(key, makers): _made(value, makers) for key, value in zip(keys, values, strict=True) if key}
        case ast.Call(func=ast.Name() | ast.Attribute() as function, args=args, keywords=keywords):
            name = ast.unparse(function).removeprefix("lambdaplug.").removeprefix("lp.")
            return _called(name, [_made(one, makers) for one in args], keywords, makers)
    raise ValueError(f"{shown(ast.unparse(node))} is no call, such as QuerySoftmax(), number, text, list or dict")


def _called(name: str, args: list[Any], keywords: list[ast.keyword], makers: Makers) -> Any:
    if name not in makers:
        meant = nearest(name, {one: one for one in makers})
        raise ValueError(f"there is no {name!r}.{meant} There are: {', '.join(sorted(makers))}")
    parameters = {one: one for one in inspect.signature(makers[name]).parameters}
    takes = f"It takes: {', '.join(parameters) or 'nothing'}"
    for keyword in keywords:
        if keyword.arg not in parameters:
            raise ValueError(f"{name} has no parameter {keyword.arg!r}.{nearest(str(keyword.arg), parameters)} {takes}")
    named = {str(one.arg): _made(one.value, makers) for one in keywords}
    if len(named) < len(keywords):
        raise ValueError(f"{name} was given a parameter twice")
    try:
        return makers[name](*args, **named)
    except TypeError as error:
        raise ValueError(f"{error}. {takes}") from None


def nearest(word: str, meanings: Mapping[str, str]) -> str:
    """What was meant by a word that is like one of these, as a sentence."""
    by_case = {one.lower(): meant for one, meant in meanings.items()}
    found = difflib.get_close_matches(word.lower(), by_case, n=1, cutoff=0.5)
    return f" The nearest is {by_case[found[0]]!r}." if found else ""
