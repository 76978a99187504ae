"""Compiled loops: the only place that imports Numba. They know arrays; what the numbers mean is decided elsewhere."""

from .builtin import TABLE_SIZE, lambdarank_kernel, rank_pairs_kernel, xendcg_kernel
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
    place_kernel,
)
from .finishing import finish_kernel, shape_kernel
from .measuring import expected_kernel, norm_kernel, sort_stretch, swap_kernel, tied_value_kernel, value_kernel
from .pairs import (
    FAST_SPREAD,
    FLOAT32_ROWS,
    FLOAT64_ROWS,
    GRADED,
    PADDING,
    RANKED,
    WIDE,
    PairShape,
    graded_kernel,
    ranked_kernel,
    stage_kernel,
    wide_kernel,
)
from .parsing import LETOR_FAULTS, LETOR_QUERY, LETOR_WIDER, VALUE_BYTES, letor_kernel, powers_of_ten, text_kernel
from .perturbing import move_kernel, sign_kernel
from .positions import POSITION_ROWS, backward_kernel, chunk_kernel, position_kernel, smooth_kernel
from .projecting import gather_kernel, scatter_kernel
from .ranking import level_kernel, rank_kernel, top_kernel
from .threads import get_num_threads, run_tasks, set_num_threads

__all__ = [
    "FAST_SPREAD",
    "FLOAT32_ROWS",
    "FLOAT64_ROWS",
    "GRADED",
    "LETOR_FAULTS",
    "LETOR_QUERY",
    "LETOR_WIDER",
    "LIST_PADDING",
    "LIST_ROWS",
    "LIST_ROWS32",
    "PADDING",
    "POSITION_ROWS",
    "RANKED",
    "TABLE_SIZE",
    "VALUE_BYTES",
    "WIDE",
    "PairDelta",
    "PairShape",
    "backward_kernel",
    "chunk_kernel",
    "delta_kernel",
    "exact_pairs_kernel",
    "expected_kernel",
    "fast_pairs_kernel",
    "finish_kernel",
    "foreign",
    "gather_kernel",
    "get_num_threads",
    "graded_kernel",
    "inlinable",
    "lambdarank_kernel",
    "letor_kernel",
    "level_kernel",
    "list_kernel",
    "move_kernel",
    "norm_kernel",
    "place_kernel",
    "position_kernel",
    "powers_of_ten",
    "rank_kernel",
    "rank_pairs_kernel",
    "ranked_kernel",
    "run_tasks",
    "scatter_kernel",
    "set_num_threads",
    "shape_kernel",
    "sign_kernel",
    "smooth_kernel",
    "sort_stretch",
    "stage_kernel",
    "swap_kernel",
    "text_kernel",
    "tied_value_kernel",
    "top_kernel",
    "try_compiling",
    "value_kernel",
    "wide_kernel",
    "xendcg_kernel",
]
