"""LightGBM: reading a Dataset, and a ranker that takes lambdaplug's objectives."""

import functools
import weakref
from typing import Any

import lightgbm as lgb
import numpy as np
import numpy.typing as npt

from ..errors import LambdaplugError
from ..evaluation import Metric
from ..kernels import openmp_team
from ..objectives import Objective
from ..queries import DataSet, Queries
from ..rows import one_a_query
from .callback import with_callback
from .calling import calling
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
        functools.partial(_made_no_split, booster),
        total=share().total,
        stand_in=is_stand_in(data.get_weight()),
        partial=share().total is not None or int(parameters.get("num_machines", 1)) > 1,
    )


def _made_no_split(booster: lgb.Booster) -> bool:
    rounds = booster.current_iteration()
    last = booster.dump_model(start_iteration=rounds - 1, num_iteration=1)["tree_info"] if rounds else []
    return bool(last) and all(tree["num_leaves"] <= 1 for tree in last)


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
    # LightGBM has document weights only. Weights that are equal within every query are meant for the queries; on a
    # cluster, within every query of all workers.
    if weight is not None and group is not None and not share().uneven:
        each = one_a_query(np.asarray(weight, np.float64), np.asarray(group))
        if each is not None:
            return Queries(labels, group, query_weight=each, rows=rows, total_rows=total, columns=columns)
    return Queries(labels, group, document_weight=weight, rows=rows, total_rows=total, columns=columns)


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
    def fit(self, *args: Any, callbacks: list[Any] | None = None, **kwargs: Any) -> "LGBMRanker":
        ours = isinstance(self.objective, Objective) and self.objective.target is not None
        if ours and kwargs.get("eval_metric") is None and not self._names_metric():
            kwargs["eval_metric"] = Metric([self.objective.target])
        super().fit(*args, callbacks=with_callback(self.objective, callbacks), **kwargs)
        return self
