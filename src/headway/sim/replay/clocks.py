"""Finds calls that last until times of a clock of the thread's own: `sleep(due - now())`, `call_at()`, a device's ticks.

Such a call is the shorter the later it begins. A replay that gave it its recorded length would let a thread that waited
for the GIL in the trace run ahead of its clock as soon as it waits no more.

The ends of these calls tell them from calls that last for a time. An end that is late on a clock does not make the next
ones late, so ends that are many calls apart are as exactly apart as two successive ones are. The ends of calls that
last for a time drift as a random walk does: the spread of the time over k calls grows with the square root of k. Ends
that are exact to some microseconds may drift by a few times as much on a clock, too: the lengths of their calls decide.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.native_sim import CLOCKS
from headway.sim.replay.bursts import Bursts
from headway.traces.calls import Call

__all__ = ["Clocks", "find_clocks", "shrinks"]

_FEW = 32
"""Fewer calls of a place do not tell a clock from chance."""
_ENOUGH = 64
"""So many tell a clock from chance by the lengths of the calls alone (`_SURELY`)."""
_MANY = 128
"""So many do, also if their ends are far from the strokes (`_NEAR`)."""
_FAR = 16
"""The number of calls over which the spread is compared with that from one call to the next."""
_SHRINKS = -0.4
"""A correlation below this tells that calls which begin later are shorter. On a clock it is -0.7 or less: the lateness of
a call's beginning is that of the end before, or more, and the call's own end is late by as much, independently."""
_NEVER_BELOW = -1.0
"""No correlation is below this: the calls are on no clock."""
_SURELY = -0.7
"""The correlation on a clock. It is asked of calls whose ends drift more than those of a clock, but by little."""
_STEADY = 0.01
"""A clock's drift in shares of its period, where the ends are too exact to compare it with the spread from one call to the
next: the system's wake-ups are late by more at some times than at others, by tens of microseconds."""
_SAME_WORK = 1.5
_LONG = 0.1
"""An event loop also polls without a wait, or for the rest of a timer's tick; calls below this part of its long ones are
not those that wait for its timers."""
_PARTS = 3
"""The typical time from one call to the next is up to this many periods."""
_NEAR = 0.2
"""The ends of calls are near strokes if successive ones are off by less than this share of the period. If they are not,
only many calls tell a clock from chance, and the number of strokes between two calls must not be a guess."""
_NEVER = (Call.RUN, Call.SEND)
"""Calls that wait for no time."""


@final
@dataclass(frozen=True, eq=False)
class Clocks:
    """The clocks of a thread.

    Attributes:
        of: For each burst, the index of the clock of the call after it; -1: it is on no clock.
        moves_ns: For each burst, how far the call moves its clock on: several periods if the thread made no call at the
            strokes that it missed.
        periods_ns: The time from one stroke to the next, of each clock.
    """

    of: NDArray[np.int64]
    moves_ns: NDArray[np.int64]
    periods_ns: tuple[float, ...]


def find_clocks(bursts: Bursts, kinds: Mapping[int, Call], others: NDArray[np.bool_], at_once_ns: int) -> Clocks:
    """Return the clocks of a thread.

    Args:
        bursts: The thread's bursts.
        kinds: The kind of call at each stack.
        others: The bursts before calls that are known to wait for something else.
        at_once_ns: A call that is no longer than this has not waited.
    """
    of, moves_ns = np.full(len(bursts), -1), np.zeros(len(bursts), dtype=np.int64)
    periods_ns: list[float] = []
    for stack in np.unique(bursts.stack):
        kind = kinds[int(stack)]
        here = (bursts.stack == stack) & ~others & (bursts.away_ns >= 0)
        if kind is Call.POLL and here.any():
            here &= bursts.away_ns > max(at_once_ns, _LONG * float(np.percentile(bursts.away_ns[here], 90)))
        at = np.flatnonzero(here)
        if kind in _NEVER or len(at) < _FEW or len(periods_ns) == CLOCKS:
            continue
        found = _clock(bursts, at)
        if found is not None:
            period_ns, strokes = found
            of[at] = len(periods_ns)
            moves_ns[at] = np.rint(period_ns * np.append(1, strokes))
            periods_ns.append(period_ns)
    return Clocks(of, moves_ns, tuple(periods_ns))


def _clock(bursts: Bursts, at: NDArray[np.int64]) -> tuple[float, NDArray[np.int64]] | None:
    """Return the period of the calls after some bursts, and the strokes from each call to the next one."""
    ends_ns = bursts.end_ns[at] + bursts.away_ns[at]
    gaps_ns = np.diff(ends_ns)
    typical_ns = float(np.median(gaps_ns))
    if typical_ns <= 0:
        return None
    each = np.ones_like(gaps_ns)
    rounded = (np.maximum(np.rint(gaps_ns * part / typical_ns).astype(np.int64), 1) for part in range(1, _PARTS + 1))
    for strokes in (each, *rounded):
        period_ns, at_most = _period_ns(ends_ns, strokes)
        if _shortens(bursts, at, np.cumsum(strokes) * period_ns - period_ns) < at_most:
            ran_ns = np.diff(np.cumsum(bursts.run_ns)[at])
            return period_ns, each if _works_as_much(ran_ns, strokes) else strokes
    return None


def _period_ns(ends_ns: NDArray[np.int64], strokes: NDArray[np.int64]) -> tuple[float, float]:
    """Return the time between strokes, and the correlation (`_shortens`) below which the calls are on that clock."""
    numbers = np.append(0, np.cumsum(strokes))
    half, far = len(ends_ns) // 2, min(_FAR, len(ends_ns) // 4)
    period_ns = float(np.median((ends_ns[half:] - ends_ns[:-half]) / (numbers[half:] - numbers[:-half])))
    late_ns = ends_ns - ends_ns[0] - numbers * period_ns
    near_spread, far_spread = (_spread(late_ns[by:] - late_ns[:-by]) for by in (1, far))
    drift = max(far_spread, _spread(late_ns) * 2**0.5)  # on a clock, both are about as large as `near_spread`
    near = near_spread < _NEAR * period_ns
    if drift <= 0 or not (near or ((strokes == 1).all() and len(ends_ns) >= _MANY)):
        return period_ns, _NEVER_BELOW
    # The middle, as a factor, between 1 (a clock) and the square root of the number of calls (a random walk).
    if drift < near_spread * far**0.25:
        return period_ns, _SHRINKS
    is_steady = drift < _STEADY * period_ns and len(ends_ns) >= _ENOUGH
    return period_ns, _SURELY if is_steady else _NEVER_BELOW


def _shortens(bursts: Bursts, at: NDArray[np.int64], strokes_ns: NDArray[np.float64]) -> float:
    """Return the correlation of the calls' lengths with how late they begin after a stroke, from the second call on.

    On a clock it is negative: a call that begins later is shorter.
    """
    return _correlation(bursts.end_ns[at[1:]] - strokes_ns, bursts.away_ns[at[1:]])


def shrinks(bursts: Bursts, at: NDArray[np.int64]) -> bool:
    """Tell whether calls are the shorter the later they begin, after the calls of the same place before them."""
    known = at[bursts.away_ns[at] >= 0]
    if len(known) < _FEW:
        return False
    before_ns = bursts.end_ns[known[1:]] - bursts.end_ns[known[:-1]] - bursts.away_ns[known[:-1]]
    return _correlation(before_ns, bursts.away_ns[known[1:]]) < _SHRINKS


def _works_as_much(run_ns: NDArray[np.int64], strokes: NDArray[np.int64]) -> bool:
    """Tell whether a thread that misses strokes does no more work until its next call."""
    missed = strokes > 1
    if not missed.any() or missed.all():
        return False
    return bool(np.median(run_ns[missed]) < _SAME_WORK * np.median(run_ns[~missed]))


def _correlation(some: NDArray[np.float64] | NDArray[np.int64], others: NDArray[np.int64]) -> float:
    """Return Spearman's rank correlation; 0 if one side does not differ."""
    ranks = [np.argsort(np.argsort(one, kind="stable"), kind="stable") for one in (some, others)]
    if np.ptp(some) == 0 or np.ptp(others) == 0:
        return 0.0
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _spread(values: NDArray[np.float64]) -> float:
    low, high = np.percentile(values, [25, 75])
    return float(high - low)
