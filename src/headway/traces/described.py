"""The process and the threads that a trace file describes, as the values of `Trace`."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.traces import format as hwt
from headway.traces import mending
from headway.traces.frames import text
from headway.traces.model import Executed, Kind, Process, Thread
from headway.traces.policy_options import PolicyOptions
from headway.traces.records import Name

__all__ = ["SeenThread", "process_of", "threads_of", "until_nul"]

_LEVELS = {0xA: "a", 0xB: "b", 0xC: "rc"}


def _python(hexversion: int) -> str:
    """Return the version of a sys.hexversion as text: `3.13.0`, `3.15.0a2`."""
    level = _LEVELS.get(hexversion >> 4 & 15)
    return f"{hexversion >> 24}.{hexversion >> 16 & 255}.{hexversion >> 8 & 255}" + (
        f"{level}{hexversion & 15}" if level else ""
    )


def until_nul(data: np.void) -> str:
    """Return a field of a file as text; NULs fill it up."""
    return text(data.tobytes().split(b"\0", 1)[0])


def process_of(header: np.void) -> Process:
    """Return the process of a file's header."""
    command = header["command"].tobytes().rstrip(b"\0")
    flags = int(header["flags"])
    return Process(
        pid=int(header["pid"]),
        parent_pid=int(header["parent_pid"]),
        family=int(header["family"]),
        python=_python(int(header["python_version"])),
        executable=until_nul(header["executable"]),
        command=tuple(text(one) for one in command.split(b"\0")) if command else (),
        program=until_nul(header["program"]),
        free_threaded=bool(flags & hwt.FREE_THREADED),
        gil_enabled=bool(flags & hwt.GIL_ENABLED),
        has_stacks=bool(flags & hwt.STACKS),
        has_subinterpreters=bool(flags & hwt.SUBINTERPRETERS),
        start_realtime_ns=int(header["start_realtime_ns"]),
        begin_realtime_ns=int(min(header["process_start_ns"], header["start_realtime_ns"])),
        interval_us=int(header["interval_us"]),
        core_count=int(header["core_count"]),
        policy=until_nul(header["policy"]),
        policy_ended_ns=_policy_ended_ns(header),
        policy_options=PolicyOptions.parse(until_nul(header["policy_options"])),
        ended=bool(header["end_ns"]),
        executed=Executed(min(int(header["executed"]), Executed.UNRECORDED)),
    )


def _policy_ended_ns(header: np.void) -> int | None:
    """Return how long after the begin of tracing the policy ended; a damaged field tells nothing."""
    ended_ns = int(header["policy_end_ns"]) - int(header["start_ns"])
    return ended_ns if header["policy_end_ns"] and ended_ns >= 0 else None


@final
@dataclass
class SeenThread:
    """A thread as its chunks describe it."""

    serial: int
    tid: int
    start_ns: int
    system_name: str


def threads_of(
    seen: Sequence[SeenThread], events: NDArray[np.void], names: Sequence[Name], end_ns: int
) -> tuple[Thread, ...]:
    """Return the threads, each with the name that it had last and the time of its end.

    Args:
        seen: The threads as their chunks describe them.
        events: By time; `thread` is the index in `seen`.
        names: The names that the file has apart from the chunks.
        end_ns: The end of the trace.
    """
    firsts = np.full(len(seen), -1)
    firsts[events["thread"][::-1]] = np.arange(len(events) - 1, -1, -1, dtype=np.int64)  # the first stays
    exits = events[events["kind"] == Kind.EXIT]
    ends_ns = dict(zip(exits["thread"].tolist(), exits["time_ns"].tolist(), strict=True))
    threads = []
    for index, one in enumerate(seen):
        latest_ns = int(events["time_ns"][firsts[index]]) if firsts[index] >= 0 else end_ns
        start_ns = one.start_ns if 0 < one.start_ns <= latest_ns else latest_ns
        threads.append(Thread(one.serial, one.tid, one.system_name, start_ns, ends_ns.get(index)))
    return _named(threads, names)


def _named(threads: Sequence[Thread], names: Sequence[Name]) -> tuple[Thread, ...]:
    """Give each thread the last name that it had.

    A native id can be reused once its thread has exited. From then on, a name belongs to the next thread with that id,
    even if that thread is seen only later.
    """
    named: dict[int, list[Name]] = defaultdict(list)
    for one in sorted(names):
        if one.name.strip():
            named[one.tid].append(one)
    lives: dict[int, list[Thread]] = defaultdict(list)
    for thread in sorted(threads, key=lambda thread: thread.start_ns):
        lives[thread.tid].append(thread)
    found = {}
    for tid, life in lives.items():
        since = -1
        for thread, after in zip(life, [*life[1:], None], strict=True):
            if after is None:
                until = mending.NEVER_NS
            else:
                until = after.start_ns - 1 if thread.end_ns is None else min(thread.end_ns, after.start_ns - 1)
            last = bisect_right(named[tid], until, key=lambda name: name.time_ns) - 1
            told = last >= 0 and named[tid][last].time_ns > since
            name = named[tid][last].name if told else thread.name
            found[thread.serial] = name if name.strip() else f"Thread {tid}"
            since = until
    return tuple(replace(thread, name=found[thread.serial]) for thread in threads)
