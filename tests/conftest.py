"""For all tests."""

import os

# Two test processes share the cores. A booster's idle threads would go on spinning there for milliseconds after each of its
# parallel regions; told before OpenMP is loaded, they sleep. Results do not depend on it.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
