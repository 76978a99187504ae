"""Values: objects that never change, equal and hashable by what they were made of, and printed as the call that makes them.

Every objective, measure, cost, construction and schedule is one: a frozen dataclass whose fields are its public parameters, in
the order of its signature. ``eq``, ``hash``, ``pickle`` and ``dataclasses.replace`` are the dataclass'; ``repr`` is that of
``Value``, so ``repr=False`` keeps the dataclass from writing another.

>>> from collections.abc import Sequence
>>> from dataclasses import KW_ONLY, dataclass, replace
>>> from lambdaplug.checking import positive
>>> @dataclass(frozen=True, repr=False)
... class Spring(Value):
...     terms: Sequence[float]
...     _: KW_ONLY
...     stiffness: float = 1.0
...     step: str | None = None
...
...     def __post_init__(self):
...         keep(self, terms=tuple(self.terms), stiffness=positive(self.stiffness, "stiffness"))
...         if self.step not in (None, "newton", "gradient"):
...             raise LambdaplugError(f"step: expected 'newton' or 'gradient', got {self.step!r}.")
...
...     @property
...     def unit(self) -> bool:
...         return self.step == "gradient"
>>> spring = Spring([1, 2.5], stiffness=2.0)
>>> spring
Spring([1, 2.5], stiffness=2)
>>> replace(spring, stiffness=1) == Spring([1, 2.5])
True

The pattern:

- A field keeps one form, which ``__post_init__`` makes of all that is allowed: a tuple of a list, a measure of its text, Python's
  numbers of NumPy's. It is run again by ``replace``, so what it keeps it must also take.
- A field holds what was said. What follows from several fields (``unit``) is a property; a default that depends on another field
  is ``None`` in the field, and a property says what it comes to.
- A field that takes several forms is declared with all of them, as type checkers read the signature from it
  (``measure: str | Measure``); a property with the one type (``cast(Measure, self.measure)``) serves the code inside.
- ``repr`` writes the first fields by place if they have no default and are no numbers, all others by name, and only where they
  differ from their default. A class that
  is called by another name than its own says so in ``called_as`` (``"presets.lightgbm"``); one that is written differently as a
  field of another value, as measures are, in ``written``.
- Constants of a class are ``ClassVar``. No arrays, no compiled code, no state of a training.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

__all__ = ["Value", "keep", "literal"]


def keep(value: object, **fields: Any) -> None:
    """Set fields of a frozen dataclass, in its ``__post_init__`` alone."""
    for name, kept in fields.items():
        object.__setattr__(value, name, kept)


def literal(value: object) -> str:
    """A field as text. A function has none that could be read back: it is shown in angle brackets.

    >>> literal((0.5, 2.0, "log", None)), literal(((0.5, "a"), (1e9, "b")))
    ("[0.5, 2, 'log', None]", "[(0.5, 'a'), (1e+09, 'b')]")
    """
    if isinstance(value, Value):
        return value.written()
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    if isinstance(value, (list, tuple)):
        inside = [f"({', '.join(map(literal, one))})" if isinstance(one, tuple) else literal(one) for one in value]
        return f"[{', '.join(inside)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{literal(key)}: {literal(one)}' for key, one in value.items())}}}"
    if callable(value) and hasattr(value, "__qualname__"):
        return f"<{value.__module__}.{value.__qualname__}>"
    return repr(value)


class Value:
    """Base of such objects; see the top of this file."""

    called_as: ClassVar[str] = ""  # the name it is called by, if not the class'

    def __repr__(self) -> str:
        words: list[str] = []
        named = False
        own: Any = self
        for field in sorted(dataclasses.fields(own), key=lambda field: bool(field.kw_only)):
            value = getattr(self, field.name)
            if value != field.default:
                required = field.default is dataclasses.MISSING and not field.kw_only
                named = named or not required or isinstance(value, (int, float))
                words.append(f"{field.name}={literal(value)}" if named else literal(value))
        return f"{self.called_as or type(self).__name__}({', '.join(words)})"

    def written(self) -> str:
        """Its text as a field of another value."""
        return repr(self)
