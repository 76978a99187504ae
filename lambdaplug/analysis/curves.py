"""Numbers over the rounds of a training, or another axis, by name: what every diagnostic returns."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..queries import Array

__all__ = ["Curves"]


class Curves(dict[str, Array]):
    """One array for each name, one value for each of ``iterations``; NaN where a round had none.

    >>> curves = Curves([10, 20], [{"top": 0.5}, {"top": 0.7}])
    >>> curves["top"], curves.iterations
    (array([0.5, 0.7]), array([10, 20]))
    """

    def __init__(
        self, iterations: Sequence[int] | npt.ArrayLike, rows: Sequence[Mapping[str, float]], over: str = "round"
    ) -> None:
        axis = np.asarray(iterations)
        self.iterations = axis if axis.dtype.kind == "f" and axis.size else axis.astype(np.int64)
        self.over = over  # what the axis is
        names = dict.fromkeys(name for row in rows for name in row)
        super().__init__({name: np.array([row.get(name, np.nan) for row in rows]) for name in names})

    def __repr__(self) -> str:
        lines = [f"{name}: {np.array2string(values, precision=4, threshold=6)}" for name, values in self.items()]
        return "\n".join([f"Curves over {len(self.iterations)} {self.over}s", *lines])

    def plot(self, ax: Any = None, names: str | None = None) -> Any:
        """All curves, or those whose names begin with ``names``, over the rounds (a single round: as bars).

        Returns Matplotlib's axes.
        """
        if ax is None:
            ax = importlib.import_module("matplotlib.pyplot").subplots()[1]
        chosen = {name: values for name, values in self.items() if names is None or name.startswith(names)}
        if len(self.iterations) == 1:
            ax.barh(list(chosen), [values[0] for values in chosen.values()])
            ax.invert_yaxis()  # the first name on top
            return ax
        for name, values in chosen.items():
            ax.plot(self.iterations, values, label=name)
        ax.set_xlabel(self.over)
        ax.legend(fontsize="small")
        return ax
