"""XGBoost: reading a DMatrix, batches for one larger than memory, a ranker that takes lambdaplug's objectives."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost as xgb

from ..callers import method_of
from ..columns import attach, of_data_set
from ..data import whole_queries
from ..errors import LambdaplugError
from ..evaluation import Metric
from ..kernels import openmp_team
from ..known import known_of
from ..measures import Measure
from ..objectives import Objective, as_objective
from ..queries import Array, Queries
from ..rows import one_a_query, sizes_of
from .base import Host, Weights, booster_of, not_linear, ones
from .callback import Follower, with_callback
from .rankers import QueryColumn, RowSet, accepting, add_up, as_metric, host_errors, measure_of

__all__ = ["HOST", "XGBDataIter", "XGBRanker", "metrics_of", "plain_parameters"]

Raw = npt.NDArray[Any]
# XGBoost's defaults for its ranking objectives, where they are not 1.
_USUAL = {
    "lambdarank_num_pair_per_sample": ("4294967295",),
    "lambdarank_pair_method": ("topk",),
    "lambdarank_unbiased": ("0",),
}


xgb.callback.TrainingCallback.register(Follower)  # it has all their methods, but cannot be a subclass


class XGBoost(Host):
    """What XGBoost knows."""

    name = "XGBoost"
    floor_name = "min_child_weight"
    directed = False
    booster = xgb.Booster

    def __init__(self) -> None:
        self.team = openmp_team(getattr(xgb.core, "_LIB", None))

    def queries(self, booster: Any, data: Any) -> Queries:
        """A DMatrix keeps no version, so its labels, groups and weights are compared with the last ones."""
        position = data.get_float_info("label_lower_bound")  # a slice keeps it, and ranking leaves nothing else free
        labels, raw = data.get_label(), (data.get_uint_info("group_ptr"), data.get_weight(), position)
        known = known_of(data).get("queries")
        if (
            known is None
            or not all(map(np.array_equal, known[0], raw))
            or known[1].columns.values is not of_data_set(data).values
            or not np.array_equal(known[1].labels, labels.reshape(-1))  # the getter's own copy is not kept
        ):
            known = known_of(data)["queries"] = raw, _queries(data, labels, *raw)
        found: Queries = known[1]
        return found

    def rounds(self, booster: Any) -> int:
        return int(booster.num_boosted_rounds())

    def threads(self, booster: Any, data: Any) -> int | None:
        if booster is None:
            return getattr(data, "nthread", None)
        training = self.training(booster)
        if training.threads is None:
            training.threads = int(json.loads(booster.save_config())["learner"]["generic_param"]["nthread"])
        return training.threads or getattr(data, "nthread", None)

    def hessian_floor(self, booster: Any) -> float:
        kind = json.loads(booster.save_config())["learner"]["gradient_booster"]
        settings = kind.get("gbtree", kind).get("tree_train_param")  # dart wraps the trees; a linear booster has none
        return 0.0 if settings is None else float(settings["min_child_weight"])

    def learning_rate(self, booster: Any) -> float | None:
        if booster is None:
            return None
        text = booster.save_config()
        found = re.search(r'"(?:eta|learning_rate)":"([^"]+)"', text)
        return None if found is None else float(found[1])

    def boosters(self, model: Any) -> Iterator[Any]:
        yield from (fold.bst for fold in model.cvfolds) if hasattr(model, "cvfolds") else [model]

    def total(self, booster: Any) -> Callable[[Array], Array] | None:
        return _total if xgb.collective.is_distributed() else None

    def given(self, booster: Any) -> set[str]:
        own = json.loads(booster.save_config())["learner"]["objective"].get("lambdarank_param", {})
        return {name for name, value in own.items() if value not in _USUAL.get(name, ("1",))}

    def own_metrics(self, booster: Any) -> set[str]:
        return {one["name"] for one in json.loads(booster.save_config())["learner"].get("metrics", ())}

    def on_metric(self, booster: Any, names: list[str]) -> None:
        """Have the training's own early stopping maximise our metrics.

        XGBoost guesses the direction from a metric's name, and would minimise "mrr". Without a name an EarlyStopping
        watches the last metric, which is ours where the training evaluates by our metric itself.
        """
        super().on_metric(booster, names)
        method = method_of(xgb.callback.CallbackContainer)
        container = None if method is None else method.f_locals["self"]
        callbacks = [] if container is None else container.callbacks
        last = isinstance(getattr(container, "metric", None), Metric) or any(
            isinstance(one, _Plug) for one in callbacks
        )
        for one in callbacks:
            if isinstance(one, xgb.callback.EarlyStopping) and one.maximize is None:
                one.maximize = True if one.metric_name in names or (last and one.metric_name is None) else None

    def scores(self, model: Any, X: Any, rounds: int | None) -> Any:
        reach = 0, max(rounds or 0, 0)
        return model.predict(self.prepared(model, X), output_margin=True, iteration_range=reach)

    def prepared(self, model: Any, X: Any) -> Any:
        if isinstance(X, xgb.DMatrix):
            return X
        named = hasattr(X, "columns")  # a frame brings its own
        known = {} if named else {"feature_names": model.feature_names, "feature_types": model.feature_types}
        return xgb.DMatrix(X, enable_categorical=True, **known)

    def weights(self, model: Any) -> Weights:
        booster = booster_of(model)
        best = booster.attr("best_iteration") if booster is not model else None
        return _weights(booster, None if best is None else int(best) + 1)

    def data(self, X: Any, labels: Any, group: Any, reference: Any) -> Any:
        return xgb.DMatrix(X, labels, qid=np.repeat(np.arange(len(group)), group), enable_categorical=True)

    def train(self, objective: Any, data: Any, valid: Any, metric: Any, params: Mapping[str, Any], rounds: int) -> Any:
        # What a saved model says is its objective; the gradients are ours.
        chosen = {"disable_default_eval_metric": 1, "base_score": 0.0, **params, "objective": "rank:ndcg"}
        further = {"evals": [] if valid is None else [(valid, "valid")], "custom_metric": metric, "verbose_eval": False}
        return xgb.train(chosen, data, rounds, obj=objective, callbacks=with_callback(objective, None), **further)


def _total(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Added up over the workers, each of which calls this as often. XGBoost itself averages the workers' averages."""
    total: npt.NDArray[Any] = xgb.collective.allreduce(values, xgb.collective.Op.SUM)
    return total.reshape(values.shape)


def _queries(data: xgb.DMatrix, labels: Raw, bounds: Raw, weight: Raw, position: Raw) -> Queries:
    rows, own = data.num_row(), replace(of_data_set(data), where=place_of(data)[1], how=HOW)
    if labels.size != rows:
        raise LambdaplugError(
            f"the DMatrix has {rows} rows and {labels.size} labels: xgb.DMatrix(X, label=y, qid=ids)."
        )
    sizes = np.diff(bounds.astype(np.int64))
    group = sizes if len(sizes) or not rows else None  # a worker of a cluster may have no rows
    return Queries(
        labels.reshape(rows),
        group,
        query_weight=weight if weight.size else None,
        columns=own if own.sizes is not None else replace(own, sizes=sizes),
        position=position if position.size else None,
    )


HOW = (
    "lp.attach(data, {name}=values); a ranker takes fit(..., columns={{{name!r}: values}}, eval_columns=[...]). A slice of a "
    "DMatrix begins without columns; in xgb.cv they come along with folds = lp.query_folds(group), folds=folds, "
    "fpreproc=folds.fpreproc"
)


def place_of(data: xgb.DMatrix) -> tuple[int, str]:
    """Which data set this is to the training that runs: 0 its training data, 1 its first evaluation set; and a name for errors."""
    method = method_of(xgb.Booster)
    evals = () if method is None else method.f_locals.get("evals") or ()
    known = [(number, f"the validation set {name!r}") for number, (one, name) in enumerate(evals, 1) if one is data]
    return known[0] if known else (0, "this DMatrix" if method is None else "the training data")


HOST = XGBoost()


class XGBDataIter(xgb.DataIter):  # type: ignore[misc]
    """Batches for ``xgb.ExtMemQuantileDMatrix`` (or ``DMatrix``, ``QuantileDMatrix``) that cut no query.

    Batches may be cut anywhere: a query that goes on in the next batch is put together first (see
    ``lp.data.whole_queries``), which XGBoost would take for two.

    Parameters
    ----------
    batches : callable or sequence
        A function without arguments that reads them, ``(X, labels, qid)`` or ``(X, labels, weight, qid)`` at a time, or a list
        of them; XGBoost goes through them several times. Weights are one per row and equal within a query. A mapping after
        the query ids has further columns of the batch, by name, which ``columns`` holds afterwards.
    cache_prefix : path, optional
        Where XGBoost keeps its pages.
    **options
        Further ones of ``xgboost.DataIter``.

    Attributes
    ----------
    columns : dict
        Those of all rows, once the data set is built, for ``lp.attach(data, **batches.columns)``.

    Examples
    --------
    >>> import xgboost as xgb
    >>> import lambdaplug as lp
    >>> data = lp.data.cubic(queries=4, documents=5, features=3)
    >>> halves = [(data.X[a:b], data.labels[a:b], data.qid[a:b]) for a, b in ((0, 7), (7, 20))]  # query 1 is cut in two
    >>> xgb.QuantileDMatrix(lp.XGBDataIter(halves)).num_row()
    20
    >>> batches = lp.XGBDataIter([(*half, {"price": half[0][:, 0]}) for half in halves])
    >>> train = lp.attach(xgb.QuantileDMatrix(batches), **batches.columns)
    >>> lp.attached(train)["price"].shape
    (20,)
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
        self._names: tuple[str, ...] | None = None
        self._found: list[Sequence[Any]] = []  # the further columns of the batches of this pass
        self.columns: dict[str, Any] = {}

    def reset(self) -> None:
        self._names, self._found = None, []
        self._running = whole_queries(map(self._flat, self._batches() if callable(self._batches) else self._batches))

    def _flat(self, batch: Sequence[Any]) -> Sequence[Any]:
        """Arrays alone, with further columns before the query ids."""
        *arrays, further = batch if isinstance(batch[-1], Mapping) else (*batch, {})
        if len(arrays) not in (3, 4) or self._names not in (None, tuple(further)):
            raise LambdaplugError(
                "XGBDataIter: expected batches (X, labels, qid) or (X, labels, weight, qid), and perhaps a mapping of further "
                f"columns after these, the same in all; got {len(arrays)} arrays and the columns {list(further)}."
            )
        self._names = tuple(further)
        return *arrays[:-1], *further.values(), arrays[-1]

    def next(self, input_data: Callable[..., Any]) -> bool:
        batch, names = next(self._running, None), self._names or ()
        if batch is None:
            columns = zip(names, zip(*self._found, strict=True), strict=False)
            self.columns = {name: np.concatenate(parts) for name, parts in columns}
            return False
        *arrays, ids = batch
        count = len(arrays) - len(names)
        X, labels, *weight = arrays[:count]
        self._found.append(arrays[count:])
        sizes = sizes_of(ids)
        each = one_a_query(np.asarray(weight[0]), sizes) if weight else None
        if weight and each is None:
            raise LambdaplugError("XGBDataIter: XGBoost's weights are one per query; these differ within a query.")
        input_data(data=X, label=labels, group=sizes, weight=each)
        return True


class _Plug(xgb.callback.TrainingCallback):  # type: ignore[misc]
    """For the length of one training, has the Booster use this objective and this metric."""

    def __init__(self, objective: Objective | None, metric: Metric | None) -> None:
        super().__init__()
        self.objective, self.metric = objective, metric

    def before_training(self, model: xgb.Booster) -> xgb.Booster:
        def update(dtrain: Any, iteration: int, fobj: Any = None) -> None:
            xgb.Booster.update(model, dtrain, iteration, fobj or self.objective)

        def eval_set(evals: Any, iteration: int = 0, feval: Any = None, margin: bool = True) -> Any:
            return xgb.Booster.eval_set(model, evals, iteration, feval or self.metric, margin)

        model.update, model.eval_set = update, eval_set
        return model

    def after_training(self, model: xgb.Booster) -> xgb.Booster:
        for name in ("update", "eval_set"):  # XGBoost 2.0 hands over a slice where the best round was kept
            model.__dict__.pop(name, None)
        return model


def plain_parameters(parameters: dict[str, Any], objective: object, metric: object) -> dict[str, Any]:
    """An estimator's parameters as XGBoost itself takes them."""
    if isinstance(as_objective(objective), Objective):
        parameters["objective"] = "rank:ndcg"
        if metric is None:  # rank:ndcg's own metric wants whole labels up to 31, and is not asked for
            parameters.setdefault("disable_default_eval_metric", 1)
    return parameters


class XGBRanker(xgb.XGBRanker, QueryColumn):  # type: ignore[misc]
    """``xgboost.XGBRanker`` that takes a measure, ``XGBRanker(objective="map")``, or any objective of lambdaplug.

    ``eval_metric`` takes ``lp.metric(...)`` too, and is the measure trained for if left out. The parent allows neither,
    so during ``fit`` it sees ``rank:ndcg`` and no metric, and a callback hands ours to the Booster it trains.

    ``qid`` and ``eval_qid`` (or the column ``qid`` of a data frame) may be integers of any size, other numbers or text, as
    long as the rows of a query stand together. ``qid="query"`` is the name of a column of X: query ids, no feature, in
    ``fit``, ``predict`` and ``score``. Frames are pandas', Polars' or Arrow's. ``columns`` and ``eval_columns`` as
    :class:`LGBMRanker` takes them.

    Parameters
    ----------
    objective : str, Measure or Objective
        A measure, by its text or as an object, means ``lp.objective(measure)``; the host's own words (``"lambdarank"``,
        ``"rank:ndcg"``) keep their meaning.
    **kwargs
        All parameters of ``xgboost.XGBRanker``.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> data = lp.data.cubic(queries=20, documents=8, features=5)
    >>> model = lp.XGBRanker(objective=lp.LambdaRank("ndcg"), n_estimators=3, n_jobs=1)
    >>> model.fit(data.X, data.labels, qid=data.qid).predict(data.X).shape
    (160,)
    """

    eval_metric: Any
    callbacks: Any
    usual_column = "qid"
    score: Callable[..., float] = QueryColumn.score  # not the parent's, which knows no group
    _sets: Sequence[RowSet] = ()  # during fit

    def __init__(self, *, objective: str | Measure | Objective = "rank:ndcg", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.objective: Any = objective

    def get_xgb_params(self) -> dict[str, Any]:
        return plain_parameters(super().get_xgb_params(), self.objective, self.eval_metric)

    def _create_ltr_dmatrix(self, ref: Any, data: Any, qid: Any, **kwargs: Any) -> xgb.DMatrix:
        """The parent's, for the training data and then each evaluation set, with its columns."""
        made: xgb.DMatrix = super()._create_ltr_dmatrix(ref, data, qid, **kwargs)
        return attach(made, **next(one.columns for one in self._sets if one.X is data))

    @accepting(xgb.XGBRanker.fit, "columns", "eval_columns")
    def fit(self, X: Any, y: Any, **given: Any) -> "XGBRanker":
        given |= {"X": X, "y": y}
        self._sets = self.sets(given)
        word, metric, callbacks = self.objective, self.eval_metric, self.callbacks
        objective = as_objective(word)
        words, ours = metrics_of(objective, metric)
        plug = _Plug(objective if isinstance(objective, Objective) else None, ours)
        try:
            self.callbacks = [plug, *(with_callback(objective, callbacks) or [])]
            self.eval_metric = words
            with host_errors(word, metric):
                super().fit(**given)
        finally:
            self.objective, self.eval_metric, self.callbacks, self._sets = word, metric, callbacks, ()
        return self

    @accepting(xgb.XGBRanker.predict)
    def predict(self, X: Any, **kwargs: Any) -> Any:
        return super().predict(self.split(X)[0], **kwargs)

    def _trained_for(self) -> Metric:
        return metrics_of(self.objective, self.eval_metric)[1] or measure_of(self.objective, {"rank:map": "map"})

    def plain(self) -> xgb.XGBRanker:
        """The fitted model as XGBoost's own ranker, which other programs (eland, pickles without lambdaplug) know.

        Returns
        -------
        xgboost.XGBRanker
            With ``objective="rank:ndcg"`` and the same predictions. X is then without the columns that are no features.
        """
        own = {**self.get_params(), "objective": "rank:ndcg", "eval_metric": None, "callbacks": None}
        plain = xgb.XGBRanker(**own)
        plain.load_model(self.get_booster().save_raw("ubj"))
        return plain.set_params(**own)


def metrics_of(objective: object, asked: Any) -> tuple[Any, Metric | None]:
    """Of an estimator's eval_metric, what is XGBoost's own, and ours: the measure trained for, if nothing was asked for."""
    if asked is None:
        trained = as_objective(objective)
        target = trained.goal if isinstance(trained, Objective) else None
        return None, None if target is None else Metric.of([target])
    asked = as_metric(asked, isinstance(as_objective(objective), Objective))
    several = asked if isinstance(asked, list) else [asked]
    ours = [one for one in several if isinstance(one, Metric)]
    if not ours:
        return asked, None
    return [one for one in several if not isinstance(one, Metric)] or None, add_up(ours)


# --- models ----------------------------------------------------------------------------------------------------------


def _weights(booster: Any, rounds: int | None) -> Weights:
    """Of so many rounds, which are those that a ranker predicts with."""
    content = json.loads(booster.save_raw("json").decode())
    learner, boosted = content["learner"], content["learner"]["gradient_booster"]
    outputs = [int(learner["learner_model_param"].get(name, 1)) for name in ("num_class", "num_target")]
    trees = boosted["model"].get("trees", []) if boosted["name"] == "gbtree" else []
    if max(outputs) > 1 or any(int(tree["tree_param"]["size_leaf_vector"]) > 1 for tree in trees):
        raise not_linear("a model with several outputs")
    if boosted["name"] == "gblinear":
        return _linear(booster, content)
    dropped = [*boosted.get("weight_drop", ()), *boosted.get("model", {}).get("weight_drop", ())]
    if boosted["name"] != "gbtree" or any(weight != 1 for weight in dropped):
        raise not_linear("a booster of the kind dart, with dropped trees (weight_drop)")
    if not trees:
        raise LambdaplugError("the booster has no trees: train it first.")
    if rounds is not None and rounds < booster.num_boosted_rounds():
        return _weights(booster[:rounds], None)
    leaves = [leaf_nodes(tree) for tree in trees]
    values = np.concatenate([np.array(tree["split_conditions"])[own] for tree, own in zip(trees, leaves, strict=True)])
    first_node = np.cumsum([0, *(len(tree["left_children"]) for tree in trees)])
    place_of_node = np.zeros(first_node[-1], dtype=np.int32)
    nodes = [first + own for first, own in zip(first_node, leaves, strict=False)]
    place_of_node[np.concatenate(nodes)] = np.arange(len(values))

    def read(X: Any) -> Any:
        node = np.asarray(booster.predict(HOST.prepared(booster, X), pred_leaf=True)).reshape(-1, len(trees))
        return ones(place_of_node[node.astype(np.int64) + first_node[:-1]], len(values))

    return booster, values, read


def _linear(booster: Any, content: dict[str, Any]) -> Weights:
    """The weights of features; the constant beside them ranks nothing, and is left as it is."""

    def read(X: Any) -> Any:
        from scipy import sparse

        features = sparse.csr_matrix(X if hasattr(X, "tocsr") else np.asarray(X), dtype=np.float64)
        features.data = np.nan_to_num(features.data, nan=0.0)  # as XGBoost reads what is missing
        return features

    values = np.array(content["learner"]["gradient_booster"]["model"]["weights"][:-1], dtype=np.float64)
    return booster, values, read


def leaf_nodes(tree: dict[str, Any]) -> npt.NDArray[np.int64]:
    """The nodes without children; a pruned tree may also list nodes that nothing leads to."""
    left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
    reached = np.zeros(len(left), dtype=bool)
    reached[0] = True
    reached[left[left >= 0]] = reached[right[right >= 0]] = True
    return np.flatnonzero((left < 0) & reached)
