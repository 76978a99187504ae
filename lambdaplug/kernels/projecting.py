"""How far rows move when the weights of the leaves they stand in move: several directions at a time."""

import functools
from collections.abc import Callable
from typing import Any

from .compiling import compile_kernel

__all__ = ["gather_kernel", "scatter_kernel"]


@functools.cache
def gather_kernel() -> Callable[..., None]:
    """``kernel(places, table, first, last, moves)``: ``moves[row, d]``, the sum over trees of ``table[place, d]``.

    ``places[row, tree]`` is the weight that the row has from this tree, ``table[weight, d]`` what direction d adds to a
    weight. A place is looked up once for all directions, which lie side by side.
    """

    def kernel(places: Any, table: Any, first: int, last: int, moves: Any) -> None:
        trees = places.shape[1]
        directions = table.shape[1]
        for row in range(first, last):
            for d in range(directions):
                moves[row, d] = 0.0
            for tree in range(trees):
                place = places[row, tree]
                for d in range(directions):
                    moves[row, d] += table[place, d]

    return compile_kernel(kernel)


@functools.cache
def scatter_kernel() -> Callable[..., None]:
    """``kernel(places, gradient, hessian, sums)``: add each row's two numbers to the weights it stands in."""

    def kernel(places: Any, gradient: Any, hessian: Any, sums: Any) -> None:
        for row in range(places.shape[0]):
            for tree in range(places.shape[1]):
                place = places[row, tree]
                sums[0, place] += gradient[row]
                sums[1, place] += hessian[row]

    return compile_kernel(kernel)
