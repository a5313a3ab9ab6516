"""Write traces event by event, with times in milliseconds, for tests with exact figures."""

import numpy as np
from made_traces import MS, START_NS, UNKNOWN_FRAME, made_process
from made_turns import ran as share_flags

from headway.traces.analysis import analyse
from headway.traces.model import EVENT_DTYPE, Flag, Frame, Gil, Kind, Thread, Trace

COMPUTE = Frame("app.py", 12, "compute", 10)
SERVE = Frame("app.py", 30, "serve", 28)
RECV = Frame("/usr/lib/python3.13/socket.py", 700, "SocketIO.readinto", 690)
FRAMES = (UNKNOWN_FRAME, COMPUTE, SERVE, RECV)
AT_COMPUTE, AT_SERVE, AT_RECV = 1, 2, 3
"""Stacks: `compute`; `serve`; `readinto`, called from `serve`."""


class Script:
    """Collects events; `trace` returns them in order."""

    def __init__(self) -> None:
        self.rows = []

    def add(self, time_ms, thread, kind, value=0, gil=0, flags=0):
        """Add an event."""
        self.rows.append((START_NS + round(time_ms * MS), value, thread, kind, gil, flags))
        return self

    def hold(self, thread, start_ms, end_ms, *, stack=AT_COMPUTE, forced=False, gil=0, ran=None):
        """Add a hold; `ran` is the measured share in which its thread ran on a core."""
        self.add(start_ms, thread, Kind.ACQUIRE, gil=gil)
        return self.add(end_ms, thread, Kind.RELEASE, stack, gil, (Flag.FORCED if forced else 0) | _measured(ran))

    def wait(self, thread, start_ms, *, stack=AT_RECV, asks_ms=None, gil=0, ran=None):
        """Add the beginning of a wait, and with `asks_ms` the time of its request to the holder.

        `ran` is the measured share of the time before the request in which the holder ran on a core.
        """
        self.add(start_ms, thread, Kind.WAIT, stack, gil)
        return self if asks_ms is None else self.add(asks_ms, thread, Kind.REQUEST, gil=gil, flags=_measured(ran))

    def park(self, thread, start_ms, end_ms, park, *, stack=AT_SERVE, of=0):
        """Add a wait for a lock."""
        self.add(start_ms, thread, Kind.PARK, stack, flags=park << 8)
        return self.add(end_ms, thread, Kind.UNPARK, of, flags=park << 8)

    def trace(self, end_ms, *threads, gils=1, types=("",), loss=None, stacks=True, **process):
        """Return the trace of these events; `threads` are names. At equal times, releases come before acquires."""
        rows = sorted(self.rows, key=lambda row: (row[0], row[3] == Kind.ACQUIRE))
        extra = {} if loss is None else {"loss": loss}
        return Trace(
            process=made_process(has_stacks=stacks, **process),
            start_ns=START_NS,
            end_ns=START_NS + round(end_ms * MS),
            events=np.array(rows, dtype=EVENT_DTYPE),
            threads=tuple(
                Thread(number, 100 + number, name, START_NS, None)
                for number, name in enumerate(threads or ("MainThread",), 1)
            ),
            gils=tuple(Gil(i, i == 0, 4096 + i, START_NS, None) for i in range(gils)),
            stack_parent=np.array([0, 0, 0, 2] if stacks else [0], dtype=np.int64),
            stack_frame=np.array([0, 1, 2, 3] if stacks else [0], dtype=np.int64),
            frames=FRAMES if stacks else FRAMES[:1],
            types=types,
            **extra,
        )


def _measured(share):
    """Return the flags that tell for which share of a time a thread ran; None: it was not measured."""
    return 0 if share is None else share_flags(share)


def shared(threads=3, turns=60, turn_ms=5.0, gap_ms=0.0, *, forced=True, **process):
    """Return a trace of threads that compute in turn."""
    script, now, names = Script(), 0.0, [f"crunch-{number}" for number in range(threads)]
    for turn in range(turns):
        who = turn % threads
        script.hold(who, now, now + turn_ms, forced=forced)
        if turn + threads < turns:
            script.wait(who, now + turn_ms, stack=AT_COMPUTE)
        now += turn_ms + gap_ms
    return script.trace(now - gap_ms, *names, **process)


def convoy(rounds=20, waiters=("reader",), work_ms=0.02, **process):
    """Return a trace of a CPU-bound thread and of waiters that, in turn, wait one switch interval (5 ms) for it."""
    script, now = Script(), 0.0
    for number in range(rounds):
        waiter = 1 + number % len(waiters)
        script.wait(waiter, now, asks_ms=now + 5)
        script.hold(0, now, now + 5, forced=True)
        script.wait(0, now + 5, stack=AT_COMPUTE)
        script.hold(waiter, now + 5, now + 5 + work_ms, stack=AT_RECV)
        now += 5 + work_ms
    script.add(now, 0, Kind.ACQUIRE)
    return script.trace(now, "cruncher", *waiters, **process)


def told(trace):
    """Return the findings by kind."""
    return {one.kind: one for one in analyse(trace).findings}
