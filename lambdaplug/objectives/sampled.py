"""Objectives that differentiate a measure's expectation over random rankings near the present one, from a few of them.

The draws are those of :mod:`lambdaplug.objectives.smoothing`: a function of the query's scores and labels, the seed, the
sample and the document, so that they are new in each round and the same wherever they are made.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from ..checking import integer
from ..errors import LambdaplugError
from ..kernels import AVERAGE, CASCADE, LINEAR, Leaf, over_rankings, plackett_luce_kernel, stochastic_rank_kernel
from ..measures import ERR, MAP, MRR, Measure, as_measure, registered
from ..measures.discounted import Discounted
from ..queries import Array
from ..schedules import Number, constant
from ..values import keep
from .approx import Climbing
from .base import EMPTY, Round, refuse_document_weights
from .smoothing import drawing

__all__ = ["PLRank", "StochasticRank"]

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


class Sampled(Climbing):
    """What both have."""

    others: ClassVar[tuple[type[Measure], ...]] = ()  # measures that it takes beside the linear ones
    samples: int
    seed: int

    def __post_init__(self) -> None:
        super().__post_init__()
        keep(self, measure=admitted(self.measure, type(self).__name__, self.others))
        keep(self, samples=integer(self.samples, "samples"), seed=integer(self.seed, "seed", 0, 2**63 - 1))

    def over_rankings(
        self, loss: Any, round: Round, noise: tuple[float, str], how: tuple[float, int], lower: Array
    ) -> list[Leaf]:
        """The loss of rankings by the scores less ``lower``, if it is not empty, plus so much noise of a kind."""
        refuse_document_weights(self, round.queries)
        gain, _, norm, discount, k = self.prepared(round.queries)
        draw, *kernels = drawing(self, round, *noise)
        centres = lower, round.scores - lower if len(lower) else round.scores
        values = (gain, norm, discount, k), draw, self.samples, how, centres, round.coefficient, round.level
        return [Leaf(over_rankings, (*kernels, loss), values)]


@dataclass(frozen=True, repr=False)
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
        Rankings drawn per query and round.
    seed : int
        Of the draws.
    hessian : 'second' or 'constant'
        'second': the absolute value of the estimated second derivative, for the mean of a measure is not convex.
        'constant': 1, and then each query's gradients are divided by their standard deviation unless ``normalize`` says
        otherwise.
    normalize : 'std', 'none' or None
        'std' divides each query's gradients (and hessians) by the standard deviation of its gradients.
    labels : str, optional
        The name of a column (see :func:`attach`) with other labels, NaN for a row without one; default the data set's labels.

    Notes
    -----
    Weights are one per query: a query's value has no parts that documents' weights could belong to.

    References
    ----------
    H. Oosterhuis (2022), "Learning-to-rank at the speed of sampling: Plackett-Luce gradient estimation with
    minimal computational complexity" (PL-Rank-3), SIGIR.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> objective = lp.PLRank("dcg", samples=4000)
    >>> gradient, hessian = objective.gradients(labels=[0, 1], scores=[0.0, 0.0], group=[2])
    >>> bool(abs(gradient[0] - 0.25 * (1 - 1 / np.log2(3))) < 0.01)  # half of the rankings have each order
    True
    """

    measure: str | Measure
    _: KW_ONLY
    samples: int = 8
    seed: int = 0
    hessian: str = "second"
    normalize: str | None = None
    labels: str | None = None

    usual = "second"
    cutoff = 1  # the work is that of sorting
    ranked = False  # its rankings are drawn

    def at(self, round: Round) -> list[Leaf]:
        return self.over_rankings(plackett_luce_kernel(), round, (1.0, "gumbel"), (0.0, LINEAR), EMPTY)


@dataclass(frozen=True, repr=False)
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
    seed : int
        Of the draws.
    hessian : 'gauss_newton' or 'constant'
        'gauss_newton': the sum of |terms| times phi's peak, which is positive and keeps a Newton step within
        sqrt(2 pi) sigma. 'constant': 1, and then each query's gradients are divided by their standard deviation unless
        ``normalize`` says otherwise.
    normalize : 'std', 'none' or None
        'std' divides each query's gradients (and hessians) by the standard deviation of its gradients.
    labels : str, optional
        The name of a column (see :func:`attach`) with other labels, NaN for a row without one; default the data set's labels.

    Notes
    -----
    Weights are one per query: a query's value has no parts that documents' weights could belong to.

    References
    ----------
    A. Ustimenko, L. Prokhorenkova (2020), "StochasticRank: global optimization of scale-free discrete
    functions", ICML.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> gradient, hessian = lp.StochasticRank("ndcg").gradients(labels=[0, 1], scores=[0.0, 0.0], group=[2])
    >>> gradient.round(4)  # of two documents the rest is known: (1 - 1/log2(3)) times the density at 0 of N(0, 2)
    array([ 0.1041, -0.1041], dtype=float32)
    """

    measure: str | Measure
    _: KW_ONLY
    sigma: Number = 1.0
    samples: int = 1
    mu: Number = 0.0
    seed: int = 0
    hessian: str = "gauss_newton"
    normalize: str | None = None
    labels: str | None = None

    others = tuple(CHAINS)
    scheduled = "sigma", "mu"
    positive = ("sigma",)

    @property
    def cutoff(self) -> int | None:
        return self.kind.cutoff

    def at(self, round: Round) -> list[Leaf]:
        sigma, mu, lower = constant(self.sigma), constant(self.mu), EMPTY
        if mu != 0.0:
            lower = sigma * mu * np.nan_to_num(round.queries.labels_of(self.labels))
        how = sigma, CHAINS.get(type(self.kind), LINEAR)
        return self.over_rankings(stochastic_rank_kernel(), round, (sigma, "normal"), how, lower)
