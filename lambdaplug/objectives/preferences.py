"""Preferences: pairs of rows of which one is known to be better, in place of grades."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from ..checking import positive
from ..columns import column_name
from ..costs import as_cost
from ..errors import LambdaplugError
from ..kernels import Given, Leaf, given_delta_kernel, given_force_kernel, leaves, swap_kernel
from ..measures import Measure, Prepared, as_measure
from ..queries import Array, Queries
from ..values import keep
from .base import EMPTY, Objective, Round

__all__ = ["Preferences"]

NOT_PREPARED = Prepared(EMPTY, EMPTY, EMPTY, EMPTY, 0)


@dataclass(frozen=True, repr=False)
class Preferences(Objective):
    """Learn from pairs of documents of which one is better: duels, judgments by a language model, clicks that skip.

    For each pair (i, j), i better than j, with the weight w and the score margin o = s_i - s_j,

        force = sigma w |dM| rho,  hessian = sigma^2 w |dM| rho (1 - rho),  rho = 1/(1 + exp(sigma o)).

    Without a measure, M is the share of a query's pairs that stand in the right order, so |dM| = 1/(pairs of the query):
    grades turned into all their pairs give ``lp.LambdaRank("pairs")``. With a measure, |dM| is what exchanging the two
    would change by the data set's labels, in the present order; the pair alone says which of them should rise, and pairs
    of equal label do not act.

    Parameters
    ----------
    pairs : str
        The name of a column (see :func:`attach`) of integers of shape (m, 2), rows of the data set numbered from 0: the better
        one, and the worse one of the same query. A pair may come more than once, and turned round: all add up.
    weight : str, optional
        The name of a column with one weight per pair, >= 0; default 1 each.
    measure : str, Measure or None
        Weigh pairs by this measure's |dM|.
    sigma : float
        Steepness of the pair cost.

    Notes
    -----
    The pairs follow their rows into subsets and folds, as other columns do. On Dask, rows have no numbers, and the objective is
    refused there; a worker's function (Ray, Spark) can attach the pairs of its own rows. Query weights
    multiply a query's forces, document weights both a pair's. The labels of the data set are read with a measure only.

    References
    ----------
    C. Burges et al. (2005), "Learning to rank using gradient descent", ICML. T. Joachims (2002),
    "Optimizing search engines using clickthrough data", KDD: a clicked result is better than those skipped above it.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> objective = lp.Preferences("duels")
    >>> data = {"labels": [0, 0, 0], "scores": [0.0, 0.0, 0.0], "group": [3]}
    >>> objective.gradients(**data, columns={"duels": [[2, 0], [2, 1], [0, 1]]})[0].round(4)
    array([ 0.    ,  0.3333, -0.3333], dtype=float32)
    """

    pairs: str
    weight: str | None = None
    measure: str | Measure | None = None
    _: KW_ONLY
    sigma: float = 1.0

    cutoff = 1  # for the balance of work: each pair once

    def __post_init__(self) -> None:
        keep(self, pairs=column_name(self.pairs, "pairs"), sigma=positive(self.sigma, "sigma"))
        if self.weight is not None:
            keep(self, weight=column_name(self.weight, "weight", "weights"))
        if self.measure is not None:
            keep(self, measure=as_measure(self.measure))

    @property
    def kind(self) -> Measure | None:
        """The measure."""
        return None if self.measure is None else as_measure(self.measure)

    @property
    def ranked(self) -> bool:
        return self.measure is not None

    @property
    def goal(self) -> Measure | None:
        return self.kind

    def given(self, queries: Queries) -> tuple[Given, Array]:
        """The pairs of these queries, and their weights; without a measure, each times its |dM|."""

        def make() -> tuple[Given, Array]:
            *given, number = queries.pairs(self.pairs)
            weight = np.ones(len(number))
            if self.weight is not None:
                weight = queries.columns.of_pairs(self.weight, self.pairs)[number]
            own = Given(*given)
            counts = np.diff(own.begin)
            return own, weight if self.measure is not None else weight / np.repeat(counts, counts)

        return queries.memo(("pairs", self.pairs, self.weight, self.measure is None), make)

    def check_order(self, queries: Queries) -> None:
        def judge() -> None:
            given, weight = self.given(queries)
            acting = weight > 0.0
            if self.measure is not None:
                _, grade, norm, _, _ = self._prepared(queries)
                defined = np.repeat(norm != 0.0, np.diff(given.begin))
                acting &= defined & (grade[given.better] != grade[given.worse])
            if len(queries.labels) and not acting.any():
                found = f"{len(weight)} of its {len(queries.columns.find(self.pairs))} pairs are in these {len(queries.labels)} rows"
                labels = "" if self.measure is None else f" and two labels that {self.measure} tells apart"
                raise LambdaplugError(
                    f"{self!r} has nothing to learn from: {found}, and none of them has a positive weight{labels}."
                )

        queries.memo(("pairs act", self), judge)

    def _prepared(self, queries: Queries) -> Prepared:
        measure = self.kind
        assert measure is not None
        return queries.memo((measure, None, False), lambda: measure.prepared_for(queries))

    def at(self, round: Round) -> list[Leaf]:
        queries, measure, cost = round.queries, self.kind, as_cost("ranknet")
        given, weight = self.given(queries)
        numbers, prepared, sizes = (self.sigma, cost.shift, round.coefficient), NOT_PREPARED, EMPTY
        kernels: list[Any] = [None, None]
        if measure is not None:
            prepared, sizes = self._prepared(queries), np.empty(len(weight))
            delta = given_delta_kernel(measure.pair_delta(prepared=prepared))
            kernels = [swap_kernel(measure.swap_rows(), measure.tabled), delta]
        kernels.append(given_force_kernel(cost.exact))
        values = tuple(given), weight, sizes, prepared.given, queries.row_weights, numbers, round.level
        return [Leaf(leaves.given_pairs, kernels, values, measure=measure)]
