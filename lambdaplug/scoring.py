"""Rankings in scikit-learn's searches: a measure as ``scoring=``, and what a search has done that makes scores wrong."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from .callers import callers
from .errors import LambdaplugError, LambdaplugWarning
from .evaluation import Convention, Empty, Part, Ties, asked, means
from .measures import Measure
from .queries import Queries
from .values import Value, keep

__all__ = ["scorer", "warn_of_search"]


@dataclass(frozen=True, repr=False)
class scorer(Value):
    """A measure as ``scoring=`` of scikit-learn: ``GridSearchCV``, ``cross_val_score``, ``permutation_importance``.

    Parameters
    ----------
    measure : str or Measure
        What to score by.
    qid : str or array-like, optional
        Where the query ids are: the name of a column of X, or one id per row of X. Left out, what scikit-learn passes on
        (metadata routing, with which the scorer always asks for ``qid``), or the column that a ranker of lambdaplug was
        fitted with. ``permutation_importance`` takes ids per row, as it would shuffle a column.
    empty, ties, convention
        As :func:`lambdaplug.evaluate`.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> data = lp.data.cubic(queries=20, documents=8, features=5)
    >>> model = lp.LGBMRanker(objective="map", n_estimators=3, n_jobs=1, verbose=-1)
    >>> model = model.fit(data.X, data.labels, qid=data.qid)
    >>> 0.5 < lp.scorer("ndcg@5", qid=data.qid)(model, data.X, data.labels) < 1
    True
    """

    measure: str | Measure
    _: KW_ONLY
    qid: Any = None  # kept as the name of a column, or as a tuple with one id per row
    empty: Empty = "skip"
    ties: Ties = "stable"
    convention: Convention | None = None

    def __post_init__(self) -> None:
        named = self.qid is None or isinstance(self.qid, str)
        keep(self, measure=self.part().kind, qid=self.qid if named else tuple(np.asarray(self.qid).tolist()))

    def __call__(self, estimator: Any, X: Any, y: Any, qid: Any = None) -> float:
        """The mean over the queries of X, as scikit-learn asks for it."""
        last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
        told = next((one for one in (qid, self.qid, getattr(last, "query_column_", None)) if one is not None), None)
        if told is None:
            raise LambdaplugError(
                f"{self!r}: expected to be told which rows belong together: fit the ranker with the name of a column of X, "
                "fit(X, y, qid='query'); say lp.scorer(measure, qid='query'), or qid= with one id per row of X; or let "
                "scikit-learn pass qid on: sklearn.set_config(enable_metadata_routing=True)."
            )
        named = isinstance(told, str)
        if named and told not in getattr(X, "columns", ()):
            raise LambdaplugError(f"{self!r}: X has no column {told!r}, which has the query ids.")
        ids = X[told] if named else told
        warn_of_search(told)
        seen = getattr(last, "query_column_", None), *getattr(estimator, "feature_names_in_", ())
        frame = X.drop(columns=told) if named and told not in seen else X
        columns = {name: X[name] for name in getattr(last, "columns_", ())} or None
        return means([self.part()], Queries(y, None, qid=ids, columns=columns), estimator.predict(frame))[0]

    def part(self) -> Part:
        """The measure, and how it is taken."""
        return asked([self.measure], empty=self.empty, ties=self.ties, convention=self.convention)[0]

    def get_metadata_routing(self) -> Any:
        """Scikit-learn asks what is to be passed on to it: the query ids."""
        from sklearn.utils.metadata_routing import MetadataRequest

        request = MetadataRequest(owner="scorer")
        request.score.add_request(param="qid", alias=True)
        return request


def warn_of_search(qid: Any, scored_by: str | None = None) -> None:
    """Warn where scikit-learn's search, which asks for a score, has cut queries; or compares different measures.

    ``qid`` is the name of the column with the ids, or ids; ``scored_by`` the measure that a ranker scores itself by. Scikit-learn
    does not pass on which rows were trained on, but has them at hand.
    """
    found = next((frame.f_locals for frame in callers() if frame.f_code.co_name == "_fit_and_score"), None)
    if found is None or any(name not in found for name in ("X", "train", "test")):
        return
    columns = getattr(found["X"], "columns", ())
    ids = (found.get("score_params") or {}).get("qid")
    ids = found["X"][qid] if isinstance(qid, str) and qid in columns else ids
    if ids is not None:
        values = np.asarray(ids)
        cut = np.intersect1d(values[found["train"]], values[found["test"]])
        if len(cut):
            warnings.warn(
                f"queries that are scored were partly trained on, {len(cut)} of {len(np.unique(values[found['test']]))}, query "
                f"{cut[0]!s} for one: the scores are too good. Say cv=lp.query_folds(qid=ids), or cv=GroupKFold(5) with "
                "groups=ids: they cut no query.",
                LambdaplugWarning,
                stacklevel=4,
            )
    searched = [name for name in found.get("parameters") or () if name.rpartition("__")[2] == "objective"]
    if searched and scored_by is not None:
        warnings.warn(
            f"a search over {searched[0]} scores each ranker by the measure that it was trained for ({scored_by} here), so that "
            "measures are compared with each other. Say scoring=lp.scorer('ndcg@10') for all of them.",
            LambdaplugWarning,
            stacklevel=4,
        )
