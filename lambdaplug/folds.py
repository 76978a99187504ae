"""Cross-validation folds that never cut a query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .callers import callers
from .checking import integer
from .columns import carry
from .errors import LambdaplugError
from .grouping import group_sizes

__all__ = ["QueryFolds", "query_folds"]

Rows: TypeAlias = npt.NDArray[np.int64]


class QueryFolds(list[tuple[Rows, Rows]]):
    """(train rows, test rows) of each fold; see :func:`query_folds`."""

    def __init__(self, folds: list[tuple[Rows, Rows]], groups: list[tuple[Rows, Rows]], sizes: Rows) -> None:
        super().__init__(folds)
        self.sizes = sizes  # of the whole
        self.groups = groups  # the group sizes of each fold's train and test rows

    def __eq__(self, other: object) -> bool:
        def content(folds: QueryFolds) -> list[list[int]]:
            return [rows.tolist() for fold in folds for rows in fold]

        return isinstance(other, QueryFolds) and content(self) == content(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    @property
    def fpreproc(self) -> Callable[[Any, Any, Any], tuple[Any, Any, Any]]:
        """For ``xgb.cv(params, xgb.DMatrix(X, y), folds=folds, fpreproc=folds.fpreproc)``.

        XGBoost slices a DMatrix by given folds only if it has no queries. Give it one without, and this puts each
        fold's queries back, fold by fold in the order xgb.cv makes them. Each fold takes along its rows of the columns that
        ``lp.attach`` gave the DMatrix.
        """
        remaining = iter(zip(self, self.groups, strict=True))

        def regroup(train: Any, test: Any, parameters: Any) -> tuple[Any, Any, Any]:
            fold, groups = next(remaining, (None, None))
            if fold is None or groups is None or [train.num_row(), test.num_row()] != [len(rows) for rows in fold]:
                raise LambdaplugError(
                    "fpreproc: these are not the folds' data sets, in order. Pass the same query_folds as folds= and "
                    "fpreproc=folds.fpreproc, anew for every xgb.cv."
                )
            # xgb.cv does not pass on the DMatrix that it slices.
            whole = next((frame.f_locals["dall"] for frame in callers() if "dall" in frame.f_locals), None)
            for data, rows, sizes in zip((train, test), fold, groups, strict=True):
                data.set_group(sizes)
                carry(whole, data, rows, self.sizes)
            return train, test, parameters

        return regroup


def query_folds(
    group: npt.ArrayLike | None = None,
    n: int = 5,
    seed: int = 0,
    rows: int | None = None,
    *,
    qid: npt.ArrayLike | None = None,
) -> QueryFolds:
    """n folds over shuffled queries, as (train rows, test rows): for ``lgb.cv(folds=...)``, scikit-learn's ``cv=``,
    and with its ``fpreproc`` for ``xgb.cv``.

    Parameters
    ----------
    group : array
        The number of documents of each query, in order. Query ids go to ``qid``.
    n : int
        The number of folds.
    seed : int
        Of the shuffle.
    rows : int, optional
        The number of rows, with which the sizes are compared.
    qid : array, optional
        In place of ``group``: one query id per row, numbers or text, the rows of a query next to each other.

    Returns
    -------
    list of (array, array)
        Rows to train on and rows to test on; with ``.fpreproc`` for ``xgb.cv``.

    Examples
    --------
    >>> [test.tolist() for _, test in query_folds([2, 3, 1], n=3)]
    [[5], [0, 1], [2, 3, 4]]
    >>> [test.tolist() for _, test in query_folds(qid=["a", "a", "b", "b", "b", "c"], n=3)]
    [[5], [0, 1], [2, 3, 4]]
    """
    sizes = group_sizes(group, qid, rows)
    n = integer(n, "query_folds: n", 2, len(sizes), purpose=", the number of queries")
    fold_of = np.empty(len(sizes), dtype=np.int64)
    for fold, queries in enumerate(np.array_split(np.random.default_rng(seed).permutation(len(sizes)), n)):
        fold_of[queries] = fold
    row_fold = np.repeat(fold_of, sizes)
    folds = [(np.flatnonzero(row_fold != fold), np.flatnonzero(row_fold == fold)) for fold in range(n)]
    groups = [(sizes[fold_of != fold], sizes[fold_of == fold]) for fold in range(n)]
    return QueryFolds(folds, groups, sizes)
