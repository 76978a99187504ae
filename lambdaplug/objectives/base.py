"""What all objectives share: from checked rows to float32 arrays, over threads, with the same bits at any number."""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import LambdaplugError
from ..kernels import finish_kernel, get_num_threads, run_tasks
from ..measures import Measure
from ..queries import Array, Queries, Task, read, vector
from ..watch import watch

__all__ = ["HESSIAN_FLOOR", "Objective", "Ranking", "Scratch"]

Gradients: TypeAlias = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]

HESSIAN_FLOOR = 1e-16  # positive in float32; a document without any force must not make a booster's sum zero
EMPTY = np.empty(0)


@dataclass(frozen=True)
class Ranking:
    """Queries ranked by their scores: what every part of an objective starts from."""

    queries: Queries
    scores: Array
    order: npt.NDArray[np.int32]
    iteration: int
    exact: bool = False  # float64 for every pair, whatever the spread of the scores


class Scratch:
    """Arrays of one thread, reused from task to task."""

    def __init__(self) -> None:
        self._arrays: dict[str, npt.NDArray[Any]] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
        """At least this large, its contents undefined."""
        kept = self._arrays.get(name)
        if kept is None or any(have < want for have, want in zip(kept.shape, shape, strict=True)):
            kept = self._arrays[name] = np.zeros(shape, dtype)
        return kept


class Objective(abc.ABC):
    """A ranking objective: call ``gradients`` with arrays, or pass the object to LightGBM or XGBoost."""

    step: str = "newton"
    normalize: str | None = None

    @property
    @abc.abstractmethod
    def cutoff(self) -> int | None:
        """The rank below which no pair matters; None = all do. It only balances the work."""

    @property
    def target(self) -> Measure | None:
        """The one measure of the data set's labels that this objective trains for, if there is one."""
        return None

    @abc.abstractmethod
    def accumulate(
        self, ranking: Ranking, task: Task, scratch: Scratch, coefficient: float, gradient: Array, hessian: Array
    ) -> None:
        """Add coefficient times this objective's gradient and hessian, the task's rows at index 0 on."""

    def gradients(
        self,
        scores: npt.ArrayLike,
        labels: npt.ArrayLike,
        group: npt.ArrayLike,
        weight: npt.ArrayLike | None = None,
        iteration: int = 0,
    ) -> Gradients:
        """Gradient and hessian of every row, float32, in row order. Pure: the same arguments give the same bits.

        ``group`` holds the number of documents of each query, in order. ``weight`` is one value a query (a weight of 2
        is the query twice) or one a document (a pair's force is multiplied by both its weights).
        """
        return self.differentiate(Queries.weighted(labels, group, weight), scores, iteration)

    def differentiate(
        self,
        queries: Queries,
        scores: npt.ArrayLike,
        iteration: int = 0,
        threads: int | None = None,
        *,
        exact: bool = False,
        dtype: npt.DTypeLike = np.float32,
    ) -> tuple[Any, Any]:
        """``gradients`` of rows already checked; ``exact`` and ``dtype`` are for those who compare."""
        values = vector(scores, "scores")
        rows = len(queries.labels)
        if len(values) != rows:
            raise LambdaplugError(f"scores: expected one a row ({rows}), got {len(values)}.")
        threads = get_num_threads(threads)
        ranking = Ranking(queries, values, queries.rank(values, threads), iteration, exact)
        out = np.zeros(rows, dtype), np.full(rows, HESSIAN_FLOOR, dtype)
        parts: dict[tuple[int, int], tuple[Array, Array]] = {}

        def finish(first: int, last: int, gradient: Array, hessian: Array) -> None:
            weight = EMPTY if queries.query_weight is None else queries.query_weight
            std, unit = self.normalize == "std", self.step == "gradient"
            row = finish_kernel()(
                gradient, hessian, weight, std, unit, HESSIAN_FLOOR, queries.offsets, first, last, *out
            )
            if row >= 0:
                raise LambdaplugError(
                    f"{self!r}: the gradient of row {row} is {out[0][row]}, its hessian {out[1][row]}. "
                    "Gains, weights or sigma are too large for float32: scale them down."
                )

        def work(next_task: Callable[[], Task | None]) -> None:
            scratch = Scratch()
            while (task := next_task()) is not None:
                size = int(queries.offsets[task.last] - queries.offsets[task.first])
                shared = task.parts == 1
                buffers = scratch.array("sums", (2, size)) if shared else np.empty((2, size))
                gradient, hessian = buffers[0, :size], buffers[1, :size]
                gradient[:] = 0.0
                hessian[:] = 0.0
                self.accumulate(ranking, task, scratch, 1.0, gradient, hessian)
                if shared:
                    finish(task.first, task.last, gradient, hessian)
                else:
                    parts[task.first, task.part] = gradient, hessian

        tasks = queries.tasks(self.cutoff)
        run_tasks(work, tasks, threads)
        for task in tasks:  # the parts of a huge query are added in their order, whoever finished first
            if task.parts > 1 and task.part == 0:
                pieces = [parts[task.first, part] for part in range(task.parts)]
                finish(task.first, task.last, sum(g for g, _ in pieces), sum(h for _, h in pieces))  # type: ignore[arg-type]
        return out

    def __call__(self, scores: Any, data: Any, weight: Any = None, group: Any = None) -> Gradients:
        """What a host calls: (scores, data set).

        The two further parameters are there for ``lgb.LGBMRanker``, which counts a callable's parameters and passes
        (labels, scores, weight, group) to one that has four.
        """
        if group is not None:
            labels, scores = scores, data
            return self.differentiate(Queries(labels, group, document_weight=weight), scores)
        data_set = read(data)
        gradient, hessian = self.differentiate(data_set.queries, scores, threads=data_set.threads)
        watch(data_set, self, scores, gradient, hessian)
        return gradient, hessian
