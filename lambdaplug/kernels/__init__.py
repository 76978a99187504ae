"""Compiled loops: the only place that imports Numba. They know arrays; what the numbers mean is decided elsewhere."""

from . import leaves as leaves
from .builtin import *
from .finishing import *
from .jit import *
from .layout import *
from .listwise import *
from .noise import *
from .pairs import *
from .parsing import *
from .ranking import *
from .round import *
from .sampled import *
from .smooth import *
from .staging import *
from .threads import *
