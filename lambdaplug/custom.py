"""A measure of your own: ordinary functions of the ranked labels, compiled by Numba.

They are compiled when the measure is made, with the global variables that they have then. Measures are equal if their
functions are the same objects and had the same variables.
"""

import builtins
import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from .columns import column_name
from .errors import LambdaplugError
from .kernels import PairDelta, change, compile_own, inlinable, keep, lines
from .measures import Array, Gain, Measure, Prepared, Seen, as_measure, gains_by

__all__ = ["Custom", "custom"]

Function = Callable[..., Any]
T = TypeVar("T")

TRIED = 1, 2, 3, 12  # documents of the lists on which functions are tried


@dataclass(frozen=True, repr=False, kw_only=True)
class Custom(Measure):
    """What :func:`custom` returns: a measure like any other."""

    name: str = ""  # type: ignore[misc]  # other measures have it from their class
    own: "Functions"
    gain: Gain | None = None
    k: int | None = None
    normalize: bool = False
    given: tuple[str, ...] = ()  # names of columns

    def __post_init__(self) -> None:
        super().__post_init__()
        rows, norm = self.own.rows, self.own.norm if self.normalize else Measure.norm
        flags = {"by_rows": rows > 0, "symmetric": rows == 1, "scaled": rows == 3, "tabled": bool(self.given)}
        vars(self).update(value=self.own.value, norm=norm, **flags)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.given

    def tabulated(self, seen: Seen) -> Seen:
        # Where the swap's change says which document belongs above, all that have a label are in pairs.
        grade = seen.grade if self.by_rows else np.where(np.isnan(seen.grade), np.nan, np.arange(len(seen.gain)))
        table = np.stack([np.nan_to_num(seen.gain), *seen.columns])
        return seen._replace(gain=np.arange(len(seen.gain), dtype=np.float64), grade=grade, discount=table)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        value = self.own.given["value"]
        return f"custom({self.name!r}, {value.__module__}.{value.__qualname__})"

    def __reduce__(self) -> Any:
        return functools.partial(Custom, **{field.name: getattr(self, field.name) for field in fields(self)}), ()

    @property
    def brute_force(self) -> bool:
        """Whether a swap's delta is found by swapping: O(n) for each of O(n^2) pairs."""
        return not self.own.given.keys() & {"delta", "rows"}

    def fine(self, discount: Array) -> bool:
        return not self.symmetric  # one row is kept less its first entry, which float32 holds well enough

    def gains(self, labels: Array) -> Array:
        return labels if self.gain is None else gains_by(self.gain, labels, self.name)

    def gains_of(self, labels: Array, columns: Sequence[Array]) -> Array:
        gain: Any = self.gain
        wanted = _columns_of(gain, list(self.columns)) if callable(gain) else []
        if not wanted:
            return self.gains(labels)
        found = np.asarray(gain(labels, *(columns[at] for at in wanted)), dtype=np.float64)
        if found.shape != labels.shape or not np.isfinite(found).all():
            raise LambdaplugError(f"{self!r}: gain= must give one finite number per row of the arrays that it gets.")
        return found

    def swap_rows(self) -> Callable[..., int]:
        return self.own.swap

    def pair_delta(self, checked: bool = False, prepared: Prepared | None = None) -> PairDelta:
        if self.by_rows:
            return super().pair_delta(checked, prepared)
        return (self.own.checked if checked else self.own.pair)._replace(whole=self.k is None)

    def raised_delta(self) -> PairDelta:
        return super().raised_delta() if self.by_rows else self.own.raised._replace(whole=self.k is None)

    def run(self, kernel: Callable[..., T], *arguments: Any) -> T:
        try:
            return super().run(kernel, *arguments)
        except ArithmeticError as error:
            if not self.by_rows or type(error) is not ArithmeticError:
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
    columns: Sequence[str] | str = (),
) -> Custom:
    """Your own measure, to train for, report and stop early on.

    Parameters
    ----------
    name : str
        What it prints as and is reported under.
    value : callable
        ``value(ranked_labels) -> float``, higher is better: an ordinary function that Numba can compile. It gets the labels
        of one query's documents as a float64 array in rank order, which it must not change; never an empty one.
        A document without a label (NaN in ``labels=``) counts as label 0. Global variables are read once, by this
        call.
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
        reciprocal rank. ``lp.verify(measure)`` compares the two.
    gain : 'exp2', sequence, callable or None
        What the functions get in place of the labels: ``"exp2"``, a sequence with one gain per label or a function of
        the label, as for ``lp.NDCG``. Default: the labels as they are.
    k : int or None
        A promise that nothing changes when two documents below rank k change places: they are left out.
    normalize : bool
        Divide by the value of the ideal order (falling labels, or gains); undefined where that is not positive.
    columns : str or sequence of str
        Names of columns (see :func:`attach`), one number per row each. Functions get those that are their last parameters'
        names, in rank order: ``value(labels, price)``, ``delta(labels, i, j, prepared, price)``; a ``gain`` gets those of all
        rows at once.

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
    >>> measure = custom("sales@2", revenue, k=2)
    >>> measure
    custom('sales@2', lambdaplug.custom.revenue)
    >>> from lambdaplug.measures import swap_deltas
    >>> swap_deltas(measure, [0, 3, 5]).tolist()
    [[0.0, 0.0, 5.0], [0.0, 0.0, 2.0], [5.0, 2.0, 0.0]]
    >>> def counted(labels):
    ...     return (np.arange(len(labels)) < 2) * 1.0
    >>> swap_deltas(custom("sales@2", revenue, rows=counted, k=2), [0, 3, 5]).tolist()
    [[0.0, 0.0, 5.0], [0.0, 0.0, 2.0], [5.0, 2.0, 0.0]]
    """
    functions = {"value": value, "prepare": prepare, "delta": delta, "rows": rows}
    plain = {role: _plain(one, f"custom {name!r}: {role}") for role, one in functions.items() if one is not None}
    _check(name, plain, k)
    several = [columns] if isinstance(columns, (str, Mapping)) else columns
    own = tuple(column_name(one, f"custom {name!r}: columns", "price") for one in several)
    made = Functions(name, plain, list(own), k)
    return Custom(name=name, own=made, gain=gain, k=k, normalize=bool(normalize), given=own)


def _check(name: str, functions: dict[str, Function], k: Any) -> None:
    if np.ndim(k) > 0:
        raise LambdaplugError(
            f"custom {name!r}: k must be one integer for all queries; cut-offs per query are a column for its functions."
        )
    if not isinstance(name, str) or not name or any(c.isspace() or c == ":" for c in name):
        raise LambdaplugError(f"custom: expected a name without spaces and colons, such as 'sales@5', got {name!r}.")
    try:
        known = as_measure(name)
    except LambdaplugError:
        known = None
    if known is not None:
        raise LambdaplugError(f"custom: {name!r} is a measure of lambdaplug's: choose another name.")
    if "prepare" in functions and "delta" not in functions:
        raise LambdaplugError(f"custom {name!r}: prepare= is for a delta=, and there is none.")
    if "rows" in functions and "delta" in functions:
        raise LambdaplugError(f"custom {name!r}: rows= takes the place of delta=: give one of them.")


def _plain(function: Any, name: str) -> Function:
    function = getattr(function, "py_func", function)  # of a compiled one, the function that was
    if not inspect.isfunction(function):
        raise LambdaplugError(f"{name} must be a plain Python function, got {function!r}.")
    return function


def _columns_of(function: Function, columns: list[str]) -> list[int]:
    """The numbers of the columns that a function gets, in the order of its parameters."""
    return [columns.index(one) for one in inspect.signature(function).parameters if one in columns] if columns else []


def _fixed(function: Function) -> types.FunctionType:
    """The same function with the global variables that it has now."""
    names, codes = set[str](), [function.__code__]
    for code in codes:
        names.update(code.co_names)
        codes += [inner for inner in code.co_consts if isinstance(inner, types.CodeType)]
    space = {name: function.__globals__[name] for name in sorted(names & function.__globals__.keys())}
    space["__builtins__"] = builtins
    own = types.FunctionType(function.__code__, space, function.__name__, function.__defaults__, function.__closure__)
    own.__module__, own.__qualname__, own.__kwdefaults__ = (
        function.__module__,
        function.__qualname__,
        function.__kwdefaults__,
    )
    return own


def _same(one: types.FunctionType, other: types.FunctionType) -> bool:
    """Whether one function's global variables are the other's."""
    mine, theirs = one.__globals__, other.__globals__
    return mine.keys() == theirs.keys() and all(mine[name] is theirs[name] for name in mine)


class Functions:
    """The functions of one measure, by their roles: tried, compiled, and as the kernels call them."""

    def __init__(self, name: str, given: dict[str, Function], columns: list[str], k: int | None) -> None:
        self.arguments, self.given, self.what = (name, columns, k), given, f"custom {name!r}"
        self.fixed = {role: _fixed(function) for role, function in given.items()}
        self.columns = {role: _columns_of(function, columns) for role, function in given.items()}
        self.rows = 0  # how many arrays rows= returns
        self.signed = bool(columns)
        self.block_of: Function = _ranked_table if columns else _labels_alone
        self._try(k)
        self.call: dict[str, Any] = {}
        self.state = None  # Numba's type of what prepare= returns
        for role in given:  # a delta comes after what prepares it
            self.call[role], found = self._compiled(role)
            self.state = found if role == "prepare" else self.state

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Functions) or self.arguments != other.arguments or self.given != other.given:
            return False
        return all(_same(one, other.fixed[role]) for role, one in self.fixed.items())

    def __hash__(self) -> int:
        return hash(self.what)

    def __reduce__(self) -> Any:
        """As they were given where that is still the same, which any pickle knows by its name; else as they are here."""
        now = {
            role: one if _same(self.fixed[role], _fixed(one)) else self.fixed[role] for role, one in self.given.items()
        }
        name, columns, k = self.arguments
        return Functions, (name, now, columns, k)

    # Tried as plain Python on short lists, then compiled: what fails, fails here rather than in training.

    def _try(self, k: int | None) -> None:
        for role, function in self.given.items():  # columns come last, so that the others can be given by place
            names, columns = list(inspect.signature(function).parameters), self.arguments[1]
            count = 1 if role != "delta" else 4 if "prepare" in self.given else 3
            if columns and [name in columns for name in names] != [False] * count + [True] * (len(names) - count):
                raise LambdaplugError(
                    f"{self.what}: {function.__name__} must have {count} parameter{'s' * (count > 1)} and then columns by their "
                    f"names ({', '.join(columns)}), it has ({', '.join(names)})."
                )
        for n in TRIED:
            asked, state = n if k is None else k, list[Any]()
            for role in self.given:
                pairs = [(i, j) for i, j in ((0, 1), (0, n - 1), (n - 2, n - 1)) if 0 <= i < min(j, asked) and j < n]
                for pair in pairs if role == "delta" else [()]:
                    result = self._tried(role, n, pair, state)
                    state = [result] if role == "prepare" else state

    def _tried(self, role: str, n: int, pair: tuple[int, ...], state: list[Any]) -> Any:
        labels, ones = np.arange(n, 0, -1) % 2.0, np.ones(n)
        for values in (labels, ones):
            values.setflags(write=False)
        name = self.given[role].__name__
        try:
            with np.errstate(all="ignore"):  # these labels are none of the user's
                result = self.fixed[role](labels, *pair, *state, *[ones] * len(self.columns[role]))
        except Exception as error:
            where = f" and the positions {pair[0]} and {pair[1]}" if pair else ""
            raise LambdaplugError(
                f"{self.what}: {name} fails for the ranked labels {labels}{where}: {type(error).__name__}: {error}. Queries "
                "have any number of documents >= 1, and the labels are not to be written to."
            ) from error
        if role == "rows":
            rows = result if isinstance(result, tuple) else (result,)
            self.rows = len(rows)
            right = all(isinstance(row, np.ndarray) and row.shape == labels.shape for row in rows)
            if not right or len(rows) not in ((2, 3) if rows is result else (1,)):
                raise LambdaplugError(
                    f"{self.what}: rows= must return one array, (upper, lower) or (upper, lower, scale), each with one entry "
                    f"per document; it returned {result!r} for labels {labels}."
                )
        elif role != "prepare" and not isinstance(result, (int, float, np.number, np.bool_)):
            raise LambdaplugError(
                f"{self.what}: {name} must return a number, it returned {result!r} for labels {labels}."
            )
        return result

    def _compiled(self, role: str, checked: bool | None = None) -> tuple[Any, Any]:
        """For kernels, and the type of its result. A delta's indices are checked on request only: it is called most often."""
        delta = role == "delta"
        return compile_own(
            self.fixed[role],
            self.what,
            ranks=2 if delta else 0,
            state=self.state if delta else None,
            columns=len(self.columns[role]),
            number=delta or role == "value",
            checked=not delta if checked is None else checked,
        )

    # As the kernels want them. A query's labels and columns are the rows of a block, in rank order. 1.0 * is float() that
    # Numba has for a bool, too.

    def _at(self, role: str) -> str:
        """The block's rows that this function gets, as ``lines`` wants them."""
        return " ".join(map(str, [0, *(1 + column for column in self.columns[role])]))

    @functools.cached_property
    def value(self) -> Function:
        call, at, block_of = self.call["value"], self._at("value"), self.block_of

        def value(gain: Any, discount: Any, k: int) -> float:
            if len(gain) == 0:
                return 0.0
            block = block_of(gain, discount)
            found: float = 1.0 * call(*lines(block, at))
            keep(block)
            return found

        return value

    @functools.cached_property
    def norm(self) -> Function:
        measured = inlinable(self.value)

        def norm(gain: Any, discount: Any, k: int) -> float:
            ideal: float = measured(gain, discount, k)
            return 0.0 if ideal <= 0.0 else 1.0 / ideal if np.isfinite(ideal) else np.nan

        return norm

    @functools.cached_property
    def swap(self) -> Callable[..., int]:
        if not self.rows:
            return _no_rows
        call, at, block_of = self.call["rows"], self._at("rows"), self.block_of
        take = (_take_one, _take_two, _take_three)[self.rows - 1]

        def swap(gain: Any, discount: Any, k: int, upper: Any, lower: Any, scale: Any) -> int:
            block = block_of(gain, discount)
            take(call(*lines(block, at)), upper, lower, scale)
            for r in range(len(gain)):
                gain[r] = block[0, r]
            keep(block)
            return min(k, len(gain))

        return swap

    @functools.cached_property
    def pair(self) -> PairDelta:
        return self._given(self.call["delta"]) if "delta" in self.given else self._swapping()

    @functools.cached_property
    def checked(self) -> PairDelta:
        """The same, where a delta that reads beyond the end of an array raises an error."""
        return self._given(self._compiled("delta", checked=True)[0]) if "delta" in self.given else self.pair

    def _given(self, changed: Any) -> PairDelta:
        """By the user's delta, on labels where they are: rows of a block, as with columns, take twice as long."""
        if self.signed:
            return self._of_columns(changed)
        if "prepare" not in self.given:

            def pair(ranked: Any, frozen: Any, state: Any, i: int, j: int) -> Any:
                return 1.0 * changed(frozen, i, j)

            return PairDelta(_begin_nothing, pair)
        prepared = self.call["prepare"]

        def begin(ranked: Any, frozen: Any, upper: Any, lower: Any, scale: Any) -> Any:
            return prepared(frozen)

        def prepared_pair(ranked: Any, frozen: Any, state: Any, i: int, j: int) -> Any:
            return 1.0 * changed(frozen, i, j, state)

        return PairDelta(begin, prepared_pair)

    def _of_columns(self, changed: Any) -> PairDelta:
        at, block_of = self._at("delta"), self.block_of
        if "prepare" not in self.given:

            def begin(ranked: Any, frozen: Any, upper: Any, lower: Any, scale: Any) -> Any:
                return (block_of(frozen[0], frozen[1]),)

            def pair(ranked: Any, frozen: Any, state: Any, i: int, j: int) -> Any:
                own = lines(state[0], at)
                return 1.0 * changed(*(own[0], i, j, *own[1:]))

            return PairDelta(begin, pair, signed=True, tabled=True)
        prepared, prepared_at = self.call["prepare"], self._at("prepare")

        def prepared_begin(ranked: Any, frozen: Any, upper: Any, lower: Any, scale: Any) -> Any:
            block = block_of(frozen[0], frozen[1])
            return block, prepared(*lines(block, prepared_at))

        def prepared_pair(ranked: Any, frozen: Any, state: Any, i: int, j: int) -> Any:
            own = lines(state[0], at)
            return 1.0 * changed(*(own[0], i, j, state[1], *own[1:]))

        return PairDelta(prepared_begin, prepared_pair, signed=True, tabled=True)

    def _swapping(self) -> PairDelta:
        """The delta by doing it: exchange the two documents, measure, put them back."""
        call, at, block_of = self.call["value"], self._at("value"), self.block_of

        def begin(ranked: Any, frozen: Any, upper: Any, lower: Any, scale: Any) -> Any:
            block = block_of(frozen[0], frozen[1])
            return block, 1.0 * call(*lines(block, at))

        def delta(ranked: Any, frozen: Any, state: Any, i: int, j: int) -> float:
            block, before = state
            _exchange(block, i, j)
            after = 1.0 * call(*lines(block, at))
            _exchange(block, i, j)
            return change(after, before)

        return PairDelta(begin, delta, costly=True, signed=self.signed, tabled=True)

    @functools.cached_property
    def raised(self) -> PairDelta:
        """The pair's delta where its upper document is above the cut-off, as ``raised_kernel`` marks them."""
        inner_begin, inner_delta = inlinable(self.pair.begin), inlinable(self.pair.delta)

        def begin(ranked: Any, frozen: Any, upper: Any, lower: Any, scale: Any) -> Any:
            return inner_begin(ranked, frozen, upper, lower, scale), upper, scale

        def delta(ranked: Any, frozen: Any, state: Any, i: int, j: int) -> Any:
            inner, upper, scale = state
            return change(upper[i], upper[j]) if scale[i] < 0.0 else inner_delta(ranked, frozen, inner, i, j)

        return self.pair._replace(begin=begin, delta=delta)


@inlinable
def _labels_alone(gain: Any, discount: Any) -> Any:
    block = np.empty((1, len(gain)))
    for r in range(len(gain)):
        block[0, r] = gain[r]
    return block


@inlinable
def _ranked_table(gain: Any, table: Any) -> Any:
    block = np.empty((len(table), len(gain)))
    for row in range(len(table)):
        for r in range(len(gain)):
            block[row, r] = table[row, int(gain[r])]
    return block


@inlinable
def _exchange(block: Any, i: int, j: int) -> None:
    for row in range(len(block)):
        block[row, i], block[row, j] = block[row, j], block[row, i]


def _begin_nothing(ranked: Any, frozen: Any, upper: Any, lower: Any, scale: Any) -> float:
    return 0.0


def _no_rows(gain: Any, discount: Any, k: int, upper: Any, lower: Any, scale: Any) -> int:
    return min(k, len(gain))


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
    _take_two(given, upper, lower, scale)
    _take_row(given[2], 0.0, scale)
    for r in range(len(scale)):
        scale[r] = abs(scale[r])  # as a delta's, its sign does not matter
