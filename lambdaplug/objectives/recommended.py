"""The objective that we recommend for a measure: an ordinary composition of this package's parts."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any, TypedDict

from ..checking import is_number, shown
from ..costs import RankNet
from ..errors import LambdaplugError
from ..measures import CNDCG, MAP, MRR, NDCG, Measure, as_measure
from .base import Objective, require_objective
from .lambdarank import LambdaRank
from .mixture import Mixture

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..costs import Cost
    from ..schedules import Number
    from .constructions import Construction

__all__ = ["as_objective", "objective"]

PACKAGE = __name__.partition(".")[0]
# The distance and the normalisation are the hosts' own; the noise is what recipes/tournament.py keeps.
OPTIONS = {"cost": RankNet(distance=0.01), "normalize": "log", "noise": 1.0}


class Options(TypedDict, total=False):
    """Those of :class:`LambdaRank`, for type checkers."""

    labels: str | None
    cost: str | Cost
    sigma: float
    construction: str | Construction
    step: str | None
    normalize: str | None
    ignore_zero: bool
    noise: Number
    samples: int
    noise_kind: str
    neighbours: int | None
    seed: int


def objective(
    measure: str | Measure,
    *,
    support: str | Measure | None = "auto",
    share: float | None = None,
    **options: Unpack[Options],
) -> Objective:
    """The objective that we recommend for a measure: name what you report, and train for it.

    Half of it is smoothed lambdas for the measure itself, half the same for NDCG of the whole list. A measure that sees
    little of a list (a cut-off), or only whether a document is relevant, leaves most pairs without a force; noise and
    support give them one, and the support knows the grades. MRR sees least of all, one document: there a tenth is MRR's and
    four tenths are MAP's, which is the same measure where one document is relevant. All parts have the hosts' own
    normalisations, so that their gradients and hessians are on the scale that the hosts' default parameters are made for.
    It is a sum of public parts, and prints as that sum.

    Parameters
    ----------
    measure : str or Measure
        What is to become better: ``"map"``, ``"mrr@10"``, ``lp.NDCG(k=10, gain="linear")``, ``lp.custom(...)``.
    support : str or Measure or None
        What helps. ``"auto"``: NDCG of the whole list, with the measure's own gains if it has any (of CNDCG, the
        whole-list CNDCG; for MRR, MAP too). ``None``: no support.
    share : float, optional
        The support's weight, from 0 to 1; default 0.5, for MRR 0.9.
    **options
        Of :class:`LambdaRank`, for all parts: ``labels``, ``weight``, ``noise``, ``samples``, ``seed``, ``sigma``, ``normalize``, ...

    Returns
    -------
    Objective
        A :class:`Mixture`, or a :class:`LambdaRank` where the support is the measure itself.

    Notes
    -----
    The default support reads labels as NDCG does: grades from 0 to 30 with gains 2^label - 1, also fractions such as click
    rates; for ``lp.custom`` without a gain, as numbers >= 0. For larger numbers (counts, prices) with other measures say
    ``support="ndcg(gain='linear')"``. Documents without a label (NaN) are in no pair. Which labels are relevant is the
    measure's to say: ``lp.MAP(relevant=2)``.

    Examples
    --------
    >>> objective("map")
    Mixture([(0.5, LambdaRank('map', cost=RankNet(distance=0.01), normalize='log', noise=1)), (0.5, LambdaRank('ndcg', cost=RankNet(distance=0.01), normalize='log', noise=1))])
    >>> objective("ndcg")
    LambdaRank('ndcg', cost=RankNet(distance=0.01), normalize='log', noise=1)
    >>> [(weight, str(part.measure)) for weight, part in objective("mrr").parts]
    [(0.1, 'mrr'), (0.4, 'map'), (0.5, 'ndcg')]
    """
    kind = as_measure(measure)
    helpers = _supports(kind) if support == "auto" else [] if support is None else [(0.5, as_measure(support))]
    helpers = [(weight, other) for weight, other in helpers if other != kind]
    total = sum(weight for weight, _ in helpers)
    share = total if share is None else share
    if not is_number(share) or not 0.0 <= share <= 1.0:
        raise LambdaplugError(f"share: expected a number from 0 to 1, the support's weight, got {shown(share)}.")
    given: dict[str, Any] = {**OPTIONS, **options}
    own = LambdaRank(kind, **given)
    if not helpers or share == 0.0:
        return own
    others = [(float(weight * share / total), LambdaRank(other, **given)) for weight, other in helpers]
    return Mixture([(round(1.0 - share, 12), own), *others])


def _supports(kind: Measure) -> list[tuple[float, Measure]]:
    """What helps a measure, with its weight: one rule for all, and one exception that the tournament decided."""
    if isinstance(kind, (CNDCG, NDCG)):
        return [(0.5, dataclasses.replace(kind, k=None))]
    if isinstance(kind, MRR):
        return [(0.4, MAP(relevant=kind.relevant)), (0.5, NDCG())]
    gain = getattr(kind, "gain", "exp2")
    return [(0.5, NDCG(gain="linear" if gain is None else gain))]  # lp.custom without a gain gets the labels themselves


def as_objective(value: Any) -> Any:
    """What a ranker is to train: for a measure or its text ``lp.objective`` of it, and everything else as it is.

    A word that is no measure's is the booster's own; one that cannot be, as it has a cut-off or parameters, is refused, and
    so is what of lambdaplug is no objective: a class, ``lp.objective`` itself, a metric. A function of the user's own stays.
    """
    if isinstance(value, str):
        try:
            return objective(as_measure(value))
        except LambdaplugError:
            if re.search(r"[@(]", value):
                raise
            return value
    if isinstance(value, Measure):
        return objective(value)
    ours = getattr(value if isinstance(value, type) else type(value), "__module__", "").partition(".")[0] == PACKAGE
    return require_objective(value, "objective: ") if ours or value is objective else value
