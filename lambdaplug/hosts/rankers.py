"""What both rankers do with queries in scikit-learn's interface: ids, sizes, or a column of the frame, also in ``score``."""

import contextlib
import functools
import inspect
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from ..checking import shown
from ..errors import LambdaplugError
from ..evaluation import Metric
from ..grouping import group_sizes
from ..measures import Measure, as_measure
from ..objectives import Objective, as_objective
from ..queries import Queries
from ..rows import one_a_query
from ..scoring import warn_of_search

__all__ = ["QueryColumn", "RowSet", "accepting", "as_metric", "evaluated", "for_each", "host_errors", "measure_of"]

F = TypeVar("F", bound=Callable[..., Any])

HOW = (
    "Pass qid= (one query id per row) or group= (the number of documents of each query). In cross_val_score and "
    "GridSearchCV: fit with the name of a column of X, as in params={'qid': 'query'}, or let scikit-learn route it: "
    "sklearn.set_config(enable_metadata_routing=True), then ranker.set_fit_request(qid=True).set_score_request(qid=True)."
)


def frame(X: Any) -> Any:
    """A Polars or Arrow frame as pandas', which every version of both hosts reads; anything else as it is."""
    return X.to_pandas() if type(X).__module__.partition(".")[0] in ("polars", "pyarrow") else X


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
    except LambdaplugError:
        raise
    except Exception as error:
        said = re.sub(r"^\[.*?\] \S+:\d+: ", "", str(error).splitlines()[0])  # without the line of the host's source
        for option, given, words in (("eval_metric", metric, "Unknown metric"), ("objective", objective, "objective")):
            word = next((one for one in _listed(given) if isinstance(one, str) and one in said), given)
            if words in said and isinstance(word, str):
                try:
                    as_measure(word)
                except LambdaplugError as unknown:
                    raise LambdaplugError(
                        f"{option}={word!r} is neither a word of the host's ({said}) nor a measure: {unknown}"
                    ) from error
        raise


def _listed(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _require_in(X: Any, name: Any, option: str) -> None:
    columns = getattr(X, "columns", ())
    if name not in columns:
        has = f"its columns are {shown(list(columns))}" if len(columns) else "it has none by name"
        raise LambdaplugError(f"{option}={name!r}: expected a column of the frame X; {has}.")


class RowSet(NamedTuple):
    """The rows of one data set of a ranker's ``fit``."""

    X: Any  # without the columns that are no features
    y: Any
    sizes: npt.NDArray[np.int64]
    columns: Mapping[str, Any]


class QueryColumn:
    """A ranker that may be told names of columns of X that are no features, such as the query ids, and has a score."""

    objective: Any
    usual_column: str | None = None  # of a frame, that has query ids without being told
    query_column_: str | None = None  # as told to the last fit
    columns_: tuple[str, ...] = ()  # names of X's columns that are no features, as told to it

    def _trained_for(self) -> Metric:
        """What ``score`` measures."""
        raise NotImplementedError

    def split(self, X: Any, qid: Any = None) -> tuple[Any, Any]:
        """X without its query column, and the ids: those given, or the column's of this name, or of the one fitted with."""
        X = frame(X)
        name = qid if isinstance(qid, str) else self.query_column_ or self.usual_column
        columns = getattr(X, "columns", ())
        if isinstance(qid, str):
            _require_in(X, qid, "qid")
        taken = [one for one in (name, *self.columns_) if one is not None and one in columns]
        ids = X[name] if name in taken and (qid is None or isinstance(qid, str)) else qid
        return X.drop(columns=taken) if taken else X, ids

    def own_columns(self, X: Any) -> dict[str, Any]:
        """Those of X that are no features, by name."""
        X = frame(X)
        for name in self.columns_:
            _require_in(X, name, "columns")
        return {name: X[name] for name in self.columns_}

    def sizes_of(self, qid: Any, group: Any, rows: int) -> npt.NDArray[np.int64]:
        """The number of rows of each query."""
        if qid is None and group is None:
            raise LambdaplugError(f"expected to be told which rows belong together. {HOW}")
        return group_sizes(group, qid, rows)

    def sets(self, given: dict[str, Any]) -> list[RowSet]:
        """The training data and every evaluation set, of which the arguments of ``fit`` are left with what every host takes.

        An evaluation set that is the training data is the same object: by that the hosts know it.
        """
        X, y, group, qid, columns = (given.pop(name, None) for name in ("X", "y", "group", "qid", "columns"))
        usual = self.usual_column if self.usual_column in getattr(X, "columns", ()) else None
        self.query_column_ = qid if isinstance(qid, str) else usual if qid is None and group is None else None
        self.columns_ = () if columns is None or isinstance(columns, Mapping) else tuple(_listed(columns))
        evals = evaluated(given)
        names = "eval_group", "eval_qid", "eval_columns"
        further = [for_each(name, given.pop(name, None), len(evals)) for name in names]
        rest = group, qid, columns
        found = [self._rows(X, y, *rest)]
        for (other, labels), *own in zip(evals, *further, strict=True):
            alike = all(one is None or one is same for one, same in zip(own, rest, strict=True))
            again = other is X and labels is y and alike
            found.append(found[0] if again else self._rows(other, labels, *own, where="eval_set: "))
        given |= {"X": found[0].X, "y": y, "group": found[0].sizes}
        if evals:
            given |= {"eval_set": [one[:2] for one in found[1:]], "eval_group": [one.sizes for one in found[1:]]}
        return found

    def _rows(self, X: Any, y: Any, group: Any, qid: Any, columns: Any, *, where: str = "") -> RowSet:
        features, ids = self.split(X, qid)
        if where and group is None and ids is None:
            raise LambdaplugError(f"{where}expected eval_qid= or eval_group= with it, one for each evaluation set.")
        sizes = self.sizes_of(ids if group is None else qid, group, len(y))
        own = self.own_columns(X) if self.columns_ else columns or {}
        if not isinstance(own, Mapping):
            raise LambdaplugError(
                f"{where}expected columns as a mapping, {{'price': prices}} (a list of them in eval_columns), got {shown(own)}."
            )
        return RowSet(features, y, sizes, own)

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
            columns = self.own_columns(X)
        told = y, None if group is not None else ids, group, sample_weight, self.predict(rows)  # type: ignore[attr-defined]
        y, ids, group, sample_weight, scores = self.gathered(told)
        sizes, metric, each = self.sizes_of(ids, group, len(y)), self._trained_for(), None
        warn_of_search(self.query_column_, metric.names[-1] if getattr(self, "eval_metric", None) is None else None)
        if sample_weight is not None:
            weight = np.asarray(sample_weight, dtype=np.float64)
            each = weight if len(weight) == len(sizes) else one_a_query(weight, sizes)
            if each is None:
                raise LambdaplugError("sample_weight: expected one value per query, or equal values within each query.")
            metric = metric.weighted()
        queries = Queries(y, sizes, query_weight=each, columns=columns)
        return float(metric.report(queries, scores)[-1][1])


def evaluated(given: dict[str, Any]) -> list[tuple[Any, Any]]:
    """(X, y) of every evaluation set, taken out of the arguments of ``fit``; ``eval_X`` and ``eval_y`` are LightGBM's newer words."""
    pairs = zip(_listed(given.pop("eval_X", None)), _listed(given.pop("eval_y", None)), strict=True)
    return [*(given.pop("eval_set", None) or ()), *(pair for pair in pairs if pair[0] is not None)]


def for_each(name: str, values: Any, count: int) -> list[Any]:
    """One for each evaluation set; the name of a column is that of all."""
    several = [values] * count if values is None or isinstance(values, str) else _listed(values)
    if len(several) != count:
        raise LambdaplugError(f"{name}: expected one for each of the {count} evaluation sets, got {len(several)}.")
    return several


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
