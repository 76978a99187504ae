"""Noise that depends on nothing but what it is drawn for.

A document's noise is a hash of its query (seed, scores, labels), the sample and its place in the query: whoever asks, in
whatever order and on whatever machine. Everything is 32 bits wide, so that loops become packed instructions.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .compiling import (
    LANES,
    bits_from_float32,
    compile_kernel,
    float32_from_bits,
    inlinable,
    line,
    load,
    located,
    order_lanes,
)

__all__ = ["chance_kernel", "label_hash_kernel", "noise_kernel", "order_kernel", "sign_kernel"]

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


VARIATES: dict[str, Callable[..., Any]] = {"logistic": logistic, "normal": normal}


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
    """``kernel(scores, (label_hash, seed, sample), offsets, signs)``: -1 or +1 for each document, with equal chances."""

    def kernel(scores: Any, draw: tuple[Any, int, int], offsets: Any, signs: Any) -> None:
        label_hash, seed, sample = draw
        for query in range(len(label_hash)):
            start, n, _ = located(offsets, 0, query)
            own, to = line(scores, 0, start, n), line(signs, 0, start, n)
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


LOWEST, REACH = 17.0, 20.0  # log(-log(u)) is above -LOWEST and below REACH - LOWEST for every u that is drawn
SHORT = 4096  # documents whose numbers leave a float32 half of its digits


@inlinable
def draw_times(rates: Any, state: Any, other: Any, draws: Any) -> None:
    """-log(u) exp(-score), whose order is that of score plus Gumbel noise: a positive float32's bits are in its order."""
    mask = low_bits(len(draws))
    for r in range(len(draws)):
        time = -logarithm(uniform(state, other, r)) * rates[r]
        draws[r] = (bits_from_float32(time) & ~mask) | np.int32(r)


@inlinable
def draw_depths(depths: Any, scale: float, state: Any, other: Any, draws: Any) -> None:
    """The same by the logarithms, on a scale from 0 to 1: for scores of any spread, and for long lists."""
    mask = low_bits(len(draws))
    cells, per_unit = np.float32(2.0**31), np.float32(scale)
    for r in range(len(draws)):
        noise = logarithm(-logarithm(uniform(state, other, r))) + np.float32(LOWEST)
        place = (depths[r] + noise * per_unit) * cells
        cell = np.int32(place if place < LAST_CELL else LAST_CELL)
        draws[r] = (cell & ~mask) | np.int32(r)


@inlinable
def low_bits(n: int) -> Any:
    """As many ones as numbers below n need."""
    mask = 0
    while mask < n - 1:
        mask += mask + 1
    return np.int32(mask)


LAST_CELL = np.float32(2.0**31 - 128.0)  # the largest float32 that is an int32


@functools.cache
def order_kernel() -> Callable[..., None]:
    """``kernel(scores, (label_hash, seed, sample), (offsets, first, last), (depths, draws, keys), orders)``.

    LANES rankings of each query by the Plackett-Luce model of its scores: in the order of score plus Gumbel noise, of the
    samples ``sample`` and the next ones. ``orders[lane]`` are the documents by rank, the first query's at index 0.

    A key is how far down the noisy score is, with the document's number in the query in place of its last digits. Keys
    of all lanes are sorted side by side by Batcher's merge exchange (Knuth, 5.2.2 M), whose comparisons are the same
    whatever the keys. ``depths`` (float32) and ``draws`` (int32) are scratch as long as the longest query, ``keys`` LANES
    times that.
    """

    def kernel(scores: Any, draw: Any, lists: Any, room: Any, orders: Any) -> None:
        label_hash, seed, sample = draw
        offsets, first, last = lists
        depths, draws, keys = room
        for query in range(first, last):
            start, n, low = located(offsets, first, query)
            if n == 0:
                continue
            own, depth, drawn = line(scores, 0, start, n), line(depths, 0, 0, n), line(draws, 0, 0, n)
            any_score = load(own, 0)
            far = 1 if n > SHORT else 0
            for r in range(n):
                far += not abs(load(own, r) - any_score) <= NARROW
            scale = 0.0
            if far == 0:
                for r in range(n):
                    depth[r] = precise_exponential(any_score - load(own, r))
            else:
                top, bottom = -np.inf, np.inf
                for r in range(n):
                    top, bottom = max(top, load(own, r)), min(bottom, load(own, r))
                scale = 1.0 / (top - bottom + REACH)
                for r in range(n):
                    depth[r] = (top - load(own, r)) * scale
            scores_hash = hashed(own)
            for lane in range(LANES):
                state = query_state(scores_hash, label_hash[query], seed, sample + lane)
                other = mixed(state + SECOND)
                if far == 0:
                    draw_times(depth, state, other, drawn)
                else:
                    draw_depths(depth, scale, state, other, drawn)
                for r in range(n):
                    keys[r * LANES + lane] = drawn[r]
            sort_lanes(keys, n)
            mask = low_bits(n)
            for lane in range(LANES):
                ranked = line(orders, lane, low, n)
                for r in range(n):
                    ranked[r] = keys[r * LANES + lane] & mask

    return compile_kernel(kernel, fastmath={"nsz", "contract"})


@inlinable
def sort_lanes(keys: Any, n: int) -> None:
    """Sort n rows of LANES keys, each lane by itself."""
    half = 1
    while 2 * half < n:
        half += half
    p = half if n > 1 else 0
    while p > 0:
        q, r, d = half, 0, p
        while True:
            if p == 1:  # a quarter of all passes, in half the time
                for i in range(r, n - d, 2):
                    order_lanes(keys, i * LANES, (i + d) * LANES)
            else:
                for begin in range(r, n - d, p + p):
                    for i in range(begin, min(begin + p, n - d)):
                        order_lanes(keys, i * LANES, (i + d) * LANES)
            if q == p:
                break
            d, q, r = q - p, q // 2, p
        p //= 2
