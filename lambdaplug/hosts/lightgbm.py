"""LightGBM: reading a Dataset, and a ranker that takes lambdaplug's objectives."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import lightgbm as lgb
import numpy as np
import numpy.typing as npt

from ..checking import shown
from ..columns import Columns, attach, of_data_set
from ..errors import LambdaplugError
from ..evaluation import Metric
from ..grouping import group_sizes
from ..kernels import openmp_team
from ..known import known_of
from ..objectives import Objective, as_objective
from ..queries import Array, Queries
from ..rows import one_a_query
from ..training import Rows, Training
from .base import Host, Weights, booster_of, not_linear, ones
from .callback import with_callback
from .rankers import QueryColumn, accepting, as_metric, host_errors, measure_of

__all__ = ["HOST", "LGBMRanker", "stamp"]

_RATES = ("learning_rate", "shrinkage_rate", "eta")  # the first that is given counts
_METRICS = ("metric", "metrics", "metric_types")
_CUTS = ("eval_at", "ndcg_eval_at", "ndcg_at", "map_eval_at", "map_at")
_THREADS = ("num_threads", "num_thread", "nthread", "nthreads", "n_jobs")


class LightGBM(Host):
    """What LightGBM knows."""

    name = "LightGBM"
    floor_name = "min_sum_hessian_in_leaf"
    directed = True
    booster = lgb.Booster

    def __init__(self) -> None:
        self.team = openmp_team(getattr(lgb.basic, "_LIB", None))

    def queries(self, booster: Any, data: Any) -> Queries:
        if isinstance(data, Rows):
            return _rows_alone(data) if booster is None else self._rows_of(self.training(booster), data)
        state = getattr(data, "version", 0), of_data_set(_origin(data, attached=True)[0])
        known = known_of(data).get("queries")
        if known is None or known[0] != state:
            uneven = booster is not None and self.training(booster).uneven
            known = known_of(data)["queries"] = state, _queries(data, _called(booster, data), uneven)
        found: Queries = known[1]
        return found

    def _rows_of(self, training: Training, data: Rows) -> Queries:
        """Those of LightGBM's own ranker, which hands over other arrays when something has changed."""
        last = training.rows
        if last is None or any(one is not other for one, other in zip(last[0], data, strict=True)):
            last = training.rows = data, _rows_alone(data)
        return last[1]

    def rounds(self, booster: Any) -> int:
        return int(booster.current_iteration()) + self.training(booster).dropped

    def iteration(self, booster: Any, look: bool, scores: Array) -> int:
        """LightGBM drops a tree without a split, and its count of trees stands still.

        That round counts all the same, or a schedule would never leave it. Then the scores are as they were, and yet the
        Booster has made its list of what it has predicted anew, which it does after each tree. An interrupted round has
        not come so far, and one that was rolled back has other scores in their last digits.
        """
        if not look:
            trees, training = int(booster.current_iteration()), self.training(booster)
            after, sample = getattr(booster, "_Booster__is_predicted_cur_iter", None), scores[:: 1 + len(scores) // 100]
            if training.last is not None and trees == training.last[0] and after is not training.last[1]:
                training.dropped += np.array_equal(sample, training.last[2])
            training.last = trees, after, sample.copy()
        return self.rounds(booster)

    def threads(self, booster: Any, data: Any) -> int | None:
        parameters = _parameters(booster, data)
        return max((int(parameters[name]) for name in _THREADS if parameters.get(name)), default=0) or None

    def hessian_floor(self, booster: Any) -> float:
        # The text ends with the parameters as LightGBM has understood them, whatever names they were given by.
        found = re.search(r"^\[min_sum_hessian_in_leaf: (.*)\]$", booster.model_to_string(num_iteration=1), flags=re.M)
        return 0.0 if found is None else float(found[1])

    def learning_rate(self, booster: Any) -> float | None:
        if booster is None:
            return None
        return next((float(booster.params[name]) for name in _RATES if name in booster.params), 0.1)

    def boosters(self, model: Any) -> Iterator[Any]:
        yield from getattr(model, "boosters", None) or [model]

    def given(self, booster: Any) -> set[str]:
        said = {name for name, value in booster.params.items() if value is not None}
        return said - {"label_gain"} if any("ndcg" in name for name in self.own_metrics(booster)) else said

    def own_metrics(self, booster: Any) -> set[str]:
        said = next((booster.params[name] for name in _METRICS if booster.params.get(name)), ())
        cuts = next((booster.params[name] for name in _CUTS if booster.params.get(name)), (1, 2, 3, 4, 5))
        words = said.split(",") if isinstance(said, str) else [str(one) for one in said]
        ranks = cuts.split(",") if isinstance(cuts, str) else np.atleast_1d(cuts).tolist()
        return {f"{word.strip()}@{k}" for word in words for k in ranks}

    def check(self, booster: Any, data: Any) -> None:
        if str(_parameters(booster, data).get("bagging_by_query", False)).lower() in ("true", "1", "+", "yes"):
            raise LambdaplugError(
                "bagging_by_query=True with a custom objective makes LightGBM learn nothing, or corrupts its first row. "
                "Remove it; bagging_fraction with bagging_freq samples documents and works."
            )

    def total(self, booster: Any) -> Callable[[Array], Array] | None:
        return None if booster is None else self.training(booster).total

    def is_partial(self, booster: Any) -> bool:
        return super().is_partial(booster) or int(_parameters(booster, None).get("num_machines", 1)) > 1

    def scores(self, model: Any, X: Any, rounds: int | None) -> Any:
        return model.predict(X, raw_score=True, num_iteration=rounds)

    def weights(self, model: Any) -> Weights:
        return _weights(booster_of(model))

    def data(self, X: Any, labels: Any, group: Any, reference: Any) -> Any:
        return lgb.Dataset(X, labels, group=group, reference=reference)

    def train(self, objective: Any, data: Any, valid: Any, metric: Any, params: Mapping[str, Any], rounds: int) -> Any:
        chosen = {"metric": "None", "verbose": -1, **params, "objective": objective}
        valid_sets, callbacks = [] if valid is None else [valid], with_callback(objective, None)
        return lgb.train(chosen, data, rounds, valid_sets=valid_sets, callbacks=callbacks)


def _parameters(booster: Any, data: Any) -> dict[str, Any]:
    """A Dataset that was built before does not hear of the training's parameters; its Booster has them."""
    return dict(getattr(data, "params", None) or {}) if booster is None else dict(booster.params)


def _called(booster: Any, data: lgb.Dataset) -> str:
    """What a data set is to this training, for errors."""
    if booster is None:
        return "this Dataset"
    sets = zip(booster.valid_sets, booster.name_valid_sets, strict=False)
    return next((f"the validation set {name!r}" for one, name in sets if one is data), "the training data")


def _origin(data: lgb.Dataset, attached: bool = False) -> tuple[lgb.Dataset, npt.NDArray[np.int64] | None]:
    """The data set that this one was cut from, or the nearest with columns, and which of its rows these are (None: all)."""
    rows = None
    while data.used_indices is not None and not (attached and of_data_set(data).values):
        used = np.asarray(data.used_indices, dtype=np.int64)
        rows, data = used if rows is None else used[rows], data.reference
    return data, rows


def _rows_alone(data: Rows) -> Queries:
    """Of LightGBM's own ranker, which passes on no data set."""
    how = "lp.LGBMRanker in place of lgb.LGBMRanker, .fit(X, y, group=group, columns={{{name!r}: values}})"
    columns = Columns(sizes=data.group, where="what lgb.LGBMRanker passes on", how=how)
    return _weighted(data.labels, data.group, data.weight, columns=columns)


def _queries(data: lgb.Dataset, where: str, uneven: bool = False) -> Queries:
    labels, group = data.get_label(), data.get_group()
    if labels is None:
        raise LambdaplugError("the Dataset has no labels: lgb.Dataset(X, label=y, group=sizes).")
    whole, rows = _origin(data)  # its weights decide, so that all folds weigh alike
    if rows is not None and whole.get_group() is not None:
        _refuse_cut_queries(whole.get_group(), rows)
        uneven |= _query_weights(whole.get_weight(), whole.get_group()) is None
    if group is None:
        group_sizes(None)  # says what is missing
    position = getattr(whole, "get_position", lambda: None)()  # LightGBM's own subsets lose it
    position = position if position is None or rows is None else np.asarray(position)[rows]
    holder, held = _origin(data, attached=True)
    how = "lp.attach(data, {name}=values); a ranker takes fit(..., columns={{{name!r}: values}}, eval_columns=[...])"
    columns = Columns(of_data_set(holder).values, held, holder.get_group(), where, how)
    return _weighted(labels, group, data.get_weight(), uneven, columns=columns, position=position)


def _weighted(labels: Any, group: Any, weight: Any, uneven: bool = False, **further: Any) -> Queries:
    """LightGBM has document weights only. Those that are equal within every query are meant for the queries.

    On a cluster (``uneven``), within every query of all workers.
    """
    each = None if uneven else _query_weights(weight, group)
    if each is not None:
        return Queries(labels, group, query_weight=each, **further)
    return Queries(labels, group, document_weight=weight, **further)


def _query_weights(weight: Any, group: Any) -> npt.NDArray[Any] | None:
    """The weight of each query, where a query's documents have equal ones."""
    if weight is None or group is None:
        return None
    return one_a_query(np.asarray(weight, np.float64), np.asarray(group))


def _refuse_cut_queries(sizes: npt.NDArray[Any], rows: npt.NDArray[np.int64]) -> None:
    """Refuse rows that are a part of some query of the whole."""
    taken = np.bincount(np.repeat(np.arange(len(sizes)), sizes)[rows], minlength=len(sizes))
    cut = np.flatnonzero((taken > 0) & (taken < sizes))
    if len(cut):
        raise LambdaplugError(
            f"queries are cut in two by this subset, {len(cut)} in all; the first is query {cut[0]}, with "
            f"{taken[cut[0]]} of its {sizes[cut[0]]} documents. lgb.cv(nfold=...) does that with every custom "
            "objective: pass folds=lp.query_folds(group, 5) or folds=GroupKFold(5)."
        )


HOST = LightGBM()


class DataSets:
    """A callback that finds out which data sets a ranker's training has, when it begins, and gives them their columns."""

    before_iteration = True

    def __init__(self, columns: Sequence[Mapping[str, Any]]) -> None:
        self.order = -1 << 30  # before all other callbacks
        self.columns = columns  # of the training data, and of each evaluation set that is another
        self.found: list[lgb.Dataset] = []

    def __call__(self, environment: Any) -> None:
        if environment.iteration == environment.begin_iteration:
            self.found = [environment.model.train_set, *environment.model.valid_sets]
            for data, columns in zip(self.found, self.columns, strict=True):
                attach(data, **columns)

    def metric(self, metric: Any) -> Any:
        """A metric of ours as LightGBM's ranker calls it, which passes it arrays of a data set; others as they are."""
        if isinstance(metric, list):
            return [self.metric(one) for one in metric]
        if not isinstance(metric, Metric):
            return metric

        def evaluate(labels: Any, scores: Any, weight: Any, group: Any) -> Any:  # noqa: ARG001
            return metric(scores, next(data for data in self.found if data.get_label() is labels))

        return evaluate


PAIRED = "eval_X" in inspect.signature(lgb.LGBMRanker.fit).parameters  # LightGBM 4.7, where eval_set= is deprecated


class LGBMRanker(lgb.LGBMRanker, QueryColumn):  # type: ignore[misc]
    """``lightgbm.LGBMRanker`` that takes a measure, ``LGBMRanker(objective="map")``, or any objective of lambdaplug.

    It evaluates by the measure trained for, unless ``eval_metric`` or ``metric`` says otherwise; ``score`` has that measure too.

    ``fit`` takes ``qid`` (one query id per row) or ``group`` (sizes), and ``eval_qid`` or ``eval_group``. ``qid="query"`` is the
    name of a column of X: query ids, no feature, in ``fit``, ``predict`` and ``score``. Frames are pandas', Polars' or Arrow's.

    ``columns={"price": prices}`` and ``eval_columns=[{...}]``, one for each evaluation set, are what :func:`lambdaplug.attach`
    gives a data set; ``columns=["price"]`` are names of columns of X, taken out of it and out of the evaluation sets.

    Parameters
    ----------
    objective : str, Measure or Objective
        A measure, by its text or as an object, means ``lp.objective(measure)``; the host's own words (``"lambdarank"``,
        ``"rank:ndcg"``) keep their meaning.
    **kwargs
        All parameters of ``lightgbm.LGBMRanker``.

    Examples
    --------
    >>> import lambdaplug as lp
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
        return any(self.get_params().get(name) for name in _METRICS)

    @accepting(lgb.LGBMRanker.fit, "qid", "eval_qid", "columns", "eval_columns")
    def fit(self, X: Any, y: Any, **given: Any) -> "LGBMRanker":
        given |= {"X": X, "y": y}
        training, *evals = self.sets(given)
        if evals and PAIRED:
            given["eval_X"], given["eval_y"] = zip(*given.pop("eval_set"), strict=True)
        sets = DataSets([training.columns, *(one.columns for one in evals if one is not training)])
        objective = as_objective(self.objective)
        metric = as_metric(given.get("eval_metric"), isinstance(objective, Objective))
        if (
            metric is None
            and isinstance(objective, Objective)
            and objective.goal is not None
            and not self._names_metric()
        ):
            metric = Metric.of([objective.goal])
        given["eval_metric"] = sets.metric(metric)
        given["callbacks"] = [sets, *(with_callback(objective, given.get("callbacks")) or ())]
        with host_errors(self.objective):
            super().fit(**given)
        return self

    @accepting(lgb.LGBMRanker.predict)
    def predict(self, X: Any, *args: Any, **kwargs: Any) -> Any:
        return super().predict(self.split(X)[0], *args, **kwargs)

    def plain(self) -> lgb.LGBMRanker:
        """The fitted model as LightGBM's own ranker, which other programs (eland, pickles without lambdaplug) know.

        Returns
        -------
        lightgbm.LGBMRanker
            With ``objective="lambdarank"`` and the same predictions; its text says so too, as :func:`lambdaplug.stamp` makes it.
            X is then without the columns that are no features.
        """
        own = {**self.get_params(), "objective": "lambdarank"}
        plain = lgb.LGBMRanker(**own)
        fitted = {name: value for name, value in vars(self).items() if name not in (*own, "query_column_", "columns_")}
        vars(plain).update(fitted, _Booster=stamp(self.booster_), _objective="lambdarank")
        return plain


# --- models ----------------------------------------------------------------------------------------------------------


def _weights(booster: Any) -> Weights:
    header, *blocks = re.split(r"^Tree=\d+$", booster.model_to_string(), flags=re.M)
    for wrong, what in (
        ("num_tree_per_iteration=1\n" not in header, "a model with several trees per round (num_class)"),
        ("\naverage_output\n" in header, "a random forest (boosting=rf), which averages,"),
        (any("\nis_linear=1\n" in block for block in blocks), "a model with linear_tree"),
    ):
        if wrong:
            raise not_linear(what)
    found = [re.search(r"^leaf_value=(.*)$", block, flags=re.M) for block in blocks]
    trees = [np.array(match.group(1).split(), dtype=np.float64) for match in found if match is not None]
    if not trees:
        raise LambdaplugError("the booster has no trees: train it first.")
    values, starts = np.concatenate(trees), np.cumsum([0, *map(len, trees)])

    def read(X: Any) -> Any:
        leaf = np.asarray(booster.predict(X, pred_leaf=True)).reshape(-1, len(trees))
        return ones(leaf.astype(np.int32) + starts[:-1].astype(np.int32), len(values))

    return booster, values, read


T = TypeVar("T")


def stamp(model: T) -> T:
    """A model trained with a lambdaplug objective, with the line ``objective=lambdarank`` that other readers want.

    LightGBM writes no objective for a model whose gradients came from Python. A ranker's scores are the plain sums of its
    trees whatever the objective was, so the line changes no prediction. Stamping twice changes nothing. XGBoost's models need
    no stamp: they carry the ``objective`` parameter of their training, such as ``rank:ndcg``.

    Parameters
    ----------
    model : lightgbm.Booster or str
        A Booster, or the model's text. It stays as it is.

    Returns
    -------
    lightgbm.Booster or str
        A new one of the same kind.

    Examples
    --------
    >>> text = stamp("tree\\nversion=v4\\nnum_class=1\\nnum_tree_per_iteration=1\\nmax_feature_idx=3\\n\\nTree=0\\n")
    >>> text.splitlines()[4:6]
    ['max_feature_idx=3', 'objective=lambdarank']
    """
    booster = isinstance(model, lgb.Booster)
    text: Any = model.model_to_string(num_iteration=-1) if booster else model  # type: ignore[attr-defined]
    if not isinstance(text, str) or not re.match(r"tree\r?\n", text) or "\nTree=" not in text:
        raise LambdaplugError(
            "stamp: expected a lightgbm.Booster with a tree (of a ranker, its booster_), or the text of its model, "
            f"pathlib.Path(name).read_text(); got {shown(model)}. An XGBoost model needs no stamp."
        )
    stamped = _stamped(text)
    if not booster:
        return stamped  # type: ignore[return-value]
    made = lgb.Booster(model_str=stamped)
    made.best_iteration, made.best_score = model.best_iteration, model.best_score  # type: ignore[attr-defined]
    return made  # type: ignore[no-any-return]


def _stamped(text: str) -> str:
    """The text with its objective said, in the place where LightGBM writes it."""
    end = "\r\n" if text.startswith("tree\r") else "\n"  # a text that was through Windows keeps its ends
    header, tree, rest = text.partition(f"{end}Tree=")
    lines = header.split(end)
    said = next((line for line in lines if line.startswith("objective=")), "")
    if re.match(r"objective=(lambdarank|rank_xendcg)\b", said):
        return text
    if said or "num_class=1" not in lines or "num_tree_per_iteration=1" not in lines:
        raise LambdaplugError(
            f"stamp: expected a model of a custom objective with one score for each row; this one says {said or 'several classes'!r}, "
            "and its scores may be transformed."
        )
    place = next(number for number, line in enumerate(lines) if line.startswith("max_feature_idx="))
    lines.insert(place + 1, "objective=lambdarank")
    # The parameters at the end repeat it, and there converters to ONNX look.
    rest = rest.replace(f"{end}[objective: custom]{end}", f"{end}[objective: lambdarank]{end}", 1)
    return end.join(lines) + tree + rest
