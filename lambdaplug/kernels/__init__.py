"""Compiled loops: the only place that imports Numba. They know arrays; what the numbers mean is decided elsewhere."""

from .compiling import foreign, inlinable, try_compiling
from .constructions import (
    LIST_PADDING,
    LIST_ROWS,
    LIST_ROWS32,
    PairDelta,
    delta_kernel,
    exact_pairs_kernel,
    fast_pairs_kernel,
    list_kernel,
    move_kernel,
)
from .finishing import finish_kernel, shape_kernel
from .measuring import norm_kernel, swap_kernel, value_kernel
from .pairs import FAST_SPREAD, FLOAT32_ROWS, FLOAT64_ROWS, PADDING, PairShape, pair_kernel, stage_kernel
from .ranking import rank_kernel
from .threads import get_num_threads, run_tasks, set_num_threads

__all__ = [
    "FAST_SPREAD",
    "FLOAT32_ROWS",
    "FLOAT64_ROWS",
    "LIST_PADDING",
    "LIST_ROWS",
    "LIST_ROWS32",
    "PADDING",
    "PairDelta",
    "PairShape",
    "delta_kernel",
    "exact_pairs_kernel",
    "fast_pairs_kernel",
    "finish_kernel",
    "foreign",
    "get_num_threads",
    "inlinable",
    "list_kernel",
    "move_kernel",
    "norm_kernel",
    "pair_kernel",
    "rank_kernel",
    "run_tasks",
    "set_num_threads",
    "shape_kernel",
    "stage_kernel",
    "swap_kernel",
    "try_compiling",
    "value_kernel",
]
