"""The pair engine: the queries of a task, from their order and scores to forces, by whichever loops they are for.

An engine is made once per round and objective, and called once per task. It knows orders and scores as two things:
deltas belong to the order that the ranking gives, forces to its scores.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..kernels import (
    BY_GAIN,
    BY_RANK,
    COLUMN_BLOCK,
    CUT,
    FAST_SPREAD,
    FLOAT32_ROWS,
    FLOAT64_ROWS,
    MARK_ROWS,
    PADDING,
    PLACE_ROWS,
    WIDE,
    Documents,
    Levels,
    PairShape,
    Pull,
    Wanted,
    by_delta_kernel,
    by_gain_kernel,
    by_rank_kernel,
    exact_kernel,
    rows_of,
    stage_by_gain_kernel,
    stage_by_rank_kernel,
    swap_kernel,
)
from ..measures.deltas import frozen
from ..queries import Array, Task
from .base import EMPTY, Into, Ranking, Scratch

if TYPE_CHECKING:
    from .lambdarank import LambdaRank

__all__ = ["NO_COUNTS", "ByDelta", "ByRows", "Debiased", "Gains", "PairEngine", "Work"]

NO_COUNTS: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)
Group: TypeAlias = tuple[Any, ...]  # arguments of a kernel that belong together: see kernels/rows.py


class Work(NamedTuple):
    """A task of an objective's round."""

    task: Task
    scratch: Scratch
    into: Into
    tier: Array = EMPTY  # one per row, or empty: only pairs of the same tier act
    counts: npt.NDArray[np.int64] = NO_COUNTS  # one per query, or empty: receives how many pairs act


class Gains(NamedTuple):
    """What a data set's gains look like to a loop by rows."""

    plain: bool  # they alone tell which document is better
    fine: bool  # deltas are so much smaller than their parts that float32 needs two of each
    levels: Levels = Levels()


class PairEngine:
    """What both forms share: the swap rows first, and the exact loop for what the fast ones leave."""

    def __init__(self, objective: "LambdaRank", ranking: Ranking, tier: Array) -> None:
        self.objective = objective  # kept alive: the ranking knows engines by their objectives' ids
        queries, self.measure = ranking.queries, objective.measure
        weight = queries.row_weights
        construction = objective.construction
        self.prepared = objective.prepared(queries)
        self.seen = construction.seen(objective, queries, self.prepared)
        self.given, self.norm = tuple(self.seen), self.prepared.norm
        self.choice = construction.choice(objective, ranking)
        chosen = EMPTY if self.choice is None else self.choice.chosen
        self.documents = tuple(Documents(ranking.scores, ranking.placed, self.prepared.grade, weight, tier, chosen))
        self.weighted, self.tiered, self.distanced = weight.size > 0, tier.size > 0, objective.cost.distance > 0.0
        self.offsets, self.order = queries.offsets, ranking.orders[objective.ranks]
        self.window = queries.longest if objective.reach is None else objective.reach
        self.swap = swap_kernel(construction.swap_rows(self.measure))
        _, exact, shift = construction.formulas(objective.cost)
        self.delta = delta = construction.pair_delta(self.measure)
        # Neither function of an engine's refers to it: a cycle would keep a round's scores until they are collected.
        self.exact: Callable[[], Any] = lambda: exact_kernel(delta, exact)
        least, near = construction.least, objective.cost.distance
        self.pull = tuple(Pull(objective.sigma, shift, near, least, objective.log, coefficient=1.0))[:-1]

    def begin(self, task: Task, scratch: Scratch, size: int) -> tuple[Group, Group]:
        """The task's lists, and tables with their swap rows and cuts."""
        count, lists = task.last - task.first, (self.offsets, task.first, task.last, self.order)
        tables = (
            scratch.array("rows", FLOAT64_ROWS, size),
            scratch.array("fast", FLOAT32_ROWS, size + PADDING * (count + 1), np.float32),
            scratch.array("places", PLACE_ROWS, size, np.int32),
            scratch.array("marks", MARK_ROWS, count, np.int64),
        )
        self.measure.run(self.swap, self.given, lists, tables[0], tables[-1])
        if self.choice is not None:
            self.choice(self.given, lists, tables, scratch)
        return lists, tables

    def finish(
        self,
        pull: Group,
        lists: Group,
        span: Group,
        tables: Group,
        sums: Group,
        counts: npt.NDArray[np.int64],
        bias: Group | None = None,
    ) -> int:
        """The pairs of WIDE queries; the first query with a sum that is not finite, or -1."""
        still, into = frozen(tables[0], self.delta, self.prepared), (*sums, counts)
        query: int = self.measure.run(self.exact(), pull, self.norm, lists, span, tables, still, into, bias)
        return query


class ByRows(PairEngine):
    """Measures whose delta has the form (upper, lower, scale), and all pairs."""

    def __init__(self, objective: "LambdaRank", ranking: Ranking, tier: Array) -> None:
        super().__init__(objective, ranking, tier)
        measure, gains = objective.measure, objective.gains(ranking.queries)
        fine, spaced = gains.fine, objective.construction.spaced
        if self.seen is not self.prepared:
            fine = measure.fine(self.seen.discount[: ranking.queries.longest])
        shifted = objective.cost.shift != 1.0
        self.levels, self.cost = gains.levels, objective.cost.fast
        self.shape = shape = PairShape(
            gained=measure.gained,
            plain=gains.plain and not shifted and not self.tiered,
            symmetric=measure.symmetric,
            greater=measure.greater,
            fine=fine,
            scaled=measure.scaled,
            weighted=self.weighted,
            tiered=self.tiered,
            distanced=self.distanced,
            shifted=shifted,
            summed=objective.log,
            spaced=spaced,
            capped=spaced and measure.cutoff is not None,
            chosen=self.choice is not None,
        )
        wanted = Wanted(
            sigma=objective.sigma,
            spread=-1.0 if ranking.exact else FAST_SPREAD,
            by_rows=True,
            graded=not shape.plain,
            symmetric=shape.symmetric and not spaced,
            ordered=shape.ordered,
            fine=shape.fine,
            distanced=self.distanced,
            spaced=spaced,
        )
        self.wanted = tuple(wanted)
        self.by_gain = shape.plain and not spaced and gains.levels.begin.size > 0

    def __call__(self, task: Task, scratch: Scratch, into: Into) -> None:
        coefficient, gradient, hessian = into
        lists, tables = self.begin(task, scratch, len(gradient))
        documents, wanted, levels = self.documents, self.wanted, self.levels
        found = BY_RANK
        if self.by_gain:
            scores, placed, _, weight, *_ = documents
            found = stage_by_gain_kernel()((scores, placed, weight), wanted, levels.begin, lists, tables)
        if found & BY_RANK:
            found = (found & ~BY_RANK) | stage_by_rank_kernel()(documents, wanted, lists, tables)
        n, part = len(gradient), (0, len(gradient))
        if task.parts > 1:
            part = rows_of(n, int(tables[-1][CUT, 0]), task.part, task.parts)
        pull, span, sums = (*self.pull, coefficient), (*part, n), (gradient, hessian)
        if found & BY_RANK:
            by_rank_kernel(self.cost, self.shape)(pull, self.norm, lists, span, tables, sums)
        if found & BY_GAIN:
            by_gain_kernel(self.cost, self.shape)(
                pull, self.norm, lists, span, tables, levels.below, levels.gains, sums
            )
        if found & WIDE:  # what is not finite is found in the end, in the host's precision
            self.finish(pull, lists, span, tables, sums, NO_COUNTS)


class ByDelta(PairEngine):
    """Any delta as a function of two ranks, with a floor or a window."""

    def __init__(self, objective: "LambdaRank", ranking: Ranking, tier: Array, counted: bool) -> None:
        super().__init__(objective, ranking, tier)
        fast, _, shift = objective.construction.formulas(objective.cost)
        floored = objective.construction.least > 0.0
        plain = not (self.weighted or self.tiered or self.distanced or floored or self.choice is not None)
        delta = self.delta
        exact = ranking.exact or objective.reach is not None or counted
        wanted = Wanted(
            sigma=objective.sigma,
            spread=-1.0 if exact else FAST_SPREAD,
            weighed=not plain or delta.costly,
            floored=floored,
        )
        self.wanted = tuple(wanted)
        long = ranking.queries.longest > COLUMN_BLOCK
        self.loop: Callable[[], Any] = lambda: by_delta_kernel(delta, fast, shift != 1.0, objective.log, plain, long)

    def __call__(self, task: Task, scratch: Scratch, into: Into, counts: npt.NDArray[np.int64] = NO_COUNTS) -> int:
        """The first query with a sum that is not finite, or -1."""
        coefficient, gradient, hessian = into
        lists, tables = self.begin(task, scratch, len(gradient))
        found = stage_by_rank_kernel()(self.documents, self.wanted, lists, tables)
        pull, sums = (*self.pull, coefficient), (gradient, hessian)
        query = -1
        if found & BY_RANK:
            still = frozen(tables[0], self.delta, self.prepared)
            query = self.measure.run(self.loop(), pull, self.norm, lists, tables, still, sums)
        if found & WIDE and query < 0:
            query = self.finish(pull, lists, (0, len(gradient), self.window), tables, sums, counts)
        return query


class Debiased(PairEngine):
    """Pairs with the factors of the ranking's ``bias``: any delta, one by one in float64."""

    def __init__(self, objective: "LambdaRank", ranking: Ranking, tier: Array) -> None:
        super().__init__(objective, ranking, tier)
        self.wanted = tuple(
            Wanted(sigma=objective.sigma, spread=-1.0, floored=objective.construction.least > 0.0, weighed=True)
        )
        assert ranking.bias is not None
        self.bias = tuple(ranking.bias)

    def __call__(self, task: Task, scratch: Scratch, into: Into) -> int:
        """The first query with a sum that is not finite, or -1."""
        coefficient, gradient, hessian = into
        lists, tables = self.begin(task, scratch, len(gradient))
        if not stage_by_rank_kernel()(self.documents, self.wanted, lists, tables):
            return -1
        pull, span = (*self.pull, coefficient), (0, len(gradient), self.window)
        return self.finish(pull, lists, span, tables, (gradient, hessian), NO_COUNTS, self.bias)
