"""Noise that depends on nothing but what it is drawn for.

A document's noise is a hash of its query (seed, scores, labels), the sample and its place in the query: whoever asks, in
whatever order and on whatever machine. Everything is 32 bits wide, so that loops become packed instructions.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .jit import bits_from_float32, compile_kernel, float32_from_bits, inlinable, line, load, located
from .layout import CUT, Lists

# Odd numbers without pattern: 2^32 over the golden ratio, and two that keep the uses of one hash apart.
GOLDEN, SECOND = np.uint32(0x9E3779B9), np.uint32(0x632BE5AB)
ONE, HALF = np.float32(1.0), np.float32(0.5)
UNIT = np.float32(2.0**-23)
SQRT_2, LN_2 = np.float32(2.0**0.5), np.float32(0.6931471805599453)


@inlinable
def mixed(x: Any) -> Any:
    """A permutation of 32 bits in which every bit of the result depends on every bit of x (C. Wellons' lowbias32)."""
    x = np.uint32(x ^ (x >> np.uint32(16)))
    x = np.uint32(x * np.uint32(0x7FEB352D))
    x = np.uint32(x ^ (x >> np.uint32(15)))
    x = np.uint32(x * np.uint32(0x846CA68B))
    return np.uint32(x ^ (x >> np.uint32(16)))


@inlinable
def hashed(values: Any) -> Any:
    """32 bits of a list of numbers, as float32, in their order; a sum, so that its terms are taken side by side."""
    total = np.uint32(0)
    for r in range(len(values)):
        value = np.float32(load(values, r)) + np.float32(0.0)  # -0 is 0
        total += mixed(np.uint32(bits_from_float32(value)) + np.uint32(r) * GOLDEN)
    return total


@inlinable
def logarithm(x: Any) -> Any:
    """log(x) of a normal float32, to its precision, without a call."""
    bits = bits_from_float32(x)
    power = np.float32(np.int32((bits >> np.int32(23)) - np.int32(127)))
    m = float32_from_bits(np.int32((bits & np.int32(0x007FFFFF)) | np.int32(0x3F800000)))
    high = m > SQRT_2
    f = (m * HALF if high else m) - ONE
    power = power + ONE if high else power
    p = np.float32(7.0376836292e-2) * f - np.float32(1.1514610310e-1)
    p = p * f + np.float32(1.1676998740e-1)
    p = p * f - np.float32(1.2420140846e-1)
    p = p * f + np.float32(1.4249322787e-1)
    p = p * f - np.float32(1.6668057665e-1)
    p = p * f + np.float32(2.0000714765e-1)
    p = p * f - np.float32(2.4999993993e-1)
    p = p * f + np.float32(3.3333331174e-1)
    square = f * f
    return f + (p * f * square - HALF * square) + power * LN_2


NARROW = 60.0  # exp of scores this far apart, times any draw, is a normal float32
LOG2_E, LN_2_HIGH, LN_2_LOW = 1.4426950408889634, 0.693147180369123816490, 1.90821492927058770002e-10


@inlinable
def precise_exponential(x: float) -> Any:
    """exp(x) for |x| <= NARROW to the last digits of a float64, without a call, so that loops are vectorised."""
    power = np.floor(x * LOG2_E + 0.5)
    r = (x - power * LN_2_HIGH) - power * LN_2_LOW
    series = 1 / 3628800 + r * (1 / 39916800 + r * (1 / 479001600 + r / 6227020800))
    series = 1 / 720 + r * (1 / 5040 + r * (1 / 40320 + r * (1 / 362880 + r * series)))
    series = 1 / 6 + r * (1 / 24 + r * (1 / 120 + r * series))
    scale = float32_from_bits(np.int32((np.int32(power) + np.int32(127)) << np.int32(23)))
    return (1.0 + (r + r * r * (0.5 + r * series))) * np.float64(scale)


@inlinable
def logistic(u: Any) -> Any:
    """The logistic variate at this quantile."""
    return logarithm(u) - logarithm(ONE - u)


@inlinable
def normal(u: Any) -> Any:
    """The normal variate at this quantile: M. Giles' approximation of the inverse error function."""
    x = u + u - ONE
    w = -logarithm((ONE - x) * (ONE + x))
    near = w - np.float32(2.5)
    p = np.float32(2.81022636e-08) * near + np.float32(3.43273939e-07)
    p = p * near - np.float32(3.5233877e-06)
    p = p * near - np.float32(4.39150654e-06)
    p = p * near + np.float32(0.00021858087)
    p = p * near - np.float32(0.00125372503)
    p = p * near - np.float32(0.00417768164)
    p = p * near + np.float32(0.246640727)
    p = p * near + np.float32(1.50140941)
    far = np.sqrt(w) - np.float32(3.0)
    q = np.float32(-0.000200214257) * far + np.float32(0.000100950558)
    q = q * far + np.float32(0.00134934322)
    q = q * far - np.float32(0.00367342844)
    q = q * far + np.float32(0.00573950773)
    q = q * far - np.float32(0.0076224613)
    q = q * far + np.float32(0.00943887047)
    q = q * far + np.float32(1.00167406)
    q = q * far + np.float32(2.83297682)
    return SQRT_2 * (p if w < np.float32(5.0) else q) * x


@inlinable
def gumbel(u: Any) -> Any:
    """The Gumbel variate at this quantile: scores plus such noise rank as the Plackett-Luce model draws."""
    return -logarithm(-logarithm(u))


VARIATES: dict[str, Callable[..., Any]] = {"logistic": logistic, "normal": normal, "gumbel": gumbel}


@inlinable
def query_state(scores: Any, label_hash: Any, seed: int, sample: int) -> Any:
    """What a query's draws start from: 32 bits of its scores, hashed already, its labels, the seed and the sample."""
    training = mixed(np.uint32(seed) + mixed(np.uint32(seed >> 32) ^ mixed(np.uint32(sample) + SECOND)))
    return mixed(scores ^ mixed(label_hash ^ training))


@inlinable
def query_states(scores: Any, label_hash: Any, seed: int, sample: int) -> tuple[Any, Any]:
    """The two that ``drawn`` wants."""
    state = query_state(hashed(scores), label_hash, seed, sample)
    return state, mixed(state + SECOND)


@inlinable
def drawn(state: Any, other: Any, r: int) -> Any:
    """32 bits for a query's document r; ``other`` is mixed(state + SECOND)."""
    return mixed(mixed(np.uint32(r) * GOLDEN + state) ^ other)


@inlinable
def uniform(state: Any, other: Any, r: int) -> Any:
    """The draw of a query's document r, between 0 and 1 and never either."""
    return (np.float32(np.int32(drawn(state, other, r) >> np.uint32(9))) + HALF) * UNIT


@functools.cache
def label_hash_kernel() -> Callable[..., None]:
    """``kernel(labels, offsets, out)``: 32 bits of each query's labels."""

    def kernel(labels: Any, offsets: Any, out: Any) -> None:
        for query in range(len(out)):
            start = offsets[query]
            out[query] = hashed(line(labels, 0, start, offsets[query + 1] - start))

    return compile_kernel(kernel)


@functools.cache
def noise_kernel(kind: str) -> Callable[..., None]:
    """``kernel(scores, (label_hash, seed, sample, noise), offsets, first, last, noisy)``: scores plus noise times a variate."""
    variate = VARIATES[kind]

    def kernel(scores: Any, draw: tuple[Any, int, int, float], offsets: Any, first: int, last: int, noisy: Any) -> None:
        label_hash, seed, sample, noise = draw
        for query in range(first, last):
            start, n, _ = located(offsets, first, query)
            own, to = line(scores, 0, start, n), line(noisy, 0, start, n)
            state, other = query_states(own, label_hash[query], seed, sample)
            for r in range(n):
                to[r] = load(own, r) + noise * variate(uniform(state, other, r))

    return compile_kernel(kernel, fastmath={"nsz", "contract"})


@functools.cache
def sign_kernel() -> Callable[..., None]:
    """``kernel(scores, (label_hash, seed, sample, 0), offsets, first, last, signs)``: -1 or +1, with equal chances."""

    def kernel(scores: Any, draw: Any, offsets: Any, first: int, last: int, signs: Any) -> None:
        label_hash, seed, sample, _ = draw
        for query in range(first, last):
            start, n, low = located(offsets, first, query)
            own, to = line(scores, 0, start, n), line(signs, 0, low, n)
            state, other = query_states(own, label_hash[query], seed, sample)
            for r in range(n):
                to[r] = 1.0 if drawn(state, other, r) >> np.uint32(31) == np.uint32(0) else -1.0

    return compile_kernel(kernel)


@functools.cache
def chance_kernel() -> Callable[..., None]:
    """``kernel(scores, (label_hash, seed, sample), offsets, chances)``: a draw between 0 and 1 for each query."""

    def kernel(scores: Any, draw: tuple[Any, int, int], offsets: Any, chances: Any) -> None:
        label_hash, seed, sample = draw
        for query in range(len(label_hash)):
            start, n, _ = located(offsets, 0, query)
            state, other = query_states(line(scores, 0, start, n), label_hash[query], seed, sample)
            chances[query] = uniform(state, other, 0)

    return compile_kernel(kernel)


# --- choosing
# Documents below a cut-off whose pairs count as if they stood above it.


BEST, RANDOM, ALL = range(3)
CHOICES = {"static": BEST, "random": RANDOM, "all": ALL}
THIRD = np.uint32(0x85157AF5)  # keeps these draws apart from the noise's


@inlinable
def place_of(levels: Any, count: int, grade: float) -> int:
    """Where the grade stands among so many falling levels; -1: nowhere."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if levels[middle] > grade:
            low = middle + 1
        else:
            high = middle
    return low if low < count and levels[low] == grade else -1


@functools.cache
def choose_kernel() -> Callable[..., None]:
    """``kernel(rule, about, scores, label_hash, lists, marks, room, chosen)``: 1 for the documents chosen, 0 for the others.

    ``rule``: one of CHOICES, the cut-off and the seed. ``about``: the rows' grades, and each query's documents by falling
    grade, those without one last. ``room``: three rows of scratch, as long as the longest query: the grades in the ideal
    top, how many of each the present top lacks, and how many stand below it. Each query's cut becomes the last chosen
    document's place.
    """

    def kernel(
        rule: Any, about: Any, scores: Any, label_hash: Any, lists: Any, marks: Any, room: Any, chosen: Any
    ) -> None:
        choice, k, seed = rule
        grade, ideal = about
        lists = Lists(*lists)
        longest = room.shape[1]
        levels, lacking, below = line(room, 0, 0, longest), line(room, 1, 0, longest), line(room, 2, 0, longest)
        training = mixed(np.uint32(seed) + mixed(np.uint32(seed >> 32) ^ THIRD))
        for query in range(lists.first, lists.last):
            start, n, _ = located(lists.offsets, lists.first, query)
            cut = marks[CUT, query - lists.first]
            if cut < 0:
                continue
            top = min(k, n)
            count = 0
            for r in range(top):
                wanted = grade[start + ideal[start + r]]
                if np.isnan(wanted):
                    break
                if count == 0 or levels[count - 1] != wanted:
                    levels[count] = wanted
                    lacking[count] = 0.0
                    below[count] = 0.0
                    count += 1
                lacking[count - 1] += 1.0
            for r in range(n):
                row = start + lists.order[start + r]
                chosen[row] = 1.0 if r < top else 0.0
                level = place_of(levels, count, grade[row])
                if level >= 0 and r < top:
                    lacking[level] -= 1.0
                elif level >= 0:
                    below[level] += 1.0
            state = np.uint32(0)
            if choice == RANDOM:  # by the query's scores and labels, and by the order, which noise may have changed
                state = mixed(hashed(line(scores, 0, start, n)) ^ mixed(label_hash[query] ^ training))
                for r in range(top):
                    state = mixed(state ^ (np.uint32(lists.order[start + r]) * GOLDEN + np.uint32(r)))
            last = top
            for r in range(top, n):
                row = start + lists.order[start + r]
                level = place_of(levels, count, grade[row])
                if level < 0 or lacking[level] <= 0.0:
                    continue
                if choice == RANDOM:  # of those left below, as many as are still lacking, each set of them as likely
                    bits = mixed(mixed(np.uint32(row - start) * GOLDEN + state) ^ THIRD)
                    u = (np.float32(np.int32(bits >> np.uint32(9))) + HALF) * UNIT
                    below[level] -= 1.0
                    if u * (below[level] + 1.0) >= lacking[level]:
                        continue
                if choice != ALL:
                    lacking[level] -= 1.0
                chosen[row] = 1.0
                last = r + 1
            marks[CUT, query - lists.first] = min(cut, last)

    return compile_kernel(kernel)
