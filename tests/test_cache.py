"""Compiled kernels on disk: the next process finds them, and whatever happens to the files, gradients are right."""

import os
import subprocess
import sys

import pytest

GRADIENT = """
import resource, sys, numba.core.event as event, numpy as np, lambdaplug as lp
if "full" in sys.argv:
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
rng = np.random.default_rng(1)
rows = {"labels": rng.integers(0, 5, 60), "scores": rng.normal(size=60), "group": [60]}
with event.install_recorder("numba:compile") as compiled:
    for objective in (lp.StochasticRank("ndcg"), lp.LambdaRank("err")):
        print(np.stack(objective.gradients(**rows)).tobytes().hex())
print(len(compiled.buffer))
"""


def run(folder, *disk, program=GRADIENT):
    """What a new process with this cache computes, and whether it compiled anything."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    *found, compiled = subprocess.check_output(
        [sys.executable, "-c", program, *disk], env=environment, text=True
    ).split()
    return found, int(compiled) > 0


def test_kernels_are_found_on_disk_and_what_is_damaged_is_compiled_anew(tmp_path):
    right, compiled = run(tmp_path, "full")
    assert compiled
    assert run(tmp_path) == (right, True)
    assert run(tmp_path) == (right, False)
    for number, path in enumerate(sorted(tmp_path.rglob("*.nb[ic]"))):
        path.write_bytes(path.read_bytes()[: (0, 100, -100)[number % 3]] + b"?" * 99)
    assert run(tmp_path) == (right, True)
    assert run(tmp_path) == (right, False)


@pytest.mark.skipif(os.name != "posix", reason="a path that cannot be made")
def test_without_a_folder_to_write_to_gradients_are_the_same(tmp_path):
    assert run("/dev/null/nowhere")[0] == run(tmp_path)[0]


INTERRUPTED = """
import os, signal, threading, time, lambdaplug as lp
signal.signal(signal.SIGINT, signal.default_int_handler)
def interrupt():
    for _ in range(6):
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)
thread, caught = threading.Thread(target=interrupt), 0
thread.start()
while thread.is_alive():
    try:
        lp.LambdaRank("ndcg@10").gradients([0, 1, 2], [2.0, 1.0, 0.0], [3])
    except KeyboardInterrupt:
        caught += 1
assert lp.LambdaRank("ndcg@10").gradients([0, 1, 2], [2.0, 1.0, 0.0], [3])[0].any()
print(caught)
"""


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_an_interrupt_while_kernels_compile_leaves_the_process_usable(tmp_path):
    assert run(tmp_path, program=INTERRUPTED)[1]
