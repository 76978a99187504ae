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


def single(*numbers: float) -> tuple[Any, ...]:
    return tuple(np.float32(number) for number in numbers)


# Polynomials, the highest power first: of the logarithm, and of the normal variate near its centre and far from it.
LOG = single(
    *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
    *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)
NEAR_CENTRE = single(
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
FAR_OUT = single(
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)


@inlinable
def polynomial(terms: Any, x: Any) -> Any:
    a, b, c, d, e, f, g, h, last = terms
    return (((((((a * x + b) * x + c) * x + d) * x + e) * x + f) * x + g) * x + h) * x + last


@inlinable
def logarithm(x: Any) -> Any:
    """log(x) of a normal float32, to its precision, without a call."""
    bits = bits_from_float32(x)
    power = np.float32(np.int32((bits >> np.int32(23)) - np.int32(127)))
    m = float32_from_bits(np.int32((bits & np.int32(0x007FFFFF)) | np.int32(0x3F800000)))
    high = m > SQRT_2
    f = (m * HALF if high else m) - ONE
    power = power + ONE if high else power
    square = f * f
    return f + (polynomial(LOG, f) * f * square - HALF * square) + power * LN_2


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
    near, far = polynomial(NEAR_CENTRE, w - np.float32(2.5)), polynomial(FAR_OUT, np.sqrt(w) - np.float32(3.0))
    return SQRT_2 * (near if w < np.float32(5.0) else far) * x


@inlinable
def gumbel(u: Any) -> Any:
    """The Gumbel variate at this quantile: scores plus such noise rank as the Plackett-Luce model draws."""
    return -logarithm(-logarithm(u))


@inlinable
def sign(u: Any) -> Any:
    """-1 or +1, with equal chances."""
    return ONE if u < HALF else -ONE


NOISE_KINDS = "logistic", "normal", "gumbel"
VARIATES: dict[str, Callable[..., Any]] = {"logistic": logistic, "normal": normal, "gumbel": gumbel, "sign": sign}


@inlinable
def query_states(scores: Any, label_hash: Any, seed: int, sample: int) -> tuple[Any, Any]:
    """What a query's draws start from: 64 bits of its scores, its labels, which are hashed already, the seed and the sample."""
    training = mixed(np.uint32(seed) + mixed(np.uint32(seed >> 32) ^ mixed(np.uint32(sample) + SECOND)))
    state = mixed(hashed(scores) ^ mixed(label_hash ^ training))
    return state, mixed(state + SECOND)


@inlinable
def uniform(bits: Any) -> Any:
    """A number between 0 and 1 and never either, of 32 bits."""
    return (np.float32(np.int32(bits >> np.uint32(9))) + HALF) * UNIT


@inlinable
def drawn(states: tuple[Any, Any], r: int) -> Any:
    """The number of a query's document r."""
    return uniform(mixed(mixed(np.uint32(r) * GOLDEN + states[0]) ^ states[1]))


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
            states = query_states(own, label_hash[query], seed, sample)
            for r in range(n):
                to[r] = load(own, r) + noise * variate(drawn(states, r))

    return compile_kernel(kernel, fastmath={"nsz", "contract"})


@functools.cache
def chance_kernel() -> Callable[..., None]:
    """``kernel(scores, (label_hash, seed, sample), offsets, chances)``: a draw between 0 and 1 for each query."""

    def kernel(scores: Any, draw: tuple[Any, int, int], offsets: Any, chances: Any) -> None:
        label_hash, seed, sample = draw
        for query in range(len(label_hash)):
            start, n, _ = located(offsets, 0, query)
            chances[query] = drawn(query_states(line(scores, 0, start, n), label_hash[query], seed, sample), 0)

    return compile_kernel(kernel)


# --- choosing
# Documents below a cut-off whose pairs count as if they stood above it.


BEST, RANDOM, ALL = range(3)
CHOICES = {"static": BEST, "random": RANDOM, "all": ALL}
THIRD = np.uint32(0x85157AF5)  # keeps these draws apart from the noise's


@functools.cache
def choose_kernel() -> Callable[..., None]:
    """``kernel(rule, about, scores, label_hash, lists, marks, room, chosen)``: 1 for the documents chosen, 0 for the others.

    ``rule``: one of CHOICES, the cut-off and the seed. ``about``: each row's level, 0, 1, ... by rising grade, or -1: none.
    ``room``: three rows of scratch, as long as the longest query: of each level how many documents the present top lacks of
    the ideal top's, and how many stand below it. Each query's cut becomes the last chosen document's place.
    """

    def kernel(
        rule: Any, about: Any, scores: Any, label_hash: Any, lists: Any, marks: Any, room: Any, chosen: Any
    ) -> None:
        choice, k, seed = rule
        lists = Lists(*lists)
        lacking, below = line(room, 0, 0, room.shape[1]), line(room, 1, 0, room.shape[1])
        training = mixed(np.uint32(seed) + mixed(np.uint32(seed >> 32) ^ THIRD))
        for query in range(lists.first, lists.last):
            start, n, _ = located(lists.offsets, lists.first, query)
            cut = marks[CUT, query - lists.first]
            if cut < 0:
                continue
            top = min(k, n)
            level, order = line(about, 0, start, n), line(lists.order, 0, start, n)
            for r in range(n):
                lacking[r] = below[r] = 0.0
            for r in range(n):
                chosen[start + order[r]] = 1.0 if r < top else 0.0
                if level[order[r]] >= 0:
                    lacking[level[order[r]]] += 1.0
                    below[level[order[r]]] += 1.0 if r >= top else 0.0
            left = float(top)
            for which in range(n - 1, -1, -1):  # the ideal top has the highest levels
                ideal = min(lacking[which], left)
                left -= ideal
                lacking[which] = ideal - (lacking[which] - below[which])
            state = np.uint32(0)
            if choice == RANDOM:  # by the query's scores and labels, and by the order, which noise may have changed
                state = mixed(hashed(line(scores, 0, start, n)) ^ mixed(label_hash[query] ^ training))
                for r in range(top):
                    state = mixed(state ^ (np.uint32(order[r]) * GOLDEN + np.uint32(r)))
            last = top
            for r in range(top, n):
                which = level[order[r]]
                if which < 0 or lacking[which] <= 0.0:
                    continue
                if choice == RANDOM:  # of those left below, as many as are still lacking, each set of them as likely
                    u = uniform(mixed(mixed(np.uint32(order[r]) * GOLDEN + state) ^ THIRD))
                    below[which] -= 1.0
                    if u * (below[which] + 1.0) >= lacking[which]:
                        continue
                if choice != ALL:
                    lacking[which] -= 1.0
                chosen[start + order[r]] = 1.0
                last = r + 1
            marks[CUT, query - lists.first] = min(cut, last)

    return compile_kernel(kernel)
