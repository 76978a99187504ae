"""LightGBM: reading a Dataset, and a ranker that takes lambdaplug's objectives."""

import functools
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import lightgbm as lgb
import numpy as np
import numpy.typing as npt

from ..documenting import documented
from ..errors import LambdaplugError, LambdaplugWarning
from ..evaluation import Metric
from ..grouping import group_sizes
from ..objectives import Objective, as_objective
from ..queries import Array, Queries
from ..rows import one_a_query
from ..training import Grown, Rows
from .base import Host, by_name
from .callback import with_callback
from .estimators import QueryColumn, accepting, as_metric, host_errors, measure_of, require_queries
from .sharing import columns_of, is_stand_in, share

__all__ = ["HOST", "LGBMRanker"]

_RATES = ("learning_rate", "shrinkage_rate", "eta")  # the first that is given counts
_THREADS = ("num_threads", "num_thread", "nthread", "nthreads", "n_jobs")


class LightGBM(Host):
    """What LightGBM knows."""

    name = "LightGBM"
    hessian_floor = "min_sum_hessian_in_leaf"
    directed = True

    def queries(self, booster: Any, data: Any) -> Queries:
        """Read once for each version of a Dataset; rows as such, once for each training."""
        rows = isinstance(data, Rows)
        owner, version = (booster, tuple(map(id, data))) if rows else (data, getattr(data, "version", 0))
        known = None if owner is None else self._known.get(owner)
        if known is None or known[0] != version:
            known = version, (_weighted(data.labels, data.group, data.weight) if rows else _queries(data))
            if owner is not None:
                self._known[owner] = known
        return known[1]

    def trees(self, booster: Any) -> int:
        return int(booster.current_iteration())

    def threads(self, booster: Any, data: Any) -> int | None:
        parameters = _parameters(booster, data)
        return max((int(parameters[name]) for name in _THREADS if parameters.get(name)), default=0) or None

    def grown(self, booster: Any, rounds: int) -> Grown | None:
        done = booster.current_iteration()
        if not done:
            return None
        first = max(0, done - rounds)
        # The text ends with the parameters as LightGBM has understood them, whatever names they were given by.
        text = booster.model_to_string(start_iteration=first, num_iteration=done - first)
        settings = dict(re.findall(r"^\[(\w+): (.*)\]$", text, flags=re.M))
        leaves = [int(number) for number in re.findall(r"^num_leaves=(\d+)$", text, flags=re.M)]
        hessians = [
            np.sum(np.array(line.split(), float)) for line in re.findall(r"^leaf_weight=(.*)$", text, flags=re.M)
        ]
        most, depth = int(settings["num_leaves"]), int(settings["max_depth"])
        smallest = max(1, int(settings["min_data_in_leaf"]))
        possible = min(most, 2**depth if 0 < depth < 31 else most, booster.train_set.num_data() // smallest)
        floor = float(settings["min_sum_hessian_in_leaf"])
        return Grown(leaves, float(np.mean(hessians or [0.0])), possible, floor)

    def learning_rate(self, booster: Any) -> float | None:
        if booster is None:
            return None
        return next((float(booster.params[name]) for name in _RATES if name in booster.params), 0.1)

    def boosters(self, model: Any) -> Iterator[Any]:
        yield from getattr(model, "boosters", None) or [model]

    def check(self, booster: Any, data: Any) -> None:
        if str(_parameters(booster, data).get("bagging_by_query", False)).lower() in ("true", "1", "+", "yes"):
            raise LambdaplugError(
                "bagging_by_query=True with a custom objective makes LightGBM learn nothing, or corrupts its first row. "
                "Remove it; bagging_fraction with bagging_freq samples documents and works."
            )

    def total(self) -> Callable[[Array], Array] | None:
        return share().total

    def is_partial(self, booster: Any) -> bool:
        return super().is_partial(booster) or int(_parameters(booster, None).get("num_machines", 1)) > 1

    def is_stand_in(self, data: Any) -> bool:
        return not isinstance(data, Rows) and is_stand_in(data.get_weight())


def _parameters(booster: Any, data: Any) -> dict[str, Any]:
    """A Dataset that was built before does not hear of the training's parameters; its Booster has them."""
    return dict(getattr(data, "params", None) or {}) if booster is None else dict(booster.params)


def _queries(data: lgb.Dataset) -> Queries:
    rows, total = _original_rows(data)
    labels = data.get_label()
    if labels is None:
        raise LambdaplugError("the Dataset has no labels: lgb.Dataset(X, label=y, group=sizes).")
    group = data.get_group()
    weight = data.get_weight()
    if is_stand_in(weight):
        return Queries([], [])
    whole = data  # decided by the Dataset that a subset was cut from, so that all folds weigh alike
    while whole.used_indices is not None:
        whole = whole.reference
    position = getattr(whole, "get_position", lambda: None)()  # LightGBM's own subsets lose it
    position = position if position is None or rows is None else np.asarray(position)[rows]
    uneven = whole is not data and _query_weights(whole.get_weight(), whole.get_group()) is None
    return _weighted(
        labels, group, weight, uneven, rows=rows, total_rows=total, columns=columns_of(data), position=position
    )


def _weighted(labels: Any, group: Any, weight: Any, uneven: bool = False, **further: Any) -> Queries:
    """LightGBM has document weights only. Those that are equal within every query are meant for the queries.

    On a cluster, within every query of all workers.
    """
    each = None if uneven or share().uneven else _query_weights(weight, group)
    if each is not None:
        return Queries(labels, group, query_weight=each, **further)
    return Queries(labels, group, document_weight=weight, **further)


def _query_weights(weight: Any, group: Any) -> npt.NDArray[Any] | None:
    """The weight of each query, where a query's documents have equal ones."""
    if weight is None or group is None:
        return None
    return one_a_query(np.asarray(weight, np.float64), np.asarray(group))


def _original_rows(data: lgb.Dataset) -> tuple[npt.NDArray[np.int64] | None, int | None]:
    """Which rows of the Dataset it was cut from a subset holds, refusing a cut through a query."""
    if data.used_indices is None:
        return None, None
    whole = data.reference
    used = np.asarray(data.used_indices, dtype=np.int64)
    sizes = whole.get_group()
    if sizes is not None:
        query = np.repeat(np.arange(len(sizes)), sizes)
        taken = np.bincount(query[used], minlength=len(sizes))
        cut = np.flatnonzero((taken > 0) & (taken < sizes))
        if len(cut):
            raise LambdaplugError(
                f"{len(cut)} queries are cut in two by this subset, the first being query {cut[0]} "
                f"({taken[cut[0]]} of its {sizes[cut[0]]} documents). lgb.cv(nfold=...) does that with every custom "
                "objective: pass folds=lp.query_folds(group, 5) or folds=GroupKFold(5)."
            )
    rows, total = _original_rows(whole)
    return (used if rows is None else rows[used]), (whole.num_data() if total is None else total)


HOST = LightGBM(lgb.Booster, lgb.basic)


@documented
class LGBMRanker(lgb.LGBMRanker, QueryColumn):  # type: ignore[misc]
    """``lightgbm.LGBMRanker`` that takes a measure, ``LGBMRanker(objective="map")``, or any objective of lambdaplug.

    It evaluates by the measure trained for, unless ``eval_metric`` or ``metric`` says otherwise; ``score`` has that measure too.

    ``fit`` takes ``qid`` (one query id per row) or ``group`` (sizes), and ``eval_qid`` or ``eval_group``. ``qid="query"`` is the
    name of a column of X: query ids, no feature, in ``fit``, ``predict`` and ``score``. Frames are pandas', Polars' or Arrow's.

    {ranker_objective}
    **kwargs
        All parameters of ``lightgbm.LGBMRanker``.

    >>> X, labels, group = lp.data.cubic(queries=20, documents=8, features=5)
    >>> model = lp.LGBMRanker(objective=lp.LambdaRank("ndcg"), n_estimators=3, n_jobs=1, verbose=-1)
    >>> model.fit(X, labels, group=group).predict(X).shape
    (160,)
    >>> bool(0.5 < model.score(X, labels, group=group) <= 1.0)
    True
    """

    _objective: Any
    score = QueryColumn.score

    def _trained_for(self) -> Metric:
        return measure_of(self.objective, {})

    def _process_params(self, stage: str) -> dict[str, Any]:
        if stage == "fit":
            self._objective = as_objective(self._objective)
        # The parent wraps a callable so that it sees arrays; given the Dataset, the objective reads it once.
        parameters: dict[str, Any] = super()._process_params(stage)
        if stage == "fit" and isinstance(self._objective, Objective):
            parameters["objective"] = self._objective
            if not self._names_metric():
                parameters["metric"] = []  # the parent's own ndcg, which dies of float labels, was not asked for
        return parameters

    def _names_metric(self) -> bool:
        return any(self.get_params().get(name) for name in ("metric", "metrics", "metric_types"))

    @accepting(lgb.LGBMRanker.fit, "qid", "eval_qid")
    def fit(self, *args: Any, **kwargs: Any) -> "LGBMRanker":
        given = _by_sizes(self.grouped(by_name(lgb.LGBMRanker.fit, args, kwargs)))
        objective = as_objective(self.objective)
        metric = given["eval_metric"] = as_metric(given.get("eval_metric"))
        if isinstance(objective, Objective) and not self._names_metric():
            if metric is None and objective.target is not None:
                metric = given["eval_metric"] = Metric([objective.target])
            if "eval_at" in given and (metric is None or isinstance(metric, Metric)):
                reported = f"{metric!r} is reported" if metric is not None else "nothing is reported"
                warnings.warn(
                    f"eval_at={given['eval_at']} is for LightGBM's own ndcg and map, which are not evaluated here: {reported}. "
                    "For cut-offs say eval_metric=lp.metric('ndcg@5', 'ndcg@10'), or eval_metric='ndcg' for LightGBM's.",
                    LambdaplugWarning,
                    stacklevel=2,
                )
        given["callbacks"] = with_callback(objective, given.get("callbacks"))
        with host_errors(self.objective):
            super().fit(**given)
        return self

    @functools.wraps(lgb.LGBMRanker.predict)
    def predict(self, X: Any, *args: Any, **kwargs: Any) -> Any:
        return super().predict(self.split(X)[0], *args, **kwargs)


def _by_sizes(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of ``fit`` with group sizes in place of query ids, which LightGBM does not take."""
    group, qid = given.pop("group", None), given.pop("qid", None)
    if group is None:
        require_queries(qid)
    given["group"] = group_sizes(group, qid, len(given["y"]))
    several, labels = given.pop("eval_qid", None), given.get("eval_y")
    if labels is None:
        labels = [y for _, y in given.get("eval_set") or []]
    if labels:
        groups, none = given.get("eval_group"), [None] * len(labels)
        if groups is None and several is None:
            raise LambdaplugError("eval_set: expected eval_qid= or eval_group= with it, one for each evaluation set.")
        each = zip(none if groups is None else groups, several or none, labels, strict=True)
        given["eval_group"] = [group_sizes(sizes, own, len(y)) for sizes, own, y in each]
    return given
