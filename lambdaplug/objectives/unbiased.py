"""Clicks and where they were seen: the bias of display positions, learned beside the model or known."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import plotting
from ..checking import is_number, not_negative, positive, shown
from ..costs import RankNet
from ..errors import LambdaplugError, LambdaplugWarning
from ..kernels import PairBias
from ..measures import Measure
from ..queries import Array, Column, Labels, Queries, Task, vector
from ..rows import row_order
from ..schedules import Moment
from ..tables import Report
from ..values import Text, Value, called
from .base import EMPTY, Into, Objective, Ranking, Scratch, Wanted, require_objective
from .lambdarank import LambdaRank

__all__ = ["PositionBias", "Unbiased", "keep_state", "last_state"]

Integers: TypeAlias = npt.NDArray[np.int64]
Total: TypeAlias = Callable[[Array], Array]  # adds up over the workers that train together
METHODS = ("additive", "pairwise")
ROWS = "rows"
MOST = 1 << 20  # positions
USUAL_RATE = 0.1  # LightGBM's default, where no Booster says its own
USUAL_REGULARIZATION = {"additive": 0.0, "pairwise": 0.1}  # LightGBM's; by which curves are nearest to the truth
DAMPING = 0.001  # LightGBM's: keeps a step finite where a position has no hessian


class Positions(Labels):
    """Where each row was shown: integers, 0 for the top."""

    def __init__(self, values: npt.ArrayLike) -> None:
        super().__init__(_checked(values).astype(np.float64))

    def __reduce__(self) -> Any:
        return Positions, (self.values,)

    def of(self, queries: Queries) -> Array:
        if len(self) != queries.total_rows:
            raise LambdaplugError(
                f"position: expected one value per row of the data set ({queries.total_rows}), got {len(self)}. They follow the "
                "rows into LightGBM's subsets and folds. A slice of an XGBoost DMatrix, and a fold of xgb.cv, do not say "
                "which rows they hold: there, use position='rows', or leave out position= and store the positions in the "
                "DMatrix, dtrain.set_float_info('label_lower_bound', position), which slices keep."
            )
        return super().of(queries)


def _checked(values: npt.ArrayLike) -> Integers:
    """Positions as integers, refused unless they are >= 0."""
    own = vector(values, "position")
    wrong = np.flatnonzero(~(np.isfinite(own) & (own >= 0) & (own < MOST) & (own == np.floor(own))))
    if len(wrong):
        row = int(wrong[0])
        raise LambdaplugError(
            f"position: expected integers from 0, the top, to {MOST - 1}, one per row; row {row} has {own[row]:g}. Leave out "
            "rows that were not shown."
        )
    return own.astype(np.int64)


class PositionBias(Report, Value):
    """What a training has learned of its display positions; see :func:`lambdaplug.analysis.position_bias`.

    Attributes
    ----------
    method : str
        ``"additive"`` or ``"pairwise"``.
    bias : array
        By position, of the additive method: what was added to the scores. Otherwise empty.
    plus, minus : array
        By position, of the pairwise method: t+ and t-, relative to the first position; 0 where no pair has shown them.
        Otherwise empty.
    rows, clicks : array
        By position: the number of rows, and of those with a label above 0. Their ratio is what would be seen without a
        correction. Empty if they are not known.
    propensity : array
        By position, relative to the first one: how likely a click is for where it was shown alone. For the pairwise
        method t+. For the additive one o/(1 - a + a o), where o = exp(bias - bias of the first) is a ratio of odds, and a
        the mean chance of a click at the first position, a = sum(clicks/propensity)/sum(rows), which is linear in a: the
        ratio of chances that belongs to o (Zhang, Yu 1998, "What's the relative risk?", JAMA).
    """

    method: str
    columns: tuple[tuple[float, ...], ...]
    counts: tuple[tuple[float, ...], ...]

    def __init__(self, method: str, columns: Sequence[npt.ArrayLike], counts: Any = ((), ())) -> None:
        own, given = (tuple(tuple(np.asarray(one, np.float64).tolist()) for one in some) for some in (columns, counts))
        self._set(method=method, columns=own, counts=given)

    def __repr__(self) -> str:
        values = np.array2string(self.propensity, precision=3, threshold=10)
        return f"PositionBias({self.method!r}, {len(self)} positions, propensity={values})"

    def __str__(self) -> str:
        return repr(self)

    def _cells(self) -> list[list[str]]:
        return [["position", "propensity"], *([f"{k}", f"{x:.3f}"] for k, x in enumerate(self.propensity.tolist()))]

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def bias(self) -> Array:
        return np.array(self.columns[0]) if self.method == "additive" else EMPTY

    @property
    def plus(self) -> Array:
        return np.array(self.columns[0]) if self.method == "pairwise" else EMPTY

    @property
    def minus(self) -> Array:
        return np.array(self.columns[1]) if self.method == "pairwise" else EMPTY

    @property
    def rows(self) -> Array:
        return np.array(self.counts[0])

    @property
    def clicks(self) -> Array:
        return np.array(self.counts[1])

    @property
    def propensity(self) -> Array:
        if self.method == "pairwise":
            return self.plus
        known = len(self.clicks) > 0
        first = int(np.argmax(self.rows > 0.0)) if known else 0
        odds: Array = np.exp(self.bias - self.bias[first : first + 1])
        if not known:
            return odds
        at_first = float(np.sum(self.clicks / odds[: len(self.clicks)]) / self.rows.sum())
        chance = at_first / (1.0 + at_first - float(self.clicks.sum() / self.rows.sum()))
        return odds / (1.0 - chance + chance * odds)

    def plot(self, ax: Any = None, truth: npt.ArrayLike | None = None) -> Any:
        """The propensities by position, beside the clicks as they are, and the truth where it is known. Returns Matplotlib's axes."""
        both = {"t+": self.plus, "t-": self.minus}
        curves = both if self.method == "pairwise" else {self.method: self.propensity}
        with plotting.drawing(ax) as ax:
            if truth is not None:
                known = np.asarray(truth, float)
                ax.plot(known / known[0], "k--", label="truth")
            for name, values in curves.items():
                ax.plot(values, marker="o", markersize=3, label=name)
            seen = np.flatnonzero(self.clicks > 0.0)
            if len(seen):
                rate = self.clicks[seen] / self.rows[seen]
                ax.plot(seen, rate / rate[0], ":", color="gray", label="clicks, uncorrected")
            ax.set(xlabel="display position, 0 the top", ylabel="propensity relative to the first position")
            ax.set_title(f"How likely a position is looked at ({self.method})")
            plotting.integers(ax.xaxis)
            plotting.legend(ax)
        return ax


class State:
    """The position biases of one training; the only thing here that changes."""

    def __init__(self, method: str, start: PositionBias | None) -> None:
        self.method = method
        # A t of 0 says that no pair has shown it yet; it counts as 1.
        self.columns: list[npt.NDArray[Any]] = (
            [np.zeros(0, np.float32)] if method == "additive" else [np.zeros(0), np.zeros(0)]
        )
        if start is not None:
            self.columns = [np.array(own, old.dtype) for own, old in zip(start.columns, self.columns, strict=True)]
        self.counts: Array = np.zeros((2, 0))  # by position, once they are known: rows, and clicks

    def begin(self, positions: Integers, labels: Array, total: Total | None) -> None:
        """Know the positions of all rows, which may be on several workers, and how often each was clicked."""
        count = int(positions.max(initial=-1)) + 1
        if total is not None:  # sums have one length everywhere, and this worker may not have the last position
            lengths = total(np.eye(1, MOST.bit_length() + 1, count.bit_length())[0])
            count = (1 << int(np.flatnonzero(lengths)[-1])) - 1
        counts = _sums(positions, (None, labels > 0.0), count, total)
        count = int(np.flatnonzero(counts[0]).max(initial=-1)) + 1
        self.counts = counts[:, :count]
        missing = count - len(self.columns[0])
        if missing > 0:
            self.columns = [np.append(own, np.zeros(missing, own.dtype)) for own in self.columns]

    @property
    def curve(self) -> PositionBias:
        return PositionBias(self.method, self.columns, self.counts)

    def step(
        self, positions: Integers, gradients: Sequence[Any], total: Total | None, rate: float, regularization: float
    ) -> None:
        """One Newton step of every additive bias, as LightGBM takes it: in float64, kept in float32."""
        [bias] = self.columns
        count, first, second = _sums(positions, (None, *gradients), len(bias), total)
        slope = -first - bias * regularization * count
        bend = -second - regularization * count
        self.columns = [(bias + rate * slope / (np.abs(bend) + DAMPING)).astype(np.float32)]

    def factors(self, positions: Integers, clip: float) -> tuple[Array, Array]:
        """1/t+ and 1/t- of each row.

        No click on a document that is seldom looked at says less than on another, never more: 1/t- is at most 1. What
        falls with the position in t- is the relevance of what was shown there.
        """
        above, below = (
            np.minimum(1.0 / np.where(own > 0.0, own, 1.0), most)[positions]
            for own, most in zip(self.columns, (clip, 1.0), strict=True)
        )
        return above, below

    def weigh(self, positions: Integers, plus: Array, minus: Array, total: Total | None, regularization: float) -> None:
        """t+ and t- from the costs of each row's pairs."""
        power = 1.0 / (1.0 + regularization)
        for k, sums in enumerate(_sums(positions, (plus, minus), len(self.columns[0]), total)):
            acting = sums > 0.0  # a position without pairs in this round keeps what it has
            if acting.any():
                new = self.columns[k].copy()
                new[acting] = (sums[acting] / sums[np.argmax(acting)]) ** power
                self.columns[k] = new


def _sums(positions: Integers, values: Sequence[Any], count: int, total: Total | None) -> Array:
    """By position, of one value per row each; None counts the rows."""
    sums = np.array([np.bincount(positions, weights=one, minlength=count) for one in values], dtype=np.float64)
    return sums if total is None else total(sums)


_last: weakref.WeakKeyDictionary[Objective, State] = weakref.WeakKeyDictionary()


def keep_state(objective: Objective, state: State) -> None:
    """As that of the training that began last."""
    _last.pop(objective, None)  # an equal objective that may end sooner must not be the key
    _last[objective] = state


def last_state(objective: Objective) -> State | None:
    """Of the training that began last with this objective, or one equal to it."""
    return _last.get(objective)


Propensities: TypeAlias = Sequence[float] | npt.NDArray[Any] | PositionBias | Callable[[int], float]


class Unbiased(Objective):
    """Learn from clicks without learning where they were seen: the bias of display positions taken out of any objective.

    ``method="additive"``: the objective sees s_i + b[p_i], p_i being the position at which row i was shown. b starts at 0;
    after each round, with the sums g and h of the gradients and hessians of the N rows of a position,

        b += rate (-g - regularization N b) / (h + regularization N + 0.001).

    The model is what explains clicks beside b, and is used without it. This is LightGBM's correction (4.1), for every
    objective and both hosts: around ``lp.presets.lightgbm()`` it grows the trees of LightGBM's ``lambdarank`` with ``position=``.

    ``method="pairwise"``, for LambdaRank, Mixture and Graded: the force and hessian of a pair with i better than j are
    divided by t+[p_i] max(t-[p_j], 1), where both t start at 1. After each round, from all pairs,

        c = log(1 + exp(-sigma (s_i - s_j))),  L+[p_i] += c/max(t-[p_j], 1),  L-[p_j] += c/t+[p_i],
        t+[p] = (L+[p]/L+[0])^(1/(1 + regularization)),  and t- alike.

    That is Unbiased LambdaMART, with the paper's sign in c; XGBoost's ``lambdarank_unbiased`` has the other one. In two
    things it differs from the authors' program, as their curves are too steep and their models worse than naive ones where
    a good ranker showed the documents (``recipes/clicks.py``): c has no factor |dM|, which grows with the rank of a document
    and so with its position; and a t- below 1, which no user's behaviour explains, gives no pair more weight.
    A query's normalisation (``normalize="log"``) is that of its pairs before they are divided.

    ``propensities``: known chances that a position is looked at. A pair is weighed by 1/propensity of its better document
    (inverse propensity weighting); nothing is learned, and ``method`` is not used.

    Parameters
    ----------
    objective : Objective
        Any objective of lambdaplug; the correction goes around the whole of it.
    position : array of int, Dask column, "rows" or None
        Where each row was shown, one value per row; 0 is the top. ``"rows"``: the place of a row within its query, as in
        XGBoost. None: what the data set says, LightGBM's ``Dataset(position=...)`` (which LightGBM renumbers in the order of
        first appearance), or an XGBoost DMatrix's ``label_lower_bound``, which ranking does not use and ``xgb.cv`` keeps.
    method : str
        ``"additive"`` or ``"pairwise"``.
    regularization : float, optional
        Of the additive method, LightGBM's ``lambdarank_position_bias_regularization``, default 0; of the pairwise one, the
        paper's p, default 0.1, as t+ is a little too steep where better documents were shown further up.
    rate : float, optional
        Of the additive method; default the booster's learning rate.
    propensities : sequence or callable, optional
        One number > 0 per position, or a function of the position.
    clip : float
        The most that 1/t+ or 1/propensity may be.
    normalize : bool
        With ``propensities``: divide the weights by their mean over the rows with a label above 0.
    start : PositionBias, optional
        What an earlier training learned, ``lp.position_bias(booster)``: a training that continues that one's model
        (``init_model=``, ``xgb_model=``) goes on where it stopped. Default: begin anew, as LightGBM does.

    Notes
    -----
    What is learned belongs to the training and is no part of the model; ``lp.position_bias`` reads it afterwards.
    ``gradients`` learns nothing: it returns those of a first round. On a cluster the sums are those over all workers, and
    ``position`` is ``"rows"`` or a Dask column, laid out with the rows by ``lp.dask.partition_by_query``.

    References: Z. Hu, Y. Wang, Q. Peng, H. Li (2019), "Unbiased LambdaMART: an unbiased pairwise learning-to-rank
    algorithm", WWW. T. Joachims, A. Swaminathan, T. Schnabel (2017), "Unbiased learning-to-rank with biased feedback",
    WSDM. On a real engine's logs such corrections improved the prediction of clicks more surely than rankings: P. Hager
    et al. (2024), "Unbiased learning to rank meets reality: lessons from Baidu's large-scale search dataset", SIGIR.

    >>> objective = lp.Unbiased(lp.LambdaRank("ndcg@10"), position="rows")
    >>> objective
    Unbiased(LambdaRank('ndcg@10'), position='rows')
    >>> weighed = lp.Unbiased(lp.LambdaRank("map"), position=[0, 1], propensities=[1.0, 0.5])
    >>> weighed.gradients(labels=[0, 1], scores=[0.0, 0.0], group=[2])[0]
    array([ 0.5, -0.5], dtype=float32)
    """

    summable = False  # what it learns, it learns from all queries

    objective: Objective
    position: Labels | str | None
    method: str
    regularization: float
    rate: float | None
    propensities: tuple[float, ...] | Callable[[int], float] | None
    clip: float
    normalize: bool
    start: PositionBias | None
    state: State | None  # of a round's plan
    total: Total | None  # of a round's plan on a cluster
    counted: bool

    def __init__(
        self,
        objective: Objective,
        position: Any = None,
        method: str = "additive",
        *,
        regularization: float | None = None,
        rate: float | None = None,
        propensities: Propensities | None = None,
        clip: float = 20.0,
        normalize: bool = False,
        start: PositionBias | None = None,
    ) -> None:
        if isinstance(require_objective(objective), Unbiased):
            raise LambdaplugError(f"expected an objective such as lp.LambdaRank('map'), got {objective!r}.")
        if method not in METHODS:
            raise LambdaplugError(f"method: expected 'additive' or 'pairwise', got {shown(method)}.")
        if isinstance(position, str) and position != ROWS:
            raise LambdaplugError(f"position: expected one value per row, 'rows' or None, got {position!r}.")
        known = propensities is not None
        if known or method == "pairwise":
            _require_pairs(objective)
        if rate is not None and (known or method == "pairwise"):
            raise LambdaplugError("rate: it is the additive method's; leave it out.")
        if normalize and not known:
            raise LambdaplugError("normalize: it is for propensities=; leave it out.")
        if known and position is None:
            raise LambdaplugError(
                "propensities: expected position= beside them, one value per row or 'rows', as LightGBM renumbers the "
                "positions of a Dataset."
            )
        if start is not None and (not isinstance(start, PositionBias) or known or start.method != method):
            raise LambdaplugError(
                f"start: expected what the same method has learned, lp.position_bias(booster), got {shown(start)}."
            )
        if not (position is None or isinstance(position, str)):
            position = Column(position) if hasattr(position, "__dask_graph__") else Positions(position)
        self._set(objective=objective, position=position, method=method, total=None)
        own = USUAL_REGULARIZATION[method] if regularization is None else regularization
        self._set(regularization=not_negative(own, "regularization"), clip=positive(clip, "clip"))
        self._set(rate=None if rate is None else positive(rate, "rate"), normalize=bool(normalize), start=start)
        self._set(propensities=None if propensities is None else _propensities(propensities), state=None)
        self._set(counted=not known)

    def __repr__(self) -> str:
        propensities = self.propensities
        if propensities is not None:
            known = repr(propensities) if callable(propensities) else f"<{len(propensities)} values>"
        return called(
            "Unbiased",
            repr(self.objective),
            position=(self.position, None),
            method=(self.method, "additive"),
            regularization=(self.regularization, USUAL_REGULARIZATION[self.method]),
            rate=(self.rate, None),
            clip=(self.clip, 20.0),
            propensities=(None if propensities is None else Text(known), None),
            normalize=(self.normalize, False),
            start=(self.start, None),
        )

    @property
    def parts(self) -> tuple[Objective, ...]:
        return (self.objective,)

    @property
    def cutoff(self) -> int | None:
        return self.objective.cutoff

    @property
    def target(self) -> Measure | None:
        return self.objective.target

    def check_order(self, queries: Queries) -> None:
        self.objective.check_order(queries)

    @property
    def sources(self) -> tuple[Labels, ...]:
        own = (self.position,) if isinstance(self.position, Column) else ()
        return tuple(dict.fromkeys((*super().sources, *own)))

    def check_share(self) -> None:
        if self.position is None or isinstance(self.position, Positions):
            raise LambdaplugError(
                f"{self!r}: on a cluster, position must follow the rows: expected 'rows', where the rows of each query stand in "
                "the order shown, or a Dask column: dX, dy, dq, dposition = lp.dask.partition_by_query(X, y, qid, position)."
            )
        if self.normalize:
            raise LambdaplugError(
                f"{self!r}: on a cluster a worker sees its share of the rows, and normalize=True divides by a mean over all "
                "of them. Leave it out: it scales all gradients alike."
            )
        super().check_share()

    def positions(self, queries: Queries) -> Integers:
        """Of each row."""

        def make() -> Integers:
            if isinstance(self.position, Labels):
                return _checked(self.position.of(queries))
            if self.position == ROWS:
                return row_order(queries.offsets).astype(np.int64)
            if queries.position is None:
                raise LambdaplugError(
                    "position: the data set does not say where its rows were shown. Pass lp.Unbiased(..., position=values), one "
                    "value per row, 0 for the top; position='rows' if the rows of each query stand in the order shown; or "
                    "store them: lgb.Dataset(X, y, group=sizes, position=values), "
                    "dtrain.set_float_info('label_lower_bound', values)."
                )
            own = _checked(queries.position)
            if len(own) != len(queries.labels):
                raise LambdaplugError(
                    f"position: expected one value per row of the data set ({len(queries.labels)}), got {len(own)}."
                )
            return own

        return queries.memo(("positions", self.position), make)

    def resolved(self, moment: Moment) -> Unbiased:
        if self.state is not None:
            return self
        inner = self.objective.resolved(moment)
        if self.propensities is not None:
            return self._with(objective=inner)
        memory = moment.memory
        state = None if memory is None else memory.get(self)
        if state is None:
            state = State(self.method, self.start)
            if memory is not None:  # a training, which begins
                memory[self] = state
                keep_state(self, state)
                if moment.iteration > 0 and self.start is None:
                    _warn_of_a_new_beginning(moment.iteration)
        rate = self.rate
        if rate is None and self.method == "additive":
            rate = moment.rate()
        return self._with(objective=inner, state=state, rate=rate, total=moment.total)

    def weights(self, queries: Queries) -> Array:
        """One per row: 1/propensity of its position."""

        def make() -> Array:
            positions = self.positions(queries)
            last = int(positions.max(initial=-1))
            assert self.propensities is not None
            curve = _curve(self.propensities, last + 1, int(positions.min(initial=last)))
            weight: Array = np.minimum(1.0 / curve, self.clip)[positions]
            if self.normalize:
                clicked = queries.labels > 0.0
                if not clicked.any():
                    raise LambdaplugError("normalize: no row has a label above 0, so that the weights have no mean.")
                weight = weight / weight[clicked].mean()
            return weight

        return queries.memo(("propensities", self.position, self.propensities, self.clip, self.normalize), make)

    def answer(self, queries: Queries, values: Array, wanted: Wanted) -> tuple[Any, Any]:
        """As every objective's; a plan of a training also learns from what comes out."""
        assert wanted.bias is None
        plan = self.resolved(Moment(wanted.iteration, wanted.memory))
        positions, state = plan.positions(queries), plan.state

        def inner(values: Array, bias: PairBias | None = None) -> tuple[Any, Any]:
            return plan.objective.answer(queries, values, wanted._replace(memory=None, bias=bias))

        weight = EMPTY if queries.query_weight is None else queries.query_weight
        plus, minus = np.zeros((2, len(positions)))
        if state is None:
            return inner(values, PairBias(plan.weights(queries), np.ones(len(positions)), plus, minus, weight))
        more = plan.total is None and int(positions.max(initial=-1)) >= state.counts.shape[1]
        if more or not state.counts.size:
            state.begin(positions, queries.labels, plan.total)
        if plan.method == "additive":
            shifted = values + state.columns[0][positions] if len(values) == len(positions) else values
            out = inner(shifted)
            rate = USUAL_RATE if plan.rate is None else plan.rate
            state.step(positions, out, plan.total, rate, plan.regularization)
            return out
        out = inner(values, PairBias(*state.factors(positions, plan.clip), plus, minus, weight))
        state.weigh(positions, plus, minus, plan.total, plan.regularization)
        return out

    def accumulate(self, ranking: Ranking, task: Task, scratch: Scratch, into: Into) -> None:  # noqa: ARG002
        raise LambdaplugError(
            f"{self!r} cannot be a part of another objective: the correction goes around the whole, lp.Unbiased(lp.Mixture(...))."
        )


def _require_pairs(objective: Objective) -> None:
    """Refuse an objective that has other leaves than LambdaRank with a pair cost."""
    for part in objective.parts:
        _require_pairs(part)
    if objective.parts:
        return
    if not isinstance(objective, LambdaRank) or not objective.construction.costed:
        raise LambdaplugError(
            f"{objective!r}: method='pairwise' and propensities= weigh pairs, and need lp.LambdaRank, a Mixture or a Graded of "
            "such, with a construction that has a pair cost. method='additive' takes any objective."
        )
    if not isinstance(objective.cost, RankNet):
        raise LambdaplugError(f"{objective!r}: method='pairwise' and propensities= need cost='ranknet'.")


def _propensities(given: Propensities) -> tuple[float, ...] | Callable[[int], float]:
    if callable(given):
        return given
    values = vector(given.propensity if isinstance(given, PositionBias) else given, "propensities")
    for place, value in enumerate(values.tolist()):
        _require_positive(place, value)
    return tuple(values.tolist())


def _require_positive(place: int, value: object) -> None:
    if not is_number(value) or not 0.0 < value < np.inf:  # type: ignore[operator]
        raise LambdaplugError(
            f"propensities: expected a finite number > 0 for every position, got {shown(value)} for position {place}. A position that "
            "is never looked at has no clicks: leave out its rows, or give it a small number, as clip= bounds the weight."
        )


def _curve(propensities: tuple[float, ...] | Callable[[int], float], count: int, first: int) -> Array:
    """By position."""
    if callable(propensities):
        values = [propensities(place) for place in range(count)]
        for place, value in enumerate(values):
            _require_positive(place, value)
        return np.array(values, dtype=np.float64)
    if count > len(propensities):
        hint = " Positions count from 0: subtract 1." if first == 1 and count == len(propensities) + 1 else ""
        raise LambdaplugError(
            f"propensities: there are {len(propensities)}, for the positions 0 to {len(propensities) - 1}, and a row was shown at "
            f"position {count - 1}.{hint}"
        )
    return np.array(propensities[:count])


def _warn_of_a_new_beginning(trees: int) -> None:
    warnings.warn(
        f"this training continues a model of {trees} trees, and what was learned of positions beside them is no part of a "
        "model: it begins anew. To go on, pass start=lp.position_bias(earlier_booster) to lp.Unbiased.",
        LambdaplugWarning,
        stacklevel=4,
    )
