"""The counts that a watcher keeps of each process: the laps of its event loops, and its stalls by kind and cause.

A process that is watched may ask for its own counts (headway.live.own_counts). The names and the bounds of the metrics
are here, too, because the watcher and the process both export them.
"""

import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, final

__all__ = [
    "DELAY",
    "DELAY_NAME",
    "STALLS",
    "STALL_CAUSES",
    "STALL_KINDS",
    "STALL_TIME",
    "Counts",
    "EndedStalls",
    "Stalls",
    "add_stalls",
    "all_kinds",
    "laps_below",
]

_LAP_POWERS: Final = range(20, 36)
"""The bounds of the histogram of event loops' delay, as powers of two in nanoseconds: 1 ms to 34 s."""
STALL_KINDS: Final = ("event loop", "request", "thread")
STALL_CAUSES: Final = (
    "own code",
    "GIL",
    "no core",
    "garbage collection",
    "stopped process",
    "blocking call",
    "unexplained",
)
"""The values of traces.analysis.stall_model, which needs numpy; a test holds these against those."""

# A stall does have that time, from the threads' accounts: see ring.look(). A histogram of laps alone cannot.
DELAY_NAME: Final = "asyncio.eventloop.delay"
DELAY: Final = (
    "Time of event loops from their first step after a poll of their connections to the next poll."
    " The time without a core before that step does not count."
)
STALLS: Final = "Stalls, by kind and main cause."
STALL_TIME: Final = "Time of stalls, in seconds, by kind and cause: a stall may have several."

Stalls = dict[tuple[str, str], tuple[int, float]]
"""(number, seconds) of stalls, by kind and cause: a stall counts for its main cause, and each of its parts for its own."""

EndedStalls = Iterable[tuple[str, str, Iterable[tuple[str, float]]]]
"""Stalls that are over: the kind, the main cause, and (cause, seconds) of each part."""


def add_stalls(counts: Stalls, stalls: EndedStalls) -> None:
    """Add stalls that are over."""
    for kind, main_cause, parts in stalls:
        for number, cause, time_s in [(1, main_cause, 0.0), *((0, *part) for part in parts)]:
            _add(counts, (kind, cause), number, time_s)


def _add(counts: Stalls, key: tuple[str, str], number: int, time_s: float) -> None:
    before, before_s = counts.get(key, (0, 0.0))
    counts[key] = (before + number, before_s + time_s)


def all_kinds(stalls: Stalls) -> list[tuple[tuple[str, str], tuple[int, float]]]:
    """Return the stalls in a fixed order, with (0, 0.0) for each kind and cause without one.

    Prometheus' rate() and increase() do not see the first stall of a series that begins with it.
    """
    none: Stalls = dict.fromkeys(itertools.product(STALL_KINDS, STALL_CAUSES), (0, 0.0))
    return sorted((none | stalls).items())


def laps_below(laps: Sequence[int]) -> list[tuple[float, int]]:
    """Return (bound in seconds, number of laps below it) for each bound of the histogram of event loops' delay."""
    return [(2**power / 1e9, sum(laps[: power + 1])) for power in _LAP_POWERS]


@final
class Counts(NamedTuple):
    """The counts of one process; none of them ever decreases."""

    since_ns: int
    """When the watcher began to count (its CLOCK_MONOTONIC). Other counts of the same process began at another time."""
    laps: Sequence[int]
    """[i] counts event loops' laps with bit length i in ns."""
    laps_ns: int
    stalls: Stalls
    """The stalls that are over."""

    def to_json(self) -> bytes:
        """Return the counts as a JSON object, some hundreds of bytes."""
        stalls = [[*key, *counted] for key, counted in self.stalls.items()]
        return json.dumps(self._asdict() | {"stalls": stalls}).encode()

    @classmethod
    def of_json(cls, text: bytes) -> "Counts":
        """Return what `to_json` has packed.

        Raises:
            ValueError: It is something else.
        """
        try:
            found: dict[str, Any] = json.loads(text)
            stalls = {(str(kind), str(cause)): (int(n), float(time_s)) for kind, cause, n, time_s in found["stalls"]}
            return cls(int(found["since_ns"]), [int(one) for one in found["laps"]], int(found["laps_ns"]), stalls)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"these are no counts: {text[:100]!r}") from error

    def plus(self, other: "Counts") -> "Counts":
        """Return the sum with counts that began later."""
        laps = [a + b for a, b in itertools.zip_longest(self.laps, other.laps, fillvalue=0)]
        stalls = dict(self.stalls)
        for key, counted in other.stalls.items():
            _add(stalls, key, *counted)
        return Counts(other.since_ns, laps, self.laps_ns + other.laps_ns, stalls)
