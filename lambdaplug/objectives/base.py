"""What all objectives share: from checked rows to float32 arrays, over threads, with the same bits at any number."""

import abc
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..checking import refuse_data, shown
from ..columns import column_name
from ..errors import LambdaplugError, LambdaplugWarning
from ..kernels import Leaf, PairBias, Team, get_num_threads, leaves
from ..measures import Measure, Prepared
from ..queries import Array, Queries, vector
from ..rows import differing
from ..schedules import Guard, Memory, Moment, Number, OnPlateau, is_constant
from ..training import Rows, read
from ..values import Value
from ..watch import watch

Own = TypeVar("Own", bound="Objective")
Gradients: TypeAlias = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]

HESSIAN_FLOOR = 1e-16  # positive in float32; a document without any force must not make a booster's sum zero
EMPTY = np.empty(0)
FEW = 0.05  # a share of the queries below which it is worth saying that the others teach nothing


def planned(objective: Own, /, **now: Any) -> Own:
    """The plan of a round: the objective with what is known then in place of its own, and not checked again."""
    plan = object.__new__(type(objective))
    plan.__dict__.update(objective.__dict__, **now)
    return plan


def label_column(labels: object) -> str | None:
    """The name of the column with the labels; None: the data set's own."""
    return None if labels is None else column_name(labels, "labels", "clicks")


def normalization(normalize: str | None, unit: bool) -> str:
    """The normalisation, which is the step's unless said."""
    return normalize or ("std" if unit else "none")


def check_step(step: str | None, normalize: str | None, *, pairs: bool = False) -> None:
    """Refuse other words than there are."""
    if step not in (None, "newton", "gradient"):
        raise LambdaplugError(f"step: expected 'newton' or 'gradient', got {step!r}.")
    if normalize not in (None, "std", "none", "log") or (normalize == "log" and not pairs):
        raise LambdaplugError(
            f"normalize: expected 'std', 'none' or None (what the step does), got {normalize!r}. 'log', by the sum of the "
            "pairs' forces, is for a LambdaRank alone; in a sum of objectives, for its parts."
        )


def common_cutoff(parts: Iterable["Objective"]) -> int | None:
    """The rank below which no pair of any part matters; None = all do."""
    cutoffs = [part.cutoff for part in parts]
    known = [cutoff for cutoff in cutoffs if cutoff is not None]
    return max(known) if len(known) == len(cutoffs) else None


def require_objective(value: Any, where: str = "") -> "Objective":
    """The value, which must be an objective."""
    if isinstance(value, Objective):
        return value
    meant = f" Did you mean lp.objective({str(value)!r})?" if isinstance(value, (str, Measure)) else ""
    raise LambdaplugError(f"{where}expected an objective such as lp.objective('map'), got {shown(value)}.{meant}")


def refuse_document_weights(objective: object, queries: Queries) -> None:
    """For objectives that differentiate a query's value as a whole: it has no pairs whose force could be weighed."""
    if queries.document_weight is not None:
        raise LambdaplugError(
            f"{objective!r} is the gradient of each query's measure as a whole, so weights must be one per query; these "
            "are one per document. LightGBM has those only: there, repeat each query's weight over its rows."
        )


def require_order(
    objective: "Objective",
    queries: Queries,
    key: tuple[Hashable, ...],
    labels: str | None,
    acting: Callable[[], npt.NDArray[np.bool_]],
    among: str = "",
) -> None:
    """Refuse queries of which none is ``acting``, one per query: with a gradient for some scores; warn of few.

    Once for every ``key``, which says all that ``acting`` depends on; ``among`` which documents have an order.
    """

    def judge() -> None:
        found, total = int(np.count_nonzero(acting())), int(np.count_nonzero(queries.sizes))
        if total == 0 or found >= FEW * total:
            return
        known = _described(queries.labels_of(labels))
        if found == 0:
            raise LambdaplugError(
                f"{objective!r} has nothing to learn from: there is no query, of {total}, in which its measure is defined "
                f"and depends on the order of the documents{among}. {known} The longest query has {queries.longest} "
                "documents. Choose relevant=, gain=, the cut-off or the labels so that some queries have better and worse "
                "orders. In a mixture, leave out a part that can never act, or give it the weight 0."
            )
        message = (
            f"{objective!r} learns from {found} of {total} queries ({100 * found / total:.2g} %): in the others its measure "
            f"is not defined, or does not depend on the order of the documents{among}. {known}"
        )
        warnings.warn(message, LambdaplugWarning, stacklevel=6)

    queries.memo(("order matters", *key), judge)


def _described(labels: Array) -> str:
    """Which labels occur."""
    known = np.unique(labels[~np.isnan(labels)])
    shown = ", ".join(f"{value:g}" for value in known[:10]) + ", ..." * (len(known) > 10)
    return f"The labels that occur are {shown or 'none at all'}; {np.count_nonzero(np.isnan(labels))} rows have none."


class Asked(NamedTuple):
    """Which gradients."""

    iteration: int = 0
    threads: int | None = None
    team: Team | None = None
    memory: Memory | None = None  # what schedules that watch a metric have seen in this training
    exact: bool = False  # float64 for every pair, and
    dtype: npt.DTypeLike = np.float32  # another type: for those who compare
    bias: PairBias | None = None  # by which pairs are multiplied, for Unbiased


class Round(NamedTuple):
    """What an objective makes its leaves for: queries at one moment of a training, and where its gradients are added."""

    queries: Queries
    scores: Array
    iteration: int = 0
    exact: bool = False
    bias: PairBias | None = None
    coefficient: float = 1.0  # of what is added
    level: int = 0  # of the sum that it is added to
    draws: dict[Hashable, int] = {}  # noqa: RUF012  # the noisy orders of this round, by number


class Objective(Value, abc.ABC):
    """A ranking objective: call ``gradients`` with arrays, or pass the object to LightGBM or XGBoost."""

    floor: ClassVar[float] = HESSIAN_FLOOR  # the least hessian a host is given
    scheduled: ClassVar[tuple[str, ...]] = ()  # the fields that may follow a schedule

    def __new__(cls: type[Own], *args: Any, **_: Any) -> Own:
        refuse_data(args, f"{cls.__name__} is a class of objectives")
        return object.__new__(cls)

    @property
    def std(self) -> bool:
        """Whether each query is divided by the standard deviation of its gradients."""
        return False

    @property
    def unit(self) -> bool:
        """Whether every hessian is 1."""
        return False

    @property
    def counted(self) -> bool:
        """Whether it depends on the iteration itself, besides its schedules."""
        return False

    @property
    def ranked(self) -> bool:
        """Whether it wants the documents by rank."""
        return True

    @property
    def summable(self) -> bool:
        """Whether a query's gradient needs no other query, so that it can be a part of a sum."""
        return True

    @property
    def inner(self) -> tuple["Objective", ...]:
        """The objectives that this one is made of."""
        return ()

    @property
    def depth(self) -> int:
        """How many sums of parts are made inside its own."""
        return max((part.depth + part.shaped for part in self.inner), default=0)

    @property
    def schedules(self) -> tuple[Number | Guard, ...]:
        """Its own numbers that may follow a schedule, those of its parts apart."""
        return tuple(getattr(self, name) for name in self.scheduled)

    @property
    def constant(self) -> bool:
        """Whether it is the same in every round."""
        own = all(not isinstance(number, Guard) and is_constant(number) for number in self.schedules)
        return own and not self.counted and all(part.constant for part in self.inner)

    @property
    def watchers(self) -> tuple[OnPlateau | Guard, ...]:
        """Everything inside that wants to see a validation metric, this objective's own first."""
        own = [number for number in self.schedules if isinstance(number, (OnPlateau, Guard))]
        return tuple(dict.fromkeys([*own, *(watcher for part in self.inner for watcher in part.watchers)]))

    def resolved(self, moment: Moment) -> "Objective":
        """The plan of one round: this objective with a plain number in place of every schedule, each called once."""
        return self

    @property
    @abc.abstractmethod
    def cutoff(self) -> int | None:
        """The rank below which no pair matters; None = all do."""

    @property
    def goal(self) -> Measure | None:
        """The one measure of the data set's labels that this objective trains for, if there is one: of a sum, the first part's."""
        return self.inner[0].goal if self.inner else None

    def check_order(self, queries: Queries) -> None:
        """Refuse queries for which no scores at all have a gradient, and warn where most are such; for a training."""

    def check_share(self) -> None:
        """Refuse to train on one worker's share of the rows, where the others' would be needed."""
        for part in self.inner:
            part.check_share()

    @abc.abstractmethod
    def at(self, round: Round) -> list[Leaf]:
        """The leaves that add this plan's gradient and hessian, as they are before its own shape, to a level of the sum."""

    @property
    def shaped(self) -> bool:
        """Whether a query's sums are still to be changed as a whole."""
        return self.std or self.unit

    def within(self, round: Round, coefficient: float, *more: Any) -> list[Leaf]:
        """``at``, as a part so often: one that is shaped has a level of its own."""
        coefficient *= round.coefficient
        if not self.shaped:
            return self.at(round._replace(coefficient=coefficient), *more)
        own = self.at(round._replace(coefficient=1.0, level=round.level + 1), *more)
        values = self.std, self.unit, coefficient, round.level
        return [*own, Leaf(leaves.gathered, (), values)]

    def ending(self, queries: Queries, out: tuple[Any, Any]) -> list[Leaf]:
        """The leaves that bring the sum into its shape, weigh it and write it."""
        weight = EMPTY if queries.query_weight is None else queries.query_weight
        kind = leaves.written if out[0].dtype == np.float32 else leaves.written_exactly

        def refuse(row: int) -> None:
            raise LambdaplugError(
                f"{self!r}: the gradient of row {row} is {out[0][row]}, its hessian {out[1][row]}. "
                "Gains, weights, sigma or the spread of the scores are too large for float32, or a function of the measure "
                "is not finite for some order of the documents."
            )

        return [Leaf(kind, (), (self.std, self.unit, weight, self.floor, out), refuse)]

    def gradients(
        self,
        labels: npt.ArrayLike,
        scores: npt.ArrayLike,
        group: npt.ArrayLike | None = None,
        weight: npt.ArrayLike | None = None,
        iteration: int = 0,
        *,
        qid: npt.ArrayLike | None = None,
        columns: Mapping[str, Any] | None = None,
    ) -> Gradients:
        """Gradient and hessian of every row, float32, in row order. Pure: the same arguments give the same bits.

        ``group`` holds the number of documents of each query, in order, or ``qid`` one query id per row. ``weight`` is one value
        per query (a weight of 2 is the query twice) or one per document (a pair's force is multiplied by both its weights).
        LightGBM has weights of rows only: those that are equal within every query are read as one per query there.
        ``columns`` has by name those that the objective names, ``{"clicks": clicks}``: see :func:`attach`.
        """
        return self.differentiate(Queries.weighted(labels, group, weight, qid, columns), scores, iteration)

    def differentiate(
        self, queries: Queries, scores: npt.ArrayLike, iteration: int = 0, threads: int | None = None, **wanted: Any
    ) -> tuple[Any, Any]:
        """``gradients`` of rows already checked; the rest as in ``Asked``."""
        return self.answer(queries, vector(scores, "scores"), Asked(iteration, threads, **wanted))

    def answer(self, queries: Queries, values: Array, asked: Asked) -> tuple[Any, Any]:
        """The gradients and hessians of one round."""
        (found,) = answers([self.resolved(Moment(asked.iteration, asked.memory))], queries, values, asked)
        return found

    def __call__(self, scores: Any, data: Any, weight: Any = None, group: Any = None) -> Gradients:
        """What a host calls: (scores, data set); or, from ``lgb.LGBMRanker``, (labels, scores, weight, group)."""
        if group is not None:
            scores, data = data, Rows(scores, weight, group)
        data_set = read(data)
        if data_set.asked == "metric":
            name = "map" if self.goal is None else str(self.goal)
            raise LambdaplugError(
                f"{self!r} is an objective, and was given as a metric (feval, custom_metric): say lp.metric({name!r})."
            )
        if data_set.partial:
            self.check_share()
        iteration, plan = 0, self
        if not self.constant:
            moment = data_set.moment(self, scores)
            self._refuse_unseen(moment)
            iteration, plan = moment.iteration, self.resolved(moment)
        queries = data_set.queries
        if not data_set.partial:  # the other workers' rows may have what these have not, and asking could deadlock
            self.check_order(queries)
        found = plan.differentiate(queries, scores, iteration, data_set.threads, team=data_set.team)
        watch(data_set, *found)
        return found

    def _refuse_unseen(self, moment: Moment) -> None:
        """A schedule that watches a metric must have seen it by the second round."""
        for watcher in self.watchers if moment.later else ():
            if watcher not in (moment.memory or {}):
                raise LambdaplugError(
                    f"{watcher!r} watches {watcher.measure} on validation data, and nothing shows it: add "
                    "callbacks=[lp.callback(objective)] in lgb.train, lgb.cv, xgb.train or xgb.cv; lp.LGBMRanker and "
                    "lp.XGBRanker bring it themselves."
                )


def answers(
    plans: Sequence[Objective], queries: Queries, values: Array, asked: Asked, measuring: Sequence[Leaf] = ()
) -> list[tuple[Any, Any]]:
    """The gradients and hessians of plans of one round, which share their rankings and threads; so do leaves that measure."""
    queries.begin()
    rows = len(queries.labels)
    if len(values) != rows:
        raise LambdaplugError(f"scores: expected one per row ({rows}), got {len(values)}.")
    outs = [(np.empty(rows, asked.dtype), np.empty(rows, asked.dtype)) for _ in plans]
    round = Round(queries, values, asked.iteration, asked.exact, asked.bias, draws={})
    steps: list[Leaf] = []
    for plan, out in zip(plans, outs, strict=True):
        steps += plan.at(round) + plan.ending(queries, out)
    queries.run(
        [*steps, *measuring],
        values,
        get_num_threads(asked.threads),
        asked.team,
        cutoff=common_cutoff(plans) if plans else 1,
        ranked=bool(measuring) or any(plan.ranked for plan in plans),
        levels=max((plan.depth for plan in plans), default=0) + 1,
    )
    return outs


class MeasureObjective(Objective):
    """An objective of one measure by the data set's labels, or those in a column."""

    measure: str | Measure
    labels: str | None

    @property
    def kind(self) -> Measure:
        """The measure."""
        return cast(Measure, self.measure)

    @property
    def goal(self) -> Measure | None:
        return self.kind if self.labels is None else None

    def prepared(self, queries: Queries) -> Prepared:
        """The measure's view of these queries; made once per data set."""

        return queries.memo((self.kind, self.labels, False), lambda: self.kind.prepared_for(queries, self.labels))


class ValueObjective(MeasureObjective):
    """One that differentiates each query's measure as a whole, by its value for the documents' order."""

    def check_order(self, queries: Queries) -> None:
        def acting() -> npt.NDArray[np.bool_]:
            gain, _, norm, discount, _ = self.prepared(queries)  # the gain of a document without a label counts as well
            defined: npt.NDArray[np.bool_] = (norm != 0.0) & (queries.sizes >= self.kind.shortest(discount))
            return differing(gain, queries.offsets) & defined

        require_order(self, queries, (self.kind, self.labels), self.labels, acting)
