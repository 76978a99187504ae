"""What both rankers do with queries in scikit-learn's interface: ids, sizes, or a column of the frame, also in ``score``."""

import contextlib
import functools
import inspect
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from ..scoring import warn_of_search

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


def as_metric(asked: Any, ours: bool) -> Any:
    """``eval_metric`` read as ``objective`` is: a measure, or its text, is the metric it is meant for, also within a list.

    Beside an objective of the host's own (not ``ours``), its own words keep their meaning.
    """
    if isinstance(asked, (list, tuple)):
        return [as_metric(one, ours) for one in asked]
    if isinstance(asked, Objective):
        name = "map" if asked.goal is None else str(asked.goal)
        raise LambdaplugError(
            f"eval_metric: expected a metric such as lp.metric({name!r}), got the objective {asked!r}."
        )
    if isinstance(asked, str) and (ours or not _HOSTS_OWN.match(asked)):
        with contextlib.suppress(LambdaplugError):
            asked = as_measure(asked)
    return Metric.of([asked]) if isinstance(asked, Measure) else asked


_HOSTS_OWN = re.compile(r"(ndcg|map|pre|mean_average_precision)(@|$)")  # that both they and measures here are called


def add_up(metrics: Sequence[Metric]) -> Metric | None:
    """One that reports them all."""
    return functools.reduce(operator.add, metrics) if metrics else None


@contextlib.contextmanager
def host_errors(objective: Any, metric: Any = None) -> Iterator[None]:
    """Say in our words that a word for the objective, or the metric, is neither a measure's nor the host's."""
    try:
        yield
    except Exception as error:
        unknown_metric = re.search(r"Unknown metric function (\S+)", str(error))
        if unknown_metric is not None:
            raise LambdaplugError(
                f"eval_metric={metric!r}: {unknown_metric[1]!r} is neither a metric of the host's nor a measure here; measures are "
                "'ndcg@10', 'map', 'mrr', ..., or lp.metric(...)."
            ) from error
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


def _require_in(X: Any, name: Any, option: str) -> None:
    columns = getattr(X, "columns", ())
    if name not in columns:
        has = f"its columns are {shown(list(columns))}" if len(columns) else "it has none by name"
        raise LambdaplugError(f"{option}={name!r}: expected a column of the frame X; {has}.")


class QueryColumn:
    """A ranker that may be told names of columns of X that are no features, such as the query ids, and has a score."""

    objective: Any
    query_column_: str | None = None  # as told to the last fit
    columns_: tuple[str, ...] = ()  # names of X's columns that are no features, as told to it

    def _trained_for(self) -> Metric:
        """What ``score`` measures."""
        raise NotImplementedError

    def split(self, X: Any, qid: Any = None) -> tuple[Any, Any]:
        """X without its query column, and the ids: those given, or the column's of this name, or of the one fitted with."""
        X = frame(X)
        name = qid if isinstance(qid, str) else self.query_column_
        columns = getattr(X, "columns", ())
        if isinstance(qid, str):
            _require_in(X, qid, "qid")
        taken = [one for one in (name, *self.columns_) if one is not None and one in columns]
        ids = X[name] if name in taken and (qid is None or isinstance(qid, str)) else qid
        return X.drop(columns=taken) if taken else X, ids

    def own_columns(self, X: Any) -> dict[str, Any]:
        """Those of X that are no features, by name."""
        for name in self.columns_:
            _require_in(X, name, "columns")
        return {name: X[name] for name in self.columns_}

    def grouped(self, given: dict[str, Any]) -> dict[str, Any]:
        """The arguments of ``fit`` with frames that the host takes, less what is no feature, which stands beside them.

        What is given twice stays one object: by that the hosts know an evaluation set that is the training data.
        """
        told, named = given.get("qid"), given.get("columns")
        self.query_column_ = told if isinstance(told, str) else None
        self.columns_ = () if named is None or isinstance(named, Mapping) else tuple(_listed(named))
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
        if self.columns_:
            changed["columns"], *evals = (self.own_columns(frame(X)) for X in (given["X"], *frames))
            changed["eval_columns"] = evals
        return changed

    def columned(self, given: dict[str, Any]) -> list[tuple[Any, Any, dict[str, Any]]]:
        """Take the columns out of the arguments of ``fit``: (X, y, columns) of the training data and each evaluation set."""
        mine, others = given.pop("columns", None) or {}, given.pop("eval_columns", None)
        several, training = given.get("eval_X"), (given["X"], given["y"], dict(mine))
        sets = given.get("eval_set") or []
        if several is not None:
            sets = list(zip(_listed(several), _listed(given["eval_y"]), strict=True))
        others = [None] * len(sets) if others is None else _listed(others)
        if len(others) != len(sets) or not all(isinstance(one, (Mapping, type(None))) for one in others):
            raise LambdaplugError(
                f"eval_columns: expected a list with one mapping, {{'price': prices}}, for each of the {len(sets)} evaluation "
                f"sets, got {shown(others)}."
            )
        pairs = zip(sets, others, strict=True)
        return [
            training,
            *(training if X is training[0] and y is training[1] else (X, y, dict(one or {})) for (X, y), one in pairs),
        ]

    def gathered(self, things: Sequence[Any]) -> Sequence[Any]:
        """What ``score`` needs, in this process."""
        return things

    def score(
        self,
        X: Any,
        y: Any,
        *,
        qid: Any = None,
        group: Any = None,
        sample_weight: Any = None,
        columns: Mapping[str, Any] | None = None,
    ) -> float:
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
        columns : mapping, optional
            What the measure needs besides labels, by name; default the columns of X that ``fit`` was told.

        Returns
        -------
        float
        """
        rows, ids = self.split(X, qid if group is None else None)
        if columns is None and self.columns_:
            columns = self.own_columns(frame(X))
        if group is None:
            require_queries(ids)
        told = y, ids, group, sample_weight, self.predict(rows)  # type: ignore[attr-defined]
        y, ids, group, sample_weight, scores = self.gathered(told)
        sizes = group_sizes(group, None if group is not None else ids, len(y))
        metric, each = self._trained_for(), None
        warn_of_search(self.query_column_, metric.names[-1] if getattr(self, "eval_metric", None) is None else None)
        if sample_weight is not None:
            weight = np.asarray(sample_weight, dtype=np.float64)
            each = weight if len(weight) == len(sizes) else one_a_query(weight, sizes)
            if each is None:
                raise LambdaplugError("sample_weight: expected one value per query, or equal values within each query.")
            metric = metric.weighted()
        queries = Queries(y, sizes, query_weight=each, columns=columns)
        return float(metric.report(queries, scores)[-1][1])


def measure_of(objective: Any, builtin: dict[str, str]) -> Metric:
    """The measure that is trained for; of the host's own objectives, what they are named after."""
    trained = as_objective(objective)
    if isinstance(trained, Objective):
        if trained.goal is None:
            raise LambdaplugError(
                f"score: {trained!r} trains for no single measure of these labels. Name one: scoring= of scikit-learn, or "
                "lp.evaluate('ndcg', y, ranker.predict(X), qid=qid)."
            )
        return Metric.of([trained.goal])
    return Metric.of([builtin.get(trained, "ndcg") if isinstance(trained, str) else "ndcg"])
