"""What threads compute while they do not have the GIL: told from waiting, where the trace has measured it.

The recorder measures some calls; others of the same place are taken to compute as much as measured ones of about the same length. So a call
that always computes the same, and waits for a core in some cases, computes the same in both.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.sim.replay.bursts import Bursts, Seen

__all__ = ["Computing", "computing"]

_FEW = 3
_NEIGHBOURS = 4
"""On both sides, in the order of their lengths."""
_COMPUTES = 0.5
"""A place whose calls run for so much of their time at the median computes."""


@final
@dataclass(frozen=True, eq=False)
class Computing:
    """What is known of the calls of a window.

    Attributes:
        ran_ns: By thread, for each burst: how long the thread ran on a core in the call after it; -1: not known.
        places: Stacks whose calls compute.
        crowded: More threads have run than the program has cores: one that computes may wait for a core.
    """

    ran_ns: dict[int, NDArray[np.int64]]
    places: frozenset[int]
    crowded: bool

    def waits_for_a_core(self, stack: int) -> bool:
        """Whether calls of a place, while they do not run, wait for nothing but a core."""
        return self.crowded and stack in self.places


def computing(seen: Seen, cores: int) -> Computing:
    """Return what threads compute without the GIL.

    Args:
        seen: What the trace shows.
        cores: How many the program might run on; 0: not known.
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


def _measured(threads: list[Bursts]) -> dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return by stack how long the measured calls took, in that order, and how much of that they ran; few are left out."""
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
    """Return how much calls of these lengths ran, as the measured ones next to them in length did."""
    # Between the first and the last one of that length, where there are several.
    at = (np.searchsorted(of_away_ns, away_ns, "left") + np.searchsorted(of_away_ns, away_ns, "right")) // 2
    low, high = np.maximum(at - _NEIGHBOURS, 0), np.minimum(at + _NEIGHBOURS, len(of_away_ns))
    share = np.append(0.0, np.cumsum(of_ran_ns / of_away_ns))
    result: NDArray[np.int64] = (away_ns * (share[high] - share[low]) / np.maximum(high - low, 1)).astype(np.int64)
    return result
