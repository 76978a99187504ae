"""LightGBM: reading a Dataset, and a ranker that takes lambdaplug's objectives."""

import functools
import re
import weakref
from typing import Any

import lightgbm as lgb
import numpy as np
import numpy.typing as npt

from ..errors import LambdaplugError
from ..evaluation import Metric
from ..kernels import openmp_team
from ..objectives import Objective
from ..queries import DataSet, Grown, Queries
from ..rows import one_a_query
from .callback import with_callback
from .calling import by_name, calling
from .sharing import is_stand_in, share

__all__ = ["LGBMRanker", "read"]

_known: "weakref.WeakKeyDictionary[lgb.Dataset, tuple[int, Queries]]" = weakref.WeakKeyDictionary()

_TEAM = openmp_team(getattr(lgb.basic, "_LIB", None))
_THREADS = ("num_threads", "num_thread", "nthread", "nthreads", "n_jobs")


def read(data: lgb.Dataset | None) -> DataSet:
    """The Dataset's queries, read once for each of its versions. None stands for the one being trained on."""
    booster = calling(lgb.Booster.update)
    if data is None:
        if booster is None:
            raise LambdaplugError(
                "expected LightGBM to be training; for arrays use objective.gradients or lp.evaluate."
            )
        data = booster.train_set
    # A Dataset that was built before does not hear of the training's parameters; its Booster has them.
    parameters = dict(data.params or {}) if booster is None else dict(booster.params)
    _refuse(parameters)
    version = getattr(data, "version", 0)
    known = _known.get(data)
    if known is None or known[0] != version:
        known = _known[data] = version, _queries(data)
    threads = [int(parameters[name]) for name in _THREADS if parameters.get(name)]
    return DataSet(
        known[1],
        "LightGBM",
        max(threads, default=0) or None,
        _TEAM,
        booster,
        "min_sum_hessian_in_leaf",
        functools.partial(_grown, booster),
        total=share().total,
        stand_in=is_stand_in(data.get_weight()),
    )


def _grown(booster: lgb.Booster, rounds: int) -> Grown | None:
    done = booster.current_iteration()
    if not done:
        return None
    first = max(0, done - rounds)
    # The text ends with the parameters as LightGBM has understood them, whatever names they were given by.
    text = booster.model_to_string(start_iteration=first, num_iteration=done - first)
    settings = dict(re.findall(r"^\[(\w+): (.*)\]$", text, flags=re.M))
    leaves = [int(number) for number in re.findall(r"^num_leaves=(\d+)$", text, flags=re.M)]
    hessians = [np.sum(np.array(line.split(), float)) for line in re.findall(r"^leaf_weight=(.*)$", text, flags=re.M)]
    most, depth = int(settings["num_leaves"]), int(settings["max_depth"])
    smallest = max(1, int(settings["min_data_in_leaf"]))
    possible = min(most, 2**depth if 0 < depth < 31 else most, booster.train_set.num_data() // smallest)
    floor = float(settings["min_sum_hessian_in_leaf"])
    return Grown(leaves, float(np.mean(hessians or [0.0])), possible, floor)


def _refuse(parameters: dict[str, Any]) -> None:
    if str(parameters.get("bagging_by_query", False)).lower() in ("true", "1", "+", "yes"):
        raise LambdaplugError(
            "bagging_by_query=True with a custom objective makes LightGBM learn nothing, or corrupts its first row. "
            "Remove it; bagging_fraction with bagging_freq samples documents and works."
        )


def _queries(data: lgb.Dataset) -> Queries:
    rows, total = _original_rows(data)
    labels = data.get_label()
    if labels is None:
        raise LambdaplugError("the Dataset has no labels: lgb.Dataset(X, label=y, group=sizes).")
    group = data.get_group()
    weight = data.get_weight()
    if is_stand_in(weight):
        return Queries([], [])
    columns = share().columns(labels, group)
    # LightGBM has document weights only. Weights that are equal within every query are meant for the queries: within
    # every query of the Dataset that a subset was cut from, so that all folds weigh alike; on a cluster, of all workers.
    if weight is not None and group is not None and not share().uneven:
        whole = data
        while whole.used_indices is not None:
            whole = whole.reference
        each = _query_weights(data)
        if each is not None and (whole is data or _query_weights(whole) is not None):
            return Queries(labels, group, query_weight=each, rows=rows, total_rows=total, columns=columns)
    return Queries(labels, group, document_weight=weight, rows=rows, total_rows=total, columns=columns)


def _query_weights(data: lgb.Dataset) -> npt.NDArray[Any] | None:
    """The weight of each query, where a query's documents have equal ones."""
    return one_a_query(np.asarray(data.get_weight(), np.float64), np.asarray(data.get_group()))


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


class LGBMRanker(lgb.LGBMRanker):  # type: ignore[misc]
    """``lightgbm.LGBMRanker`` with a lambdaplug objective: ``LGBMRanker(objective=lp.LambdaRank("map"))``.

    Evaluates by the measure trained for, unless ``eval_metric`` or ``metric`` says otherwise.
    """

    def _process_params(self, stage: str) -> dict[str, Any]:
        # The parent wraps a callable so that it sees arrays; given the Dataset, the objective reads it once.
        parameters: dict[str, Any] = super()._process_params(stage)
        if stage == "fit" and isinstance(self._objective, Objective):
            parameters["objective"] = self._objective
            if not self._names_metric():
                parameters["metric"] = []  # the parent's own ndcg, which dies of float labels, was not asked for
        return parameters

    def _names_metric(self) -> bool:
        return any(self.get_params().get(name) for name in ("metric", "metrics", "metric_types"))

    @functools.wraps(lgb.LGBMRanker.fit)
    def fit(self, *args: Any, **kwargs: Any) -> "LGBMRanker":
        given = by_name(lgb.LGBMRanker.fit, args, kwargs)
        ours = isinstance(self.objective, Objective) and self.objective.target is not None
        if ours and given.get("eval_metric") is None and not self._names_metric():
            given["eval_metric"] = Metric([self.objective.target])
        given["callbacks"] = with_callback(self.objective, given.get("callbacks"))
        super().fit(**given)
        return self
