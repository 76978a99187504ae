"""The scratch tables of the pair loops, by name, and the groups in which kernels are given their arguments.

Numba takes a tuple as one argument, and compiles it as fast as its members alone. Kernels are called with plain tuples,
which it recognises ten times as fast as NamedTuples, and name them first thing: ``lists = Lists(*lists)``.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import types

# Tables.rows, float64: one entry per document, in the order of the list.
GAIN, UPPER, LOWER, SCALE = range(4)  # what a measure's ``swap`` fills
SCORE, PLACE, GRADIENT, HESSIAN = range(4, 8)
FLOAT64_ROWS = 8

# Tables.fast, float32: what the fast loop reads of a document, in the order of pairs.Document, and its sums.
EXP, ORDER32, GAIN32, UPPER32, UPPER_REST, LOWER32, LOWER_REST, SCALE32 = range(
    8
)  # the scale also by the distance of ranks
WEIGHT32, TIER32, CHOSEN32, PLACE32, PLACE_REST, GRADIENT32, HESSIAN32 = range(8, 15)
FLOAT32_ROWS = 15
DOCUMENT_ROWS = "0 1 2 3 4 5 6 7 8 9 10 11 12"
PADDING = 8  # float32 lanes of a 256-bit register: a loop's remainder runs on padding instead of one by one

# Tables.places, int32: the documents of a list by falling gain, their ranks, and how many of a gain are listed already.
LISTED, RANKED, TAKEN = range(3)
PLACE_ROWS = 3

# Tables.marks, int64: one entry per query. The cut is -1 where the measure is not defined.
CUT, KIND = range(2)
MARK_ROWS = 2
BY_RANK, BY_GAIN, WIDE = 1, 2, 4  # the loop that a query is for; 0: none
FINE, LATER, WRONG = range(
    3
)  # what a leaf returns, beside the row or query that is wrong, or the kernels that it needs
STAGED = 8  # beside them, of kernels that are compiled when they are needed

# What the float32 loops share: rows and columns whose sums stay in float32, and unsigned numbers, which need no look at
# their sign when they are an index.
ROW_BLOCK, COLUMN_BLOCK = 128, 512
ZERO, ONE, TWO, THREE, FOUR = (np.uint64(i) for i in range(5))
LANES = np.uint64(PADDING - 1)


class Prepared(NamedTuple):
    """What a measure needs to know about one label source; computed once per data set."""

    gain: Any  # one per row
    grade: Any  # one per row: the document with the higher one should stand above; the gain's order, NaN = in no pair
    norm: Any  # one per query; 0 = undefined
    discount: Any  # one per rank; of a tabled measure, its table
    k: int

    @property
    def given(self) -> tuple[Any, ...]:
        """As kernels are given it: with a table in any case."""
        return (*self[:3], np.atleast_2d(self.discount), self.k)


class Levels(NamedTuple):
    """Lists by falling gain; empty where they are of no use."""

    begin: Any = np.empty(0, np.int32)  # by row: where its gain begins in its query's list
    below: Any = np.empty(0, np.int32)  # by list: where the next lower gain begins
    gains: Any = np.empty(0, np.float32)  # by list


class Lists(NamedTuple):
    """The queries first..last-1 as lists: of each, its documents (0..n-1) in the order in which they stand."""

    offsets: Any
    first: int
    last: int
    order: Any


class Documents(NamedTuple):
    """One value per row of the data. ``weight``, ``tier`` and ``chosen`` may be empty.

    ``scores`` are those of the forces, ``placed`` those by which the lists are ordered, which distances are taken in.
    """

    scores: Any
    placed: Any
    grade: Any
    weight: Any
    tier: Any
    chosen: Any  # a pair needs a document of which this is not 0


class Tables(NamedTuple):
    """Scratch. The first document of the first query is at column 0; in ``fast`` each query is followed by padding."""

    rows: Any
    fast: Any
    places: Any
    marks: Any


class Pull(NamedTuple):
    """The numbers in a pair's force."""

    sigma: float
    shift: float  # the cost's parameter
    near: float  # if positive, a pair is divided by this plus the distance of its places
    floor: float  # the least |delta|
    summed: bool  # a query is scaled by log2(1 + S)/S, S its summed force
    coefficient: float  # of everything


class PairBias(NamedTuple):
    """Factors of a pair, and its cost by row; one value per row, but ``weight``, which is one per query. Empty: there are none."""

    above: Any = np.empty(0)  # of the better document
    below: Any = np.empty(0)  # of the worse one
    plus: Any = np.empty(
        0
    )  # receives the costs of the pairs in which a row is the better one, times the other's factor
    minus: Any = np.empty(0)  # the same where it is the worse one
    weight: Any = np.empty(0)  # of the query, for the costs alone: the forces are weighed later


class Sums(NamedTuple):
    """What is added to, one per row of the queries."""

    gradient: Any
    hessian: Any


# --- their types, for functions that are values in a struct ----------------------------------------------------------

FLOAT, INTEGER, FLAG, NOTHING = types.float64, types.int64, types.boolean, types.none


def array(dtype: Any = FLOAT, dimensions: int = 1, readonly: bool = False) -> Any:
    return types.Array(dtype, dimensions, "C", readonly=readonly)


def group(*kinds: Any) -> Any:
    return types.BaseTuple.from_types(kinds)


def function(result: Any, *arguments: Any) -> Any:
    return types.FunctionType(result(*arguments))


# What is read only may also be an array that can be written to.
GIVEN, GIVEN_TABLE, GIVEN_INTEGERS = array(readonly=True), array(FLOAT, 2, True), array(INTEGER, readonly=True)
GIVEN_PLACES, HASHES = array(types.int32, readonly=True), array(types.uint32, readonly=True)
NUMBERS, TABLE, INTEGERS, PLACES = array(), array(FLOAT, 2), array(INTEGER), array(types.int32)
NUMBERS32, TABLE32, PLACE_TABLE = array(types.float32), array(types.float32, 2), array(types.int32, 2)
INTEGER_TABLE = array(INTEGER, 2)

PREPARED = group(GIVEN, GIVEN, GIVEN, GIVEN_TABLE, INTEGER)
LEVELS = group(GIVEN_PLACES, GIVEN_PLACES, array(types.float32, readonly=True))
LISTS = group(GIVEN_INTEGERS, INTEGER, INTEGER, PLACES)
DOCUMENTS = group(*[GIVEN] * 6)
TABLES = group(TABLE, TABLE32, PLACE_TABLE, INTEGER_TABLE)
PULL = group(FLOAT, FLOAT, FLOAT, FLOAT, FLAG, FLOAT)
SUMS = group(NUMBERS, NUMBERS)
STILL = group(GIVEN_TABLE, GIVEN_TABLE)  # the table ``rows`` once more, not writeable, and the measure's own
BIAS = group(GIVEN, GIVEN, NUMBERS, NUMBERS, GIVEN)
DRAW = group(HASHES, INTEGER, INTEGER, FLOAT)  # hashes of the labels, seed, sample, noise
SPAN = GIVEN_INTEGERS, INTEGER, INTEGER  # offsets, first, last
RANK = function(NOTHING, GIVEN, *SPAN, PLACES, TABLE, PLACE_TABLE)
