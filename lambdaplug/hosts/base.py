"""What lambdaplug wants to know of a booster: one class, which each host's module implements."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ..callers import callers, method_of
from ..errors import LambdaplugError, LambdaplugWarning
from ..kernels import Team
from ..known import known_of
from ..objectives import Objective, Unbiased
from ..objectives.unbiased import PositionBias, State, keep_state, last_state
from ..queries import Array, Queries
from ..schedules import Learned
from ..training import DataSet, Training

HOSTS = ("lightgbm", "xgboost")
Weights: TypeAlias = tuple[Any, Array, Callable[[Any], Any]]


PACKAGE = __name__.partition(".")[0] + "."
IGNORED = {  # parameters of the hosts' own objectives, and what to say in their place
    "label_gain, ndcg_exp_gain": "Gains are the measure's, lp.NDCG(gain=[0, 1, 3, 7]) or gain='linear'.",
    "sigmoid": "The steepness is sigma= of lp.LambdaRank and lp.objective.",
    "lambdarank_truncation_level, lambdarank_num_pair_per_sample": "Cut-offs are the measure's, lp.objective('ndcg@30').",
    "lambdarank_pair_method": "For the host's own objective: lp.presets.",
    "lambdarank_norm, lambdarank_normalization, lambdarank_score_normalization": (
        "Normalisations are LambdaRank's, normalize= and cost=lp.RankNet(distance=...); lp.objective has both."
    ),
    "lambdarank_unbiased, lambdarank_bias_norm, lambdarank_position_bias_regularization": (
        "Position bias: lp.Unbiased(objective)."
    ),
}


class Host(Protocol):
    """One host; a subclass is made once, in the host's module."""

    name: ClassVar[str]
    floor_name: ClassVar[str]  # the parameter that can forbid every split
    directed: ClassVar[bool]  # a metric has to say that higher is better
    booster: ClassVar[type]
    team: Team | None  # its own threads

    def training(self, booster: Any) -> Training:
        """What is known of this Booster's training."""
        training: Training = known_of(booster).setdefault("training", Training())
        return training

    def read(self, data: Any) -> DataSet:
        """Everything about the call that brought this data set."""
        method = method_of(self.booster)
        booster = None if method is None else method.f_locals["self"]
        look = method is None or method.f_code.co_name not in ("update", "boost")
        training = None if booster is None else self.training(booster)
        # Who called the objective or the metric: the Booster itself, or a function of the user's.
        names = (frame.f_globals.get("__name__", "") for frame in callers())
        own = next((name for name in names if not name.startswith(PACKAGE)), "").startswith(self.name.lower())
        self.check(booster, data)
        if training is not None and not look and not training.checked:
            training.checked = True
            self._warn_of_ignored(self.given(booster))
        return DataSet(
            queries=self.queries(booster, data),
            host=self,
            booster=booster,
            training=training,
            look=look,
            asked=("metric" if look else "objective") if own else "",
            threads=self.threads(booster, data),
            team=self.team,
            total=self.total(booster),
            partial=self.is_partial(booster),
        )

    def _warn_of_ignored(self, given: set[str]) -> None:
        unused = {name: text for names, text in IGNORED.items() for name in names.split(", ") if name in given}
        if unused:
            warnings.warn(
                f"{self.name} uses {', '.join(sorted(unused))} in its own objectives alone, so that they have no effect here. "
                + " ".join(dict.fromkeys(unused.values())),
                LambdaplugWarning,
                stacklevel=2,
            )

    def iteration(self, booster: Any, look: bool, scores: Array) -> int:
        """The round that begins with these scores, or that is looked at."""
        return self.rounds(booster)

    def queries(self, booster: Any, data: Any) -> Queries:
        """The rows of a data set; the same object as long as it does not change."""

    def rounds(self, booster: Any) -> int:
        """How many a Booster has had."""

    def threads(self, booster: Any, data: Any) -> int | None:
        """What the training was told to use."""

    def hessian_floor(self, booster: Any) -> float:
        """The least sum of hessians that a leaf may hold; 0 where there are no leaves."""

    def learning_rate(self, booster: Any) -> float | None:
        """Of the round that begins; None if there is none."""

    def boosters(self, model: Any) -> Iterator[Any]:
        """The Boosters behind what a callback is given: one, or one per fold."""

    def check(self, booster: Any, data: Any) -> None:
        """Refuse parameters with which a custom objective would learn nothing."""
        return

    def on_metric(self, booster: Any, names: list[str]) -> None:
        """A metric reports under these names, of which higher is better."""
        training = None if booster is None else self.training(booster)
        if training is None or training.named:
            return
        training.named = True
        both = sorted(set(names) & self.own_metrics(booster))
        if both:
            warnings.warn(
                f"{self.name} reports a metric of its own as {both[0]!r}, as lp.metric does: which of the two a history or early "
                f"stopping takes is not said. Leave {self.name}'s out, or say lp.metric({both[0]!r}, name='lp-{both[0]}').",
                LambdaplugWarning,
                stacklevel=2,
            )

    def given(self, booster: Any) -> set[str]:
        """The names of parameters of this training that are not as usual."""

    def own_metrics(self, booster: Any) -> set[str]:
        """The names under which the host itself reports, of those that measures here may have too."""

    def total(self, booster: Any) -> Callable[[Array], Array] | None:
        """How arrays are added up over the workers that train together; None on one machine."""
        return None

    def is_partial(self, booster: Any) -> bool:
        """Whether this is one worker of several that train together."""
        return self.total(booster) is not None

    def scores(self, model: Any, X: Any, rounds: int | None) -> Any:
        """What a Booster predicts for these rows, with so many of its rounds: None is as it predicts by itself, -1 all."""

    def prepared(self, model: Any, X: Any) -> Any:
        """The rows as this Booster reads them fastest, for several predictions."""
        return X

    def weights(self, model: Any) -> Weights:
        """See :func:`weights_of`."""

    def data(self, X: Any, labels: Any, group: Any, reference: Any) -> Any:
        """A data set of these rows; the reference is the training data, for an evaluation set."""

    def train(self, objective: Any, data: Any, valid: Any, metric: Any, params: Mapping[str, Any], rounds: int) -> Any:
        """A Booster; the metric, if there is one, is evaluated on the further data set."""


# --- of either host ---------------------------------------------------------------------------------------------------


def host_named(name: str) -> Host:
    """A host is imported when it is first asked for, so neither is needed for the other."""
    if name not in HOSTS:
        raise LambdaplugError(f"host: expected 'lightgbm' or 'xgboost', got {name!r}.")
    if name == "lightgbm":
        from .lightgbm import HOST as LIGHTGBM

        return LIGHTGBM
    from .xgboost import HOST as XGBOOST

    return XGBOOST


def host_of(thing: Any) -> Host:
    """The host of a data set, a model or what a callback is given."""
    packages = (kind.__module__.partition(".")[0] for kind in type(thing).__mro__)
    name = next((name for name in packages if name in HOSTS), None)
    if name is None:
        raise LambdaplugError(
            f"expected a Booster or a fitted ranker of LightGBM or XGBoost, got {type(thing).__name__}."
        )
    return host_named(name)


def booster_of(model: Any) -> Any:
    """The Booster inside a ranker, or that it is."""
    own = getattr(model, "booster_", None)
    return own if own is not None else model.get_booster() if hasattr(model, "get_booster") else model


def raw_scores(model: Any, X: Any, rounds: int | None = None) -> Any:
    """What a Booster or a fitted estimator of either host predicts for these rows; ``rounds`` as in ``Host.scores``."""
    return model.predict(X) if hasattr(model, "fit") else host_of(model).scores(model, X, rounds)


def prepared(model: Any, X: Any) -> Any:
    """The rows as this Booster reads them fastest, for several predictions."""
    return X if hasattr(model, "fit") else host_of(model).prepared(model, X)


def weights_of(model: Any) -> Weights:
    """What the scores of a Booster or a fitted ranker are linear in: (Booster, weights, what rows take from them).

    Weights are the leaf values of all trees, tree after tree, or a linear model's, one per feature. The third is a function
    from rows to a ``scipy.sparse.csr_matrix`` [row, weight]: 1 for each of a row's leaves, or its features.
    """
    return host_of(model).weights(model)


def not_linear(what: str) -> LambdaplugError:
    return LambdaplugError(
        f"{what}: its scores are not sums of one leaf value per tree, nor of one weight per feature, so its weights cannot be "
        "moved."
    )


def ones(places: npt.NDArray[np.int32], weights: int) -> Any:
    """A sparse matrix [row, weight] that is 1 in these columns."""
    from scipy import sparse

    ends = np.arange(0, places.size + 1, places.shape[1])
    return sparse.csr_matrix((np.ones(places.size), places.ravel(), ends), shape=(len(places), weights))


def sliceable(X: Any) -> Any:
    """X with a shape and slices of rows: NumPy, pandas, SciPy."""
    if type(X).__module__.partition(".")[0] in HOSTS:
        raise LambdaplugError(
            f"X: expected the features themselves (array, DataFrame, sparse), got a {type(X).__name__}."
        )
    if hasattr(X, "tocsr"):
        return X.tocsr()
    return X if hasattr(X, "iloc") else np.asarray(X)


def take(X: Any, rows: Any) -> Any:
    """Some rows of what ``sliceable`` returned."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def learned(objective: Any, trained: Any) -> PositionBias | None:
    """The ``position_bias`` of a worker's training; None where it learns none."""
    return position_bias(trained) if isinstance(objective, Unbiased) and objective.propensities is None else None


def remember(booster: Any, objective: Any, curve: PositionBias | None) -> None:
    """Have ``position_bias`` find what the workers of a cluster have learned, where they have."""
    if curve is not None:
        state = State(curve.method, curve)
        state.counts = np.array(curve.counts)
        host_of(booster).training(booster).memory[objective] = Learned(0, None, state)
        keep_state(objective, state)


def position_bias(trained: Any) -> PositionBias:
    """The curve of position biases that a training with ``lp.Unbiased`` has learned, by position, with ``.plot()``.

    Parameters
    ----------
    trained : Booster, estimator or objective
        A Booster of LightGBM or XGBoost as the training returned it, ``lp.LGBMRanker`` or ``lp.XGBRanker`` after ``fit``, or
        the objective: then of the training that began last with it. A Booster that was saved, copied or sliced
        (XGBoost's ``save_best=True``) has no curve; ask the objective.

    Returns
    -------
    PositionBias
        ``propensity``, one value per position, 1 at the first; ``columns``, what was learned, as the last round left it,
        whichever round early stopping chose; ``counts`` of rows and clicks. After a training on Dask, the one curve that all
        workers have.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> position_bias(lp.Unbiased(lp.LambdaRank("map"), position="rows", rate=0.5))
    Traceback (most recent call last):
        ...
    lambdaplug.errors.LambdaplugError: no training with Unbiased(LambdaRank('map'), position='rows', rate=0.5) has begun in this process.
    """
    if isinstance(trained, Objective):
        state, without = last_state(trained), f"no training with {trained!r} has begun in this process."
    else:
        booster = booster_of(trained)
        memory = host_of(booster).training(booster).memory
        found = (known.after for known in reversed(memory.values()) if isinstance(known, Learned))
        state = next((one for one in found if isinstance(one, State)), None)
        without = (
            "this Booster has learned no position biases: it was trained without lp.Unbiased, with known propensities, or is a "
            "copy (saved and loaded, sliced, unpickled). Ask the objective: lp.position_bias(objective)."
        )
    if state is None:
        raise LambdaplugError(without)
    return state.curve
