"""Objectives, measures, costs and schedules from their text, for configuration files."""

import functools
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
from .texts import made_of
from .values import Value

__all__ = ["read"]

BASES = {Value, Cost, Custom, Measure, Objective, Construction, Watcher}  # what is in the modules and not for calling
EXAMPLE = "\"LambdaRank('ndcg@10')\", as repr(...) prints it; a measure's text, 'ndcg@10', goes where a measure belongs"


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
    found = made_of(text, names(), EXAMPLE) if isinstance(text, str) else None
    if not isinstance(found, Value):
        raise LambdaplugError(
            f"read: expected the text of an objective, measure, cost or schedule such as {EXAMPLE}; got {shown(text)}."
        )
    return found


@functools.cache
def names() -> dict[str, Callable[..., Any]]:
    """What may be called, by the name that is called."""
    found: dict[str, Callable[..., Any]] = {"objective": objectives.objective, "interpolate": objectives.interpolate}
    for room in (objectives, constructions, measures, costs, schedules):
        for thing in vars(room).values():
            if isinstance(thing, type) and issubclass(thing, Value) and thing not in BASES:
                found[thing.called_as or thing.__name__] = thing
    return found | {f"presets.{name}": getattr(presets, name) for name in presets.__all__}
