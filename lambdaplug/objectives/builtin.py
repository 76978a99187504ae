"""The hosts' own ranking objectives, to the last bit; ``lp.presets`` makes them.

What they promise is not a formula but a model: the trees that LightGBM's or XGBoost's built-in objective would have
grown. So they keep the host's arithmetic (float32 sums in the host's order, its table of sigmoids, its random numbers),
its zero hessians, and its way with weights.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..checking import integer, not_negative, positive
from ..errors import LambdaplugError
from ..kernels import TABLE_SIZE, PairBias, lambdarank_kernel, rank_pairs_kernel, xendcg_kernel
from ..measures import MAP, NDCG, Measure, Pairs
from ..queries import Array, Queries, Task
from ..rows import differing, gain_levels, row_order
from ..schedules import Memory, Moment
from ..values import called
from .base import EMPTY, Into, Objective, Ranking, Scratch, refuse_document_weights, require_order
from .unbiased import State, keep_state

__all__ = ["XENDCG", "BuiltIn", "Lambdarank", "RankPairs", "UnbiasedRankPairs"]

NO_FORCES = np.empty((0, 0))
LABELS = 31  # LightGBM's default label_gain has so many entries


class BuiltIn(Objective):
    """What the presets share."""

    floor = 0.0  # the host's zeros
    cutoffs: frozenset[int | None] = frozenset([None])  # every document's rank matters
    divisible = False  # float32 sums have an order

    def _called(self, preset: str, said: list[str], **usual: Any) -> str:
        """As it would be made: what is not as usual."""
        return called(preset, *said, **{name: (getattr(self, name), value) for name, value in usual.items()})

    def scales(self, queries: Queries) -> Array | None:  # noqa: ARG002
        """One per query, 0 where every force is; None: even equal labels have gradients."""
        return None

    def check_order(self, queries: Queries) -> None:
        def acting() -> npt.NDArray[np.bool_]:
            found: npt.NDArray[np.bool_] = differing(queries.labels, queries.offsets) & (self.scales(queries) != 0.0)
            return found

        if type(self).scales is not BuiltIn.scales:
            require_order(self, queries, (repr(self),), None, acting)

    def pair_forces(self, queries: Queries, query: int, scores: Array, iteration: int = 0) -> Array | None:
        """[i, j]: the force with which the pair of this query's documents i and j moves i, before weights."""
        ranking = Ranking(queries, scores, {None: queries.rank(scores, 1)}, iteration)
        size = int(queries.sizes[query])
        forces = np.zeros((size, size))
        sums = np.zeros((2, size))
        self._add(ranking, Task(query, query + 1), Scratch(), (1.0, sums[0], sums[1]), forces)
        return forces

    def accumulate(self, ranking: Ranking, task: Task, scratch: Scratch, into: Into) -> None:
        self._add(ranking, task, scratch, into, NO_FORCES)

    def _add(self, ranking: Ranking, task: Task, scratch: Scratch, into: Into, forces: Array) -> None:
        """``accumulate``, which with ``forces``, of a task that is one query, puts the pairs' forces there."""
        raise NotImplementedError


def discounts(queries: Queries) -> Array:
    """1/log2(2 + r) for r = 0, 1, ..., by the C library's logarithm, which NumPy's need not equal in the last bit."""
    longest = int(queries.sizes.max(initial=0))
    return queries.memo("discounts", lambda: np.array([1.0 / math.log2(2.0 + r) for r in range(longest)]))


def inverse_ideal(queries: Queries, gain: Array, k: int) -> Array:
    """1/ideal DCG@k of each query, 0 for none: the documents by falling label, summed up from the top."""
    inverse, discount = np.zeros(len(queries)), discounts(queries)
    for query, (start, stop) in enumerate(zip(queries.offsets[:-1], queries.offsets[1:], strict=True)):
        ranked = gain[start:stop][np.argsort(-queries.labels[start:stop], kind="stable")][:k]
        ideal = 0.0
        for product in (discount[: len(ranked)] * ranked).tolist():
            ideal += product
        inverse[query] = 1.0 / ideal if ideal > 0.0 else ideal
    return inverse


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


class Lambdarank(BuiltIn):
    """LightGBM's ``objective="lambdarank"``; see :func:`lambdaplug.presets.lightgbm`."""

    truncation_level: int
    norm: bool
    sigmoid: float
    label_gain: tuple[float, ...] | None

    def __init__(self, truncation_level: int, norm: bool, sigmoid: float, label_gain: Sequence[float] | None) -> None:
        gains = None if label_gain is None else tuple(float(gain) for gain in label_gain)
        self._set(truncation_level=integer(truncation_level, "truncation_level"), norm=bool(norm))
        self._set(sigmoid=positive(sigmoid, "sigmoid"), label_gain=gains)

    def __repr__(self) -> str:
        return self._called("presets.lightgbm", [], truncation_level=30, norm=True, sigmoid=1.0, label_gain=None)

    @property
    def cutoff(self) -> int | None:
        return self.truncation_level

    @property
    def target(self) -> Measure | None:
        return NDCG(k=self.truncation_level, gain="exp2" if self.label_gain is None else self.label_gain)

    def prepared(self, queries: Queries) -> tuple[Array, Array]:
        """Label and gain of each row, and 1/ideal DCG of each query."""

        def prepare() -> tuple[Array, Array]:
            gains = np.array(
                [2.0**label - 1.0 for label in range(LABELS)] if self.label_gain is None else self.label_gain
            )
            labels = whole_labels(queries, repr(self), len(gains) - 1)
            rows = np.stack([queries.labels, gains[labels]])
            return rows, inverse_ideal(queries, rows[1], self.truncation_level)

        return queries.memo(("lambdarank", self.truncation_level, self.label_gain), prepare)

    def scales(self, queries: Queries) -> Array | None:
        return self.prepared(queries)[1]

    def _add(self, ranking: Ranking, task: Task, scratch: Scratch, into: Into, forces: Array) -> None:
        queries = ranking.queries
        gain, inverse = self.prepared(queries)
        lambdarank_kernel()(
            (*sigmoid_table(self.sigmoid), self.sigmoid),
            *(self.norm, self.truncation_level),
            (ranking.scores, gain, inverse, discounts(queries), queries.row_weights),
            (queries.offsets, task.first, task.last, ranking.orders[None]),
            *(scratch.array("sums32", 2, len(into[1]), np.float32), into, forces),
        )


class XENDCG(BuiltIn):
    """LightGBM's ``objective="rank_xendcg"``; see :func:`lambdaplug.presets.lightgbm_xendcg`."""

    seed: int
    counted = True  # its random numbers are the iteration's
    cutoff = 1  # the work is that of a sum over documents
    target = NDCG()

    def __init__(self, seed: int) -> None:
        self._set(seed=integer(seed, "seed", 0, 2**31 - 1))

    def __repr__(self) -> str:
        return f"presets.lightgbm_xendcg({self.seed})"

    def pair_forces(self, queries: Queries, query: int, scores: Array, iteration: int = 0) -> Array | None:  # noqa: ARG002
        return None  # it has no pairs

    def _add(self, ranking: Ranking, task: Task, scratch: Scratch, into: Into, forces: Array) -> None:  # noqa: ARG002
        queries = ranking.queries
        gain = queries.memo("xendcg", lambda: np.exp2(whole_labels(queries, repr(self), LABELS - 1)))
        xendcg_kernel()(
            *(self.seed, ranking.iteration),
            (ranking.scores, gain, queries.row_weights),
            (queries.offsets, task.first, task.last),
            *(scratch.array("xendcg", 3, len(into[1])), into),
        )


class PreparedPairs(NamedTuple):
    """What RankPairs knows of its queries."""

    gain: Array
    inverse: Array
    begin: npt.NDArray[np.int32]  # of each row: where its label begins in its query's list by falling label
    weight_norm: float


KINDS = ("ndcg", "map", "pairwise")
PAIRS = "num_pair_per_sample"
METHODS = {"topk": 32, "mean": 1}  # and XGBoost's default for num_pair_per_sample
TRACKED = 32  # positions that XGBoost knows with the pair method mean
LEAST = 1e-16


class RankPairs(BuiltIn):
    """XGBoost's ``objective="rank:ndcg"``, ``"rank:map"`` and ``"rank:pairwise"``; see :func:`lambdaplug.presets.xgboost`."""

    objective: str
    pair_method: str
    num_pair_per_sample: int
    normalization: bool
    score_normalization: bool
    exp_gain: bool
    unbiased: bool = False
    bias_norm: float = 1.0

    def __init__(
        self,
        objective: str,
        pair_method: str,
        num_pair_per_sample: int | None,
        normalization: bool,
        score_normalization: bool,
        exp_gain: bool,
    ) -> None:
        if objective not in KINDS:
            raise LambdaplugError(f"expected one of {list(KINDS)}, got {objective!r}.")
        if pair_method not in METHODS:
            raise LambdaplugError(f"pair_method: expected one of {list(METHODS)}, got {pair_method!r}.")
        pairs = METHODS[pair_method] if num_pair_per_sample is None else num_pair_per_sample
        self._set(objective=objective, pair_method=pair_method, num_pair_per_sample=integer(pairs, PAIRS))
        self._set(normalization=bool(normalization), score_normalization=bool(score_normalization))
        self._set(exp_gain=bool(exp_gain), counted=pair_method == "mean")

    @property
    def pairs(self) -> int:
        return self.num_pair_per_sample

    def __repr__(self) -> str:
        usual = {"pair_method": "topk", "num_pair_per_sample": METHODS[self.pair_method]}
        flags = dict.fromkeys(("normalization", "score_normalization", "exp_gain"), True)
        further = {"unbiased": False, "bias_norm": 1.0}
        return self._called("presets.xgboost", [repr(self.objective)], **usual, **flags, **further)

    @property
    def cutoff(self) -> int | None:
        return self.pairs

    @property
    def target(self) -> Measure | None:
        k = self.pairs if self.pair_method == "topk" else None
        kinds = {"ndcg": NDCG(k=k, gain="exp2" if self.exp_gain else "linear"), "map": MAP(k=k), "pairwise": Pairs()}
        return kinds[self.objective]

    def prepared(self, queries: Queries) -> PreparedPairs:
        """Gains, ideals, where each label begins in a list by falling label, and the scale of the weights."""

        def prepare() -> PreparedPairs:
            labels, gain, inverse = queries.labels, EMPTY, EMPTY
            if self.objective == "map":
                whole_labels(queries, repr(self), 1)
            if self.objective == "ndcg":
                gain = labels
                if self.exp_gain:
                    gain = np.exp2(whole_labels(queries, repr(self), 31)) - 1.0
                elif labels.min(initial=0) < 0:
                    raise LambdaplugError(f"{self!r} takes labels >= 0, got {labels.min():g}.")
                k = self.pairs if self.pair_method == "topk" else len(labels)
                inverse = inverse_ideal(queries, gain, k)
            weight_norm = 1.0
            if queries.query_weight is not None and len(queries):
                total = float(np.cumsum(queries.query_weight)[-1])  # summed one by one
                if not 0.0 < total < math.inf:
                    raise LambdaplugError(
                        f"{self!r} divides weights by their mean, as its host does, and these add up to {total:g}: leave "
                        "them out, or give weights with a positive, finite sum."
                    )
                weight_norm = len(queries) / total
            begin = gain_levels(labels, labels, queries.offsets)[1]
            return PreparedPairs(gain, inverse, begin, weight_norm)

        return queries.memo(("rank pairs", self.objective, self.pair_method, self.pairs, self.exp_gain), prepare)

    def scales(self, queries: Queries) -> Array | None:
        return self.prepared(queries).inverse if self.objective == "ndcg" else np.ones(len(queries))

    def weigh(self, queries: Queries, task: Task, gradient: Array, hessian: Array) -> Array:
        """XGBoost's weights: w n / sum(w), in two float32 products."""
        refuse_document_weights(self, queries)
        if queries.query_weight is not None:
            sizes = queries.sizes[task.first : task.last]
            weight = np.repeat(queries.query_weight[task.first : task.last].astype(np.float32), sizes)
            norm = np.float32(self.prepared(queries).weight_norm)
            for sums in (gradient, hessian):
                sums[:] = (sums.astype(np.float32) * weight) * norm
        return EMPTY

    def _add(self, ranking: Ranking, task: Task, scratch: Scratch, into: Into, forces: Array) -> None:
        queries = ranking.queries
        refuse_document_weights(self, queries)
        prepared = self.prepared(queries)
        bias = (EMPTY,) * 4 if ranking.bias is None else ranking.bias[:4]
        rank_pairs_kernel(self.objective, self.pair_method == "mean", self.unbiased)(
            *(self.pairs, ranking.iteration, (self.score_normalization, self.normalization)),
            (ranking.scores, queries.labels, prepared.gain, prepared.inverse, discounts(queries), prepared.begin),
            (queries.offsets, task.first, task.last, ranking.orders[None]),
            (
                scratch.array("sums32", 2, len(into[1]), np.float32),
                scratch.array("states", 2, len(into[1])),
                scratch.array("by label", 2, len(into[1]), np.int32),
            ),
            *(into, forces, bias),
        )


class UnbiasedRankPairs(RankPairs):
    """The same with XGBoost's ``lambdarank_unbiased``: t+ and t- of a training, by the place of a row in its query."""

    unbiased = True
    summable = False  # what it learns, it learns from all queries
    state: State | None  # of a round's plan

    def __init__(self, *own: Any, bias_norm: float) -> None:
        super().__init__(*own)
        self._set(bias_norm=not_negative(bias_norm, "bias_norm"), counted=True, state=None)

    def check_share(self) -> None:
        raise LambdaplugError(
            f"{self!r}: on a cluster each worker would learn position biases of its own rows, as XGBoost's do. Train on one "
            "machine, or take lp.Unbiased."
        )

    def resolved(self, moment: Moment) -> "UnbiasedRankPairs":
        if self.state is not None:
            return self
        memory = {} if moment.memory is None else moment.memory
        if self not in memory:
            memory[self] = State("pairwise", None)
            keep_state(self, memory[self])
        return self._with(state=memory[self])

    def differentiate(
        self, queries: Queries, *ranked: Any, memory: Memory | None = None, **options: Any
    ) -> tuple[Any, Any]:
        """As every objective's; then t+ and t- follow from the costs of its pairs."""
        plan = self.resolved(Moment(0, memory))
        state = plan.state
        assert state is not None
        known = self.pairs if self.pair_method == "topk" else min(queries.longest, TRACKED)
        if not len(state.columns[0]):
            state.columns = [np.ones(known), np.ones(known)]
        costs = np.zeros((2, len(queries.labels)))
        options["bias"] = PairBias(state.columns[0], state.columns[1], costs[0], costs[1], EMPTY)
        out = super(UnbiasedRankPairs, plan).differentiate(queries, *ranked, **options)
        place = row_order(queries.offsets)
        for k, cost in enumerate(costs):
            total = np.bincount(place, weights=cost, minlength=known)[:known].tolist()  # query after query, as the host
            if total[0] >= LEAST:
                state.columns[k] = np.array([math.pow(one / total[0], 1.0 / (1.0 + self.bias_norm)) for one in total])
        return out
