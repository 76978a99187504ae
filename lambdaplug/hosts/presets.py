"""The hosts' own objectives, tree for tree: start from exactly the model you have, then change one thing at a time.

And CatBoost's, not tree for tree, so that its users see their loss in the other hosts.

A preset is an objective like any other. It mixes, follows schedules, pickles, and works in the other host too; document
weights, query weights, bagging and GOSS do what they do with the built-in. Its hessians may be zero, as the built-in's.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ..checking import integer, is_number
from ..documenting import documented
from ..errors import LambdaplugError
from ..measures import DCG
from ..objectives import LambdaRank
from ..objectives.builtin import XENDCG, Lambdarank, RankPairs, UnbiasedRankPairs

__all__ = ["catboost_yetirank", "lightgbm", "lightgbm_xendcg", "xgboost"]


def lightgbm(
    truncation_level: int = 30,
    norm: bool = True,
    sigmoid: float = 1.0,
    label_gain: Sequence[float] | None = None,
) -> Lambdarank:
    """LightGBM's ``objective="lambdarank"``: ``lgb.train`` grows the same trees, digit by digit.

    For ranks i < truncation_level and j > i of different labels, delta = |gain difference| |discount difference| / ideal
    DCG at the truncation level; with ``norm``, delta is divided by 0.01 + the distance of the scores, and a query's
    gradients and hessians are multiplied by log2(1 + S)/S, S the summed force. Each document's weight multiplies its row.

    Parameters
    ----------
    truncation_level : int
        LightGBM's ``lambdarank_truncation_level``. This and the others go here, not into the training's parameters.
    norm : bool
        LightGBM's ``lambdarank_norm``.
    sigmoid : float
        LightGBM's ``sigmoid``.
    label_gain : sequence of float, optional
        LightGBM's ``label_gain``. Labels are 0, 1, 2, ...

    Returns
    -------
    Objective
        With LightGBM's own gradients and hessians.

    Notes
    -----
    The trees are those of LightGBM 4.0 to 4.7 (tried on x86-64: other processors may fuse its products and sums).
    ``feature_fraction`` below 1 draws other columns than the built-in run, and ``boosting="dart"`` is not reproducible.
    ``Dataset(position=)`` is for ``lp.Unbiased`` around it.

    Examples
    --------
    >>> lightgbm(truncation_level=10).gradients(labels=[1, 0], scores=[0.0, 1.0], group=[2])[0].round(4)
    array([-0.3088,  0.3088], dtype=float32)
    """
    return Lambdarank(truncation_level, norm, sigmoid, label_gain)


@documented
def lightgbm_xendcg(seed: int = 5) -> XENDCG:
    """LightGBM's ``objective="rank_xendcg"`` with ``objective_seed=seed``, digit by digit.

    The cross entropy between softmax(scores) and a distribution drawn anew in each round from the labels. Its random
    numbers follow the round; a training continued with ``init_model`` goes on drawing where the first stopped (the built-in
    begins again).

    Parameters
    ----------
    seed : int
        LightGBM's ``objective_seed``.

    Returns
    -------
    Objective
        With LightGBM's own gradients and hessians.

    References: S. Bruch (2021), "An alternative cross entropy loss for learning-to-rank", WWW.

    >>> lightgbm_xendcg(seed=5).gradients(labels=[1, 0], scores=[0.0, 0.0], group=[2])[1]
    array([0.25, 0.25], dtype=float32)
    """
    return XENDCG(seed)


def xgboost(
    objective: str = "ndcg",
    pair_method: str = "topk",
    num_pair_per_sample: int | None = None,
    normalization: bool = True,
    score_normalization: bool = True,
    exp_gain: bool = True,
    unbiased: bool = False,
    bias_norm: float = 1.0,
) -> RankPairs:
    """XGBoost's ``objective="rank:ndcg"``, ``"rank:map"`` or ``"rank:pairwise"``: ``xgb.train`` grows the same trees.

    Give both trainings ``base_score=0``; a custom objective's default is 0.5.

    Parameters
    ----------
    objective : str
        ``"ndcg"``, ``"map"`` (labels 0 and 1) or ``"pairwise"``.
    pair_method : str
        XGBoost's ``lambdarank_pair_method``. This and the others go here, not into the training's parameters.
    num_pair_per_sample : int, optional
        XGBoost's ``lambdarank_num_pair_per_sample``.
    normalization : bool
        XGBoost's ``lambdarank_normalization``.
    score_normalization : bool
        XGBoost's ``lambdarank_score_normalization``.
    exp_gain : bool
        XGBoost's ``ndcg_exp_gain``.
    unbiased : bool
        XGBoost's ``lambdarank_unbiased``, for those who migrate.
    bias_norm : float
        XGBoost's ``lambdarank_bias_norm``.

    Returns
    -------
    Objective
        Whose gradients and hessians are XGBoost's.

    Notes
    -----
    With ``unbiased`` the place of a row in its query is where it was shown, and the cost from which t+ and t- follow is
    |dM| log(1 + exp(s_i - s_j)) for i better than j, where the paper (Hu et al. 2019) has the other sign: pairs that are
    already in order count most. ``lp.Unbiased(lp.LambdaRank("ndcg"), "rows", "pairwise")`` has the paper's.
    ``lp.position_bias(booster)`` reads t+ and t- afterwards; a continued training begins them anew, as in XGBoost. It is
    then no part of a mixture, and not for clusters.

    The trees are those of XGBoost 2.0 to 3.2 on CPU, where it was tried; XGBoost knows ``normalization=False`` since 2.1
    and ``score_normalization=False`` since 3.0. ``"mean"`` draws pairs by the round, and is the least portable: 3.1 and 3.2 draw these pairs, earlier versions
    others, and newer sources take the seed from the training's own generator instead of from the round. A training continued with ``xgb_model`` goes on drawing where the first stopped.

    Examples
    --------
    >>> xgboost("pairwise").gradients(labels=[1, 0], scores=[0.0, 0.0], group=[2])
    (array([-0.5,  0.5], dtype=float32), array([0.5, 0.5], dtype=float32))
    """
    own = objective, pair_method, num_pair_per_sample, normalization, score_normalization, exp_gain
    if unbiased:
        return UnbiasedRankPairs(*own, bias_norm=bias_norm)
    if bias_norm != 1.0:
        raise LambdaplugError(f"bias_norm: it belongs to unbiased=True, got {bias_norm!r} without it.")
    return RankPairs(*own)


@dataclass(frozen=True)
class Decay:
    """The discount of which each is 0.15 decay^(rank - 1) above the next."""

    decay: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "__qualname__", f"Decay({self.decay:g})")  # a measure's text has it

    def __call__(self, rank: int) -> float:
        return float(0.15 / (1.0 - self.decay) * self.decay ** (rank - 1))


def catboost_yetirank(decay: float = 0.85, permutations: int = 10, seed: int = 0) -> LambdaRank:
    """CatBoost's ``loss_function="YetiRank"`` with ``mode=Classic``: the same weights of the same pairs, other trees.

    In each round the documents of a query are put in order ``permutations`` times, by their scores plus logistic noise.
    Neighbours at the places p and p + 1 (from 1) with the labels a and b make a pair of the weight

        0.15 decay^(p - 1) |a - b| / permutations,

    and RankNet's force between them, at the scores without noise. That is ``lp.LambdaRank`` with ``noise=1`` and
    ``neighbours=1`` for a DCG of linear gains with the discount 0.15/(1 - decay) decay^(rank - 1). It is not CatBoost tree for
    tree: the draws are others, its trees are symmetric, and it draws a second time for the values of the leaves. Labels
    are numbers >= 0.

    Parameters
    ----------
    decay : float
        CatBoost's ``decay``, between 0 and 1.
    permutations : int
        CatBoost's ``permutations``.
    seed : int
        Of the draws.

    Returns
    -------
    LambdaRank
        With noise, over neighbours.

    References
    ----------
    A. Gulin, I. Kuralenok, D. Pavlov (2011), "Winning the transfer learning track of Yahoo!'s learning to rank challenge
    with YetiRank", JMLR W&CP 14.

    Examples
    --------
    >>> catboost_yetirank(permutations=1000).gradients(labels=[1, 0], scores=[0.0, 0.0], group=[2])[0].round(4)
    array([-0.075,  0.075], dtype=float32)
    """
    if not is_number(decay) or not 0 < decay < 1:
        raise LambdaplugError(f"catboost_yetirank: decay must lie between 0 and 1, got {decay!r}.")
    permutations = integer(permutations, "permutations")
    measure = DCG(gain="linear", discount=Decay(float(decay)))
    return LambdaRank(measure, noise=1.0, samples=permutations, neighbours=1, seed=seed)
