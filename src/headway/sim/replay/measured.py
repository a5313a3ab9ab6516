"""The figures of a role in the part of a trace that is replayed."""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.sim.replay.bursts import Seen
from headway.sim.result import percentile

__all__ = ["Measured", "measured"]

_BATCHES = 10
"""The number of parts of the window; their differences give the error of a figure of the whole."""


@final
@dataclass(frozen=True)
class Measured:
    """The figures of a role in the trace's window.

    Attributes:
        turns: The number of turns.
        turns_per_s: How often its threads yielded, all of them together.
        turns_error: The standard error of `turns_per_s`, as a share of it, by batch means (Law, Simulation Modeling and
            Analysis, chapter 9).
        p50_ns, p99_ns: The length of a turn, from wanting the GIL to yielding; None if there are too few.
        run_share: The time of running on a core with the GIL, as a share of the window.
        held_share: The time of holding the GIL, on a core or not, as a share of the window.
    """

    turns: int
    turns_per_s: float
    turns_error: float
    p50_ns: float | None
    p99_ns: float | None
    run_share: float
    held_share: float


def measured(seen: Seen, threads: list[int]) -> Measured:
    """Return the figures of some threads together."""
    turns = np.sort(np.concatenate([seen.bursts[thread].turn_ns for thread in threads]))
    ran = sum(int(seen.bursts[thread].run_ns.sum()) + seen.bursts[thread].unfinished_ns for thread in threads)
    held = int(seen.holds.length_ns[np.isin(seen.holds.thread, threads)].sum())
    return Measured(
        len(turns),
        len(turns) / (seen.elapsed_ns / 1e9),
        _turns_error(seen, np.concatenate([seen.bursts[thread].end_ns for thread in threads])),
        percentile(turns, 0.5, 10),
        percentile(turns, 0.99, 100),
        ran / seen.elapsed_ns,
        held / seen.elapsed_ns,
    )


def _turns_error(seen: Seen, ends_ns: NDArray[np.int64]) -> float:
    """Return the standard error of the number of turns, as a share, from the differences between parts of a window."""
    counts, _ = np.histogram(ends_ns, bins=_BATCHES, range=(seen.since_ns, seen.until_ns))
    return float(counts.std(ddof=1) / _BATCHES**0.5 / counts.mean()) if counts.any() else 0.0
