"""Clicks and where they were seen: the bias of display positions, learned beside the model or known."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import plotting
from ..checking import not_negative, positive, shown
from ..columns import column_name
from ..costs import RankNet
from ..errors import LambdaplugError, LambdaplugWarning
from ..kernels import PairBias
from ..known import forget, known_of
from ..queries import Array, Queries, vector
from ..reports import Report
from ..rows import row_order
from ..schedules import Moment
from ..values import Value, keep
from .base import EMPTY, Asked, Objective, Round, planned, require_objective
from .lambdarank import LambdaRank

__all__ = ["PositionBias", "State", "Unbiased", "begun", "keep_state", "last_state"]

Integers: TypeAlias = npt.NDArray[np.int64]
Total: TypeAlias = Callable[[Array], Array]  # adds up over the workers that train together
# By method: the usual regularization, by which pairwise curves are nearest to the truth; the additive one is LightGBM's.
REGULARIZATION = {"additive": 0.0, "pairwise": 0.1}
ROWS = "rows"
MOST = 1 << 20  # positions
USUAL_RATE = 0.1  # LightGBM's default, where no Booster says its own
DAMPING = 0.001  # LightGBM's: keeps a step finite where a position has no hessian


def _checked(own: Array, name: str = "position") -> Integers:
    """Positions as integers, refused unless they are >= 0."""
    wrong = np.flatnonzero(~(np.isfinite(own) & (own >= 0) & (own < MOST) & (own == np.floor(own))))
    if len(wrong):
        row = int(wrong[0])
        raise LambdaplugError(
            f"{name}: expected integers from 0, the top, to {MOST - 1}, one per row; row {row} has {own[row]:g}. Leave out "
            "rows that were not shown."
        )
    return own.astype(np.int64)


@dataclass(frozen=True, repr=False)
class PositionBias(Report, Value):
    """What a training has learned of its display positions; see :func:`lambdaplug.position_bias`.

    Parameters
    ----------
    method : str
        ``"additive"`` or ``"pairwise"``.
    columns : sequence
        By position what was learned: one sequence, what was added to the scores (additive), or two, t+ and t-, relative to the
        first position and 0 where no pair has shown them (pairwise).
    counts : sequence, optional
        By position the number of rows, and of those with a label above 0. Their ratio is what would be seen without a
        correction.

    Attributes
    ----------
    propensity : array
        By position, relative to the first one: how likely a click is for where it was shown alone. For the pairwise
        method t+. For the additive one o/(1 - a + a o), where o = exp(bias - bias of the first) is a ratio of odds, and a
        the mean chance of a click at the first position, a = sum(clicks/propensity)/sum(rows), which is linear in a: the
        ratio of chances that belongs to o (Zhang, Yu 1998, "What's the relative risk?", JAMA).

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.PositionBias("pairwise", [[1.0, 0.5], [1.0, 0.9]]).propensity
    array([1. , 0.5])
    """

    method: str
    columns: Sequence[Sequence[float] | npt.NDArray[Any]]
    counts: Sequence[Sequence[float] | npt.NDArray[Any]] | npt.NDArray[Any] = ((), ())

    def __post_init__(self) -> None:
        for name in ("columns", "counts"):
            several = getattr(self, name)
            keep(self, **{name: tuple(tuple(np.asarray(one, np.float64).tolist()) for one in several)})

    def written(self) -> str:
        return Value.__repr__(self)

    def _cells(self) -> list[list[str]]:
        return [["position", "propensity"], *([f"{k}", f"{x:.3f}"] for k, x in enumerate(self.propensity.tolist()))]

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def propensity(self) -> Array:
        learned = np.array(self.columns[0])
        if self.method == "pairwise":
            return learned
        rows, clicks = np.array(self.counts)
        known = len(rows) > 0
        first = int(np.argmax(rows > 0.0)) if known else 0
        odds: Array = np.exp(learned - learned[first : first + 1])
        if not known:
            return odds
        at_first = float(np.sum(clicks / odds[: len(clicks)]) / rows.sum())
        chance = at_first / (1.0 + at_first - float(clicks.sum() / rows.sum()))
        return odds / (1.0 - chance + chance * odds)

    def plot(self, ax: Any = None, truth: npt.ArrayLike | None = None) -> Any:
        """The propensities by position, beside the clicks as they are, and the truth where it is known. Returns Matplotlib's axes."""
        names = ("t+", "t-") if self.method == "pairwise" else ("additive",)
        curves = self.columns if self.method == "pairwise" else [self.propensity]
        rows, clicks = np.array(self.counts)
        with plotting.drawing(ax) as ax:
            if truth is not None:
                known = np.asarray(truth, float)
                ax.plot(known / known[0], "k--", label="truth")
            for name, values in zip(names, curves, strict=True):
                ax.plot(values, marker="o", markersize=3, label=name)
            seen = np.flatnonzero(clicks > 0.0)
            if len(seen):
                rate = clicks[seen] / rows[seen]
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
        missing = max(count - len(self.columns[0]), 0)
        self.columns = [np.append(own, np.zeros(missing, own.dtype)) for own in self.columns]

    def copy(self) -> State:
        """One that may go on while this one stays as it is."""
        other = copy.copy(self)
        other.columns = list(self.columns)
        return other

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
        inverse = [1.0 / np.where(own > 0.0, own, 1.0)[positions] for own in self.columns]
        return np.minimum(inverse[0], clip), np.minimum(inverse[1], 1.0)

    def weigh(self, positions: Integers, plus: Array, minus: Array, total: Total | None, regularization: float) -> None:
        """t+ and t- from the costs of each row's pairs."""
        power = 1.0 / (1.0 + regularization)
        for k, sums in enumerate(_sums(positions, (plus, minus), len(self.columns[0]), total)):
            acting = sums > 0.0  # a position without pairs in this round keeps what it has
            first = sums[np.argmax(acting)]
            self.columns[k] = np.where(acting, (sums / np.where(acting, first, 1.0)) ** power, self.columns[k])


def _sums(positions: Integers, values: Sequence[Any], count: int, total: Total | None) -> Array:
    """By position, of one value per row each; None counts the rows."""
    sums = np.array([np.bincount(positions, weights=one, minlength=count) for one in values], dtype=np.float64)
    return sums if total is None else total(sums)


def keep_state(objective: Objective, state: State) -> None:
    """As that of the training that began last."""
    forget(objective)  # an equal objective that may end sooner must not be the key
    known_of(objective)["state"] = state


def last_state(objective: Objective) -> State | None:
    """Of the training that began last with this objective, or one equal to it."""
    return known_of(objective).get("state")


def begun(objective: Objective, moment: Moment, method: str, start: PositionBias | None = None) -> State:
    """What the objective has learned before this round, to go on from: it is kept for the next one."""
    known: State | None = moment.recall(objective)
    state = State(method, start) if known is None else known.copy()
    moment.keep(objective, state)
    if moment.memory is not None and not moment.look:
        keep_state(objective, state)
    return state


Propensities: TypeAlias = Sequence[float] | npt.NDArray[Any] | PositionBias | Callable[[int], float]


@dataclass(frozen=True, repr=False)
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
    position : str, optional
        The name of a column (see :func:`attach`) with where each row was shown, integers, 0 for the top. ``"rows"``: the place of
        a row within its query, as in XGBoost. Default: what the data set says, LightGBM's ``Dataset(position=...)`` (which LightGBM renumbers in the order of
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
    ``position`` is ``"rows"`` or a column, laid out with the rows by ``lp.dask.partition_by_query``.

    References
    ----------
    Z. Hu, Y. Wang, Q. Peng, H. Li (2019), "Unbiased LambdaMART: an unbiased pairwise learning-to-rank
    algorithm", WWW. T. Joachims, A. Swaminathan, T. Schnabel (2017), "Unbiased learning-to-rank with biased feedback",
    WSDM. On a real engine's logs such corrections improved the prediction of clicks more surely than rankings: P. Hager
    et al. (2024), "Unbiased learning to rank meets reality: lessons from Baidu's large-scale search dataset", SIGIR.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> objective = lp.Unbiased(lp.LambdaRank("ndcg@10"), position="rows")
    >>> objective
    Unbiased(LambdaRank('ndcg@10'), position='rows')
    >>> weighed = lp.Unbiased(lp.LambdaRank("map"), position="shown", propensities=[1.0, 0.5])
    >>> weighed.gradients(labels=[0, 1], scores=[0.0, 0.0], group=[2], columns={"shown": [0, 1]})[0]
    array([ 0.5, -0.5], dtype=float32)
    """

    objective: Objective
    position: str | None = None
    method: str = "additive"
    _: KW_ONLY
    regularization: float | None = None
    rate: float | None = None
    propensities: Propensities | None = None
    clip: float = 20.0
    normalize: bool = False
    start: PositionBias | None = None

    summable = False  # what it learns, it learns from all queries
    state: ClassVar[State | None] = None  # of a round's plan
    total: ClassVar[Any] = None  # of a round's plan on a cluster

    def __post_init__(self) -> None:
        if isinstance(require_objective(self.objective), Unbiased):
            raise LambdaplugError(f"expected an objective such as lp.LambdaRank('map'), got {self.objective!r}.")
        method, known, start = self.method, self.propensities is not None, self.start
        if known or method == "pairwise":
            _require_pairs(self.objective)
        for wrong, said in (
            (method not in REGULARIZATION, f"method: expected 'additive' or 'pairwise', got {shown(method)}."),
            (
                self.rate is not None and (known or method == "pairwise"),
                "rate: it is the additive method's; leave it out.",
            ),
            (self.normalize and not known, "normalize: it is for propensities=; leave it out."),
            (
                known and self.position is None,
                "propensities: expected position= beside them, the name of a column or 'rows', as LightGBM renumbers the "
                "positions of a Dataset.",
            ),
            (
                start is not None and (not isinstance(start, PositionBias) or known or start.method != method),
                f"start: expected what the same method has learned, lp.position_bias(booster), got {shown(start)}.",
            ),
        ):
            if wrong:
                raise LambdaplugError(said)
        given = self.propensities
        keep(self, clip=positive(self.clip, "clip"), normalize=bool(self.normalize))
        if self.position is not None:
            column_name(self.position, "position")
        if self.regularization is not None:
            keep(self, regularization=not_negative(self.regularization, "regularization"))
        if self.rate is not None:
            keep(self, rate=positive(self.rate, "rate"))
        if known and not callable(given):
            keep(self, propensities=tuple(_curve(given).tolist()))

    @property
    def counted(self) -> bool:
        return self.propensities is None

    @property
    def inner(self) -> tuple[Objective, ...]:
        return (self.objective,)

    @property
    def cutoff(self) -> int | None:
        return self.objective.cutoff

    def check_order(self, queries: Queries) -> None:
        self.objective.check_order(queries)

    def check_share(self) -> None:
        if self.position is None:
            raise LambdaplugError(
                f"{self!r}: on a cluster, position must follow the rows: expected 'rows', where the rows of each query stand in "
                "the order shown, or the name of a column."
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
            if self.position == ROWS:
                return row_order(queries.offsets).astype(np.int64)
            if self.position is not None:
                return _checked(queries.column(self.position), f"column {self.position!r}")
            if queries.position is None:
                raise LambdaplugError(
                    "position: the data set does not say where its rows were shown. Attach a column, "
                    "lp.attach(data, position=values), 0 for the top, and name it: lp.Unbiased(..., position='position'); "
                    "position='rows' if the rows of each query stand in the order shown."
                )
            own = _checked(vector(queries.position, "position"))
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
            return planned(self, objective=inner)
        anew = moment.memory is not None and moment.iteration > 0 and self.start is None
        if anew and moment.recall(self) is None:
            warnings.warn(
                f"this training continues a model of {moment.iteration} trees, and what was learned of positions beside them "
                "is no part of a model: it begins anew. To go on, pass start=lp.position_bias(earlier_booster) to lp.Unbiased.",
                LambdaplugWarning,
                stacklevel=3,
            )
        state = begun(self, moment, self.method, self.start)
        rate = moment.rate() if self.rate is None and self.method == "additive" else self.rate
        return planned(self, objective=inner, state=state, rate=rate, total=moment.total)

    def weights(self, queries: Queries) -> Array:
        """One per row: 1/propensity of its position."""

        def make() -> Array:
            positions = self.positions(queries)
            curve = _curve(self.propensities, int(positions.max(initial=-1)) + 1)
            weight: Array = np.minimum(1.0 / curve, self.clip)[positions]
            if self.normalize:
                clicked = queries.labels > 0.0
                if not clicked.any():
                    raise LambdaplugError("normalize: no row has a label above 0, so that the weights have no mean.")
                weight = weight / weight[clicked].mean()
            return weight

        return queries.memo(("propensities", self.position, self.propensities, self.clip, self.normalize), make)

    def answer(self, queries: Queries, values: Array, asked: Asked) -> tuple[Any, Any]:
        """As every objective's; a plan of a training also learns from what comes out."""
        assert asked.bias is None
        plan = self.resolved(Moment(asked.iteration, asked.memory))
        positions, state = plan.positions(queries), plan.state

        def inner(values: Array, bias: PairBias | None = None) -> tuple[Any, Any]:
            return plan.objective.answer(queries, values, asked._replace(memory=None, bias=bias))

        weight = EMPTY if queries.query_weight is None else queries.query_weight
        plus, minus = np.zeros((2, len(positions)))
        if state is None:
            return inner(values, PairBias(plan.weights(queries), np.ones(len(positions)), plus, minus, weight))
        more = plan.total is None and int(positions.max(initial=-1)) >= state.counts.shape[1]
        if more or not state.counts.size:
            state.begin(positions, queries.labels, plan.total)
        regularization = REGULARIZATION[plan.method] if plan.regularization is None else plan.regularization
        if plan.method == "additive":
            shifted = values + state.columns[0][positions] if len(values) == len(positions) else values
            out = inner(shifted)
            state.step(positions, out, plan.total, USUAL_RATE if plan.rate is None else plan.rate, regularization)
            return out
        out = inner(values, PairBias(*state.factors(positions, plan.clip), plus, minus, weight))
        state.weigh(positions, plus, minus, plan.total, regularization)
        return out

    def at(self, round: Round) -> NoReturn:
        raise LambdaplugError(
            f"{self!r} cannot be a part of another objective: the correction goes around the whole, lp.Unbiased(lp.Mixture(...))."
        )


def _require_pairs(objective: Objective) -> None:
    """Refuse an objective that has other leaves than LambdaRank with a pair cost."""
    for part in objective.inner:
        _require_pairs(part)
    pairs = isinstance(objective, LambdaRank) and objective.rule.costed and isinstance(objective.cost, RankNet)
    if not objective.inner and not pairs:
        raise LambdaplugError(
            f"{objective!r}: method='pairwise' and propensities= weigh pairs, and need lp.LambdaRank, a Mixture or a Graded of "
            "such, with cost='ranknet' and a construction that has a pair cost. method='additive' takes any objective."
        )


def _curve(propensities: Any, count: int = 0) -> Array:
    """By position, of which at least so many are needed."""
    values = [propensities(place) for place in range(count)] if callable(propensities) else propensities
    curve = vector(values.propensity if isinstance(values, PositionBias) else values, "propensities")
    if len(curve) < count or not ((curve > 0.0) & (curve < np.inf)).all():
        raise LambdaplugError(
            f"propensities: expected a finite number > 0 for each of the positions 0 to {max(count, len(curve)) - 1}, got "
            f"{shown(curve.tolist())}. A position that is never looked at has no clicks: leave out its rows, or give it a small "
            "number, as clip= bounds the weight."
        )
    return curve
