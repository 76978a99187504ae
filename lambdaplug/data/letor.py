"""LETOR text, which is SVMLight with query ids: ``label qid:7 1:0.5 2:0.25 # comment``, one document per line."""

from __future__ import annotations

import gzip
import itertools
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..checking import integer, shown
from ..errors import LambdaplugError
from ..kernels import LETOR_FAULTS, LETOR_WIDER, get_num_threads, letor_kernel
from .ranking import RankingData

__all__ = ["LAYOUTS", "load_letor", "save_letor"]

FilePath: TypeAlias = str | os.PathLike[str]

# A known data set: where its train, validation and test part are, and how many features it has.
FOLDS = ("Fold{fold}/train.txt", "Fold{fold}/vali.txt", "Fold{fold}/test.txt")
LAYOUTS = {
    "mslr": (FOLDS, 136),
    "mq": (FOLDS, 46),
    "yahoo": (("set{fold}.train.txt", "set{fold}.valid.txt", "set{fold}.test.txt"), 700),
    "istella": (("train.txt", "vali.txt", "test.txt"), 220),
}
CHUNK_BYTES = 1 << 24
MOST_FEATURES = 10_000  # unless the caller says: a higher id is a mistake more often than a feature


def load_letor(
    path: FilePath | Sequence[FilePath],
    layout: str | None = None,
    fold: int = 1,
    *,
    features: int | None = None,
    missing: float = 0.0,
    sort: bool = False,
) -> Any:
    """Read LETOR / SVMLight text with query ids, gzipped or not; several files are read as one after the other.

    The features become the columns of a dense float32 table, feature id 1 the first; a number beyond float32 becomes its
    largest one. Query ids are integers; where one is not (``qid:WT04-170``), all are kept as text. Comments are dropped.

    Parameters
    ----------
    path : path or sequence of paths
        Files; a path may also be a pipe, such as ``/dev/stdin``. With ``layout`` a folder.
    layout : str, optional
        A known data set in a folder: ``"mslr"`` (MSLR-WEB10K and 30K) and ``"mq"`` (MQ2007, MQ2008) have folds 1 to 5,
        ``"yahoo"`` sets 1 and 2 (also by ``fold``), ``"istella"`` its only one.
    fold : int
        Of the layout.
    features : int, optional
        The number of columns; default as many as the widest line has, at most 10,000.
    missing : float
        A feature that a line leaves out: 0 as in LETOR, NaN if you say so.
    sort : bool
        Bring the lines of a query together, queries in the order of their first lines; without it they must stand together.

    Returns
    -------
    RankingData
        With ``layout`` three: train, validation (None where the owners made none) and test part.

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
    paths = [Path(path)] if isinstance(path, (str, os.PathLike)) else list(map(Path, path))
    if layout is None:
        return _load(paths, features, missing, sort)
    if layout not in LAYOUTS or len(paths) > 1:
        raise LambdaplugError(f"load_letor: expected one folder and a layout of {', '.join(LAYOUTS)}; got {layout!r}.")
    names, known = LAYOUTS[layout]
    parts: list[RankingData | None] = []
    for name in (name.format(fold=fold) for name in names):
        files = [file for file in (Path(paths[0], name), Path(paths[0], f"{name}.gz")) if file.is_file()]
        if not files and name != "vali.txt":
            raise LambdaplugError(f"load_letor: layout {layout!r} expects {name} (or .gz) in {paths[0]}.")
        parts.append(_load(files[:1], features or known, missing, sort) if files else None)
    return tuple(parts)


class _Piece(NamedTuple):
    """Some lines of a file, read; and of each run of rows with one query id its name, first row and where that stands."""

    X: npt.NDArray[np.float32]
    labels: npt.NDArray[np.float32]
    runs: list[tuple[str, int, str]]


def _load(paths: Sequence[Path], features: int | None, missing: float, sort: bool) -> RankingData:
    pieces, threads, width = list[_Piece](), get_num_threads(), features or 0
    with ThreadPoolExecutor(threads) as pool:
        for path in paths:
            chunks = _chunks(path)
            while some := list(itertools.islice(chunks, threads)):  # so much text is in memory at a time
                pieces += pool.map(partial(_parse, path, features, missing, width), some)
                width = features or max(piece.X.shape[1] for piece in pieces)
    before = np.cumsum([0, *(len(piece.labels) for piece in pieces)]).tolist()
    if not before[-1]:
        raise LambdaplugError(f"load_letor: no document in {', '.join(map(str, paths)) or 'no file'}.")
    labels = np.concatenate([piece.labels for piece in pieces])
    runs = [
        (name, first + row, at) for piece, first in zip(pieces, before, strict=False) for name, row, at in piece.runs
    ]
    names, starts, places = zip(*runs, strict=True)
    ids = _ids(names)
    fresh = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))  # a query may go on in the next piece
    ids, group = ids[fresh], np.diff(np.append(np.array(starts)[fresh], len(labels)))
    _, firsts, which = np.unique(ids, return_index=True, return_inverse=True)
    again = np.flatnonzero(firsts[which] < np.arange(len(ids)))
    if len(again) and not sort:
        raise LambdaplugError(
            f"{places[fresh[again[0]]]}: qid {ids[again[0]]} comes again after other queries. The lines of a query "
            "must stand together: sort the file by qid, or pass sort=True."
        )
    X = np.empty((len(labels), width), np.float32)
    for first in before[-2::-1]:
        piece = pieces.pop()  # freed as soon as it is copied: there is never a second table in memory
        rows, own = slice(first, first + len(piece.labels)), piece.X.shape[1]
        X[rows, :own], X[rows, own:] = piece.X, missing
    if len(again):
        query = np.repeat(firsts[which], group)
        order = np.argsort(query, kind="stable")
        X, labels, ids, group = X[order], labels[order], ids[np.sort(firsts)], np.unique(query, return_counts=True)[1]
    return RankingData(X, labels, group, ids)


def _chunks(path: Path) -> Iterator[tuple[int, bytes]]:
    """A file in pieces of whole lines, each with the number of its first line."""
    line, rest = 1, b""
    try:
        with open(path, "rb") as raw:  # looked at without a seek, which a pipe does not know
            stream = gzip.GzipFile(fileobj=raw) if raw.peek(1)[:1] == b"\x1f" else raw
            while more := stream.read(CHUNK_BYTES):
                head, newline, tail = more.rpartition(b"\n")
                if newline:
                    yield line, rest + head + newline
                    line, rest = line + more.count(b"\n"), b""
                rest += tail
    except (OSError, EOFError, zlib.error) as error:
        raise LambdaplugError(f"load_letor: {path} cannot be read: {error}.") from None
    if rest:
        yield line, rest + b"\n"


def _parse(path: Path, features: int | None, missing: float, width: int, chunk: tuple[int, bytes]) -> _Piece:
    """A chunk's documents; ``width``: so many features are known."""
    line, text = chunk
    codes, lines, most = np.frombuffer(text, np.uint8), text.count(b"\n"), features or MOST_FEATURES
    labels, ids = np.empty(lines, np.float32), np.zeros((lines, 3), np.int64)
    fault, width = LETOR_WIDER, width or min(most, text.count(b":", 0, text.find(b"\n")))
    while fault == LETOR_WIDER and width <= most:
        X = np.full((lines, width), missing, np.float32)
        fault, at, rows, read, widest = letor_kernel()(codes, X, labels, ids)
        width = max(widest, min(most, width * 5 // 4))
    if fault:
        expected = LETOR_FAULTS.get(fault, f"feature ids up to {most} (features= says how many are meant)")
        word = text[at : at + 200].split(b"\n")[0].split()
        got = repr(word[0].decode("utf-8", "replace")[:40]) if word else "the end of the line"
        raise LambdaplugError(f"{path}, line {line + read}: expected {expected}; got {got}.")
    starts = np.flatnonzero(ids[:rows, 2])
    runs = [
        (text[begin:end].decode("utf-8", "replace"), row, f"{path}, line {line + at - 1}")
        for row, (begin, end, at) in zip(starts.tolist(), ids[starts].tolist(), strict=True)
    ]
    return _Piece(X[:rows, : features or widest], labels[:rows], runs)


def _ids(names: Sequence[str]) -> npt.NDArray[Any]:
    """Query ids as they are read: numbers if all are."""
    whole = all(re.fullmatch(r"-?[0-9]{1,18}", name, re.ASCII) for name in names)
    return np.array(names, np.int64 if whole else None)


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
    X, labels, ids = X.astype(np.float32), labels.astype(np.float32), getattr(data, "query_ids", None)
    if X.ndim != 2 or not len(X) == len(labels) == group.sum() or not np.isfinite(labels).all() or (group <= 0).any():
        raise LambdaplugError(
            "save_letor: expected a table of features, a finite label per row and group sizes >= 1 that add up to the rows; "
            f"got X of shape {X.shape}, {len(labels)} labels and sizes that add up to {group.sum()}."
        )
    names = [str(name) for name in (range(1, len(group) + 1) if ids is None else np.asarray(ids).tolist())]
    whole = all(name.split() == [name] and "#" not in name for name in names)
    if not whole or not len(group) == len(names) == len(set(_ids(names).tolist())):
        raise LambdaplugError(
            f"save_letor: expected a query id for each of {len(group)} queries, none twice, without blanks and '#'; "
            f"got {shown(names)}."
        )
    ids = np.arange(1, X.shape[1] + 1).astype(str).tolist()
    with gzip.open(path, "wb", compresslevel=6) if str(path).endswith(".gz") else open(path, "wb") as file:
        for row, label, query in zip(X, labels, np.repeat(np.arange(len(names)), group).tolist(), strict=True):
            # NumPy writes a float32 in as few digits as it is read back from.
            values = [":".join(pair).removesuffix(".0") for pair in zip(ids, row.astype(str).tolist(), strict=True)]
            file.write(" ".join([str(label).removesuffix(".0"), f"qid:{names[query]}", *values]).encode() + b"\n")
