"""Finds requests and replies: the receives and sends that belong to one client, and the client's connections.

A client in a closed loop sends its next request when the last one is answered, whichever thread answers it. A program
that is made quicker therefore gets its requests sooner. If one thread takes the requests and others answer them, as in
waitress, the counts show what belongs together: a whole number of sends to a request, or of receives to an answer.
"""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from operator import itemgetter
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.sim.machine import Costs
from headway.sim.replay.bursts import Bursts, Seen
from headway.sim.replay.outside import AT_ONCE_NS, Peer, turnaround_ns
from headway.traces.calls import Call

__all__ = ["Part", "Port", "find_ports"]

_FEW = 5
_WHOLE = 0.06
"""The largest distance of the sends per request from a whole number, as a share: the window cuts some off."""
_MOST_PARTS = 8
"""The most sends to a request, or receives to an answer."""

_ALMOST_ALL = (2, 98)
"""Percentiles that leave out the window's ends and calls that were misread."""
_SOON = 10.0
"""A client that is back within this many times the least time on this machine sends its next request at once."""
_SHORT = 10
"""The percentile of the pauses of clients that is taken for one in which a client had a core at once."""
_MOSTLY = 2
"""A poll slept for most of the time since an answer if that is less than this many times its own length."""
_STEPS = 50
"""The length of a piece of an exchange: misread calls add up over the whole exchange, but hardly in a piece."""
_MOST_AT_A_TIME = 16
"""A thread that takes more requests than this per poll does not wait in polls."""

_Key = tuple[int, int]
"""A thread and one of its bursts; it stands for the call after the burst."""


class Part(Enum):
    """The part that a call has in the exchange with a client."""

    REQUEST = "request"
    """It takes a request, and waits for one if there is none."""
    REPLY = "reply"
    """It answers the oldest request that is not answered."""
    SEND = "send"
    """It sends, and no thread waits for the data."""
    MORE = "more"
    """It takes more of a request, and does not wait."""


@final
@dataclass(frozen=True)
class Port:
    """A port at which requests of one client arrive.

    Attributes:
        threads: The threads that take or answer the requests.
        connections: The least number of the client's connections: the most requests that were open at a time.
        parts: For each thread and burst, the part of the call after the burst.
        pause_ns: How long an event loop's clients pause before a request, typically, where it slept for one; 0: they send soon.
        work_ns: How long such a client computes before it sends its next request, at least.
    """

    threads: frozenset[int]
    connections: int
    parts: Mapping[_Key, Part]
    pause_ns: int = 0
    work_ns: int = 0

    @property
    def client_work_ns(self) -> int:
        """How long the simulated client computes for each request: it is one thread, and real ones may be several."""
        return self.work_ns // self.connections


@final
@dataclass(frozen=True)
class _Calls:
    """The calls of one thread, by the indices of the bursts before them.

    `slept` are the polls that did not return at once. `waits` are all calls in which the thread waits for work.
    """

    thread: int
    receives: NDArray[np.int64]
    sends: NDArray[np.int64]
    polls: NDArray[np.int64]
    slept: NDArray[np.int64]
    waits: NDArray[np.int64]


def find_ports(
    seen: Seen, kinds: Mapping[int, Call], frames: NDArray[np.integer], peers: Mapping[int, Peer], costs: Costs
) -> tuple[Port, ...]:
    """Return the ports of a program.

    Args:
        seen: The contents of the trace.
        kinds: For each stack, the kind of call that releases the GIL there.
        frames: For each stack, its innermost frame.
        peers: For each thread, its peer; a thread whose peer is simulated has a port of its own.
        costs: The costs of the machine.
    """
    calls = [_calls(thread, bursts, kinds) for thread, bursts in seen.bursts.items()]
    found = []
    for one in calls:
        if peers[one.thread].simulated:
            parts = _together(seen, [one], frames) or _in_turn(one)
            pauses_ns = _pauses_ns(seen, one, parts)
            pause_ns, work_ns = _pause_ns(pauses_ns, costs), _work_ns(pauses_ns, costs)
            found.append(replace(_port(seen, [one], parts), pause_ns=pause_ns, work_ns=work_ns))
    takers = [one for one in calls if len(one.receives) >= _FEW and len(one.sends) < _FEW]
    answerers = [one for one in calls if len(one.sends) >= _FEW and len(one.receives) < _FEW]
    if len(takers) == 1 and answerers:
        shared = _together(seen, [*takers, *answerers], frames)
        if shared is not None and _at_once(seen, shared, costs):
            found.append(_port(seen, [*takers, *answerers], shared))
    return tuple(found)


def _calls(thread: int, bursts: Bursts, kinds: Mapping[int, Call]) -> _Calls:
    of_kind = np.array([kinds[int(stack)] for stack in bursts.stack], dtype=object)
    polls = of_kind == Call.POLL
    return _Calls(
        thread,
        np.flatnonzero(of_kind == Call.RECEIVE),
        np.flatnonzero(of_kind == Call.SEND),
        np.flatnonzero(polls),
        np.flatnonzero(polls & (bursts.away_ns > AT_ONCE_NS)),
        np.flatnonzero(polls | (of_kind == Call.LOCK) | (of_kind == Call.RECEIVE)),
    )


# ---------------------------------------------------------------------------- matching receives and sends
def _each(receives: int, sends: int) -> float:
    """Return the number of sends per receive, or of receives per send, whichever is at least 1."""
    return max(sends, receives) / min(sends, receives)


def _off(receives: int, sends: int) -> float:
    """Return the distance of that number from a whole one, as a share; infinite if it tells nothing."""
    if receives < _FEW or not sends:
        return math.inf
    each = _each(receives, sends)
    return abs(each - round(each)) / each if round(each) <= _MOST_PARTS else math.inf


def _parts(calls: list[_Calls], receives: NDArray[np.int64]) -> dict[_Key, Part]:
    """Return the part of each call: several sends answer a request, or one send answers several receives.

    Args:
        calls: The calls of the thread that receives, then those of the threads that send.
        receives: The thread's receives that are from the client.
    """
    sends = sum(len(one.sends) for one in calls)
    whole = round(_each(len(receives), sends))
    receives_each, sends_each = (whole, 1) if len(receives) > sends else (1, whole)
    taker = calls[0]
    slept = set((taker.slept + 1).tolist())
    parts: dict[_Key, Part] = {}
    for nth, burst in enumerate(receives.tolist()):
        first = nth % receives_each == 0
        if first and burst in slept:  # the poll waits for the request
            parts[taker.thread, burst - 1] = Part.REQUEST
        parts[taker.thread, burst] = Part.REQUEST if first and burst not in slept else Part.MORE
    for one in calls:
        for burst in one.sends[_phase(one, sends_each) :: sends_each].tolist():
            parts[one.thread, burst] = Part.REPLY
    return parts


def _phase(one: _Calls, sends_each: int) -> int:
    """Return which of a thread's first sends answers a request: the last one, after which it mostly waits for work."""
    waits = np.searchsorted(one.waits, one.sends)
    last = np.append(waits[1:] != waits[:-1], True)
    votes = [np.count_nonzero(last[first::sends_each]) for first in range(sends_each)]
    return int(np.argmax(votes))


def _together(seen: Seen, calls: list[_Calls], frames: NDArray[np.integer]) -> dict[_Key, Part] | None:
    """Return the parts if the first thread's receives, all or those at one line, match the sends; else None."""
    receives = calls[0].receives
    sends = sum(len(one.sends) for one in calls)
    sites = frames[seen.bursts[calls[0].thread].stack[receives]]
    choices = [receives, *(receives[sites == site] for site in np.unique(sites))]
    best = min(choices, key=lambda one: _off(len(one), sends))
    return _parts(calls, best) if _off(len(best), sends) <= _WHOLE else None


def _in_turn(one: _Calls) -> dict[_Key, Part]:
    """Return the parts for a thread that answers each request before the next: the first send is the answer."""
    parts: dict[_Key, Part] = {}
    is_open = False
    receives = set(one.receives.tolist())
    for burst in sorted((*receives, *one.sends.tolist())):
        if burst in receives:
            parts[one.thread, burst] = Part.MORE if is_open else Part.REQUEST
            is_open = True
        elif is_open:
            parts[one.thread, burst] = Part.REPLY
            is_open = False
    return parts


def _in_order(seen: Seen, parts: Mapping[_Key, Part]) -> list[tuple[int, _Key, Part]]:
    """Return the time of each request and reply with its key and part, in the order of time."""
    found: list[tuple[int, _Key, Part]] = []
    # As lists, of which one item after the other is taken sooner than of arrays.
    times_ns = {
        thread: (seen.bursts[thread].end_ns.tolist(), seen.bursts[thread].away_ns.tolist())
        for thread in {thread for thread, _ in parts}
    }
    for key, part in parts.items():
        thread, burst = key
        end_ns, away_ns = times_ns[thread]
        if part is Part.REQUEST:
            found.append((end_ns[burst] + max(0, away_ns[burst]), key, part))
        elif part is Part.REPLY:
            found.append((end_ns[burst], key, part))
    return sorted(found, key=itemgetter(0))


def _at_once(seen: Seen, parts: Mapping[_Key, Part], costs: Costs) -> bool:
    """Tell whether clients send their next request at once: one came soon if all were answered and the thread slept."""
    exchange = _in_order(seen, parts)
    open_then = _open_then(exchange)
    least = np.percentile(open_then, _ALMOST_ALL[0])
    late_ns = [
        at_ns - exchange[before][0]
        for before, (at_ns, (thread, burst), part) in enumerate(exchange[1:])
        if part is Part.REQUEST and open_then[before] <= least and seen.bursts[thread].away_ns[burst] > AT_ONCE_NS
    ]
    return len(late_ns) < _FEW or float(np.median(late_ns)) < _SOON * turnaround_ns(costs)


def _pauses_ns(seen: Seen, calls: _Calls, parts: Mapping[_Key, Part]) -> list[int]:
    """Return the times from an answer of an event loop to a request that its poll slept for.

    Requests that waited already tell nothing. Nor does a poll that began late, as it does if the loop waited for the GIL
    after its answer: most of that time is the loop's own.
    """
    polls = set(calls.slept.tolist())
    away_ns = seen.bursts[calls.thread].away_ns
    pauses_ns = []
    answered_ns = None
    for at_ns, (_, burst), part in _in_order(seen, parts):
        if part is Part.REPLY:
            answered_ns = at_ns
        elif burst in polls and answered_ns is not None and at_ns - answered_ns < _MOSTLY * away_ns[burst]:
            pauses_ns.append(at_ns - answered_ns)
    return pauses_ns


def _pause_ns(pauses_ns: list[int], costs: Costs) -> int:
    """Return how long an event loop's clients pause, typically; 0 if the requests came soon, or were too few."""
    pause_ns = int(np.median(pauses_ns)) if len(pauses_ns) >= _FEW else 0
    return pause_ns if pause_ns >= _SOON * turnaround_ns(costs) else 0


def _work_ns(pauses_ns: list[int], costs: Costs) -> int:
    """Return how long clients compute between an answer and their next request; 0 if they pause, or it is not known.

    The short pauses tell it: in the others, a client may have waited for a core.
    """
    if len(pauses_ns) < _FEW:
        return 0
    short_ns = float(np.percentile(pauses_ns, _SHORT))
    return max(0, int(short_ns - turnaround_ns(costs))) if short_ns < _SOON * turnaround_ns(costs) else 0


def _open_then(exchange: list[tuple[int, _Key, Part]]) -> NDArray[np.int64]:
    """Return the number of unanswered requests after each step of an exchange, up to a constant."""
    return np.cumsum([1 if part is Part.REQUEST else -1 for _, _, part in exchange])


def _possible(exchange: list[tuple[int, _Key, Part]], parts: dict[_Key, Part], connections: int) -> dict[_Key, Part]:
    """Return the parts, changed so that they can be replayed for ever; a misread call must not stop a thread.

    In the result, no more requests are open than there are connections, each reply has a request, and each request has
    a reply by the end.
    """
    found = dict(parts)
    waiting: deque[_Key] = deque()
    for _, key, part in exchange:
        if part is Part.REQUEST and len(waiting) < connections:
            waiting.append(key)
        elif part is Part.REPLY and waiting:
            waiting.popleft()
        else:
            found[key] = Part.MORE if part is Part.REQUEST else Part.SEND
    return {**found, **dict.fromkeys(waiting, Part.MORE)}


def _port(seen: Seen, calls: list[_Calls], parts: dict[_Key, Part]) -> Port:
    exchange = _in_order(seen, parts)
    open_then = _open_then(exchange)
    parts_of_it = np.array_split(open_then, max(1, len(open_then) // _STEPS))
    at_once = round(float(np.median([one.max() - one.min() for one in parts_of_it if len(one)] or [0])))
    connections = max(1, at_once, _at_a_time(calls[0], parts))
    return Port(frozenset(one.thread for one in calls), connections, _possible(exchange, parts, connections))


def _at_a_time(taker: _Calls, parts: Mapping[_Key, Part]) -> int:
    """Return the largest usual number of requests at a poll: those that are taken before the next poll."""
    receives = set(taker.receives.tolist())
    taken = [burst for thread, burst in parts if thread == taker.thread and burst in receives]
    requests = sum(part is Part.REQUEST for part in parts.values())
    if not requests or len(taken) > _MOST_AT_A_TIME * len(taker.polls):
        return 1
    _, counts = np.unique(np.searchsorted(taker.polls, taken), return_counts=True)
    of_request = max(1, round(len(taken) / requests))
    return round(np.percentile(counts, _ALMOST_ALL[1]) / of_request)
