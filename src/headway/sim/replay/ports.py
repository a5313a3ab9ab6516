"""Requests and replies: which receives and sends of a program are those of one client, and of how many connections.

A client in a closed loop sends its next request when the last one is answered, whichever thread answers it. So a program
that is made quicker gets its requests sooner. Where one thread takes the requests and others answer them, as in waitress,
the counts tell what belongs together: so many sends to a request, or so many receives to an answer.
"""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.sim.machine import Costs
from headway.sim.replay.bursts import Bursts, Seen
from headway.sim.replay.calls import Call
from headway.sim.replay.outside import AT_ONCE_NS, Peer, turnaround_ns

__all__ = ["Part", "Port", "find_ports"]

_FEW = 5
_WHOLE = 0.06
"""So far from a whole number the sends to a request may be: the window cuts some off."""
_MOST_PARTS = 8
"""Sends to a request, or receives to an answer."""

_ALMOST_ALL = (2, 98)
"""Percentiles: the window's ends, and what is told wrong, are left out."""
_SOON = 10.0
"""A client that is back within so many times what one on this machine takes at least sends its next request at once."""
_STEPS = 50
"""Of an exchange: calls that are told wrong add up in the whole of it, but hardly in so many."""
_MOST_AT_A_TIME = 16
"""A thread that takes more requests than so many to a poll does not wait in polls."""

_Key = tuple[int, int]
"""A thread and one of its bursts: the call after it is meant."""


class Part(Enum):
    """What a call is in the exchange with a client."""

    REQUEST = "request"
    """It takes a request, and waits for one where there is none."""
    REPLY = "reply"
    """It answers the oldest request that is not answered."""
    SEND = "send"
    """It sends, and nobody waits for it."""
    MORE = "more"
    """It has more of a request: nothing that is waited for."""


@final
@dataclass(frozen=True)
class Port:
    """Where requests of one client arrive.

    Attributes:
        threads: That take or answer them.
        connections: How many the client has at least: so many requests were there at a time.
        parts: By thread and burst: what the call after it is.
    """

    threads: frozenset[int]
    connections: int
    parts: Mapping[_Key, Part]


@final
@dataclass(frozen=True)
class _Calls:
    """Calls of one thread, by the indices of the bursts before them.

    `slept`: the polls that did not return at once. `waits`: all in which it waits for something to do.
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
        seen: What the trace shows.
        kinds: By stack, what kind of call lets the GIL go there.
        frames: By stack, its innermost frame.
        peers: By thread, whom it talks to; who talks to a client that is simulated has a port of its own.
        costs: Of the machine.
    """
    calls = [_calls(thread, bursts, kinds) for thread, bursts in seen.bursts.items()]
    found = []
    for one in calls:
        if peers[one.thread].simulated:
            parts = _together(seen, [one], frames) or _in_turn(one)
            found.append(_port(seen, [one], parts))
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


# ---------------------------------------------------------------------------- what belongs together
def _each(receives: int, sends: int) -> float:
    """Return how many sends there are to a receive, or receives to a send."""
    return max(sends, receives) / min(sends, receives)


def _off(receives: int, sends: int) -> float:
    """Return how far that is from a whole number, as a share of it; infinite where it tells nothing."""
    if receives < _FEW or not sends:
        return math.inf
    each = _each(receives, sends)
    return abs(each - round(each)) / each if round(each) <= _MOST_PARTS else math.inf


def _parts(calls: list[_Calls], receives: NDArray[np.int64]) -> dict[_Key, Part]:
    """Return what each call is: so many sends answer a request, or one answers what so many receives took.

    Args:
        calls: Of the thread that receives, and of those that send.
        receives: Those of its receives that are from the client.
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
    """Return which of a thread's first sends answers a request: the last one of each, after which it mostly waits for more."""
    waits = np.searchsorted(one.waits, one.sends)
    last = np.append(waits[1:] != waits[:-1], True)
    votes = [np.count_nonzero(last[first::sends_each]) for first in range(sends_each)]
    return int(np.argmax(votes))


def _together(seen: Seen, calls: list[_Calls], frames: NDArray[np.integer]) -> dict[_Key, Part] | None:
    """Return the same, where all that the first thread receives is from the client, or what it receives at one line; or None."""
    receives = calls[0].receives
    sends = sum(len(one.sends) for one in calls)
    sites = frames[seen.bursts[calls[0].thread].stack[receives]]
    choices = [receives, *(receives[sites == site] for site in np.unique(sites))]
    best = min(choices, key=lambda one: _off(len(one), sends))
    return _parts(calls, best) if _off(len(best), sends) <= _WHOLE else None


def _in_turn(one: _Calls) -> dict[_Key, Part]:
    """Return what calls of a thread are that answers each request before it takes the next: the first send is the answer."""
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
    """Return when each request was taken and each reply sent, and which it is, in the order of time."""
    found = []
    for (thread, burst), part in parts.items():
        bursts = seen.bursts[thread]
        if part in (Part.REQUEST, Part.REPLY):
            took_ns = max(0, int(bursts.away_ns[burst])) if part is Part.REQUEST else 0
            found.append((int(bursts.end_ns[burst]) + took_ns, (thread, burst), part))
    return sorted(found, key=lambda one: one[0])


def _at_once(seen: Seen, parts: Mapping[_Key, Part], costs: Costs) -> bool:
    """Whether clients send their next request at once: where all were answered, and the thread slept, one came soon."""
    exchange = _in_order(seen, parts)
    open_then = _open_then(exchange)
    least = np.percentile(open_then, _ALMOST_ALL[0])
    late_ns = [
        at_ns - exchange[before][0]
        for before, (at_ns, (thread, burst), part) in enumerate(exchange[1:])
        if part is Part.REQUEST and open_then[before] <= least and seen.bursts[thread].away_ns[burst] > AT_ONCE_NS
    ]
    return len(late_ns) < _FEW or float(np.median(late_ns)) < _SOON * turnaround_ns(costs)


def _open_then(exchange: list[tuple[int, _Key, Part]]) -> NDArray[np.int64]:
    """Return how many requests are not answered after each step of an exchange, but for a constant."""
    return np.cumsum([1 if part is Part.REQUEST else -1 for _, _, part in exchange])


def _possible(exchange: list[tuple[int, _Key, Part]], parts: dict[_Key, Part], connections: int) -> dict[_Key, Part]:
    """Return the parts such that they can be replayed over and over: what was told wrong must not stop a thread for ever.

    No more requests are taken than there are connections, a reply is to a request, and each request has one at the end.
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
    """Return how many requests were there at a poll, but for odd ones: those that are taken before the next poll."""
    receives = set(taker.receives.tolist())
    taken = [burst for thread, burst in parts if thread == taker.thread and burst in receives]
    requests = sum(part is Part.REQUEST for part in parts.values())
    if not requests or len(taken) > _MOST_AT_A_TIME * len(taker.polls):
        return 1
    _, counts = np.unique(np.searchsorted(taker.polls, taken), return_counts=True)
    of_request = max(1, round(len(taken) / requests))
    return round(np.percentile(counts, _ALMOST_ALL[1]) / of_request)
