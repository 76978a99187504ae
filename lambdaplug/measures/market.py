"""Measures of a market: what sales earn, and how the sellers' groups share what is seen."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import LambdaplugError
from ..kernels import OF_1, OF_2, OF_3, SWEEP, PairDelta, inlinable, load
from ..rows import levels
from ..values import keep
from .base import Prepared, Seen
from .chains import cascade_value, chained
from .discounted import Discounted
from .gains import Array, Cutoff, Discount, Gain, gains_by, stop_chances
from .tables import OWN, Tabled, cut_only, query_of, tabled

__all__ = ["Exposure", "Revenue"]


@dataclass(frozen=True, repr=False)
class Revenue(Discounted, name="revenue", column_fields=("price",), falling=False):
    """Revenue@k = sum_{r<=k} D(r) price_r c_r, c = click(label) the chance that a document seen is bought.

    With ``cascade``, a customer who has bought looks no further: the sum's terms are times prod (1 - c) over the documents
    above. A gradient without it costs what NDCG's does; with it a pair costs O(1).

    Parameters
    ----------
    price : str
        The name of the column (see :func:`attach`) with what a sale earns, such as the price or the margin, which may be negative.
    click : sequence, callable or None
        The chance that a document with this label is bought when it is seen: one number per label 0, 1, ..., or a function
        of the label; None: (2^label - 1)/2^max_label, as in ERR.
    k : int, str or None
        The last rank that is seen; None: all ranks are; the name of a column with one per query.
    discount : 'log2', sequence or callable
        How likely a rank is seen: 1/log2(1 + rank), one number per rank (0 beyond them), or a function of the rank.
    cascade : bool
        Whether a sale is the last.
    max_label : float or None
        For ``click=None``; None: the data's largest label.

    References
    ----------
    K. Järvelin, J. Kekäläinen (2002), ACM TOIS 20(4), and O. Chapelle et al. (2009), CIKM, whose gains become money.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> measure = lp.Revenue(price="price", click=[0, 0.5], k=2, discount=[1, 0.5])
    >>> lp.evaluate(measure, labels=[1, 0, 1], scores=[3, 1, 2], group=[3], columns={"price": [20, 5, 80]})
    {'revenue@2(click=[0,0.5],discount=[1,0.5])': 30.0}
    """

    price: str = "price"
    click: Gain | None = None
    k: Cutoff | None = None
    discount: Discount = "log2"
    cascade: bool = False
    max_label: float | None = None

    def chances(self, labels: Array) -> Array:
        """How likely documents with these labels are bought, seen."""
        if self.click is None:
            return stop_chances(labels, self.max_label, self.name)
        found = gains_by(self.click, labels, self.name)
        if found.size and not (found.max() < 1.0 or (found.max() == 1.0 and not self.cascade)):
            least = "less than 1, as nobody would look on" if self.cascade else "at most 1"
            raise LambdaplugError(f"revenue: click must give chances of {least}; it gave {found.max():g}.")
        return found

    def gains_of(self, labels: Array, columns: Sequence[Array]) -> Array:
        return labels if self.cascade else columns[0] * self.chances(labels)

    tabled = property(lambda self: self.cascade)
    by_rows = property(lambda self: not self.cascade)
    value = property(lambda self: cascade_value if self.cascade else Discounted.value)

    def swap_rows(self) -> Callable[..., int]:
        return cut_only if self.cascade else self.swap

    def shortest(self, discount: Array) -> float:
        return 2 if self.cascade else super().shortest(discount)

    def smooth(self) -> Callable[..., float] | None:
        return None if self.cascade else super().smooth()

    def pair_delta(self, prepared: Prepared | None = None) -> PairDelta:
        if not self.cascade:
            return super().pair_delta(prepared)
        return chained()

    def tabulated(self, seen: Seen) -> Seen:
        chance = self.chances(np.nan_to_num(seen.gain))
        zero = np.zeros(len(chance))
        own = [zero + 1.0, zero, seen.columns[0] * chance, chance]
        return tabled(self, seen, own, grade=levels(own[2:], seen.offsets))  # equal documents are in no pair


GROUPS, GROUP, TARGET = OWN, OWN + 1, OWN + 2  # how many groups the query has, a document's group, that group's share


@inlinable
def _shares(gain: Any, table: Any) -> tuple[Any, Any]:
    """Of each group of the query, its share of the exposure, and its target."""
    discount, k = query_of(gain, table)
    groups = int(table[GROUPS, int(gain[0])])
    share, target = np.zeros(groups), np.zeros(groups)
    total = discount[:k].sum()
    for r in range(len(gain)):
        row = int(gain[r])
        group = int(table[GROUP, row])
        target[group] = table[TARGET, row]
        share[group] += discount[r] / total
    return share, target


def _exposure_begin(gain: Any, table: Any, upper: Any, lower: Any, scale: Any) -> Any:
    """By rank: half its exposure, its group's number, what the group has too much, in two parts: how much, and its sign."""
    discount, k = query_of(gain, table)
    total = discount[:k].sum()
    share, target = _shares(gain, table)
    found = np.empty((4, len(gain) + SWEEP))
    for r in range(len(gain)):
        group = int(table[GROUP, int(gain[r])])
        over = share[group] - target[group]
        found[0, r], found[1, r], found[2, r] = 0.5 * discount[r] / total, group, abs(over)
        found[3, r] = 1.0 if over > 0.0 else -1.0
    return found[0], found[1], found[2], found[3]


@inlinable
def _exposure_change(rank: Any, other: Any) -> Any:
    """Of both groups (over - |over - 2 moved|) / 2, over >= 0."""
    half_i, group_i, over_i, sign_i = rank
    half, group, over, sign = other
    moved = half_i - half if group_i != group else 0.0  # from i's group to the other's
    return min(sign_i * moved, over_i - sign_i * moved) + min(-sign * moved, over + sign * moved)


@inlinable
def _exposure_rank(state: Any, i: Any) -> tuple[Any, Any, Any, Any]:
    half, group, over, sign = state
    return load(half, i), load(group, i), load(over, i), load(sign, i)


def _exposure_delta(gain: Any, table: Any, state: Any, i: int, j: int) -> float:
    return float(_exposure_change(_exposure_rank(state, np.uint64(i)), _exposure_rank(state, np.uint64(j))))


def _exposure_sweep(state: Any, i: Any, first: Any, count: Any, sizes: Any) -> None:
    one, two = np.uint64(1), np.uint64(2)
    rank_0, rank_1 = _exposure_rank(state, i), _exposure_rank(state, i + one)
    rank_2, rank_3 = _exposure_rank(state, i + two), _exposure_rank(state, i + one + two)
    for u in range(count):
        other = _exposure_rank(state, first + u)
        sizes[u] = _exposure_change(rank_0, other)
        sizes[OF_1 + u] = _exposure_change(rank_1, other)
        sizes[OF_2 + u] = _exposure_change(rank_2, other)
        sizes[OF_3 + u] = _exposure_change(rank_3, other)


@dataclass(frozen=True, repr=False)
class Exposure(Tabled, name="exposure", column_fields=("group",)):
    """Exposure@k = -1/2 sum over the query's groups of |share - target|, from -1 to 0.

    A group's share is that of its documents in sum_{r<=k} D(r), D(r) = 1/log2(1 + r). It knows nothing of relevance: train
    for it in ``lp.Pareto`` or ``lp.Mixture`` with an objective that does. A pair costs O(1).

    Parameters
    ----------
    group : str
        The name of the column (see :func:`attach`) with the supplier, brand or class to which the document belongs, a number.
    target : 'size', 'merit' or mapping
        The share that a group of the query should have: its share of the documents; of the sum of their labels (of the
        documents where all are 0); or so much for each group, divided by the sum over the groups that the query has.
    k : int, str or None
        The last rank that is seen; None: all ranks are; the name of a column with one per query.

    References
    ----------
    A. Singh, T. Joachims (2018), "Fairness of exposure in rankings", KDD.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> measure = lp.Exposure(group="seller", k=2)
    >>> lp.evaluate(measure, labels=[0, 0, 0, 0], scores=[4, 3, 2, 1], group=[4], columns={"seller": [1, 1, 2, 2]})
    {"exposure@2(group='seller')": -0.5}
    """

    group: str = "group"
    target: Any = "size"
    k: Cutoff | None = None

    discount = "log2"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.target, (Mapping, list, tuple)):
            pairs = self.target.items() if isinstance(self.target, Mapping) else self.target
            keep(self, target=tuple(sorted((float(one), float(share)) for one, share in pairs)))
        if self.target not in ("size", "merit") and not isinstance(self.target, tuple):
            raise LambdaplugError(f"exposure: target must be 'size', 'merit' or {{group: share}}, got {self.target!r}.")

    @staticmethod
    def value(gain: Any, table: Any, k: int) -> float:
        if len(gain) == 0:
            return 0.0
        share, target = _shares(gain, table)
        return -0.5 * float(np.abs(share - target).sum())

    def pair_delta(self, prepared: Prepared | None = None) -> PairDelta:
        return PairDelta(_exposure_begin, _exposure_delta, signed=True, sweep=_exposure_sweep)

    def targets(self, group: Array, labels: Array, key: npt.NDArray[np.int64]) -> Array:
        """What each group is to have, before all are divided by their query's sum; ``key`` numbers the rows' groups."""
        if isinstance(self.target, str):
            return np.asarray(
                np.bincount(key, np.ones(len(key)) if self.target == "size" else labels), dtype=np.float64
            )
        shares = dict(self.target)
        unknown = sorted(set(np.unique(group).tolist()) - set(shares))
        if unknown:
            raise LambdaplugError(f"exposure: target has no share for the group {unknown[0]:g}; it has {list(shares)}.")
        found = np.zeros(int(key.max(initial=-1)) + 1)
        found[key] = [shares[one] for one in group.tolist()]
        return found

    def tabulated(self, seen: Seen) -> Seen:
        sizes = np.diff(seen.offsets)
        query = np.repeat(np.arange(len(sizes)), sizes)
        group = levels([seen.columns[0]], seen.offsets)
        count = np.zeros(len(sizes), np.int64)
        np.maximum.at(count, query, group.astype(np.int64) + 1)
        key = (np.cumsum(count) - count)[query] + group.astype(np.int64)  # groups of all queries, one after the other
        own = np.repeat(np.arange(len(sizes)), count)
        wanted = self.targets(seen.columns[0], np.nan_to_num(seen.gain), key)
        if (wanted < 0.0).any():
            raise LambdaplugError("exposure: target must give shares >= 0, and 'merit' needs labels >= 0.")
        whole = np.bincount(own, wanted, len(sizes))
        wanted = np.where(whole[own] > 0.0, wanted, np.bincount(key))
        target = wanted / np.bincount(own, wanted, len(sizes))[own]
        return tabled(self, seen, [count[query].astype(np.float64), group, target[key]], grade=group)
