"""Compiled loops: the only place that imports Numba. They know arrays; what the numbers mean is decided elsewhere."""

from .builtin import TABLE_SIZE, lambdarank_kernel, rank_pairs_kernel, xendcg_kernel
from .by_delta import PairDelta, by_delta_kernel, delta_kernel
from .by_gain import by_gain_kernel
from .by_rank import by_rank_kernel, rows_of
from .choosing import CHOICES, choose_kernel
from .compiling import LANES, Kernels, copied, foreign, inlinable, try_compiling
from .debiasing import PairBias, debiased_kernel
from .drawing import chance_kernel, label_hash_kernel, noise_kernel, order_kernel, sign_kernel
from .exact import exact_kernel
from .finishing import finish_kernel, shape_kernel
from .listwise import calibrated_kernel, list_mle_kernel, query_rmse_kernel, softmax_kernel
from .measuring import (
    expected_kernel,
    norm_kernel,
    raised_kernel,
    sort_stretch,
    swap_kernel,
    tied_value_kernel,
    value_kernel,
)
from .parsing import LETOR_FAULTS, LETOR_QUERY, LETOR_WIDER, letor_kernel, powers_of_ten
from .perturbing import NOISE, change, move_kernel
from .placing import place_kernel
from .positions import POSITION_ROWS, backward_kernel, chunk_kernel, position_kernel, smooth_kernel
from .preferring import Given, given_delta_kernel, given_force_kernel
from .projecting import gather_kernel, scatter_kernel
from .ranking import FEW_LEVELS, count_kernel, rank_kernel, sort_kernel, top_kernel
from .rows import (
    BY_GAIN,
    BY_RANK,
    COLUMN_BLOCK,
    CUT,
    FLOAT32_ROWS,
    FLOAT64_ROWS,
    MARK_ROWS,
    PADDING,
    PLACE_ROWS,
    WIDE,
    Documents,
    Levels,
    Prepared,
    Pull,
)
from .sampling import (
    AVERAGE,
    CASCADE,
    LINEAR,
    PLACKETT_LUCE_ROWS,
    STOCHASTIC_RANK_ROWS,
    plackett_luce_kernel,
    stochastic_rank_kernel,
)
from .staging import FAST_SPREAD, Wanted, stage_by_gain_kernel, stage_by_rank_kernel
from .threads import Team, get_num_threads, openmp_team, run_tasks, set_num_threads
from .weighing import PairShape

__all__ = [
    "AVERAGE",
    "BY_GAIN",
    "BY_RANK",
    "CASCADE",
    "CHOICES",
    "COLUMN_BLOCK",
    "CUT",
    "FAST_SPREAD",
    "FEW_LEVELS",
    "FLOAT32_ROWS",
    "FLOAT64_ROWS",
    "LANES",
    "LETOR_FAULTS",
    "LETOR_QUERY",
    "LETOR_WIDER",
    "LINEAR",
    "MARK_ROWS",
    "NOISE",
    "PADDING",
    "PLACE_ROWS",
    "PLACKETT_LUCE_ROWS",
    "POSITION_ROWS",
    "STOCHASTIC_RANK_ROWS",
    "TABLE_SIZE",
    "WIDE",
    "Documents",
    "Given",
    "Kernels",
    "Levels",
    "PairBias",
    "PairDelta",
    "PairShape",
    "Prepared",
    "Pull",
    "Team",
    "Wanted",
    "backward_kernel",
    "by_delta_kernel",
    "by_gain_kernel",
    "by_rank_kernel",
    "calibrated_kernel",
    "chance_kernel",
    "change",
    "choose_kernel",
    "chunk_kernel",
    "copied",
    "count_kernel",
    "debiased_kernel",
    "delta_kernel",
    "exact_kernel",
    "expected_kernel",
    "finish_kernel",
    "foreign",
    "gather_kernel",
    "get_num_threads",
    "given_delta_kernel",
    "given_force_kernel",
    "inlinable",
    "label_hash_kernel",
    "lambdarank_kernel",
    "letor_kernel",
    "list_mle_kernel",
    "move_kernel",
    "noise_kernel",
    "norm_kernel",
    "openmp_team",
    "order_kernel",
    "place_kernel",
    "plackett_luce_kernel",
    "position_kernel",
    "powers_of_ten",
    "query_rmse_kernel",
    "raised_kernel",
    "rank_kernel",
    "rank_pairs_kernel",
    "rows_of",
    "run_tasks",
    "scatter_kernel",
    "set_num_threads",
    "shape_kernel",
    "sign_kernel",
    "smooth_kernel",
    "softmax_kernel",
    "sort_kernel",
    "sort_stretch",
    "stage_by_gain_kernel",
    "stage_by_rank_kernel",
    "stochastic_rank_kernel",
    "swap_kernel",
    "tied_value_kernel",
    "top_kernel",
    "try_compiling",
    "value_kernel",
    "xendcg_kernel",
]
