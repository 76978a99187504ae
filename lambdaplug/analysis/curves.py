"""Numbers over the rounds of a training, or another axis, by name: what every diagnostic returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import plotting
from ..queries import Array
from ..reports import Report

__all__ = ["Curves"]


class Curves(Report, dict[str, Array]):
    """One array for each name, one value for each of ``iterations``; NaN where a round had none.

    Parameters
    ----------
    iterations : sequence
        The axis: numbers of the rounds.
    rows : sequence of mappings
        One per round: values by name.
    over : str
        What the axis is.
    unit : str
        What the values are: the plot's axis says it.

    Examples
    --------
    >>> curves = Curves([10, 20], [{"top": 0.5}, {"top": 0.7}])
    >>> curves["top"], curves.iterations
    (array([0.5, 0.7]), array([10, 20]))
    """

    def __init__(
        self,
        iterations: npt.ArrayLike,
        rows: Sequence[Mapping[str, float]],
        over: str = "iteration",
        unit: str = "value",
    ) -> None:
        self.iterations, self.over, self.unit = np.asarray(iterations), over, unit
        names = dict.fromkeys(name for row in rows for name in row)
        super().__init__({name: np.array([row.get(name, np.nan) for row in rows]) for name in names})

    def _before(self) -> list[str]:
        return [f"Curves over {len(self.iterations)} {self.over}s"]

    def _cells(self) -> list[list[str]]:
        shown = np.unique(np.linspace(0, len(self.iterations) - 1, min(10, len(self.iterations))).astype(int)).tolist()
        head = [self.over, *(f"{self.iterations[k]:g}" for k in shown)]
        return [head, *([name, *(f"{values[k]:.4g}" for k in shown)] for name, values in self.items())]

    def plot(self, ax: Any = None) -> Any:
        """All curves over the iterations; of a single one, bars. Returns Matplotlib's axes."""
        with plotting.drawing(ax) as ax:
            if len(self.iterations) == 1:
                ax.barh(list(self), [values[0] for values in self.values()])
                ax.set(xlabel=self.unit, ylabel="name")
                ax.set_title(f"{self.unit} at {self.over} {self.iterations[0]:g}".capitalize())
                return ax
            for name, values in self.items():
                ax.plot(self.iterations, values, ".-", label=name)
            ax.set(xlabel=self.over, ylabel=self.unit)
            ax.set_title(f"{self.unit} by {self.over}".capitalize())
            plotting.legend(ax)
        return ax
