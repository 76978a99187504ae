"""What a measure is.

``gains(labels)`` says what labels are worth, if not themselves: of two documents, the one with the higher gain belongs
above, whatever the labels, and documents of equal gain are in no pair.
``discount``, a parameter or one word for the whole class, says what ranks count; without it all count alike.

Three functions say the rest. All take the gains of one query's documents in rank order, a table of discounts by rank
(entry 0 is rank 1; zero beyond the cut-off) and the cut-off k; they are plain Python that Numba can compile.

``value(gain, discount, k)``
    the measure of this ranking, before normalisation.
``norm(gain, discount, k)``
    the normaliser (1/ideal DCG, 1/relevant documents, ...) from the gains in IDEAL order; 0 where the measure is
    undefined. 1 unless a measure says otherwise.
``swap(gain, discount, k, upper, lower, scale)``
    what exchanging two documents changes. With a ranked above b, every measure's delta has the form

        |delta(a, b)| = norm * |gain_a - gain_b| * scale_a * |upper_a - lower_b|

    so ``swap`` fills ``upper`` and ``lower`` (and ``scale``, which is 1 on entry) in O(n), and a pair costs O(1). It
    returns the cut: a pair both of whose documents rank below it changes nothing.

What a class says of its ``swap`` (``gained``, ``symmetric``, ``greater``, ``coarse``, ``scaled``) makes kernels faster, and gradients
wrong where it is not true, which ``lp.verify`` finds. ``unlabelled`` is what a document without a label is worth.

A measure of columns that its functions need, and not only ``gains_of``, is
``tabled``: in place of gains the functions get row numbers, and in place of discounts a table with what ``tabulated`` put
there for those rows. Its delta, as ``pair_delta`` has it, may be ``signed``: which of two documents belongs above is then
what the swap changes, in place of their gains.

Two more are optional. One serves ``evaluate(..., ties="expected")``:

``expected(gain, ends, discount, k)``
    the mean of ``value`` over every order of equal scores. ``ends[r]`` is where the stretch of documents with rank r's
    score ends; within a stretch the gains fall.

The other: a measure that can be written in positions has a method ``smooth()`` that returns a function
``(gain, position, discount, cut, beta, slope)``: the value, before normalisation, of documents at positions that need
not be integers, with its derivative with respect to each position in ``slope``. [position <= k] is the sigmoid
1/(1 + exp(-beta (cut - position))), cut = k + 1/2 (infinite without a k), and ``discount`` is not zero beyond k.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from ..columns import column_name
from ..errors import LambdaplugError
from ..kernels import Leaf, PairDelta, Prepared, change, inlinable, leaves, per_function, value_kernel
from ..queries import Queries
from ..rows import ideal_order, levels
from ..values import Value, keep, literal
from .gains import Array, checked, discounts_by

__all__ = ["REGISTRY", "Measure", "Prepared", "Seen"]

T = TypeVar("T")

REGISTRY: dict[str, type["Measure"]] = {}


class Seen(NamedTuple):
    """What ``prepare`` has found out, for ``tabulated`` to change."""

    gain: Array
    grade: Array
    discount: Array
    offsets: npt.NDArray[np.int64]
    columns: tuple[Array, ...]


@dataclass(frozen=True, repr=False)
class Measure(Value):
    """Base of all measures; a subclass with a ``name`` registers itself."""

    name: ClassVar[str] = ""
    undefined: ClassVar[str] = "never"  # where the measure has no value
    gained: ClassVar[bool] = True  # the swap delta has the factor |gain_a - gain_b|
    symmetric: ClassVar[bool] = False  # swap writes the same into upper and lower
    greater: ClassVar[bool] = False  # a better: |delta| is the greater one of upper_a - lower_b, upper_b - lower_a
    coarse: ClassVar[float] = 0  # the longest list for which float32 holds upper and lower well enough to subtract them
    scaled: ClassVar[bool] = False  # swap writes scale
    unlabelled: ClassVar[float] = 0.0  # gain of a document without a label; NaN where the functions tell it from 0
    falling: ClassVar[bool] = False  # a sum of gain times a discount, the same for all lists, that falls with the rank
    tabled: ClassVar[bool] = False  # its functions get row numbers and a table
    column_fields: ClassVar[tuple[str, ...]] = ()  # parameters that name columns of the documents
    tables: ClassVar[bool] = False  # which may be tables
    by_rows: ClassVar[bool] = True  # the swap delta has the form above; if not, pair_delta alone knows it
    reach: ClassVar[int | None] = None  # the delta is the full swap's of documents at most so many ranks apart

    def __init_subclass__(cls, **flags: Any) -> None:
        super().__init_subclass__()
        for flag, value in flags.items():
            setattr(cls, flag, value)
        if cls.name:
            REGISTRY[cls.name] = cls

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in self.column_fields:
                column_name(value, field.name)
            else:
                value = checked(self.name, field.name, field.type, value, optional=field.default is None)
            keep(self, **{field.name: value})

    @property
    def parts(self) -> "tuple[tuple[Measure, str | None], ...]":
        """The measures whose means are evaluated, each with its own column of labels, if it has one."""
        return ((self, None),)

    def combined(self, means: Sequence[float]) -> float:
        """The one number of those means."""
        return means[0]

    @property
    def cutoff(self) -> int | None:
        """The last rank that counts in any query; None = all do."""
        k = getattr(self, "k", None)
        return k if isinstance(k, int) else None

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that it needs besides labels; that of a cut-off per query last."""
        k = getattr(self, "k", None)
        return (*(getattr(self, name) for name in self.column_fields), *([k] if isinstance(k, str) else []))

    def __str__(self) -> str:
        k = getattr(self, "k", None)
        text = f"{self.name}@{k}" if isinstance(k, int) else self.name
        given = [
            f"{field.name}={literal(getattr(self, field.name)).replace(', ', ',')}"
            for field in fields(self)
            if getattr(self, field.name) != field.default and not (field.name == "k" and isinstance(k, int))
        ]
        return f"{text}({','.join(given)})" if given else text

    def written(self) -> str:
        return repr(str(self))

    def __call__(self, *_: object) -> NoReturn:
        """Boosters call what they are given as an objective or a metric: say what a measure is for."""
        text = repr(str(self))
        raise LambdaplugError(
            f"{self} is a measure. To train for it, give the booster lp.objective({text}); to report it, lp.metric({text})."
        )

    # What the labels mean.

    def gains(self, labels: Array) -> Array:
        return labels

    def gains_of(self, labels: Array, columns: Sequence[Array]) -> Array:
        """``gains`` of labels with their columns."""
        return self.gains(labels)

    def tabulated(self, seen: "Seen") -> "Seen":
        """What a ``tabled`` measure's functions get: row numbers, and a table of what they need of those rows."""
        return seen

    def discounts(self, n: int) -> Array:
        """The discounts of ranks 1..n before the cut-off: those that the class, or its parameter, is named for."""
        return discounts_by(getattr(self, "discount", "equal"), n, self.name)

    # What the ranking is worth, and what a swap changes: see the top of this file.

    @staticmethod
    def value(gain: Any, discount: Any, k: int) -> float:
        raise NotImplementedError

    @staticmethod
    def norm(gain: Any, discount: Any, k: int) -> float:
        return 1.0

    @staticmethod
    def swap(gain: Any, discount: Any, k: int, upper: Any, lower: Any, scale: Any) -> int:
        raise NotImplementedError

    expected: ClassVar[Callable[..., float] | None] = None

    def swap_rows(self) -> Callable[..., int]:
        """The function that fills the swap rows; a measure whose parameters change it returns another one."""
        return self.swap

    def smooth(self) -> Callable[..., float] | None:
        """The measure in smooth positions, for lp.Approx; None where there is no such form. See the top of this file."""
        return None

    def fine(self, discount: Array) -> bool:
        """Whether upper_a - lower_b can be so much smaller than both that float32 would lose it in lists this long."""
        return len(discount) > self.coarse

    def shortest(self, discount: Array) -> float:
        """The number of documents from which their order matters; infinite: no such list is long enough."""
        return 2

    def pair_delta(self, prepared: Prepared | None = None) -> PairDelta:
        """The swap delta as a function of two ranks, before the norm.

        ``prepared``: what it is for, where it is more than to be asked for its flags.
        """
        return PairDelta(begin_rows, _gained_delta if self.gained else _plain_delta)

    def measuring(self, prepared: Prepared, out: Array, order: npt.NDArray[np.int32] | None = None) -> Leaf:
        """The leaf of a round that writes the value of each query, before its norm, of this order or the round's."""
        values = prepared.gain, prepared.given[3], prepared.k, np.empty(0, np.int32) if order is None else order, out
        return Leaf(leaves.measured, (value_kernel(self.value, not self.tabled),), values, measure=self)

    def run(self, kernel: Callable[..., T], *arguments: Any) -> T:
        """Call a kernel that has this measure's functions inside, which may be the user's."""
        try:
            return kernel(*arguments)
        except IndexError:
            raise LambdaplugError(
                f"{self}: one of its functions reads beyond the end of an array. A query has any number of documents, "
                "and a table that is looked up needs an entry for every label."
            ) from None

    def prepared_for(self, queries: Queries, labels: str | None = None) -> Prepared:
        """``prepare`` of these queries' labels, or those in a column."""
        several = [queries.table(name) if self.tables else [queries.column(name)] for name in self.columns]
        columns = [one for table in several for one in table]
        return self.prepare(queries.labels_of(labels), queries.offsets, *([columns] if columns else []))

    def prepare(self, labels: Array, offsets: npt.NDArray[np.int64], columns: Sequence[Array] = ()) -> Prepared:
        """Everything about these labels and columns that does not depend on scores."""
        longest = int(np.diff(offsets).max(initial=0))
        k = longest if self.cutoff is None else min(int(self.cutoff), longest)
        discount = np.ascontiguousarray(self.discounts(longest), dtype=np.float64)
        discount[k:] = 0.0
        labelled = ~np.isnan(labels)
        if labelled.all():
            grade = gain = self.gains_of(labels, columns)
        else:
            gain = np.full(len(labels), self.unlabelled)
            gain[labelled] = self.gains_of(labels[labelled], [values[labelled] for values in columns])
            grade = np.where(labelled, gain, np.nan)  # neither above nor below any other: no pair
        queries = len(offsets) - 1
        norm = np.zeros(queries)
        for row in np.flatnonzero(np.isinf(gain)):
            raise LambdaplugError(f"{self}: the gain of row {row}, with the label {labels[row]:g}, is not finite.")
        ideal = ideal_order(gain, offsets)
        if _merged(gain, ideal, offsets):
            grade = levels([grade], offsets)  # kernels compare grades in float32: keep different ones different
        if self.tabled:
            gain, grade, discount = self.tabulated(Seen(gain, grade, discount, offsets, tuple(columns)))[:3]
        lists = offsets, 0, queries, ideal
        self.run(value_kernel(self.norm), gain, discount, k, lists, np.empty(longest), norm)
        norm[np.diff(offsets) == 0] = 0.0
        return Prepared(gain, grade, norm, discount, k)


def _merged(gain: Array, ideal: npt.NDArray[np.int32], offsets: npt.NDArray[np.int64]) -> bool:
    """Whether float32 makes two different gains of one query equal."""
    with np.errstate(over="ignore"):
        short = gain.astype(np.float32)
    same = short == gain
    if same.all() or np.all(same | np.isnan(gain)):
        return False
    rows = np.repeat(offsets[:-1], np.diff(offsets)) + ideal  # equal ones are neighbours in the ideal order
    gain, short = gain[rows], short[rows]
    return bool(np.any((gain[1:] < gain[:-1]) & (short[1:] == short[:-1])))


def begin_rows(gain: Any, table: Any, upper: Any, lower: Any, scale: Any) -> tuple[Any, Any, Any]:
    return upper, lower, scale


@inlinable
def _gained_delta(gain: Any, table: Any, state: Any, i: int, j: int) -> float:
    return float(abs(state[0][i] - state[1][j]) * abs(gain[i] - gain[j]) * state[2][i])


def _plain_delta(gain: Any, table: Any, state: Any, i: int, j: int) -> float:
    return float(abs(state[0][i] - state[1][j]) * state[2][i])


@per_function
def raised(pair: PairDelta) -> PairDelta:
    """The delta where its upper document is above the cut-off, and below it how much it matters which of the two stands there.

    Of rows that ``swap_kernel`` has filled with the measure's value.
    """
    inner_begin, inner_delta = inlinable(pair.begin), inlinable(pair.delta)

    def begin(gain: Any, table: Any, upper: Any, lower: Any, scale: Any) -> Any:
        return inner_begin(gain, table, upper, lower, scale), upper, scale

    def delta(gain: Any, table: Any, state: Any, i: int, j: int) -> Any:
        inner, upper, scale = state
        return change(upper[i], upper[j]) if scale[i] < 0.0 else inner_delta(gain, table, inner, i, j)

    return pair._replace(begin=begin, delta=delta)
