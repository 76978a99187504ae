"""Measures by their text: a name, a cut-off, and other parameters in brackets."""

import ast
import difflib
import re
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from ..checking import shown
from ..errors import LambdaplugError
from .base import REGISTRY, Measure
from .tables import Cutoffs

__all__ = ["as_measure", "as_measures", "registered"]


def registered() -> dict[str, type[Measure]]:
    """Every measure of labels alone, by name."""
    return {name: kind for name, kind in REGISTRY.items() if not kind.column_fields}


def _by_word(table: dict[str, str]) -> dict[str, str]:
    return {word: name for name, words in table.items() for word in words.split()}


# Other names that are read as a measure's own, without their underscores.
ALIASES = _by_word(
    {
        "p": "precision",
        "hit": "success",
        "map": "averageprecision meanaverageprecision",
        "mrr": "reciprocalrank meanreciprocalrank",
        "dcg": "discountedcumulativegain",
        "ndcg": "normalizeddiscountedcumulativegain normaliseddiscountedcumulativegain",
        "err": "expectedreciprocalrank",
        "rbp": "rankbiasedprecision",
    }
)

# What else people call something that a measure is, or is near to: for the hint alone.
MEANINGS = ALIASES | _by_word(
    {
        "hit": "hitrate hitratio hits hr accuracy topkaccuracy",
        "pairs": "auc rocauc aucroc auroc gauc pairwise ranknet kendall tau",
        "spearman": "correlation rho pearson",
        "map": "ap aucpr prauc",
        "mrr": "rr",
        "p": "prec",
        "recall": "rec sensitivity",
        "wta": "winnertakesall top",
        "ndcg": "lambdarank lambdamart xendcg",
        "err": "pfound",
    }
)

CALIBRATION = {"logloss", "ece", "calibration", "crossentropy", "binarylogloss"}  # of rows, not of rankings

_TEXT = re.compile(r"(?P<name>[a-z_]\w*)(?:@(?P<k>\d+))?(?:\((?P<arguments>.*)\))?(?:@(?P<k_last>\d+))?", re.I | re.S)


def as_measure(measure: str | Measure) -> Measure:
    """A measure by value or by its text: a name, a cut-off, and other parameters in brackets.

    >>> as_measure("rbp(p=0.9)")
    RBP(p=0.9)
    >>> as_measure("nDCG@5(gain='linear')")
    NDCG(k=5, gain='linear')
    """
    if isinstance(measure, Measure):
        return _by_query(measure)
    if not isinstance(measure, str):
        hint = " A booster is given an object, as lp.objective('map') or lp.LambdaRank('map') make it." * hasattr(
            measure, "shape"
        )
        raise LambdaplugError(f"expected a measure or its name such as 'ndcg@10', got {shown(measure)}.{hint}")
    found = _TEXT.fullmatch(measure.strip())
    name = found["name"].lower() if found else measure.strip().lower()
    if name not in REGISTRY:
        name = ALIASES.get(name.replace("_", ""), name)
    if found is None or name not in REGISTRY:
        raise LambdaplugError(
            f"no measure {shown(measure)}.{_hint(measure)} There are: {', '.join(sorted(REGISTRY))}; "
            "a cut-off follows as in 'ndcg@10', parameters as in 'rbp(p=0.8)'."
        )
    keywords = _keywords(measure, found["arguments"])
    cuts = [k for k in (found["k"], found["k_last"]) if k is not None]
    if len(cuts) + ("k" in keywords) > 1:
        raise LambdaplugError(f"{shown(measure)} has two cut-offs: write one, as in 'ndcg@10'.")
    if cuts:
        keywords["k"] = int(cuts[0]) if len(cuts[0]) < 20 else cuts[0]  # Python converts no thousands of digits
    kind = REGISTRY[name]
    known = [field.name for field in fields(kind)]
    for key in keywords:
        if key not in known:
            what = "no cut-off" if key == "k" else f"no parameter {key!r}"
            raise LambdaplugError(f"{shown(measure)}: {name} has {what}; it takes {', '.join(known) or 'none'}.")
    return _by_query(kind(**keywords))


def _by_query(measure: Measure) -> Measure:
    """The measure as it is used, with a cut-off of each query's own where that is asked for."""
    k = getattr(measure, "k", None)
    return Cutoffs(measure, k) if isinstance(k, str) and not measure.tabled else measure


def _hint(text: str) -> str:
    """The measure that this may mean: by its words, then by its letters."""
    words = [word for word in re.findall(r"[a-z]+", text.partition("(")[0].lower()) if word not in ("at", "k")]
    known = {**MEANINGS, **{name: name for name in REGISTRY}}
    if CALIBRATION.intersection((*words, "".join(words))):
        return " lp.analysis.calibration(labels, scores) has it: it is about rows, and measures are about rankings."
    meant = [known[word] for word in ("".join(words), *words) if word in known]
    if not meant:
        alike = [difflib.get_close_matches("".join(words), known, n=1, cutoff=cutoff) for cutoff in (0.75, 0.5)]
        meant = [known[name] for found in alike for name in found]
    return f" The nearest is {meant[0]!r}." if meant else ""


def _keywords(text: str, arguments: str | None) -> dict[str, Any]:
    try:
        call = ast.parse(f"f({arguments or ''})", mode="eval").body
        if isinstance(call, ast.Call) and not call.args and all(keyword.arg for keyword in call.keywords):
            found = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
            if len(found) == len(call.keywords):
                return found
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):  # the last two: nested too deep
        pass
    raise LambdaplugError(
        f"cannot read the parameters of {shown(text)}: write them as in 'rbp(p=0.8)' or \"ndcg@10(gain='linear')\"; "
        "a callable has no text, pass the measure itself."
    )


def as_measures(measures: str | Measure | Sequence[str | Measure]) -> tuple[Measure, ...]:
    """One measure or several, as a tuple."""
    if isinstance(measures, (str, Measure)):
        return (as_measure(measures),)
    found = tuple(as_measure(measure) for measure in measures)
    named: dict[str, Measure] = {}
    for measure in found:
        if named.setdefault(str(measure), measure) != measure:
            raise LambdaplugError(
                f"two different measures are called {str(measure)!r}, and would be reported as one. Ask for one at a time."
            )
    return found
