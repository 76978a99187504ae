"""Data: LETOR files read and written, generated data."""

import gzip
import os
import threading
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

import lambdaplug as lp
from lambdaplug.data import RankingData, load_letor, save_letor
from lambdaplug.data import letor as module


def write(path, text):
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def same(a, b):
    np.testing.assert_array_equal(a.X, b.X)
    np.testing.assert_array_equal(a.labels, b.labels)
    np.testing.assert_array_equal(a.group, b.group)
    np.testing.assert_array_equal(a.query_ids, b.query_ids)


def test_a_file_with_everything_in_it(tmp_path):
    text = (
        "# a comment of its own\n"
        "2 qid:10 1:0.5 3:7 # docid = GX01 1:9\n"
        "\n"
        "0\tqid:10\t2:-1e-3   4:+.25\t\r\n"
        "   \n"
        "1.5 qid:-7#nothing but a label\n"
        "4 qid:3 1:nan 2:INF 3:-inf 4:1.79769313486232E308"
    )
    data = load_letor(write(tmp_path / "a.txt", text))
    expected = [[0.5, 0, 7, 0], [0, -1e-3, 0, 0.25], [0, 0, 0, 0]]
    np.testing.assert_array_equal(data.X[:3], np.array(expected, dtype=np.float32))
    np.testing.assert_array_equal(data.X[3], [np.nan, np.inf, -np.inf, np.finfo(np.float32).max])
    assert data.labels.tolist() == [2, 0, 1.5, 4]
    assert data.group.tolist() == [2, 1, 1]
    assert data.query_ids.tolist() == [10, -7, 3]
    assert data.qid.tolist() == [0, 0, 1, 2]
    assert data.X.dtype == data.labels.dtype == np.float32
    assert all(a is b for a, b in zip(data, (data.X, data.labels, data.group), strict=True))
    assert [part.query_ids.tolist() for part in data.split(1, 1, 1)] == [[10], [-7], [3]]


NUMBERS = st.one_of(
    st.floats(width=32, allow_nan=False).map(repr),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(allow_nan=False, allow_infinity=False).map(str).filter(lambda text: "E" not in text or len(text) < 40),
    st.from_regex(r"[+-]?[0-9]{0,25}\.?[0-9]{1,25}([eE][+-]?[0-9]{1,3})?", fullmatch=True),
)


@settings(max_examples=300, deadline=None)
@given(texts=st.lists(NUMBERS, min_size=1, max_size=8))
def test_numbers_are_read_as_python_reads_them(texts, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "numbers.txt"
    line = " ".join(f"{i}:{text}" for i, text in enumerate(texts, 1))
    write(path, f"0 qid:1 {line}\n")
    largest = float(np.finfo(np.float32).max)
    with np.errstate(over="ignore"):
        expected = [np.float32(text if abs(float(text)) == np.inf else float(text)) for text in texts]
    expected = [x if "inf" in text else np.clip(x, -largest, largest) for x, text in zip(expected, texts, strict=True)]
    np.testing.assert_array_equal(load_letor(path).X[0], expected)


@pytest.mark.parametrize("suffix", ["txt", "txt.gz"])
def test_saved_data_loads_back_exactly(tmp_path, suffix):
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, (300, 40), dtype=np.uint32).view(np.float32)
    X = np.where(rng.random(bits.shape) < 0.5, rng.normal(size=bits.shape).astype(np.float32), bits)
    data = RankingData(X, rng.integers(0, 9, 300).astype(np.float32) / 2, np.array([1, 99, 200]), np.array([5, -1, 3]))
    path = tmp_path / f"data.{suffix}"
    save_letor(path, data)
    found = load_letor(path)
    same(found, data)
    assert np.signbit(found.X[~np.isnan(X)]).tolist() == np.signbit(X[~np.isnan(X)]).tolist()
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == (suffix == "txt.gz")
    for group in ([1, 0], [3]):
        with pytest.raises(lp.LambdaplugError, match=f"sizes >= 1 that add up .* sizes that add up to {sum(group)}"):
            save_letor(path, ([[1.0]], [1], group))


@pytest.mark.parametrize("size", [300, 1 << 24])
def test_query_ids_may_be_text(tmp_path, monkeypatch, size):
    monkeypatch.setattr(module, "CHUNK_BYTES", size)
    names = ["WT04-170", "7", "GX000-00-0000000", "é", "8", *(str(number) for number in range(100, 140)), "-3a"]
    data = lp.data.cubic(queries=len(names), documents=3, features=4)
    data = RankingData(*data, np.array(names))
    path = tmp_path / "named.txt"
    save_letor(path, data)
    same(load_letor(path), data)
    numbered = write(tmp_path / "more.txt", "1 qid:8 1:1 # qid:none\n")
    both = load_letor([path, numbered], sort=True)
    assert both.query_ids.tolist() == names
    assert both.group.tolist() == [3 + (name == "8") for name in names]
    with pytest.raises(lp.LambdaplugError, match="line 1: qid 8 comes again after other queries"):
        load_letor([path, numbered])


@pytest.mark.parametrize(
    "ids", [["7", "07", "8"], [3, 4, 3], ["a", "b", "b"], ["a", "b c", "d"], ["a#b", "a", "b"], [1]]
)
def test_ids_that_would_load_as_others_are_refused(tmp_path, ids):
    data = lp.data.cubic(queries=3, documents=2, features=2)
    with pytest.raises(lp.LambdaplugError, match="query id for each of 3 queries, none twice, without blanks and '#'"):
        save_letor(tmp_path / "a.txt", RankingData(*data, np.array(ids)))


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(module, "CHUNK_BYTES", 300)


@pytest.mark.usefixtures("small_chunks")
def test_chunks_threads_and_scikit_learn_agree(tmp_path):
    data = lp.data.cubic(queries=60, documents=7, features=9)
    sparse = np.where(np.random.default_rng(0).random(data.X.shape) < 0.5, 0, data.X)
    lines = [
        f"{label:g} qid:{query} " + " ".join(f"{i}:{x!s}" for i, x in enumerate(row, 1) if x)
        for row, label, query in zip(sparse, data.labels, data.qid, strict=True)
    ]
    path = write(tmp_path / "a.txt", "\n".join(lines))
    X, labels, qid = load_svmlight_file(path, query_id=True)
    try:
        for threads in (1, 3):
            lp.set_num_threads(threads)
            found = load_letor(path)
            np.testing.assert_array_equal(found.X, X.toarray().astype(np.float32))
            np.testing.assert_array_equal(found.labels, labels)
            np.testing.assert_array_equal(np.repeat(found.query_ids, found.group), qid)
    finally:
        lp.set_num_threads(None)
    found = load_letor(path, missing=np.nan, features=12)
    assert found.X.shape[1] == 12
    np.testing.assert_array_equal(np.isnan(found.X[:, :9]), sparse == 0)
    assert np.isnan(found.X[:, 9:]).all()


FAULTS = {
    "x qid:1 1:1": r"expected a label \(a finite number\)",
    "1 1:1": "expected qid: and the query's id after the label",
    "1 qid: 1:1": "expected qid: and the query's id after the label",
    "1 qid:9 1": "expected a feature as id:value, such as 3:0.25",
    "1 qid:9 1:2x": "expected a feature as id:value, such as 3:0.25",
    "1 qid:9 1:1e": "expected a feature as id:value, such as 3:0.25",
    "1 qid:9 0:2": "expected feature ids >= 1 in rising order, each once",
    "1 qid:9 2:2 2:3": "expected feature ids >= 1 in rising order, each once",
    "1 qid:9 200000:1": r"expected feature ids up to 10000 \(features= says how many are meant\)",
    "1 qid:0 1:1": "qid 0 comes again after other queries.*sort=True",
}


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("line", FAULTS)
def test_a_malformed_line_is_named(tmp_path, line):
    good = [f"1 qid:{i // 8} 1:0.5 2:{i}" for i in range(39)]
    after = [f"1 qid:{100 + i} 1:0.5" for i in range(50)]
    path = write(tmp_path / "bad.txt", "\n".join([*good, line, *after]))
    with pytest.raises(lp.LambdaplugError, match=rf"bad\.txt, line 40: {FAULTS[line]}"):
        load_letor(path)


def test_several_files_and_queries_that_do_not_stand_together(tmp_path):
    a = write(tmp_path / "a.txt", "1 qid:1 1:1\n0 qid:2 1:2\n")
    b = write(tmp_path / "b.txt.gz", "2 qid:2 3:3\n3 qid:3\n")
    found = load_letor([a, b])
    assert found.X.tolist() == [[1, 0, 0], [2, 0, 0], [0, 0, 3], [0, 0, 0]]
    assert found.group.tolist() == [1, 2, 1]  # query 2 ends the one file and begins the other
    c = write(tmp_path / "c.txt", "4 qid:1 1:9\n")
    with pytest.raises(lp.LambdaplugError, match=r"c\.txt, line 1: qid 1 comes again after other queries"):
        load_letor([a, b, c])
    together = load_letor([a, b, c], sort=True)
    assert together.labels.tolist() == [1, 4, 0, 2, 3]
    assert together.X[:, 0].tolist() == [1, 9, 2, 0, 0]
    assert (together.group.tolist(), together.query_ids.tolist()) == ([2, 2, 1], [1, 2, 3])
    same(load_letor([a, b], sort=True), found)


def test_what_cannot_be_read_is_refused(tmp_path):
    path = write(tmp_path / "a.txt", "1 qid:1 3:1\n")
    with pytest.raises(lp.LambdaplugError, match=r"line 1: expected feature ids up to 2 .*; got '3:1'"):
        load_letor(path, features=2)
    with pytest.raises(lp.LambdaplugError, match=r"none.txt cannot be read: .*No such file"):
        load_letor(tmp_path / "none.txt")
    with pytest.raises(lp.LambdaplugError, match="no document in"):
        load_letor(write(tmp_path / "empty.txt", "# nothing\n\n"))
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"1 qid:1 1:1\n" * 1000)[:-12])
    with pytest.raises(lp.LambdaplugError, match=r"cut\.gz cannot be read"):
        load_letor(tmp_path / "cut.gz")
    with pytest.raises(lp.LambdaplugError, match=r"a layout of mslr, mq, yahoo, istella; got 'mars'"):
        load_letor(tmp_path, "mars")
    with pytest.raises(lp.LambdaplugError, match=r"layout 'mslr' expects Fold2/train.txt \(or .gz\) in"):
        load_letor(tmp_path, "mslr", fold=2)
    with pytest.raises(lp.LambdaplugError, match="features: expected an integer >= 1, or None, got 0"):
        load_letor(path, features=0)


def test_memory_is_in_proportion_to_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CHUNK_BYTES", 1 << 18)
    rows = 100_000
    path = write(tmp_path / "a.txt", "".join(f"{i % 3} qid:{i // 20} 1:{i % 10} 2:{i % 7}\n" for i in range(rows)))
    load_letor(write(tmp_path / "b.txt", "1 qid:1 1:1\n"))  # compiled
    tracemalloc.start()
    try:
        assert load_letor(path).X.shape == (rows, 2)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5 * path.stat().st_size


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes by name")
@pytest.mark.parametrize("sent", [bytes, gzip.compress])
def test_pipes_are_read(tmp_path, sent):
    content = "".join(f"{i % 3} qid:{i // 5} 1:{i} {2 + i % 9}:0.5\n" for i in range(1000)).encode()
    file, pipe = tmp_path / "a.txt", tmp_path / "pipe"
    file.write_bytes(content)
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=[sent(content)], daemon=True)
    writer.start()
    same(load_letor(pipe), load_letor(file))
    writer.join(10)


@pytest.mark.parametrize("layout", module.LAYOUTS)
def test_known_layouts(tmp_path, layout):
    names, features = module.LAYOUTS[layout]
    for part, name in enumerate(names):
        if (layout, part) == ("istella", 1):
            continue
        file = tmp_path / (name.format(fold=2) + (".gz" if part == 2 else ""))
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, f"{part} qid:1 1:{part}\n")
    train, valid, test = load_letor(tmp_path, layout, fold=2)
    assert (train.labels.tolist(), test.labels.tolist()) == ([0], [2])
    assert valid is None if layout == "istella" else valid.labels.tolist() == [1]
    assert train.X.shape[1] == test.X.shape[1] == features


def test_generated_data_is_the_same_everywhere():
    data = lp.data.cubic(queries=200, documents=20, features=10, noise=0.2, seed=3)
    shares = np.bincount(data.labels.astype(int)) / len(data.labels)
    np.testing.assert_allclose(shares, (0.55, 0.25, 0.13, 0.05, 0.02), atol=1e-3)
    assert [part.group.sum() for part in data.split(0.5, 0.5)] == [len(part.X) for part in data.split(0.5, 0.5)]
    data = lp.data.cubic(queries=30, documents=10, features=5, noise=0.3, seed=7)
    first = [0.001230153371579945, 0.2987455427646637, -0.27413785457611084, -0.8905918598175049, -0.454670786857605]
    assert data.X[0].tolist() == first
    labels = "0011133003100011120001000111121002001000300010100000012020111012010300110023201001020000220012101310"
    assert "".join(f"{label:g}" for label in data.labels[:100]) == labels
    clicks = lp.data.simulate_clicks(data.labels, data.group, taste=data.X[:, 0], sessions=20, seed=3)
    expected = [0, 0, 0, 0, 0, 2, 0, 0, 0, 4, 2, 0, 0, 0, 1, 1, 0, 3, 0, 1, 0, 1, 0, 0, 0, 0, 0, 2, 0, 2]
    assert np.round(20 * clicks[:30]).tolist() == expected
    assert clicks.sum() == pytest.approx(12.55)
