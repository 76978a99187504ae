"""Text of ranking data into arrays: ``label qid:7 1:0.5 2:0.25 # comment``, one document per line."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .jit import compile_kernel, inlinable

LETOR_WIDER, LABEL, QUERY, FEATURE, RISING = range(1, 6)
LETOR_FAULTS = {
    LABEL: "a label (a finite number)",
    QUERY: "qid: and the query's id after the label",
    FEATURE: "a feature as id:value, such as 3:0.25",
    RISING: "feature ids >= 1 in rising order, each once",
}
TAB, NEWLINE, RETURN, SPACE, HASH, PLUS, MINUS, POINT, ZERO_DIGIT, NINE_DIGIT, COLON, LOWER_E = b"\t\n\r #+-.09:e"
QID, NAN, INF = tuple(b"qid"), tuple(b"nan"), tuple(b"inf")
POWERS = np.array([float(f"1e{power}") for power in range(66)])  # 18 digits divided by the last are 0 in float32
LARGEST = float(np.finfo(np.float32).max)
BAD = -1


@inlinable
def _is_digit(byte: int) -> bool:
    return ZERO_DIGIT <= byte <= NINE_DIGIT


@inlinable
def _ends(byte: int) -> bool:
    return byte in (SPACE, NEWLINE, TAB, RETURN, HASH)


@inlinable
def _after(text: Any, at: int, word: Any) -> int:
    """Where this word, in capitals or not, ends if it stands here; else ``at``."""
    for i, letter in enumerate(word):
        if text[at + i] | 32 != letter:  # a newline, with which the text ends, is no letter
            return at
    return at + len(word)


@inlinable
def _whole(text: Any, at: int) -> tuple[int, int]:
    """The digits that begin here as a number, and where they end."""
    value = 0
    while _is_digit(text[at]) and value < 1 << 40:
        value = value * 10 + (text[at] - ZERO_DIGIT)
        at += 1
    return value, at


@inlinable
def _number(text: Any, at: int) -> tuple[float, int]:
    """The number that begins here and where it ends, which is ``BAD`` if there is none."""
    sign = -1.0 if text[at] == MINUS else 1.0
    begin = at + (1 if sign < 0.0 or text[at] == PLUS else 0)
    at, mantissa, digits, exponent, points = begin, 0, 0, 0, 0
    while _is_digit(text[at]) or (text[at] == POINT and points == 0):
        if text[at] == POINT:
            points = 1
        elif mantissa < 10**17:
            mantissa = mantissa * 10 + (text[at] - ZERO_DIGIT)
            digits, exponent = digits + 1, exponent - points
        else:
            digits, exponent = digits + 1, exponent + 1 - points
        at += 1
    if digits == 0:
        is_nan = _after(text, begin, NAN) > begin
        end = _after(text, begin, NAN if is_nan else INF)
        return np.nan if is_nan else sign * np.inf, end if end > begin and _ends(text[end]) else BAD
    if text[at] | 32 == LOWER_E:
        start = at + (2 if text[at + 1] == MINUS or text[at + 1] == PLUS else 1)
        power, end = _whole(text, start)
        exponent += -power if text[at + 1] == MINUS else power
        at = end if end > start else start - 1  # a letter is no end
    size = min(abs(exponent), 65)
    value = mantissa / POWERS[size] if exponent < 0 else mantissa * POWERS[size]
    return sign * min(value, LARGEST), at if _ends(text[at]) else BAD  # Istella has values beyond float32


@inlinable
def _same(text: Any, ids: Any, row: int) -> Any:
    """Whether this row's query id is that of the row before."""
    length = ids[row, 1] - ids[row, 0]
    i = 0 if row > 0 and ids[row - 1, 1] - ids[row - 1, 0] == length else length + 1
    while i < length and text[ids[row - 1, 0] + i] == text[ids[row, 0] + i]:
        i += 1
    return i == length


@inlinable
def _next(text: Any, at: int) -> int:
    """Where the next word begins, a comment or the end of the line."""
    while text[at] == SPACE or text[at] == TAB or text[at] == RETURN:
        at += 1
    return at


@functools.cache
def letor_kernel() -> Callable[..., tuple[int, int, int, int, int]]:
    """``kernel(text, X, labels, ids)``: (0 or the number of a fault, its place, rows, lines, highest feature id).

    The text ends with a newline. ``ids`` gets where each row's query id begins and ends and, where it is not that of the row
    before, the line, 1 being the first. ``LETOR_WIDER`` is an id beyond the columns of X.
    """

    def kernel(text: Any, X: Any, labels: Any, ids: Any) -> tuple[int, int, int, int, int]:
        at = row = line = widest = 0
        while at < len(text):
            word, last = _next(text, at), 0
            if text[word] != NEWLINE and text[word] != HASH:
                labels[row], at = _number(text, word)
                if at == BAD or not np.isfinite(labels[row]):
                    return LABEL, word, row, line, widest
                word = _next(text, at)
                at = _after(text, word, QID)
                if at == word or text[at] != COLON or _ends(text[at + 1]):
                    return QUERY, word, row, line, widest
                ids[row, 0] = at + 1
                while not _ends(text[at]):
                    at += 1
                ids[row, 1] = at
                ids[row, 2] = 0 if _same(text, ids, row) else line + 1
                word = _next(text, at)
                while text[word] != NEWLINE and text[word] != HASH:
                    feature, at = _whole(text, word)
                    if at == word or text[at] != COLON:
                        return FEATURE, word, row, line, widest
                    if feature <= last:
                        return RISING, word, row, line, widest
                    if feature > X.shape[1]:
                        return LETOR_WIDER, word, row, line, feature
                    X[row, feature - 1], at = _number(text, at + 1)
                    if at == BAD:
                        return FEATURE, word, row, line, widest
                    word, last = _next(text, at), feature
                row, widest = row + 1, max(widest, last)
            at = word
            while text[at] != NEWLINE:
                at += 1
            at, line = at + 1, line + 1
        return 0, at, row, line, widest

    return compile_kernel(kernel)
