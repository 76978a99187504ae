"""Compiled loops: the only place that imports Numba. They know arrays; what the numbers mean is decided elsewhere."""

from .compiling import inlinable
from .counting import count_kernel
from .finishing import finish_kernel, shape_kernel
from .measuring import norm_kernel, swap_kernel, value_kernel
from .pairs import FAST_SPREAD, FLOAT32_ROWS, FLOAT64_ROWS, PADDING, PairShape, pair_kernel, stage_kernel
from .perturbing import move_kernel, sign_kernel
from .positions import POSITION_ROWS, backward_kernel, chunk_kernel, position_kernel, smooth_kernel
from .ranking import rank_kernel
from .threads import get_num_threads, run_tasks, set_num_threads

__all__ = [
    "FAST_SPREAD",
    "FLOAT32_ROWS",
    "FLOAT64_ROWS",
    "PADDING",
    "POSITION_ROWS",
    "PairShape",
    "backward_kernel",
    "chunk_kernel",
    "count_kernel",
    "finish_kernel",
    "get_num_threads",
    "inlinable",
    "move_kernel",
    "norm_kernel",
    "pair_kernel",
    "position_kernel",
    "rank_kernel",
    "run_tasks",
    "set_num_threads",
    "shape_kernel",
    "sign_kernel",
    "smooth_kernel",
    "stage_kernel",
    "swap_kernel",
    "value_kernel",
]
