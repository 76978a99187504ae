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

from .checking import integer
from .columns import column_name
from .errors import LambdaplugError
from .kernels import PairDelta, change, compile_own, inlinable, keep, lines
from .measures import Array, Gain, Measure, Prepared, Seen, as_measure, gains_by

__all__ = ["Custom", "custom"]

Function = Callable[..., Any]
T = TypeVar("T")


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

    def gains_of(self, labels: Array, columns: Sequence[Array]) -> Array:
        gain: Any = self.gain
        wanted = _columns_of(gain, list(self.columns)) if callable(gain) else []
        if not wanted:
            return labels if gain is None else gains_by(gain, labels, self.name)
        found = np.asarray(gain(labels, *(columns[at] for at in wanted)), dtype=np.float64)
        if found.shape != labels.shape or not np.isfinite(found).all():
            raise LambdaplugError(f"{self!r}: gain= must give one finite number per row of the arrays that it gets.")
        return found

    def swap_rows(self) -> Callable[..., int]:
        return self.own.swap

    def pair_delta(self, prepared: Prepared | None = None) -> PairDelta:
        return super().pair_delta(prepared) if self.by_rows else self.own.pair

    def run(self, kernel: Callable[..., T], *arguments: Any) -> T:
        try:
            return super().run(kernel, *arguments)
        except ArithmeticError as error:
            raise LambdaplugError(
                f"{self!r}: one of its functions fails: {type(error).__name__}: {error}. It must give finite numbers for "
                "every order of the labels."
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
    _check(name, functions, k)
    several = [columns] if isinstance(columns, (str, Mapping)) else columns
    own = tuple(column_name(one, f"custom {name!r}: columns", "price") for one in several)
    given = {role: getattr(one, "py_func", one) for role, one in functions.items() if one is not None}
    made = Functions(name, given, list(own))
    if delta is not None:
        _try_delta(name, given, list(own), k)
    return Custom(name=name, own=made, gain=gain, k=k, normalize=bool(normalize), given=own)


def _check(name: str, functions: dict[str, Any], k: Any) -> None:
    if not isinstance(name, str) or not name or any(c.isspace() or c == ":" for c in name):
        raise LambdaplugError(f"custom: expected a name without spaces and colons, such as 'sales@5', got {name!r}.")
    try:
        known = as_measure(name)
    except LambdaplugError:
        known = None
    if known is not None:
        raise LambdaplugError(f"custom: {name!r} is a measure of lambdaplug's: choose another name.")
    if k is not None:
        integer(
            k, f"custom {name!r}: k", purpose=" for all queries (cut-offs per query are a column for its functions)"
        )
    if functions["prepare"] is not None and functions["delta"] is None:
        raise LambdaplugError(f"custom {name!r}: prepare= is for a delta=, and there is none.")
    if functions["rows"] is not None and functions["delta"] is not None:
        raise LambdaplugError(f"custom {name!r}: rows= takes the place of delta=: give one of them.")
    for role, one in functions.items():
        if not inspect.isfunction(getattr(one, "py_func", one)) and (one is not None or role == "value"):
            raise LambdaplugError(f"custom {name!r}: {role} must be a plain Python function, got {one!r}.")


def _try_delta(name: str, functions: dict[str, Function], columns: list[str], k: int | None) -> None:
    """Call it as plain Python on short lists: in training its indices are not checked."""
    i, j, labels = 0, 1, np.zeros(0)
    try:
        for n in (2, 3, 12):
            labels, ones = np.arange(n, 0.0, -1.0) % 2.0, np.ones(n)
            own = {role: [ones] * len(_columns_of(one, columns)) for role, one in functions.items()}
            for i, j in ((0, 1), (0, n - 1), (min(n - 2, (k or n) - 1), n - 1)):
                with np.errstate(all="ignore"):  # these labels are none of the user's
                    prepared = [functions["prepare"](labels, *own["prepare"])] if "prepare" in functions else []
                    functions["delta"](labels, i, j, *prepared, *own["delta"])
    except Exception as error:
        raise LambdaplugError(
            f"custom {name!r}: {functions['delta'].__name__} fails for the ranked labels {labels} and the positions {i} "
            f"and {j}: {type(error).__name__}: {error}."
        ) from error


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
    own.__module__, own.__qualname__ = function.__module__, function.__qualname__
    own.__kwdefaults__ = function.__kwdefaults__
    return own


def _same(one: types.FunctionType, other: types.FunctionType) -> bool:
    """Whether one function's global variables are the other's."""
    mine, theirs = one.__globals__, other.__globals__
    return mine.keys() == theirs.keys() and all(mine[name] is theirs[name] for name in mine)


class Functions:
    """The functions of one measure, by their roles: compiled, and as the kernels call them.

    A query's labels and columns are the rows of a block, in rank order. 1.0 * is float() that Numba has for a bool, too.
    """

    def __init__(self, name: str, given: dict[str, Function], columns: list[str]) -> None:
        self.name, self.given, self.columns, self.what = name, given, columns, f"custom {name!r}"
        self.fixed = {role: _fixed(function) for role, function in given.items()}
        self.call: dict[str, Any] = {}
        self.block_of: Function = _ranked_table if columns else _labels_alone
        self.rows = 0  # how many arrays rows= returns
        found: dict[str, Any] = {}  # Numba's, of what they return
        for role, function in self.fixed.items():  # a delta comes after what prepares it
            ranks, state = (2, found.get("prepare")) if role == "delta" else (0, None)
            parameters, count = inspect.signature(function).parameters, 1 + ranks + (state is not None)
            names = [name for name, one in parameters.items() if one.default is one.empty or name in columns]
            if names[count:] != [name for name in names if name in columns]:
                raise LambdaplugError(
                    f"{self.what}: {function.__name__} must have {count} parameter{'s' * (count > 1)} and then columns by "
                    f"their names ({', '.join(columns) or 'none is in columns='}), it has ({', '.join(names)})."
                )
            self.call[role], found[role] = compile_own(
                function,
                self.what,
                ranks=ranks,
                state=state,
                columns=len(_columns_of(function, columns)),
                number=role in ("value", "delta"),
                checked=role != "delta",  # it is called most often
            )
        if "rows" in given:
            several = getattr(found["rows"], "types", ())
            arrays = [getattr(one, "ndim", 0) == 1 for one in several or [found["rows"]]]
            if not all(arrays) or len(several) not in (0, 2, 3):
                raise LambdaplugError(
                    f"{self.what}: rows= must return one array, (upper, lower) or (upper, lower, scale), each with one "
                    f"entry per document; to Numba it returns {found['rows']}."
                )
            self.rows = len(arrays)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Functions) or (self.name, self.columns) != (other.name, other.columns):
            return False
        return self.given == other.given and all(_same(one, other.fixed[role]) for role, one in self.fixed.items())

    def __hash__(self) -> int:
        return hash(self.what)

    def __reduce__(self) -> Any:
        """As they were given where that is still the same, which any pickle knows by its name; else as they are here."""
        fixed = self.fixed
        now = {role: one if _same(fixed[role], _fixed(one)) else fixed[role] for role, one in self.given.items()}
        return Functions, (self.name, now, self.columns)

    def _at(self, role: str) -> str:
        """The block's rows that this function gets, as ``lines`` wants them."""
        return " ".join(map(str, [0, *(1 + column for column in _columns_of(self.given[role], self.columns))]))

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
        call, at, block_of, single, scaled = (
            self.call["rows"],
            self._at("rows"),
            self.block_of,
            self.rows == 1,
            self.rows == 3,
        )

        def swap(gain: Any, discount: Any, k: int, upper: Any, lower: Any, scale: Any) -> int:
            block = block_of(gain, discount)
            found = call(*lines(block, at))
            if single:  # only differences matter: less the first, they are no larger than what they differ by
                _take_row(found, True, upper)
                _take_row(found, True, lower)
            else:
                _take_row(found[0], False, upper)
                _take_row(found[1], False, lower)
            if scaled:
                _take_row(np.abs(found[2]), False, scale)  # as a delta's, its sign does not matter
            for r in range(len(gain)):
                gain[r] = block[0, r]
            keep(block)
            return min(k, len(gain))

        return swap

    @functools.cached_property
    def pair(self) -> PairDelta:
        block_of, signed = self.block_of, bool(self.columns)
        if "delta" not in self.given:
            return self._swapping()
        changed, at = self.call["delta"], self._at("delta")
        if "prepare" in self.given:
            prepared, prepared_at = self.call["prepare"], self._at("prepare")

            def ready(block: Any) -> Any:
                return (prepared(*lines(block, prepared_at)),)
        else:

            def ready(block: Any) -> Any:
                return ()

        made_ready = inlinable(ready)

        def begin(gain: Any, table: Any, upper: Any, lower: Any, scale: Any) -> Any:
            block = block_of(gain, table)
            return block, made_ready(block)

        def delta(gain: Any, table: Any, state: Any, i: int, j: int) -> Any:
            own = lines(state[0], at)
            return 1.0 * changed(*(own[0], i, j, *state[1], *own[1:]))

        return PairDelta(begin, delta, signed=signed)

    def _swapping(self) -> PairDelta:
        """The delta by doing it: exchange the two documents, measure, put them back."""
        call, at, block_of = self.call["value"], self._at("value"), self.block_of

        def begin(gain: Any, table: Any, upper: Any, lower: Any, scale: Any) -> Any:
            block = block_of(gain, table)
            return block, 1.0 * call(*lines(block, at))

        def delta(gain: Any, table: Any, state: Any, i: int, j: int) -> float:
            block, before = state
            _exchange(block, i, j)
            after = 1.0 * call(*lines(block, at))
            _exchange(block, i, j)
            return change(after, before)

        return PairDelta(begin, delta, costly=True, signed=bool(self.columns))


@inlinable
def _labels_alone(gain: Any, table: Any) -> Any:
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


def _no_rows(gain: Any, discount: Any, k: int, upper: Any, lower: Any, scale: Any) -> int:
    return min(k, len(gain))


@inlinable
def _take_row(given: Any, shifted: bool, to: Any) -> None:
    if len(given) != len(to):
        raise ArithmeticError("rows= must give one finite number per document")
    for r in range(len(to)):
        to[r] = given[r] - given[0] if shifted else given[r]
        if not np.isfinite(to[r]):
            raise ArithmeticError("rows= must give one finite number per document")
