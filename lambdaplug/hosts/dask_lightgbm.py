"""LightGBM on Dask: its own training, given checked data, an objective and what the workers need besides.

LightGBM hands a worker one block of labels, which may have several columns: the further ones ride along there.
"""

import asyncio
import contextlib
import functools
import inspect
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np
import numpy.typing as npt
from dask import delayed
from distributed import get_worker

from ..errors import LambdaplugError
from ..evaluation import Metric
from ..objectives import Objective
from ..queries import Array, Labels, Queries, vector
from ..rows import sizes_of
from .callback import Callback, with_callback
from .dask_checks import (
    Columns,
    Laid,
    kind_of,
    lay,
    measures_of,
    refuse_async,
    refuse_local_scales,
    refuse_recorders,
    require,
)
from .dask_layout import array_of, like, values_of
from .dask_network import ending, joined
from .lightgbm import LGBMRanker
from .sharing import STAND_IN_WEIGHT, Rows, Share, is_stand_in, share, sharing

__all__ = ["DaskLGBMRanker", "train"]


# --- on the workers ------------------------------------------------------------------------------------------------


class Hub:
    """Where the workers of one training meet: an actor on one of them. LightGBM's own network is closed to Python."""

    def __init__(self) -> None:
        self.brought: dict[int, dict[str, Array]] = {}
        self.complete: dict[int, asyncio.Event] = {}
        self.met: set[str] = set()
        self.failure: str | None = None

    async def total(self, turn: int, members: int, member: str, values: Array) -> Array:
        """The sum of what all members bring to this turn, the same bits for each."""
        brought = self.brought.setdefault(turn, {})
        complete = self.complete.setdefault(turn, asyncio.Event())
        brought[member] = values
        if len(brought) == members or self.failure is not None:
            complete.set()
        await complete.wait()
        if self.failure is not None:
            raise LambdaplugError(self.failure)
        self.met = self.met or set(brought)
        self.brought.pop(turn - 1, None)  # whoever is here has what he wanted there
        self.complete.pop(turn - 1, None)
        total: Array = np.sum([brought[name] for name in sorted(brought)], axis=0)
        return total

    async def members(self) -> set[str]:
        """The workers of the first turn, once all have come to it."""
        return self.met

    async def fail(self, reason: str) -> str:
        """Say why a worker stops, and wake the others; returns the first reason that was given."""
        self.failure = self.failure or reason
        for complete in self.complete.values():
            complete.set()
        return self.failure


class _Member:
    """One worker's way to the hub."""

    def __init__(self, hub: Any, members: int) -> None:
        self.hub, self.members = hub, members
        self.name = str(get_worker().address)
        self.turn = 0

    def total(self, values: Array) -> Array:
        self.turn += 1
        found: Array = self.hub.total(self.turn, self.members, self.name, values).result()
        return found


class _Shared:
    """A metric as LightGBM's ranker calls it on a worker."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self.seen: list[tuple[Any, Queries]] = []

    def __call__(self, labels: Any, scores: Any, weight: Any, group: Any) -> Any:
        empty = is_stand_in(weight)
        queries = next((queries for known, queries in self.seen if known is labels), None)
        if queries is None:
            columns = share().columns(labels, group)
            queries = Queries([], []) if empty else Queries(labels, group, columns=columns)
            self.seen = [*self.seen[-7:], (labels, queries)]
        scores = scores[:0] if empty else scores
        return self.metric.report(queries, scores, None, with_direction=True, total=share().total)


class Luggage(NamedTuple):
    """What the workers are told: which further columns the labels' block of each data set has, which evaluation sets are
    the training data, and about the weights."""

    training: tuple[str, ...]
    evals: tuple[tuple[str, ...], ...]
    same: tuple[bool, ...]
    uneven: bool


class _Agreement:
    """The user's callbacks on a worker: where one of them stops the training on any worker, it stops on all of them.

    A worker that stopped alone would leave the others waiting for it in LightGBM's network.
    """

    def __init__(self, member: _Member) -> None:
        self.member = member
        self.order = 1 << 30  # after all others
        self.stop: lgb.callback.EarlyStopException | None = None

    def join(self, callbacks: Sequence[Any]) -> list[Any]:
        foreign = [not isinstance(one, Callback) and type(one).__module__ != lgb.callback.__name__ for one in callbacks]
        if not any(foreign):
            return list(callbacks)
        return [*(self._wrapped(one) if other else one for one, other in zip(callbacks, foreign, strict=True)), self]

    def _wrapped(self, callback: Callable[[Any], None]) -> Callable[[Any], None]:
        def wrapped(environment: Any) -> None:
            try:
                callback(environment)
            except lgb.callback.EarlyStopException as stop:
                self.stop = stop

        wrapped.order = getattr(callback, "order", 0)  # type: ignore[attr-defined]
        wrapped.before_iteration = getattr(callback, "before_iteration", False)  # type: ignore[attr-defined]
        return wrapped

    def __call__(self, environment: Any) -> None:
        stopping = self.member.total(np.array([float(self.stop is not None)]))
        if stopping[0] > 0:
            raise self.stop or lgb.callback.EarlyStopException(
                environment.iteration, environment.evaluation_result_list or []
            )


class WorkerRanker(LGBMRanker):
    """What trains on a worker."""

    def fit(  # type: ignore[override]
        self, X: Any, y: Any, *, hub: Any, training: str, luggage: Luggage, eval_metric: Any = None, **kwargs: Any
    ) -> "WorkerRanker":
        parameters = self.get_params()
        member = _Member(hub, int(parameters["num_machines"]))
        port = int(parameters["local_listen_port"])
        with joined(training, str(parameters["machines"]), port) as (network, look):
            kwargs["callbacks"] = [*_Agreement(member).join(kwargs.get("callbacks") or []), look]
            try:
                self._fit(X, y, member, luggage, eval_metric, kwargs)
            except BaseException as error:
                mine = reason = f"the training stopped on worker {member.name}: {type(error).__name__}: {error}"
                with contextlib.suppress(Exception):  # the hub may be lost
                    reason = hub.fail(mine).result(timeout=5)
                network.leave(error)
                if reason != mine and isinstance(error, (lgb.basic.LightGBMError, LambdaplugError)):
                    raise LambdaplugError(reason) from None
                raise
        return self

    def _fit(self, X: Any, y: Any, member: _Member, luggage: Luggage, eval_metric: Any, kwargs: dict[str, Any]) -> None:
        if X.shape[0] < 2:
            raise LambdaplugError("LightGBM needs two rows on every worker. Use fewer partitions, or fewer workers.")
        labels, rows = _unpack(y, kwargs["group"], luggage.training)
        shares = [rows]
        paired = "eval_set" not in kwargs  # LightGBM 4.7 says eval_X and eval_y
        pairs = zip(kwargs.pop("eval_X", None) or (), kwargs.pop("eval_y", None) or (), strict=True)
        given = list(pairs) if paired else kwargs.pop("eval_set") or []
        sets, groups = [], list(kwargs.pop("eval_group", None) or [])
        weights = list(kwargs.pop("eval_sample_weight", None) or [None] * len(given))
        scores = list(kwargs.pop("eval_init_score", None) or [None] * len(given))
        for i, ((one, block), names) in enumerate(zip(given, luggage.evals, strict=True)):
            if luggage.same[i]:
                sets.append((X, labels))  # the very objects, by which LightGBM knows its training data
            elif one.shape[0]:
                found, theirs = _unpack(block, groups[i], names)
                shares.append(theirs)
                sets.append((one, found))
            else:
                sets.append((_stand_in(X), np.zeros(1)))
                groups[i], weights[i] = np.ones(1, np.int64), np.array([STAND_IN_WEIGHT])
                scores[i] = None if scores[i] is None else np.zeros(1)
        if sets:
            kwargs.update(_evaluation(sets, paired), eval_group=groups)
            kwargs.update(eval_sample_weight=weights, eval_init_score=scores)
        metrics = eval_metric if isinstance(eval_metric, list) else [eval_metric]
        kwargs["eval_metric"] = [_Shared(one) if isinstance(one, Metric) else one for one in metrics if one is not None]
        member.total(np.zeros(1))  # all are ready, so that none waits in vain for another's network
        with sharing(Share(tuple(shares), luggage.uneven, member.total)):
            super().fit(X, labels, **kwargs)
        # Given as several evaluation sets, the training data are reported once, by the last of their names.
        mine = [name for name, same in zip(kwargs.get("eval_names") or (), luggage.same, strict=False) if same]
        for found in (self.evals_result_, self.best_score_):
            for name in mine[:-1]:
                found.setdefault(name, found.get(mine[-1], {}))


def _unpack(block: npt.NDArray[Any], group: Any, names: Sequence[str]) -> tuple[Array, Rows]:
    columns = {name: Labels(block[:, 1 + place]).values for place, name in enumerate(names)}
    labels = np.ascontiguousarray(block[:, 0])
    return labels, Rows(labels.astype(np.float32), values_of(group).astype(np.int64), columns)


def _evaluation(sets: Sequence[tuple[Any, Any]], paired: bool) -> dict[str, Any]:
    """Evaluation sets as this version of LightGBM wants to be given them."""
    if not sets:
        return {}
    return (
        {"eval_X": tuple(one for one, _ in sets), "eval_y": tuple(y for _, y in sets)} if paired else {"eval_set": sets}
    )


def _stand_in(X: Any) -> Any:
    return X.iloc[:1] if hasattr(X, "iloc") else X[:1]


def _block(y: Any, *columns: Any) -> Array:
    return np.column_stack([vector(one, "y") for one in (y, *columns)])


def _sizes(qid: Any) -> npt.NDArray[np.int64]:
    return sizes_of(values_of(qid))


def _none_of(part: Any) -> Any:
    return part.iloc[:0] if hasattr(part, "iloc") else part[:0]


# --- on the client -------------------------------------------------------------------------------------------------


_FURTHER: tuple[str, ...] = ("sample_weight", "init_score")


class _Packed:
    """A data set as LightGBM's Dask training takes it."""

    def __init__(self, laid: Laid, columns: dict[str, list[Any]], partitions: int = 0) -> None:
        lacking = max(0, partitions - len(laid.rows))  # every worker must have a part of every evaluation set
        rows = [*laid.rows, *[0] * lacking]
        parts = laid.parts["X"]
        self.names = tuple(columns)
        self.X = like(laid.X, [*parts, *[delayed(_none_of)(parts[0])] * lacking], rows) if lacking else laid.X
        blocks = [delayed(_block)(*some) for some in zip(laid.parts["y"], *columns.values(), strict=True)]
        nothing = np.empty((0, 1 + len(columns)))
        self.y = array_of([*blocks, *[delayed(nothing)] * lacking], rows, nothing.shape[1:], nothing)
        sizes = [delayed(_sizes)(part) for part in laid.parts["qid"]] if "qid" in laid.parts else laid.parts["group"]
        none = np.empty(0, np.int64)
        self.group = array_of([*sizes, *[delayed(none)] * lacking], [*laid.queries, *[0] * lacking], (), none)
        self.further = {
            name: array_of(
                [*(delayed(_values)(part) for part in laid.parts[name]), *[delayed(np.empty(0))] * lacking],
                rows,
                (),
                np.empty(0),
            )
            for name in _FURTHER
            if name in laid.parts
        }


def _zipped(eval_set: Any, eval_X: Any, eval_y: Any) -> list[tuple[Any, Any]]:
    """eval_X and eval_y as eval_set; each is one collection or a tuple of them."""
    if eval_set is not None:
        raise LambdaplugError("eval_set: expected it, or eval_X and eval_y; got both.")
    rows, labels = (() if one is None else one if isinstance(one, tuple) else (one,) for one in (eval_X, eval_y))
    if len(rows) != len(labels):
        raise LambdaplugError(
            f"eval_X, eval_y: expected as many of the one as of the other, got {len(rows)} and {len(labels)}."
        )
    return list(zip(rows, labels, strict=True))


def _values(part: Any) -> Array:
    return vector(part, "weight")


class DaskLGBMRanker(lgb.DaskLGBMRanker):  # type: ignore[misc]
    """``lightgbm.DaskLGBMRanker`` with a lambdaplug objective: ``.fit(dX, dy, qid=dq)``, or ``group=`` as the parent has it.

    ``qid`` and ``eval_qid`` have the query id of each row, and cannot be misaligned unnoticed. ``eval_metric`` takes
    ``lp.metric(...)``, exact over the workers, and is the measure trained for if left out; on such metrics early
    stopping works too. Data that cut a query are refused.
    """

    objective: Any

    @functools.wraps(lgb.DaskLGBMRanker.fit)
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        init_score: Any = None,
        group: Any = None,
        eval_set: Sequence[tuple[Any, Any]] | None = None,
        eval_names: list[str] | None = None,
        eval_sample_weight: Sequence[Any] | None = None,
        eval_init_score: Sequence[Any] | None = None,
        eval_group: Sequence[Any] | None = None,
        eval_metric: Any = None,
        eval_at: Sequence[int] = (1, 2, 3, 4, 5),
        *,
        qid: Any = None,
        eval_qid: Sequence[Any] | None = None,
        eval_X: Any = None,
        eval_y: Any = None,
        callbacks: list[Any] | None = None,
        **kwargs: Any,
    ) -> "DaskLGBMRanker":
        client = lgb.dask._get_dask_client(self.client)
        refuse_async(client)
        refuse_recorders(callbacks)
        if eval_X is not None or eval_y is not None:
            eval_set = _zipped(eval_set, eval_X, eval_y)
        sets = list(eval_set or [])
        several = {"eval_qid": eval_qid, "eval_group": eval_group, "eval_sample_weight": eval_sample_weight}
        lists = {
            name: list(one or [None] * len(sets))
            for name, one in {**several, "eval_init_score": eval_init_score}.items()
        }
        for name, one in lists.items():
            if len(one) != len(sets):
                raise LambdaplugError(f"{name}: expected one for each of eval_set ({len(sets)}), got {len(one)}.")
        objective = self.objective if isinstance(self.objective, Objective) else None
        if sets and eval_metric is None and objective is not None and not self._names_metric():
            eval_metric = Metric([objective.target]) if objective.target is not None else None
        metrics = [one for one in (eval_metric if isinstance(eval_metric, list) else [eval_metric]) if one is not None]
        self._check_stopping(metrics, callbacks, bool(sets))

        laid = lay(client, X, y, qid, group, sample_weight=sample_weight, init_score=init_score)
        same = [
            one is X
            and labels is y
            and all(
                lists[f"eval_{name}"][i] is None or lists[f"eval_{name}"][i] is given
                for name, given in (
                    *(("qid", qid), ("group", group)),
                    *(("sample_weight", sample_weight), ("init_score", init_score)),
                )
            )
            for i, (one, labels) in enumerate(sets)
        ]
        others = [
            laid
            if same[i]
            else lay(
                *(client, *sets[i], lists["eval_qid"][i], lists["eval_group"][i]),
                sample_weight=lists["eval_sample_weight"][i],
                init_score=lists["eval_init_score"][i],
            )
            for i in range(len(sets))
        ]
        ours = [one for one in metrics if isinstance(one, Metric)]
        sources = () if objective is None else objective.sources
        further = [source for metric in ours for source in metric.sources]
        columns = Columns(client, [*sources, *further])
        refuse_local_scales(measures_of(objective), laid.looks, columns)
        for other in others:
            refuse_local_scales([one for metric in ours for one in measures_of(metric)], other.looks, columns)
        wanted = [[*sources, *(further if any(same) else ())], *[further] * len(others)]
        fitting = [
            columns.of(some, one.kept, one.given, one.rows) for some, one in zip(wanted, (laid, *others), strict=True)
        ]
        require(columns, sources, fitting[:1], "the training data")
        require(columns, further, fitting[1:], "any of eval_set")

        packed = _Packed(laid, fitting[0])
        evals = [packed if same[i] else _Packed(one, fitting[1 + i], len(laid.rows)) for i, one in enumerate(others)]
        for name in _FURTHER:
            some = lists[f"eval_{name}"]
            if any(one is not None for one in some):
                lacking = [i for i, one in enumerate(some) if one is None and not same[i]]
                if lacking:
                    raise LambdaplugError(
                        f"eval_{name}: expected one for every evaluation set, or none; number {lacking[0]} has none."
                    )
                # Of the training data it is not read, and yet there must be one.
                kwargs[f"eval_{name}"] = [one.further.get(name, one.group) for one in evals]
        paired = "eval_X" in inspect.signature(lgb.DaskLGBMRanker.fit).parameters
        given: Any = self.objective
        hub, training = client.submit(Hub, actor=True, pure=False), uuid.uuid4().hex
        try:
            with ending(client, hub, training):
                self._lgb_dask_fit(
                    model_factory=WorkerRanker,
                    X=packed.X,
                    y=packed.y,
                    group=packed.group,
                    eval_names=eval_names or [f"valid_{i}" for i in range(len(sets))] or None,
                    eval_group=[one.group for one in evals] or None,
                    eval_metric=metrics or None,
                    eval_at=eval_at,
                    callbacks=with_callback(objective, callbacks),
                    hub=hub,
                    training=training,
                    luggage=Luggage(
                        packed.names,
                        tuple(one.names for one in evals),
                        tuple(same),
                        any(one.uneven for one in laid.looks),
                    ),
                    **_evaluation([(one.X, one.y) for one in evals], paired),
                    **packed.further,
                    **kwargs,
                )
        finally:
            self.objective = given  # not the copy that was on a worker, whose columns are names
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        parameters: dict[str, Any] = super().get_params(deep)
        if "objective" in parameters:
            parameters["objective"] = self.objective  # the parent returns a copy, and then cannot be cloned
        return parameters

    def _names_metric(self) -> bool:
        return any(self.get_params().get(name) for name in ("metric", "metrics", "metric_types"))

    def _check_stopping(self, metrics: list[Any], callbacks: list[Any] | None, evaluated: bool) -> None:
        """LightGBM's metrics are each worker's own: some workers would stop, and the others wait for them for ever."""
        parameters = self.get_params()
        stops = any(parameters.get(name) for name in lgb.basic._ConfigAliases.get("early_stopping_round"))
        stops |= any(isinstance(one, lgb.callback._EarlyStoppingCallback) for one in callbacks or ())
        named = [parameters.get(name) for name in ("metric", "metrics", "metric_types") if parameters.get(name)]
        quiet = all(str(name).lower() in ("none", "custom", "na", "null") for name in named)
        silent = bool(named) or isinstance(self.objective, Objective)  # else the objective's own metric comes along
        if stops and not evaluated:
            raise LambdaplugError("early stopping: there is nothing to look at. Pass evals= (a ranker: eval_set=).")
        if stops and not (metrics and all(isinstance(one, Metric) for one in metrics) and quiet and silent):
            raise LambdaplugError(
                "early stopping on LightGBM's own metrics: each worker computes them of its own rows, so that one stops "
                "and the others wait. Stop on lp.metric alone: eval_metric=lp.metric('ndcg@10'), and metric='None' "
                "beside an objective of LightGBM's."
            )

    def to_local(self) -> LGBMRanker:
        """The model as an ``lp.LGBMRanker``."""
        local: LGBMRanker = self._lgb_dask_to_local(LGBMRanker)
        return local


# LightGBM's parameters that its estimators call otherwise. Given under both names, the estimator's default might win.
_ESTIMATORS = {
    "boosting": "boosting_type",
    "num_leaves": "num_leaves",
    "max_depth": "max_depth",
    "learning_rate": "learning_rate",
    "num_iterations": "n_estimators",
    "bin_construct_sample_cnt": "subsample_for_bin",
    "min_gain_to_split": "min_split_gain",
    "min_sum_hessian_in_leaf": "min_child_weight",
    "min_data_in_leaf": "min_child_samples",
    "bagging_fraction": "subsample",
    "bagging_freq": "subsample_freq",
    "feature_fraction": "colsample_bytree",
    "lambda_l1": "reg_alpha",
    "lambda_l2": "reg_lambda",
    "seed": "random_state",
}


def _as_estimator(params: dict[str, Any]) -> dict[str, Any]:
    renamed = dict(params)
    for name, estimators in _ESTIMATORS.items():
        found = [alias for alias in (name, *sorted(lgb.basic._ConfigAliases.get(name))) if alias in renamed]
        values = [renamed.pop(alias) for alias in dict.fromkeys(found)]
        if values:
            renamed[estimators] = values[0]
    return renamed


def train(
    client: Any,
    params: dict[str, Any],
    data: Any,
    objective: Objective | None,
    evals: Sequence[tuple[Any, str]],
    metric: Metric | None,
    callbacks: list[Any] | None,
    early_stopping_rounds: int | None,
    **options: Any,
) -> dict[str, Any]:
    """``DaskLGBMRanker`` in the clothes of ``xgboost.dask.train``."""
    for one in (data, *(one for one, _ in evals)):
        if not isinstance(one, (tuple, list)) or len(one) != 3:
            raise LambdaplugError(
                "data: for LightGBM expected (dX, dy, dq), as lp.dask.partition_by_query returns them; got "
                f"{kind_of(one)}."
            )
    if objective is not None:
        params = {**params, "objective": objective}
    if "objective" in params:  # LightGBM's estimators would prefer another name of it
        others = lgb.basic._ConfigAliases.get("objective") - {"objective"}
        params = {name: value for name, value in params.items() if name not in others}
    if early_stopping_rounds is not None:
        callbacks = [*(callbacks or []), lgb.early_stopping(early_stopping_rounds, verbose=False)]
    X, y, qid = data
    ranker = DaskLGBMRanker(client=client, **_as_estimator(params)).fit(
        X,
        y,
        qid=qid,
        eval_set=[(one[0], one[1]) for one, _ in evals] or None,
        eval_qid=[one[2] for one, _ in evals] or None,
        eval_names=[name for _, name in evals] or None,
        eval_metric=metric,
        callbacks=callbacks,
        **options,
    )
    return {"booster": ranker.booster_, "history": ranker.evals_result_}
