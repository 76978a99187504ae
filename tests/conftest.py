"""For all tests."""

import os

import hypothesis

# The same examples in every run, so that a failure here is one elsewhere. Look for new ones:
# python -m pytest --hypothesis-profile search --hypothesis-seed random
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None)
hypothesis.settings.register_profile("search", deadline=None)
hypothesis.settings.load_profile("fixed")

# Two test processes share the cores. A booster's idle threads would go on spinning there for milliseconds after each of its
# parallel regions; told before OpenMP is loaded, they sleep. Results do not depend on it.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# What takes longest comes first, so that no process is left alone with it at the end. First of all two files that compile
# different functions: one's own measures, which are in no cache, and those of the package. Where several processes want the
# same function at once, each compiles it, so a cluster's workers come after those who compile alone what they need.
LONGEST = [
    "custom",
    "constructions",
    "house",
    "columns",
    "robust",
    "dask",
    "hosts",
    "cache",
    "presets",
    "gradients",
    "docs",
]


def pytest_collection_modifyitems(items):
    def place(item):
        file = item.path.stem.removeprefix("test_")
        return LONGEST.index(file) if file in LONGEST else len(LONGEST)

    items.sort(key=place)  # stable
