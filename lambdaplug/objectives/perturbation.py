"""Numerical gradients: for any measure, even one known only as a function of the ranked labels."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from ..checking import integer, not_negative, positive
from ..errors import LambdaplugError
from ..kernels import Leaf, moved, noise_kernel, order_kernel, rank_kernel, shaken, value_kernel
from ..measures import Measure, as_measure
from ..schedules import Moment
from ..values import keep
from .base import Round, ValueObjective, check_step, label_column, planned, refuse_document_weights
from .smoothing import label_hash

__all__ = ["FDSA", "SPSA"]


DISTANCE = 0.3  # the default c, for scores whose spread is about 1


class _Numerical(ValueObjective):
    """Gradient steps along an estimated slope of the measure."""

    c: float
    normalize: str | None

    def __post_init__(self) -> None:
        check_step("gradient", self.normalize)
        keep(self, measure=as_measure(self.measure), labels=label_column(self.labels))
        keep(self, c=positive(self.c, "c", ", the distance by which scores are moved"))

    @property
    def unit(self) -> bool:
        return True

    @property
    def std(self) -> bool:
        return self.normalize != "none"

    def _leaf(self, kind: Any, kernels: tuple[Any, ...], round: Round, *own: Any) -> Leaf:
        refuse_document_weights(self, round.queries)

        values = self.prepared(round.queries).given, *own, self.c, round.coefficient, round.level
        return Leaf(kind, kernels, values, measure=self.kind)


@dataclass(frozen=True, repr=False)
class SPSA(_Numerical):
    """Simultaneous perturbation stochastic approximation, for every measure M.

    In each query of its own all scores are moved at once, by c_m delta with delta drawn from {-1, +1}^n, and back:

        gradient_i = - (M(s + c_m delta) - M(s - c_m delta)) / (2 c_m delta_i),  c_m = c / m^c_decay,  m = 1, 2, ...

    the mean of ``evaluations``/2 draws. Hessians are 1.

    As those of smoothed lambdas, the draws are a function of the query itself: seed, scores as float32, labels, draw and
    the document's place. So they are the same at any number of threads, in continued trainings and on a cluster, and new
    in each round because the scores move. Where nothing moves, they are repeated; queries of equal scores and labels
    draw alike.

    Parameters
    ----------
    measure : str or Measure
        What to train for.
    labels : str, optional
        The name of a column (see :func:`attach`) with other labels, NaN for a row without one; default the data set's labels.
    evaluations : int
        Of the measure in each iteration: 2, 4, 6, ...
    c, c_decay : float
        How far scores are moved, in units of the scores, and how that falls with the iterations m. Documents further apart
        than 2 c never change places, and so never show what that would be worth.
    seed : int
        Any integer >= 0.
    normalize : str, optional
        ``"std"`` (default) divides each query's gradients by their standard deviation, ``"none"`` does not.

    References
    ----------
    Y. Yue, C. Burges (2007), "On using simultaneous perturbation stochastic approximation for IR measures,
    and the empirical optimality of LambdaRank", NIPS Machine Learning for Web Search Workshop.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.SPSA("err@10", evaluations=8)
    SPSA('err@10', evaluations=8)
    """

    measure: str | Measure
    _: KW_ONLY
    labels: str | None = None
    evaluations: int = 2
    c: float = DISTANCE
    c_decay: float = 0.101
    seed: int = 0
    normalize: str | None = None

    cutoff = 1  # the work is that of sorting

    def __post_init__(self) -> None:
        super().__post_init__()
        evaluations = integer(self.evaluations, "evaluations", 2)
        if evaluations % 2:
            raise LambdaplugError(f"evaluations: they come in pairs, so expected an even number, got {evaluations!r}.")
        keep(self, evaluations=evaluations, c_decay=not_negative(self.c_decay, "c_decay"))
        keep(self, seed=integer(self.seed, "seed", 0, 2**63 - 1))

    @property
    def counted(self) -> bool:
        return self.c_decay > 0.0

    def resolved(self, moment: Moment) -> SPSA:
        return planned(self, c=self.c / (moment.iteration + 1) ** self.c_decay, c_decay=0.0)

    def at(self, round: Round) -> list[Leaf]:
        draw = label_hash(self.labels, round.queries), self.seed, self.evaluations // 2
        kernels = noise_kernel("sign"), rank_kernel(), value_kernel(self.kind.value, not self.kind.tabled)
        return [self._leaf(shaken, kernels, round, draw)]


@dataclass(frozen=True, repr=False)
class FDSA(_Numerical):
    """Finite differences, two evaluations per document, for every measure M:

        gradient_i = - (M with s_i + c - M with s_i - c) / 2c.

    It costs n values of O(n) per query. Hessians are 1.

    Parameters
    ----------
    measure : str or Measure
        What to train for.
    labels : str, optional
        The name of a column (see :func:`attach`) with other labels, NaN for a row without one; default the data set's labels.
    c : float
        How far each score is moved, in units of the scores; it does not fall with the iterations.
    normalize : str, optional
        ``"std"`` (default) divides each query's gradients by their standard deviation, ``"none"`` does not.

    References
    ----------
    J. Kiefer, J. Wolfowitz (1952), "Stochastic estimation of the maximum of a regression function", Annals
    of Mathematical Statistics 23(3).

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.FDSA("ndcg", c=0.5, normalize="none").gradients(labels=[0, 1], scores=[0.2, 0.0], group=[2])[0].round(3)
    array([ 0.369, -0.369], dtype=float32)
    """

    measure: str | Measure
    _: KW_ONLY
    labels: str | None = None
    c: float = DISTANCE
    normalize: str | None = None

    cutoff = None

    def at(self, round: Round) -> list[Leaf]:
        return [self._leaf(moved, (order_kernel(self.kind.value, self.kind.tabled),), round)]
