"""Compiled loops: the only place that imports Numba. They know arrays; what the numbers mean is decided elsewhere."""

# ruff: noqa: F403
from .builtin import *
from .by_delta import *
from .by_gain import *
from .by_rank import *
from .choosing import *
from .compiling import *
from .drawing import *
from .exact import *
from .finishing import *
from .listwise import *
from .measuring import *
from .parsing import *
from .perturbing import *
from .placing import *
from .positions import *
from .preferring import *
from .projecting import *
from .ranking import *
from .rows import *
from .sampling import *
from .staging import *
from .threads import *
from .weighing import *
