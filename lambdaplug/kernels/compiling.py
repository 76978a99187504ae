"""How every kernel is compiled: one helper holds the options, with the reasons.

Kernels are specialised by closure over plain Python functions. A closure over compiled functions, or functions
passed as arguments, would compile anew in every process: Numba's on-disk cache recognises plain functions only.
"""

import functools
import gc
import inspect
import weakref
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, TypeVar, cast

from llvmlite import ir
from numba import config, njit, types
from numba.core import cgutils, event
from numba.core.errors import NumbaError
from numba.extending import intrinsic, register_jitable
from numba.np.arrayobj import populate_array

from ..errors import LambdaplugError
from .cache import LASTING, add_cache

__all__ = [
    "LANES",
    "REDUCE",
    "Kernels",
    "bits_from_float32",
    "borrowed",
    "compile_kernel",
    "copied",
    "float32_from_bits",
    "foreign",
    "inlinable",
    "keep",
    "lasting",
    "line",
    "lines",
    "load",
    "local_float32",
    "located",
    "order_lanes",
    "per_function",
    "reducible",
    "try_compiling",
]

F = TypeVar("F", bound=Callable[..., Any])

PACKAGE = __name__.partition(".")[0] + "."

# What a vectorised reduction needs, and nothing that would let LLVM assume away NaN and infinity.
REDUCE = {"reassoc", "contract", "arcp", "nsz"}

# Of functions that only kernels call: no entries for Python and C to compile.
_INNER: dict[str, Any] = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def inlinable(function: F) -> F:
    """Let kernels call a plain function; it stays an ordinary function everywhere else.

    Formulas stay strict inside a kernel whose sums may be reordered: without a word, they would inherit its fastmath.
    One with a function of the user's inside comes back compiled: Numba never forgets a function that was registered.
    """
    if _closes(function) and not function.__dict__.get(LASTING):
        return cast(F, njit(fastmath=False, **_INNER)(function))
    register_jitable(fastmath=False)(function)
    return function


def lasting(function: F) -> F:
    """For a closure over functions of this package alone, made once and kept: kernels with it inside are kept on disk."""
    function.__dict__[LASTING] = True
    return function


def reducible(function: F) -> F:
    """``inlinable`` for a function inside a sum, whose products may be reordered with it.

    Always inline: called, it would be the function compiled for itself in the process that compiles, and the kernel's own
    copy in those that load the kernel from disk, whose sums may be in another order.
    """
    register_jitable(fastmath=REDUCE, forceinline=True)(function)
    return function


def foreign(function: F, checked: bool) -> F:
    """The same for a function of the user's; ``checked``: an index beyond the end raises, where it would read what lies there."""
    return cast(F, njit(fastmath=False, boundscheck=checked, **_INNER)(function))


class Kernels(dict[Any, Any]):
    """The kernels with one user's function inside: whoever is to keep them, keeps this."""

    def of(self, function: Callable[..., Any]) -> None:
        """Keep the kernels made of this closure around the function.

        The closure itself must not hold them: they hold it, and Numba holds what a kernel was compiled from as long as
        the kernel lives.
        """
        function.__dict__["kernels"] = weakref.ref(self)


def per_function(factory: F) -> F:
    """``functools.cache`` for a factory of kernels; those of a closure that has a keeper live as long as that does."""
    always = functools.cache(factory)

    @functools.wraps(factory)
    def cached(*arguments: Any) -> Any:
        keepers = (one.__dict__["kernels"]() for one in _flat(arguments) if _closes(one) and "kernels" in one.__dict__)
        kept = next(keepers, None)
        if kept is None:
            return always(*arguments)
        key = factory, arguments
        if key not in kept:
            kept.setdefault(key, factory(*arguments))
        return kept[key]

    return cast(F, cached)


def _flat(things: tuple[Any, ...]) -> Iterator[Any]:
    for thing in things:
        if isinstance(thing, tuple):
            yield from _flat(thing)
        else:
            yield thing


def _closes(thing: object) -> bool:
    """Whether it is a function of this package's that holds something else, as those around a user's function do."""
    return inspect.isfunction(thing) and thing.__closure__ is not None and thing.__module__.startswith(PACKAGE)


def copied(function: F) -> F:
    """An equal function that is another object."""
    copy = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__module__, copy.__kwdefaults__ = function.__module__, function.__kwdefaults__
    copy.__qualname__, copy.__doc__ = function.__qualname__, function.__doc__
    return cast(F, copy)


def try_compiling(
    function: Callable[..., Any], ranks: int, what: str, state: Any = None, *, columns: int = 0, number: bool = False
) -> Any:
    """Compile a function of labels that cannot be written to, so many ranks, perhaps a state and columns, or say why not.

    Returns Numba's type of its result, which may be the state of another function, or must be a number's.
    """
    _require_compiler()
    labels = types.Array(types.float64, 1, "C", readonly=True)
    signature = (labels, *[types.intp] * ranks, *([] if state is None else [state]), *[labels] * columns)
    try:
        compiled = njit(error_model="numpy")(function)
        compiled.get_call_template(signature, {})  # as a kernel calls it: arguments left out have their defaults
        (overload,) = compiled.overloads.values()
    except Exception as error:  # Numba raises more than its own
        lines = [line.strip(" >-") for line in str(error).splitlines()]
        reasons = [line for line in lines if line and not line.startswith(("Failed in", "- Resolution failure"))]
        kind = "" if isinstance(error, NumbaError) else f"{type(error).__name__}: "
        raise LambdaplugError(
            f"{what}: Numba cannot compile {function.__name__}: {kind}{reasons[0] if reasons else error} "
            "Write it as a loop over numbers and arrays; functions that it calls need @numba.njit."
        ) from None
    result = overload.signature.return_type
    if number and not isinstance(result, (types.Integer, types.Float, types.Boolean)):
        found = f"{result.type} or None" if isinstance(result, types.Optional) else result
        raise LambdaplugError(f"{what}: {function.__name__} must always return a number; to Numba it returns {found}.")
    return result


def _require_compiler() -> None:
    if config.DISABLE_JIT:
        raise LambdaplugError(
            "NUMBA_DISABLE_JIT is set, and Numba compiles nothing: kernels have instructions inside that plain Python cannot "
            "run. Unset NUMBA_DISABLE_JIT (or set numba.config.DISABLE_JIT = 0) before importing lambdaplug. To step "
            "through a function of your own for lp.custom, call it with an array of labels."
        )


def compile_kernel(function: F, *, fastmath: set[str] | bool = False) -> F:
    """Compile with the options every kernel shares.

    nogil: threads over chunks of queries. error_model numpy: a division is a division, not a branch. no_cfunc_wrapper:
    nothing calls kernels from C, and compiling that entry takes milliseconds per argument. The next process finds the
    compiled code on disk, unless a function of the user's is inside: the cache would not notice when that is edited.
    """
    _require_compiler()
    kernel = njit(nogil=True, error_model="numpy", fastmath=fastmath, no_cfunc_wrapper=True)(function)
    add_cache(kernel)
    return cast(F, kernel)


class _PauseCollector(event.Listener):  # type: ignore[misc]
    """Keeps the garbage collector from looking through a growing compilation again and again, a tenth of its time."""

    def __init__(self) -> None:
        self._paused: list[bool] = []  # compilations nest, under Numba's own lock

    def on_start(self, event: Any) -> None:
        if _is_ours(event):
            self._paused.append(gc.isenabled())
            gc.disable()

    def on_end(self, event: Any) -> None:
        if _is_ours(event) and self._paused.pop():
            gc.enable()


def _is_ours(event: Any) -> bool:
    return str(event.data["dispatcher"].py_func.__module__).startswith(__package__)


event.register("numba:compile", _PauseCollector())


@intrinsic  # type: ignore[untyped-decorator]
def load(_typing_context: Any, array: Any, index: Any) -> Any:
    """``array[index]`` of memory that the kernel does not write, with a non-negative index.

    An ordinary read would have to be repeated after every store, because the arrays might overlap, and a loop with
    both is then not vectorised. This read carries LLVM's promise that the memory stays as it is.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        struct = context.make_array(signature.args[0])(context, builder, arguments[0])
        value = builder.load(builder.gep(struct.data, [arguments[1]], inbounds=True))
        value.set_metadata("invariant.load", builder.module.add_metadata([]))
        return value

    if not (isinstance(array, types.Array) and array.ndim == 1 and array.layout == "C"):
        return None  # a strided view would need its stride: refuse to compile rather than read elsewhere
    return array.dtype(array, index), generate


@intrinsic  # type: ignore[untyped-decorator]
def local_float32(_typing_context: Any, length: Any) -> Any:
    """An array of so many float32, a constant, on the stack and not initialised.

    LLVM sees that no other array overlaps it, and what a user's function reads need not be read again after each store.
    """
    if not isinstance(length, types.IntegerLiteral):
        return None
    count = length.literal_value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        data = cgutils.alloca_once(builder, context.get_data_type(types.float32), size=count)
        data.align = 64  # a register of any width lies within a cache line
        part = context.make_array(signature.return_type)(context, builder)
        size = context.get_constant(types.intp, 4)
        populate_array(part, data, [context.get_constant(types.intp, count)], [size], size, meminfo=None)
        return part._getvalue()

    return types.Array(types.float32, 1, "C")(length), generate


@intrinsic  # type: ignore[untyped-decorator]
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


@intrinsic  # type: ignore[untyped-decorator]
def keep(_typing_context: Any, value: Any) -> Any:
    """Nothing: the value is needed until here."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return context.get_dummy_value()

    return types.void(value), generate


@intrinsic  # type: ignore[untyped-decorator]
def line(_typing_context: Any, array: Any, row: Any, start: Any, length: Any) -> Any:  # noqa: ARG001
    """``array[row, start:start + length]`` of an argument of the kernel, with nothing checked; a vector has only row 0.

    Numba takes ten milliseconds to compile each ordinary slice, and kernels have dozens.
    """
    if not (isinstance(array, types.Array) and array.ndim <= 2 and array.layout == "C"):
        return None
    result = types.Array(array.dtype, 1, "C", readonly=not array.mutable)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        table = context.make_array(signature.args[0])(context, builder, arguments[0])
        width = builder.extract_value(table.shape, array.ndim - 1)
        at = builder.add(builder.mul(arguments[1], width), arguments[2])
        part = context.make_array(signature.return_type)(context, builder)
        size = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(array.dtype)))
        data = builder.gep(table.data, [at], inbounds=True)
        populate_array(part, data, [arguments[3]], [size], size, meminfo=None)
        return part._getvalue()

    return result(array, types.intp, types.intp, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def located(_typing_context: Any, offsets: Any, first: Any, query: Any) -> Any:  # noqa: ARG001
    """Where a query's rows begin, how many there are, and where they begin counted from those of query ``first``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        following = builder.add(arguments[2], context.get_constant(types.intp, 1))
        places = arguments[1], arguments[2], following
        base, start, end = (builder.load(builder.gep(data, [place], inbounds=True)) for place in places)
        found = start, builder.sub(end, start), builder.sub(start, base)
        return context.make_tuple(builder, signature.return_type, found)

    return types.UniTuple(types.intp, 3)(offsets, types.intp, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def lines(_typing_context: Any, table: Any, at: Any) -> Any:
    """Rows of a table as a tuple of vectors without ownership: ``at`` has their numbers, as a constant text such as "0 2".

    Whoever owns the table keeps it, by calling ``keep(table)`` after the last use.
    """
    if not (isinstance(at, types.StringLiteral) and isinstance(table, types.Array) and table.ndim == 2):
        return None
    assert table.layout == "C"
    wanted = [int(row) for row in at.literal_value.split()]
    vector = types.Array(table.dtype, 1, "C", readonly=not table.mutable)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = context.make_array(table)(context, builder, arguments[0])
        width = builder.extract_value(whole.shape, 1)
        size = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(table.dtype)))
        parts = []
        for row in wanted:
            part = context.make_array(vector)(context, builder)
            data = builder.gep(whole.data, [builder.mul(context.get_constant(types.intp, row), width)], inbounds=True)
            populate_array(part, data, [width], [size], size, meminfo=None)
            parts.append(part._getvalue())
        return context.make_tuple(builder, signature.return_type, parts)

    return types.UniTuple(vector, len(wanted))(table, at), generate


LANES = 8  # int32 of a 256-bit register


@intrinsic  # type: ignore[untyped-decorator]
def order_lanes(_typing_context: Any, array: Any, a: Any, b: Any) -> Any:
    """Of the LANES int32 from index a on and those from b on, put the smaller of each two at a and the larger at b.

    As one packed instruction each, which Numba does not make of a loop this short.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        struct = context.make_array(signature.args[0])(context, builder, arguments[0])
        vector = ir.VectorType(ir.IntType(32), LANES).as_pointer()
        pointers = [builder.bitcast(builder.gep(struct.data, [at], inbounds=True), vector) for at in arguments[1:]]
        upper, lower = (builder.load(pointer, align=4) for pointer in pointers)
        less = builder.icmp_signed("<", upper, lower)
        builder.store(builder.select(less, upper, lower), pointers[0], align=4)
        builder.store(builder.select(less, lower, upper), pointers[1], align=4)
        return context.get_dummy_value()

    if not (isinstance(array, types.Array) and array.ndim == 1 and array.layout == "C" and array.dtype == types.int32):
        return None
    return types.void(array, a, b), generate


@intrinsic  # type: ignore[untyped-decorator]
def float32_from_bits(_typing_context: Any, bits: Any) -> Any:
    """The float32 whose 32 bits are those of an int32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))

    return (types.float32(types.int32), generate) if bits == types.int32 else None


@intrinsic  # type: ignore[untyped-decorator]
def bits_from_float32(_typing_context: Any, value: Any) -> Any:
    """The 32 bits of a float32, as an int32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))

    return (types.int32(types.float32), generate) if value == types.float32 else None
