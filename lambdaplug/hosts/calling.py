"""Which training is calling. The hosts pass an objective its scores and data set, and say nothing of the Booster.

LightGBM tells a Dataset that was built before nothing of the training's parameters, XGBoost tells a DMatrix nothing at
all, and neither lets a custom metric say that higher is better. The caller's frames do know: an objective runs inside
``Booster.update``, a metric inside the loop over callbacks.
"""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["by_name", "call_after_rounds", "calling", "introduce"]


def by_name(method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """A call's arguments by the names that the method's own signature gives them, ``self`` left out."""
    names = list(inspect.signature(method).parameters)[1:]
    given = dict(zip(names, args, strict=False))
    twice = sorted(given.keys() & kwargs)
    if len(args) > len(names) or twice:
        what = f"got {twice[0]!r} twice" if twice else f"takes {len(names)} arguments, got {len(args)}"
        raise TypeError(f"{method.__name__}() {what}")
    return {**given, **kwargs}


def introduce(callback: type) -> None:
    """Have XGBoost take this class for one of its callbacks: it has all their methods, but cannot be a subclass.

    XGBoost is imported for it only where nobody has imported LightGBM, which is then not the host.
    """
    known = "xgboost" in sys.modules
    if known or ("lightgbm" not in sys.modules and importlib.util.find_spec("xgboost") is not None):
        importlib.import_module("xgboost").callback.TrainingCallback.register(callback)


def call_after_rounds(function: Callable[[Any, int], None]) -> bool:
    """Have the loop of ``lgb.train`` or ``lgb.cv`` that called the caller call function(model, iteration) after each round.

    LightGBM takes an object that has ``before_iteration``, as XGBoost's callbacks must, for one to call before a round,
    and then before only; nothing would see the last round. Other callbacks, such as early stopping, come after it.
    Returns whether there is such a loop.
    """
    afterwards = sys._getframe(2).f_locals.get("callbacks_after_iter")
    if isinstance(afterwards, list):
        afterwards.insert(0, lambda env: function(env.model, env.iteration))
    return isinstance(afterwards, list)


def calling(method: Callable[..., Any], name: str = "self") -> Any:
    """The object whose method, the innermost such call, is running in this thread; None if there is none.

    With ``name``, another of that call's variables.
    """
    code = method.__code__
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code is code:
            return frame.f_locals.get(name)
        frame = frame.f_back  # type: ignore[assignment]
    return None
