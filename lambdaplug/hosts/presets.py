"""The hosts' own objectives, tree for tree: start from exactly the model you have, then change one thing at a time.

And CatBoost's, not tree for tree, so that its users see their loss in the other hosts.

A preset is an objective like any other. It mixes, follows schedules, pickles, and works in the other host too; document
weights, query weights, bagging and GOSS do what they do with the built-in. Its hessians may be zero, as the built-in's.
"""

from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec

from ..checking import integer, is_number
from ..errors import LambdaplugError
from ..measures import DCG
from ..objectives import LambdaRank, builtin

__all__ = ["catboost_yetirank", "lightgbm", "lightgbm_xendcg", "xgboost"]

DRAWN = "3.1", "3.2"  # versions of XGBoost whose pairs "mean" draws


@dataclass(frozen=True, repr=False)
class XGBoostPairs(builtin.RankPairs):
    __doc__ = builtin.RankPairs.__doc__

    def __post_init__(self) -> None:
        super().__post_init__()
        found = version("xgboost") if self.pair_method == "mean" and find_spec("xgboost") else DRAWN[0]
        if not found.startswith(DRAWN):
            raise LambdaplugError(
                f"presets.xgboost(pair_method='mean'): its pairs are drawn as XGBoost {' and '.join(DRAWN)} draw them, and here "
                f"is {found}, whose random numbers are others: the trees would not be the same. Use 'topk'."
            )


# As functions are called: each call makes one.
lightgbm, lightgbm_xendcg, xgboost = builtin.Lambdarank, builtin.XENDCG, XGBoostPairs


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
