"""Losses of a whole list that are no ranking measure: what comparisons need, and scores that are probabilities."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..checking import integer, positive
from ..errors import LambdaplugError
from ..kernels import Leaf
from ..kernels import listwise as kernels
from ..queries import Array, Queries
from ..rows import differing, ideal_order
from ..schedules import Moment, Number, check_of_iteration, constant
from ..values import keep
from .base import Objective, Round, label_column, planned, require_order

__all__ = ["Calibrated", "ListMLE", "QueryRMSE", "QuerySoftmax"]

NO_ORDER = np.empty(0, np.int32)


class ListObjective(Objective):
    """A loss of the labels and scores of each query, which needs no ranking. NaN in ``labels=``: no part of its list."""

    labels: str | None
    cutoff = 1  # the work is that of reading the rows
    ranked = False
    leaf: ClassVar[Any]  # the kind

    def __post_init__(self) -> None:
        keep(self, labels=label_column(self.labels))

    def targets(self, queries: Queries) -> Array:
        """What the labels of these rows stand for; made once per data set."""
        return queries.labels_of(self.labels)

    def check_order(self, queries: Queries) -> None:
        def acting() -> npt.NDArray[np.bool_]:
            return differing(queries.labels_of(self.labels), queries.offsets)

        require_order(self, queries, (type(self), self.labels), self.labels, acting)

    def at(self, round: Round) -> list[Leaf]:
        queries, (number, order) = round.queries, self.told(round.queries)
        values = self.targets(queries), queries.row_weights, number, order, round.coefficient, round.level
        return [Leaf(self.leaf, (), values)]

    def told(self, queries: Queries) -> tuple[float, npt.NDArray[np.int32]]:
        """A number and an order of the documents, where the loss has one."""
        return 0.0, NO_ORDER


@dataclass(frozen=True, repr=False)
class QueryRMSE(ListObjective):
    """Squared errors within each query, whatever the level of its scores: CatBoost's QueryRMSE.

        loss = 1/2 sum_i w_i (s_i - y_i - m)^2,  m = the mean over the query of s - y, weighted by w;
        gradient_i = w_i (s_i - y_i - m),  hessian_i = w_i (the second derivative, w_i (1 - w_i/sum w), from above).

    Parameters
    ----------
    labels : str, optional
        The name of a column (see :func:`attach`) with other labels; default the data set's labels. Rows with NaN are no part
        of their list.

    Notes
    -----
    Document weights are w: a weight of 2 is the document twice.

    References
    ----------
    D. Cossock, T. Zhang (2006), "Subset ranking using regression", COLT: why regression ranks.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.QueryRMSE().gradients(labels=[0, 1], scores=[5.0, 5.0], group=[2])[0]
    array([ 0.5, -0.5], dtype=float32)
    """

    _: KW_ONLY
    labels: str | None = None

    leaf = kernels.query_rmse


@dataclass(frozen=True, repr=False)
class QuerySoftmax(ListObjective):
    """ListNet with top-one probabilities: the cross entropy of a target distribution and softmax(scores).

        loss = - sum_i w_i t_i log p_i,  p_i = exp(s_i)/sum_j exp(s_j),  t_i = exp(y_i)/sum_j exp(y_j);
        gradient_i = T p_i - w_i t_i,  hessian_i = T p_i (1 - p_i),  T = sum_j w_j t_j: the loss's own derivatives.

    Parameters
    ----------
    target : 'softmax' or 'share'
        'softmax': t as above. 'share': t_i = y_i/sum_j y_j, for labels >= 0, as CatBoost's QuerySoftMax has it; a query
        with no positive label then teaches nothing.
    labels : str, optional
        The name of a column (see :func:`attach`) with other labels; default the data set's labels. Rows with NaN are no part
        of their list.

    Notes
    -----
    Document weights are w: they multiply a document's own term.

    References
    ----------
    Z. Cao, T. Qin, T.-Y. Liu, M.-F. Tsai, H. Li (2007), "Learning to rank: from pairwise approach to
    listwise approach", ICML.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.QuerySoftmax(target="share").gradients(labels=[0, 1], scores=[0.0, 0.0], group=[2])[0]
    array([ 0.5, -0.5], dtype=float32)
    """

    target: str = "softmax"
    _: KW_ONLY
    labels: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.target not in ("softmax", "share"):
            raise LambdaplugError(f"target: expected 'softmax' or 'share', got {self.target!r}.")

    def targets(self, queries: Queries) -> Array:
        def make() -> Array:
            values, query = queries.labels_of(self.labels), np.repeat(np.arange(len(queries)), queries.sizes)
            if self.target == "softmax":
                top = np.full(len(queries), -np.inf)
                np.fmax.at(top, query, values)
                values = np.exp(values - top[query])
            elif np.any(values < 0.0):
                raise LambdaplugError(
                    f"{self!r}: shares need labels >= 0, got {np.nanmin(values):g}. Shift them, or use 'softmax'."
                )
            total = np.bincount(query, np.nan_to_num(values), len(queries))
            return np.asarray(values / np.where(total > 0.0, total, 1.0)[query])

        return queries.memo(("list targets", self.target, self.labels), make)

    leaf = kernels.softmax


@dataclass(frozen=True, repr=False)
class ListMLE(ListObjective):
    """The likelihood of the labels' order under the Plackett-Luce model of the scores.

        loss = - sum over the first k places r of w_r log( exp(s_r) / sum_{j >= r} exp(s_j) ),  documents by falling label;
        gradient and hessian are its first and second derivatives (it is convex).

    Documents of equal label have no order: each stands in the denominator of all the others of its label (Breslow's
    way with ties, in the same likelihood of survival times), so that neither the order of rows nor chance decides. Where
    k falls among them, each counts the share of their places that are within k.

    Parameters
    ----------
    k : int, optional
        Only the first k places of the right order; default all.
    labels : str, optional
        The name of a column (see :func:`attach`) with other labels; default the data set's labels. Rows with NaN are no part
        of their list.

    Notes
    -----
    Document weights are w: they multiply a document's own term.

    References
    ----------
    F. Xia, T.-Y. Liu, J. Wang, W. Zhang, H. Li (2008), "Listwise approach to learning to rank: theory and
    algorithm", ICML.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.ListMLE().gradients(labels=[0, 1], scores=[0.0, 0.0], group=[2])[0]
    array([ 0.5, -0.5], dtype=float32)
    """

    k: int | None = None
    _: KW_ONLY
    labels: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k is not None:
            keep(self, k=integer(self.k, "k", 1, 2**31 - 1, purpose=", or None for the whole list"))

    leaf = kernels.list_mle

    def told(self, queries: Queries) -> tuple[float, npt.NDArray[np.int32]]:
        def sort() -> npt.NDArray[np.int32]:
            return ideal_order(queries.labels_of(self.labels), queries.offsets)

        return float(queries.longest if self.k is None else self.k), queries.memo(("label order", self.labels), sort)


@dataclass(frozen=True, repr=False)
class Calibrated(ListObjective):
    """Regression-compatible ranking: scores that rank, and whose sigmoid is the expected label.

    With y in [0, 1], q = 1/(1 + exp(-s)) and C = sum_j w_j y_j,

        loss = (1 - weight) sum_i w_i logloss(y_i, q_i) + weight * (- 1/C sum_i w_i y_i log(q_i/sum_j w_j q_j)).

    Both parts are least where q = E[y | x], so neither pulls the scores away from what the other wants, as a pairwise or
    softmax loss would: scores of different queries can be compared, and with thresholds. The gradients are the loss's own.
    The hessian of the first part is w q (1 - q); of the second, which is not convex, its part that is positive,
    w q (1 - q) (y/C + (1 - q)/sum w q). :func:`lambdaplug.analysis.calibration` says how well probabilities hold.

    Parameters
    ----------
    weight : float or schedule
        Of the list's part, from 0 (log loss alone) to 1 (only the order within each query is learned).
    max_label : float, optional
        Labels are divided by it: with ``max_label=4`` the grades 0 to 4 mean 0, 0.25, ..., 1. Default 1: labels must lie
        in [0, 1].
    labels : str, optional
        The name of a column (see :func:`attach`) with other labels; default the data set's labels. Rows with NaN are left out.

    Notes
    -----
    Document weights are w: a weight of 2 is the document twice.

    References
    ----------
    A. Bai, R. Jagerman, Z. Qin, L. Yan, P. Kar, B.-R. Lin, X. Wang, M. Bendersky, M. Najork (2023),
    "Regression compatible listwise objectives for calibrated ranking with binary relevance", CIKM.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> gradient, hessian = lp.Calibrated(weight=0.5).gradients(labels=[0, 1], scores=[0.0, 0.0], group=[2])
    >>> gradient
    array([ 0.375, -0.375], dtype=float32)
    """

    weight: Number = 0.5
    _: KW_ONLY
    max_label: float = 1.0
    labels: str | None = None

    scheduled = ("weight",)

    def __post_init__(self) -> None:
        super().__post_init__()
        weight = check_of_iteration(self.weight, "weight", "lp.linear(0.1, 0.01)")
        keep(self, weight=weight, max_label=positive(self.max_label, "max_label"))

    def resolved(self, moment: Moment) -> Calibrated:
        weight = moment.number(self.weight)
        if not 0.0 <= weight <= 1.0:
            raise LambdaplugError(
                f"{self!r}: weight is {weight:g} at iteration {moment.iteration}; it must lie in [0, 1]."
            )
        return planned(self, weight=weight)

    def targets(self, queries: Queries) -> Array:
        def make() -> Array:
            labels = queries.labels_of(self.labels)
            if np.any(labels < 0.0) or np.any(labels > self.max_label):
                raise LambdaplugError(
                    f"{self!r}: expected labels from 0 to {self.max_label:g}, got {np.nanmin(labels):g} to "
                    f"{np.nanmax(labels):g}. A label is a probability: for grades 0 to 4, give max_label=4 (each is divided "
                    "by it), or labels= with the probability that each grade stands for."
                )
            return np.asarray(labels / self.max_label)

        return queries.memo(("probabilities", self.max_label, self.labels), make)

    def check_order(self, queries: Queries) -> None:
        if self.weight == 1.0:  # the log loss learns from any label
            super().check_order(queries)

    leaf = kernels.calibrated

    def told(self, queries: Queries) -> tuple[float, npt.NDArray[np.int32]]:
        return constant(self.weight), NO_ORDER
