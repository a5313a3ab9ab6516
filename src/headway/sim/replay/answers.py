"""Finds how soon holders release the GIL after a request, as the trace shows it.

The evaluation loop looks for requests once in each round of a loop and at each call, so Python code answers in
microseconds. A thread in a call of C that keeps the GIL answers when the call ends. Under another policy it is asked
more often, and still answers no sooner.

A call that begins with a hold, and ends with it, is over at a set time, whenever the request comes: a request that comes
4.5 ms sooner is answered 4.5 ms later. Of such threads the lengths of the calls are what counts. The calls of other
threads are shorter than a hold, and a request meets them at any time.

The recorder writes a release that was requested after the signal to the next thread (`native/gil/hooks.c`). So an answer
in a trace has the time of that signal in it, some microseconds, and is an upper bound; the machine's figure is a lower
one. The next holder depends on it: a thread that has not gone back to sleep when the signal comes takes it before those
that have waited longer. So half of the runs of a prediction have the machine's figure (`with_quick_answers`).

Where a trace does not tell the two apart, a hold counts as one call, or as several of about the length of the shortest
holds: answers that came late to late requests promise nothing about requests that come sooner.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.sim.machine import Costs
from headway.sim.replay.bursts import Seen
from headway.sim.replay.cold import quantiles
from headway.traces.analysis.late import LATE_NS, LATE_SHARE, in_one_call, may_be_one_call

__all__ = ["Answers", "find_answers", "with_quick_answers"]

_OWN_COSTS = ("pending", "cold_pending")
"""The costs of an answer that a trace may have of its own."""

_FEW = 10
_VERY_FEW = 3
"""Of fewer than `_FEW` answers, and at least so many, all must be late: long calls of C leave room for no more of them."""
_FEW_SAMPLES = 30
_POINTS = 21
_SHORTEST = 10
"""The percentile of the lengths of holds that is taken for one call where a hold may have several."""
_FAR_OFF = 2.0
"""The machine's figure for how soon holders release the GIL stands unless the trace's is this many times as long."""


@final
@dataclass(frozen=True, eq=False)
class Answers:
    """The times from requests to releases.

    Attributes:
        late: For each thread that keeps the GIL in calls of C, quantiles in ns of all its answers.
        calls: For each of these threads that makes one call in each hold, quantiles in ns of the lengths of the calls.
        own_costs: The costs of the other threads' answers, by name, as quantiles in ns; empty if the machine's stand.
    """

    late: Mapping[int, tuple[float, ...]]
    calls: Mapping[int, tuple[float, ...]]
    own_costs: Mapping[str, tuple[float, ...]]


def find_answers(seen: Seen, costs: Costs, cores: int) -> Answers:
    """Return how soon the threads of a window answer.

    Args:
        seen: The contents of the trace.
        costs: The costs of the machine that it was recorded on.
        cores: The number of cores on which the program might run; 0: not known.
    """
    holds = seen.holds
    asked = holds.forced & (holds.asked_ns < holds.end_ns)
    thread, answer_ns = holds.thread[asked], holds.overrun_ns[asked]
    ran_ns = (holds.length_ns - holds.off_core_ns)[asked]
    in_calls, known = in_one_call(holds)[asked], asked & (holds.ran > 0)
    late, calls = {}, {}
    for one in np.unique(thread).tolist():
        mine = answer_ns[thread == one]
        if len(mine) >= _VERY_FEW and np.mean(mine >= LATE_NS) >= (LATE_SHARE if len(mine) >= _FEW else 1):
            late[one] = tuple(np.percentile(mine, np.linspace(0, 100, _POINTS)).tolist())
            its = (thread == one) & in_calls
            if its.any():
                calls[one] = tuple(np.percentile(ran_ns[its], np.linspace(0, 100, _POINTS)).tolist())
            elif may_be_one_call(holds.chosen(known & (holds.thread == one))):
                calls[one] = tuple(
                    np.percentile(_each_ns(ran_ns[thread == one]), np.linspace(0, 100, _POINTS)).tolist()
                )
    usual_ns = answer_ns[(answer_ns < LATE_NS) & ~np.isin(thread, list(late))]
    return Answers(late, calls, {} if cores == 1 else _own_costs(usual_ns, costs))


def _each_ns(ran_ns: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the length of the calls in each of these holds, if a short hold is one call."""
    calls = np.round(ran_ns / max(1.0, float(np.percentile(ran_ns, _SHORTEST))))
    result: NDArray[np.float64] = ran_ns / np.maximum(calls, 1)
    return result


def _own_costs(usual_ns: NDArray[np.int64], costs: Costs) -> dict[str, tuple[float, ...]]:
    """Return the costs of an answer; none on one core, where the holder runs on while the requester sleeps."""
    machine_ns = costs.median("check") + costs.median("pending") + costs.median("cold_pending")
    if len(usual_ns) < _FEW_SAMPLES or np.median(usual_ns) <= _FAR_OFF * machine_ns:
        return {}
    return dict(zip(_OWN_COSTS, (quantiles(usual_ns), (0.0,)), strict=True))


def with_quick_answers(own_costs: Mapping[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
    """Return the costs that a trace itself shows without those of answers: the machine's stand then."""
    return {name: cost for name, cost in own_costs.items() if name not in _OWN_COSTS}
