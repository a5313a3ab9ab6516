"""Finds what a thread waits for outside of the program: how long it asked to sleep, and how soon its peers answer.

The times in a trace are longer: on a core that others use, a woken thread waits for its turn. The simulator adds that
wait again, so it must be subtracted here. If another thread ran when the thread came back, the shortest times say most.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.native_sim import GOES_ON, OF_CLOCK, OpKind
from headway.sim.machine import Costs
from headway.sim.replay.bursts import Bursts, Seen
from headway.traces.calls import Call
from headway.traces.loops import Home, home_at
from headway.traces.model import Trace

__all__ = [
    "AT_ONCE_NS",
    "NO_PEER",
    "Peer",
    "asked_sleeps",
    "find_peer",
    "loops_in_c",
    "polls_unseen",
    "turnaround_ns",
    "wake_ns",
]

AT_ONCE_NS = 15_000
"""A call that takes no longer than this has not slept."""

_JUST_NS = 50_000
"""A thread that released the GIL less than this ago has just left its core."""
_LATE = 4
"""A receive that began this many times its own length after the send says nothing about the peer's time."""
_FEW = 5
_OBSERVED_SHARE = 0.05
"""The share of a thread's receives that must have slept for the peer's time to count as observed."""
_READY = 3.0
"""A receive that took less than this many times the cost of one that finds its data has found its data."""
_TICKS = 1.25
"""On a shared core, a woken thread may wait for the next tick. A time below this many ticks may be such a wait."""
_NEAR = 3.0
"""A peer that answers within this many times the least time of a peer on this machine is taken for one on it."""
_LEAST_PERCENT = 2
_DIFFER = 2.5
"""A program asks for different sleeps if all but a tenth of them are more than this many times as long as the shortest."""
_POINTS = 33
_MANY_POLLS = 50
"""Fewer polls of an event loop do not show that it serves much."""
_BY_TIMERS = 0.2
"""An event loop of which so many polls, as a share, last until the times of a clock mostly serves timers."""


@final
@dataclass(frozen=True)
class Peer:
    """The peer to which a thread sends and from which it receives in turn.

    Attributes:
        simulated: The peer is a client of this machine that sends its next request at once; it is simulated, too.
        answers: Quantiles, in ns, of the time from a send to the answer; empty for other kinds of peers.
        always_there: Whenever the thread receives, requests wait already.
        assumed: The assumption behind this peer, or "".
    """

    simulated: bool = False
    answers: tuple[float, ...] = ()
    always_there: bool = False
    assumed: str = ""


NO_PEER = Peer()


def wake_ns(costs: Costs) -> float:
    """Return the typical time from a wake-up until a thread has returned from its call, on an idle core."""
    return costs.median("wake_idle") + costs.median("switch") + costs.median("receive_woken")


def _sleep_ns(costs: Costs) -> float:
    late_ns = costs.median("timer_slack") + costs.median("timer_late_idle")
    return late_ns + costs.median("switch") + costs.median("futex_woken_timed")


def turnaround_ns(costs: Costs) -> float:
    """Return the least time in which a peer on this machine answers: woken on an idle core, it receives and sends."""
    return wake_ns(costs) + costs.median("send")


def _others_run(seen: Seen, thread: int, bursts: Bursts, just_ns: int = _JUST_NS) -> NDArray[np.bool_]:
    """Tell, for each burst, whether another thread had the GIL when this one came back from the call after the burst.

    It also counts if another thread had the GIL less than `just_ns` before: this thread may have waited for the core
    until then.
    """
    back_ns = bursts.end_ns + np.maximum(bursts.away_ns, 0)
    at = np.searchsorted(seen.holds.start_ns, back_ns, "left") - 1  # its own hold may begin then
    found = (at >= 0) & (seen.holds.end_ns[at] > back_ns - just_ns) & (seen.holds.thread[at] != thread)
    result: NDArray[np.bool_] = found & (bursts.away_ns >= 0)
    return result


def asked_sleeps(
    seen: Seen,
    thread: int,
    bursts: Bursts,
    kinds: Mapping[int, Call],
    costs: Costs,
    literal_ns: Mapping[int, int],
    cores: int,
) -> NDArray[np.int64]:
    """Return, for each burst, the sleep that was asked for after it; -1 if it is not known.

    If the sleeps of one place end while other threads run, the shortest ones are taken for all, unless the program asks
    for different ones. Otherwise, if they hardly differ, their median is taken for all. If the program's own line has
    the number (`literal_ns`, by stack), that is taken. `cores` is the number of cores on which the program might run; 0:
    not known.
    """
    over_ns = _sleep_ns(costs)
    asked = np.where(bursts.away_ns >= 0, np.maximum(bursts.away_ns - int(over_ns), 0), -1)
    busy, goes_on = _others_run(seen, thread, bursts), _others_run(seen, thread, bursts, 0)
    for stack in np.unique(bursts.stack):
        here = (bursts.stack == stack) & (bursts.away_ns >= 0)
        if kinds[int(stack)] is not Call.SLEEP or not here.any():
            continue
        if int(stack) in literal_ns:
            asked[bursts.stack == stack] = literal_ns[int(stack)]
            continue
        least, low, middle, high = np.percentile(asked[here], [_LEAST_PERCENT, 10, 50, 90])
        if np.mean(busy[here]) > 0.5:
            # With a second core, a thread that comes back while another one goes on had no need to wait for its core.
            waited_for_none = cores != 1 and np.mean(goes_on[here]) > 0.5
            if not (waited_for_none and low + over_ns > _DIFFER * (least + over_ns)):
                asked[bursts.stack == stack] = int(least)
        elif high - low < 0.5 * max(middle, over_ns):
            asked[bursts.stack == stack] = int(middle)
    return asked


def find_peer(seen: Seen, thread: int, bursts: Bursts, kinds: Mapping[int, Call], costs: Costs) -> Peer:
    """Return the peer that a thread talks to.

    The peer's time, from a send to the answer, shows only if the thread slept for the answer. In a convoy it need not
    sleep: the answer arrives before the thread has the GIL again.
    """
    of_kind = np.array([kinds[int(stack)] for stack in bursts.stack], dtype=object)
    sends = np.flatnonzero(of_kind == Call.SEND)
    receives = np.flatnonzero((of_kind == Call.RECEIVE) & (bursts.away_ns >= 0))
    receives = receives[receives > sends[0]] if len(sends) else receives[:0]
    if not len(receives):
        return NO_PEER
    before = sends[np.searchsorted(sends, receives) - 1]
    away_ns = bursts.away_ns[receives]
    late_ns = bursts.end_ns[receives] - bursts.end_ns[before]
    slept = (away_ns > AT_ONCE_NS) & (late_ns < _LATE * away_ns)
    early = late_ns < turnaround_ns(costs) / 2
    ready = away_ns < _READY * costs.median("receive_ready")
    if np.count_nonzero(early) >= _FEW and np.mean(ready[early]) > 0.5:
        return Peer(
            always_there=True, assumed="requests are always waiting when the program receives them, as in the trace"
        )
    if np.count_nonzero(slept) < max(_FEW, _OBSERVED_SHARE * len(receives)):
        return Peer(
            simulated=True,
            assumed="the trace does not show how soon peers send their next request, because it was always waiting already: "
            "the model assumes peers on this machine that send at once",
        )
    answer_ns = np.maximum(late_ns[slept] + away_ns[slept] - wake_ns(costs), 0.0)
    return _observed(answer_ns, _others_run(seen, thread, bursts)[receives[slept]], costs)


def _observed(answer_ns: NDArray[np.float64], busy: NDArray[np.bool_], costs: Costs) -> Peer:
    if np.count_nonzero(~busy) >= _FEW:
        answer_ns = answer_ns[~busy]
        least_ns = float(np.median(answer_ns))
    else:
        least_ns = float(np.percentile(answer_ns, _LEAST_PERCENT))
        answer_ns = np.minimum(answer_ns, least_ns)
        if least_ns < _TICKS * costs.tick_ns:
            return Peer(
                simulated=True,
                assumed="the trace does not show how soon peers send their next request, because others had the core when it came: "
                "the model assumes peers on this machine that send at once",
            )
    if least_ns < _NEAR * turnaround_ns(costs):
        return Peer(
            simulated=True, assumed="the model assumes peers on this machine that send their next request at once"
        )
    quantiles = np.percentile(answer_ns, np.linspace(0, 100, _POINTS))
    return Peer(
        answers=tuple(float(one) for one in quantiles),
        assumed="the model assumes that peers answer as soon as in the trace, however soon they get their own answers",
    )


def loops_in_c(trace: Trace, kinds: Mapping[int, Call]) -> frozenset[int]:
    """Return the stacks at which an event loop written in C, such as uvloop's, releases the GIL.

    Such a loop polls, receives and sends at one stack, so no call of it is known.
    """
    unknown = (stack for stack, kind in kinds.items() if stack and kind is Call.UNKNOWN)
    return frozenset(stack for stack in unknown if home_at(trace.stack(stack)) is Home.LOOP)


def polls_unseen(ops: NDArray[np.void], loops: Collection[int]) -> bool:
    """Tell whether a thread runs an event loop written in C whose work may be requests of peers, of which nothing is known.

    Its waits are those of the trace. A loop that always had work in the trace would always have work with a change, too.

    Args:
        ops: The thread's operations.
        loops: The stacks of `loops_in_c`.
    """
    calls = np.isin(ops["kind"], (OpKind.RUN, OpKind.BLOCK)) & ((ops["flags"] & GOES_ON) == 0)
    calls &= np.isin(ops["where"], list(loops))
    on_clock = (ops["flags"] & OF_CLOCK) != 0
    count = np.count_nonzero(calls)
    return bool(count >= _MANY_POLLS and np.count_nonzero(calls & on_clock) < _BY_TIMERS * count)
