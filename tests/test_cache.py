"""The cache of compiled kernels: whatever happens to it, gradients are right and no process dies."""

import gc
import itertools
import os
import resource
import signal
import subprocess
import sys
import warnings

import numba
import numpy as np
import pytest

import lambdaplug as lp
from lambdaplug.kernels import cache, measuring

GAIN = np.array([0.0, 1.0, 0.0, 1.0])
NORMS = {"map": lp.MAP.norm, "mrr": lp.MRR.norm}  # two specialisations of one kernel, with the same arguments
RIGHT = {"map": 0.5, "mrr": 1.0}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache, and a process that has not warned yet."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_warned", False)
    cache.folders.cache_clear()
    yield tmp_path / "cache" / "lambdaplug" / cache.sources_digest()[:16]
    cache.folders.cache_clear()


def measured(name):
    """What a new process would compute: the kernel is looked for on disk, or compiled. Also: whether it was found."""
    kernel = measuring.norm_kernel.__wrapped__(NORMS[name])
    norm = np.zeros(1)
    discount = np.ones(4)
    order = np.array([1, 3, 0, 2], dtype=np.int32)
    kernel(GAIN, discount, 4, (np.array([0, 4]), 0, 1, order), np.empty(4), norm)
    return norm[0], bool(sum(kernel.stats.cache_hits.values()))


def assert_right(found=None):
    for name, right in RIGHT.items():
        value, loaded = measured(name)
        assert value == right
        assert found is None or loaded is found


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """What two processes write, measure by measure: (file name, content)."""
    with pytest.MonkeyPatch.context() as patch:
        files = []
        patch.setattr(numba.config, "CACHE_DIR", str(tmp_path_factory.mktemp("written")))
        patch.setattr(cache, "_write", lambda path, content: files.append((path.name, content)))
        patch.setattr(cache.KernelCache, "load_overload", lambda *_: None)  # whatever other tests have compiled
        for name in RIGHT:
            measured(name)
    assert len({file for file, _ in files}) == 2
    return files


def test_what_one_process_compiled_the_next_one_finds(folder):
    assert_right(found=False)
    assert len(list(folder.iterdir())) == 2
    assert_right(found=True)


def test_writes_of_two_processes_in_all_orders_and_killed_anywhere(folder, written):
    for order in sorted(set(itertools.permutations("AABB"))):
        for survived in range(len(order) + 1):
            folder.mkdir(parents=True, exist_ok=True)
            left = {"A": list(written), "B": list(reversed(written))}
            for process in order[:survived]:
                name, content = left[process].pop(0)
                cache._write(folder / name, content)
            if survived < len(order):  # the next write was cut short
                name, content = left[order[survived]][0]
                (folder / f"{name}.0123456789abcdef.tmp").write_bytes(content[: len(content) // 2])
            present = {path.name for path in folder.iterdir()}
            for (file, _), (name, right) in zip(written, RIGHT.items(), strict=True):
                assert measured(name) == (right, file in present)
            for path in folder.iterdir():
                path.unlink()


KILLED = """
import os, signal, sys
sys.path.insert(0, {tests!r})
import test_cache
from lambdaplug.kernels import cache
replace = os.replace
def killed(source, target):
    if sys.argv[1] == "after":
        replace(source, target)
    os.kill(os.getpid(), signal.SIGKILL)
os.replace = killed
test_cache.measured("map")
"""


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_process_killed_as_it_writes(moment):
    environment = {**os.environ, "NUMBA_CACHE_DIR": numba.config.CACHE_DIR}
    program = KILLED.format(tests=os.path.dirname(__file__))
    done = subprocess.run([sys.executable, "-c", program, moment], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    assert measured("map") == (RIGHT["map"], moment == "after")
    assert measured("mrr") == (RIGHT["mrr"], False)
    assert_right(found=True)


def test_a_full_disk_ends_nothing(folder):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        with pytest.warns(lp.LambdaplugWarning, match="compiles what it needs for itself") as caught:
            assert_right(found=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert len(caught) == 1
    assert list(folder.iterdir()) == []
    assert_right(found=False)  # there is space again
    assert_right(found=True)


GRADIENTS = """
import numba.core.compiler as compiler
import numpy as np
import lambdaplug as lp
count, compile_extra = 0, compiler.CompilerBase.compile_extra
def counting(self, function):
    global count
    count += 1
    return compile_extra(self, function)
compiler.CompilerBase.compile_extra = counting
random = np.random.default_rng(0)
scores, labels = random.normal(size=60), random.integers(0, 3, 60)
print(lp.LambdaRank("map").gradients(scores=scores, labels=labels, group=[20] * 3)[0].tobytes().hex())
print(count)
"""


@pytest.mark.usefixtures("folder")
def test_gradients_on_a_full_disk_and_after_it_and_then_nothing_is_compiled(monkeypatch):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    def run(preexec_fn=None):
        environment = {**os.environ, "NUMBA_CACHE_DIR": numba.config.CACHE_DIR}
        command = [sys.executable, "-c", GRADIENTS]
        done = subprocess.run(
            command, env=environment, preexec_fn=preexec_fn, capture_output=True, text=True, check=True
        )
        gradient, compiled = done.stdout.split()
        return gradient, int(compiled), done.stderr

    full, compiled, said = run(limit)
    assert said.count("LambdaplugWarning") == 1
    assert compiled > 0
    assert run() == (full, compiled, "")
    assert run() == (full, 0, "")
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    random = np.random.default_rng(0)
    scores, labels = random.normal(size=60), random.integers(0, 3, 60)
    right = lp.LambdaRank("map").gradients(labels=labels, scores=scores, group=[20] * 3)[0]
    assert full == right.tobytes().hex()


@pytest.mark.parametrize("damage", ["empty", "short", "shorter than its head", "a flipped bit", "another kernel's"])
def test_damaged_files_are_not_believed_and_mended(folder, written, damage):
    folder.mkdir(parents=True)
    for name, content in written:
        (folder / name).write_bytes(content)
    path, content = folder / written[0][0], written[0][1]
    damaged = {
        "empty": [b""],
        "short": [content[: len(content) // 2], content[:-1]],
        "shorter than its head": [content[:10]],
        "a flipped bit": [
            content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :]
            for at in [0, 25, *range(60, len(content), len(content) // 6)]
        ],
        "another kernel's": [written[1][1]],
    }[damage]
    for bad in damaged:
        path.write_bytes(bad)
        cache._warned = False
        with pytest.warns(lp.LambdaplugWarning, match=r"damaged|another kernel"):
            assert measured("map") == (RIGHT["map"], False)
        assert_right(found=True)


def open_to_all(folder):
    folder.chmod(0o777)


def open_to_the_group(folder):
    folder.chmod(0o775)


def of_somebody_else(folder):
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    os.chown(folder, 12345, -1)


def a_link(folder):
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to(folder.with_name("elsewhere"))


def a_file(folder):
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    folder.touch()


@pytest.mark.parametrize("change", [open_to_all, open_to_the_group, of_somebody_else, a_link, a_file])
@pytest.mark.parametrize("which", ["the entries", "above them"])
def test_a_directory_that_others_can_write_to_is_not_used(folder, written, change, which):
    folder.mkdir(parents=True)
    for (name, _), (_, content) in zip(written, reversed(written), strict=True):
        (folder / name).write_bytes(content)  # what others might have put there
    if which == "above them" and change is a_file:
        pytest.skip("as for the entries")
    change(folder if which == "the entries" else folder.parent)
    with pytest.warns(lp.LambdaplugWarning, match="only you can write to") as caught:
        assert_right(found=False)
    assert len(caught) == 1
    assert_right(found=False)  # and without a second warning


def test_old_states_of_the_sources_are_forgotten(folder):
    others = [folder.with_name(f"{number:016x}") for number in range(cache.STATES_KEPT + 3)]
    for age, other in enumerate(others):
        other.mkdir(parents=True)
        os.utime(other, (1e9 + age, 1e9 + age))
    unrelated = folder.with_name("notes")
    unrelated.mkdir()
    assert_right(found=False)
    assert sorted(folder.parent.iterdir()) == sorted([folder, unrelated, *others[-cache.STATES_KEPT :]])


@pytest.mark.usefixtures("folder")
def test_a_numba_without_the_hooks_compiles_for_itself(monkeypatch):
    monkeypatch.delattr(cache.CompileResult, "_reduce")
    with pytest.warns(lp.LambdaplugWarning, match="_reduce"):
        assert_right(found=False)


def test_a_kernel_is_named_by_all_it_depends_on(folder, monkeypatch):
    measured("map")
    (path,) = folder.iterdir()
    for name in ("OPT", "LOOP_VECTORIZE", "BOUNDSCHECK"):
        with monkeypatch.context() as patch:
            patch.setattr(numba.config, name, 0)
            assert measured("map") == (RIGHT["map"], False)
    assert len(list(folder.iterdir())) == 4
    monkeypatch.setattr(cache, "sources_digest", lambda: "f" * 64)
    assert measured("map") == (RIGHT["map"], False)
    assert path.name not in {other.name for other in (folder.parent / ("f" * 16)).iterdir()}


@pytest.mark.usefixtures("folder")
def test_compiling_leaves_the_garbage_collector_as_it_was():
    assert gc.isenabled()
    measured("map")
    assert gc.isenabled()
    gc.disable()
    try:
        measured("mrr")
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.usefixtures("folder")
def test_no_warning_where_all_is_well():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_right(found=False)


BITS = """
import numpy as np, lambdaplug as lp
rng = np.random.default_rng(1)
rows = {"labels": rng.integers(0, 5, 60), "scores": rng.normal(size=60), "group": [60]}
for objective in (lp.StochasticRank("ndcg"), lp.Approx("map"), lp.LambdaRank("err")):
    print(np.stack(objective.gradients(**rows)).tobytes().hex())
"""


def test_loaded_kernels_give_the_bits_of_those_compiled(tmp_path):
    command = [sys.executable, "-c", BITS]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    first, second = (
        subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout for _ in range(2)
    )
    assert first == second != ""
