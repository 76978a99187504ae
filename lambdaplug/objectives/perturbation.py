"""Numerical gradients: for any measure, even one known only as a function of the ranked labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from ..checking import integer, not_negative, positive
from ..errors import LambdaplugError
from ..kernels import NOISE, move_kernel, rank_kernel, sign_kernel, value_kernel
from ..measures import Measure, as_measure
from ..queries import Array, Task, as_labels
from ..schedules import Moment
from ..values import called
from .base import Into, Ranking, Scratch, ValueObjective, as_step, refuse_document_weights
from .smoothing import label_hash

__all__ = ["FDSA", "SPSA", "simultaneous_slope"]


def simultaneous_slope(
    value: Callable[[Array], Array],
    scores: Array,
    offsets: npt.NDArray[np.int64],
    *,
    c: float,
    draws: int,
    seed: int = 0,
    labels: npt.NDArray[np.uint32] | None = None,
) -> Array:
    """The derivative of each query's ``value`` with respect to its rows, estimated by simultaneous perturbation.

    slope_i = mean over draws of (value(s + c delta) - value(s - c delta)) / (2 c delta_i), delta in {-1, +1}^n drawn
    for each query on its own: a function of its scores, of ``labels``, a hash of each query's labels, and of seed and
    draw. Its expectation is the derivative up to O(c^2), whatever the number of draws.

    >>> offsets = np.array([0, 2, 3])
    >>> slope = simultaneous_slope(lambda s: np.add.reduceat(s, offsets[:-1]), np.zeros(3), offsets, c=0.1, draws=2000)
    >>> bool(np.abs(slope - 1).max() < 0.1)
    True
    """
    sizes = np.diff(offsets)
    labels = np.zeros(len(sizes), np.uint32) if labels is None else labels
    delta, slope = np.empty(len(scores)), np.zeros(len(scores))
    for draw in range(draws):
        sign_kernel()(scores, (labels, seed, draw), offsets, delta)
        with np.errstate(over="ignore"):  # the ranking says which score it was
            higher, lower = value(scores + c * delta), value(scores - c * delta)
        difference = higher - lower
        difference[np.abs(difference) <= NOISE * np.abs(lower)] = 0.0
        slope += np.repeat(difference, sizes) * delta  # 1/delta = delta
    slope /= 2.0 * c * draws
    return slope


DISTANCE = 0.3  # the default c, for scores whose spread is about 1


class _Numerical(ValueObjective):
    """Gradient steps along an estimated slope of the measure."""

    c: float
    normalize: str

    def __init__(self, measure: str | Measure, labels: npt.ArrayLike | None, c: float, normalize: str | None) -> None:
        c = positive(c, "c", ", the distance by which scores are moved")
        _, normalize = as_step("gradient", normalize, None)
        self._set(measure=as_measure(measure), labels=as_labels(labels), c=c, normalize=normalize)
        self._set(std=normalize == "std", unit=True)

    def _options(self) -> dict[str, tuple[Any, Any]]:
        return {"labels": (self.labels, None), "c": (self.c, DISTANCE)}

    def __repr__(self) -> str:
        options = {**self._options(), "normalize": (self.normalize, "std")}
        return called(type(self).__name__, repr(str(self.measure)), **options)

    def _refuse(self, query: int) -> NoReturn:
        raise LambdaplugError(f"{self!r}: the measure of query {query} is not finite for some order of its documents.")


class SPSA(_Numerical):
    """Simultaneous perturbation stochastic approximation, for every measure M.

    In each query of its own all scores are moved at once, by c_m delta with delta drawn from {-1, +1}^n, and back:

        gradient_i = - (M(s + c_m delta) - M(s - c_m delta)) / (2 c_m delta_i),  c_m = c / m^c_decay,  m = 1, 2, ...

    the mean of ``evaluations``/2 draws. Hessians are 1.

    As those of smoothed lambdas, the draws are a function of the query itself: seed, scores as float32, labels, draw and
    the document's place. So they are the same at any number of threads, in continued trainings and on a cluster, and new
    in each round because the scores move. Where nothing moves, they are repeated; queries of equal scores and labels
    draw alike.

    Parameters
    ----------
    measure : str or Measure
        What to train for.
    labels : array, optional
        Another label source, one value per row in the data set's row order; default the data set's labels.
    evaluations : int
        Of the measure in each iteration: 2, 4, 6, ...
    c, c_decay : float
        How far scores are moved, in units of the scores, and how that falls with the iterations m. Documents further apart
        than 2 c never change places, and so never show what that would be worth.
    seed : int
        Any integer >= 0.
    {normalize_std}
    References: Y. Yue, C. Burges (2007), "On using simultaneous perturbation stochastic approximation for IR measures,
    and the empirical optimality of LambdaRank", NIPS Machine Learning for Web Search Workshop.

    >>> lp.SPSA("err@10", evaluations=8)
    SPSA('err@10', evaluations=8)
    """

    evaluations: int
    c_decay: float
    seed: int
    cutoff = 1  # the work is that of sorting
    cutoffs: frozenset[int | None] = frozenset([None])

    def __init__(
        self,
        measure: str | Measure,
        *,
        labels: npt.ArrayLike | None = None,
        evaluations: int = 2,
        c: float = DISTANCE,
        c_decay: float = 0.101,
        seed: int = 0,
        normalize: str | None = None,
    ) -> None:
        super().__init__(measure, labels, c, normalize)
        if integer(evaluations, "evaluations", 2) % 2:
            raise LambdaplugError(f"evaluations: they come in pairs, so expected an even number, got {evaluations!r}.")
        self._set(evaluations=int(evaluations), c_decay=not_negative(c_decay, "c_decay"))
        self._set(counted=self.c_decay > 0.0, seed=integer(seed, "seed", 0, 2**63 - 1))

    def resolved(self, moment: Moment) -> SPSA:
        return self._with(c=self.c / (moment.iteration + 1) ** self.c_decay, c_decay=0.0, counted=False)

    def _options(self) -> dict[str, tuple[Any, Any]]:
        last = {"c_decay": (self.c_decay, 0.101), "seed": (self.seed, 0)}
        return {"evaluations": (self.evaluations, 2), **super()._options(), **last}

    def accumulate(self, ranking: Ranking, task: Task, scratch: Scratch, into: Into) -> None:
        coefficient, gradient, hessian = into
        queries, (first, last) = ranking.queries, task[:2]
        refuse_document_weights(self, queries)
        gain, _, norm, discount, k = self.prepared(queries)
        rows = slice(int(queries.offsets[first]), int(queries.offsets[last]))
        offsets = queries.offsets[first : last + 1] - queries.offsets[first]
        gain, norm, count = gain[rows], norm[first:last], last - first
        order = ranking.orders[None][rows].copy()
        longest = int(np.diff(offsets).max(initial=0))
        keys = scratch.array("keys", 2, longest)
        documents = scratch.array("documents", 2, longest, np.int32)
        ranked, values = np.empty(longest), np.empty(count)

        def value(scores: Array) -> Array:
            row = rank_kernel()(scores, offsets, 0, count, order, keys, documents)
            if row >= 0:
                raise LambdaplugError(f"{self!r}: the score of row {rows.start + row} is too large to be moved by c.")
            kernel = value_kernel(self.measure.value)
            self.measure.run(kernel, gain, discount, k, (offsets, 0, count, order), ranked, values)
            found = np.where(norm == 0.0, 0.0, values * norm)
            if not np.isfinite(found).all():
                self._refuse(first + int(np.flatnonzero(~np.isfinite(found))[0]))
            return found

        gradient -= coefficient * simultaneous_slope(
            value,
            ranking.scores[rows],
            offsets,
            c=self.c,
            draws=self.evaluations // 2,
            seed=self.seed,
            labels=label_hash(self.labels, queries)[first:last],
        )
        hessian += coefficient


class FDSA(_Numerical):
    """Finite differences, two evaluations per document, for every measure M:

        gradient_i = - (M with s_i + c - M with s_i - c) / 2c.

    It costs n values of O(n) per query. Hessians are 1.

    Parameters
    ----------
    measure : str or Measure
        What to train for.
    {label_source}
    c : float
        How far each score is moved, in units of the scores; it does not fall with the iterations.
    {normalize_std}
    References: J. Kiefer, J. Wolfowitz (1952), "Stochastic estimation of the maximum of a regression function", Annals
    of Mathematical Statistics 23(3).

    >>> lp.FDSA("ndcg", c=0.5, normalize="none").gradients(labels=[0, 1], scores=[0.2, 0.0], group=[2])[0].round(3)
    array([ 0.369, -0.369], dtype=float32)
    """

    cutoff: int | None = None

    def __init__(
        self,
        measure: str | Measure,
        *,
        labels: npt.ArrayLike | None = None,
        c: float = DISTANCE,
        normalize: str | None = None,
    ) -> None:
        super().__init__(measure, labels, c, normalize)

    def accumulate(self, ranking: Ranking, task: Task, scratch: Scratch, into: Into) -> None:
        coefficient, gradient, hessian = into
        queries = ranking.queries
        refuse_document_weights(self, queries)
        gain, _, norm, discount, k = self.prepared(queries)
        slope = scratch.array("slope", 1, len(gradient))[0, : len(gradient)]
        ranked = scratch.array("ranked", 2, int(queries.sizes.max(initial=0)))
        lists = queries.offsets, task.first, task.last, ranking.orders[None]
        kernel = move_kernel(self.measure.value)
        self.measure.run(kernel, ranking.scores, self.c, (gain, norm, discount, k), lists, ranked, slope)
        if not np.isfinite(slope).all():
            row = queries.offsets[task.first] + np.flatnonzero(~np.isfinite(slope))[0]
            self._refuse(int(np.searchsorted(queries.offsets, row, side="right")) - 1)
        gradient -= coefficient * slope
        hessian += coefficient
