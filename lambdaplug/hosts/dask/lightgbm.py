"""LightGBM on Dask: its own training, given checked data, an objective and what the workers need besides.

LightGBM hands a worker one block of labels, which may have several columns: the further ones travel there.
"""

import asyncio
import contextlib
import functools
import inspect
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np
import numpy.typing as npt
from dask import delayed
from distributed import get_worker

from ...errors import LambdaplugError
from ...evaluation import Metric
from ...objectives import Objective, Unbiased, as_objective
from ...queries import Array, Labels, vector
from ...rows import sizes_of
from ..base import by_name
from ..bias import position_bias, remember
from ..callback import Callback, with_callback
from ..lightgbm import LGBMRanker
from ..sharing import STAND_IN_WEIGHT, Share, set_columns, sharing
from .checks import Columns, Examined, Job, examine, refuse_unfit, triple
from .layout import array_of, like, take, values_of
from .network import Network, joined, watched

__all__ = ["DaskLGBMRanker", "train"]


# --- on the workers ------------------------------------------------------------------------------------------------


class Hub:
    """Where the workers of one training meet: an actor on one of them. LightGBM's own network is closed to Python."""

    def __init__(self) -> None:
        self.brought: dict[int, dict[str, Array]] = {}  # by turn and member
        self.changed = asyncio.Condition()
        self.met: set[str] = set()
        self.failure: str | None = None

    async def total(self, turn: int, members: int, member: str, values: Array) -> Array:
        """The sum of what all members bring to this turn, the same bits for each."""
        brought = self.brought.setdefault(turn, {})
        brought[member] = values
        async with self.changed:
            self.changed.notify_all()
            await self.changed.wait_for(lambda: len(brought) == members or self.failure is not None)
        if self.failure is not None:
            raise LambdaplugError(self.failure)
        self.met = self.met or set(brought)
        self.brought.pop(turn - 1, None)  # all members have the last turn's sum
        total: Array = np.sum([brought[name] for name in sorted(brought)], axis=0)
        return total

    async def members(self) -> set[str]:
        """The workers of the first turn, once all have come to it."""
        return self.met

    async def fail(self, reason: str) -> str:
        """Say why a worker stops, and wake the others; returns the first reason that was given."""
        self.failure = self.failure or reason
        async with self.changed:
            self.changed.notify_all()
        return self.failure


class _Member:
    """One worker's way to the hub."""

    def __init__(self, hub: Any, members: int) -> None:
        self.hub, self.members = hub, members
        self.name = str(get_worker().address)
        self.turn = 0
        self.stop: lgb.callback.EarlyStopException | None = None

    def total(self, values: Array) -> Array:
        self.turn += 1
        found: Array = self.hub.total(self.turn, self.members, self.name, values).result()
        return found

    def agreed(self, callbacks: Sequence[Any]) -> list[Any]:
        """Callbacks of which one that stops the training on this worker stops it on all.

        A worker that stopped alone would leave the others waiting for it in LightGBM's network.
        """
        known = [isinstance(one, Callback) or type(one).__module__ == lgb.callback.__name__ for one in callbacks]
        noting = [one if same else self._noting(one) for one, same in zip(callbacks, known, strict=True)]

        def agree(environment: Any) -> None:
            if self.total(np.array([float(self.stop is not None)]))[0] > 0:
                raise self.stop or lgb.callback.EarlyStopException(
                    environment.iteration, environment.evaluation_result_list or []
                )

        agree.order = 1 << 30  # type: ignore[attr-defined] # after all others
        return noting if all(known) else [*noting, agree]

    def _noting(self, callback: Callable[[Any], None]) -> Callable[[Any], None]:
        def noting(environment: Any) -> None:
            try:
                callback(environment)
            except lgb.callback.EarlyStopException as stop:
                self.stop = stop

        noting.order = getattr(callback, "order", 0)  # type: ignore[attr-defined]
        noting.before_iteration = getattr(callback, "before_iteration", False)  # type: ignore[attr-defined]
        return noting


class _DataSets:
    """A worker's data sets: which of LightGBM's each of them has become, known when a training begins."""

    def __init__(self) -> None:
        self.order, self.before_iteration = -1 << 30, True  # of the callback that this is: before all others
        self.columns: list[Mapping[str, Array]] = []  # of the training data and of each evaluation set but those
        self.found: list[lgb.Dataset] = []

    def add(self, block: npt.NDArray[Any], names: Sequence[str]) -> Array:
        """The labels of a block; its further columns are kept."""
        self.columns.append({name: Labels(block[:, 1 + place]).values for place, name in enumerate(names)})
        return np.ascontiguousarray(block[:, 0])

    def __call__(self, environment: Any) -> None:
        if environment.iteration == environment.begin_iteration:
            self.found = [environment.model.train_set, *environment.model.valid_sets]
            for data, columns in zip(self.found, self.columns, strict=True):
                set_columns(data, columns)

    def metric(self, metric: Any) -> Any:
        """A metric of ours as LightGBM's ranker calls it, which passes it arrays of a data set; others as they are."""
        if not isinstance(metric, Metric):
            return metric

        def evaluate(labels: Any, scores: Any, weight: Any, group: Any) -> Any:  # noqa: ARG001
            return metric(scores, next(data for data in self.found if data.get_label() is labels))

        return evaluate


class Instructions(NamedTuple):
    """What the workers are told of their data sets."""

    training: tuple[str, ...]  # the further columns in the labels' block of the training data
    evals: tuple[tuple[str, ...] | None, ...]  # and of each evaluation set; None: it is the training data
    uneven: bool  # on some worker the weights differ within a query


class WorkerRanker(LGBMRanker):
    """What trains on a worker."""

    def fit(
        self, X: Any, y: Any, *, hub: Any, training: str, instructions: Instructions, **kwargs: Any
    ) -> "WorkerRanker":
        parameters = self.get_params()
        member = _Member(hub, int(parameters["num_machines"]))
        with joined(training, str(parameters["machines"]), int(parameters["local_listen_port"])) as network:
            try:
                self._fit(X, y, member, network, instructions, kwargs)
            except BaseException as error:
                mine = reason = f"the training stopped on worker {member.name}: {type(error).__name__}: {error}"
                with contextlib.suppress(Exception):  # the hub may be lost
                    reason = hub.fail(mine).result(timeout=5)
                if reason != mine and isinstance(error, (lgb.basic.LightGBMError, LambdaplugError)):
                    raise LambdaplugError(reason) from None
                raise
        return self

    def _process_params(self, stage: str) -> dict[str, Any]:
        parameters: dict[str, Any] = super()._process_params(stage)
        parameters.pop("machines", None)  # the network stands already
        return parameters

    def _fit(
        self, X: Any, y: Any, member: _Member, network: Network, told: Instructions, kwargs: dict[str, Any]
    ) -> None:
        if X.shape[0] < 2:
            raise LambdaplugError("LightGBM needs two rows on every worker. Use fewer partitions, or fewer workers.")
        sets = _DataSets()
        labels = sets.add(y, told.training)
        _evaluate(X, labels, sets, told, kwargs)
        metrics = kwargs.pop("eval_metric", None) or []
        kwargs["eval_metric"] = [sets.metric(one) for one in metrics]
        kwargs["callbacks"] = [sets, *member.agreed(kwargs.get("callbacks") or [])]
        network.check()
        member.total(np.zeros(1))  # all are ready, so that none waits in vain for another's network
        network.connect(int(self.get_params()["time_out"]))
        with sharing(Share(told.uneven, member.total)):
            super().fit(X, labels, **kwargs)
        if isinstance(self.objective, Unbiased) and self.objective.propensities is None:
            self.learned = position_bias(self)
        # Given as several evaluation sets, the training data are reported once, by the last of their names.
        mine = [name for name, names in zip(kwargs.get("eval_names") or (), told.evals, strict=False) if names is None]
        for found in (self.evals_result_, self.best_score_):
            for name in mine[:-1]:
                found.setdefault(name, found.get(mine[-1], {}))


def _evaluate(X: Any, labels: Array, data_sets: _DataSets, told: Instructions, kwargs: dict[str, Any]) -> None:
    """Change ``kwargs``, as LightGBM's Dask training gives them to a worker's ranker, into what that understands."""
    paired = "eval_set" not in kwargs  # LightGBM 4.7 says eval_X and eval_y
    pairs = zip(kwargs.pop("eval_X", None) or (), kwargs.pop("eval_y", None) or (), strict=True)
    given = list(pairs) if paired else kwargs.pop("eval_set") or []
    if not given:
        return
    groups, nothing = list(kwargs["eval_group"]), [None] * len(given)
    weights = list(kwargs.get("eval_sample_weight") or nothing)
    scores = list(kwargs.get("eval_init_score") or nothing)
    sets = []
    for i, ((one, block), names) in enumerate(zip(given, told.evals, strict=True)):
        if names is None:
            sets.append((X, labels))  # the very objects, by which LightGBM knows its training data
            continue
        theirs = data_sets.add(block, names)
        if one.shape[0]:
            sets.append((one, theirs))
        else:
            sets.append((take(X, slice(1)), np.zeros(1)))
            groups[i], weights[i] = np.ones(1, np.int64), np.array([STAND_IN_WEIGHT])
            scores[i] = None if scores[i] is None else np.zeros(1)
    kwargs.update(_as_given(sets, paired), eval_group=groups, eval_sample_weight=weights, eval_init_score=scores)


def _as_given(sets: Sequence[tuple[Any, Any]], paired: bool) -> dict[str, Any]:
    """Evaluation sets as this version of LightGBM wants to be given them."""
    rows, labels = (tuple(some) for some in zip(*sets, strict=True))
    return {"eval_X": rows, "eval_y": labels} if paired else {"eval_set": sets}


def _block(y: Any, *columns: Any) -> Array:
    return np.column_stack([vector(one, "y") for one in (y, *columns)])


def _sizes(qid: Any) -> npt.NDArray[np.int64]:
    return sizes_of(values_of(qid))


# --- on the client -------------------------------------------------------------------------------------------------


_FURTHER = ("sample_weight", "init_score")


class _Packed:
    """A data set as LightGBM's Dask training takes it, with at least so many partitions."""

    def __init__(self, data: Examined, columns: dict[str, list[Any]], partitions: int = 0) -> None:
        lacking = max(0, partitions - len(data.rows))  # every worker must have a part of every evaluation set
        rows = [*data.rows, *[0] * lacking]

        def filled(parts: Sequence[Any], empty: npt.NDArray[Any], lengths: Sequence[int]) -> Any:
            return array_of([*parts, *[delayed(empty)] * lacking], lengths, empty.shape[1:], empty)

        X, parts = data.parts["X"], data.parts
        self.names = tuple(columns)
        self.X = like(data.X, [*X, *[delayed(take)(X[0], slice(0))] * lacking], rows) if lacking else data.X
        blocks = [delayed(_block)(*some) for some in zip(parts["y"], *columns.values(), strict=True)]
        self.y = filled(blocks, np.empty((0, 1 + len(columns))), rows)
        sizes = [delayed(_sizes)(part) for part in parts["qid"]] if "qid" in parts else parts["group"]
        queries = [*(len(one.sizes) for one in data.partitions), *[0] * lacking]
        self.group = filled(sizes, np.empty(0, np.int64), queries)
        self.further = {name: filled(data.vectors(name), np.empty(0), rows) for name in _FURTHER if name in parts}


def _eval_sets(given: dict[str, Any], several: dict[str, Any]) -> list[dict[str, Any]]:
    """Every evaluation set's collections by name; ``several`` has lists of one for each of them."""
    eval_set, *pair = given.values()
    if any(one is not None for one in pair):
        if eval_set is not None:
            raise LambdaplugError("eval_set: expected it, or eval_X and eval_y; got both.")
        rows, labels = (() if one is None else one if isinstance(one, tuple) else (one,) for one in pair)
        if len(rows) != len(labels):
            raise LambdaplugError(
                f"eval_X, eval_y: expected as many of the one as of the other, got {len(rows)} and {len(labels)}."
            )
        eval_set = list(zip(rows, labels, strict=True))
    sets = [{"X": X, "y": y} for X, y in eval_set or ()]
    for name, some in several.items():
        values = list(some or [None] * len(sets))
        if len(values) != len(sets):
            raise LambdaplugError(f"eval_{name}: expected one for each of eval_set ({len(sets)}), got {len(values)}.")
        sets = [{**one, name: value} for one, value in zip(sets, values, strict=True)]
    return sets


class DaskLGBMRanker(lgb.DaskLGBMRanker):  # type: ignore[misc]
    """``lightgbm.DaskLGBMRanker`` that takes a measure or an objective: ``.fit(dX, dy, qid=dq)``, or ``group=`` as the parent.

    ``qid`` and ``eval_qid`` have the query id of each row, and cannot be misaligned unnoticed. ``eval_metric`` takes
    ``lp.metric(...)``, exact over the workers, and is the measure trained for if left out; on such metrics early
    stopping works too. Data that cut a query are refused.

    Parameters
    ----------
    objective : str, Measure or Objective
        A measure, by its text or as an object, means ``lp.objective(measure)``.
    client : distributed.Client, optional
        Default the current one.
    **kwargs
        All parameters of ``lightgbm.DaskLGBMRanker``.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> model = lp.DaskLGBMRanker(objective="map", n_estimators=50)  # model.fit(dX, dy, qid=dq), Dask's arrays
    >>> model.n_estimators
    50
    """

    objective: Any

    @functools.wraps(lgb.DaskLGBMRanker.fit)
    def fit(
        self, *args: Any, qid: Any = None, eval_qid: Sequence[Any] | None = None, **kwargs: Any
    ) -> "DaskLGBMRanker":
        client = lgb.dask._get_dask_client(self.client)
        options = by_name(lgb.DaskLGBMRanker.fit, args, kwargs)
        callbacks = options.pop("callbacks", None)
        refuse_unfit(client, callbacks)
        given = {"qid": qid, **{name: options.pop(name, None) for name in ("X", "y", "group", *_FURTHER)}}
        several = {"qid": eval_qid, **{name: options.pop(f"eval_{name}", None) for name in ("group", *_FURTHER)}}
        sets = _eval_sets({name: options.pop(name, None) for name in ("eval_set", "eval_X", "eval_y")}, several)
        metrics = self._metrics(options.pop("eval_metric", None), bool(sets))
        self._check_stopping(metrics, callbacks, bool(sets))

        data = examine(client, **given)
        same = tuple(all(one[name] is None or one[name] is given[name] for name in given) for one in sets)
        evals = [data if same[i] else examine(client, **one) for i, one in enumerate(sets)]
        objective = self._plugged()
        columns = Columns(client, objective, [one for one in metrics if isinstance(one, Metric)], data, evals)
        packed = _Packed(data, columns.of(data))
        others = [packed if one is data else _Packed(one, columns.of(one), len(data.rows)) for one in evals]
        for name in _FURTHER:
            if any(one[name] is not None for one in sets):
                lacking = [i for i, one in enumerate(sets) if one[name] is None and not same[i]]
                if lacking:
                    raise LambdaplugError(
                        f"eval_{name}: expected one for every evaluation set, or none; number {lacking[0]} has none."
                    )
                # Of the training data it is not read, and yet there must be one.
                options[f"eval_{name}"] = [one.further.get(name, one.group) for one in others]
        if sets:
            paired = "eval_X" in inspect.signature(lgb.DaskLGBMRanker.fit).parameters
            options |= {
                **_as_given([(one.X, one.y) for one in others], paired),
                "eval_group": [one.group for one in others],
            }
            options["eval_names"] = options.get("eval_names") or [f"valid_{i}" for i in range(len(sets))]
        options |= {"group": packed.group, **packed.further, "eval_metric": metrics or None}
        uneven = any(one.uneven for one in data.partitions)
        names = tuple(None if one is packed else one.names for one in others)
        told = Instructions(packed.names, names, uneven)
        self._train(client, packed, callbacks=with_callback(objective, callbacks), instructions=told, **options)
        return self

    def _plugged(self) -> Objective | None:
        """What is trained, unless it is LightGBM's own."""
        objective = as_objective(self.objective)
        return objective if isinstance(objective, Objective) else None

    def _metrics(self, asked: Any, evaluated: bool) -> list[Any]:
        """The metrics to report: what is asked for, or else the measure trained for."""
        objective = self._plugged()
        target = None if objective is None else objective.target
        if evaluated and asked is None and target is not None and not self._named_metrics():
            return [Metric([target])]
        return [one for one in (asked if isinstance(asked, list) else [asked]) if one is not None]

    def _train(self, client: Any, data: _Packed, **options: Any) -> None:
        hub, training = client.submit(Hub, actor=True, pure=False), uuid.uuid4().hex
        before = self.objective
        try:
            with watched(client, hub, training):
                options.update(X=data.X, y=data.y, hub=hub, training=training)
                self._lgb_dask_fit(model_factory=WorkerRanker, **options)
            remember(
                self.booster_, before, self.__dict__.pop("learned", None)
            )  # LightGBM takes over a worker's attributes
        finally:
            self.objective = before  # not the copy that was on a worker, whose columns are names

    def _named_metrics(self) -> list[Any]:
        """LightGBM's own that the parameters name."""
        parameters = self.get_params()
        return [parameters[name] for name in ("metric", "metrics", "metric_types") if parameters.get(name)]

    def _check_stopping(self, metrics: list[Any], callbacks: list[Any] | None, evaluated: bool) -> None:
        """LightGBM's metrics are each worker's own: some workers would stop, and the others wait for them for ever."""
        parameters = self.get_params()
        stops = any(parameters.get(name) for name in lgb.basic._ConfigAliases.get("early_stopping_round"))
        stops |= any(isinstance(one, lgb.callback._EarlyStoppingCallback) for one in callbacks or ())
        named = self._named_metrics()
        quiet = all(str(name).lower() in ("none", "custom", "na", "null") for name in named)
        silent = bool(named) or self._plugged() is not None  # else the objective's own metric comes along
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


def _as_estimator(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters by the names that LightGBM's estimators have for them.

    Given under another name, a parameter might lose against the estimator's default.
    """
    renamed, names = dict(params), lgb.basic._ConfigAliases
    for name in lgb.LGBMRanker().get_params():
        found = [alias for alias in names.get_by_alias(name) if alias in renamed]
        main_first = sorted(found, key=lambda alias: (len(names.get(alias)) == 1, alias))
        values = [renamed.pop(alias) for alias in main_first]
        if values:
            renamed[name] = values[0]
    return renamed


def train(job: Job, early_stopping_rounds: int | None, **options: Any) -> dict[str, Any]:
    """``DaskLGBMRanker``, called as ``xgboost.dask.train`` is."""
    client, params, data, objective, evals, metric, callbacks = job
    (X, y, qid), *sets = (triple(one, "for LightGBM ") for one in (data, *(one for one, _ in evals)))
    if objective is not None:
        params = {**params, "objective": objective}
    if early_stopping_rounds is not None:
        callbacks = [*(callbacks or []), lgb.early_stopping(early_stopping_rounds, verbose=False)]
    if sets:
        options["eval_set"] = [(one[0], one[1]) for one in sets]
        options |= {"eval_qid": [one[2] for one in sets], "eval_names": [name for _, name in evals]}
    ranker = DaskLGBMRanker(client=client, **_as_estimator(params))
    ranker.fit(X, y, qid=qid, eval_metric=metric, callbacks=callbacks, **options)
    return {"booster": ranker.booster_, "history": ranker.evals_result_}
