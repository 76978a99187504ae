"""Parameters that several classes or functions document in the same words: their text stands here once.

A docstring has the text's name in braces on a line of its own; ``documented`` puts the text in its place.

>>> import inspect
>>> @documented
... def precision(k):
...     '''Parameters
...     ----------
...     {k}
...     '''
>>> print(inspect.getdoc(precision))
Parameters
----------
k : int or None
    The last rank that counts; None: all ranks.
"""

import re
from typing import Any, TypeVar

__all__ = ["TEXTS", "documented"]

T = TypeVar("T")

# By a name that is the parameter's own where there is one text for it; in alphabetical order.
TEXTS = {
    "discount": """\
discount : 'log2', sequence or callable
    What a rank counts: 1/log2(1 + rank), one number per rank (0 beyond them), or a function of the rank.""",
    "draws_seed": """\
seed : int
    Of the draws.""",
    "empty": """\
empty : 'skip', 0 or 1
    What a query counts where a measure is undefined (nothing relevant, no documents): left out, 0 as in trec_eval, or 1 as
    in LightGBM and XGBoost.""",
    "gain": """\
gain : 'exp2', 'linear', sequence or callable
    What a label is worth: 2^label - 1, the label, one gain per label 0, 1, ..., or a function of the label.""",
    "group": """\
group : array-like
    The number of documents of each query, in order.""",
    "iterations": """\
iterations : array-like, optional
    The numbers of the rounds; default 0, 1, ...""",
    "k": """\
k : int or None
    The last rank that counts; None: all ranks.""",
    "k_required": """\
k : int
    The last rank that counts; it must be given.""",
    "label_source": """\
labels : array-like, optional
    Another label source, one value per row in the data set's row order; default the data set's labels.""",
    "label_source_of_lists": """\
labels : array-like, optional
    Another label source, one value per row in the data set's row order; default the data set's labels. Rows with NaN
    are no part of their list.""",
    "labels": """\
labels : array-like
    One label per row.""",
    "max_label": """\
max_label : float or None
    lmax; None: the data's largest label. Give it where training and test data may differ in it.""",
    "mixture_options": """\
step, normalize, guard : optional
    As for :class:`Mixture`.""",
    "normalize_both": """\
normalize : 'std', 'none' or None
    'std' divides each query's gradients (and hessians) by the standard deviation of its gradients.""",
    "normalize_std": """\
normalize : str, optional
    ``"std"`` (default) divides each query's gradients by their standard deviation, ``"none"`` does not.""",
    "progress": """\
progress : bool
    Whether to show a progress bar.""",
    "qid": """\
qid : array-like, optional
    In place of ``group``: one query id per row, numbers or text, the rows of a query next to each other.""",
    "relevant": """\
relevant : float
    Documents with a label >= this are relevant.""",
    "ties": """\
ties : 'stable', 'worst', 'best' or 'expected'
    How equal scores stand: in row order, the lowest gains first, the highest first, or the exact mean over all orders.""",
    "weights_of_queries": """\
Weights are one per query: a query's value has no parts that documents' weights could belong to.""",
}

_FIELD = re.compile(r"^( *)\{(\w+)\}$", re.M)


def documented(thing: T) -> T:
    """The class or function with its docstring filled in: a decorator. Bases of many classes call it for each of them."""
    text: Any = vars(thing).get("__doc__") if isinstance(thing, type) else thing.__doc__
    if text:  # python -OO has none
        thing.__doc__ = _FIELD.sub(lambda field: _filled(field, thing), text)
    return thing


def _filled(field: "re.Match[str]", thing: object) -> str:
    if field[2] not in TEXTS:
        raise LookupError(
            f"{thing!r}: its docstring has the field {field[0].strip()}, and documenting.TEXTS no such text."
        )
    return "\n".join(field[1] + line if line else "" for line in TEXTS[field[2]].splitlines())
