"""Tells which holds kept the GIL in a call of C after another thread had requested it.

Python code answers a request in microseconds, and a call of C when it ends. How long a hold went on after a request says
little about the length of such a call: a call of 8 ms that begins with the hold, and that is asked after 7 ms, answers
as soon as one of 2 ms. A longer call ends no sooner if it is asked sooner, and a shorter one does.
"""

import numpy as np
from numpy.typing import NDArray

from headway.traces.analysis.groups import grouped
from headway.traces.analysis.intervals import Holds

__all__ = ["LATE_INTERVALS", "LATE_NS", "LATE_SHARE", "in_one_call", "late", "may_be_one_call"]

LATE_NS = 200_000
"""A holder that takes longer than this to release the GIL is in a call of C."""
LATE_SHARE = 0.1
"""A thread answers late if this share of its answers is late; fewer may have waited for something else."""
LATE_INTERVALS = 2
"""A hold that lasts more switch intervals than this after a request is late, whatever it ran before."""

_ASKED = 0.8
"""A request comes at least this share of the interval after the hold began, unless a policy decides."""
_FEW = 10
"""Fewer holds of a thread are not a pattern."""
_ALIKE = 0.5
"""Answers are alike if a tenth of them at most is shorter than this share of the median; those of short calls spread from 0."""
_FIXED = 0.5
"""The lengths of holds depend on no request if they spread by less than this share of the spread of the answers."""

_BETWEEN = (1.15, 1.85)
"""A hold is one call, or two of them: one that lasts this many times the median is neither."""
_BETWEENS = 0.05
"""Holds are made of shorter calls if this share of them is neither one call nor two."""

_ONE_PLACE = 0.8
"""Calls of C are what a thread does if this share of its holds ends where most of its late holds do."""
_LONGEST, _EVEN, _EVEN_LOW = 95, 0.45, 0.25
"""Answers spread evenly if their median is this share of the longest at least, and a tenth of them is shorter than the other.

The longest is a percentile. Calls that vary a little, and that a request meets near their end, have a long tail instead:
a median of a quarter of the longest.
"""
_FOLLOWS = 0.4
"""The lengths of holds follow the requests if the answers spread by less than this share of the spread of the lengths."""


def in_one_call(holds: Holds) -> NDArray[np.bool_]:
    """Return a mask of the preempted holds whose threads make one call of C in each such hold, as far as it shows.

    The answers of such a thread are all late by about the same time, or its holds end after the same time whenever the
    request comes. Equal calls of less time that run in step with the requests look the same, unless some requests come
    out of step: a hold may then end with the next of these calls. Holds of which it is not known how long the thread had
    a core are left out.
    """
    found = np.zeros(len(holds), dtype=np.bool_)
    asked = holds.forced & (holds.asked_ns < holds.end_ns) & (holds.ran > 0)
    rows = np.flatnonzero(asked)
    for places in grouped(holds.thread[rows]).values():
        mine = rows[places]
        found[mine] = _fixed(holds.chosen(mine))
    return found


def _fixed(holds: Holds) -> bool:
    """Tell it of one thread's holds."""
    overrun_ns = holds.overrun_ns
    if len(holds) < _FEW or np.median(overrun_ns) < LATE_NS:
        return False
    ran_ns = holds.length_ns - holds.off_core_ns
    times = ran_ns / max(float(np.median(ran_ns)), 1.0)
    if np.mean((times > _BETWEEN[0]) & (times < _BETWEEN[1])) >= _BETWEENS:
        return False
    # The time without a core may lie before a request. `overrun_ns` is too short if that is not known, and the whole time is not.
    low, middle = np.percentile(holds.end_ns - holds.asked_ns, [10, 50])
    if low >= _ALIKE * middle:
        return True
    soonest, latest = np.percentile(overrun_ns, [10, 90])
    shortest, longest = np.percentile(ran_ns, [10, 90])
    return bool(longest - shortest <= _FIXED * (latest - soonest))


def may_be_one_call(holds: Holds) -> bool:
    """Tell whether one thread's preempted holds may be one call of C each, or two, for all that they show.

    A request that comes near the end of a call of varying length is answered at once, or after a whole call more. That
    looks like Python code between shorter calls, or like shorter calls in step with the requests. Not so if late holds end
    elsewhere than others, if the answers spread evenly, as requests meet shorter calls, or if the lengths of holds follow
    the requests.

    Args:
        holds: Holds with a request of which it is known how long the thread had a core.
    """
    overrun_ns = holds.overrun_ns
    is_late = overrun_ns >= LATE_NS
    if len(holds) < _FEW or np.mean(is_late) < LATE_SHARE:
        return False
    stacks, counts = np.unique(holds.stack[is_late], return_counts=True)
    most = stacks[counts.argmax()]
    if most == 0 or np.mean(holds.stack == most) < _ONE_PLACE:
        return False
    ran_ns = holds.length_ns - holds.off_core_ns
    soonest, middle, late_ns, longest = np.percentile(overrun_ns, [10, 50, 90, _LONGEST])
    if soonest <= _EVEN_LOW * longest and middle >= _EVEN * longest and 2 * longest <= np.median(ran_ns):
        return False
    shortest, long = np.percentile(ran_ns, [10, 90])
    return bool(late_ns - soonest > _FOLLOWS * (long - shortest))


def late(holds: Holds, interval_ns: NDArray[np.int64], *, policy: bool) -> NDArray[np.bool_]:
    """Return a mask of the holds that kept the GIL after a request, and that would have ended no sooner if asked sooner.

    A hold of which most came after the request, and more than an interval, was in one call for the most part.

    Args:
        holds: The holds.
        interval_ns: The switch interval of each hold's GIL.
        policy: A policy of Headway scheduled the GIL, so requests do not wait for the interval.
    """
    overrun_ns, before_ns = holds.overrun_ns, holds.asked_ns - holds.start_ns
    in_order = (before_ns >= _ASKED * interval_ns) | policy
    mostly = (holds.ran > 0) & (overrun_ns >= np.maximum(before_ns, interval_ns))
    result: NDArray[np.bool_] = overrun_ns > LATE_INTERVALS * interval_ns
    result |= in_order & (mostly | in_one_call(holds))
    return result
