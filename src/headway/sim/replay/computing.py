"""Finds how much threads compute without the GIL, as opposed to waiting, if the trace has measured it.

The recorder measures some calls. Other calls of the same place are assumed to compute as much as measured calls of
about the same length. A call that always computes the same, and sometimes waits for a core, therefore computes the same
in both cases.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.sim.replay.bursts import Bursts, Seen

__all__ = ["Computing", "computing", "cores_used"]

_FEW = 3
_NEIGHBOURS = 4
"""The number of measured calls on each side, in the order of their lengths."""
_COMPUTES = 0.5
"""A place computes if the median of its calls runs for at least this share of its time."""


@final
@dataclass(frozen=True, eq=False)
class Computing:
    """Knowledge about the calls of a window.

    Attributes:
        ran_ns: For each thread and burst, how long the thread ran on a core in the call after the burst; -1: not known.
        places: Stacks whose calls compute.
        crowded: The program has fewer cores than threads that ran, so that a thread that computes may wait for a core.
    """

    ran_ns: dict[int, NDArray[np.int64]]
    places: frozenset[int]
    crowded: bool

    def waits_for_a_core(self, stack: int) -> bool:
        """Tell whether calls of a place wait for nothing but a core while they do not run."""
        return self.crowded and stack in self.places


def computing(seen: Seen, cores: int) -> Computing:
    """Return how much threads compute without the GIL.

    Args:
        seen: The contents of the trace.
        cores: The number of cores on which the program might run; 0: not known.
    """
    measured = _measured(list(seen.bursts.values()))
    places = frozenset(
        stack for stack, (away_ns, ran_ns) in measured.items() if float(np.median(ran_ns / away_ns)) >= _COMPUTES
    )
    found = {}
    for thread, bursts in seen.bursts.items():
        ran_ns = bursts.away_cpu_ns.copy()
        for stack, (of_away_ns, of_ran_ns) in measured.items():
            unknown = np.flatnonzero((bursts.stack == stack) & (ran_ns < 0) & (bursts.away_ns >= 0))
            ran_ns[unknown] = _like(bursts.away_ns[unknown], of_away_ns, of_ran_ns)
        found[thread] = ran_ns
    return Computing(found, places, 0 < cores < len(seen.bursts))


def cores_used(seen: Seen, found: Computing) -> float:
    """Return how many cores the program used in a window on average, as far as its calls without the GIL are known."""
    of_bursts = ((bursts, found.ran_ns[thread]) for thread, bursts in seen.bursts.items())
    used_ns = sum(
        int(bursts.run_ns.sum()) + bursts.unfinished_ns + int(ran_ns[ran_ns > 0].sum()) for bursts, ran_ns in of_bursts
    )
    return used_ns / seen.elapsed_ns


def _measured(threads: list[Bursts]) -> dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return, by stack, the lengths of measured calls, ascending, and their run times; omit stacks with few calls."""
    if not threads:
        return {}
    stack, away_ns, ran_ns = (
        np.concatenate([getattr(one, name)[one.away_cpu_ns >= 0] for one in threads])
        for name in ("stack", "away_ns", "away_cpu_ns")
    )
    found = {}
    for one in np.unique(stack):
        mine = np.flatnonzero((stack == one) & (away_ns > 0))
        if len(mine) >= _FEW:
            mine = mine[np.argsort(away_ns[mine], kind="stable")]
            found[int(one)] = (away_ns[mine], ran_ns[mine])
    return found


def _like(away_ns: NDArray[np.int64], of_away_ns: NDArray[np.int64], of_ran_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how long calls of these lengths ran, as the measured calls nearest to them in length did."""
    # The middle of the measured calls of the same length, if there are several.
    at = (np.searchsorted(of_away_ns, away_ns, "left") + np.searchsorted(of_away_ns, away_ns, "right")) // 2
    low, high = np.maximum(at - _NEIGHBOURS, 0), np.minimum(at + _NEIGHBOURS, len(of_away_ns))
    share = np.append(0.0, np.cumsum(of_ran_ns / of_away_ns))
    result: NDArray[np.int64] = (away_ns * (share[high] - share[low]) / np.maximum(high - low, 1)).astype(np.int64)
    return result
