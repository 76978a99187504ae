"""What is known of data sets, Boosters and objectives, for as long as they are there."""

import weakref
from typing import Any

__all__ = ["forget", "known_of"]

_known: "weakref.WeakKeyDictionary[Any, dict[str, Any]]" = weakref.WeakKeyDictionary()


def known_of(thing: Any) -> dict[str, Any]:
    """What is kept of it, by name. No value may hold the thing itself: it would never be freed."""
    return _known.setdefault(thing, {})


def forget(thing: Any) -> None:
    """Keep nothing of it, or of what is equal to it."""
    _known.pop(thing, None)
