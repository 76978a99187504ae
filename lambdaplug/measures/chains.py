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


WORTH, LEFT, REACHED, START, END = range(5)  # of an intent, by rank: worth, 1 - stop, d T, S, E


def chain_begin(gain: Any, table: Any, upper: Any, lower: Any, scale: Any) -> Any:
    """The five rows above, of one intent after the other."""
    discount, _ = query_of(gain, table)
    n, intents = len(gain), int(table[INTENTS, int(gain[0])])
    chains = np.zeros((5, intents, n + SWEEP))
    for intent in range(intents):
        chains[LEFT, intent] = 1.0
    for slot in range(SLOTS, len(table), 3):
        for r in range(n):
            row = int(gain[r])
            intent = int(table[slot, row])
            if intent >= 0:
                chains[WORTH, intent, r] = table[slot + 1, row]
                chains[LEFT, intent, r] = 1.0 - table[slot + 2, row]
    for intent in range(intents):
        looking, total = 1.0, 0.0
        for r in range(n):
            chains[REACHED, intent, r] = discount[r] * looking
            chains[START, intent, r] = total
            total += discount[r] * looking * chains[WORTH, intent, r]
            chains[END, intent, r] = total
            looking *= chains[LEFT, intent, r]
    flat = chains.reshape((5, intents * (n + SWEEP)))
    return (
        (flat[WORTH], flat[LEFT], flat[REACHED], flat[START], flat[END]),
        intents,
        np.uint64(n + SWEEP),
        np.empty(FOUR_SIZES),
    )


@reducible
def _chain_at(rows: Any, at: Any) -> tuple[Any, Any, Any, Any, Any]:
    worth, left, reached, start, end = rows
    return load(worth, at), load(left, at), load(reached, at), load(start, at), load(end, at)


@reducible
def _chain_change(upper: Any, lower: Any) -> Any:
    """Of one intent. What is of the upper rank alone is the same for all ranks of a loop."""
    worth_i, left_i, reached_i, start_i, end_i = upper
    worth, left, reached, start, end = lower
    inverse = 1.0 / left_i
    served, after = inverse * worth_i, inverse * end_i
    return reached_i * worth + (start_i - end) + left * (served * reached + (inverse * start - after))


def chain_delta(gain: Any, table: Any, state: Any, i: int, j: int) -> float:
    rows, intents, width, _ = state
    change = 0.0
    for intent in range(intents):
        at = np.uint64(intent) * width
        change += _chain_change(_chain_at(rows, at + np.uint64(i)), _chain_at(rows, at + np.uint64(j)))
    return float(change)


def chain_sweep(state: Any, i: Any, first: Any, count: Any, sizes: Any) -> None:
    """The changes of several intents may cancel: they are added up before they become float32."""
    rows, intents, width, sums = state
    one, two = np.uint64(1), np.uint64(2)
    for u in range(count):
        sums[u] = sums[OF_1 + u] = sums[OF_2 + u] = sums[OF_3 + u] = 0.0
    for intent in range(intents):
        at = np.uint64(intent) * width
        rank_0, rank_1 = _chain_at(rows, at + i), _chain_at(rows, at + i + one)
        rank_2, rank_3 = _chain_at(rows, at + i + two), _chain_at(rows, at + i + one + two)
        for u in range(count):
            other = _chain_at(rows, at + first + u)
            sums[u] += _chain_change(rank_0, other)
            sums[OF_1 + u] += _chain_change(rank_1, other)
            sums[OF_2 + u] += _chain_change(rank_2, other)
            sums[OF_3 + u] += _chain_change(rank_3, other)
    for u in range(count):
        sizes[u], sizes[OF_1 + u] = sums[u], sums[OF_1 + u]
        sizes[OF_2 + u], sizes[OF_3 + u] = sums[OF_2 + u], sums[OF_3 + u]


def single_begin(gain: Any, table: Any, upper: Any, lower: Any, scale: Any) -> Any:
    """Where every document has one slot: of no intent, it is of the first with a worth and stop of 0.

    By rank, of the document's own intent: number, worth, 1 - stop, d T worth, rho E and d; worth T_i and stop S_i - worth G_j
    for i = 0, which a sweep moves on. One intent after the other, by rank: G.
    """
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


def single_delta(gain: Any, table: Any, state: Any, i: int, j: int) -> float:
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
    begin, delta, sweep = (
        (single_begin, single_delta, single_sweep) if single else (chain_begin, chain_delta, chain_sweep)
    )
    return PairDelta(begin, delta, signed=True, sweep=sweep)
