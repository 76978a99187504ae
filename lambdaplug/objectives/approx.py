"""Approx: true gradients of a smooth surrogate of the measure itself; and what all that climb a measure's value share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..errors import LambdaplugError
from ..kernels import Leaf, backward_kernel, get_num_threads, position_kernel, positions, smooth_kernel
from ..measures import Measure, as_measure, registered
from ..queries import Array, Queries, vector
from ..schedules import Moment, Number, check_of_iteration, constant
from ..values import keep
from .base import (
    EMPTY,
    Round,
    ValueObjective,
    check_step,
    label_column,
    normalization,
    planned,
    refuse_document_weights,
)

__all__ = ["Approx", "Climbing"]


class Climbing(ValueObjective):
    """The derivative of what a measure's value becomes when it is made smooth."""

    usual: ClassVar[str] = "gauss_newton"  # its own hessian
    positive: ClassVar[tuple[str, ...]] = ()  # numbers that must be
    hessian: str
    normalize: str | None

    def __post_init__(self) -> None:
        if self.hessian not in (self.usual, "constant"):
            raise LambdaplugError(f"hessian: expected {self.usual!r} or 'constant', got {self.hessian!r}.")
        check_step(None, self.normalize)
        keep(self, labels=label_column(self.labels))
        for name in self.scheduled:
            number = getattr(self, name)
            if number is not None:
                keep(self, **{name: check_of_iteration(number, name, "lp.cosine(1, 50, 200)")})

    @property
    def unit(self) -> bool:
        return self.hessian == "constant"

    @property
    def std(self) -> bool:
        return normalization(self.normalize, self.unit) == "std"

    def resolved(self, moment: Moment) -> Any:
        now = {name: moment.number(getattr(self, name)) for name in self.scheduled}
        for name in self.positive:
            if now[name] is not None and not now[name] > 0.0:
                raise LambdaplugError(
                    f"{self!r}: {name} is {now[name]:g} at iteration {moment.iteration}; it must be positive."
                )
        return planned(self, **now)


@dataclass(frozen=True, repr=False)
class Approx(Climbing):
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
    labels : str, optional
        The name of a column (see :func:`attach`) with other labels, NaN for a row without one; default the data set's labels.
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

    References
    ----------
    T. Qin, T.-Y. Liu, H. Li (2010), "A general approximation framework for direct optimization of
    information retrieval measures", Information Retrieval 13(4).

    Examples
    --------
    >>> import lambdaplug as lp
    >>> objective = lp.Approx("ndcg", alpha=1.0)
    >>> gradient, hessian = objective.gradients(labels=[0, 1], scores=[0.0, 0.0], group=[2])
    >>> gradient.round(4)
    array([ 0.0826, -0.0826], dtype=float32)
    >>> round(objective.value(labels=[0, 1], scores=[0.0, 0.0], group=[2]), 4)  # both at position 1.5
    0.7565
    """

    measure: str | Measure
    _: KW_ONLY
    labels: str | None = None
    alpha: Number = 10.0
    beta: Number | None = None
    hessian: str = "gauss_newton"
    normalize: str | None = None

    scheduled = positive = "alpha", "beta"
    cutoff = None  # every pair moves positions

    def __post_init__(self) -> None:
        kind = as_measure(self.measure)
        if kind.smooth() is None:
            known = sorted(name for name, kind in registered().items() if kind.smooth is not Measure.smooth)
            raise LambdaplugError(
                f"Approx: {kind} has no form in smooth positions; {', '.join(known)} have. "
                "lp.LambdaRank, lp.SPSA and lp.FDSA take every measure."
            )
        keep(self, measure=kind)
        super().__post_init__()

    @property
    def std(self) -> bool:
        return self.normalize == "std"

    def value(
        self,
        labels: npt.ArrayLike,
        scores: npt.ArrayLike,
        group: npt.ArrayLike | None = None,
        per_query: bool = False,
        iteration: int = 0,
        *,
        qid: npt.ArrayLike | None = None,
        columns: Mapping[str, Any] | None = None,
    ) -> Any:
        """The surrogate: its mean over the queries where the measure is defined, or one value per query (NaN elsewhere).

        ``gradients`` is minus the derivative of each query's value; the mean has it divided by the number of queries.
        """
        queries = Queries(labels, group, qid=qid, columns=columns)
        values = vector(scores, "scores")
        if len(values) != len(queries.labels):
            raise LambdaplugError(f"scores: expected one per row ({len(queries.labels)}), got {len(values)}.")
        norm, found = self.prepared(queries).norm, np.full(len(queries), np.nan)
        plan: Approx = self.resolved(Moment(iteration))
        queries.run([plan.leaf(Round(queries, values), found)], values, get_num_threads(), cutoff=self.cutoff)
        found[norm == 0.0] = np.nan
        if per_query:
            return found
        return float(np.nanmean(found)) if np.any(norm) else math.nan

    def at(self, round: Round) -> list[Leaf]:
        refuse_document_weights(self, round.queries)
        return [self.leaf(round, EMPTY)]

    def leaf(self, round: Round, values: Array) -> Leaf:
        """``values``: one per query, if they are wanted and not the gradient."""
        queries, k, longest = round.queries, self.kind.cutoff, round.queries.longest
        gain, _, norm, _, _ = self.prepared(queries)
        # One rank more than there are: how the table goes on must not depend on the longest query.
        discount = queries.memo(("discounts", self.kind, longest), lambda: self.kind.discounts(longest + 1))
        smooth = self.kind.smooth()
        assert smooth is not None
        kernels = position_kernel(), smooth_kernel(smooth), backward_kernel()
        beta = constant(self.beta) if self.beta is not None else 10.0 if k is None else 0.1
        cut = math.inf if k is None else k + 0.5, beta
        told = gain, norm, discount, constant(self.alpha), cut, values, round.coefficient, round.level
        return Leaf(positions, kernels, told)
