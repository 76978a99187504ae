"""Compiled loops: the only place that imports Numba. They know arrays; what the numbers mean is decided elsewhere."""

from .compiling import inlinable
from .counting import count_kernel
from .finishing import finish_kernel, shape_kernel
from .measuring import expected_kernel, norm_kernel, swap_kernel, tied_value_kernel, value_kernel
from .pairs import FAST_SPREAD, FLOAT32_ROWS, FLOAT64_ROWS, PADDING, PairShape, pair_kernel, stage_kernel
from .parsing import LETOR_FAULTS, LETOR_WIDER, letor_kernel, powers_of_ten
from .perturbing import move_kernel, sign_kernel
from .positions import POSITION_ROWS, backward_kernel, chunk_kernel, position_kernel, smooth_kernel
from .projecting import gather_kernel, scatter_kernel
from .ranking import level_kernel, rank_kernel, top_kernel
from .threads import get_num_threads, run_tasks, set_num_threads

__all__ = [
    "FAST_SPREAD",
    "FLOAT32_ROWS",
    "FLOAT64_ROWS",
    "LETOR_FAULTS",
    "LETOR_WIDER",
    "PADDING",
    "POSITION_ROWS",
    "PairShape",
    "backward_kernel",
    "chunk_kernel",
    "count_kernel",
    "expected_kernel",
    "finish_kernel",
    "gather_kernel",
    "get_num_threads",
    "inlinable",
    "letor_kernel",
    "level_kernel",
    "move_kernel",
    "norm_kernel",
    "pair_kernel",
    "position_kernel",
    "powers_of_ten",
    "rank_kernel",
    "run_tasks",
    "scatter_kernel",
    "set_num_threads",
    "shape_kernel",
    "sign_kernel",
    "smooth_kernel",
    "stage_kernel",
    "swap_kernel",
    "tied_value_kernel",
    "top_kernel",
    "value_kernel",
]
