"""Values: objects that never change, equal and hashable by what they were made of."""

from typing import Any, NoReturn, TypeVar

from .documenting import documented

__all__ = ["Text", "Value", "called"]

V = TypeVar("V", bound="Value")


class Text(str):
    """Prints without quotes."""

    __repr__ = str.__str__


def called(name: str, *first: str, **options: tuple[Any, Any]) -> str:
    """The call that makes an object, as text: ``first`` as it is written, then every option, (value, usual one), not as usual.

    >>> called("RBP", "'x'", p=(0.5, 0.8), k=(None, None), gain=("linear", "exp2"))
    "RBP('x', p=0.5, gain='linear')"
    """
    given = {option: value for option, (value, usual) in options.items() if value != usual}
    said = [
        f"{option}={value:g}" if isinstance(value, float) else f"{option}={value!r}" for option, value in given.items()
    ]
    return f"{name}({', '.join([*first, *said])})"


class Value:
    """Base of such objects. A subclass sets its attributes, which are values themselves, by ``_set``."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        documented(cls)

    def _set(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def _with(self: V, **attributes: Any) -> V:
        """The same with other attributes, which are not checked."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, **attributes)
        return other

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(
            f"{name}: {self!r} cannot be changed after it was made. Make another one with {name}={value!r}."
        )

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{name}: {self!r} cannot be changed after it was made.")

    def _content(self) -> tuple[Any, ...]:
        return tuple(sorted(self.__dict__.items(), key=lambda item: item[0]))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Value) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash((type(self), self._content()))

    def __copy__(self: V) -> V:
        return self

    def __deepcopy__(self: V, memo: object) -> V:
        return self
