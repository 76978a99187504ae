"""Compiled kernels on disk: one file per specialisation, named by everything that its code depends on.

Numba's own cache keeps one index per function, which all its specialisations share. It is written before the data that
it points to, and without a lock: a full disk, a kill or two processes at once could leave one measure with the compiled
code of another, for good. Here a file is written beside its place and moved there as a whole, holds a checksum and its
own name, and is believed only if both are right. Whatever goes wrong, this process compiles for itself.

This is the one place that reaches behind Numba's public face: a dispatcher's ``_cache``, and the two functions by which
a compiled result becomes bytes and comes back. Where a version of Numba has them no more, nothing is cached.
"""

import functools
import hashlib
import inspect
import os
import pickle
import re
import shutil
import stat
import sys
import uuid
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba import config
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from ..errors import LambdaplugWarning

__all__ = ["KernelCache", "add_cache", "sources_digest"]

PACKAGE = Path(__file__).parent.parent
MAGIC = b"lambdaplug kernel 1\n"
CHECKSUM = hashlib.sha256
STATES_KEPT = 4  # of the package's sources, beside the present one
LASTING = "lasting"  # the mark of a closure over nothing but this package's functions
# Settings of Numba that change the code it generates.
SETTINGS = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "ENABLE_AVX", "DEBUGINFO_DEFAULT")

_warned = False


@functools.cache
def sources_digest() -> str | None:
    """A checksum of all sources of the package: an edited formula in any file must miss the cache. None without sources."""
    digest = CHECKSUM()
    paths = sorted(PACKAGE.rglob("*.py"))
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest() if Path(__file__) in paths else None


def add_cache(kernel: Any) -> None:
    """Have a dispatcher look for its compiled code on disk first, if what it is made of has a name."""
    digest, closure = sources_digest(), _closure(kernel.py_func)
    if digest is None or closure is None or not hasattr(kernel, "_cache"):
        return
    function = kernel.py_func
    depends = [
        f"sources {digest}",
        f"function {function.__module__}.{function.__qualname__} {function.__code__.co_firstlineno} {closure}",
        f"options {sorted((name, str(_sorted(value))) for name, value in kernel.targetoptions.items())}",
        f"settings {[(name, getattr(config, name, None)) for name in SETTINGS]}",
        f"python {sys.version} {sys.implementation.cache_tag}",
        f"numba {numba.__version__}, llvmlite {llvmlite.__version__}, numpy {np.__version__}",
    ]
    kernel._cache = KernelCache(f"{function.__module__}.{function.__qualname__}".split(".<")[0], depends, digest)


def _sorted(value: Any) -> Any:
    return sorted(value) if isinstance(value, (set, frozenset)) else value


def _closure(function: Callable[..., Any]) -> str | None:
    """What a kernel closes over, as text; None if that includes what the sources' checksum does not cover."""
    try:
        return _text(tuple(cell.cell_contents for cell in function.__closure__ or ()))
    except TypeError:
        return None


def _text(thing: Any) -> str:
    if inspect.isfunction(thing) and (thing.__closure__ is None or thing.__dict__.get(LASTING)):
        module = __name__.partition(".")[0]
        if thing.__module__.partition(".")[0] == module:
            inside = tuple(cell.cell_contents for cell in thing.__closure__ or ())
            return f"{thing.__module__}.{thing.__qualname__}{_text(inside) if inside else ''}"
    elif isinstance(thing, tuple):
        return f"{type(thing).__qualname__}({', '.join(map(_text, thing))})"
    elif thing is None or isinstance(thing, (bool, int, float, str, np.generic)):
        return f"{type(thing).__qualname__} {thing!r}"
    raise TypeError(f"{thing!r} has no lasting name")


class KernelCache:
    """The cache of one dispatcher, called by Numba."""

    def __init__(self, name: str, depends: list[str], state: str) -> None:
        self._name = name
        self._depends = depends
        self._state = state

    @property
    def cache_path(self) -> str | None:
        """Where new entries go."""
        return next((str(folder) for folder in self._folders() if os.access(folder, os.W_OK)), None)

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """The compiled result for these types of arguments, or None."""
        try:
            target_context.refresh()
            key = self._key(signature, target_context.codegen())
            for folder in self._folders():
                path = folder / self._file(key)
                try:
                    content = path.read_bytes()
                except FileNotFoundError:
                    continue
                return CompileResult._rebuild(target_context, *_unpacked(content, key, path))
        except LambdaplugWarning:
            raise
        except Exception as error:
            _warn(error)
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep a compiled result."""
        try:
            folder = self.cache_path
            if folder is None or result.lifted or result.library.has_dynamic_globals:
                return
            key = self._key(signature, result.codegen)
            _write(Path(folder) / self._file(key), _packed(result._reduce(), key))
        except LambdaplugWarning:
            raise
        except Exception as error:
            _warn(error)

    def flush(self) -> None:
        """Numba asks for it where a function is compiled anew; entries have names of their own, and none goes stale."""

    def _folders(self) -> tuple[Path, ...]:
        return folders(self._state[:16], config.CACHE_DIR)

    def _key(self, signature: Any, codegen: Any) -> str:
        kinds = ", ".join(map(str, signature)) if isinstance(signature, tuple) else str(signature)
        return "\n".join([*self._depends, f"machine {codegen.magic_tuple()}", f"arguments {kinds}"])

    def _file(self, key: str) -> str:
        return f"{self._name}-{CHECKSUM(key.encode()).hexdigest()[:32]}"


def _packed(reduced: Any, key: str) -> bytes:
    content: bytes = dumps((key, reduced))
    return MAGIC + CHECKSUM(content).digest() + content


def _unpacked(packed: bytes, key: str, path: Path) -> Any:
    end = len(MAGIC) + CHECKSUM().digest_size
    head, content = packed[:end], packed[end:]
    if head != MAGIC + CHECKSUM(content).digest():
        raise ValueError(f"{path} is damaged")
    found, reduced = pickle.loads(content)  # written by this user or root: see ``folders``
    if found != key:
        raise ValueError(f"{path} holds another kernel than its name says")
    return reduced


def _write(path: Path, content: bytes) -> None:
    """As a whole or not at all, whoever else writes the same."""
    beside = path.with_name(f"{path.name}.{uuid.uuid4().hex[:16]}.tmp")
    try:
        with open(
            os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o644), "wb"
        ) as file:
            file.write(content)
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


@functools.cache
def folders(state: str, chosen: str) -> tuple[Path, ...]:
    """Where entries for this state of the sources may lie: ``NUMBA_CACHE_DIR``, or beside the package and in the home.

    Only where no one but this user and root can write, as whoever writes there decides what this process runs.
    """
    if chosen:
        places = [Path(chosen) / "lambdaplug"]
    else:
        places = [Path(__file__).parent / "__pycache__" / "compiled"]
        home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or os.path.expanduser("~/.cache")
        if os.path.isabs(home):
            places.append(Path(home) / "lambdaplug")
    found = [(place / state, _fault(place, state)) for place in places]
    usable = tuple(folder for folder, fault in found if not fault)
    if not any(os.access(folder, os.W_OK) for folder in usable):
        _warn(OSError("; ".join(fault or f"{folder} cannot be written to" for folder, fault in found)))
    return usable


def _fault(place: Path, state: str) -> str:
    """Why this place is of no use, or nothing."""
    try:
        for folder in (place, place / state):
            new = not folder.exists()
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            _refuse_foreign(folder)
        if new:
            _forget_old_states(place, state)
    except OSError as error:
        return str(error)
    return ""


def _refuse_foreign(folder: Path) -> None:
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(f"{folder} is not a directory")
    if hasattr(os, "geteuid"):
        if found.st_uid not in (0, os.geteuid()):
            raise PermissionError(f"{folder} belongs to another user")
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(f"{folder} can be written to by other users")


def _forget_old_states(place: Path, state: str) -> None:
    """Of the entries for other states of the sources, only the newest are kept."""
    others = [path for path in place.iterdir() if re.fullmatch("[0-9a-f]{16}", path.name) and path.name != state]
    for path in sorted(others, key=lambda path: path.stat().st_mtime)[:-STATES_KEPT]:
        shutil.rmtree(path, ignore_errors=True)


def _warn(error: Exception) -> None:
    """Once per process."""
    global _warned
    if _warned:
        return
    _warned = True
    warnings.warn(
        f"the cache of compiled kernels is of no use here: {type(error).__name__}: {error}. Results are right all the same; "
        "this process compiles what it needs for itself, which takes seconds. Set NUMBA_CACHE_DIR to a directory with free "
        "space that only you can write to.",
        LambdaplugWarning,
        stacklevel=2,
    )
