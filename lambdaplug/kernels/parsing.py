"""Text of ranking data into arrays: ``label qid:7 1:0.5 2:0.25 # comment``, one document per line."""

import functools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from .compiling import compile_kernel, inlinable

__all__ = ["LETOR_FAULTS", "LETOR_QUERY", "LETOR_WIDER", "letor_kernel", "powers_of_ten"]

LETOR_WIDER = -1  # a feature id beyond the table's columns: make it wider and go on with the line
LABEL, QUERY, FEATURE, ZERO, RISING, VALUE = range(1, 7)
LETOR_FAULTS = {
    LABEL: "a label (a finite number)",
    QUERY: "qid: and the query's id after the label",
    FEATURE: "a feature as id:value, such as 3:0.25",
    ZERO: "feature ids >= 1",
    RISING: "feature ids in rising order, each once",
    VALUE: "a number as the feature's value",
}
LETOR_QUERY = QUERY

LOWEST_POWER, HIGHEST_POWER = -70, 40  # float32 ends at about 1e-45 and 3e38, a mantissa has up to 18 digits
LARGEST = float(np.finfo(np.float32).max)
TAB, NEWLINE, RETURN, SPACE, HASH, PLUS, MINUS, POINT, ZERO_DIGIT, NINE_DIGIT, COLON = b"\t\n\r #+-.09:"
UPPER_E, LOWER_E = b"Ee"
NAN, INF, INI, ITY = tuple(b"nan"), tuple(b"inf"), tuple(b"ini"), tuple(b"ity")
QID = tuple(b"qid")
BAD = -1


@functools.cache
def powers_of_ten() -> npt.NDArray[np.float64]:
    """10^e from ``LOWEST_POWER`` on, each as the nearest number and what is missing to the exact one."""
    table = np.empty((2, HIGHEST_POWER - LOWEST_POWER + 1))
    for column, exponent in enumerate(range(LOWEST_POWER, HIGHEST_POWER + 1)):
        exact = Fraction(10) ** exponent
        table[0, column] = float(exact)
        table[1, column] = float(exact - Fraction(float(exact)))
    table.setflags(write=False)
    return table


@inlinable
def _is_digit(byte: int) -> bool:
    return ZERO_DIGIT <= byte <= NINE_DIGIT


@inlinable
def _ends(byte: int) -> bool:
    return byte in (SPACE, NEWLINE, TAB, RETURN, HASH)


@inlinable
def _skip_blanks(text: Any, at: int) -> int:
    while text[at] == SPACE or text[at] == TAB or text[at] == RETURN:
        at += 1
    return at


@inlinable
def _word(text: Any, at: int, word: tuple[int, ...]) -> Any:
    """Whether these three letters stand here, in capitals or not."""
    return text[at] | 32 == word[0] and text[at + 1] | 32 == word[1] and text[at + 2] | 32 == word[2]


@inlinable
def _named(text: Any, at: int, negative: bool) -> tuple[float, int]:
    """nan, inf or infinity."""
    value = np.nan
    if _word(text, at, NAN):
        at += 3
    elif _word(text, at, INF):
        value = -np.inf if negative else np.inf
        at += 3
        if _word(text, at, INI) and _word(text, at + 2, ITY):
            at += 5
    else:
        return 0.0, BAD
    return value, at if _ends(text[at]) else BAD


@inlinable
def _scaled(mantissa: int, exponent: int, digits: int, powers: Any) -> Any:
    """mantissa * 10^exponent, nearest; what is beyond float32 becomes its largest number (Istella has such values)."""
    if mantissa == 0 or exponent + digits < -46:
        return 0.0
    if exponent + digits > 40:
        return LARGEST
    if mantissa < 1 << 53 and -22 <= exponent <= 22:  # both numbers are exact: one rounding
        if exponent < 0:
            return mantissa / powers[0, -exponent - LOWEST_POWER]
        return min(mantissa * powers[0, exponent - LOWEST_POWER], LARGEST)
    # Twice the digits: the product's rounding error by Dekker's splitting, then the small parts.
    large = float(mantissa)
    small = float(mantissa - int(large))
    power = powers[0, exponent - LOWEST_POWER]
    product = large * power
    split = 134217729.0 * large
    large_top = split - (split - large)
    split = 134217729.0 * power
    power_top = split - (split - power)
    large_rest = large - large_top
    power_rest = power - power_top
    error = ((large_top * power_top - product) + large_top * power_rest + large_rest * power_top) + (
        large_rest * power_rest
    )
    return min(product + (error + large * powers[1, exponent - LOWEST_POWER] + small * power), LARGEST)


@inlinable
def _number(text: Any, at: int, powers: Any) -> tuple[float, int]:
    """The number that begins here and where it ends, which is ``BAD`` if there is none."""
    negative = text[at] == MINUS
    if negative or text[at] == PLUS:
        at += 1
    mantissa = 0
    digits = 0
    exponent = 0
    found = False
    fraction = 0  # 1 after the point
    while _is_digit(text[at]) or (text[at] == POINT and fraction == 0):
        if text[at] == POINT:
            fraction = 1
        else:
            found = True
            if digits < 18:
                mantissa = mantissa * 10 + (text[at] - ZERO_DIGIT)
                digits += 1 if mantissa > 0 else 0
                exponent -= fraction
            else:
                exponent += 1 - fraction
        at += 1
    if not found:
        return _named(text, at, negative)
    if text[at] == LOWER_E or text[at] == UPPER_E:
        at += 1
        down = text[at] == MINUS
        if down or text[at] == PLUS:
            at += 1
        begin = at
        power = 0
        while _is_digit(text[at]):
            power = min(power * 10 + (text[at] - ZERO_DIGIT), 1 << 30)
            at += 1
        if at == begin:
            return 0.0, BAD
        exponent += -power if down else power
    if not _ends(text[at]):
        return 0.0, BAD
    value = _scaled(mantissa, exponent, digits, powers)
    return -value if negative else value, at


@inlinable
def _whole(text: Any, at: int) -> tuple[int, int]:
    """The integer of up to 18 digits that begins here and where it ends, which is ``BAD`` if there is none."""
    value = 0
    begin = at
    while _is_digit(text[at]):
        value = value * 10 + (text[at] - ZERO_DIGIT)
        at += 1
    return value, at if 0 < at - begin <= 18 else BAD


@functools.cache
def letor_kernel() -> Callable[..., tuple[int, int, int, int, int]]:
    """``kernel(text, at, row, line, missing, powers, X, labels, qid, lines)``.

    Reads lines from ``text[at]`` on, which ends with a newline, into the arrays from ``row`` on; ``lines`` gets each
    row's line. Returns (what stopped it, where, row, line, widest feature id): 0 at the end; ``LETOR_WIDER`` before a
    line with an id beyond the columns of X, which is the last number returned; or the number of a fault.
    """

    def kernel(
        text: Any,
        at: int,
        row: int,
        line: int,
        missing: float,
        powers: Any,
        X: Any,
        labels: Any,
        qid: Any,
        lines: Any,
    ) -> tuple[int, int, int, int, int]:
        columns = X.shape[1]
        widest = 0
        while at < len(text):
            begin = at
            at = _skip_blanks(text, at)
            if text[at] != NEWLINE and text[at] != HASH:
                word = at
                label, at = _number(text, at, powers)
                if at == BAD or not np.isfinite(label):
                    return LABEL, word, row, line, widest
                word = _skip_blanks(text, at)
                if not _word(text, word, QID) or text[word + 3] != COLON:
                    return QUERY, word, row, line, widest
                negative = text[word + 4] == MINUS
                query, at = _whole(text, word + 5 if negative else word + 4)
                if at == BAD or not _ends(text[at]):
                    return QUERY, word, row, line, widest
                for column in range(columns):
                    X[row, column] = missing
                highest = 0
                at = _skip_blanks(text, at)
                while text[at] != NEWLINE and text[at] != HASH:
                    word = at
                    feature, at = _whole(text, at)
                    if at == BAD or text[at] != COLON:
                        return FEATURE, word, row, line, widest
                    if feature <= highest:
                        return ZERO if feature == 0 else RISING, word, row, line, widest
                    if feature > columns:
                        return LETOR_WIDER, begin, row, line, feature
                    highest = feature
                    value, at = _number(text, at + 1, powers)
                    if at == BAD:
                        return VALUE, word, row, line, widest
                    X[row, feature - 1] = value
                    at = _skip_blanks(text, at)
                widest = max(widest, highest)
                labels[row] = label
                qid[row] = -query if negative else query
                lines[row] = line
                row += 1
            while text[at] != NEWLINE:
                at += 1
            at += 1
            line += 1
        return 0, at, row, line, widest

    return compile_kernel(kernel)
