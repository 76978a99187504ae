"""What lambdaplug raises and warns with: one class each, so that a caller can catch either."""

__all__ = ["LambdaplugError", "LambdaplugWarning"]


class LambdaplugError(ValueError):
    """Something that would have trained or measured the wrong thing; the message says what to change.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> try:
    ...     lp.LambdaRank("mapp")
    ... except lp.LambdaplugError as error:
    ...     print(type(error).__name__)
    LambdaplugError
    """


class LambdaplugWarning(UserWarning):
    """Training goes on, but probably does not learn what was meant.

    Examples
    --------
    >>> import warnings
    >>> import lambdaplug as lp
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", lp.LambdaplugWarning)  # stop where it would warn
    """
