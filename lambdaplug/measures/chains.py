"""The value and the deltas of documents that serve intents, and are worth less below others that serve the same.

alpha-nDCG, ERR-IA and revenue with a cascade are one form. A document has slots, each (intent, worth, stop): with d_r what
rank r counts,

    value = sum over ranks r and the slots of its document of d_r worth T, T = prod (1 - stop) over the documents above
    that have a slot of the same intent.

With S_r an intent's part of the sum over the ranks above r, and E_r with rank r's, exchanging the documents a at rank i and b
at rank j > i changes that part by

    d_i T_i worth_b + S_i - E_j + (1 - stop_b)/(1 - stop_a) (d_j T_j worth_a + S_j - E_i),

a document without the intent having worth and stop 0: O(intents) per pair, after O(n x intents) per query.

Where every document has one slot, with stop = rho worth, a pair costs O(1). With G_r = d_r T_r + rho S_r of an intent,

    change = f (worth_a (G_j - rho E_i)/(1 - stop_a) - d_i T_i worth_a) + worth_b (G'_i - G'_j),

G, T and E being of a's intent, G' of b's; f is 1 - stop_b if both are one intent, else 1. worth_b G'_i of all ranks j at once
changes little from one rank i to the next.
"""

from typing import Any

import numpy as np

from ..kernels import FOUR_SIZES, OF_1, OF_2, OF_3, SWEEP, PairDelta, inlinable, load, reducible
from .tables import OWN, query_of

__all__ = ["INTENTS", "SLOTS", "cascade_value", "chained"]

INTENTS, SLOTS = (
    OWN,
    OWN + 1,
)  # how many intents the query has; then for each slot its intent (-1: none), worth and stop


def cascade_value(gain: Any, discount: Any, k: int) -> float:
    table = discount
    discount, cut = query_of(gain, table)
    total = 0.0
    if cut > 0:
        looking = np.ones(int(table[INTENTS, int(gain[0])]))
        for r in range(cut):
            row = int(gain[r])
            for slot in range(SLOTS, len(table), 3):
                intent = int(table[slot, row])
                if intent >= 0:
                    total += discount[r] * looking[intent] * table[slot + 1, row]
                    looking[intent] *= 1.0 - table[slot + 2, row]
    return total


WORTH, LEFT, REACHED, START, END, CHAIN = range(6)  # of an intent, by rank: worth, 1 - stop, d T, S, E


def chain_begin(ranked: Any, frozen: Any, upper: Any, lower: Any, scale: Any) -> Any:
    """Intent by intent, the five rows above, in one vector."""
    gain, table = frozen
    discount, _ = query_of(gain, table)
    n, intents = len(gain), int(table[INTENTS, int(gain[0])])
    chains = np.zeros((intents, CHAIN, n + SWEEP))
    for intent in range(intents):
        chains[intent, LEFT] = 1.0
    for slot in range(SLOTS, len(table), 3):
        for r in range(n):
            row = int(gain[r])
            intent = int(table[slot, row])
            if intent >= 0:
                chains[intent, WORTH, r] = table[slot + 1, row]
                chains[intent, LEFT, r] = 1.0 - table[slot + 2, row]
    for intent in range(intents):
        looking, total = 1.0, 0.0
        for r in range(n):
            chains[intent, REACHED, r] = discount[r] * looking
            chains[intent, START, r] = total
            total += discount[r] * looking * chains[intent, WORTH, r]
            chains[intent, END, r] = total
            looking *= chains[intent, LEFT, r]
    return chains.reshape(-1), np.uint64(n + SWEEP), np.empty(FOUR_SIZES)


@inlinable
def _rows_of(at: Any, width: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Where the rows of the intent begin that begins there."""
    two = np.uint64(2)
    return at, at + width, at + two * width, at + (two + np.uint64(1)) * width, at + two * two * width


def chain_delta(ranked: Any, frozen: Any, state: Any, i: int, j: int) -> float:
    chains, width, _ = state
    i, j = np.uint64(i), np.uint64(j)
    change = 0.0
    for intent in range(len(chains) // (CHAIN * int(width))):
        worth, left, reached, start, end = _rows_of(np.uint64(intent * CHAIN) * width, width)
        moved = chains[reached + j] * chains[worth + i] + (chains[start + j] - chains[end + i])
        stays = chains[reached + i] * chains[worth + j] + (chains[start + i] - chains[end + j])
        change += stays + chains[left + j] / chains[left + i] * moved
    return float(change)


@reducible
def _chain_rank(chains: Any, width: Any, at: Any, i: Any) -> tuple[Any, Any, Any, Any, Any]:
    """What of rank i its pairs need."""
    worth, left, reached, start, end = _rows_of(at, width)
    inverse = 1.0 / load(chains, left + i)
    served, after = inverse * load(chains, worth + i), inverse * load(chains, end + i)
    return load(chains, reached + i), load(chains, start + i), inverse, served, after


@reducible
def _chain_change(rank: Any, other: Any) -> Any:
    reached_i, start_i, inverse, served, after = rank
    worth, left, reached, start, end = other
    return reached_i * worth + (start_i - end) + left * (served * reached + (inverse * start - after))


@inlinable
def _chain_ranks(chains: Any, width: Any, at: Any, i: Any) -> Any:
    """Four from i on."""
    one, two = np.uint64(1), np.uint64(2)
    rank_0, rank_1 = _chain_rank(chains, width, at, i), _chain_rank(chains, width, at, i + one)
    return rank_0, rank_1, _chain_rank(chains, width, at, i + two), _chain_rank(chains, width, at, i + one + two)


@inlinable
def _chain_other(chains: Any, rows: Any, u: Any) -> Any:
    worth, left, reached, start, end = rows
    return (
        load(chains, worth + u),
        load(chains, left + u),
        load(chains, reached + u),
        load(chains, start + u),
        load(chains, end + u),
    )


def chain_sweep(state: Any, i: Any, first: Any, count: Any, sizes: Any) -> None:
    """The changes of several intents may cancel: they are added up before they become float32."""
    chains, width, sums = state
    for u in range(count):
        sums[u] = sums[OF_1 + u] = sums[OF_2 + u] = sums[OF_3 + u] = 0.0
    for intent in range(len(chains) // (CHAIN * int(width))):
        at = np.uint64(intent * CHAIN) * width
        rank_0, rank_1, rank_2, rank_3 = _chain_ranks(chains, width, at, i)
        rows = _rows_of(at + first, width)
        for u in range(count):
            other = _chain_other(chains, rows, u)
            sums[u] += _chain_change(rank_0, other)
            sums[OF_1 + u] += _chain_change(rank_1, other)
            sums[OF_2 + u] += _chain_change(rank_2, other)
            sums[OF_3 + u] += _chain_change(rank_3, other)
    for u in range(count):
        sizes[u], sizes[OF_1 + u] = sums[u], sums[OF_1 + u]
        sizes[OF_2 + u], sizes[OF_3 + u] = sums[OF_2 + u], sums[OF_3 + u]


def single_begin(ranked: Any, frozen: Any, upper: Any, lower: Any, scale: Any) -> Any:
    """Where every document has one slot: of no intent, it is of the first with a worth and stop of 0.

    By rank, of the document's own intent: number, worth, 1 - stop, d T worth, rho E and d; worth T_i and stop S_i - worth G_j
    for i = 0, which a sweep moves on. One intent after the other, by rank: G.
    """
    gain, table = frozen
    discount, _ = query_of(gain, table)
    n, intents = len(gain), int(table[INTENTS, int(gain[0])])
    width = n + SWEEP
    own, moving, chains = np.empty((6, width)), np.empty((2, width)), np.empty((intents, width))
    own[0, n:] = 0.0  # of what lies beyond the list, only this is looked up
    looking, total = np.ones(intents), np.zeros(intents)  # T, rho S
    for r in range(n):
        row = int(gain[r])
        for intent in range(intents):
            chains[intent, r] = discount[r] * looking[intent] + total[intent]
        intent, worth, stop = int(table[SLOTS, row]), table[SLOTS + 1, row], table[SLOTS + 2, row]
        own[0, r], own[1, r], own[2, r], own[5, r] = intent, worth, 1.0 - stop, discount[r]
        own[3, r] = discount[r] * looking[intent] * worth
        moving[0, r], moving[1, r] = worth, -worth * chains[intent, r]
        total[intent] += discount[r] * looking[intent] * stop
        looking[intent] *= 1.0 - stop
        own[4, r] = total[intent]
    return own[0], own[1], own[2], own[3], own[4], own[5], moving[0], moving[1], chains.reshape(-1), np.uint64(width)


def single_delta(ranked: Any, frozen: Any, state: Any, i: int, j: int) -> float:
    intent, worth, left, part, end, _, _, _, chains, width = state
    i, j = np.uint64(i), np.uint64(j)
    mine, theirs = np.uint64(intent[i]) * width, np.uint64(intent[j]) * width
    moved = worth[i] / left[i] * (chains[mine + j] - end[i]) - part[i]
    return float((left[j] if mine == theirs else 1.0) * moved + worth[j] * (chains[theirs + i] - chains[theirs + j]))


@inlinable
def _single_rank(state: Any, i: Any, first: Any) -> tuple[Any, Any, Any, Any, Any, Any, Any]:
    """What of rank i its pairs need."""
    intent, worth, left, part, end, discount, _, _, _, width = state
    mine, stays = load(intent, i), load(left, i)
    served = load(worth, i) / stays
    after = served * load(end, i) + load(part, i)
    return mine, stays, load(part, i), load(discount, i), served, after, np.uint64(mine) * width + first


@reducible
def _single_change(chains: Any, rank: Any, other: Any, u: Any, raised: Any, kept: Any) -> tuple[Any, Any, Any]:
    """What the pair changes, and what moves of the lower rank."""
    mine, stays, part, discount, served, after, at = rank
    intent, left, stop = other
    same = intent == mine
    moved = served * load(chains, at + u) - after
    change = (discount * raised + kept) + (left if same else 1.0) * moved
    return change, raised * (stays if same else 1.0), kept + stop * (part if same else 0.0)


def single_sweep(state: Any, i: Any, first: Any, count: Any, sizes: Any) -> None:
    intent, _, left, _, _, _, raised, kept, chains, _ = state
    one, two = np.uint64(1), np.uint64(2)
    rank_0, rank_1 = _single_rank(state, i, first), _single_rank(state, i + one, first)
    rank_2, rank_3 = _single_rank(state, i + two, first), _single_rank(state, i + one + two, first)
    for u in range(count):
        j = first + u
        other = load(intent, j), load(left, j), 1.0 - load(left, j)
        change, rises, keeps = _single_change(chains, rank_0, other, u, raised[j], kept[j])
        sizes[u] = change
        change, rises, keeps = _single_change(chains, rank_1, other, u, rises, keeps)
        sizes[OF_1 + u] = change
        change, rises, keeps = _single_change(chains, rank_2, other, u, rises, keeps)
        sizes[OF_2 + u] = change
        change, rises, keeps = _single_change(chains, rank_3, other, u, rises, keeps)
        sizes[OF_3 + u] = change
        raised[j] = rises
        kept[j] = keeps


def chained(single: bool = False) -> PairDelta:
    """Of documents with any slots; ``single``: with one slot each."""
    if single:
        return PairDelta(single_begin, single_delta, signed=True, tabled=True, sweep=single_sweep)
    return PairDelta(chain_begin, chain_delta, signed=True, tabled=True, sweep=chain_sweep)
