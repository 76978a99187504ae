"""For every test, before a host is loaded."""

import os

# OpenMP's threads spin while they wait. On a busy machine that makes small trainings ten times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
