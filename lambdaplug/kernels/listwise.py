"""Losses of a whole list in one or two passes over its documents.

Each kernel adds the gradient and a positive hessian. A row whose target is NaN has no label: it is no part of its list.
``weight`` is one per row, or empty. Nothing overflows, whatever the scores are.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .compiling import compile_kernel, inlinable, line, located

__all__ = ["calibrated_kernel", "list_mle_kernel", "query_rmse_kernel", "softmax_kernel"]


@functools.cache
def query_rmse_kernel() -> Callable[..., None]:
    """``kernel(scores, target, weight, (offsets, first, last), (coefficient, gradient, hessian))``."""

    def kernel(scores: Any, target: Any, weight: Any, lists: Any, into: Any) -> None:
        offsets, first, last = lists
        coefficient, gradient, hessian = into
        for query in range(first, last):
            start, stop, low = offsets[query], offsets[query + 1], offsets[query] - offsets[first]
            total = mean = 0.0
            for row in range(start, stop):
                if not np.isnan(target[row]):
                    w = weight[row] if weight.size > 0 else 1.0
                    total += w
                    mean += w * (scores[row] - target[row])
            if total == 0.0:
                continue
            mean /= total
            for row in range(start, stop):
                if not np.isnan(target[row]):
                    w = coefficient * (weight[row] if weight.size > 0 else 1.0)
                    gradient[low + row - start] += w * (scores[row] - target[row] - mean)
                    hessian[low + row - start] += w

    return compile_kernel(kernel)


@inlinable
def highest(scores: Any, target: Any, start: int, stop: int) -> float:
    """The highest score of rows that have a target; -inf where none has."""
    top = -np.inf
    for row in range(start, stop):
        if not np.isnan(target[row]) and scores[row] > top:
            top = scores[row]
    return top


@inlinable
def one_more(top: float, total: float, score: float) -> tuple[float, float]:
    """A sum of exp(score), kept as total * exp(top) with the highest score so far, after one more."""
    if score > top:
        return score, total * np.exp(top - score) + 1.0
    return top, total + np.exp(score - top)


@functools.cache
def softmax_kernel() -> Callable[..., None]:
    """``kernel(scores, target, weight, (offsets, first, last), powers, (coefficient, gradient, hessian))``.

    The cross entropy of the targets and softmax(scores); ``powers`` is scratch, as long as the longest query.
    """

    def kernel(scores: Any, target: Any, weight: Any, lists: Any, powers: Any, into: Any) -> None:
        offsets, first, last = lists
        coefficient, gradient, hessian = into
        for query in range(first, last):
            start, stop, low = offsets[query], offsets[query + 1], offsets[query] - offsets[first]
            top = highest(scores, target, start, stop)
            total = targets = 0.0
            for row in range(start, stop):
                if not np.isnan(target[row]):
                    powers[row - start] = np.exp(scores[row] - top)
                    total += powers[row - start]
                    targets += target[row] * (weight[row] if weight.size > 0 else 1.0)
            if not targets > 0.0:
                continue
            for row in range(start, stop):
                if not np.isnan(target[row]):
                    own = target[row] * (weight[row] if weight.size > 0 else 1.0)
                    p = powers[row - start] / total
                    gradient[low + row - start] += coefficient * (targets * p - own)
                    hessian[low + row - start] += coefficient * targets * p * (1.0 - p)

    return compile_kernel(kernel)


@functools.cache
def list_mle_kernel() -> Callable[..., None]:
    """``kernel(scores, target, weight, k, (offsets, first, last, order), logs, (coefficient, gradient, hessian))``.

    ``order`` is by falling target, those without one last. A stretch of equal targets has one denominator D, the sum of
    exp(score) from its first document to the last of the list, of which ``logs``, scratch of the longest query, keeps the
    logarithm. Sums over the stretches above are kept relative to the present D, which is the smallest.
    """

    def kernel(scores: Any, target: Any, weight: Any, k: int, lists: Any, logs: Any, into: Any) -> None:
        offsets, first, last, order = lists
        coefficient, gradient, hessian = into
        for query in range(first, last):
            start, n, low = located(offsets, first, query)
            ranked = line(order, 0, start, n)
            while n > 0 and np.isnan(target[start + ranked[n - 1]]):
                n -= 1
            if n == 0:
                continue
            top, total = -np.inf, 0.0
            for r in range(n - 1, -1, -1):
                top, total = one_more(top, total, scores[start + ranked[r]])
                logs[r] = top + np.log(total)
            begin = 0
            before = logs[0]
            above = above_squared = 0.0  # sums over the stretches so far of their weights, over D and D^2
            while begin < n:
                end = begin + 1
                while end < n and target[start + ranked[end]] == target[start + ranked[begin]]:
                    end += 1
                share = min(max(k - begin, 0), end - begin) / (end - begin)  # of its places that are among the first k
                fall = np.exp(logs[begin] - before)
                above *= fall
                above_squared *= fall * fall
                before = logs[begin]
                for r in range(begin, end):
                    w = share * (weight[start + ranked[r]] if weight.size > 0 else 1.0)
                    above += w
                    above_squared += w
                for r in range(begin, end):
                    row = start + ranked[r]
                    own = share * (weight[row] if weight.size > 0 else 1.0)
                    p = np.exp(scores[row] - before)
                    gradient[low + row - start] += coefficient * (p * above - own)
                    hessian[low + row - start] += coefficient * max(p * above - p * p * above_squared, 0.0)
                begin = end

    return compile_kernel(kernel)


@inlinable
def relative(score: float, small: float, least: float) -> float:
    """exp(min(score, 0) - least), given small = exp(-|score|)."""
    if least < 0.0:
        return float(np.exp(min(score, 0.0) - least))
    return 1.0 if score > 0.0 else small


@functools.cache
def calibrated_kernel() -> Callable[..., None]:
    """``kernel(scores, target, weight, share, (offsets, first, last), (coefficient, gradient, hessian))``.

    (1 - share) times the log loss of q = sigmoid(score), and share times the cross entropy of target/sum of targets and
    q/sum of q. Sums of q are kept over exp(least), which is as small as the largest q: all may underflow.
    """

    def kernel(scores: Any, target: Any, weight: Any, share: float, lists: Any, into: Any) -> None:
        offsets, first, last = lists
        coefficient, gradient, hessian = into
        for query in range(first, last):
            start, stop, low = offsets[query], offsets[query + 1], offsets[query] - offsets[first]
            top = highest(scores, target, start, stop)
            least = min(top, 0.0)
            total = targets = 0.0
            for row in range(start, stop):
                if not np.isnan(target[row]):
                    w = weight[row] if weight.size > 0 else 1.0
                    small = np.exp(-abs(scores[row]))
                    total += w * relative(scores[row], small, least) / (1.0 + small)
                    targets += w * target[row]
            listed = targets > 0.0 and total > 0.0
            for row in range(start, stop):
                if not np.isnan(target[row]):
                    w = weight[row] if weight.size > 0 else 1.0
                    s = scores[row]
                    small = np.exp(-abs(s))
                    q = (1.0 if s > 0.0 else small) / (1.0 + small)
                    rest = (small if s > 0.0 else 1.0) / (1.0 + small)
                    slope = (1.0 - share) * w * (q - target[row])
                    bend = (1.0 - share) * w * q * rest
                    if listed:
                        mine = w * relative(s, small, least) / ((1.0 + small) * total)
                        wanted = w * target[row] / targets
                        slope += share * rest * (mine - wanted)
                        bend += share * rest * (q * wanted + rest * mine)
                    gradient[low + row - start] += coefficient * slope
                    hessian[low + row - start] += coefficient * bend

    return compile_kernel(kernel)
