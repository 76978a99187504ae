"""LETOR text, which is SVMLight with query ids: ``label qid:7 1:0.5 2:0.25 # comment``, one document per line."""

from __future__ import annotations

import gzip
import importlib
import io
import itertools
import os
import re
import threading
import zlib
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from ..checking import integer, progress_bar
from ..errors import LambdaplugError
from ..kernels import (
    LETOR_FAULTS,
    LETOR_QUERY,
    LETOR_WIDER,
    get_num_threads,
    letor_kernel,
    powers_of_ten,
    run_tasks,
)
from ..rows import sizes_of
from .ranking import RankingData

__all__ = ["LAYOUTS", "Layout", "LetorParts", "load_letor", "save_letor"]

FilePath: TypeAlias = str | os.PathLike[str]

CHUNK_BYTES = 1 << 24
LARGE_BYTES = 50 << 20  # from here on a progress bar is worth its lines
QUERY_ID = re.compile(rb"^([^#\n]*?[ \t])qid:([^\s#]+)", re.MULTILINE | re.IGNORECASE)
WHOLE = re.compile(r"-?[0-9]{1,18}")
WRITTEN = 1 << 20  # numbers at a time
POWERS_OF_TEN = np.array([float(f"1e{power}") for power in range(64)])


class LetorParts(NamedTuple):
    """The parts of a known data set, as ``load_letor(folder, layout=...)`` reads it.

    Attributes
    ----------
    train, test : RankingData
        Their parts.
    valid : RankingData or None
        None where its owners made none.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> train, test = lp.data.cubic(queries=4, documents=3, features=2).split(0.5, 0.5)
    >>> len(LetorParts(train, None, test).train.group)
    2
    """

    train: RankingData
    valid: RankingData | None
    test: RankingData


class Layout(NamedTuple):
    """Where a known data set keeps its parts (the first pattern that exists), and how many features it has."""

    train: tuple[str, ...]
    valid: tuple[str, ...]
    test: tuple[str, ...]
    features: int
    must_validate: bool = True


LAYOUTS = {
    "mslr": Layout(("Fold{fold}/train.txt",), ("Fold{fold}/vali.txt",), ("Fold{fold}/test.txt",), 136),
    "mq": Layout(("Fold{fold}/train.txt",), ("Fold{fold}/vali.txt",), ("Fold{fold}/test.txt",), 46),
    "yahoo": Layout(("set{fold}.train.txt",), ("set{fold}.valid.txt",), ("set{fold}.test.txt",), 700),
    "istella": Layout(
        ("train.txt", "sample/train.txt", "full/train.txt"),
        ("vali.txt", "sample/vali.txt", "full/vali.txt"),
        ("test.txt", "sample/test.txt", "full/test.txt"),
        220,
        must_validate=False,
    ),
}


@overload
def load_letor(path: Any, layout: None = None, fold: int = 1, **options: Any) -> RankingData: ...


@overload
def load_letor(path: FilePath, layout: str, fold: int = 1, **options: Any) -> LetorParts: ...


def load_letor(  # type: ignore[misc]  # the overloads say what is returned, this what is taken
    path: FilePath | Sequence[FilePath],
    layout: str | None = None,
    fold: int = 1,
    *,
    features: int | None = None,
    max_features: int = 10_000,
    missing: float = 0.0,
    sort: bool = False,
    progress: bool | None = None,
) -> RankingData | LetorParts:
    """Read LETOR / SVMLight text with query ids, gzipped or not; several files are read as one after the other.

    The features become the columns of a dense float32 table, feature id 1 the first; a number beyond float32 becomes its
    largest one. Query ids are integers; where one is not (``qid:WT04-170``), all are kept as text. Comments are dropped.

    Parameters
    ----------
    path : path or sequence of paths
        Files; a path may also be a pipe, such as ``/dev/stdin``. With ``layout`` a folder.
    layout : str, optional
        A known data set in a folder, of which train, validation and test part are returned: ``"mslr"`` (MSLR-WEB10K and 30K)
        and ``"mq"`` (MQ2007, MQ2008) have folds 1 to 5, ``"yahoo"`` sets 1 and 2 (also by ``fold``), ``"istella"`` its only one.
    fold : int
        Of the layout.
    features : int, optional
        The number of columns; default as many as the widest line has.
    max_features : int
        The table has a column for every id up to the largest, so that one above this is refused: a mistake more often than a
        feature.
    missing : float
        A feature that a line leaves out: 0 as in LETOR, NaN if you say so.
    sort : bool
        Bring the lines of a query together, queries in the order of their first lines; without it they must stand together.
    progress : bool, optional
        Show a bar; default where the files are large and tqdm is installed.

    Returns
    -------
    RankingData or LetorParts
        The latter with ``layout``.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.txt"
    >>> _ = path.write_text("2 qid:10 1:0.5 3:7 # a document\\n0 qid:10 2:-1e-3\\n1 qid:11\\n")
    >>> data = load_letor(path)
    >>> data.X.shape, data.labels.tolist(), data.group.tolist(), data.query_ids.tolist()
    ((3, 3), [2.0, 0.0, 1.0], [2, 1], [10, 11])
    """
    if features is not None:
        features = integer(features, "load_letor: features", purpose=", or None")
    columns = _Columns(features, integer(max_features, "load_letor: max_features"), missing)
    if layout is None:
        paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
        if not paths:
            raise LambdaplugError("load_letor: expected the path of a file, or several; got none.")
        return _load([Path(one) for one in paths], columns, sort, progress)
    if layout not in LAYOUTS:
        raise LambdaplugError(f"load_letor: no layout {layout!r}. There are: {', '.join(LAYOUTS)}.")
    if not isinstance(path, (str, os.PathLike)):
        raise LambdaplugError(f"load_letor: layout={layout!r} takes one folder, got {path!r}.")
    known = LAYOUTS[layout]
    files = [
        _find(Path(path), patterns, fold, layout, needed)
        for patterns, needed in ((known.train, True), (known.valid, known.must_validate), (known.test, True))
    ]
    columns = columns._replace(features=features or known.features)
    parts = [file and _load([file], columns, sort, progress) for file in files]
    return LetorParts(*parts)  # type: ignore[arg-type]


def _find(folder: Path, patterns: Sequence[str], fold: int, layout: str, needed: bool) -> Path | None:
    names = [pattern.format(fold=fold) for pattern in patterns]
    for name in names:
        for file in (folder / name, folder / f"{name}.gz"):
            if file.is_file():
                return file
    if not needed:
        return None
    raise LambdaplugError(f"load_letor: layout {layout!r} expects {' or '.join(names)} (or .gz) in {folder}.")


class _Columns(NamedTuple):
    """Which columns the table has, and what stands where a line has nothing."""

    features: int | None  # None: as many as the widest line has
    most: int
    missing: float


class _Chunk(NamedTuple):
    number: int
    file: Path
    line: int  # its first one
    text: bytes  # whole lines


class _Table(NamedTuple):
    X: npt.NDArray[np.float32]
    labels: npt.NDArray[np.float32]
    qid: npt.NDArray[np.int64]
    lines: npt.NDArray[np.int64]
    file: Path
    named: bool  # qid counts the reader's names


class _Begun(io.RawIOBase):
    """A stream whose first bytes were read already; it is read in pieces at least as long."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head, self._rest = head, rest

    def read(self, size: int = -1) -> bytes:
        head, self._head = self._head, b""
        return head + self._rest.read(size - len(head)) if head else self._rest.read(size)


def _chunks(paths: Sequence[Path], advance: Callable[[int], object]) -> Generator[_Chunk, None, None]:
    """The files' text in whole lines; ``advance`` is told how many bytes of a file were read."""
    numbers = itertools.count()
    for path in paths:
        try:
            raw = open(path, "rb")  # noqa: SIM115
        except OSError as error:
            raise LambdaplugError(f"load_letor: cannot open {path}: {error.strerror}.") from None
        with raw:
            head = raw.read(2)
            begun = _Begun(head, raw)  # and not raw.seek(0), which a pipe does not know
            stream = gzip.GzipFile(fileobj=begun) if head == b"\x1f\x8b" else begun
            line, rest, seen, more = 1, b"", 0, b"more"
            while more:
                try:
                    more = stream.read(CHUNK_BYTES)
                except (OSError, EOFError, zlib.error) as error:
                    raise LambdaplugError(f"load_letor: {path} cannot be read: {error}.") from None
                if raw.seekable():
                    advance(raw.tell() - seen)
                    seen = raw.tell()
                text = rest + more if more or not rest else rest + b"\n"
                end = text.rfind(b"\n") + 1
                text, rest = text[:end], text[end:]
                if text:
                    yield _Chunk(next(numbers), path, line, text)
                    line += text.count(b"\n")


class _Reader:
    """What the threads that parse share: chunks handed out in turn, the widest line so far, queries' names."""

    def __init__(self, paths: Sequence[Path], advance: Callable[[int], object]) -> None:
        self._chunks = _chunks(paths, advance)
        self._turn = threading.Lock()
        self.width = 0
        self.failed = False
        self._names: dict[bytes, int] = {}  # of queries whose ids are no numbers

    @property
    def names(self) -> list[bytes]:
        return list(self._names)

    def numbered(self, text: bytes) -> bytes:
        """The text with numbers in place of its query ids: each name's place among all names."""
        return QUERY_ID.sub(lambda found: b"%bqid:%d" % (found[1], self._number(found[2])), text)

    def _number(self, name: bytes) -> int:
        with self._turn:
            return self._names.setdefault(name, len(self._names))

    def next(self) -> _Chunk | None:
        with self._turn:
            return None if self.failed else next(self._chunks, None)

    def close(self) -> None:
        self._chunks.close()


def _bar(paths: Sequence[Path], progress: bool | None) -> AbstractContextManager[Callable[[int], object]]:
    """What tells a progress bar over the bytes of the files, if there is to be one, how many were read."""
    size = sum(path.stat().st_size for path in paths if path.is_file())
    if progress:
        try:
            importlib.import_module("tqdm")
        except ImportError:
            raise LambdaplugError("load_letor: progress=True needs tqdm: python -m pip install tqdm.") from None
    wanted, quiet = size >= LARGE_BYTES if progress is None else progress, None if progress is None else False
    return progress_bar(size, "load_letor", wanted, unit="B", unit_scale=True, disable=quiet, leave=True)


def _load(paths: list[Path], columns: _Columns, sort: bool, progress: bool | None) -> RankingData:
    with _bar(paths, progress) as advance:
        reader = _Reader(paths, advance)
        pieces = _pieces(reader, columns, named=False)
    if reader.names and not all(piece.named or not len(piece.labels) for piece in pieces):
        # Every id is a text, then: the numbers among them are read once more, as they stand.
        pieces.clear()
        pipes = [path for path in paths if not path.is_file()]
        if pipes:
            raise LambdaplugError(
                f"load_letor: some query ids are numbers and some are not, which takes reading {pipes[0]} twice. Write "
                "it to a file first."
            )
        reader = _Reader(paths, lambda _: None)
        pieces = _pieces(reader, columns, named=True)
    return _joined(pieces, paths, columns, sort, reader.names)


def _pieces(reader: _Reader, columns: _Columns, named: bool) -> list[_Table]:
    """All chunks in order; ``named``: query ids are text, also where all of a chunk are numbers."""
    tables: dict[int, _Table] = {}
    faults: dict[int, LambdaplugError] = {}

    def work(_: Callable[[], int | None]) -> None:
        while (chunk := reader.next()) is not None:
            table = _parse(chunk, columns, reader, named)
            if isinstance(table, LambdaplugError):
                faults[chunk.number] = table
                reader.failed = True
            else:
                tables[chunk.number] = table

    threads = get_num_threads()
    try:
        run_tasks(work, range(threads), threads)
    finally:
        reader.close()
    if faults:  # chunks are handed out in order, so the first fault of the files is among them
        raise faults[min(faults)]
    return [tables.pop(number) for number in sorted(tables)]


def _parse(chunk: _Chunk, columns: _Columns, reader: _Reader, named: bool) -> _Table | LambdaplugError:
    features, missing = columns.features, columns.missing
    if named:
        chunk = chunk._replace(text=reader.numbered(chunk.text))
    text = np.frombuffer(chunk.text, dtype=np.uint8)
    lines = chunk.text.count(b"\n")
    labels, qid = np.empty(lines, dtype=np.float32), np.empty(lines, dtype=np.int64)
    numbers = np.empty(lines, dtype=np.int64)
    X = np.empty((lines, features or max(reader.width, 1)), dtype=np.float32)
    at, row, line, widest = 0, 0, chunk.line, 0
    while True:
        status, at, row, line, wide = letor_kernel()(
            text, at, row, line, float(missing), powers_of_ten(), X, labels, qid, numbers
        )
        widest = max(widest, wide)
        if status != LETOR_WIDER:
            break
        if features is not None:
            return LambdaplugError(f"{chunk.file}, line {line}: expected feature ids up to {features=}; got {wide}.")
        if wide > columns.most:
            return LambdaplugError(
                f"{chunk.file}, line {line}: expected feature ids up to max_features={columns.most}; got {wide}. If it is "
                f"meant, pass max_features={wide}: the table has a column for every id up to the largest."
            )
        old = X
        X = np.empty((lines, min(max(wide, X.shape[1] * 5 // 4), columns.most)), dtype=np.float32)
        X[:row, : old.shape[1]] = old[:row]
        X[:row, old.shape[1] :] = missing
    reader.width = max(reader.width, widest)  # which another thread may change at once
    if status == LETOR_QUERY and not named:
        return _parse(chunk, columns, reader, named=True)
    if status:
        word = chunk.text[at : at + 200].split(b"\n")[0].split()
        got = repr(word[0].decode("utf-8", "replace")[:40]) if word else "the end of the line"
        return LambdaplugError(f"{chunk.file}, line {line}: expected {LETOR_FAULTS[status]}; got {got}.")
    return _Table(X[:row, : features or widest], labels[:row], qid[:row], numbers[:row], chunk.file, named)


def _joined(
    tables: list[_Table], paths: Sequence[Path], columns: _Columns, sort: bool, names: Sequence[bytes]
) -> RankingData:
    if not sum(len(table.labels) for table in tables):
        raise LambdaplugError(f"load_letor: no document in {', '.join(map(str, paths))}.")
    qid = np.concatenate([table.qid for table in tables])
    labels = np.concatenate([table.labels for table in tables])
    group = sizes_of(qid)
    starts = np.cumsum(group) - group
    ids, first, run_of = np.unique(qid[starts], return_index=True, return_inverse=True)
    order = None
    if len(ids) < len(group):
        if not sort:
            raise _scattered(tables, qid, starts, first[run_of], names)
        order = np.argsort(np.repeat(first[run_of], group), kind="stable")
        labels, qid = labels[order], qid[order]
        group = sizes_of(qid)
        starts = np.cumsum(group) - group
    # Each piece is freed as soon as it is copied: there is never a second table in memory.
    X = np.empty((len(labels), columns.features or max(table.X.shape[1] for table in tables)), dtype=np.float32)
    end = len(labels)
    while tables:
        table = tables.pop()
        rows = slice(end - len(table.labels), end)
        X[rows, : table.X.shape[1]] = table.X
        X[rows, table.X.shape[1] :] = columns.missing
        end = rows.start
    found = qid[starts] if not names else np.array([names[name].decode("utf-8", "replace") for name in qid[starts]])
    return RankingData(X if order is None else X[order], labels, group, found)


def _scattered(
    tables: Sequence[_Table], qid: Any, starts: Any, first_run: Any, names: Sequence[bytes]
) -> LambdaplugError:
    again = int(np.flatnonzero(first_run < np.arange(len(starts)))[0])
    row = int(starts[again])
    name = names[qid[row]].decode("utf-8", "replace") if names else int(qid[row])
    for table in tables:
        if row < len(table.lines):
            return LambdaplugError(
                f"{table.file}, line {table.lines[row]}: qid {name} comes again after other queries. The lines of a "
                "query must stand together: sort the file by qid, or pass sort=True."
            )
        row -= len(table.lines)
    raise AssertionError


def save_letor(path: FilePath, data: RankingData | Iterable[npt.ArrayLike]) -> None:
    """Write (X, labels, group) as LETOR text; it loads back exactly, as float32.

    Parameters
    ----------
    path : path
        Gzipped where it ends with .gz.
    data : RankingData or (X, labels, group)
        Every feature is written, in as many digits as float32 needs. Queries without an id of their own are 1, 2, ...;
        ``query_ids`` may be numbers or text.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "data.txt"
    >>> save_letor(path, ([[0.1, 0]], [2], [1]))
    >>> path.read_text()
    '2 qid:1 1:0.1 2:0\\n'
    """
    X, labels, group = (np.asarray(part) for part in data)
    X, labels = X.astype(np.float32, copy=False), labels.astype(np.float32, copy=False)
    ids = getattr(data, "query_ids", None)
    ids = np.arange(1, len(group) + 1) if ids is None else np.asarray(ids)
    if X.ndim != 2 or len(X) != len(labels) or group.sum() != len(labels) or len(ids) != len(group):
        raise LambdaplugError(
            f"save_letor: expected a table of features, one label per row and group sizes that add up to the rows; got "
            f"X of shape {X.shape}, {len(labels)} labels and sizes that add up to {group.sum()}."
        )
    if (group == 0).any():
        raise LambdaplugError(f"save_letor: query {int(np.argmin(group))} has no document, and so no line to write.")
    if not np.isfinite(labels).all():
        raise LambdaplugError("save_letor: expected finite labels.")
    names = _words(ids)
    query = np.repeat(np.arange(len(ids)), group).tolist()
    line = " ".join(["%.9g qid:%s", *(f"{feature}:%.9g" for feature in range(1, X.shape[1] + 1))]) + "\n"
    step = max(1, WRITTEN // (X.shape[1] + 1))
    packed = str(os.fspath(path)).endswith(".gz")
    with gzip.open(path, "wb", compresslevel=6) if packed else open(path, "wb") as file:
        for low in range(0, len(X), step):
            rows = slice(low, low + step)
            printed = zip(_shortest(labels[rows]).tolist(), query[rows], _shortest(X[rows]).tolist(), strict=True)
            file.write("".join([line % (label, names[one], *values) for label, one, values in printed]).encode())


@np.errstate(over="ignore", invalid="ignore")
def _shortest(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """What ``%.9g`` prints in the fewest digits that are read back as these numbers."""
    exact = values.astype(np.float64)
    size = np.abs(exact)
    usual = np.isfinite(exact) & (exact != 0.0)
    exponent = np.floor(np.log10(size, out=np.zeros_like(size), where=usual)).astype(np.int64)  # of the first digit
    found = exact  # nine digits are always enough
    # A float32 tells all numbers of 6 digits apart, and fewer digits are 6 with zeros at the end, but for the smallest.
    least = 1 if np.any(usual & (size < np.finfo(np.float32).tiny)) else 6
    for digits in range(8, least - 1, -1):
        power = digits - 1 - exponent
        scale = POWERS_OF_TEN[np.abs(power)]
        rounded = np.where(power < 0, np.rint(exact / scale) * scale, np.rint(exact * scale) / scale)
        found = np.where(rounded.astype(np.float32) == values, rounded, found)
    return found


def _words(ids: npt.NDArray[Any]) -> list[str]:
    """Query ids as they stand in a file."""
    words = [str(name) for name in ids.tolist()]
    for word in words:
        if not word or "#" in word or "\0" in word or len(word.split()) != 1 or word != word.strip():
            raise LambdaplugError(f"save_letor: expected query ids without blanks and '#', got {word!r}.")
    # As they are read, numbers if all are.
    read: list[Any] = list(map(int, words)) if all(WHOLE.fullmatch(word) for word in words) else words
    seen = set()
    for word, name in zip(words, read, strict=True):
        if name in seen:
            raise LambdaplugError(f"save_letor: expected another query id for each query, got {word!r} again.")
        seen.add(name)
    return words
