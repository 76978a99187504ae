"""The hosts' own ranking objectives, to the last bit; ``lp.presets`` makes them.

What they promise is not a formula but a model: the trees that LightGBM's or XGBoost's built-in objective would have
grown. So they keep the host's arithmetic (float32 sums in the host's order, its table of sigmoids, its random numbers),
its zero hessians, and its way with weights.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..checking import integer, not_negative, positive
from ..errors import LambdaplugError
from ..kernels import TABLE_SIZE, Leaf, PairBias
from ..kernels import builtin as kernels
from ..measures import MAP, NDCG, Measure, Pairs
from ..queries import Array, Queries
from ..rows import differing, gain_levels, row_order
from ..schedules import Memory, Moment
from ..values import keep
from .base import EMPTY, Objective, Round, planned, refuse_document_weights, require_order
from .unbiased import State, begun

__all__ = ["XENDCG", "BuiltIn", "Lambdarank", "RankPairs"]

NO_FORCES = np.empty((0, 0))
LABELS = 31  # LightGBM's default label_gain has so many entries


class BuiltIn(Objective):
    """What the presets share."""

    floor = 0.0  # the host's zeros
    action: ClassVar[Any]  # the kind of leaf

    def told(self, round: Round) -> tuple[Any, ...]:
        """The leaf's own values."""
        raise NotImplementedError

    def scales(self, queries: Queries) -> Array | None:
        """One per query, 0 where every force is; None: even equal labels have gradients."""
        return None

    def check_order(self, queries: Queries) -> None:
        scales = self.scales(queries)
        if scales is not None:
            acting = differing(queries.labels, queries.offsets) & (scales != 0.0)
            require_order(self, queries, (repr(self),), None, lambda: acting)

    def pair_forces(self, queries: Queries, query: int, scores: Array, iteration: int = 0) -> Array:
        """[i, j]: the force with which the pair of this query's documents i and j moves i, before weights."""
        forces = np.zeros((queries.sizes[query],) * 2)
        queries.run([self.leaf(Round(queries, scores, iteration), forces)], scores, 1, only=query, levels=1)
        return forces

    def at(self, round: Round) -> list[Leaf]:
        return [self.leaf(round, NO_FORCES)]

    def leaf(self, round: Round, forces: Array) -> Leaf:
        """With ``forces``, of a round of one query, the pairs' forces go there."""
        values = *self.told(round), round.queries.row_weights, forces, round.coefficient, round.level
        return Leaf(self.action, (), values)


def discounts(queries: Queries) -> Array:
    """1/log2(2 + r) for r = 0, 1, ..., by the C library's logarithm, which NumPy's need not equal in the last bit."""
    return queries.memo("discounts", lambda: np.array([1.0 / math.log2(2.0 + r) for r in range(queries.longest)]))


def inverse_ideal(queries: Queries, gain: Array, k: int) -> Array:
    """1/ideal DCG@k of each query, 0 for none: the documents by falling label, summed up from the top."""
    ideal, discount = np.zeros(len(queries)), discounts(queries)
    for query, (start, stop) in enumerate(itertools.pairwise(queries.offsets)):
        ranked = gain[start:stop][np.argsort(-queries.labels[start:stop], kind="stable")][:k]
        ideal[query] = np.cumsum([0.0, *(discount[: len(ranked)] * ranked)])[-1]
    return np.divide(1.0, ideal, out=ideal, where=ideal > 0.0)


def whole_labels(queries: Queries, name: str, most: int) -> npt.NDArray[np.int64]:
    """The labels, refused unless they are 0, 1, ..., ``most``."""
    labels = queries.labels
    if labels.size and not ((labels == np.floor(labels)).all() and labels.min() >= 0 and labels.max() <= most):
        raise LambdaplugError(
            f"{name} takes the labels 0, 1, ..., {most}, as its host does; got labels from {labels.min():g} to "
            f"{labels.max():g}. lp.LambdaRank takes any."
        )
    return labels.astype(np.int64)


@functools.lru_cache(maxsize=4)
def sigmoid_table(sigmoid: float) -> tuple[Array, float]:
    """1/(1 + exp(sigmoid x)) at 2^20 steps over -reach..reach, and the reach. The C library's exp, one by one."""
    reach = 50.0 / sigmoid / 2
    inputs = (np.arange(TABLE_SIZE) / (TABLE_SIZE / (reach - -reach)) + -reach) * sigmoid
    table = 1.0 / (1.0 + np.array(list(map(math.exp, inputs.tolist()))))
    table.setflags(write=False)
    return table, reach


@dataclass(frozen=True, repr=False)
class Lambdarank(BuiltIn):
    """LightGBM's ``objective="lambdarank"``: ``lgb.train`` grows the same trees, digit by digit.

    For ranks i < truncation_level and j > i of different labels, delta = |gain difference| |discount difference| / ideal
    DCG at the truncation level; with ``norm``, delta is divided by 0.01 + the distance of the scores, and a query's
    gradients and hessians are multiplied by log2(1 + S)/S, S the summed force. Each document's weight multiplies its row.

    Parameters
    ----------
    truncation_level : int
        LightGBM's ``lambdarank_truncation_level``. This and the others go here, not into the training's parameters.
    norm : bool
        LightGBM's ``lambdarank_norm``.
    sigmoid : float
        LightGBM's ``sigmoid``.
    label_gain : sequence of float, optional
        LightGBM's ``label_gain``. Labels are 0, 1, 2, ...

    Notes
    -----
    The trees are those of LightGBM 4.0 to 4.7 (tried on x86-64: other processors may fuse its products and sums).
    ``feature_fraction`` below 1 draws other columns than the built-in run, and ``boosting="dart"`` is not reproducible.
    ``Dataset(position=)`` is for ``lp.Unbiased`` around it.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.presets.lightgbm(truncation_level=10).gradients(labels=[1, 0], scores=[0.0, 1.0], group=[2])[0].round(4)
    array([-0.3088,  0.3088], dtype=float32)
    """

    truncation_level: int = 30
    norm: bool = True
    sigmoid: float = 1.0
    label_gain: Sequence[float] | None = None

    action = kernels.lambdarank
    called_as = "presets.lightgbm"

    def __post_init__(self) -> None:
        keep(self, truncation_level=integer(self.truncation_level, "truncation_level"))
        keep(self, sigmoid=positive(self.sigmoid, "sigmoid"))
        if self.label_gain is not None:
            keep(self, label_gain=tuple(float(gain) for gain in self.label_gain))

    @property
    def cutoff(self) -> int | None:
        return self.truncation_level

    @property
    def goal(self) -> Measure | None:
        return NDCG(k=self.truncation_level, gain="exp2" if self.label_gain is None else self.label_gain)

    def prepared(self, queries: Queries) -> tuple[Array, Array]:
        """The gain of each row, and 1/ideal DCG of each query."""

        def prepare() -> tuple[Array, Array]:
            gains: Array = np.exp2(np.arange(LABELS)) - 1.0 if self.label_gain is None else np.array(self.label_gain)
            gain = gains[whole_labels(queries, repr(self), len(gains) - 1)]
            return gain, inverse_ideal(queries, gain, self.truncation_level)

        return queries.memo(("lambdarank", self.truncation_level, self.label_gain), prepare)

    def scales(self, queries: Queries) -> Array | None:
        return self.prepared(queries)[1]

    def told(self, round: Round) -> tuple[Any, ...]:
        queries = round.queries
        lookup = *sigmoid_table(self.sigmoid), self.sigmoid
        rows = queries.labels, *self.prepared(queries), discounts(queries)
        return lookup, bool(self.norm), self.truncation_level, rows


@dataclass(frozen=True, repr=False)
class XENDCG(BuiltIn):
    """LightGBM's ``objective="rank_xendcg"`` with ``objective_seed=seed``, digit by digit.

    The cross entropy between softmax(scores) and a distribution drawn anew in each round from the labels,

        loss = - sum_i rho_i log softmax(s)_i,  rho_i in proportion to 2^label_i - u_i,  u_i drawn from [0, 1].

    Its random numbers follow the round; a training continued with ``init_model`` goes on drawing where the first stopped (the built-in
    begins again).

    Parameters
    ----------
    seed : int
        LightGBM's ``objective_seed``.

    References
    ----------
    S. Bruch (2021), "An alternative cross entropy loss for learning-to-rank", WWW.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.presets.lightgbm_xendcg(seed=5).gradients(labels=[1, 0], scores=[0.0, 0.0], group=[2])[1]
    array([0.25, 0.25], dtype=float32)
    """

    seed: int = 5

    action = kernels.xendcg
    called_as = "presets.lightgbm_xendcg"
    counted = True  # its random numbers are the iteration's
    cutoff = 1  # the work is that of a sum over documents
    goal = NDCG()

    def __post_init__(self) -> None:
        keep(self, seed=integer(self.seed, "seed", 0, 2**31 - 1))

    def told(self, round: Round) -> tuple[Any, ...]:
        queries = round.queries
        gain = queries.memo("xendcg", lambda: np.exp2(whole_labels(queries, repr(self), LABELS - 1)))
        return self.seed, round.iteration, gain


KINDS = {"ndcg": kernels.BY_GAIN, "map": kernels.BY_PRECISION, "pairwise": kernels.BY_NOTHING}
METHODS = {"topk": 32, "mean": 1}  # and XGBoost's default for num_pair_per_sample
TRACKED = 32  # positions that XGBoost knows with the pair method mean
LEAST = 1e-16


@dataclass(frozen=True, repr=False)
class RankPairs(BuiltIn):
    """XGBoost's ``objective="rank:ndcg"``, ``"rank:map"`` or ``"rank:pairwise"``: ``xgb.train`` grows the same trees.

    For the pairs (i, j) of the pair method, i better than j, with the score margin o = s_i - s_j,

        force = delta rho,  hessian = 2 delta rho (1 - rho),  rho = 1/(1 + exp(o)),

    delta being what exchanging the two changes of the measure (1 for ``"pairwise"``), divided by 0.01 + |o| with
    ``score_normalization``. With ``normalization`` a query's sums are multiplied by log2(1 + S)/S, S the summed force, or of
    ``"mean"`` divided by the pairs per sample. Give both trainings ``base_score=0``; a custom objective's default is 0.5.

    Parameters
    ----------
    objective : str
        ``"ndcg"``, ``"map"`` (labels 0 and 1) or ``"pairwise"``.
    pair_method : str
        XGBoost's ``lambdarank_pair_method``. This and the others go here, not into the training's parameters.
    num_pair_per_sample : int, optional
        XGBoost's ``lambdarank_num_pair_per_sample``.
    normalization : bool
        XGBoost's ``lambdarank_normalization``.
    score_normalization : bool
        XGBoost's ``lambdarank_score_normalization``.
    exp_gain : bool
        XGBoost's ``ndcg_exp_gain``.
    unbiased : bool
        XGBoost's ``lambdarank_unbiased``, for those who migrate.
    bias_norm : float
        XGBoost's ``lambdarank_bias_norm``, which belongs to ``unbiased``.

    Notes
    -----
    With ``unbiased`` the place of a row in its query is where it was shown, and the cost from which t+ and t- follow is
    |dM| log(1 + exp(s_i - s_j)) for i better than j, where the paper (Hu et al. 2019) has the other sign: pairs that are
    already in order count most. ``lp.Unbiased(lp.LambdaRank("ndcg"), "rows", "pairwise")`` has the paper's.
    ``lp.position_bias(booster)`` reads t+ and t- afterwards; a continued training begins them anew, as in XGBoost. It is
    then no part of a mixture, and not for clusters.

    The trees are those of XGBoost 2.0 to 3.4 on CPU, where it was tried; XGBoost knows ``normalization=False`` since 2.1 and
    ``score_normalization=False`` since 3.0. ``"mean"`` draws its pairs as XGBoost 3.1 and 3.2 do; it is refused beside another
    version, which draws others. A training continued with ``xgb_model`` goes on drawing where the first stopped.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.presets.xgboost("pairwise").gradients(labels=[1, 0], scores=[0.0, 0.0], group=[2])
    (array([-0.5,  0.5], dtype=float32), array([0.5, 0.5], dtype=float32))
    """

    objective: str = "ndcg"
    pair_method: str = "topk"
    num_pair_per_sample: int | None = None
    normalization: bool = True
    score_normalization: bool = True
    exp_gain: bool = True
    unbiased: bool = False
    bias_norm: float = 1.0

    action = kernels.rank_pairs
    called_as = "presets.xgboost"
    state: ClassVar[State | None] = None  # of a round's plan, where it learns position biases

    def __post_init__(self) -> None:
        if self.objective not in KINDS:
            raise LambdaplugError(f"objective: expected one of {list(KINDS)}, got {self.objective!r}.")
        if self.pair_method not in METHODS:
            raise LambdaplugError(f"pair_method: expected one of {list(METHODS)}, got {self.pair_method!r}.")
        if self.num_pair_per_sample is not None:
            keep(self, num_pair_per_sample=integer(self.num_pair_per_sample, "num_pair_per_sample"))
        keep(self, bias_norm=not_negative(self.bias_norm, "bias_norm"))

    @property
    def pairs(self) -> int:
        """How many per sample."""
        return METHODS[self.pair_method] if self.num_pair_per_sample is None else self.num_pair_per_sample

    @property
    def counted(self) -> bool:
        return self.unbiased or self.pair_method == "mean"

    @property
    def summable(self) -> bool:
        return not self.unbiased  # what it learns, it learns from all queries

    @property
    def cutoff(self) -> int | None:
        return self.pairs

    @property
    def goal(self) -> Measure | None:
        k = self.pairs if self.pair_method == "topk" else None
        kinds = {"ndcg": NDCG(k=k, gain="exp2" if self.exp_gain else "linear"), "map": MAP(k=k), "pairwise": Pairs()}
        return kinds[self.objective]

    def prepared(self, queries: Queries) -> tuple[Array, Array, npt.NDArray[np.int32]]:
        """The gain of each row, 1/ideal DCG of each query, and where a row's label begins in a list by falling label."""

        def prepare() -> tuple[Array, Array, npt.NDArray[np.int32]]:
            gain, inverse = queries.labels, np.ones(len(queries))
            if self.objective == "map":
                whole_labels(queries, repr(self), 1)
            if self.objective == "ndcg":
                if self.exp_gain:
                    gain = np.exp2(whole_labels(queries, repr(self), 31)) - 1.0
                elif gain.min(initial=0) < 0:
                    raise LambdaplugError(f"{self!r} takes labels >= 0, got {gain.min():g}.")
                inverse = inverse_ideal(queries, gain, self.pairs if self.pair_method == "topk" else len(gain))
            return gain, inverse, gain_levels(gain, gain, queries.offsets)[1]

        return queries.memo(("rank pairs", self.objective, self.pair_method, self.pairs, self.exp_gain), prepare)

    def scales(self, queries: Queries) -> Array | None:
        return self.prepared(queries)[1]

    def ending(self, queries: Queries, out: tuple[Any, Any]) -> list[Leaf]:
        (last,) = super().ending(queries, out)
        if queries.query_weight is None:
            return [last]
        total = float(np.cumsum(queries.query_weight)[-1:].sum())  # summed one by one
        std, unit, weight, *rest = last.values
        own = Leaf(kernels.weighed_as_xgboost, (), (weight, len(queries) / total if total else 0.0))
        return [own, last._replace(values=(std, unit, EMPTY, *rest))]

    def told(self, round: Round) -> tuple[Any, ...]:
        queries = round.queries
        refuse_document_weights(self, queries)
        gain, inverse, begin = self.prepared(queries)
        how = KINDS[self.objective], self.pair_method == "mean", self.pairs, round.iteration
        normed = bool(self.score_normalization), bool(self.normalization)
        bias = (EMPTY,) * 4 if round.bias is None else tuple(round.bias[:4])
        return *how, normed, (gain, inverse, discounts(queries), begin), bias

    def check_share(self) -> None:
        if not self.unbiased:
            return
        raise LambdaplugError(
            f"{self!r}: on a cluster each worker would learn position biases of its own rows, as XGBoost's do. Train on one "
            "machine, or take lp.Unbiased."
        )

    def resolved(self, moment: Moment) -> "RankPairs":
        if self.state is not None or not self.unbiased:
            return self
        return planned(self, state=begun(self, moment, "pairwise"))

    def differentiate(
        self, queries: Queries, *ranked: Any, memory: Memory | None = None, **options: Any
    ) -> tuple[Any, Any]:
        """As every objective's; then t+ and t-, if it has them, follow from the costs of its pairs."""
        if not self.unbiased:
            return super().differentiate(queries, *ranked, memory=memory, **options)
        plan = self.resolved(Moment(0, memory))
        state = plan.state
        assert state is not None
        known = self.pairs if self.pair_method == "topk" else min(queries.longest, TRACKED)
        if not len(state.columns[0]):
            state.columns = [np.ones(known), np.ones(known)]
        costs = np.zeros((2, len(queries.labels)))
        options["bias"] = PairBias(state.columns[0], state.columns[1], costs[0], costs[1], EMPTY)
        out = super(RankPairs, plan).differentiate(queries, *ranked, **options)
        place = row_order(queries.offsets)
        for k, cost in enumerate(costs):
            total = np.bincount(place, weights=cost, minlength=known)[:known].tolist()  # query after query, as the host
            if total[0] >= LEAST:
                state.columns[k] = np.array([math.pow(one / total[0], 1.0 / (1.0 + self.bias_norm)) for one in total])
        return out
