"""For all tests."""

import os

import hypothesis
import pytest

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
LONGEST = ["custom", "constructions", "robust", "columns", "dask", "hosts", "cache", "presets", "gradients", "docs"]
SINGLE = ["house"]  # programs of their own, most of them, which fill what time is left


def place(nodeid):
    """The rank of a test's file, and of the test in it."""
    file = nodeid.partition("::")[0].rpartition("test_")[2].removesuffix(".py")
    if file in SINGLE:
        return len(LONGEST) + 1, "test_recipes_run_quickly" not in nodeid
    return LONGEST.index(file) if file in LONGEST else len(LONGEST), False


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: place(item.nodeid))  # stable


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """A file's tests in one process: they need the same compiled functions, and those of one's own measures are in no cache."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return nodeid if place(nodeid)[0] > len(LONGEST) else nodeid.partition("::")[0]

    config.option.loadscopereorder = False
    return ByFile(config, log)
