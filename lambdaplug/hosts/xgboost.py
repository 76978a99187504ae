"""XGBoost: reading a DMatrix, batches for one larger than memory, a ranker that takes lambdaplug's objectives."""

import functools
import gc
import json
import operator
import re
import sys
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost as xgb

from ..data import whole_queries
from ..documenting import documented
from ..errors import LambdaplugError, LambdaplugWarning
from ..evaluation import Metric
from ..folds import held_rows
from ..grouping import group_sizes, query_sizes
from ..measures import Measure
from ..objectives import Objective, as_objective
from ..queries import Array, Queries
from ..rows import one_a_query, sizes_of
from ..training import Grown
from .base import Host, by_name, calling, waiting
from .callback import Callback, with_callback
from .estimators import QueryColumn, as_metric, frame, host_errors, measure_of, require_queries
from .following import introduce
from .recorder import Recorder
from .sharing import columns_of

__all__ = ["HOST", "XGBDataIter", "XGBRanker", "metrics_of", "plain_parameters"]

Raw = tuple[npt.NDArray[Any], ...]


introduce(Callback)
introduce(Recorder)


class XGBoost(Host):
    """What XGBoost knows."""

    name = "XGBoost"
    hessian_floor = "min_child_weight"
    directed = False

    def __init__(self) -> None:
        super().__init__(xgb.Booster, xgb.core)
        self._threads: weakref.WeakKeyDictionary[xgb.Booster, int] = weakref.WeakKeyDictionary()
        # What we have reported while an EarlyStopping has not said which way it looks.
        self._undirected: weakref.WeakKeyDictionary[Any, dict[str, list[float]]] = weakref.WeakKeyDictionary()
        # The last of our reports where no EarlyStopping was in sight, and how many there were in all.
        self._unwatched: deque[dict[str, float]] = deque(maxlen=1000)
        self._reports = 0
        # How many there were, and what an EarlyStopping had noted, when a Booster was first seen.
        self._begun: weakref.WeakKeyDictionary[xgb.Booster, tuple[int, Any]] = weakref.WeakKeyDictionary()
        self._settled: weakref.WeakSet[xgb.Booster] = weakref.WeakSet()
        self._refused: weakref.WeakKeyDictionary[xgb.Booster, Any] = weakref.WeakKeyDictionary()
        self._in_sight: weakref.WeakSet[Any] = weakref.WeakSet()  # EarlyStoppings, which are corrected
        self._lock = threading.Lock()  # several trainings at once add to these while one looks through them

    def check(self, booster: Any, data: Any) -> None:
        """Refuse an early stopping out of sight that minimises our metric.

        Whoever holds it, an EarlyStopping notes its best score in the Booster after the first round, and judges nothing
        before the second, which our objective and our metric see first. A Booster without the note has none.
        """
        if booster is None:
            booster = _watched_elsewhere(data)
        if booster is None or booster in self._settled:
            return
        note = booster.attr("best_score"), booster.attr("best_iteration")
        begun, before = self._begun.setdefault(booster, (self._reports, note))
        if self._reports == begun or note[0] is None or note == before:
            return
        with self._lock:
            others = [*self._refused.values(), *self._in_sight]
        stopping = self._refused.get(booster) or _stopping_of(float(note[0]), others)
        if stopping is None or stopping.maximize or not self._watches_ours(stopping, self._reports - begun, booster):
            self._settled.add(booster)
            return
        with self._lock:
            self._refused[booster] = stopping
        raise LambdaplugError(
            f"XGBoost's early stopping minimises {_watched(stopping)[0]!r}, of which higher is better. XGBoost guesses the "
            f"direction from a metric's name, and maximises only names that begin with {', '.join(MAXIMISED)}; lambdaplug "
            "corrects that where it sees the EarlyStopping, and not where a function of yours holds it or the metric runs in "
            "another thread. Pass maximize=True to that EarlyStopping, or to xgb.train beside early_stopping_rounds. (If "
            "lower is what you want, hand the EarlyStopping with maximize=False to callbacks= itself.)"
        )

    def _watches_ours(self, stopping: Any, reports: int, booster: Any) -> bool:
        """By what we reported, so many times, since the Booster was first seen."""
        seen: dict[str, list[float]] = {}
        for report in list(self._unwatched)[-reports:]:
            for name, value in report.items():
                seen.setdefault(name, []).append(value)
        watched, value, is_mean = _watched(stopping)
        # A cross-validation evaluates each fold on its training and on its test rows.
        return bool(_is_ours(watched, value, _means(seen, 2) if is_mean else seen, booster))

    def queries(self, booster: Any, data: Any) -> Queries:  # noqa: ARG002
        """A DMatrix keeps no version, so its labels, groups and weights are compared with the last ones."""
        position = data.get_float_info(
            "label_lower_bound"
        )  # a slice keeps it, and nothing else that ranking leaves free
        labels, raw = data.get_label(), (data.get_uint_info("group_ptr"), data.get_weight(), position)
        known = self._known.get(data)
        if (
            known is None
            or not all(map(np.array_equal, known[0], raw))
            or not np.array_equal(known[1].labels, labels.reshape(-1))  # the getter's own copy is not kept
        ):
            known = self._known[data] = raw, _queries(data, labels, *raw)
        return known[1]

    def trees(self, booster: Any) -> int:
        return int(booster.num_boosted_rounds())

    def threads(self, booster: Any, data: Any) -> int | None:
        if booster is not None and booster not in self._threads:
            told = json.loads(booster.save_config())["learner"]["generic_param"]["nthread"]
            self._threads[booster] = int(told)
        return (self._threads[booster] if booster is not None else 0) or getattr(data, "nthread", None)

    def grown(self, booster: Any, rounds: int) -> Grown | None:
        done = booster.num_boosted_rounds()
        kind = json.loads(booster.save_config())["learner"]["gradient_booster"]
        settings = kind.get("gbtree", kind).get("tree_train_param")  # dart wraps the trees; a linear booster has none
        if not done or settings is None:
            return None
        trees = booster[max(0, done - rounds) : done].get_dump(with_stats=True)
        hessians = [sum(map(float, re.findall(r"leaf=[^,]*,cover=(\S+)", tree))) for tree in trees]
        most, depth = int(settings["max_leaves"]) or sys.maxsize, int(settings["max_depth"])
        possible = min(most, 2**depth if depth else most)
        leaves = [tree.count("leaf=") for tree in trees]
        return Grown(leaves, float(np.mean(hessians)), possible, float(settings["min_child_weight"]))

    def learning_rate(self, booster: Any) -> float | None:
        if booster is None:
            return None
        text = booster.save_config()
        found = re.search(r'"(?:eta|learning_rate)":"([^"]+)"', text)
        return None if found is None else float(found[1])

    def boosters(self, model: Any) -> Iterator[Any]:
        yield from (fold.bst for fold in model.cvfolds) if hasattr(model, "cvfolds") else [model]

    def total(self) -> Callable[[Array], Array] | None:
        return _total if xgb.collective.is_distributed() else None

    def on_metric(self, booster: Any, data: Any, reported: list[tuple[str, float]]) -> None:  # noqa: ARG002
        """Have early stopping maximise our metrics.

        XGBoost guesses the direction from a metric's name, and would minimise "mrr". It hands a metric the scores and the
        data set, and turns its answer into text before an EarlyStopping sees it: nothing leads from the one to the other
        but the callers' frames, which show the container of the training's callbacks. An EarlyStopping that was told
        neither a direction nor one of our names has guessed once it has looked at the first round; it compares nothing
        before the second. When our metric comes to that, what it watches is known.

        Where there is no EarlyStopping in sight, as in a thread of the user's metric, ``check`` looks for its trace.
        """
        container = calling(xgb.callback.CallbackContainer)
        stoppings = _stoppings(container.callbacks) if container is not None else []
        with self._lock:
            self._in_sight.update(stoppings)
        if not stoppings:
            self._unwatched.append(dict(reported))
            self._reports += 1
        names = [name for name, _ in reported]
        for stopping in stoppings:
            if stopping.maximize is None and stopping.metric_name in names:
                stopping.maximize = True
            elif stopping.maximize is None:
                seen = self._undirected.setdefault(stopping, {})
                for name, value in reported:
                    seen.setdefault(name, []).append(value)
            elif stopping in self._undirected:
                seen = self._undirected.pop(stopping)
                if not stopping.maximize and stopping.stopping_history:
                    _correct(stopping, seen, len(container.history))


def _total(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Added up over the workers, each of which calls this as often. XGBoost itself averages the workers' averages."""
    total: npt.NDArray[Any] = xgb.collective.allreduce(values, xgb.collective.Op.SUM)
    return total.reshape(values.shape)


def _queries(
    data: xgb.DMatrix,
    labels: npt.NDArray[Any],
    bounds: npt.NDArray[Any],
    weight: npt.NDArray[Any],
    position: npt.NDArray[Any],
) -> Queries:
    rows = data.num_row()
    if rows == 0:  # a worker of a cluster without a share
        return Queries([], [])
    if labels.size != rows:
        raise LambdaplugError(
            f"the DMatrix has {rows} rows and {labels.size} labels: xgb.DMatrix(X, label=y, qid=ids)."
        )
    group = np.diff(bounds.astype(np.int64)) if bounds.size > 1 else None
    query_weight = weight if weight.size else None
    held, total = held_rows(data) or (None, None)
    # A fold does not say which rows it holds, unless query_folds knows.
    numbered = held is not None or calling(getattr(xgb.training, "CVPack", ())) is None
    columns = columns_of(data)
    return Queries(
        labels.reshape(rows),
        group,
        query_weight=query_weight,
        rows=held,
        total_rows=total,
        columns=columns,
        numbered=numbered,
        position=position if position.size else None,
    )


def _stoppings(callbacks: Iterable[Any]) -> list[xgb.callback.EarlyStopping]:
    """Those among the callbacks, and those that a callback holds."""
    found, left = dict[int, Any](), list(callbacks)
    while left:
        callback = left.pop()
        if isinstance(callback, (list, tuple, dict)) and len(callback) < 100:  # longer ones are records
            left += callback.values() if isinstance(callback, dict) else callback
        elif isinstance(callback, xgb.callback.TrainingCallback) and id(callback) not in found:
            found[id(callback)] = callback
            left += getattr(callback, "__dict__", {}).values()
    return [one for one in found.values() if isinstance(one, xgb.callback.EarlyStopping)]


def _watched_elsewhere(data: xgb.DMatrix) -> Any:
    """The Booster of a training in which our metric was called by no Booster, but by a callback or in another thread."""
    model = calling(xgb.callback.CallbackContainer, "model")
    return waiting(xgb.Booster.eval_set, data) if model is None else next(HOST.boosters(model))


def _stopping_of(best: float, others: list[Any]) -> Any:
    """The EarlyStopping that noted this best score, wherever it is held; None if it was no EarlyStopping's.

    Nothing leads from a Booster to it. So the objects of the process are gone through, once for a Booster with such a note;
    of several, as from trainings before, the one that has seen the fewest rounds is meant.
    """
    found = []
    for one in gc.get_objects():
        if issubclass(type(one), xgb.callback.EarlyStopping) and one not in others:
            bests = _scores(one.best_scores)
            if bests and bests[-1] == best:
                found.append((len(_scores(one.stopping_history)), one))
    return min(found, key=operator.itemgetter(0), default=(0, None))[1]


def _scores(log: dict[str, dict[str, list[Any]]]) -> list[float]:
    """Those of the one metric of one data set that an EarlyStopping keeps."""
    several = [score for metrics in log.values() for scores in metrics.values() for score in scores]
    return [float(score[0] if isinstance(score, tuple) else score) for score in several]


def _watched(stopping: xgb.callback.EarlyStopping) -> tuple[str, float, bool]:
    """The name and first value of what it watches, and whether that is a mean over folds."""
    [(name, [score, *_])] = next(iter(stopping.stopping_history.values())).items()
    return name, _scores(stopping.stopping_history)[0], isinstance(score, tuple)


def _means(seen: dict[str, list[float]], sets: int) -> dict[str, list[float]]:
    """Over the folds, for each of so many data sets that a fold is evaluated on."""
    return {
        name: [float(np.mean(some[first::sets])) for first in range(min(sets, len(some)))]
        for name, some in seen.items()
    }


SIX_DIGITS = 2e-6  # the rounding of what XGBoost reads from its own text
MAXIMISED = ("auc", "pre", "map", "ndcg")  # how the names begin that XGBoost maximises by itself


def _is_ours(watched: str, value: float, ours: dict[str, list[float]], booster: Any) -> bool | None:
    """Whether an early stopping watches one of our metrics, known by its name or, under another name, by its value.

    A loss made of it does not count. None if it is neither, nor XGBoost's own metric: only the user can know.
    """
    if watched in ours:
        return True
    if watched in [metric["name"] for metric in json.loads(booster.save_config())["learner"]["metrics"]]:
        return False  # XGBoost's own
    values = np.array([one for some in ours.values() for one in some])
    same = bool(np.isclose(value, values, rtol=0, atol=SIX_DIGITS).any())
    loss = bool(np.isclose(value, [-values, 1 - values], rtol=0, atol=SIX_DIGITS).any())
    return None if same == loss else same


def _correct(stopping: xgb.callback.EarlyStopping, seen: dict[str, list[float]], sets: int) -> None:
    """Turn round an EarlyStopping that took our metric for one to minimise; ``seen`` is what we reported until then.

    Under another name our metric is known by its value, in cv by the mean over the folds. XGBoost rounds to six digits.
    """
    watched, value, _ = _watched(stopping)
    booster = next(HOST.boosters(calling(xgb.callback.CallbackContainer, "model")))
    ours = _is_ours(watched, value, _means(seen, sets), booster)
    if ours:
        stopping.maximize = True
    elif ours is None:
        warnings.warn(
            f"XGBoost's early stopping minimises {watched!r}: it was told no direction, and guesses it from the name. If "
            f"{watched!r} is made of {', '.join(seen)}, of which more is better, pass maximize=True to EarlyStopping or "
            "xgb.train; if less is better, maximize=False.",
            LambdaplugWarning,
            stacklevel=5,
        )


HOST = XGBoost()


class XGBDataIter(xgb.DataIter):  # type: ignore[misc]
    """Batches for ``xgb.ExtMemQuantileDMatrix`` (or ``DMatrix``, ``QuantileDMatrix``) that cut no query.

    Batches may be cut anywhere: a query that goes on in the next batch is put together first (see
    ``lp.data.whole_queries``), which XGBoost would take for two.

    Parameters
    ----------
    batches : callable or sequence
        A function without arguments that reads them, ``(X, labels, qid)`` or ``(X, labels, weight, qid)`` at a time, or a list
        of them; XGBoost goes through them several times. Weights are one per row and equal within a query.
    cache_prefix : path, optional
        Where XGBoost keeps its pages.
    **options
        Further ones of ``xgboost.DataIter``.

    Examples
    --------
    >>> import xgboost as xgb
    >>> import lambdaplug as lp
    >>> data = lp.data.cubic(queries=4, documents=5, features=3)
    >>> halves = [(data.X[a:b], data.labels[a:b], data.qid[a:b]) for a, b in ((0, 7), (7, 20))]  # query 1 is cut in two
    >>> xgb.QuantileDMatrix(lp.XGBDataIter(halves)).num_row()
    20
    """

    def __init__(
        self,
        batches: Callable[[], Iterable[Sequence[Any]]] | Iterable[Sequence[Any]],
        cache_prefix: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(cache_prefix=cache_prefix, **options)
        if not callable(batches) and iter(batches) is batches:
            raise LambdaplugError(
                "XGBDataIter: XGBoost goes through the batches several times, and this iterator can be used up but "
                "once. Pass the function that makes it."
            )
        self._batches = batches
        self._running: Iterator[Sequence[Any]] = iter(())

    def reset(self) -> None:
        self._running = whole_queries(self._batches() if callable(self._batches) else self._batches)

    def next(self, input_data: Callable[..., Any]) -> bool:
        batch = next(self._running, None)
        if batch is None:
            return False
        if len(batch) not in (3, 4):
            raise LambdaplugError(
                f"XGBDataIter: expected batches (X, labels, qid) or (X, labels, weight, qid), got {len(batch)} arrays."
            )
        sizes = sizes_of(batch[-1])
        data = {"data": batch[0], "label": batch[1], "group": sizes}
        if len(batch) == 4:
            each = one_a_query(np.asarray(batch[2]), sizes)
            if each is None:
                raise LambdaplugError("XGBDataIter: XGBoost's weights are one per query; these differ within a query.")
            data["weight"] = each
        input_data(**data)
        return True


def _plugged(objective: Objective | None, metric: Metric | None) -> type[xgb.Booster]:
    """A Booster that trains with this objective and evaluates with this metric, and pickles as a plain one."""

    class Booster(xgb.Booster):  # type: ignore[misc]
        def update(self, dtrain: Any, iteration: int, fobj: Any = None) -> None:
            super().update(dtrain, iteration, fobj or objective)

        def eval_set(self, evals: Any, iteration: int = 0, feval: Any = None, output_margin: bool = True) -> str:
            text: str = super().eval_set(evals, iteration, feval or metric, output_margin)
            return text

        def __reduce__(self) -> Any:
            return xgb.Booster, (), self.__getstate__()

    return Booster


class _Plug(xgb.callback.TrainingCallback):  # type: ignore[misc]
    """For the length of one training, has the Booster use this objective and this metric."""

    def __init__(self, objective: Objective | None, metric: Metric | None) -> None:
        super().__init__()
        self.kind = _plugged(objective, metric)

    def before_training(self, model: xgb.Booster) -> xgb.Booster:
        model.__class__ = self.kind
        return model

    def after_training(self, model: xgb.Booster) -> xgb.Booster:
        model.__class__ = xgb.Booster
        return model


def plain_parameters(parameters: dict[str, Any], objective: object, metric: object) -> dict[str, Any]:
    """An estimator's parameters as XGBoost itself takes them."""
    if isinstance(as_objective(objective), Objective):
        parameters["objective"] = "rank:ndcg"
        if metric is None:  # rank:ndcg's own metric wants whole labels up to 31, and is not asked for
            parameters.setdefault("disable_default_eval_metric", 1)
    return parameters


@documented
class XGBRanker(xgb.XGBRanker, QueryColumn):  # type: ignore[misc]
    """``xgboost.XGBRanker`` that takes a measure, ``XGBRanker(objective="map")``, or any objective of lambdaplug.

    ``eval_metric`` takes ``lp.metric(...)`` too, and is the measure trained for if left out. The parent allows neither,
    so during ``fit`` it sees ``rank:ndcg`` and no metric, and a callback hands ours to the Booster it trains.

    ``qid`` and ``eval_qid`` (or the column ``qid`` of a data frame) may be integers of any size, other numbers or text, as
    long as the rows of a query stand together. ``qid="query"`` is the name of a column of X: query ids, no feature, in
    ``fit``, ``predict`` and ``score``. Frames are pandas', Polars' or Arrow's.

    {ranker_objective}
    **kwargs
        All parameters of ``xgboost.XGBRanker``.

    >>> data = lp.data.cubic(queries=20, documents=8, features=5)
    >>> model = lp.XGBRanker(objective=lp.LambdaRank("ndcg"), n_estimators=3, n_jobs=1)
    >>> model.fit(data.X, data.labels, qid=data.qid).predict(data.X).shape
    (160,)
    """

    eval_metric: Any
    callbacks: Any

    def __init__(self, *, objective: str | Measure | Objective = "rank:ndcg", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.objective: Any = objective

    def get_xgb_params(self) -> dict[str, Any]:
        return plain_parameters(super().get_xgb_params(), self.objective, self.eval_metric)

    @functools.wraps(xgb.XGBRanker.fit)
    def fit(self, *args: Any, **kwargs: Any) -> "XGBRanker":
        given = _with_numbered_queries(self.grouped(by_name(xgb.XGBRanker.fit, args, kwargs)))
        group, qid = given.get("group"), given.get("qid")
        if group is None and qid is None:
            require_queries("qid" if "qid" in getattr(given["X"], "columns", ()) else None)
        elif not hasattr(qid, "__cuda_array_interface__") and not hasattr(group, "__cuda_array_interface__"):
            group_sizes(group, qid, len(given["y"]))
        word, metric, callbacks = self.objective, self.eval_metric, self.callbacks
        objective = as_objective(word)
        words, ours = metrics_of(objective, metric)
        if not isinstance(objective, Objective) and ours is None:
            with host_errors(word):
                super().fit(**given)
            return self
        plug = _Plug(objective if isinstance(objective, Objective) else None, ours)
        try:
            self.callbacks = [plug, *(with_callback(objective, callbacks) or [])]
            self.eval_metric = words
            super().fit(**given)
        finally:
            self.objective, self.eval_metric, self.callbacks = word, metric, callbacks
        return self

    @functools.wraps(xgb.XGBRanker.predict)
    def predict(self, X: Any, **kwargs: Any) -> Any:
        return super().predict(self.split(X)[0], **kwargs)

    def _trained_for(self) -> Metric:
        return metrics_of(self.objective, self.eval_metric)[1] or measure_of(self.objective, {"rank:map": "map"})

    def score(self, X: Any, y: Any, *, qid: Any = None, group: Any = None, sample_weight: Any = None) -> float:
        """:meth:`LGBMRanker.score`; by the last of ``eval_metric`` if it is lambdaplug's."""
        if qid is None and group is None and self.query_column_ is None and "qid" in getattr(X, "columns", ()):
            if sample_weight is None and metrics_of(self.objective, self.eval_metric)[1] is None:
                return float(super().score(frame(X), y))  # XGBoost's own, with its column
            qid = "qid"
        return QueryColumn.score(self, X, y, qid=qid, group=group, sample_weight=sample_weight)


def _numbered(ids: Any, name: str) -> Any:
    """Query ids that XGBoost reads rightly: as they are if integers in order, else 0, 1, ... in the order of the queries.

    XGBoost keeps 32 bits of an id, and drops fractions: different queries would become one.
    """
    if hasattr(ids, "__cuda_array_interface__"):
        return ids
    values, sizes = np.asarray(ids), query_sizes(ids, name)
    integers = values.dtype.kind in "iu" and values.ndim == 1 and values.size
    if integers and values[0] >= 0 and values[-1] < 1 << 32 and bool((values[1:] >= values[:-1]).all()):
        return ids
    return np.repeat(np.arange(len(sizes), dtype=np.uint32), sizes)


def _with_numbered_queries(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a ranker's ``fit`` with ids, wherever they stand, that XGBoost reads rightly.

    What is given twice stays one object: by that XGBoost knows an evaluation set that is the training data.
    """
    made: dict[int, Any] = {id(None): None}

    def numbered(ids: Any, name: str) -> Any:
        if id(ids) not in made:
            made[id(ids)] = _numbered(ids, name)
        return made[id(ids)]

    def with_codes(X: Any, name: str) -> Any:
        if id(X) not in made:
            ids = X["qid"] if hasattr(X, "assign") and "qid" in getattr(X, "columns", ()) else None
            codes = None if ids is None else _numbered(ids, name)
            made[id(X)] = X if codes is ids else X.assign(qid=codes)
        return made[id(X)]

    changed = {**given, "X": with_codes(given["X"], "the column qid of X"), "qid": numbered(given["qid"], "qid")}
    if given.get("eval_set"):
        changed["eval_set"] = [(with_codes(X, "the column qid in eval_set"), *rest) for X, *rest in given["eval_set"]]
    if given.get("eval_qid"):
        changed["eval_qid"] = [numbered(ids, "eval_qid") for ids in given["eval_qid"]]
    return changed


def metrics_of(objective: object, asked: Any) -> tuple[Any, Metric | None]:
    """Of an estimator's eval_metric, what is XGBoost's own, and ours: the measure trained for, if nothing was asked for."""
    if asked is None:
        trained = as_objective(objective)
        target = trained.target if isinstance(trained, Objective) else None
        return None, None if target is None else Metric([target])
    asked = as_metric(asked)
    several = asked if isinstance(asked, list) else [asked]
    ours = [one for one in several if isinstance(one, Metric)]
    if not ours:
        return asked, None
    return [one for one in several if not isinstance(one, Metric)] or None, functools.reduce(operator.add, ours)
