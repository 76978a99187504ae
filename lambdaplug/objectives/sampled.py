"""Objectives that differentiate a measure's expectation over random rankings near the present one, from a few of them.

The draws are those of :mod:`lambdaplug.objectives.smoothing`: a function of the query's scores and labels, the seed, the
sample and the document, so that they are new in each round and the same wherever they are made.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ..checking import integer
from ..errors import LambdaplugError
from ..kernels import (
    AVERAGE,
    CASCADE,
    LANES,
    LINEAR,
    PADDING,
    PLACKETT_LUCE_ROWS,
    STOCHASTIC_RANK_ROWS,
    order_kernel,
    plackett_luce_kernel,
    stochastic_rank_kernel,
)
from ..measures import ERR, MAP, MRR, Measure, as_measure, registered
from ..measures.discounted import Discounted
from ..queries import Task, as_labels
from ..rows import blocks
from ..schedules import Guard, Moment, Number, check_of_iteration, constant, is_constant
from ..values import called
from .base import Into, Ranking, Scratch, ValueObjective, as_step, refuse_document_weights
from .smoothing import label_hash, noisy_order

__all__ = ["PLRank", "StochasticRank"]

BATCH = 8192  # rows whose drawn orders stay in the cache
CHAINS = {MAP: AVERAGE, ERR: CASCADE, MRR: CASCADE}  # how documents above enter, of measures that are no such sum


def is_linear(kind: type[Measure]) -> bool:
    """Whether the measure is a sum of gain times discount by rank, the discounts the same in every query."""
    return issubclass(kind, Discounted) and kind.value is Discounted.value


def admitted(measure: str | Measure, objective: str, others: tuple[type[Measure], ...]) -> Measure:
    """The measure, if it is linear in the gains or one of the others."""
    found = as_measure(measure)
    if is_linear(type(found)) or type(found) in others:
        return found
    known = sorted(name for name, kind in registered().items() if is_linear(kind) or kind in others)
    also = "" if others else " lp.StochasticRank also takes err, map and mrr;"
    raise LambdaplugError(
        f"{objective}: expected one of the measures {', '.join(known)}, with or without a cut-off, got {found}."
        f"{also} lp.LambdaRank, lp.SPSA and lp.FDSA take every measure."
    )


class Sampled(ValueObjective):
    """What both have."""

    usual: ClassVar[str]  # its own hessian
    samples: int
    seed: int
    hessian: str
    normalize: str

    def _begin(self, measure: Measure, labels: npt.ArrayLike | None, samples: int, seed: int) -> None:
        self._set(measure=measure, labels=as_labels(labels), samples=integer(samples, "samples"))
        self._set(seed=integer(seed, "seed", 0, 2**63 - 1))

    def _shape(self, hessian: str, normalize: str | None) -> None:
        if hessian not in (self.usual, "constant"):
            raise LambdaplugError(f"hessian: expected {self.usual!r} or 'constant', got {hessian!r}.")
        _, normalize = as_step("gradient" if hessian == "constant" else "newton", normalize, None)
        self._set(hessian=hessian, normalize=normalize, std=normalize == "std", unit=hessian == "constant")

    def _called(self, **own: tuple[Number, Number]) -> str:
        """As it would be made; ``own`` are its numbers before the seed."""
        usual = "std" if self.unit else "none"
        shape = {
            "hessian": (self.hessian, self.usual),
            "normalize": (self.normalize, usual),
            "labels": (self.labels, None),
        }
        return called(type(self).__name__, repr(str(self.measure)), **own, seed=(self.seed, 0), **shape)


class PLRank(Sampled):
    """PL-Rank: climb the measure's mean over rankings drawn by the Plackett-Luce model of the scores.

    A ranking is drawn from the top, each next document with a probability in proportion to exp(score) among those left;
    equally, by falling score plus Gumbel noise. The measure is M = sum over ranks r <= k of theta_r gain(r). In a drawn
    ranking, for document i at rank r, with m = min(r, k), D_q the sum of exp(s) from rank q on, p_q = exp(s_i)/D_q and
    R_q = sum over ranks q to k of theta gain,

        dM/ds_i = [r <= k] R_(r+1) + sum over q <= m of p_q (theta_q gain_i - R_q),

    whose mean over drawn rankings is the derivative of the mean of M; the gradient is minus the mean over ``samples`` of
    them. Prefix sums give it for all documents at once: a sample costs a sort of n, and no pairs are visited. The second
    derivative comes of the same sums.

    Parameters
    ----------
    measure : str or Measure
        A sum of gain times discount: ndcg, dcg, cndcg, rbp, p, recall or wta, with or without a cut-off.
    samples : int
        Rankings drawn per query and round. Eight are drawn at a time, side by side: fewer cost as much. Eight take about
        2.5 times as long as whole-list NDCG's LambdaRank on lists of 120, and on longer lists less than it.
    {draws_seed}
    hessian : 'second' or 'constant'
        'second': the absolute value of the estimated second derivative, for the mean of a measure is not convex.
        'constant': 1, and then each query's gradients are divided by their standard deviation unless ``normalize`` says
        otherwise.
    {normalize_both} {label_source}

    Notes
    -----
    {weights_of_queries}
    References: H. Oosterhuis (2022), "Learning-to-rank at the speed of sampling: Plackett-Luce gradient estimation with
    minimal computational complexity" (PL-Rank-3), SIGIR.

    >>> objective = lp.PLRank("dcg", samples=4000)
    >>> gradient, hessian = objective.gradients(labels=[0, 1], scores=[0.0, 0.0], group=[2])
    >>> bool(abs(gradient[0] - 0.25 * (1 - 1 / np.log2(3))) < 0.01)  # half of the rankings have each order
    True
    """

    usual = "second"
    cutoff = 1  # the work is that of sorting
    cutoffs: frozenset[int | None] = frozenset()

    def __init__(
        self,
        measure: str | Measure,
        *,
        samples: int = LANES,
        seed: int = 0,
        hessian: str = "second",
        normalize: str | None = None,
        labels: npt.ArrayLike | None = None,
    ) -> None:
        kind = admitted(measure, "PLRank", ())
        self._shape(hessian, normalize)
        self._begin(kind, labels, samples, seed)

    def __repr__(self) -> str:
        return self._called(samples=(self.samples, LANES))

    def accumulate(self, ranking: Ranking, task: Task, scratch: Scratch, into: Into) -> None:
        coefficient, gradient, hessian = into
        queries, scores = ranking.queries, ranking.scores
        refuse_document_weights(self, queries)
        ranking.require_finite(task)
        gain, _, norm, discount, k = self.prepared(queries)
        hashes, longest = label_hash(self.labels, queries), queries.longest
        draws = scratch.array("draws", 1 + LANES, longest, np.int32).reshape(-1)
        room = scratch.array("depths", 1, longest, np.float32)[0], draws[:longest], draws[longest:]
        orders = scratch.array("drawn orders", LANES, max(BATCH, longest), np.int32)
        prefixes = scratch.array("prefixes", PLACKETT_LUCE_ROWS, longest + 1)
        sampled = np.arange(LANES * -(-self.samples // LANES)) < self.samples
        weights = (sampled / self.samples).reshape(-1, LANES)
        base = int(queries.offsets[task.first])
        with scratch.deeper() as depth:
            _, second = scratch.sums(depth, len(gradient))
            for first, last in blocks(queries.offsets, BATCH, task.first, task.last):
                lists, low = (queries.offsets, first, last), int(queries.offsets[first]) - base
                sums = coefficient, gradient[low:], second[low:]
                for block, weight in enumerate(weights):
                    order_kernel()(scores, (hashes, self.seed, block * LANES), lists, room, orders)
                    plackett_luce_kernel()(scores, (gain, norm, discount, k), weight, (*lists, orders), prefixes, sums)
            hessian += np.abs(second, out=second)


class StochasticRank(Sampled):
    """StochasticRank: climb the measure's mean over rankings by scores plus normal noise.

    With z = a + sigma e, e normal, a = s - sigma mu y, the derivative of the mean of M with respect to s_i is estimated
    with document i held out: with the others' noisy scores Z_1 >= Z_2 >= ..., the derivative over i's own noise is known,

        dM/ds_i = sum over places q of (M with i at q - M now) (phi(Z_q) - phi(Z_(q-1)))
                = sum over places q of (M with i at q - M with i at q + 1) phi(Z_q),

    phi the density of N(a_i + sigma sum_{j != i} e_j/(n - 1), sigma^2 n/(n - 1)): i's noise, and what all have in common,
    are integrated out. The gradient is minus the mean over samples. For every measure here the bracket is
    (gain_i - h_q) c_q (D_q - D_(q+1)), h_q the gain at the others' place q, with c_q = 1, for AP 1 + the relevant ones
    above, for ERR and RR the product of 1 - gain above: O(1) after prefix sums. So a sample of a query of n costs a sort
    and n min(n, k) terms, k the cut-off: on lists of 120, whole-list NDCG takes about 3.6 times as long as LambdaRank's, and
    NDCG@10 1.5 times as long as that.

    Parameters
    ----------
    measure : str or Measure
        ndcg, dcg, cndcg, rbp, p, recall, wta, err, map or mrr, with or without a cut-off.
    sigma : float or schedule
        The noise's standard deviation, in units of the scores.
    samples : int
        Noisy rankings drawn per round.
    mu : float or schedule
        Documents are ranked as if they scored sigma * mu * label less, so that the mean does not gain where scores are
        merely equal (the paper's consistent smoothing).
    {draws_seed}
    hessian : 'gauss_newton' or 'constant'
        'gauss_newton': the sum of |terms| times phi's peak, which is positive and keeps a Newton step within
        sqrt(2 pi) sigma. 'constant': 1, and then each query's gradients are divided by their standard deviation unless
        ``normalize`` says otherwise.
    {normalize_both} {label_source}

    Notes
    -----
    {weights_of_queries}
    References: A. Ustimenko, L. Prokhorenkova (2020), "StochasticRank: global optimization of scale-free discrete
    functions", ICML.

    >>> gradient, hessian = lp.StochasticRank("ndcg").gradients(labels=[0, 1], scores=[0.0, 0.0], group=[2])
    >>> gradient.round(4)  # of two documents the rest is known: (1 - 1/log2(3)) times the density at 0 of N(0, 2)
    array([ 0.1041, -0.1041], dtype=float32)
    """

    usual = "gauss_newton"
    sigma: Number
    mu: Number

    def __init__(
        self,
        measure: str | Measure,
        *,
        sigma: Number = 1.0,
        samples: int = 1,
        mu: Number = 0.0,
        seed: int = 0,
        hessian: str = "gauss_newton",
        normalize: str | None = None,
        labels: npt.ArrayLike | None = None,
    ) -> None:
        kind = admitted(measure, "StochasticRank", tuple(CHAINS))
        self._shape(hessian, normalize)
        sigma, mu = (
            check_of_iteration(number, name, "lp.cosine(1.0, 0.1, 200)")
            for number, name in ((sigma, "sigma"), (mu, "mu"))
        )
        if sigma == 0.0:
            raise LambdaplugError("sigma: expected a positive number or a schedule, got 0.")
        self._set(sigma=sigma, mu=mu)
        self._begin(kind, labels, samples, seed)

    def __repr__(self) -> str:
        return self._called(sigma=(self.sigma, 1.0), samples=(self.samples, 1), mu=(self.mu, 0.0))

    @property
    def cutoff(self) -> int | None:
        return self.measure.cutoff

    @property
    def cutoffs(self) -> frozenset[int | None]:
        return frozenset([self._ranks])

    @property
    def _ranks(self) -> int | None:
        """How many ranks it must know: when a document is held out, the next one moves up."""
        return None if self.measure.cutoff is None else self.measure.cutoff + 1

    @property
    def schedules(self) -> tuple[Number | Guard, ...]:
        return self.sigma, self.mu

    def resolved(self, moment: Moment) -> StochasticRank:
        if is_constant(self.sigma) and is_constant(self.mu):
            return self
        sigma, mu = moment.number(self.sigma), moment.number(self.mu)
        if not (sigma > 0.0 and mu >= 0.0):
            raise LambdaplugError(
                f"{self!r}: sigma is {sigma:g} and mu {mu:g} at iteration {moment.iteration}; sigma must be positive "
                "and mu >= 0."
            )
        return self._with(sigma=sigma, mu=mu)

    def accumulate(self, ranking: Ranking, task: Task, scratch: Scratch, into: Into) -> None:
        coefficient, gradient, hessian = into
        queries, (first, last) = ranking.queries, task[:2]
        refuse_document_weights(self, queries)
        gain, _, norm, discount, k = self.prepared(queries)
        sigma, mu = constant(self.sigma), constant(self.mu)
        centres, lower = ranking.scores, None
        if mu > 0.0:
            rows = len(queries.labels)
            region = slice(int(queries.offsets[first]), int(queries.offsets[last]))
            centres, lower = scratch.array("centres", 2, rows)[:, :rows]
            lower[region] = sigma * mu * np.nan_to_num(queries.labels_of(self.labels)[region])
            centres[region] = ranking.scores[region] - lower[region]
        room = scratch.array("held out", STOCHASTIC_RANK_ROWS, queries.longest + PADDING, np.float32)
        how = sigma, CHAINS.get(type(self.measure), LINEAR)
        for sample in range(self.samples):
            draw = label_hash(self.labels, queries), self.seed, sample, sigma
            noisy, orders = noisy_order(ranking, task, scratch, draw, "normal", self._ranks, lower)
            lists = queries.offsets, first, last, orders[0]
            sums = coefficient / self.samples, gradient, hessian
            stochastic_rank_kernel()(centres, noisy[0], how, (gain, norm, discount, k), lists, room, sums)
