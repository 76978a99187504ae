"""A measure of your own: one ordinary function of the ranked labels, compiled by Numba.

What the other measures keep in a class, a custom one holds as functions. Equal functions (same code, same constants,
same captured values) are made one object when a measure is built, so that measures compare, survive pickling, and are
compiled once per process however often they arrive from another one.
"""

import collections
import enum
import functools
import hashlib
import inspect
import threading
import types
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
import numpy.typing as npt

from .errors import LambdaplugError
from .kernels import Kernels, PairDelta, change, copied, foreign, inlinable, keep, lines, try_compiling
from .measures import Array, Gain, Measure, Prepared, Seen, as_measure, gains_by
from .queries import Column, Labels, as_columns

__all__ = ["Custom", "custom"]

Function = Callable[..., Any]

T = TypeVar("T")


@dataclass(frozen=True, repr=False, kw_only=True)
class Custom(Measure):
    """What :func:`custom` returns: a measure like any other."""

    name: str = ""  # type: ignore[misc]  # of the instance here
    function: Function
    delta: Function | None = None
    prepared: Function | None = None
    rows: Function | None = None
    gain: Gain | None = None
    k: int | None = None
    normalize: bool = False
    given: tuple[tuple[str, tuple[Labels, ...]], ...] = ()  # columns by name

    known: ClassVar[dict[str, "_Known"]] = {}  # of the instance

    def __post_init__(self) -> None:
        super().__post_init__()
        known: dict[str, _Known] = {}
        for field in ("function", "delta", "prepared", "rows", "gain"):
            function = getattr(self, field)
            if callable(function):
                known[field] = _one_of_equals(function)
                object.__setattr__(self, field, known[field].function)
        object.__setattr__(self, "known", known)

    @property
    def columns(self) -> dict[str, tuple[Labels, ...]]:
        return dict(self.given)

    def with_columns(self, columns: Mapping[str, Any]) -> "Custom":
        return replace(self, given=_as_given({**self.columns, **columns}, self.name))

    @property
    def tabled(self) -> bool:  # type: ignore[override]  # of the instance here
        return bool(self.given)

    def at(self, role: str) -> str:
        """The table's rows that the function of this role gets, as ``lines`` wants them; empty without columns."""
        names = list(self.columns)
        wanted = [name for name in inspect.signature(getattr(self, role)).parameters if name in names]
        return " ".join(["0", *(str(1 + names.index(name)) for name in wanted)]) if names else ""

    def tabulated(self, seen: Seen) -> Seen:
        # Where the swap's change says which document belongs above, all that have a label are in pairs.
        grade = seen.grade if self.by_rows else np.where(np.isnan(seen.grade), np.nan, np.arange(len(seen.gain)))
        table = np.stack([np.nan_to_num(seen.gain), *seen.columns])
        return seen._replace(gain=np.arange(len(seen.gain), dtype=np.float64), grade=grade, discount=table)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"custom({self.name!r}, {self.function.__module__}.{self.function.__qualname__})"

    def __reduce__(self) -> Any:
        return functools.partial(Custom, **{field.name: getattr(self, field.name) for field in fields(self)}), ()

    @property
    def brute_force(self) -> bool:
        """Whether a swap's delta is found by swapping: O(n) for each of O(n^2) pairs."""
        return self.delta is None and self.rows is None

    @property
    def by_rows(self) -> bool:  # type: ignore[override]  # of the instance here, as are the next three
        return self.rows is not None

    @property
    def symmetric(self) -> bool:  # type: ignore[override]
        return self.rows is not None and self.known["rows"].once(_row_count, self.at("rows")) == 1

    @property
    def scaled(self) -> bool:  # type: ignore[override]
        return self.rows is not None and self.known["rows"].once(_row_count, self.at("rows")) == 3

    def fine(self, discount: Array) -> bool:  # noqa: ARG002
        return not self.symmetric  # one row is kept less its first entry, which float32 holds well enough

    def gains(self, labels: Array) -> Array:
        return labels if self.gain is None else gains_by(self.gain, labels, self.name)

    def gains_of(self, labels: Array, columns: Sequence[Array]) -> Array:
        if not callable(self.gain):
            return self.gains(labels)
        wanted = [int(at) - 1 for at in self.at("gain").split()[1:]]
        if not wanted:
            return self.gains(labels)
        found = np.asarray(self.gain(labels, *(columns[at] for at in wanted)), dtype=np.float64)  # type: ignore[arg-type]
        if found.shape != labels.shape or not np.isfinite(found).all():
            raise LambdaplugError(f"{self!r}: gain= must give one finite number per row of the arrays that it gets.")
        return found

    @property
    def value(self) -> Function:  # type: ignore[override]
        return cast(Function, self.known["function"].once(_value_of, self.at("function")))

    @property
    def norm(self) -> Function:  # type: ignore[override]
        return self.known["function"].once(_ideal_of, self.at("function")) if self.normalize else Measure.norm

    @staticmethod
    def swap(gain: Any, discount: Any, k: int, upper: Any, lower: Any, scale: Any) -> int:
        return min(k, len(gain))

    def swap_rows(self) -> Callable[..., int]:
        return self.swap if self.rows is None else self.known["rows"].once(_swap_rows_of, self.at("rows"))

    def pair_delta(self, checked: bool = False) -> PairDelta:
        if self.rows is not None:
            return super().pair_delta(checked)
        pair: PairDelta
        if self.delta is None:
            pair = self.known["function"].once(_swapping, self.at("function"))
        else:
            prepared = self.at("prepared") if self.prepared is not None else ""
            pair = self.known["delta"].once(
                _pair_delta, self.known.get("prepared"), checked, self.at("delta"), prepared
            )
        return pair._replace(whole=self.k is None)

    def raised_delta(self) -> PairDelta:
        if self.rows is not None:
            return super().raised_delta()
        raised: PairDelta = self.known["function"].once(_raised, self.pair_delta())
        return raised

    def run(self, kernel: Callable[..., T], *arguments: Any) -> T:
        try:
            return super().run(kernel, *arguments)
        except ArithmeticError as error:
            if self.rows is None or type(error) is not ArithmeticError:
                raise LambdaplugError(
                    f"{self!r}: one of its functions fails: {type(error).__name__}: {error}. It must give a number for "
                    "every order of the labels."
                ) from None
            raise LambdaplugError(
                f"{self!r}: rows= must give one finite number per document, for every order of the labels. It gave another "
                "number of them, or one that is not finite."
            ) from None

    def prepare(self, labels: Array, offsets: npt.NDArray[np.int64], columns: Sequence[Array] = ()) -> Prepared:
        prepared = super().prepare(labels, offsets, columns)
        wrong = np.flatnonzero(~np.isfinite(prepared.norm))
        if len(wrong):
            raise LambdaplugError(f"{self!r}: the value of query {wrong[0]} in ideal order is not finite.")
        return prepared


def custom(
    name: str,
    value: Function,
    *,
    delta: Function | None = None,
    prepare: Function | None = None,
    rows: Function | None = None,
    gain: Gain | None = None,
    k: int | None = None,
    normalize: bool = False,
    columns: Mapping[str, Any] | None = None,
) -> Custom:
    """Your own measure, to train for, report and stop early on.

    Parameters
    ----------
    name : str
        What it prints as and is reported under.
    value : callable
        ``value(ranked_labels) -> float``, higher is better: an ordinary function that Numba can compile. It gets the labels
        of one query's documents as a float64 array in rank order, which it must not change; never an empty one.
        A document without a label (NaN in ``labels=``) counts as label 0. Numba reads global variables once, when it
        compiles.
    delta : callable or None
        ``delta(ranked_labels, i, j) -> float``: what the value changes by, its sign does not matter, when the
        documents at the positions i < j (from 0) change places. Without it, training swaps every pair and measures
        again, which is n^3 per query. ``lp.verify(measure)`` compares the two.
    prepare : callable or None
        ``prepare(ranked_labels)`` is called once per query, for what a delta needs to take O(1), such as running sums
        in an array or a tuple of arrays; ``delta`` is then called with that as a fourth argument.
    rows : callable or None
        In place of a delta, the form that the built-in measures have, trained for by their kernels and as fast:
        ``rows(ranked_labels)``, called once per query, returns the arrays ``(upper, lower)``, one entry per document, such
        that exchanging the documents at the positions i < j changes the value by

            |labels[i] - labels[j]| * |upper[i] - lower[j]|,

        or ``(upper, lower, scale)`` for that times scale[i], or one array where upper and lower are the same. It exists
        where a document's part in the change depends on nothing but its own label and rank and sums over the documents
        above or below: all sums of label x discount (one array, the discounts), precision, average precision,
        reciprocal rank. ``lp.verify(measure)`` proves it.
    gain : 'exp2', sequence, callable or None
        What the functions get in place of the labels: ``"exp2"``, a sequence with one gain per label or a function of
        the label, as for ``lp.NDCG``. Default: the labels as they are.
    k : int or None
        A promise that nothing changes when two documents below rank k change places: they are left out.
    normalize : bool
        Divide by the value of the ideal order (falling labels, or gains); undefined where that is not positive.
    columns : mapping or None
        ``{"price": prices}``, one number per row. Functions get those that are their last parameters' names, in rank order:
        ``value(labels, price)``, ``delta(labels, i, j, prepared, price)``; a ``gain`` gets those of all rows at once. They
        follow the rows as ``labels=`` do; for other data, see ``columns=`` of ``lp.evaluate`` and ``lp.metric``.

    Returns
    -------
    Custom
        A measure like any other.

    Notes
    -----
    With columns, what exchanging two documents changes says which belongs above, so the **sign** of ``delta`` matters: value
    after - value before. Without columns, and with ``rows``, documents with a higher label belong above those with a
    lower one; with ``gain``, those with a higher gain. ``lp.verify(measure)`` finds values that fall where one rises.

    Examples
    --------
    >>> def revenue(labels):
    ...     total = 0.0
    ...     for r in range(min(2, len(labels))):
    ...         total += labels[r]
    ...     return total
    >>> measure = custom("revenue@2", revenue, k=2)
    >>> measure
    custom('revenue@2', lambdaplug.custom.revenue)
    >>> from lambdaplug.measures import swap_deltas
    >>> swap_deltas(measure, [0, 3, 5]).tolist()
    [[0.0, 0.0, 5.0], [0.0, 0.0, 2.0], [5.0, 2.0, 0.0]]
    >>> def counted(labels):
    ...     return (np.arange(len(labels)) < 2) * 1.0
    >>> swap_deltas(custom("revenue@2", revenue, rows=counted, k=2), [0, 3, 5]).tolist()
    [[0.0, 0.0, 5.0], [0.0, 0.0, 2.0], [5.0, 2.0, 0.0]]
    """
    given = {"value": value, "delta": delta, "prepare": prepare, "rows": rows}
    _check(name, given, k)
    plain: list[Any] = [_plain(one, f"custom {name!r}: {role}") for role, one in given.items()]
    functions = dict(zip(("function", "delta", "prepared", "rows"), plain, strict=True))
    own = _as_given(columns, name)
    measure = Custom(name=name, **functions, gain=gain, k=k, normalize=bool(normalize), given=own)
    _try(measure)
    return measure


def _as_given(columns: Mapping[str, Any] | None, name: str) -> tuple[tuple[str, tuple[Labels, ...]], ...]:
    columns = {} if columns is None else columns
    if not isinstance(columns, Mapping):
        raise LambdaplugError(
            f"custom {name!r}: columns: expected a mapping such as {{'price': prices}}, got {columns!r}."
        )
    found = tuple((str(one), as_columns(values, str(one))) for one, values in columns.items())
    for one, several in found:
        if len(several) > 1:
            raise LambdaplugError(f"custom {name!r}: column {one!r}: expected one number per row, got {len(several)}.")
    return found


def _check_parameters(measure: Custom, role: str, count: int) -> None:
    """Columns are the last parameters of a function, so that the others can be given by place."""
    function = getattr(measure, role)
    if function is None or not measure.given:
        return
    names = list(inspect.signature(function).parameters)
    columns = [name in measure.columns for name in names]
    if any(columns[:count]) or not all(columns[count:]):
        raise LambdaplugError(
            f"{measure!r}: {function.__name__} must have {count} parameter{'s' * (count > 1)} and then columns by their names "
            f"({', '.join(measure.columns)}), it has ({', '.join(names)})."
        )


def _check(name: str, given: dict[str, Any], k: Any) -> None:
    if np.ndim(k) > 0:
        raise LambdaplugError(
            f"custom {name!r}: k must be one integer for all queries; make cut-offs per query a column."
        )
    if not isinstance(name, str) or not name or any(c.isspace() or c == ":" for c in name):
        raise LambdaplugError(f"custom: expected a name without spaces and colons, such as 'revenue@5', got {name!r}.")
    try:
        known = as_measure(name)
    except LambdaplugError:
        known = None
    if known is not None:
        raise LambdaplugError(f"custom: {name!r} is a measure of lambdaplug's: choose another name.")
    if given["prepare"] is not None and given["delta"] is None:
        raise LambdaplugError(f"custom {name!r}: prepare= is for a delta=, and there is none.")
    if given["rows"] is not None and given["delta"] is not None:
        raise LambdaplugError(f"custom {name!r}: rows= takes the place of delta=: give one of them.")


def _plain(function: Any, name: str) -> Any:
    function = getattr(function, "py_func", function)  # of a compiled one, the function that was
    if function is not None and not inspect.isfunction(function):
        raise LambdaplugError(f"{name} must be a plain Python function, got {function!r}.")
    return function


def _try(measure: Custom) -> None:
    """Call the functions as plain Python on short lists, then compile them: both fail here rather than in training."""
    function, delta, prepare = measure.function, measure.delta, measure.prepared
    for role, others in (("function", 1), ("delta", 3 + (prepare is not None)), ("prepared", 1), ("rows", 1)):
        _check_parameters(measure, role, others)
    for n in (1, 2, 3, 12):
        labels = np.arange(n, 0, -1) % 2.0
        labels.setflags(write=False)
        calls: list[tuple[Function, tuple[Any, ...]]] = [(function, (labels, *_tried(measure, "function", n)))]
        state: tuple[Any, ...] = ()
        if prepare is not None:
            state = (_call(measure, prepare, (labels, *_tried(measure, "prepared", n))),)
        if measure.rows is not None:
            _try_rows(measure, labels)
        if delta is not None and n > 1:
            asked = n if measure.k is None else measure.k
            more = (*state, *_tried(measure, "delta", n))
            calls += [(delta, (labels, i, j, *more)) for i, j in ((0, 1), (0, n - 1), (n - 2, n - 1)) if i < asked]
        for called, arguments in calls:
            result = _call(measure, called, arguments)
            if not isinstance(result, (int, float, np.number, np.bool_)):
                raise LambdaplugError(
                    f"{measure!r}: {called.__name__} must return a number, it returned {result!r} for labels {labels}."
                )
    what = f"custom {measure.name!r}"
    count = {role: len(_tried(measure, role, 1)) for role in ("function", "rows", "prepared", "delta")}
    try_compiling(function, 0, what, columns=count["function"], number=True)
    if measure.rows is not None:
        try_compiling(measure.rows, 0, what, columns=count["rows"])
    if delta is not None:
        found = None if prepare is None else try_compiling(prepare, 0, what, columns=count["prepared"])
        try_compiling(delta, 2, what, found, columns=count["delta"], number=True)


def _tried(measure: Custom, role: str, n: int) -> list[Array]:
    """So many values of each column that the function of this role gets; 1 where they are in a cluster."""
    if getattr(measure, role) is None:
        return []
    sources = [one for several in measure.columns.values() for one in several]
    found = []
    for at in measure.at(role).split()[1:]:
        source = sources[int(at) - 1]
        values = np.ones(n) if isinstance(source, Column) or not len(source) else np.resize(source.values, n)
        values.setflags(write=False)
        found.append(values)
    return found


def _try_rows(measure: Custom, labels: npt.NDArray[Any]) -> None:
    found = _call(measure, cast(Function, measure.rows), (labels, *_tried(measure, "rows", len(labels))))
    rows = found if isinstance(found, tuple) else (found,)
    if (found is rows and len(rows) not in (2, 3)) or not all(
        isinstance(row, np.ndarray) and row.shape == labels.shape for row in rows
    ):
        raise LambdaplugError(
            f"{measure!r}: rows= must return one array, (upper, lower) or (upper, lower, scale), each with one entry "
            f"per document; it returned {found!r} for labels {labels}."
        )


def _call(measure: Custom, function: Function, arguments: tuple[Any, ...]) -> Any:
    try:
        with np.errstate(all="ignore"):  # these labels are none of the user's
            return function(*arguments)
    except Exception as error:
        where = f" and the positions {arguments[1]} and {arguments[2]}" if function is measure.delta else ""
        raise LambdaplugError(
            f"{measure!r}: {function.__name__} fails for the ranked labels {arguments[0]}{where}: "
            f"{type(error).__name__}: {error}. Queries have any number of documents >= 1, and the labels are not to "
            "be written to."
        ) from error


# --- as the kernels want them ------------------------------------------------------------------------------------
# Functions made here close over the user's, so their kernels are compiled anew in every process. 1.0 * is float() that
# Numba has for a bool, too.


def _callable(known: "_Known", checked: bool) -> Function:
    return foreign(known.function, checked)


@inlinable
def _ranked(gain: Any, table: Any) -> Any:
    """The table's columns, in rank order."""
    block = np.empty((len(table), len(gain)))
    for row in range(len(table)):
        for r in range(len(gain)):
            block[row, r] = table[row, int(gain[r])]
    return block


def _value_of(known: "_Known", at: str) -> Function:
    call = known.once(_callable, True)

    def value(gain: Any, discount: Any, k: int) -> float:
        return 1.0 * call(gain) if len(gain) > 0 else 0.0

    def tabled_value(gain: Any, table: Any, k: int) -> float:
        if len(gain) == 0:
            return 0.0
        block = _ranked(gain, table)
        found: float = 1.0 * call(*lines(block, at))
        keep(block)
        return found

    return tabled_value if at else value


def _ideal_of(known: "_Known", at: str) -> Function:
    measured = inlinable(known.once(_value_of, at))

    def norm(gain: Any, discount: Any, k: int) -> float:
        ideal: float = measured(gain, discount, k)
        return 0.0 if ideal <= 0.0 else 1.0 / ideal if np.isfinite(ideal) else np.nan

    return norm


def _row_count(known: "_Known", at: str) -> int:
    """How many arrays a user's ``rows`` returns."""
    with np.errstate(all="ignore"):
        found = known.function(*[np.ones(1)] * max(1, len(at.split())))  # as it was tried before
    return len(found) if isinstance(found, tuple) else 1


@inlinable
def _take_row(given: Any, less: float, to: Any) -> None:
    if len(given) != len(to):
        raise ArithmeticError
    for r in range(len(to)):
        to[r] = given[r] - less
        if not np.isfinite(to[r]):
            raise ArithmeticError


@inlinable
def _take_one(given: Any, upper: Any, lower: Any, scale: Any) -> None:
    # Only differences matter: without their common part they are no larger than what they differ by.
    less = given[0] if len(given) > 0 else 0.0
    _take_row(given, less, upper)
    _take_row(given, less, lower)


@inlinable
def _take_two(given: Any, upper: Any, lower: Any, scale: Any) -> None:
    _take_row(given[0], 0.0, upper)
    _take_row(given[1], 0.0, lower)


@inlinable
def _take_three(given: Any, upper: Any, lower: Any, scale: Any) -> None:
    _take_row(given[0], 0.0, upper)
    _take_row(given[1], 0.0, lower)
    _take_row(given[2], 0.0, scale)
    for r in range(len(scale)):
        scale[r] = abs(scale[r])  # as a delta's, its sign does not matter


def _swap_rows_of(known: "_Known", at: str) -> Callable[..., int]:
    """A user's ``rows`` as the ``swap`` of a measure."""
    call, count = known.once(_callable, True), known.once(_row_count, at)
    take = {1: _take_one, 2: _take_two, 3: _take_three}[count]

    def swap(gain: Any, discount: Any, k: int, upper: Any, lower: Any, scale: Any) -> int:
        take(call(gain), upper, lower, scale)
        return min(k, len(gain))

    def tabled_swap(gain: Any, table: Any, k: int, upper: Any, lower: Any, scale: Any) -> int:
        block = _ranked(gain, table)
        take(call(*lines(block, at)), upper, lower, scale)
        for r in range(len(gain)):
            gain[r] = block[0, r]
        keep(block)
        return min(k, len(gain))

    return tabled_swap if at else swap


def _begin_nothing(ranked: Any, frozen: Any, upper: Any, lower: Any, scale: Any) -> float:
    return 0.0


def _pair_delta(known: "_Known", prepare: "_Known | None", checked: bool, at: str, prepared_at: str) -> PairDelta:
    changed = known.once(_callable, checked)
    if at:
        return _tabled_delta(changed, None if prepare is None else prepare.once(_callable, True), at, prepared_at)
    if prepare is None:

        def pair(ranked: Any, frozen: Any, state: Any, i: int, j: int) -> Any:
            return 1.0 * changed(frozen, i, j)

        return PairDelta(_begin_nothing, pair)
    prepared = prepare.once(_callable, True)

    def begin(ranked: Any, frozen: Any, upper: Any, lower: Any, scale: Any) -> Any:
        return prepared(frozen)

    def prepared_pair(ranked: Any, frozen: Any, state: Any, i: int, j: int) -> Any:
        return 1.0 * changed(frozen, i, j, state)

    return PairDelta(begin, prepared_pair)


def _tabled_delta(changed: Function, prepared: Function | None, at: str, prepared_at: str) -> PairDelta:
    """With columns."""

    def begin(ranked: Any, frozen: Any, upper: Any, lower: Any, scale: Any) -> Any:
        return (_ranked(frozen[0], frozen[1]),)

    def pair(ranked: Any, frozen: Any, state: Any, i: int, j: int) -> Any:
        own = lines(state[0], at)
        return 1.0 * changed(*(own[0], i, j, *own[1:]))

    def prepared_begin(ranked: Any, frozen: Any, upper: Any, lower: Any, scale: Any) -> Any:
        block = _ranked(frozen[0], frozen[1])
        return block, prepared(*lines(block, prepared_at))  # type: ignore[misc]

    def prepared_pair(ranked: Any, frozen: Any, state: Any, i: int, j: int) -> Any:
        own = lines(state[0], at)
        return 1.0 * changed(*(own[0], i, j, state[1], *own[1:]))

    functions = (begin, pair) if prepared is None else (prepared_begin, prepared_pair)
    return PairDelta(*functions, signed=True, tabled=True)


def _swapping(known: "_Known", at: str) -> PairDelta:
    """The delta by doing it: exchange the two documents, measure, put them back."""
    call = known.once(_callable, True)

    def begin(ranked: Any, frozen: Any, upper: Any, lower: Any, scale: Any) -> Any:
        return 1.0 * call(frozen)

    def delta(ranked: Any, frozen: Any, state: Any, i: int, j: int) -> float:
        ranked[i], ranked[j] = ranked[j], ranked[i]
        after = 1.0 * call(frozen)
        ranked[i], ranked[j] = ranked[j], ranked[i]
        return change(after, state)

    def tabled_begin(ranked: Any, frozen: Any, upper: Any, lower: Any, scale: Any) -> Any:
        block = _ranked(frozen[0], frozen[1])
        return block, 1.0 * call(*lines(block, at))

    def tabled_delta(ranked: Any, frozen: Any, state: Any, i: int, j: int) -> float:
        block, before = state
        _exchange(block, i, j)
        after = 1.0 * call(*lines(block, at))
        _exchange(block, i, j)
        return change(after, before)

    if at:
        return PairDelta(tabled_begin, tabled_delta, costly=True, signed=True, tabled=True)
    return PairDelta(begin, delta, costly=True)


def _raised(known: "_Known", pair: PairDelta) -> PairDelta:
    """The pair's delta where its upper document is above the cut-off, as ``raised_kernel`` marks them."""
    begin, delta = inlinable(pair.begin), inlinable(pair.delta)

    def raised_begin(ranked: Any, frozen: Any, upper: Any, lower: Any, scale: Any) -> Any:
        return begin(ranked, frozen, upper, lower, scale), upper, scale

    def raised_delta(ranked: Any, frozen: Any, state: Any, i: int, j: int) -> Any:
        inner, upper, scale = state
        return change(upper[i], upper[j]) if scale[i] < 0.0 else delta(ranked, frozen, inner, i, j)

    return pair._replace(begin=raised_begin, delta=raised_delta)


@inlinable
def _exchange(block: Any, i: int, j: int) -> None:
    for row in range(len(block)):
        block[row, i], block[row, j] = block[row, j], block[row, i]


# --- equal functions ---------------------------------------------------------------------------------------------

CONSTANT_MODULES = {"builtins", "cmath", "math", "numba", "numpy", "operator", "scipy"}


class _Known:
    """A function, and what was made and compiled of it; it lives as long as a measure has it, or it is a recent one."""

    def __init__(self, function: Function, held: list[Any]) -> None:
        self.function = function
        self.held = held  # what its digest knows by an id, which stays its own while it lives
        self.made: dict[Any, Any] = {}
        self.kernels = Kernels()

    def once(self, make: Callable[..., Any], *more: Any) -> Any:
        """``make(self, *more)``, the first time."""
        key = make, *more
        if key not in self.made:
            made = make(self, *more)
            for one in made if isinstance(made, tuple) else (made,):
                if isinstance(one, types.FunctionType):
                    self.kernels.of(one)
            self.made.setdefault(key, made)
        return self.made[key]


_KNOWN: "weakref.WeakValueDictionary[Hashable, _Known]" = weakref.WeakValueDictionary()
_LIVING: "weakref.WeakSet[_Known]" = weakref.WeakSet()
_RECENT: "collections.deque[_Known]" = collections.deque(maxlen=64)  # a measure defined anew need not compile anew
_TURN = threading.Lock()


def _one_of_equals(function: Function) -> _Known:
    """The first function seen that is equal to this one, by its code and everything it refers to."""
    held: list[Any] = []
    digest = digest_of(function, held)
    with _TURN:
        found = _KNOWN.get(digest)
        # The second: it refers to what has changed since.
        if found is None or (found.function is not function and digest_of(found.function) != digest):
            if isinstance(function, types.FunctionType) and any(one.function is function for one in _LIVING):
                # Something that it refers to has changed, and what was compiled for it has not: a new one from now on.
                function = copied(function)
            found = _KNOWN[digest] = _Known(function, held)
            _LIVING.add(found)
        if found not in _RECENT:
            _RECENT.append(found)
        return found


def digest_of(thing: Any, held: list[Any] | None = None, within: tuple[Any, ...] = ()) -> Hashable:
    """Equal for what computes the same. What is told by its id alone is added to ``held``."""
    thing = getattr(thing, "py_func", thing)
    kind = type(thing).__name__
    if thing is None or isinstance(thing, (bool, int, float, complex, str, bytes, range, np.generic)):
        return kind, repr(thing)
    if any(thing is outer for outer in within):
        return kind, "itself"
    parts = _parts(thing)
    if parts is None:
        if held is not None:
            held.append(thing)
        return kind, id(thing)
    described = [digest_of(part, held, (*within, thing)) for part in parts]
    return kind, frozenset(described) if isinstance(thing, (set, frozenset)) else tuple(described)


def _parts(thing: Any) -> Any:
    """What decides, of what a thing is made of, what it computes; None where only the thing itself does."""
    kind = type(thing)
    if isinstance(thing, types.FunctionType):
        cells = [cell.cell_contents if _filled(cell) else cell for cell in thing.__closure__ or ()]
        meant = _meant(thing.__globals__, _names(thing.__code__), [])
        return (
            thing.__module__,
            thing.__qualname__,
            thing.__code__,
            thing.__defaults__,
            thing.__kwdefaults__,
            cells,
            meant,
        )
    if isinstance(thing, types.CodeType):
        return thing.co_code, thing.co_names, thing.co_varnames, thing.co_freevars, thing.co_consts
    if isinstance(thing, types.ModuleType):
        return (thing.__name__,)
    if isinstance(thing, enum.Enum):
        return kind, thing.name, thing.value
    if isinstance(thing, enum.EnumMeta):
        members: dict[str, enum.Enum] = dict(thing.__members__)
        return thing.__module__, thing.__qualname__, [(name, member.value) for name, member in members.items()]
    if isinstance(thing, (tuple, list)):
        return thing if kind in (tuple, list) else (kind, *thing)
    if isinstance(thing, np.ndarray) and thing.dtype != object:
        return str(thing.dtype), thing.shape, hashlib.sha256(thing.tobytes()).digest()
    if kind in (set, frozenset, dict):
        return thing.items() if kind is dict else thing
    if kind is slice:
        return thing.start, thing.stop, thing.step
    if kind is functools.partial:
        return thing.func, thing.args, thing.keywords
    if isinstance(thing, types.MethodType):
        return thing.__func__, thing.__self__
    if isinstance(thing, (types.BuiltinFunctionType, types.MethodWrapperType)):
        return getattr(thing, "__module__", ""), thing.__name__, thing.__self__
    return None


def _filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _meant(things: dict[str, Any], names: list[str], modules: list[Any]) -> list[Any]:
    """What these names mean; in modules of the user's, too, whose variables may change."""
    found: list[Any] = []
    for name in names:
        if name in things:
            thing = things[name]
            found.append((name, thing))
            theirs = isinstance(thing, types.ModuleType) and thing.__name__.partition(".")[0] not in CONSTANT_MODULES
            if theirs and thing not in modules:
                found += _meant(vars(thing), names, [*modules, thing])
    return found


def _names(code: types.CodeType) -> list[str]:
    """The global names that a function's code, and functions inside it, may refer to."""
    inner = [name for constant in code.co_consts if isinstance(constant, types.CodeType) for name in _names(constant)]
    return sorted({*code.co_names, *inner})
