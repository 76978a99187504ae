"""What lambdaplug raises and warns with: one class each, so that a caller can catch either."""

__all__ = ["LambdaplugError", "LambdaplugWarning"]


class LambdaplugError(ValueError):
    """Something that would have trained or measured the wrong thing; the message says what to change."""


class LambdaplugWarning(UserWarning):
    """Training goes on, but probably does not learn what was meant."""
