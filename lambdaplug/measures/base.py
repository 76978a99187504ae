"""What a measure is.

``gains(labels)`` says what labels are worth, if not themselves: of two documents, the one with the higher gain belongs
above, whatever the labels, and documents of equal gain are in no pair.

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

What a class says of its ``swap`` (``gained``, ``symmetric``, ``greater``, ``coarse``, ``scaled``) and of documents without
a label (``unlabelled``) makes kernels faster, and gradients wrong where it is not true: ``lp.verify`` proves it.

A measure of more than a label (``columns``) that its functions need, and not only ``gains_of``, is
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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, NamedTuple, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from ..checking import refuse_data
from ..documenting import documented
from ..errors import LambdaplugError
from ..kernels import PairDelta, Prepared, change, inlinable, norm_kernel
from ..queries import Labels, PerQuery, Queries, as_columns, check_column
from ..rows import ideal_order, levels
from .gains import CUTOFF, Array, checked, cutoffs, literal

__all__ = ["REGISTRY", "Measure", "Prepared", "Seen"]

M = TypeVar("M", bound="Measure")
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
class Measure:
    """Base of all measures; a subclass with a ``name`` registers itself."""

    name: ClassVar[str] = ""
    formula: ClassVar[str] = ""  # one line for the table of measures
    undefined: ClassVar[str] = "never"  # where the measure has no value
    gained: ClassVar[bool] = True  # the swap delta has the factor |gain_a - gain_b|
    symmetric: ClassVar[bool] = False  # swap writes the same into upper and lower
    greater: ClassVar[bool] = (
        False  # a better than b: |delta| is the greater one of upper_a - lower_b, upper_b - lower_a
    )
    coarse: ClassVar[float] = 0  # the longest list for which float32 holds upper and lower well enough to subtract them
    scaled: ClassVar[bool] = False  # swap writes scale
    unlabelled: ClassVar[float] = 0.0  # gain of a document without a label; NaN where the functions tell it from 0
    falling: ClassVar[bool] = False  # a sum of gain times a discount, the same for all lists, that falls with the rank
    tabled: ClassVar[bool] = False  # its functions get row numbers and a table
    column_fields: ClassVar[tuple[str, ...]] = ()  # parameters that are columns of the documents
    by_rows: ClassVar[bool] = True  # the swap delta has the form above; if not, pair_delta alone knows it
    reach: ClassVar[int | None] = None  # the delta is the full swap's of documents at most so many ranks apart

    def __new__(cls: type[M], *args: Any, **_: Any) -> M:
        refuse_data(args, f"{cls.__name__} is a class of measures", cls.name)
        return object.__new__(cls)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        documented(cls)
        if cls.name and not cls.column_fields:  # those have no text that could be read back
            REGISTRY[cls.name] = cls

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in self.column_fields:
                value = as_columns(value, field.name)
            elif field.name == "k" and (isinstance(value, (PerQuery, list, tuple)) or len(getattr(value, "shape", ()))):
                value = cutoffs(value, self.name)
            else:
                value = checked(self.name, field.name, CUTOFF if field.name == "k" else field.type, value)
            object.__setattr__(self, field.name, value)

    @property
    def cutoff(self) -> int | None:
        """The last rank that counts; None = all do. Of one per query, the last of all."""
        k: int | PerQuery | None = getattr(self, "k", None)
        return int(k.values.max(initial=1)) if isinstance(k, PerQuery) else k

    @property
    def columns(self) -> dict[str, tuple[Labels, ...]]:
        """What it needs of a document besides its label: by name, one source or several."""
        return {name: getattr(self, name) for name in self.column_fields}

    @property
    def sources(self) -> tuple[Labels, ...]:
        """Every source of values per row, as ``prepare`` wants their values; a cut-off per query last."""
        k = getattr(self, "k", None)
        own = (k,) if isinstance(k, PerQuery) else ()
        return (*(one for several in self.columns.values() for one in several), *own)

    def with_columns(self: M, columns: Mapping[str, Any]) -> M:
        """The same with other columns of these names."""
        return replace(self, **columns)

    @property
    def whole(self) -> bool:
        """Whether all ranks count."""
        return getattr(self, "k", None) is None

    def __str__(self) -> str:
        k = getattr(self, "k", None)
        text = self.name if k is None else f"{self.name}@{'k' if isinstance(k, PerQuery) else k}"
        given = [
            f"{field.name}={literal(getattr(self, field.name))}"
            for field in fields(self)
            if field.name not in ("k", *self.column_fields) and getattr(self, field.name) != field.default
        ]
        return f"{text}({','.join(given)})" if given else text

    __repr__ = __str__

    def __call__(self, *_: object) -> NoReturn:
        """Boosters call what they are given as an objective or a metric: say what a measure is for."""
        text = repr(str(self))
        raise LambdaplugError(
            f"{self} is a measure. To train for it, give the booster lp.objective({text}); to report it, lp.metric({text})."
        )

    # What the labels mean.

    def gains(self, labels: Array) -> Array:
        return labels

    def gains_of(self, labels: Array, columns: Sequence[Array]) -> Array:  # noqa: ARG002
        """``gains`` of labels with their columns."""
        return self.gains(labels)

    def tabulated(self, seen: "Seen") -> "Seen":
        """What a ``tabled`` measure's functions get: row numbers, and a table of what they need of those rows."""
        return seen

    def discounts(self, n: int) -> Array:
        """The discounts of ranks 1..n before the cut-off."""
        return np.ones(n)

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

    def shortest(self, discount: Array) -> float:  # noqa: ARG002
        """The number of documents from which their order matters; infinite: no such list is long enough."""
        return 2

    def pair_delta(self, checked: bool = False) -> PairDelta:  # noqa: ARG002
        """The swap delta as a function of two ranks, before the norm; ``checked``: a user's with its indices checked."""
        return PairDelta(begin_rows, _gained_delta if self.gained else _plain_delta)

    def raised_delta(self) -> PairDelta:
        """``pair_delta`` of rows that ``raised_kernel`` has been through."""
        return PairDelta(begin_rows, _raised_delta)

    def run(self, kernel: Callable[..., T], *arguments: Any) -> T:
        """Call a kernel that has this measure's functions inside, which may be the user's."""
        try:
            return kernel(*arguments)
        except IndexError:
            raise LambdaplugError(
                f"{self!r}: one of its functions reads beyond the end of an array. A query has any number of documents, "
                "and a table that is looked up needs an entry for every label."
            ) from None

    def prepared_for(self, queries: Queries, source: Labels | None = None) -> Prepared:
        """``prepare`` of these queries' labels, or those of another source."""
        columns = [one.of(queries) for one in self.sources]
        for one, values in zip(self.sources, columns, strict=True):
            check_column(values, one.what)
        return self.prepare(queries.labels_of(source), queries.offsets, *([columns] if columns else []))

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
        ideal, row = ideal_order(gain, offsets)
        if row >= 0:
            raise LambdaplugError(f"{self}: the gain of row {row}, with the label {labels[row]:g}, is not finite.")
        if _merged(gain, ideal, offsets):
            grade = levels([grade], offsets)  # kernels compare grades in float32: keep different ones different
        if self.tabled:
            gain, grade, discount = self.tabulated(Seen(gain, grade, discount, offsets, tuple(columns)))[:3]
        lists = offsets, 0, queries, ideal
        self.run(norm_kernel(self.norm), gain, discount, k, lists, np.empty(longest), norm)
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


def begin_rows(ranked: Any, frozen: Any, upper: Any, lower: Any, scale: Any) -> tuple[Any, Any, Any]:
    return upper, lower, scale


@inlinable
def _gained_delta(ranked: Any, frozen: Any, state: Any, i: int, j: int) -> float:
    return float(abs(state[0][i] - state[1][j]) * abs(ranked[i] - ranked[j]) * state[2][i])


def _raised_delta(ranked: Any, frozen: Any, state: Any, i: int, j: int) -> float:
    upper, _, scale = state
    return change(upper[i], upper[j]) if scale[i] < 0.0 else _gained_delta(ranked, frozen, state, i, j)


def _plain_delta(ranked: Any, frozen: Any, state: Any, i: int, j: int) -> float:
    return float(abs(state[0][i] - state[1][j]) * state[2][i])
