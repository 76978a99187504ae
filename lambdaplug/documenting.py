"""Docstrings without their repetitions: texts of parameters that several classes or functions have in common stand here once.

``documented`` makes a full numpydoc docstring of a short one. Names in braces on a line of their own become these texts,
a paragraph ``References: ...`` and the first ``>>>`` get their headings.

>>> @documented
... def precision(k):
...     '''P@k.
...
...     {k}
...     References: C. J. van Rijsbergen (1979), "Information Retrieval".
...
...     >>> lp.evaluate("p@1", labels=[1], scores=[0], group=[1])
...     {'p@1': 1.0}
...     '''
>>> print(precision.__doc__.partition("\\n>>>")[0])
P@k.
<BLANKLINE>
Parameters
----------
k : int or None
    The last rank that counts; None: all ranks.
<BLANKLINE>
References
----------
C. J. van Rijsbergen (1979), "Information Retrieval".
<BLANKLINE>
Examples
--------
"""

import inspect
import re
from typing import Any, TypeVar

__all__ = ["TEXTS", "documented"]

T = TypeVar("T")

# By a name that is the parameter's own where there is one text for it; in alphabetical order.
TEXTS = {
    "cumulated_gain": """\
References: K. Järvelin, J. Kekäläinen (2002), "Cumulated gain-based evaluation of IR techniques", ACM TOIS 20(4).""",
    "curves": """\
Returns
-------
Curves
    Arrays by name, one value per round, with ``.plot()``.""",
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
    "ranker_objective": """\
objective : str, Measure or Objective
    A measure, by its text or as an object, means ``lp.objective(measure)``; the host's own words (``"lambdarank"``,
    ``"rank:ndcg"``) keep their meaning.""",
    "relevant": """\
relevant : float
    Documents with a label >= this are relevant.""",
    "scores_of_rounds": """\
scores : array-like
    Of one ranking, one per row, or of several rounds, [round, row].""",
    "ties": """\
ties : 'stable', 'worst', 'best' or 'expected'
    How equal scores stand: in row order, the lowest gains first, the highest first, or the exact mean over all orders.""",
    "weights_of_queries": """\
Weights are one per query: a query's value has no parts that documents' weights could belong to.""",
}

_FIELDS = re.compile(r"^\{\w+\}(?: \{\w+\})*$", re.M)
_REFERENCES = re.compile(r"\n+References: ")
_EXAMPLES = re.compile(r"\n\n(?=>>> )")


def documented(thing: T) -> T:
    """The class or function with its docstring in full: a decorator. Bases of many classes call it for each of them.

    Those of users, with docstrings of their own kind, are left as they are.
    """
    short: Any = vars(thing).get("__doc__") if isinstance(thing, type) else thing.__doc__
    ours = thing.__module__.partition(".")[0] == __name__.partition(".")[0]
    if not short or not ours:  # python -OO has none
        return thing
    text = inspect.cleandoc(short)
    if "\nParameters\n---" not in text and "\nAttributes\n---" not in text:
        text = _FIELDS.sub(lambda fields: _heading("Parameters") + fields[0], text, count=1)
    text = _FIELDS.sub(lambda fields: "\n".join(map(_text, fields[0].split())), text)
    text = _REFERENCES.sub(f"\n\n{_heading('References')}", text)
    if "\nExamples\n---" not in text:
        text = _EXAMPLES.sub(f"\n\n{_heading('Examples')}>>> import lambdaplug as lp\n", text, count=1)
    thing.__doc__ = text
    return thing


def _heading(name: str) -> str:
    return f"{name}\n{'-' * len(name)}\n"


def _text(field: str) -> str:
    if field[1:-1] not in TEXTS:
        raise LookupError(f"a docstring has the field {field}; there are {', '.join(TEXTS)}.")
    return TEXTS[field[1:-1]]
