"""A booster's weights, leaf values or a linear model's: read, looked up for rows, and put into a booster of the same host."""

import abc
import importlib
import json
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..analysis import LeafModel, LinearModel
from ..errors import LambdaplugError
from ..queries import Array

__all__ = ["Leaves", "Weights", "raw_scores", "sliceable", "take", "weights_of"]

Places = npt.NDArray[np.int32]


class Weights(abc.ABC):
    """What a booster's scores are linear in."""

    booster: Any
    values: Array

    def scores(self, X: Any) -> Array:
        """The booster's own raw scores of these rows."""
        return np.asarray(raw_scores(self.booster, X), dtype=np.float64)

    @abc.abstractmethod
    def read(self, X: Any) -> tuple[Array, npt.NDArray[Any]]:
        """Those scores, and what each row takes from ``values``."""

    @abc.abstractmethod
    def rebuilt(self, values: Array) -> Any:
        """A booster with other weights; the first one stays as it is."""

    def model(self, X: Any, rows: int) -> LeafModel | LinearModel:
        """For the analyses, which know no host; rows of X are predicted a chunk at a time."""
        matrix = sliceable(X)
        if matrix.shape[0] != rows:
            raise LambdaplugError(f"X: expected one row per label ({rows}), got {matrix.shape[0]}.")
        return self._model(lambda first, last: self.read(take(matrix, slice(first, last))))

    @abc.abstractmethod
    def _model(self, read: Callable[[int, int], tuple[Array, npt.NDArray[Any]]]) -> LeafModel | LinearModel:
        """Of all weights."""


class Leaves(Weights):
    """The leaf values of the trees that a booster predicts with, tree after tree.

    A row's table has the places ``[row, tree]`` of its leaves in ``values``.
    """

    trees: int

    def _model(self, read: Callable[[int, int], tuple[Array, npt.NDArray[Any]]]) -> LeafModel:
        return LeafModel(self.values, self.trees, read)


def weights_of(model: Any) -> Weights:
    """Of a Booster or a fitted ranker of LightGBM or XGBoost."""
    hosts = {kind.__module__.partition(".")[0] for kind in type(model).__mro__}
    if "lightgbm" in hosts:
        return _LightGBM(model.booster_ if hasattr(model, "booster_") else model)
    if "xgboost" in hosts:
        booster = model.get_booster() if hasattr(model, "get_booster") else model
        content = json.loads(booster.save_raw("json").decode())
        if content["learner"]["gradient_booster"]["name"] == "gblinear":
            return _XGBoostLinear(booster, content)
        best = booster.attr("best_iteration") if booster is not model else None
        if best is not None:  # what a ranker predicts with, and a Booster does not
            booster = booster[: int(best) + 1]
            content = json.loads(booster.save_raw("json").decode())
        return _XGBoost(booster, content)
    raise LambdaplugError(f"expected a Booster or a fitted ranker of LightGBM or XGBoost, got {type(model).__name__}.")


def raw_scores(model: Any, X: Any, rounds: int | None = None) -> Any:
    """What a Booster or a fitted estimator of either host predicts for these rows; a Booster by so many of its rounds."""
    if hasattr(model, "fit"):
        return model.predict(X)
    if hasattr(model, "inplace_predict"):  # XGBoost's Booster
        return model.predict(_matrix(model, X), output_margin=True, iteration_range=(0, rounds or 0))
    return model.predict(X, raw_score=True, num_iteration=rounds)


def _matrix(booster: Any, X: Any) -> Any:
    known: dict[str, Any] = {"enable_categorical": True}
    if not hasattr(X, "columns"):  # a frame brings its own
        known |= {"feature_names": booster.feature_names, "feature_types": booster.feature_types}
    return importlib.import_module("xgboost").DMatrix(X, **known)


def sliceable(X: Any) -> Any:
    """X with a shape and slices of rows: NumPy, pandas, SciPy."""
    if type(X).__module__.partition(".")[0] in ("lightgbm", "xgboost"):
        raise LambdaplugError(
            f"X: expected the features themselves (array, DataFrame, sparse), got a {type(X).__name__}."
        )
    if hasattr(X, "tocsr"):
        return X.tocsr()
    return X if hasattr(X, "iloc") else np.asarray(X)


def take(X: Any, rows: Any) -> Any:
    """Some rows of what ``sliceable`` returned."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def _refuse(what: str) -> LambdaplugError:
    return LambdaplugError(
        f"{what}: its scores are not sums of one leaf value per tree, nor of one weight per feature, so its weights cannot be "
        "moved."
    )


def _refuse_several_outputs(learner: dict[str, Any], more: bool = False) -> None:
    outputs = [int(learner["learner_model_param"].get(name, 1)) for name in ("num_class", "num_target")]
    if max(outputs) > 1 or more:
        raise _refuse("a model with several outputs")


class _LightGBM(Leaves):
    def __init__(self, booster: Any) -> None:
        header, *blocks = re.split(r"^Tree=\d+$", booster.model_to_string(), flags=re.M)
        if "num_tree_per_iteration=1\n" not in header:
            raise _refuse("a model with several trees per round (num_class)")
        if re.search(r"^average_output$", header, flags=re.M):
            raise _refuse("a random forest (boosting=rf), which averages,")
        if any(re.search(r"^is_linear=1$", block, flags=re.M) for block in blocks):
            raise _refuse("a model with linear_tree")
        found = [re.search(r"^leaf_value=(.*)$", block, flags=re.M) for block in blocks]
        values = [np.array(match.group(1).split(), dtype=np.float64) for match in found if match is not None]
        if not values:
            raise LambdaplugError("the booster has no trees: train it first.")
        self.booster = booster
        self.values = np.concatenate(values)
        self.trees = len(values)
        self._starts = np.cumsum([0, *map(len, values)])

    def read(self, X: Any) -> tuple[Array, Places]:
        scores = self.scores(X)
        leaf = np.asarray(self.booster.predict(X, pred_leaf=True)).reshape(len(scores), -1)
        return scores, leaf.astype(np.int32) + self._starts[:-1].astype(np.int32)

    def rebuilt(self, values: Array) -> Any:
        # As pickled: parameters, best_iteration and trees beyond it stay; Booster(model_str=...) would also print.
        booster = pickle.loads(pickle.dumps(self.booster))
        for place in np.flatnonzero(values != self.values).tolist():
            tree = int(np.searchsorted(self._starts, place, side="right")) - 1
            booster.set_leaf_output(tree, place - int(self._starts[tree]), float(values[place]))
        return booster


class _XGBoost(Leaves):
    def __init__(self, booster: Any, content: dict[str, Any]) -> None:
        self._json = content
        learner = content["learner"]
        kind = learner["gradient_booster"]["name"]
        if kind != "gbtree":
            raise _refuse(f"a booster of the kind {kind}")
        trees = learner["gradient_booster"]["model"]["trees"]
        if not trees:
            raise LambdaplugError("the booster has no trees: train it first.")
        _refuse_several_outputs(learner, any(int(tree["tree_param"]["size_leaf_vector"]) > 1 for tree in trees))
        self.booster = booster
        self.trees = len(trees)
        values, places, starts = [], [], [0]
        count = 0
        for tree in trees:
            leaves = _leaf_nodes(tree)
            values.append(np.array(tree["split_conditions"])[leaves])
            place = np.zeros(len(tree["left_children"]), dtype=np.int32)
            place[leaves] = count + np.arange(len(leaves))
            count += len(leaves)
            places.append(place)
            starts.append(starts[-1] + len(place))
        self.values = np.concatenate(values)
        self._place_of_node = np.concatenate(places)
        self._nodes = np.array(starts[:-1])

    def read(self, X: Any) -> tuple[Array, Places]:
        matrix = _matrix(self.booster, X)
        scores = np.asarray(self.booster.predict(matrix, output_margin=True), dtype=np.float64)
        node = np.asarray(self.booster.predict(matrix, pred_leaf=True)).reshape(len(scores), -1)
        return scores, self._place_of_node[node.astype(np.int64) + self._nodes]

    def rebuilt(self, values: Array) -> Any:
        changed = json.loads(json.dumps(self._json))
        first = 0
        for tree in changed["learner"]["gradient_booster"]["model"]["trees"]:
            leaves = _leaf_nodes(tree)
            for node, value in zip(leaves.tolist(), values[first : first + len(leaves)].tolist(), strict=True):
                tree["split_conditions"][node] = value
                tree["base_weights"][node] = value
            first += len(leaves)
        return _loaded(changed)


class _XGBoostLinear(Weights):
    """booster="gblinear": a weight per feature, and a constant, which moves no ranking and is left as it is."""

    def __init__(self, booster: Any, content: dict[str, Any]) -> None:
        _refuse_several_outputs(content["learner"])
        self.booster = booster
        self._json = content
        self.values = np.array(content["learner"]["gradient_booster"]["model"]["weights"][:-1], dtype=np.float64)

    def read(self, X: Any) -> tuple[Array, npt.NDArray[Any]]:
        features = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
        return self.scores(X), np.nan_to_num(features, nan=0.0)  # as XGBoost reads what is missing

    def rebuilt(self, values: Array) -> Any:
        changed = json.loads(json.dumps(self._json))
        changed["learner"]["gradient_booster"]["model"]["weights"][:-1] = values.tolist()
        return _loaded(changed)

    def _model(self, read: Callable[[int, int], tuple[Array, npt.NDArray[Any]]]) -> LinearModel:
        return LinearModel(self.values, read)


def _loaded(content: dict[str, Any]) -> Any:
    booster = importlib.import_module("xgboost").Booster()
    booster.load_model(bytearray(json.dumps(content).encode()))
    return booster


def _leaf_nodes(tree: dict[str, Any]) -> npt.NDArray[np.int64]:
    """The nodes without children; a pruned tree may also list nodes that nothing leads to."""
    left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
    reached = np.zeros(len(left), dtype=bool)
    reached[0] = True
    reached[left[left >= 0]] = reached[right[right >= 0]] = True
    return np.flatnonzero((left < 0) & reached)
