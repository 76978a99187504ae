"""Old ways to call things, which still work and say what the new one is."""

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

__all__ = ["by_name", "named", "warn_deprecated"]

F = TypeVar("F", bound=Callable[..., Any])


def warn_deprecated(message: str, stacklevel: int = 3) -> None:
    """Tell whoever called the caller of this function."""
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel)


def named(function: str, names: Sequence[str], args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """A call's arguments, those given by place under these names."""
    given = dict(zip(names, args, strict=False))
    twice = sorted(given.keys() & kwargs)
    if len(args) > len(names) or twice:
        what = f"got {twice[0]!r} twice" if twice else f"takes {len(names)} arguments, got {len(args)}"
        raise TypeError(f"{function}() {what}")
    return {**given, **kwargs}


def by_name(kept: int, *old: str) -> Callable[[F], F]:
    """For a function whose arguments are given by name after the first ``kept``; by place they were once ``old``.

    Labels and scores look alike, so an order of places cannot be changed without giving old calls another meaning.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if len(args) > kept:
                kwargs = named(function.__name__, old, args[kept:], kwargs)
                names = ", ".join(f"{name}=" for name in old[: len(args) - kept])
                warn_deprecated(
                    f"{function.__name__}: give {names} by name. Without names they are read in the old order "
                    f"({', '.join(old)}); the order everywhere else is (labels, scores, group)."
                )
                args = args[:kept]
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate
