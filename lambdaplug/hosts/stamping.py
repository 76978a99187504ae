"""Deployment: a LightGBM model text that other readers of it take for a ranker's."""

import re
from typing import Any, TypeVar

from ..errors import LambdaplugError

__all__ = ["stamp"]

T = TypeVar("T")

OBJECTIVE = "objective=lambdarank"


def stamp(model: T) -> T:
    """A model trained with a lambdaplug objective, with the line ``objective=lambdarank`` that other readers want.

    LightGBM writes no objective for a model whose gradients came from Python. A ranker's scores are the plain sums of its
    trees whatever the objective was, so the line changes no prediction. Stamping twice changes nothing. XGBoost's models need
    no stamp: they carry the ``objective`` parameter of their training, such as ``rank:ndcg``.

    Parameters
    ----------
    model : lightgbm.Booster or str
        A Booster, or the model's text. It stays as it is.

    Returns
    -------
    lightgbm.Booster or str
        A new one of the same kind.

    Examples
    --------
    >>> text = stamp("tree\\nversion=v4\\nnum_class=1\\nnum_tree_per_iteration=1\\nmax_feature_idx=3\\n\\nTree=0\\n")
    >>> text.splitlines()[4:6]
    ['max_feature_idx=3', 'objective=lambdarank']
    """
    if isinstance(model, str):
        return stamp_text(model)  # type: ignore[return-value]
    if (type(model).__module__ or "").partition(".")[0] == "lightgbm" and hasattr(model, "model_to_string"):
        return _stamp_booster(model)  # type: ignore[no-any-return]
    raise LambdaplugError(
        f"stamp: expected a lightgbm.Booster or the text of its model, got {type(model).__name__}. Of LGBMRanker, give "
        "its booster_; an XGBoost model needs no stamp."
    )


def stamp_text(text: str) -> str:
    """The text with its objective said, in the place where LightGBM writes it."""
    end = "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"  # a text that was through Windows keeps its ends
    header, tree, rest = text.partition(f"{end}Tree=")
    lines = header.split(end)
    if lines[0].strip() != "tree" or not tree:
        raise LambdaplugError(
            "stamp: expected the text of a LightGBM model with at least one tree ('tree', ..., 'Tree=0', ...)."
        )
    said = [line for line in lines if line.startswith("objective=")]
    if said:
        if re.match(r"objective=(lambdarank|rank_xendcg)\b", said[0]):
            return text
        raise LambdaplugError(
            f"stamp: this model says {said[0]!r}. Only a model of a custom objective can be stamped: another objective may "
            "transform its scores."
        )
    if "num_class=1" not in lines or "num_tree_per_iteration=1" not in lines:
        raise LambdaplugError("stamp: a ranking model has one score for each row; this one has several classes.")
    places = [number for number, line in enumerate(lines) if line.startswith("max_feature_idx=")]
    if not places:
        raise LambdaplugError(
            "stamp: the model's header has no line 'max_feature_idx=': not a text that LightGBM wrote."
        )
    lines.insert(places[0] + 1, OBJECTIVE)
    # The parameters at the end repeat it, and there converters to ONNX look.
    return (
        end.join(lines) + tree + rest.replace(f"{end}[objective: custom]{end}", f"{end}[objective: lambdarank]{end}", 1)
    )


def _stamp_booster(booster: Any) -> Any:
    text = booster.model_to_string(num_iteration=-1)  # all trees; the best number of them is kept beside
    stamped = type(booster)(model_str=stamp_text(text))
    stamped.best_iteration, stamped.best_score = booster.best_iteration, booster.best_score
    return stamped
