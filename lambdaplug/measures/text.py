"""Measures by their text: a name, a cut-off, and other parameters in brackets."""

import re
from collections.abc import Sequence

from ..checking import shown
from ..errors import LambdaplugError
from ..texts import made_of, nearest
from .base import REGISTRY, Measure
from .tables import Cutoffs

__all__ = ["as_measure", "as_measures", "registered"]

# Longer names of measures, without underscores, which are read as the short ones.
LONGER = {
    "averageprecision": "map",
    "discountedcumulativegain": "dcg",
    "expectedreciprocalrank": "err",
    "meanaverageprecision": "map",
    "meanreciprocalrank": "mrr",
    "normaliseddiscountedcumulativegain": "ndcg",
    "normalizeddiscountedcumulativegain": "ndcg",
    "precision": "p",
    "rankbiasedprecision": "rbp",
    "reciprocalrank": "mrr",
    "success": "hit",
}

# What people call something near to a measure: for the hint alone.
MEANINGS = LONGER | {
    word: name
    for name, words in {
        "err": "pfound",
        "hit": "hitrate hitratio hits hr accuracy topkaccuracy",
        "map": "ap aucpr prauc",
        "mrr": "rr",
        "ndcg": "lambdarank lambdamart xendcg",
        "p": "prec",
        "pairs": "auc rocauc aucroc auroc gauc pairwise ranknet kendall tau",
        "recall": "rec sensitivity",
        "spearman": "correlation rho pearson",
        "wta": "winnertakesall top",
    }.items()
    for word in [name, *words.split()]
}

_TEXT = re.compile(r"\s*([a-z_]\w*)(?:@(\d{1,10}))?(?:\((.*)\))?\s*", re.I | re.S)


def registered() -> dict[str, type[Measure]]:
    """Every measure of labels alone, by name."""
    return {name: kind for name, kind in REGISTRY.items() if not kind.column_fields}


def as_measure(measure: str | Measure) -> Measure:
    """A measure by value or by its text: a name, a cut-off, and other parameters in brackets.

    >>> as_measure("rbp(p=0.9)")
    RBP(p=0.9)
    >>> as_measure("nDCG@5(gain='linear')")
    NDCG(k=5, gain='linear')
    """
    if isinstance(measure, str):
        measure = _read(measure)
    if not isinstance(measure, Measure):
        raise LambdaplugError(
            f"expected a measure or its name such as 'ndcg@10', got {shown(measure)}. A booster is given an object, as "
            "lp.objective('map') or lp.LambdaRank('map') make it."
        )
    k = getattr(measure, "k", None)
    return Cutoffs(measure, k) if isinstance(k, str) and not measure.tabled else measure


def _read(text: str) -> Measure:
    found = _TEXT.fullmatch(text)
    written, k, arguments = found.groups() if found else (text, None, None)
    name = LONGER.get(written.lower().replace("_", ""), written.lower())
    if name not in REGISTRY:
        meant = nearest(re.sub("[^a-z]", "", text.partition("(")[0].lower()), MEANINGS)
        raise LambdaplugError(
            f"no measure {shown(text)}.{meant} There are: {', '.join(sorted(REGISTRY))}; a cut-off follows as in "
            "'ndcg@10', parameters as in 'rbp(p=0.8)'."
        )
    given = ", ".join(one for one in (k and f"k={k}", arguments) if one)
    made: Measure = made_of(f"{name}({given})", REGISTRY, "'ndcg@10' or \"ndcg@10(gain='linear')\"")
    return made


def as_measures(measures: str | Measure | Sequence[str | Measure]) -> tuple[Measure, ...]:
    """One measure or several, as a tuple."""
    found = tuple(map(as_measure, [measures] if isinstance(measures, (str, Measure)) else measures))
    named: dict[str, Measure] = {}
    for measure in found:
        if named.setdefault(str(measure), measure) != measure:
            raise LambdaplugError(
                f"two different measures are called {str(measure)!r}, and would be reported as one. Ask for one at a time."
            )
    return found
