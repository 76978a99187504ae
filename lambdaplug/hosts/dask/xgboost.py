"""XGBoost on Dask: its own training, given checked data, an objective and what the workers need besides.

A DaskDMatrix has no room for further columns. They wait on the workers, by the number of their partition, and every row
has that number as its ``label_lower_bound``, which no ranking objective reads.
"""

import contextlib
import copy
import functools
import itertools
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost as xgb
from dask import delayed
from distributed import get_worker
from xgboost import dask as dxgb

from ...errors import LambdaplugError
from ...evaluation import Metric
from ...measures import Measure
from ...objectives import Objective, Unbiased, as_objective
from ...objectives.unbiased import PositionBias
from ...queries import Array, Labels
from ...rows import sizes_of
from ..base import by_name
from ..bias import position_bias, remember
from ..callback import Callback, with_callback
from ..sharing import columns_of, set_columns
from ..xgboost import metrics_of, plain_parameters
from .checks import (
    Columns,
    Examined,
    Job,
    Partition,
    check_partitions,
    examine,
    examine_partition,
    lost,
    refuse_unfit,
    triple,
)
from .layout import array_of, values_of

__all__ = ["DaskXGBRanker", "train"]

# --- on the workers ------------------------------------------------------------------------------------------------

_columns: dict[str, dict[int, dict[str, Array]]] = {}  # by training, number of a partition and name
_failures: dict[str, list[str]] = {}  # by training
_learning: dict[str, Unbiased] = {}  # by training: what can be asked for what it has learned


def _mark(training: str, number: int, part: dict[str, Any], columns: dict[str, Any]) -> dict[str, Any]:
    """A partition of a DaskDMatrix whose rows know its number, under which its further columns are kept."""
    found = {name: Labels(values_of(values)).values for name, values in columns.items()}
    _columns.setdefault(training, {})[number] = found
    return {**part, "label_lower_bound": np.full(part["data"].shape[0], number, np.float32)}


def _curve(training: str) -> PositionBias | None:
    """What this worker's training has learned of positions, as all others have."""
    return position_bias(_learning[training]) if training in _learning else None


def _clear(training: str) -> list[str]:
    """After a training nothing is left of it; says what went wrong."""
    _columns.pop(training, None)
    _learning.pop(training, None)
    return _failures.pop(training, [])


@contextlib.contextmanager
def _noting(training: str) -> Iterator[None]:
    """Note what goes wrong inside: the other workers will fail of a lost connection, and the client may hear of that first."""
    try:
        yield
    except xgb.core.XGBoostError:  # that very failure
        raise
    except BaseException as error:
        reason = f"the training stopped on worker {get_worker().address}: {type(error).__name__}: {error}"
        _failures.setdefault(training, []).append(reason)
        raise


class _Bound:
    """An objective or a metric that finds the further columns of the DMatrix it is called with, and notes what goes wrong."""

    def __init__(self, what: Objective | Metric, training: str) -> None:
        self.what = what
        self.training = training

    def __call__(self, scores: Any, data: Any) -> Any:
        with _noting(self.training):
            kept = _columns.get(self.training)
            if kept and columns_of(data) is None:
                each = data.get_float_info("label_lower_bound").astype(np.int64)
                parts = [kept[number] for number in each[np.flatnonzero(np.diff(each, prepend=-1))].tolist()]
                set_columns(
                    data, {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}
                )
            if isinstance(self.what, Unbiased) and self.what.propensities is None:
                _learning[self.training] = self.what
            return self.what(scores, data)


class _Together(xgb.callback.TrainingCallback):  # type: ignore[misc]
    """A callback of the user's among workers: where it stops the training on any of them, it stops on all."""

    def __init__(self, callback: Any, training: str) -> None:
        super().__init__()
        self.callback, self.training = callback, training

    def before_training(self, model: Any) -> Any:
        with _noting(self.training):
            return self.callback.before_training(model)

    def after_training(self, model: Any) -> Any:
        with _noting(self.training):
            return self.callback.after_training(model)

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        return self._agreed(self.callback.before_iteration, model, epoch, evals_log)

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        return self._agreed(self.callback.after_iteration, model, epoch, evals_log)

    def _agreed(self, method: Callable[..., Any], *arguments: Any) -> bool:
        with _noting(self.training):
            stop = np.array([float(bool(method(*arguments)))])
        return bool(xgb.collective.allreduce(stop, xgb.collective.Op.SUM)[0] > 0)


def _numbered(qid: Any, first: int) -> npt.NDArray[np.int64]:
    """The queries numbered in their order: XGBoost sorts by id, and not stably, what is not sorted."""
    sizes = sizes_of(values_of(qid))
    return np.repeat(np.arange(first, first + len(sizes)), sizes)


def _seen(parts: list[dict[str, Any]]) -> tuple[list[int], Partition, bool]:
    """A DaskDMatrix's partitions on a worker: their rows, all of them as one, whether their ids are sorted."""
    if any(part.get(name) is None for part in parts for name in ("label", "qid")):
        raise LambdaplugError("the DaskDMatrix has no labels or no queries: DaskDMatrix(client, X, y, qid=ids).")
    rows = [part["data"].shape[0] for part in parts]
    ids = np.concatenate([values_of(part["qid"]) for part in parts])
    labels = np.concatenate([values_of(part["label"]) for part in parts])
    ordered = bool((ids[1:] >= ids[:-1]).all())
    with np.errstate(invalid="ignore"):
        kept = ids.astype(np.uint32) if ids.dtype.kind in "biuf" else np.empty(0)
    if ordered and not np.array_equal(kept, ids):
        raise LambdaplugError(
            "the DaskDMatrix's query ids: expected integers from 0 to 2**32 - 1, which is what XGBoost keeps of an id; got "
            f"{ids.dtype} up to {ids.max()}. Pass (dX, dy, dq) instead of the DaskDMatrix: then any ids will do."
        )
    return rows, examine_partition(np.empty((sum(rows), 0)), labels, ids), ordered


# --- on the client -------------------------------------------------------------------------------------------------


def _built(client: Any, data: Any, margin: Any, quantile: bool, reference: Any, options: dict[str, Any]) -> Examined:
    spread = examine(client, *data, base_margin=margin)
    if hasattr(spread.X, "columns"):  # a worker without rows would not know them, and not take the others' model
        options = {"feature_names": [str(name) for name in spread.X.columns], **options}
    first = np.cumsum([0, *(len(one.sizes) for one in spread.partitions)]).tolist()
    numbered = [delayed(_numbered)(part, start) for part, start in zip(spread.parts["qid"], first[:-1], strict=True)]
    known = {"qid": array_of(numbered, spread.rows, (), np.empty(0, np.int64))}
    for name, given in (("label", "y"), ("base_margin", "base_margin")):
        if given in spread.parts:
            known[name] = array_of(spread.vectors(given), spread.rows, (), np.empty(0))
    if quantile:
        options = options if reference is None else {**options, "ref": reference}
        matrix = dxgb.DaskQuantileDMatrix(client, spread.X, **known, **options)
    else:
        options = {name: option for name, option in options.items() if name != "max_bin"}
        matrix = dxgb.DaskDMatrix(client, spread.X, **known, **options)
    return replace(spread, X=matrix, parts={}, held=None)


def _given(client: Any, matrix: Any) -> Examined:
    gone = sorted(set(matrix.worker_map) - set(client.ncores()))
    if gone:  # no other worker would run what is sent to them
        raise LambdaplugError(
            f"the DaskDMatrix: some of its rows were on workers that are gone: {', '.join(gone[:3])}. Build it again."
        )
    found = client.gather(
        [client.submit(_seen, parts, workers=[address], pure=False) for address, parts in matrix.worker_map.items()]
    )
    check_partitions([one for _, one, _ in found], "worker")
    if not all(ordered for _, _, ordered in found):
        raise LambdaplugError(
            "the DaskDMatrix's query ids are not sorted, and XGBoost would sort its rows, ties in any order. "
            "Pass (dX, dy, dq) instead of the DaskDMatrix, or lay them out with lp.dask.partition_by_query first."
        )
    rows = [0] * len(matrix.partition_order)
    for parts, (counts, _, _) in zip(matrix.worker_map.values(), found, strict=True):
        for part, count in zip(parts, counts, strict=True):
            rows[matrix.partition_order[part.key]] = count
    return Examined([one for _, one, _ in found], rows, range(len(rows)), matrix)


def _marked(client: Any, training: str, matrices: Sequence[Examined], columns: Columns) -> dict[Examined, Any]:
    """The matrices, the training's first, each with its further columns kept where its rows are."""
    if not any(map(columns.of, matrices)):
        return {one: one.X for one in matrices}
    numbers, marked = itertools.count(), {one: copy.copy(one.X) for one in matrices}
    made = []
    for one, matrix in marked.items():
        placed = {name: client.compute(parts) for name, parts in columns.of(one).items()}
        order, matrix.worker_map, matrix.partition_order = one.X.partition_order, {}, {}
        for address, parts in one.X.worker_map.items():
            futures = []
            for part in parts:
                mine = {name: some[order[part.key]] for name, some in placed.items()}
                futures.append(client.submit(_mark, training, next(numbers), part, mine, workers=[address], pure=False))
                matrix.partition_order[futures[-1].key] = order[part.key]
            matrix.worker_map[address] = futures
            made += futures
        if getattr(matrix, "_ref", None) is not None:  # bins are those of the training data, known by its id
            matrix._ref = id(marked[matrices[0]])
    for future in made:
        error = future.exception()
        if error is not None:
            raise error
    return marked


def train(
    job: Job, matrix_options: dict[str, Any] | None = None, margins: Sequence[Any] | None = None, **options: Any
) -> dict[str, Any]:
    """``xgboost.dask.train`` of checked data. ``margins`` has the base_margin of the training data and of each of evals."""
    client, params, data, objective, evals, metric, callbacks = job
    refuse_unfit(client, callbacks)
    params = dict(params)
    if objective is not None:
        params["objective"] = "rank:ndcg"
        if params.get("eval_metric") is None:  # rank:ndcg's own wants integer labels up to 31, and is not asked for
            params.setdefault("disable_default_eval_metric", 1)
    quantile = params.get("tree_method") in (None, "auto", "hist") and params.get("booster") != "gblinear"
    built = {"max_bin": params.get("max_bin"), **(matrix_options or {})}
    known: dict[tuple[int, ...], Examined] = {}
    given: list[Examined] = []
    for one, margin in zip((data, *(one for one, _ in evals)), margins or [None] * (1 + len(evals)), strict=True):
        is_matrix = isinstance(one, dxgb.DaskDMatrix)
        parts = (one,) if is_matrix else triple(one, alternative=", or a DaskDMatrix with qid")
        key = tuple(map(id, (*parts, margin)))
        if key not in known and is_matrix:
            known[key] = _given(client, one)
        elif key not in known:
            reference = given[0].X if given else None
            known[key] = _built(client, parts, margin, quantile, reference, built)
        given.append(known[key])
    dtrain, *sets = given
    columns = Columns(client, objective, [] if metric is None else [metric], dtrain, sets)
    training, workers = uuid.uuid4().hex, set(client.ncores())
    try:
        marked = _marked(client, training, list(dict.fromkeys([dtrain, *sets])), columns)
        run = functools.partial(
            dxgb.train,
            *(client, params, marked[dtrain]),
            evals=[(marked[one], name) for one, (_, name) in zip(sets, evals, strict=True)] or None,
            obj=None if objective is None else _Bound(objective, training),
            custom_metric=None if metric is None else _Bound(metric, training),
            callbacks=[
                one
                if isinstance(one, Callback) or type(one).__module__ == xgb.callback.__name__
                else _Together(one, training)
                for one in with_callback(objective, callbacks) or ()
            ],
            **options,
        )
        result = _connected(run)
        for curve in client.run(_curve, training).values() if isinstance(objective, Unbiased) else ():
            remember(result["booster"], objective, curve)
        return result
    except xgb.core.XGBoostError as error:
        failed = list(itertools.chain(*client.run(_clear, training, on_error="ignore").values()))
        reason = LambdaplugError(failed[0]) if failed else lost(client, workers)
        if reason is not None:
            raise reason from error
        raise
    finally:
        client.run(_clear, training, on_error="ignore")


def _connected(run: Callable[[], dict[str, Any]], attempts: int = 3) -> dict[str, Any]:
    """The training's result. Its workers may fail to find each other, when a signal interrupts them: then once more."""
    try:
        return run()
    except xgb.core.XGBoostError as error:
        if "bootstrap the communication group" not in str(error) or attempts == 1:
            raise
    return _connected(run, attempts - 1)


class DaskXGBRanker(dxgb.DaskXGBRanker):  # type: ignore[misc]
    """``xgboost.dask.DaskXGBRanker`` that takes a measure or an objective: ``.fit(dX, dy, qid=dq)``.

    ``eval_metric`` takes ``lp.metric(...)``, exact over the workers, and is the measure trained for if left out. Data
    that cut a query are refused, whatever ``allow_group_split`` says: rows are not moved unless you ask
    ``lp.dask.partition_by_query`` to.

    Parameters
    ----------
    objective : str, Measure or Objective
        A measure, by its text or as an object, means ``lp.objective(measure)``.
    **kwargs
        All parameters of ``xgboost.dask.DaskXGBRanker``.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> model = lp.DaskXGBRanker(objective="map", n_estimators=50)  # model.fit(dX, dy, qid=dq), Dask's arrays
    >>> model.n_estimators
    50
    """

    eval_metric: Any
    callbacks: Any

    def __init__(self, *, objective: str | Measure | Objective = "rank:ndcg", **kwargs: Any) -> None:
        client = kwargs.pop("client", None)  # LightGBM's takes it here, XGBoost's as an attribute
        super().__init__(**kwargs)
        if set(getattr(self, "kwargs", None) or ()) == {"kwargs"}:  # where XGBoost 2.0 loses all of them
            super(dxgb.DaskXGBRanker, self).__init__(**kwargs)
        self.objective: Any = objective
        if client is not None:
            self.client = client

    def get_xgb_params(self) -> dict[str, Any]:
        return plain_parameters(super().get_xgb_params(), self.objective, self.eval_metric)

    @functools.wraps(dxgb.DaskXGBRanker.fit)
    def fit(self, *args: Any, **kwargs: Any) -> "DaskXGBRanker":
        given = by_name(dxgb.DaskXGBRanker.fit, args, kwargs)
        given = {name: value for name, value in given.items() if value is not None}
        if "group" in given or "eval_group" in given or "qid" not in given:
            raise LambdaplugError("XGBoost on Dask knows queries by their ids: pass qid= (and eval_qid=), not group=.")
        if "sample_weight" in given or "sample_weight_eval_set" in given:
            raise LambdaplugError("XGBoost on Dask takes no weights together with qid; LightGBM does.")
        sets, ids = list(given.get("eval_set", ())), list(given.get("eval_qid", ()))
        if len(sets) != len(ids):
            raise LambdaplugError(f"eval_qid: expected one for each of eval_set ({len(sets)}), got {len(ids)}.")
        objective = as_objective(self.objective)
        words, metric = metrics_of(objective, self.eval_metric)
        strange = [one for one in (words if isinstance(words, (list, tuple)) else [words]) if callable(one)]
        if strange:
            raise LambdaplugError(
                f"eval_metric: expected names and lp.metric(...), got {strange[0]!r}, whose mean over workers "
                "cannot be known. As a measure: lp.metric(lp.custom('name', value))."
            )
        model = given.get("xgb_model")
        job = Job(
            self.client,
            {**self.get_xgb_params(), "eval_metric": words},
            (given["X"], given["y"], given["qid"]),
            objective if isinstance(objective, Objective) else None,
            [((*one, known), f"validation_{i}") for i, (one, known) in enumerate(zip(sets, ids, strict=True))],
            metric,
            self.callbacks,
        )
        results = train(
            job,
            matrix_options={
                **{name: getattr(self, name) for name in ("missing", "enable_categorical", "feature_types")},
                "feature_weights": given.get("feature_weights", getattr(self, "feature_weights", None)),
            },
            margins=[given.get("base_margin"), *given.get("base_margin_eval_set", [None] * len(sets))],
            num_boost_round=self.get_num_boosting_rounds(),
            early_stopping_rounds=self.early_stopping_rounds,
            verbose_eval=given.get("verbose", False),
            xgb_model=model.get_booster() if isinstance(model, xgb.XGBModel) else model,
            **({"coll_cfg": self.coll_cfg} if getattr(self, "coll_cfg", None) is not None else {}),
        )
        self._Booster, self.evals_result_ = results["booster"], results["history"]
        return self
