"""The functions that are running: what a host does not pass on, but has at hand when it calls."""

import sys
from collections.abc import Iterator
from types import FrameType

__all__ = ["callers", "method_of"]


def callers() -> Iterator[FrameType]:
    """The frames of those who have called, the innermost first.

    The hosts pass an objective its scores and data set, and a metric the same; neither says which Booster is training,
    which alone knows the round, its parameters and its trees. But the call comes from inside one of its methods. Every
    user must be able to bear that there is none: a compiled caller has no frames, nor has one in another thread.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def method_of(kind: type | tuple[()]) -> FrameType | None:
    """The innermost method of an object of this class that is running; the object is its variable ``self``."""
    for frame in callers():
        if frame.f_code.co_varnames[:1] == ("self",) and isinstance(frame.f_locals.get("self"), kind):
            return frame
    return None
