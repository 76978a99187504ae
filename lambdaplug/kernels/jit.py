"""How every kernel is compiled, and found again by the next process.

Kernels are specialised by closure over plain Python functions. Numba's own cache keeps them on disk: in
``NUMBA_CACHE_DIR``, beside the package, or in the user's cache folder. Its index tells functions apart by their names, so
each specialisation gets a name of its own, with a checksum of all that its code is made of.
"""

import contextlib
import functools
import hashlib
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np
from numba import config, njit, types
from numba.core import cgutils
from numba.core.caching import FunctionCache
from numba.core.errors import NumbaError
from numba.core.sigutils import normalize_signature
from numba.extending import intrinsic, register_jitable
from numba.np.arrayobj import populate_array

from ..errors import LambdaplugError

F = TypeVar("F", bound=Callable[..., Any])

PACKAGE = Path(__file__).parent.parent
# Where the functions stand that kernels on disk are made of.
FORMULAS = "kernels/*.py", "measures/*.py", "costs.py"
MODULES = "lambdaplug.kernels.", "lambdaplug.measures.", "lambdaplug.costs"
# Settings of Numba that change the code it generates.
SETTINGS = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK")

# What a vectorised reduction needs, and nothing that would let LLVM assume away NaN and infinity.
REDUCE = {"reassoc", "contract", "arcp", "nsz"}

# Of functions that only kernels call: no entries for Python and C to compile.
_INNER: dict[str, Any] = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

# For a factory of kernels that takes functions: those of a user's measure that was forgotten long ago are forgotten, too.
per_function = functools.lru_cache(maxsize=256)


def compile_kernel(function: F, *, fastmath: set[str] | None = None) -> F:
    """Compile with the options every kernel shares.

    nogil: threads over chunks of queries. error_model numpy: a division is a division, not a branch. no_cfunc_wrapper:
    nothing calls kernels from C, and compiling that entry takes milliseconds per argument. The next process finds the
    compiled code on disk, unless a function of the user's is inside: the cache would not notice when that is edited.
    """
    _require_compiler()
    lasting = _name_by_content(function, sorted(fastmath or ()))
    kernel = njit(nogil=True, error_model="numpy", fastmath=fastmath or False, no_cfunc_wrapper=True)(function)
    if lasting:
        with contextlib.suppress(RuntimeError, OSError):  # no folder can be written to
            kernel._cache = _Cache(function)
    kernel.compile = functools.partial(_compile_whole, kernel.compile)
    kernel.__wrapper_address__ = lambda: -1  # the entry for C, which a kernel in a struct is asked for: there is none
    return cast(F, kernel)


def compiled(signature: Any, function: F) -> F:
    """``compile_kernel`` for arguments of these types and no others."""
    kernel = compile_kernel(function)
    kernel.compile(signature)  # type: ignore[attr-defined]
    kernel.disable_compile()  # type: ignore[attr-defined]
    return kernel


def inlinable(function: F) -> F:
    """Let kernels call a plain function; it stays an ordinary function everywhere else.

    Formulas stay strict inside a kernel whose sums may be reordered: without a word, they would inherit its fastmath.
    One with a function of the user's inside comes back compiled: Numba never forgets a function that was registered.
    """
    if function.__closure__ and not _name_by_content(function):
        return cast(F, njit(fastmath=False, **_INNER)(function))
    register_jitable(fastmath=False)(function)
    return function


def reducible(function: F) -> F:
    """``inlinable`` for a function inside a sum, whose products may be reordered with it.

    Always inline: called, it would be the function compiled for itself in the process that compiles, and the kernel's own
    copy in those that load the kernel from disk, whose sums may be in another order.
    """
    register_jitable(fastmath=REDUCE, forceinline=True)(function)
    return function


# --- names that last -----------------------------------------------------------------------------------------------


def _name_by_content(function: Callable[..., Any], options: Sequence[str] = ()) -> bool:
    """Add a checksum of what it is made of to a function's name; False if that includes what is not of this package."""
    try:
        content = f"{_sources()} {_text(function)} {options}"
    except TypeError:
        return False
    if "#" not in function.__qualname__:
        function.__qualname__ += f"#{hashlib.sha256(content.encode()).hexdigest()[:20]}"
    return True


@functools.cache
def _sources() -> str:
    """A checksum of all formulas of the package, and of what else decides how they are compiled."""
    digest = hashlib.sha256(repr([np.__version__, *(getattr(config, name) for name in SETTINGS)]).encode())
    for path in sorted(path for pattern in FORMULAS for path in PACKAGE.glob(pattern)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _text(thing: Any) -> str:
    """A function of this package, and what it closes over, by name."""
    if isinstance(thing, FunctionType):
        if thing.__module__.startswith(MODULES):
            inside = tuple(cell.cell_contents for cell in thing.__closure__ or ())
            return f"{thing.__module__}.{thing.__qualname__.partition('#')[0]}{_text(inside)}"
    elif isinstance(thing, tuple):
        return f"{type(thing).__qualname__}({', '.join(map(_text, thing))})"
    elif isinstance(thing, (bool, int, float, str, np.generic, types.Type, type(None))):
        return f"{type(thing).__qualname__} {thing!r}"
    raise TypeError(f"{thing!r} has no name that lasts")


class _Cache(FunctionCache):  # type: ignore[misc]  # Numba has no types
    """Numba's cache of one function, in which a damaged file is one that is not there."""

    def _index_key(self, signature: Any, codegen: Any) -> Any:
        return signature, codegen.magic_tuple()  # the name says the rest

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        try:
            found = super().load_overload(signature, target_context)
        except Exception:  # a damaged file raises what it likes
            with contextlib.suppress(Exception):
                self.flush()
            return None
        # Two processes that write at once may leave one's code under the other's arguments.
        return found if found is not None and found.signature.args == normalize_signature(signature)[0] else None

    def save_overload(self, signature: Any, result: Any) -> None:
        with contextlib.suppress(Exception):  # the folder is full, or was taken away
            super().save_overload(signature, result)


# --- compiling -----------------------------------------------------------------------------------------------------


def _compile_whole(compiling: Callable[[Any], Any], signature: Any) -> Any:
    """Compile, and let Ctrl-C wait until that is done: it would leave Numba's tables half filled for good."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        return compiling(signature)
    waiting: list[Any] = []
    signal.signal(signal.SIGINT, lambda *interrupt: waiting.append(interrupt))
    try:
        return compiling(signature)
    finally:
        signal.signal(signal.SIGINT, handler)
        if waiting:
            handler(*waiting[0])


def compile_own(
    function: Callable[..., Any], what: str, *, ranks: int, state: Any, columns: int, number: bool, checked: bool
) -> tuple[Any, Any]:
    """A function of the user's, for kernels to call, and Numba's type of its result; or say why it cannot be compiled.

    It takes labels that cannot be written to, so many ranks, perhaps what another function returned (``state``), and columns.
    It is compiled now and for these types alone, so that what it refers to may change later. ``number``: it returns one;
    ``checked``: an index beyond the end raises, where it would read what lies there.
    """
    _require_compiler()
    labels = types.Array(types.float64, 1, "C", readonly=True)
    signature = (labels, *[types.intp] * ranks, *([] if state is None else [state]), *[labels] * columns)
    compiled = njit(fastmath=False, boundscheck=checked, **_INNER)(function)
    try:  # as a kernel calls it: arguments left out have their defaults
        _compile_whole(lambda types: compiled.get_call_template(types, {}), signature)
        (overload,) = compiled.overloads.values()
    except Exception as error:  # Numba raises more than its own
        lines = [line.strip(" >-") for line in str(error).splitlines()]
        reasons = [line for line in lines if line and not line.startswith(("Failed in", "- Resolution failure"))]
        kind = "" if isinstance(error, NumbaError) else f"{type(error).__name__}: "
        raise LambdaplugError(
            f"{what}: Numba cannot compile {function.__name__}: {kind}{reasons[0] if reasons else error} "
            "Write it as a loop over numbers and arrays; functions that it calls need @numba.njit."
        ) from None
    compiled.disable_compile()
    result = overload.signature.return_type
    if number and not isinstance(result, (types.Integer, types.Float, types.Boolean)):
        found = f"{result.type} or None" if isinstance(result, types.Optional) else result
        raise LambdaplugError(f"{what}: {function.__name__} must always return a number; to Numba it returns {found}.")
    return compiled, result


def _require_compiler() -> None:
    if config.DISABLE_JIT:
        raise LambdaplugError(
            "NUMBA_DISABLE_JIT is set, and plain Python cannot run the kernels. Unset NUMBA_DISABLE_JIT before importing "
            "lambdaplug. To step through a function of your own for lp.custom, call it with an array of labels."
        )


# --- intrinsics
# Instructions that Numba does not make by itself, for kernels.


def _apart(instruction: Any, module: Any, one: str, *others: str) -> Any:
    """Promise that memory of one name does not overlap that of the others, by LLVM's scopes of aliases."""
    domain = module.add_metadata(["lambdaplug"])
    for kind, names in (("alias.scope", (one,)), ("noalias", others)):
        instruction.set_metadata(kind, module.add_metadata([module.add_metadata([name, domain]) for name in names]))
    return instruction


@intrinsic
def load(_typing_context: Any, array: Any, index: Any) -> Any:
    """``array[index]`` of memory that the kernel does not write, with a non-negative index.

    An ordinary read would have to be repeated after every store, because the arrays might overlap, and a loop with
    both is then not vectorised. This read carries LLVM's promise that the memory stays as it is.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        struct = context.make_array(signature.args[0])(context, builder, arguments[0])
        value = builder.load(builder.gep(struct.data, [arguments[1]], inbounds=True))
        value.set_metadata("invariant.load", builder.module.add_metadata([]))
        return _apart(value, builder.module, "read", "first", "second")

    if not (isinstance(array, types.Array) and array.ndim == 1 and array.layout == "C"):
        return None  # a strided view would need its stride: refuse to compile rather than read elsewhere
    return array.dtype(array, index), generate


@intrinsic
def add_both(_typing_context: Any, first: Any, second: Any, index: Any, one: Any, other: Any) -> Any:
    """``first[index] += one`` and ``second[index] += other``, of arrays that overlap neither each other nor what is loaded.

    Otherwise a loop would compare the bounds of all its arrays each time it begins.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        names = "first", "second", "read"
        for place in range(2):
            data = context.make_array(signature.args[place])(context, builder, arguments[place]).data
            to, scopes = builder.gep(data, [arguments[2]], inbounds=True), names[place:] + names[:place]
            value = _apart(builder.load(to), builder.module, *scopes)
            total = builder.fadd(value, arguments[3 + place], flags=("reassoc", "contract", "arcp", "nsz"))
            _apart(builder.store(total, to), builder.module, *scopes)
        return context.get_dummy_value()

    return types.void(first, second, index, first.dtype, second.dtype), generate


@intrinsic
def local_float32(_typing_context: Any, length: Any) -> Any:
    """An array of so many float32, a constant, on the stack and not initialised.

    LLVM sees that no other array overlaps it, and what a user's function reads need not be read again after each store.
    """
    if not isinstance(length, types.IntegerLiteral):
        return None
    count = length.literal_value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = cgutils.alloca_once(builder, context.get_data_type(types.float32), size=count)
        data.align = 64  # a register of any width lies within a cache line
        part = context.make_array(signature.return_type)(context, builder)
        size = context.get_constant(types.intp, 4)
        populate_array(part, data, [context.get_constant(types.intp, count)], [size], size, meminfo=None)
        return part._getvalue()

    return types.Array(types.float32, 1, "C")(length), generate


@intrinsic
def borrowed(_typing_context: Any, value: Any) -> Any:
    """The same without ownership, of arrays and tuples of them: no counting of references, which keeps loops from packing.

    Whoever owns the value keeps it, by calling ``keep(value)`` after the last use.
    """

    def unowned(context: Any, builder: Any, kind: Any, given: Any) -> Any:
        if isinstance(kind, types.Array):
            array = context.make_array(kind)(context, builder, given)
            array.meminfo, array.parent = array.meminfo.type(None), array.parent.type(None)
            return array._getvalue()
        if isinstance(kind, types.BaseTuple):
            parts = [builder.extract_value(given, place) for place in range(len(kind))]
            return context.make_tuple(
                builder, kind, [unowned(context, builder, *one) for one in zip(kind, parts, strict=True)]
            )
        context.nrt.incref(builder, kind, given)
        return given

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return unowned(context, builder, signature.args[0], arguments[0])

    return value(value), generate


@inlinable
def keep(value: Any) -> None:
    """Nothing: the value is needed until here."""


def _stretch(context: Any, builder: Any, array: Any, given: Any, start: Any, length: Any) -> Any:
    """So many entries of an array from one on, as a vector without ownership."""
    vector = types.Array(array.dtype, 1, "C", readonly=not array.mutable)
    part = context.make_array(vector)(context, builder)
    size = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(array.dtype)))
    populate_array(part, builder.gep(given.data, [start], inbounds=True), [length], [size], size, meminfo=None)
    return part._getvalue()


@intrinsic
def line(_typing_context: Any, array: Any, row: Any, start: Any, length: Any) -> Any:
    """``array[row, start:start + length]`` of an argument of the kernel, with nothing checked; a vector has only row 0.

    Numba takes ten milliseconds to compile each ordinary slice, and kernels have dozens.
    """
    if not (isinstance(array, types.Array) and array.ndim <= 2 and array.layout == "C"):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        table = context.make_array(array)(context, builder, arguments[0])
        width = builder.extract_value(table.shape, array.ndim - 1)
        at = builder.add(builder.mul(arguments[1], width), arguments[2])
        return _stretch(context, builder, array, table, at, arguments[3])

    result = types.Array(array.dtype, 1, "C", readonly=not array.mutable)
    return result(array, types.intp, types.intp, types.intp), generate


@intrinsic
def lines(_typing_context: Any, table: Any, at: Any) -> Any:
    """Rows of a table as a tuple of vectors without ownership: ``at`` has their numbers, as a constant text such as "0 2".

    Whoever owns the table keeps it, by calling ``keep(table)`` after the last use.
    """
    if not (isinstance(at, types.StringLiteral) and isinstance(table, types.Array) and table.ndim == 2):
        return None
    wanted = [int(row) for row in at.literal_value.split()]

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = context.make_array(table)(context, builder, arguments[0])
        width = builder.extract_value(whole.shape, 1)
        starts = [builder.mul(context.get_constant(types.intp, row), width) for row in wanted]
        parts = [_stretch(context, builder, table, whole, start, width) for start in starts]
        return context.make_tuple(builder, signature.return_type, parts)

    vector = types.Array(table.dtype, 1, "C", readonly=not table.mutable)
    return types.UniTuple(vector, len(wanted))(table, at), generate


@inlinable
def located(offsets: Any, first: int, query: int) -> tuple[Any, Any, Any]:
    """Where a query's rows begin, how many there are, and where they begin counted from those of query ``first``."""
    start = load(offsets, query)
    return start, load(offsets, query + 1) - start, start - load(offsets, first)


@inlinable
def float32_from_bits(bits: Any) -> Any:
    """The float32 whose 32 bits are those of an int32."""
    return np.int32(bits).view(np.float32)


@inlinable
def bits_from_float32(value: Any) -> Any:
    """The 32 bits of a float32, as an int32."""
    return np.float32(value).view(np.int32)
