"""What all objectives share: from checked rows to float32 arrays, over threads, with the same bits at any number."""

import abc
import contextlib
import threading
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from ..checking import refuse_data, shown
from ..deprecation import labels_first
from ..errors import LambdaplugError, LambdaplugWarning
from ..kernels import PairBias, Team, finish_kernel, get_num_threads, run_tasks, shape_kernel
from ..measures import Measure, Prepared
from ..queries import Array, Labels, Queries, Task, refuse_score, vector
from ..rows import differing
from ..schedules import Guard, Memory, Moment, Number, OnPlateau, is_constant
from ..training import Rows, read
from ..values import Value
from ..watch import watch

__all__ = [
    "EMPTY",
    "HESSIAN_FLOOR",
    "Into",
    "MeasureObjective",
    "Measured",
    "Objective",
    "Ranking",
    "Scratch",
    "ValueObjective",
    "Wanted",
    "answers",
    "as_step",
    "common_cutoff",
    "refuse_document_weights",
    "require_objective",
    "require_order",
]

T = TypeVar("T")
Own = TypeVar("Own", bound="Objective")
Into: TypeAlias = tuple[float, Array, Array]  # a coefficient, and the gradient and hessian to add so many times to
Gradients: TypeAlias = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]

HESSIAN_FLOOR = 1e-16  # positive in float32; a document without any force must not make a booster's sum zero
EMPTY = np.empty(0)
FEW = 0.05  # a share of the queries below which it is worth saying that the others teach nothing


def as_step(
    step: str | None, normalize: str | None, usual: str | None, *, pairs: bool = False
) -> tuple[str | None, str]:
    """The step, ``usual`` unless said, and the normalisation, which is the step's unless said."""
    if normalize == "log" and not pairs:
        raise LambdaplugError(
            "normalize='log' scales a query by the sum of its pairs' forces, which only a LambdaRank knows. In a sum of "
            "objectives, give it to the parts: lp.LambdaRank('map', normalize='log')."
        )
    if step not in (None, "newton", "gradient"):
        raise LambdaplugError(f"step: expected 'newton' or 'gradient', got {step!r}.")
    if normalize not in (None, "std", "log", "none"):
        known = "'std', 'log', 'none'" if pairs else "'std', 'none'"
        raise LambdaplugError(f"normalize: expected {known} or None (what the step does), got {normalize!r}.")
    step = step or usual
    return step, normalize or ("std" if step == "gradient" else "none")


def common_cutoff(parts: Iterable["Objective"]) -> int | None:
    """The rank below which no pair of any part matters; None = all do."""
    cutoffs = [part.cutoff for part in parts]
    known = [cutoff for cutoff in cutoffs if cutoff is not None]
    return max(known) if len(known) == len(cutoffs) else None


def require_objective(value: Any, where: str = "") -> "Objective":
    """The value, which must be an objective; a measure, a class or a function is told what was meant."""
    if isinstance(value, Objective):
        return value
    kind = value if isinstance(value, type) else None
    meant = ""
    if isinstance(value, (str, Measure)):
        meant = f" Did you mean lp.objective({str(value)!r})?"
    elif kind is not None and issubclass(kind, Measure):
        meant = f" It is a class of measures. Did you mean lp.objective({kind.name!r})?"
    elif kind is not None and issubclass(kind, Objective):
        meant = f" It is a class: did you mean lp.{kind.__name__}(...), or lp.objective('map')?"
    elif hasattr(value, "sources") and hasattr(value, "names"):  # a metric
        meant = f" It reports. Did you mean lp.objective({value.names[0]!r})?"
    elif callable(value):
        meant = " Call it first: did you mean lp.objective('map')?"
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
    source: Labels | None,
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
        labels = _described(queries.labels_of(source))
        order = f"the order of the documents{among}"
        if found == 0:
            raise LambdaplugError(
                f"{objective!r} has nothing to learn from: there is no query, of {total}, in which its measure is defined "
                f"and depends on {order}. {labels} The longest query has {queries.longest} documents. Choose relevant=, "
                "gain=, the cut-off or the labels so that some queries have better and worse orders. In a mixture, leave "
                "out a part that can never act, or give it the weight 0."
            )
        warnings.warn(
            f"{objective!r} learns from {found} of {total} queries ({100 * found / total:.2g} %): in the others its measure "
            f"is not defined, or does not depend on {order}. {labels}",
            LambdaplugWarning,
            stacklevel=6,
        )

    queries.memo(("order matters", *key), judge)


def _described(labels: Array) -> str:
    """Which labels occur."""
    values, missing = np.unique(labels[~np.isnan(labels)]), int(np.count_nonzero(np.isnan(labels)))
    if not len(values):
        return "No row has a label."
    many = f"{len(values)} different ones from {values[0]:g} to {values[-1]:g}"
    few = ", ".join(f"{value:g}" for value in values[:10])
    rest = f"; {missing} rows have none" if missing else ""
    return f"The labels that occur are {few if len(values) <= 10 else many}{rest}."


class Wanted(NamedTuple):
    """Which gradients."""

    iteration: int = 0
    threads: int | None = None
    team: Team | None = None
    memory: Memory | None = None  # what schedules that watch a metric have seen in this training
    exact: bool = False  # float64 for every pair, and
    dtype: npt.DTypeLike = np.float32  # another type: for those who compare
    bias: PairBias | None = None  # by which pairs are multiplied, for Unbiased


class Measured(NamedTuple):
    """What else is to be found from the rankings of a round."""

    cutoffs: frozenset[int | None]  # how many of the top ranks it must know
    add: Callable[[Task, Mapping[int | None, npt.NDArray[np.int32]]], None]  # called for every task


@dataclass(frozen=True)
class Ranking:
    """Queries ranked by their scores, at one moment of a training: what every part of an objective starts from."""

    queries: Queries
    scores: Array
    orders: Mapping[int | None, npt.NDArray[np.int32]]  # by cut-off: for each query its documents by rank
    iteration: int = 0
    exact: bool = False  # float64 for every pair, whatever the spread of the scores
    engines: dict[Hashable, Any] = field(default_factory=dict)
    noisy: Array | None = None  # the scores that the orders are by, where they are others
    bias: PairBias | None = None  # by which pairs are multiplied, where they are

    @property
    def placed(self) -> Array:
        """The scores that the orders are by."""
        return self.scores if self.noisy is None else self.noisy

    def require_finite(self, task: Task) -> None:
        """Refuse scores that are not, for objectives that rank nothing: a ranking would have noticed."""
        start, stop = self.queries.offsets[[task.first, task.last]].tolist()
        finite = np.isfinite(self.scores[start:stop])
        if not finite.all():
            refuse_score(self.scores, start + int(np.argmin(finite)))

    def engine(self, objective: object, tier: Array, make: Callable[[], T]) -> T:
        """What this objective does with each task, worked out for the first of them."""
        key = id(objective), id(tier)  # an engine keeps both
        engine: T | None = self.engines.get(key)
        if engine is None:
            engine = self.engines[key] = make()
        return engine


class Scratch:
    """Arrays of one thread, reused from task to task."""

    def __init__(self) -> None:
        self._arrays: dict[Hashable, npt.NDArray[Any]] = {}
        self._depth = 0

    def array(self, name: Hashable, rows: int, size: int, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
        """So many rows, at least this long, their contents undefined."""
        kept = self._arrays.get(name)
        if kept is None or kept.shape[1] < size:
            kept = self._arrays[name] = np.zeros((rows, size), dtype)
        return kept

    @contextlib.contextmanager
    def deeper(self) -> Iterator[int]:
        """A number that no outer part is using, for a part's sums."""
        self._depth += 1
        yield self._depth
        self._depth -= 1

    def sums(self, name: Hashable, size: int) -> tuple[Array, Array]:
        """A gradient and a hessian of zeros."""
        buffers = self.array(name, 2, size)[:, :size]
        buffers[:] = 0.0
        return buffers[0], buffers[1]


class Pieces:
    """The parts of one huge query: added in their order, whoever finished first, and kept no longer than needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._early: dict[int, tuple[Array, Array]] = {}
        self._total: tuple[Array, Array] | None = None
        self._next = 0

    def add(self, task: Task, sums: tuple[Array, Array]) -> tuple[Array, Array] | None:
        """The sum of all parts, returned to the caller that adds the last one."""
        with self._lock:
            self._early[task.part] = sums
            while self._next in self._early:
                piece = self._early.pop(self._next)
                if self._total is None:
                    self._total = piece
                else:
                    for total, more in zip(self._total, piece, strict=True):
                        total += more
                self._next += 1
            return self._total if self._next == task.parts else None


class Objective(Value, abc.ABC):
    """A ranking objective: call ``gradients`` with arrays, or pass the object to LightGBM or XGBoost."""

    std: bool = False  # divide each query by the standard deviation of its gradients
    unit: bool = False  # every hessian is 1
    floor: float = HESSIAN_FLOOR  # the least hessian a host is given
    counted: bool = False  # it depends on the iteration itself, besides its schedules
    summable: bool = True  # a query's gradient needs no other query, so that it can be a part of a sum

    def __new__(cls: type[Own], *args: Any, **_: Any) -> Own:
        refuse_data(args, f"{cls.__name__} is a class of objectives")
        return object.__new__(cls)

    @property
    def parts(self) -> tuple["Objective", ...]:
        """The objectives that this one is made of."""
        return ()

    @property
    def schedules(self) -> tuple[Number | Guard, ...]:
        """Its own numbers that may follow a schedule, those of its parts apart."""
        return ()

    @property
    def constant(self) -> bool:
        """Whether it is the same in every round."""
        own = all(not isinstance(number, Guard) and is_constant(number) for number in self.schedules)
        return own and not self.counted and all(part.constant for part in self.parts)

    @property
    def watchers(self) -> tuple[OnPlateau | Guard, ...]:
        """Everything inside that wants to see a validation metric, this objective's own first."""
        own = [number for number in self.schedules if isinstance(number, (OnPlateau, Guard))]
        return tuple(dict.fromkeys([*own, *(watcher for part in self.parts for watcher in part.watchers)]))

    def at(self, iteration: int, memory: Memory | None = None) -> "Objective":
        """The plan of one round: this objective with a plain number in place of every schedule.

        Each schedule is called once; ``memory`` is what those that watch a metric have seen in this training.
        """
        return self.resolved(Moment(iteration, memory))

    def resolved(self, moment: Moment) -> "Objective":  # noqa: ARG002
        """``at``, for those that have something to resolve."""
        return self

    @property
    @abc.abstractmethod
    def cutoff(self) -> int | None:
        """The rank below which no pair matters; None = all do."""

    @property
    def cutoffs(self) -> frozenset[int | None]:
        """The cut-offs of all parts."""
        return frozenset([self.cutoff])

    @property
    def divisible(self) -> bool:
        """Whether a part of a query's pairs can be added up on its own: not if anything inside is normalised."""
        return True

    @property
    def sources(self) -> tuple[Labels, ...]:
        """Every label source inside besides the data set's own labels."""
        return tuple(dict.fromkeys(source for part in self.parts for source in part.sources))

    @property
    def target(self) -> Measure | None:
        """The one measure of the data set's labels that this objective trains for, if there is one."""
        return None

    def check_order(self, queries: Queries) -> None:
        """Refuse queries for which no scores at all have a gradient, and warn where most are such; for a training."""

    def check_share(self) -> None:
        """Refuse to train on one worker's share of the rows, where the others' would be needed."""
        for part in self.parts:
            part.check_share()

    @abc.abstractmethod
    def accumulate(self, ranking: Ranking, task: Task, scratch: Scratch, into: Into) -> None:
        """Add the gradient and hessian before ``shape``, the task's rows at index 0 on."""

    def shape(self, queries: Queries, task: Task, gradient: Array, hessian: Array) -> None:
        """Normalise whole queries in place, as this objective asks."""
        if self.std or self.unit:
            shape_kernel()(gradient, hessian, self.std, self.unit, queries.offsets, task.first, task.last)

    def weigh(self, queries: Queries, task: Task, gradient: Array, hessian: Array) -> Array:  # noqa: ARG002
        """The weights, one per query, that the sums are still to be multiplied by; empty: none are."""
        return EMPTY if queries.query_weight is None else queries.query_weight

    @labels_first(1)
    def gradients(
        self,
        labels: npt.ArrayLike,
        scores: npt.ArrayLike,
        group: npt.ArrayLike | None = None,
        weight: npt.ArrayLike | None = None,
        iteration: int = 0,
        *,
        qid: npt.ArrayLike | None = None,
    ) -> Gradients:
        """Gradient and hessian of every row, float32, in row order. Pure: the same arguments give the same bits.

        ``group`` holds the number of documents of each query, in order, or ``qid`` one query id per row. ``weight`` is one value per query (a weight of 2
        is the query twice) or one per document (a pair's force is multiplied by both its weights). LightGBM has weights of
        rows only: those that are equal within every query are read as one per query there.
        """
        return self.differentiate(Queries.weighted(labels, group, weight, qid), scores, iteration)

    def differentiate(
        self,
        queries: Queries,
        scores: npt.ArrayLike,
        iteration: int = 0,
        threads: int | None = None,
        **wanted: Any,
    ) -> tuple[Any, Any]:
        """``gradients`` of rows already checked; the rest as in ``Wanted``."""
        return self.answer(queries, vector(scores, "scores"), Wanted(iteration, threads, **wanted))

    def answer(self, queries: Queries, values: Array, wanted: Wanted) -> tuple[Any, Any]:
        """The gradients and hessians of one round."""
        (found,) = answers([self.at(wanted.iteration, wanted.memory)], queries, values, wanted)
        return found

    def __call__(self, scores: Any, data: Any, weight: Any = None, group: Any = None) -> Gradients:
        """What a host calls: (scores, data set); or, from ``lgb.LGBMRanker``, (labels, scores, weight, group)."""
        if group is not None:
            scores, data = data, Rows(scores, weight, group)
        data_set = read(data)
        if data_set.partial:
            self.check_share()
        plan = self
        iteration = 0
        if not self.constant:
            moment = data_set.moment(self)
            self._refuse_unseen(moment)
            iteration, plan = moment.iteration, self.resolved(moment)
        queries, threads, team = data_set.queries, data_set.threads, data_set.team
        if not data_set.partial:  # the other workers' rows may have what these have not, and asking could deadlock
            self.check_order(queries)
        gradient, hessian = plan.differentiate(queries, scores, iteration, threads, team=team)
        watch(data_set, scores, gradient, hessian)
        return gradient, hessian

    def _refuse_unseen(self, moment: Moment) -> None:
        """A schedule that watches a metric must have seen it by the second round."""
        for watcher in self.watchers if moment.later else ():
            if watcher not in (moment.memory or {}):
                raise LambdaplugError(
                    f"{watcher!r} watches {watcher.metric} on validation data, and nothing shows it: add "
                    "callbacks=[lp.callback(objective)] in lgb.train, lgb.cv, xgb.train or xgb.cv; lp.LGBMRanker and "
                    "lp.XGBRanker bring it themselves."
                )


def answers(
    plans: Sequence[Objective], queries: Queries, values: Array, wanted: Wanted, measured: Measured | None = None
) -> list[tuple[Any, Any]]:
    """The gradients and hessians of plans of one round, which share their rankings and threads; ``measured``: so do these."""
    iteration, threads, team, _, exact, dtype, bias = wanted
    queries.begin()
    rows = len(queries.labels)
    if len(values) != rows:
        raise LambdaplugError(f"scores: expected one per row ({rows}), got {len(values)}.")
    threads = get_num_threads(threads)
    several = len(plans) > 1 or measured is not None
    divisible = not several and plans[0].divisible and bias is None
    tasks = queries.tasks(common_cutoff(plans) if plans else 1, divisible, threads)
    # Each task ranks its own queries; a query that several tasks share is ranked before.
    alone = all(task.parts == 1 for task in tasks)
    cutoffs = {cutoff for plan in plans for cutoff in plan.cutoffs}
    tops = {cutoff: queries.top(cutoff) for cutoff in (cutoffs if measured is None else cutoffs | measured.cutoffs)}
    found = {
        top: queries.begin_ranking(top) if alone else (queries.rank(values, threads, top, team), True)
        for top in set(tops.values())
    }
    orders = {cutoff: found[top][0] for cutoff, top in tops.items()}
    longest = queries.longest
    ranking = Ranking(queries, values, orders, iteration, exact, bias=bias)
    outs = [(np.empty(rows, dtype), np.empty(rows, dtype)) for _ in plans]
    pool: list[Scratch] = queries.memo("scratch", list)  # fresh memory every round would cost more than it holds
    split: dict[int, Pieces] = {}

    def finish(plan: Objective, task: Task, gradient: Array, hessian: Array, out: tuple[Any, Any]) -> None:
        plan.shape(queries, task, gradient, hessian)
        weight = plan.weigh(queries, task, gradient, hessian)
        sums = gradient, hessian
        row = finish_kernel()(sums, weight, plan.floor, queries.offsets, task.first, task.last, out)
        if row >= 0:
            raise LambdaplugError(
                f"{plan!r}: the gradient of row {row} is {out[0][row]}, its hessian {out[1][row]}. "
                "Gains, weights, sigma or the spread of the scores are too large for float32: scale them down."
            )

    def work(next_task: Callable[[], Task | None]) -> None:
        try:
            scratch = pool.pop()
        except IndexError:
            scratch = Scratch()
        buffers = scratch.array("keys", 2, longest), scratch.array("documents", 2, longest, np.int32)
        while (task := next_task()) is not None:
            for top, (order, known) in found.items() if alone else ():
                queries.rank_part(values, top, task.first, task.last, order, *buffers, known=known)
            size = int(queries.offsets[task.last] - queries.offsets[task.first])
            for plan, out in zip(plans, outs, strict=True):
                sums = (scratch if task.parts == 1 else Scratch()).sums("sums", size)
                plan.accumulate(ranking, task, scratch, (1.0, *sums))
                whole = sums if task.parts == 1 else split.setdefault(task.first, Pieces()).add(task, sums)
                if whole is not None:
                    finish(plan, task, *whole, out)
                    split.pop(task.first, None)
            if measured is not None:
                measured.add(task, orders)
        pool.append(scratch)

    run_tasks(work, tasks, threads, team)
    for top, (order, _) in found.items() if alone else ():
        queries.end_ranking(top, order)
    return outs


class MeasureObjective(Objective):
    """An objective of one measure over one label source."""

    measure: Measure
    labels: Labels | None
    ignore_zero: bool = False  # rows with the label 0 are in no pair

    @property
    def sources(self) -> tuple[Labels, ...]:
        return (*(() if self.labels is None else (self.labels,)), *self.measure.sources)

    @property
    def target(self) -> Measure | None:
        return self.measure if self.labels is None else None

    def prepared(self, queries: Queries) -> Prepared:
        """The measure's view of these queries; made once per data set."""

        def prepare() -> Prepared:
            prepared = self.measure.prepared_for(queries, self.labels)
            if self.ignore_zero:
                zero = queries.labels_of(self.labels) == 0.0
                prepared = prepared._replace(grade=np.where(zero, np.nan, prepared.grade))
            return prepared

        return queries.memo((self.measure, self.labels, self.ignore_zero), prepare)


class ValueObjective(MeasureObjective):
    """One that differentiates each query's measure as a whole, by its value for the documents' order."""

    divisible = False  # the value of a query needs all of it

    def check_order(self, queries: Queries) -> None:
        def acting() -> npt.NDArray[np.bool_]:
            gain, _, norm, discount, _ = self.prepared(queries)  # the gain of a document without a label counts as well
            defined: npt.NDArray[np.bool_] = (norm != 0.0) & (queries.sizes >= self.measure.shortest(discount))
            return differing(gain, queries.offsets) & defined

        require_order(self, queries, (self.measure, self.labels), self.labels, acting)
