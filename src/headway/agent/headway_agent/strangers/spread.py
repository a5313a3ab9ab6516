"""Chooses inputs where there is no time for all: some that are spread over all of them.

The first inputs may be unlike the others, as small files before large ones. Every n-th input would not do either: inputs
often come by turns, as a small one and a large one. So halves of the inputs, and halves of these, give one by turns, and
a coin that always falls the same way decides which half is first. All processes choose the same inputs.
"""

import functools

__all__ = ["order", "places"]


@functools.lru_cache(maxsize=None)
def order(count):
    """Return the places of `count` inputs, each once, 0 first; every beginning of the list is spread over all of them."""
    return tuple(_by_turns(0, count, _coin()))


def places(count, calls):
    """Return the places of `count` inputs for a number of calls: all as often as possible, and the rest spread over them."""
    rounds, rest = divmod(calls, count)
    return [*range(count)] * rounds + sorted(order(count)[:rest])


def _coin():
    """Yield 0 or 1, always in the same order: the bits of a linear congruential generator (C11, 7.22.2.2)."""
    state = 1
    while True:
        state = (state * 1103515245 + 12345) % (1 << 31)
        yield state >> 16 & 1


def _by_turns(low, high, coin):
    if high - low < 2:
        return list(range(low, high))
    middle = (low + high) // 2
    halves = [_by_turns(low, middle, coin), _by_turns(middle, high, coin)]
    found = []
    for pair in range(max(map(len, halves))):
        first = 0 if pair + low == 0 else next(coin)
        for half in (halves[first], halves[1 - first]):
            found.extend(half[pair : pair + 1])
    return found
