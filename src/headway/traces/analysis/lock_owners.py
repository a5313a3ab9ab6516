"""Sums up what is known of a lock's holders by thread: who had it for longest, and what that thread did most meanwhile."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from headway.traces.analysis.doing import Doing
from headway.traces.analysis.holders import LockHold

__all__ = ["LockOwner", "owners"]

_LEAST: Final = 0.1
"""A thread that had the lock for a smaller part of the time of another one, which did the same, is not named beside it."""


@final
@dataclass(frozen=True)
class LockOwner:
    """A thread that had a lock, or several that did the same thing with it for longest.

    Attributes:
        threads: The indices of the threads, most time first.
        blocked_ns: The sum of the times for which others waited for the lock that these threads had.
        most: What they did for longest, and where.
        is_all: Whether they did little else.
    """

    threads: tuple[int, ...]
    blocked_ns: int
    most: LockHold
    is_all: bool


def owners(lines: Sequence[LockHold]) -> tuple[LockOwner, ...]:
    """Return the threads that had a lock, most time first, from what they did at each line.

    A thread that may have released the lock soon is one of its own: that time is none for which it had the lock.
    """
    spent_ns: dict[tuple[int, bool], Counter[int]] = defaultdict(Counter)
    for number, line in enumerate(lines):
        for thread, blocked_ns in line.by_thread_ns.items():
            spent_ns[thread, line.doing is Doing.WENT_ON][number] += blocked_ns
    alike: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (thread, _), of_lines in spent_ns.items():
        alike[of_lines.most_common(1)[0][0]].append((of_lines.total(), thread))
    found = []
    for number, ones in alike.items():
        longest_ns = max(ns for ns, _ in ones)
        kept = sorted((one for one in ones if one[0] >= _LEAST * longest_ns), key=lambda one: -one[0])
        blocked_ns, threads = sum(ns for ns, _ in kept), tuple(thread for _, thread in kept)
        there_ns = sum(lines[number].by_thread_ns[thread] for thread in threads)
        found.append(LockOwner(threads, blocked_ns, lines[number], there_ns >= (1 - _LEAST) * blocked_ns))
    return tuple(sorted(found, key=lambda one: -one.blocked_ns))
