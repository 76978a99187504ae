"""Measures in falling priority, as one number: a later one decides only where the earlier ones are level."""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NoReturn

from ..checking import is_number, positive, shown
from ..columns import column_name
from ..errors import LambdaplugError
from ..values import keep
from .base import Measure
from .text import as_measures

__all__ = ["Lexicographic"]

LAST = 1.0 - 1e-6  # the largest fraction, which XGBoost's six decimals do not round up


@dataclass(frozen=True, repr=False)
class Lexicographic(Measure):
    """Measures in falling priority: of two models the one whose earlier measure is higher is better, and where that is level
    within the tolerance, the one whose next measure is higher.

    Of two measures A and B and a tolerance d: value = floor(mean A / d) + mean B.

    For ``lp.evaluate`` and ``lp.metric``, and so to stop a training and to choose between models: the graded measure of Svore,
    Volkovs and Burges (2011). To train for it, use :class:`lambdaplug.Graded`.

    Parameters
    ----------
    measures : sequence of str or Measure
        Two or more. All but the first must be between 0 and 1.
    tolerance : float or sequence of float
        By how much the mean of a measure may differ and still be level, for each measure but the last.
    labels : sequence of str or None, optional
        For each measure the name of a column (see :func:`attach`) of other labels; ``None`` are the data set's own.

    Notes
    -----
    Boosters compare one number with their best so far, so level must not depend on what came before: two means are level
    if they are in the same step of a grid, floor(mean / tolerance). So whatever is chosen is less than the tolerance below the
    best first measure, and gains of a later measure never add up to a larger loss. (Two means that differ by less than the
    tolerance may be on both sides of a step; then the earlier measure decides.)

    The number counts the steps, and its fraction is the last measure: with a tolerance of 0.005, 124.4512 is a first measure from
    0.620 to 0.625 and a second one of 0.4512. Of three measures, the steps of the first are multiplied by the number of steps
    that the second can have (201), and the second's are added. It is a number of many queries and has no value of one query:
    compare the measures one by one.

    References
    ----------
    K. Svore, M. Volkovs, C. Burges (2011), "Learning to rank with multiple objective functions", WWW.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> graded = lp.Lexicographic(["ndcg@3", "cndcg@3"], tolerance=0.005, labels=[None, "clicks"])
    >>> labels, clicks = [2, 1, 0, 1], [0.1, 0.9, 0.0, 0.2]
    >>> found = lp.evaluate(graded, labels, [4, 3, 1, 2], [4], columns={"clicks": clicks})
    >>> round(found["ndcg@3>cndcg@3"], 2)
    200.66
    >>> lp.evaluate(["ndcg@3"], labels, [4, 3, 1, 2], [4])
    {'ndcg@3': 1.0}
    """

    measures: Sequence[str | Measure]
    _: KW_ONLY
    tolerance: float | Sequence[float]
    labels: Sequence[str | None] | None = None

    def __post_init__(self) -> None:
        measures = as_measures(self.measures)
        if len(measures) < 2 or any(isinstance(one, Lexicographic) for one in measures):
            raise LambdaplugError(
                f"Lexicographic: expected two or more measures in a list, got {shown(self.measures)}."
            )
        given: Any = self.tolerance
        steps = (given,) * (len(measures) - 1) if is_number(given) else tuple(given)
        steps = tuple(positive(step, "Lexicographic: tolerance") for step in steps)
        own = (None,) * len(measures) if self.labels is None else tuple(self.labels)
        if isinstance(self.labels, str) or len(own) != len(measures) or len(steps) != len(measures) - 1:
            raise LambdaplugError(
                f"Lexicographic: expected tolerance= one number, or {len(measures) - 1} of them, one for each measure but "
                f"the last, and labels= a column's name or None for each of the {len(measures)} measures; got "
                f"{shown(given)} and {shown(self.labels)}."
            )
        own = tuple(None if one is None else column_name(one, "labels", "clicks") for one in own)
        keep(self, measures=measures, tolerance=steps, labels=own if any(own) else None)

    @property
    def parts(self) -> tuple[tuple[Measure, str | None], ...]:
        return tuple(zip(self.measures, self.labels or (None,) * len(self.measures), strict=True))  # type: ignore[arg-type]

    def combined(self, means: Sequence[float]) -> float:
        for measure, mean in zip(self.measures[1:], means[1:], strict=True):
            if mean < 0.0 or mean > 1.0:
                raise LambdaplugError(
                    f"{self}: expected measures from 0 to 1 after the first, and {measure} is {mean:g}. Put it first, or "
                    "take its normalised form."
                )
        if any(math.isnan(mean) for mean in means):
            return math.nan
        number = 0.0
        for mean, step in zip(means[:-1], self.tolerance, strict=True):  # type: ignore[arg-type]
            number = math.floor(mean / step) + number * (math.floor(1.0 / step) + 1)
        return number + min(means[-1], LAST)

    def prepare(self, *_: Any) -> NoReturn:
        """Whoever asks for gains wants a value, or a change, of single queries."""
        raise LambdaplugError(
            f"{self} compares means over queries, to choose and to stop: it has no value of one query. Ask for its measures one by "
            "one; to train for them, say lp.Graded([...])."
        )

    def __str__(self) -> str:
        return ">".join(str(measure) for measure in self.measures)

    def written(self) -> str:
        return repr(self)
