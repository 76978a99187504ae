"""A round is one compiled call per thread: ``drive`` takes tasks, and runs all leaves over each, with the GIL released.

A round, a thread's room and each leaf are structs of arrays, numbers and functions. Whatever belongs to one measure or one
objective is in a leaf's fields; functions are called by their addresses, so that no kernel is compiled into another.
"""

import contextlib
import functools
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.experimental import structref
from numba.experimental.structref import new
from numba.extending import intrinsic

from .jit import compile_kernel, compiled, inlinable, line
from .layout import *
from .threads import Team, run_threads

BREATH = 64  # tasks after which a thread looks whether someone has pressed Ctrl-C
DONE, MORE = range(2)
NEXT, STOP = range(2)  # of the counters that the threads of a round share


class Struct(types.StructRef):  # type: ignore[misc]  # Numba has no types
    """Of any fields."""


class Made(structref.StructRefProxy):  # type: ignore[misc]
    """A struct, as Python holds it."""


structref.register(Struct)
structref.define_boxing(Struct, Made)


def struct(**fields: Any) -> Any:
    """The type of a struct with these fields."""
    return Struct(tuple(fields.items()))


STATE = types.MemInfoPointer(types.voidptr)  # a struct, of whatever type
ROUND = struct(offsets=GIVEN_INTEGERS, scores=GIVEN, order=PLACES, edges=GIVEN_INTEGERS)  # edges: of the tasks
ROOM = struct(
    tables=TABLES,
    keys=TABLE,  # scratch of two rows, as long as the longest query
    documents=PLACE_TABLE,
    noisy=NUMBERS,  # scores plus noise, one per row of the data, and
    noisy_order=PLACES,  # their order
    notes=INTEGERS,  # whose they are, of this task; and which leaf is at work
    sums=TABLE,  # a gradient and a hessian for each level of the sum: the first query's rows at index 0
)
WHOSE, LEAF = range(2)
SAID = types.UniTuple(INTEGER, 2)
STEP = function(SAID, STATE, ROUND, ROOM, INTEGER, INTEGER)
LINK = struct(state=STATE, step=STEP, rest=STATE, more=FLAG)  # a leaf in a chain of them; the last is none


@intrinsic
def fill(_typing_context: Any, one: Any, values: Any) -> Any:
    """Give a new struct its fields."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = structref._Utils(context, builder, one).get_data_struct(arguments[0])
        for place, (name, kind) in enumerate(one.field_dict.items()):
            value = context.cast(builder, builder.extract_value(arguments[1], place), values[place], kind)
            context.nrt.incref(builder, kind, value)
            setattr(data, name, value)
        return context.get_dummy_value()

    return types.void(one, values), generate


@intrinsic
def erased(_typing_context: Any, one: Any) -> Any:
    """A struct as a reference to something."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        state = context.make_helper(builder, signature.args[0], arguments[0]).meminfo
        context.nrt.incref(builder, STATE, state)
        return state

    return STATE(one), generate


@intrinsic
def restored(_typing_context: Any, kind: Any, state: Any) -> Any:
    """The one unchecked cast: back to the struct that was erased, of which the caller knows the type."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        one = context.make_helper(builder, signature.return_type)
        one.meminfo = arguments[1]
        context.nrt.incref(builder, STATE, arguments[1])
        return one._getvalue()

    return kind.instance_type(kind, state), generate


@intrinsic
def take(_typing_context: Any, counters: Any) -> Any:
    """The next number of a counter that all threads share: ``counters[0]``, which becomes one more."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.atomic_rmw("add", data, ir.Constant(ir.IntType(64), 1), ordering="acq_rel")

    return types.int64(counters), generate


@functools.cache
def drive() -> Callable[..., tuple[int, int, int]]:
    """``kernel(round, leaves, room, counters)``: a thread's part of a round.

    Takes tasks until there are none, and runs every leaf over each. Returns which leaf said what of which row or query;
    or FINE, and whether there may be more tasks.
    """

    def kernel(round: Any, leaves: Any, room: Any, counters: Any) -> tuple[int, int, int]:
        for _ in range(BREATH):
            task = take(counters)
            if task >= len(round.edges) - 1 or counters[STOP] != 0:
                return -1, FINE, DONE
            first, last = round.edges[task], round.edges[task + 1]
            room.notes[WHOSE] = -1
            link, k = leaves, 0
            while link.more:
                room.notes[LEAF] = k
                what, where = link.step(link.state, round, room, first, last)
                if what != FINE:
                    counters[STOP] = 1
                    return k, what, where
                link = restored(LINK, link.rest)
                k += 1
        return -1, FINE, MORE

    return compiled(types.UniTuple(INTEGER, 3)(ROUND, LINK, ROOM, INTEGERS), kernel)


# --- in Python -------------------------------------------------------------------------------------------------------


class Later(types.WrapperAddressProtocol):  # type: ignore[misc]
    """In place of a kernel that is not compiled yet, as no query may need it; a leaf that does says LATER."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def __wrapper_address__(self) -> int:
        return -1

    def signature(self) -> Any:
        return self.kind.signature


later = functools.cache(Later)


class Kind:
    """A kind of leaf: what it does to some queries, the functions that it calls, and what else it knows."""

    def __init__(self, action: Any, calls: dict[str, Any], fields: dict[str, Any]) -> None:
        self.action, self.calls, self.fields = action, calls, {"ready": INTEGER, **fields}
        # A tuple that begins with a function makes Numba say that functions as values are an experiment.
        self.code = struct(count=INTEGER, **calls, step=STEP)
        self.type = struct(call=self.code, **self.fields)
        self.known = functools.lru_cache(maxsize=256)(self._known)

    @functools.cached_property
    def step(self) -> Any:
        kind, action = self.type, self.action

        def step(state: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
            return action(restored(kind, state), round, room, first, last)  # type: ignore[no-any-return]

        return compile_kernel(step)

    def _known(self, *kernels: Any) -> Any:
        """The struct of these functions: a function takes longer to hand over than a struct of many."""
        return filled(self.code)((len(kernels), *kernels, self.step))


@functools.cache
def make_leaf(kind: Any) -> Any:
    """What makes a leaf of its functions and other fields, as the first of a chain."""
    call, *fields = kind.field_dict.values()

    def make(call: Any, values: Any, rest: Any) -> Any:
        one, link = new(kind), new(LINK)
        fill(one, (call, *values))
        fill(link, (erased(one), call.step, erased(rest), True))
        return link

    return compiled(LINK(call, types.Tuple(tuple(fields)), LINK), make)


@functools.cache
def filled(kind: Any) -> Any:
    """What makes a struct of this type from a tuple of its fields."""

    def make(values: Any) -> Any:
        one = new(kind)
        fill(one, values)
        return one

    return compiled(kind(types.Tuple(tuple(kind.field_dict.values()))), make)


@inlinable
def level_of(room: Any, level: int, rows: int) -> tuple[Any, Any]:
    """The gradient and hessian of a level of the sum."""
    return line(room.sums, 2 * level, 0, rows), line(room.sums, 2 * level + 1, 0, rows)


class Leaf(NamedTuple):
    """A kind of leaf with its kernels and numbers, and who says what is wrong with a row or a query."""

    kind: Kind
    kernels: Sequence[Any]  # None: it is never called
    values: tuple[Any, ...]
    refuse: Callable[[int], Any] | None = None
    measure: Any = None  # whose functions may fail
    later: Sequence[int] = ()  # of each kernel, what a leaf says LATER with that needs it; 0: it is compiled at once

    def linked(self, rest: Any) -> Any:
        """As the first of a chain."""
        calls, missing = [], 0
        each: Any = zip_longest(self.kernels, self.kind.calls.values(), self.later, fillvalue=0)
        for kernel, kind, when in each:
            known = kernel is not None and (kernel.overloads or not when)
            missing |= 0 if known else when
            calls.append(kernel if known else later(kind))
        return make_leaf(self.kind.type)(self.kind.known(*calls), (~missing, *self.values), rest)

    def compile(self, wanted: int) -> None:
        """The kernels of which a round has found out that they are needed."""
        for kernel, kind, when in zip(self.kernels, self.kind.calls.values(), self.later, strict=True):
            if when & wanted:
                kernel.compile(kind.signature.args)


@functools.cache
def make_end() -> Any:
    """What makes the end of a chain."""
    return compiled(LINK(), lambda: new(LINK))


def throw(failure: Exception) -> None:
    raise failure


class Rooms:
    """The scratch of threads, kept from round to round: fresh memory would cost more than it holds."""

    def __init__(self, edges: Any, offsets: Any, levels: int) -> None:
        self.most = int((offsets[edges[1:]] - offsets[edges[:-1]]).max(initial=0))
        self.queries, self.longest = int(np.diff(edges).max(initial=0)), int(np.diff(offsets).max(initial=0))
        self.rows, self.levels, self.free = int(offsets[-1]), levels, list[Any]()

    def take(self) -> Any:
        """A room, and its notes."""
        with contextlib.suppress(IndexError):
            return self.free.pop()
        most, queries, longest = self.most, self.queries, self.longest
        tables = (
            np.zeros((FLOAT64_ROWS, most)),
            np.zeros((FLOAT32_ROWS, most + PADDING * (queries + 1)), np.float32),
            np.zeros((PLACE_ROWS, most), np.int32),
            np.zeros((MARK_ROWS, queries), np.int64),
        )
        noisy, notes, sums = np.empty(self.rows), np.zeros(2, np.int64), np.zeros((2 * self.levels, most))
        keys, documents, order = np.empty((3, longest)), np.empty((2, longest), np.int32), np.empty(self.rows, np.int32)
        return filled(ROOM)((tables, keys, documents, noisy, order, notes, sums)), notes


def run_round(
    leaves: Sequence[Leaf], rows: tuple[Any, ...], rooms: Rooms, threads: int, team: Team | None = None
) -> tuple[int, int, int] | None:
    """Run all leaves over all tasks; ``rows`` are offsets, scores, the order to start from, and the tasks' edges.

    Returns which leaf said what is wrong with which row or query, if one did.
    """
    kernel, counters = drive(), np.zeros(2, np.int64)
    try:
        chain = make_end()()
        for one in reversed(leaves):
            chain = one.linked(chain)
        round = filled(ROUND)(rows)
    except SystemError as error:  # Ctrl-C in a Python function that Numba's entries call
        raise error.__cause__ or error from None
    said: list[tuple[int, int, int]] = []

    def work() -> None:
        room, notes = rooms.take()
        found = -1, FINE, MORE
        try:
            while found == (-1, FINE, MORE):
                found = kernel(round, chain, room, counters)
        except Exception as failure:
            counters[STOP] = 1
            measure = leaves[notes[LEAF]].measure
            if measure is None:
                raise
            measure.run(throw, failure)
        if found[0] < 0:
            rooms.free.append((room, notes))  # a room that was left in the middle of a task is not empty
        else:
            said.append(found)

    try:
        run_threads(work, min(threads, len(rows[-1]) - 1), team)
    except BaseException:
        counters[STOP] = 1
        raise
    return min(said, default=None)


def leaf(calls: dict[str, Any], **fields: Any) -> Callable[[Any], Kind]:
    """Makes a kind of leaf of a function ``(leaf, round, room, first, last)``, which returns what is wrong with which query.

    ``calls``: the types of the functions in ``leaf.call``; ``fields``: the types of all else.
    """
    return lambda action: Kind(inlinable(action), calls, fields)
