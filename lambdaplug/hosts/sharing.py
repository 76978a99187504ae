"""What a worker of a cluster knows about its share of the rows, while it trains. No engine is imported here.

A host builds its data set from the share's labels and groups, and has no room for further columns. They wait here, and
are recognised by the very labels and groups that they came with.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..queries import Array

__all__ = ["STAND_IN_WEIGHT", "Rows", "Share", "is_stand_in", "share", "sharing"]

# LightGBM takes no data set without rows. A worker without any evaluates one row of this weight, which nobody counts.
STAND_IN_WEIGHT = np.float32(1e-30)


class Rows(NamedTuple):
    """A worker's rows of one data set."""

    labels: npt.NDArray[np.float32]
    sizes: npt.NDArray[np.int64]
    columns: Mapping[str, Array]  # by name, one value a row


@dataclass(frozen=True)
class Share:
    """A worker's rows of every data set of a training, and how numbers are added up over the workers."""

    rows: tuple[Rows, ...] = ()
    uneven: bool = False  # on some worker the weights differ within a query
    total: Callable[[Array], Array] | None = None

    def columns(self, labels: npt.ArrayLike, sizes: npt.ArrayLike | None) -> dict[str, Array]:
        """The further columns of the data set with these labels and groups."""
        given = np.asarray(labels, np.float32).reshape(-1)
        found: dict[str, Array] = {}
        for rows in self.rows:
            if np.array_equal(rows.labels, given) and np.array_equal(rows.sizes, np.asarray(sizes)):
                found = {**rows.columns, **found}
        return found


_NOBODY = Share()
_here = threading.local()


def share() -> Share:
    """The share of the worker whose training runs in this thread; an empty one elsewhere."""
    found: Share = getattr(_here, "share", _NOBODY)
    return found


@contextlib.contextmanager
def sharing(mine: Share) -> Iterator[None]:
    """Have ``share()`` return this one."""
    before = share()
    _here.share = mine
    try:
        yield
    finally:
        _here.share = before


def is_stand_in(weight: npt.ArrayLike | None) -> bool:
    """Whether a data set with these weights is no more than a stand-in."""
    values = np.asarray([] if weight is None else weight)
    return values.shape == (1,) and bool(values[0] == STAND_IN_WEIGHT)
