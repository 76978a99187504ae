"""Approx: true gradients of a smooth surrogate of the measure itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..deprecation import labels_first
from ..errors import LambdaplugError
from ..kernels import (
    POSITION_ROWS,
    backward_kernel,
    chunk_kernel,
    get_num_threads,
    position_kernel,
    run_tasks,
    smooth_kernel,
)
from ..measures import Measure, as_measure, registered
from ..queries import Array, Queries, Task, as_labels, vector
from ..schedules import Guard, Moment, Number, check_of_iteration, constant, is_clipped, is_constant
from ..values import called
from .base import Into, Ranking, Scratch, ValueObjective, as_step, refuse_document_weights

__all__ = ["Approx"]

EXAMPLE = "lp.cosine(1, 50, 200)"


class Approx(ValueObjective):
    """Climb the measure itself, made smooth: ranks become positions that need not be integers,

        position(x) = 1 + sum over y != x of 1/(1 + exp(alpha (s_x - s_y))),

    [position <= k] becomes 1/(1 + exp(-beta (k + 1/2 - position))), and the gradient is minus the derivative of each
    query's surrogate with respect to the scores. For G = gain and rel = 1 if relevant,

    - NDCG: sum of G(x)/log2(1 + position(x)) * [position(x) <= k] / ideal; DCG without the ideal. Another discount than
      ``"log2"`` is interpolated between its ranks by a smooth monotone cubic; so are RBP's powers.
    - AP: (1/R) sum over relevant y of [position(y) <= k]/position(y) * (1 + sum over other relevant x of
      1/(1 + exp(-beta (position(y) - position(x))))).
    - RR: the mean of [position <= k]/position over the relevant documents with weights in proportion to
      exp(-beta position): the larger beta, the more it is the first one's alone.
    - P@k, Recall@k, WTA: the sum of rel(x) [position(x) <= k] over k, over R, and for k = 1.

    All tend to the measure as alpha and beta grow, where no two scores are equal; equal scores share the mean of their
    ranks. A query's gradients sum to 0.

    Parameters
    ----------
    measure : str or Measure
        One that has a form in positions: those above.
    {label_source}
    alpha : float or schedule
        Steepness of the positions; a schedule sharpens them while the model learns.
    beta : float or schedule, optional
        Steepness in positions, of the cut-off and of AP's and RR's comparisons. A cut-off has a slope only within a few
        1/beta of k, and a model starts with every document in the middle of the list: so the default is 0.1 for a measure with
        a cut-off, and 10 for one without. For lists of hundreds begin lower still, and sharpen by a schedule,
        ``lp.cosine(0.02, 2.0, 100)``.
    hessian : 'gauss_newton' or 'constant'
        Surrogates are not convex, so their second derivative is no use to a booster. ``"gauss_newton"`` is, with q the pair's
        sigmoid and w the derivative with respect to the position, the sum over pairs of
        |w(x) - w(y)| (alpha q (1 - q)) (alpha/4): the squared derivative of q with one factor at its largest value. It is
        positive, and no Newton step is longer than 4/alpha, the width of the sigmoid; the square itself would have steps
        without bound for documents far from all others. ``"constant"`` is 1: plain steps along the gradient.
    normalize : str, optional
        ``"std"`` divides each query's gradients (and Gauss-Newton hessians) by the standard deviation of its gradients;
        default ``"none"``, the derivative as it is.

    Notes
    -----
    A model that starts from zero with ``"gauss_newton"`` learns scores in units of 1/alpha: as sigma in LambdaRank,
    alpha then changes little but that unit. It matters with ``"constant"``, a schedule, regularisation or initial scores.

    References: T. Qin, T.-Y. Liu, H. Li (2010), "A general approximation framework for direct optimization of
    information retrieval measures", Information Retrieval 13(4).

    >>> objective = lp.Approx("ndcg", alpha=1.0)
    >>> gradient, hessian = objective.gradients(labels=[0, 1], scores=[0.0, 0.0], group=[2])
    >>> gradient.round(4)
    array([ 0.0826, -0.0826], dtype=float32)
    >>> round(objective.value(labels=[0, 1], scores=[0.0, 0.0], group=[2]), 4)  # both at position 1.5
    0.7565
    """

    alpha: Number
    beta: Number
    hessian: str
    normalize: str
    usual: float  # beta's default
    cutoff: int | None = None  # every pair moves positions

    def __init__(
        self,
        measure: str | Measure,
        *,
        labels: npt.ArrayLike | None = None,
        alpha: Number = 10.0,
        beta: Number | None = None,
        hessian: str = "gauss_newton",
        normalize: str | None = None,
    ) -> None:
        kind = as_measure(measure)
        if kind.smooth() is None:
            known = sorted(name for name, kind in registered().items() if kind.smooth is not Measure.smooth)
            raise LambdaplugError(
                f"Approx: {kind} has no form in smooth positions; {', '.join(known)} have. "
                "lp.LambdaRank, lp.SPSA and lp.FDSA take every measure."
            )
        usual = 10.0 if kind.cutoff is None else 0.1
        if hessian not in ("gauss_newton", "constant"):
            raise LambdaplugError(f"hessian: expected 'gauss_newton' or 'constant', got {hessian!r}.")
        _, normalize = as_step(None, normalize, None)
        self._set(measure=kind, labels=as_labels(labels), hessian=hessian, normalize=normalize, usual=usual)
        self._set(alpha=_steepness(alpha, "alpha"), beta=_steepness(usual if beta is None else beta, "beta"))
        self._set(std=normalize == "std", unit=hessian == "constant")

    def __repr__(self) -> str:
        numbers = {"alpha": (self.alpha, 10.0), "beta": (self.beta, self.usual)}
        shape = {"hessian": (self.hessian, "gauss_newton"), "normalize": (self.normalize, "none")}
        return called("Approx", repr(str(self.measure)), labels=(self.labels, None), **numbers, **shape)

    @property
    def schedules(self) -> tuple[Number | Guard, ...]:
        return self.alpha, self.beta

    def resolved(self, moment: Moment) -> Approx:
        now = {"alpha": moment.number(self.alpha), "beta": moment.number(self.beta)}
        for name, value in now.items():
            if not value > 0.0:
                raise LambdaplugError(
                    f"{self!r}: {name} is {value:g} at iteration {moment.iteration}; it must be positive."
                )
        return self._with(**now)

    @labels_first(1)
    def value(
        self,
        labels: npt.ArrayLike,
        scores: npt.ArrayLike,
        group: npt.ArrayLike | None = None,
        per_query: bool = False,
        iteration: int = 0,
        *,
        qid: npt.ArrayLike | None = None,
    ) -> Any:
        """The surrogate: its mean over the queries where the measure is defined, or one value per query (NaN elsewhere).

        ``gradients`` is minus the derivative of each query's value; the mean has it divided by the number of queries.
        """
        queries = Queries(labels, group, qid=qid)
        values = vector(scores, "scores")
        if len(values) != len(queries.labels):
            raise LambdaplugError(f"scores: expected one per row ({len(queries.labels)}), got {len(values)}.")
        threads = get_num_threads()
        plan = self.resolved(Moment(iteration))
        ranking = Ranking(queries, values, {None: queries.rank(values, threads)}, iteration)
        norm = self.prepared(queries).norm
        found = np.full(len(queries), np.nan)

        def work(next_task: Callable[[], Task | None]) -> None:
            scratch = Scratch()
            while (task := next_task()) is not None:
                raw = plan.forward(ranking, task, scratch)[-1]
                found[task.first : task.last] = raw * norm[task.first : task.last]

        run_tasks(work, queries.tasks(self.cutoff, self.divisible, threads), threads)
        found[norm == 0.0] = np.nan
        if per_query:
            return found
        return float(np.nanmean(found)) if np.any(norm) else math.nan

    def forward(
        self, ranking: Ranking, task: Task, scratch: Scratch
    ) -> tuple[float, npt.NDArray[Any], npt.NDArray[Any], Array]:
        """alpha, the positions' rows with the slopes in them, the chunks' ends, and the raw value of each query."""
        queries, (first, last) = ranking.queries, task[:2]
        offsets, order = queries.offsets, ranking.orders[None]
        gain, _, norm, _, _ = self.prepared(queries)
        longest = int(queries.sizes.max(initial=0))
        # One rank more than there are: how the table goes on must not depend on the longest query.
        discount = queries.memo(("discounts", self.measure, longest), lambda: self.measure.discounts(longest + 1))
        k = self.measure.cutoff
        alpha, beta = constant(self.alpha), constant(self.beta)
        smooth = self.measure.smooth()
        assert smooth is not None
        size = int(offsets[last] - offsets[first])
        rows = scratch.array("positions", POSITION_ROWS, size)
        ends = scratch.array("ends", 1, size, np.int64)[0]
        values = scratch.array("values", 1, last - first)[0, : last - first]
        chunk_kernel()(ranking.scores, alpha, norm, offsets, first, last, order, rows, ends)
        position_kernel()(norm, offsets, first, last, rows, ends)
        cut = math.inf if k is None else k + 0.5
        smooth_kernel(smooth)(gain, discount, (cut, beta), norm, (offsets, first, last, order), rows, values)
        return alpha, rows, ends, values

    def accumulate(self, ranking: Ranking, task: Task, scratch: Scratch, into: Into) -> None:
        queries, (first, last) = ranking.queries, task[:2]
        refuse_document_weights(self, queries)
        alpha, rows, ends, _ = self.forward(ranking, task, scratch)
        norm = self.prepared(queries).norm
        lists = queries.offsets, first, last, ranking.orders[None]
        backward_kernel()(alpha, norm, lists, rows, ends, into)


def _steepness(number: object, name: str) -> Number:
    steepness = check_of_iteration(number, name, EXAMPLE)
    if is_clipped(steepness):
        raise LambdaplugError(
            f"{name}: {number!r} is a schedule of a weight and never exceeds 1. Use {EXAMPLE}, lp.step({{0: 1, 100: 10}}) or a "
            "function of the iteration, lambda m: 1 + 0.1 * m."
        )
    if is_constant(steepness) and not steepness > 0.0:  # type: ignore[operator]
        raise LambdaplugError(f"{name}: expected a positive number or a schedule, got {number!r}.")
    return steepness
