"""What both rankers do with queries in scikit-learn's interface: ids, sizes, or a column of the frame, also in ``score``."""

import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from ..checking import shown
from ..errors import LambdaplugError
from ..evaluation import Metric
from ..grouping import group_sizes
from ..measures import Measure, as_measure
from ..objectives import Objective, as_objective
from ..queries import Queries
from ..rows import one_a_query

__all__ = [
    "QueryColumn",
    "accepting",
    "as_metric",
    "frame",
    "host_errors",
    "measure_of",
    "require_queries",
]

F = TypeVar("F", bound=Callable[..., Any])

HOW = (
    "Pass qid= (one query id per row) or group= (the number of documents of each query). In cross_val_score and "
    "GridSearchCV: fit with the name of a column of X, as in params={'qid': 'query'}, or let scikit-learn route it: "
    "sklearn.set_config(enable_metadata_routing=True), then ranker.set_fit_request(qid=True).set_score_request(qid=True)."
)


def frame(X: Any) -> Any:
    """A Polars or Arrow frame as pandas', which every version of both hosts reads; anything else as it is."""
    return X.to_pandas() if type(X).__module__.partition(".")[0] in ("polars", "pyarrow") else X


def require_queries(qid: Any) -> None:
    """Refuse rows of which nothing is known."""
    if qid is None:
        raise LambdaplugError(f"expected to be told which rows belong together. {HOW}")


def accepting(parent: Any, *names: str) -> Callable[[F], F]:
    """Wrap a method of the parent's with keywords that it does not have: scikit-learn looks for them in the signature."""

    def decorate(method: F) -> F:
        known = inspect.signature(parent)
        added = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in names]
        functools.update_wrapper(method, parent)
        parameters = [*known.parameters.values(), *(one for one in added if one.name not in known.parameters)]
        method.__signature__ = known.replace(parameters=parameters)  # type: ignore[attr-defined]
        return method

    return decorate


def as_metric(asked: Any) -> Any:
    """A measure of lambdaplug's in ``eval_metric`` as the metric it is meant for, also within a list."""
    if isinstance(asked, (list, tuple)):
        return [as_metric(one) for one in asked]
    return Metric([asked]) if isinstance(asked, Measure) else asked


@contextlib.contextmanager
def host_errors(objective: Any) -> Iterator[None]:
    """Say in our words that a word for the objective is neither a measure's nor the host's."""
    try:
        yield
    except Exception as error:
        if (
            isinstance(error, LambdaplugError)
            or not isinstance(objective, str)
            or "objective" not in str(error).lower()
        ):
            raise
        said = re.sub(r"^\[.*?\] \S+:\d+: ", "", str(error).splitlines()[0])  # without the line of the host's source
        try:
            as_measure(objective)
        except LambdaplugError as unknown:
            raise LambdaplugError(
                f"objective={objective!r} is neither an objective of the host's ({said}) nor a measure: {unknown} A measure's "
                "name stands for lp.objective(name)."
            ) from error
        raise


def _listed(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple)) else [values]


class QueryColumn:
    """A ranker that may be told the name of the column of X that has the query ids, and has a score."""

    objective: Any
    query_column_: str | None = None  # as told to the last fit

    def _trained_for(self) -> Metric:
        """What ``score`` measures."""
        raise NotImplementedError

    def split(self, X: Any, qid: Any = None) -> tuple[Any, Any]:
        """X without its query column, and the ids: those given, or the column's of this name, or of the one fitted with."""
        X = frame(X)
        name = qid if isinstance(qid, str) else self.query_column_
        columns = getattr(X, "columns", ())
        if isinstance(qid, str) and qid not in columns:
            has = f"its columns are {shown(list(columns))}" if len(columns) else "it has none by name"
            raise LambdaplugError(f"qid={qid!r}: expected a column of the frame X; {has}.")
        if name is None or name not in columns:
            return X, qid
        return X.drop(columns=name), X[name] if qid is None or isinstance(qid, str) else qid

    def grouped(self, given: dict[str, Any]) -> dict[str, Any]:
        """The arguments of ``fit`` with frames that the host takes, less the query column, and ids wherever it stood.

        What is given twice stays one object: by that the hosts know an evaluation set that is the training data.
        """
        told = given.get("qid")
        self.query_column_ = told if isinstance(told, str) else None
        made: dict[int, tuple[Any, Any]] = {}

        def parts(X: Any, qid: Any) -> tuple[Any, Any]:
            if id(X) not in made:
                made[id(X)] = self.split(X, qid)
            return made[id(X)][0], made[id(X)][1] if qid is None or isinstance(qid, str) else qid

        changed = dict(given)
        changed["X"], changed["qid"] = parts(given["X"], told)
        several = given.get("eval_X")  # LightGBM's newer word for the frames of eval_set
        frames = [X for X, *_ in given.get("eval_set") or []] if several is None else _listed(several)
        ids = given.get("eval_qid")
        ids = [ids] * len(frames) if ids is None or isinstance(ids, str) else list(ids)
        found = [parts(X, own) for X, own in zip(frames, ids, strict=True)]
        if several is not None:
            changed["eval_X"] = tuple(X for X, _ in found)
            changed["eval_y"] = tuple(_listed(given["eval_y"]))
        elif found:
            changed["eval_set"] = [(X, *rest) for (X, _), (_, *rest) in zip(found, given["eval_set"], strict=True)]
        if given.get("eval_group") is None and any(own is not None for _, own in found):
            changed["eval_qid"] = [own for _, own in found]
        return changed

    def gathered(self, things: Sequence[Any]) -> Sequence[Any]:
        """What ``score`` needs, in this process."""
        return things

    def score(self, X: Any, y: Any, *, qid: Any = None, group: Any = None, sample_weight: Any = None) -> float:
        """How well the rows of X are ranked, by the measure trained for: the mean over queries, higher is better.

        Parameters
        ----------
        X, y : array-like
            Rows and their labels.
        qid : array-like or str, optional
            One query id per row, or the name of the column of X that has them; default the column that ``fit`` was told.
        group : array-like, optional
            In place of ``qid``: the number of documents of each query.
        sample_weight : array-like, optional
            One number per row, equal within a query (or one per query): the mean over queries is weighted by it.

        Returns
        -------
        float
        """
        rows, ids = self.split(X, qid if group is None else None)
        if group is None:
            require_queries(ids)
        told = y, ids, group, sample_weight, self.predict(rows)  # type: ignore[attr-defined]
        y, ids, group, sample_weight, scores = self.gathered(told)
        sizes = group_sizes(group, None if group is not None else ids, len(y))
        metric, each = self._trained_for(), None
        if sample_weight is not None:
            weight = np.asarray(sample_weight, dtype=np.float64)
            each = weight if len(weight) == len(sizes) else one_a_query(weight, sizes)
            if each is None:
                raise LambdaplugError("sample_weight: expected one value per query, or equal values within each query.")
            metric = metric.weighted()
        queries = Queries(y, sizes, query_weight=each)
        return float(metric.report(queries, scores, None, with_direction=False)[-1][1])


def measure_of(objective: Any, builtin: dict[str, str]) -> Metric:
    """The measure that is trained for; of the host's own objectives, what they are named after."""
    trained = as_objective(objective)
    if isinstance(trained, Objective):
        if trained.target is None:
            raise LambdaplugError(
                f"score: {trained!r} trains for no single measure of these labels. Name one: scoring= of scikit-learn, or "
                "lp.evaluate('ndcg', y, ranker.predict(X), qid=qid)."
            )
        return Metric([trained.target])
    return Metric([builtin.get(trained, "ndcg") if isinstance(trained, str) else "ndcg"])
