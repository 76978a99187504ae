"""Numbers over the rounds of a training, or another axis, by name: what every diagnostic returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import plotting
from ..queries import Array
from ..tables import Report

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
    units : mapping, optional
        By name, what the values are: the plot's axis says it.

    Examples
    --------
    >>> curves = Curves([10, 20], [{"top": 0.5}, {"top": 0.7}])
    >>> curves["top"], curves.iterations
    (array([0.5, 0.7]), array([10, 20]))
    """

    def __init__(
        self,
        iterations: Sequence[int] | npt.ArrayLike,
        rows: Sequence[Mapping[str, float]],
        over: str = "iteration",
        units: Mapping[str, str] | None = None,
    ) -> None:
        axis = np.asarray(iterations)
        self.iterations = axis if axis.dtype.kind == "f" and axis.size else axis.astype(np.int64)
        self.over = over
        self.units = dict(units or {})
        names = dict.fromkeys(name for row in rows for name in row)
        super().__init__({name: np.array([row.get(name, np.nan) for row in rows]) for name in names})

    def _before(self) -> list[str]:
        return [f"Curves over {len(self.iterations)} {self.over}s"]

    def _cells(self) -> list[list[str]]:
        shown = np.unique(np.linspace(0, len(self.iterations) - 1, min(10, len(self.iterations))).astype(int)).tolist()
        head = [self.over, *(f"{self.iterations[k]:g}" for k in shown)]
        return [head, *([name, *(f"{values[k]:.4g}" for k in shown)] for name, values in self.items())]

    def __str__(self) -> str:
        lines = [f"{name}: {np.array2string(values, precision=4, threshold=6)}" for name, values in self.items()]
        return "\n".join([*self._before(), *lines])

    def plot(self, ax: Any = None, names: str | None = None) -> Any:
        """All curves, or those whose names begin with ``names``, over the iterations (a single one: as bars).

        Returns Matplotlib's axes.
        """
        chosen = {name: values for name, values in self.items() if names is None or name.startswith(names)}
        unit = "; ".join(dict.fromkeys(self.units.get(name, "value") for name in chosen))
        with plotting.drawing(ax) as ax:
            if len(self.iterations) == 1:
                ax.barh(list(chosen), [values[0] for values in chosen.values()])
                ax.invert_yaxis()  # the first name on top
                ax.set(xlabel=unit, ylabel="name")
                ax.set_title(f"{unit} at {self.over} {self.iterations[0]:g}".capitalize())
                return ax
            for name, values in chosen.items():
                ax.plot(self.iterations, values, label=name)
            ax.set(xlabel=self.over, ylabel=unit)
            ax.set_title(f"{unit} by {self.over}".capitalize())
            plotting.legend(ax)
        return ax
