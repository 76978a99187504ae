"""What a worker of a cluster knows while it trains, besides its rows. No host is imported here."""

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..queries import Array

__all__ = ["STAND_IN_WEIGHT", "Share", "columns_of", "is_stand_in", "set_columns", "share", "sharing"]

# LightGBM takes no data set without rows. A worker without any evaluates one row of this weight, which is not counted.
STAND_IN_WEIGHT = np.float32(1e-30)


@dataclass(frozen=True)
class Share:
    """How a worker's training belongs to that of all workers."""

    uneven: bool = False  # on some worker the weights differ within a query
    total: Callable[[Array], Array] | None = None  # adds up over the workers


_ALONE = Share()
_here = threading.local()


def share() -> Share:
    """The share of the worker whose training runs in this thread."""
    found: Share = getattr(_here, "share", _ALONE)
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


# The hosts' data sets have no room for further columns: they are kept here as long as their data set is.
_columns: "weakref.WeakKeyDictionary[Any, Mapping[str, Array]]" = weakref.WeakKeyDictionary()


def set_columns(data: Any, columns: Mapping[str, Array]) -> None:
    """Give a host's data set further columns, by name, one value per row; before it is read for the first time."""
    _columns[data] = columns


def columns_of(data: Any) -> Mapping[str, Array] | None:
    """The further columns of a host's data set; None if it was given none."""
    return _columns.get(data)


def is_stand_in(weight: npt.ArrayLike | None) -> bool:
    """Whether a data set with these weights is no more than a stand-in."""
    values = np.asarray([] if weight is None else weight)
    return values.shape == (1,) and bool(values[0] == STAND_IN_WEIGHT)
