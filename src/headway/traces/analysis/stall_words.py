"""Formats a stall as one line, with advice, and as JSON."""

import datetime as dt
import re
from collections.abc import Collection
from typing import Any, Final

from headway.printable import printable
from headway.traces.analysis.advice import against_deadlock, one_interpreter
from headway.traces.analysis.doing import AWAITING, Doing
from headway.traces.analysis.holders import Circle, LockHold
from headway.traces.analysis.hotspots import own_frame
from headway.traces.analysis.stall_model import Cause, Kept, Part, Stall, StallKind
from headway.traces.analysis.words import duration, labels, place, share
from headway.traces.awaited import Awaited, awaited_at, has_a_time_out, waiting_line
from headway.traces.calls import awaits_an_import, locks_at, may_await_a_process
from headway.traces.frames import Frame
from headway.traces.guards import locks_made
from headway.traces.model import Trace
from headway.traces.sources import edited, source_line, words_in

__all__ = ["advice", "stall_json", "stall_line"]

_DEPTH: Final = 32
_SEEN_STOP_NS: Final = 200_000_000
"""The watcher has seen that a process is stopped by then."""
_TOLD: Final = 0.05
"""Causes with a smaller share are left out of the line."""
_COUNTED: Final = 0.005
"""Further places of a cause with a smaller share are not counted in the line."""
_NAMES: Final = {
    StallKind.LOOP: "the event loop of {} stalled for {}",
    StallKind.REQUEST: "a request in {} took {}",
    StallKind.WAIT: "{} waited for the GIL for {}",
}
_CIRCLES: Final = {
    Circle.NO: "",
    Circle.PERHAPS: "a deadlock, if the locks of these names are the same objects: ",
    Circle.SURE: "a deadlock: ",
}
_LOCKS: Final = r"\b(?:R?Lock|Condition|(?:Bounded)?Semaphore)\b"
_OF_THREADS: Final = re.compile(rf"\b(threading\.{_LOCKS}|from threading import .*{_LOCKS})")
_OF_PROCESSES: Final = re.compile(r"\b(multiprocess(?:ing)?|mp|billiard|Manager|get_context)\b")
_AWAITS: Final = re.compile(r"\b(await|async (with|for))\b")
_MORE_CPU: Final = "give the process more CPU (quota, cores), or run less beside it"
_MORE_ROOM: Final = "give `headway watch` more memory for events (`--ring 64MB`): those of this time were overwritten"


def _edited(trace: Trace, stall: Stall) -> frozenset[str]:
    """Return the files of a stall whose lines are not those of the trace any more."""
    return edited(trace, {frame.filename for part in stall.parts for frame in part.frames})


def _part(part: Part, stall: Stall, names: tuple[str, ...], changed: Collection[str], *, watched: bool) -> str:
    """Return a part's cause in words. Without a watcher, a garbage collection looks like a call of C."""
    where = f" at {place(part.place)}" if part.place is not None else ""
    if part.also is not None:
        where += f" (and line {part.also.line})"
    itself = part.thread is None or part.thread == stall.thread
    other = "" if part.thread is None else names[part.thread]
    if part.lost:
        return f"not known, as the events of its first {duration(stall.lost_ns)} were overwritten"
    if part.cause is Cause.OWN and part.thread is not None:
        return f"its own code{where or ' (line not known)'}"
    if part.cause is Cause.STOPPED:
        return "the process was stopped (SIGSTOP, a debugger)"
    if part.thread is None and part.cause is not Cause.UNEXPLAINED:
        return f"{part.cause.value} in many small parts"
    if part.cause is Cause.GIL:
        how = f", {part.kept.value}" if part.kept in (Kept.C, Kept.UNREACHED) else ""
        how += " or a garbage collection" * (part.kept is Kept.C and not watched)
        return f"the GIL held by {other}{where}{how}"
    if part.cause is Cause.CORE:
        return "it waited for a core" if itself else f"{other} held the GIL and waited for a core"
    if part.cause is Cause.COLLECTION:
        return f"a garbage collection{'' if itself else f' in {other}'}{where}"
    if part.cause is Cause.BLOCKED and part.lock:
        is_import = part.frames and awaits_an_import(part.frames[0])
        if part.holders and not is_import:
            if part.holders[0].threads[0] == part.thread:
                return f"{_CIRCLES[part.circle]}a wait for a lock{where} that the thread has itself"
            return f"{_CIRCLES[part.circle]}a wait for a lock{where}: {_had(part.holders, names)}"
        what = "it was importing the same module" if is_import else _what(part, changed)
        return f"a wait for another thread{' or process' * _may_be_of_processes(part, changed)} ({what}){where}"
    if part.cause is Cause.BLOCKED:
        keeps = " that keeps the GIL" * (part.kept is Kept.C and bool(where))
        stopped = ", or a stopped process" * (not where or (part.kept is Kept.C and part.time_ns < _SEEN_STOP_NS))
        within = "" if part.library is None else f", in {place(part.library)}"
        return f"a blocking call{where or ' (line not known)'}{within}{keeps}{stopped}"
    if part.idle:
        return (
            f"unexplained: {'it' if itself else other} held the GIL{where} and did not run"
            " (no core, or a sleep in a call, or a stopped process)"
        )
    return (
        f"unexplained: a call{where} that released the GIL (it computed, waited or had no core)"
        if where
        else "unexplained"
    )


def _what(part: Part, changed: Collection[str]) -> str:
    """Return, in words, what a thread waits for that another one gives; one of `multiprocessing` may be of any kind."""
    awaited = awaited_at(part.frames, changed)
    if awaited is None or _may_be_of_processes(part, changed):
        return "a lock, an event, a queue"
    return awaited.value


def _awaited(part: Part, changed: Collection[str]) -> str | None:
    """Return the name of the thing that a thread waits for; None if that is not known, or if it waits for no thread."""
    awaited = awaited_at(part.frames, changed) if part.lock else None
    return None if awaited is None else awaited.name.lower()


def _may_be_of_processes(part: Part, changed: Collection[str]) -> bool:
    """Tell whether a lock may be that of another process: no thread is known to have had it."""
    if not part.lock or part.holders or not part.frames:
        return False
    return may_await_a_process(part.frames[0]) and not _makes_it_of_threading(part.frames[0], changed)


def _makes_it_of_threading(frame: Frame, changed: Collection[str]) -> bool:
    """Tell whether the file of a line makes the locks that the line takes, and makes locks of `threading` only."""
    names = {one.name for one in locks_at(frame, changed)}
    if not names or not names <= locks_made(frame.filename):
        return False
    return bool(words_in(frame.filename, _OF_THREADS)) and not words_in(frame.filename, _OF_PROCESSES)


def _had(holders: tuple[LockHold, ...], names: tuple[str, ...]) -> str:
    """Return who had a lock; of several threads, each with its time."""
    first, *others = holders
    how_long = f" for {duration(first.blocked_ns)}" if others else ""
    told = [f"{names[first.threads[0]]} had it{how_long}{first.which or ','} {first.words}"]
    told += [f"{names[one.threads[0]]} for {duration(one.blocked_ns)}, {one.words}" for one in others]
    return ", and ".join(told)


def stall_line(trace: Trace, stall: Stall) -> str:
    """Return a stall in one line: the thing that made no progress, for how long, and why."""
    names, changed = labels(trace.threads), _edited(trace, stall)
    so_far = " until the recording ended" if trace.process.ended else " so far"
    until = so_far if stall.goes_on else " until the process ended" if stall.cut_off else ""
    what = _NAMES[stall.kind].format(names[stall.thread], f"{duration(stall.length_ns)}{until}")
    causes = []
    for key in dict.fromkeys((part.cause, part.lock, part.idle, part.lost) for part in stall.parts):
        parts = [part for part in stall.parts if (part.cause, part.lock, part.idle, part.lost) == key]
        sum_ns = sum(part.time_ns for part in parts)
        if sum_ns >= _TOLD * stall.length_ns:
            others = sum(part.time_ns >= _COUNTED * stall.length_ns for part in parts[1:])
            more = f", and {others} more" if others else ""
            told = _part(parts[0], stall, names, changed, watched=trace.evidence.watched)
            causes.append((sum_ns, f"{share(sum_ns, stall.length_ns)} {told}{more}"))
    because = [text for _, text in sorted(causes, key=lambda one: -one[0])]
    program = printable(trace.process.program) or "process"
    return f"{program} ({trace.process.pid}): {what}: {'; '.join(because) or 'unexplained'}"


def _shares_the_gil(part: Part, stall: Stall) -> bool:
    """Tell whether a request computes for about as long as the thread that it waited for, or for longer.

    Such threads take turns under each policy: a policy helps a thread that needs the GIL for a short time.
    """
    own_ns = sum(one.time_ns for one in stall.parts if one.cause is Cause.OWN)
    return stall.kind is StallKind.REQUEST and 2 * own_ns >= part.time_ns


def _advice_of(part: Part, stall: Stall, policy: str, changed: Collection[str], *, watched: bool) -> str:
    """Return the advice for a part of a stall, as far as the rest of the stall matters, too."""
    shares = _shares_the_gil(part, stall)
    return advice(stall.kind, part, policy, watched=watched, shares_the_gil=shares, changed=changed)


def advice(
    kind: StallKind,
    part: Part,
    policy: str = "",
    *,
    watched: bool = False,
    shares_the_gil: bool = False,
    changed: Collection[str] = (),
) -> str:
    """Return the advice for a part of a stall.

    Args:
        kind: The kind of the stall.
        part: The part.
        policy: The policy that schedules the GIL; "" for none.
        watched: The recording is one of `headway watch`: it has what the system's account of threads tells.
        shares_the_gil: The stalled thread computes as well: it shares the GIL with the thread that held it.
        changed: Files whose lines are not those of the trace.
    """
    if part.cause is Cause.OWN:
        return _OWN_OF_A_LOOP if kind is StallKind.LOOP else "make it faster, or run it in a process"
    if part.cause is Cause.GIL:
        return _against_a_holder(part, policy, shares_the_gil=shares_the_gil)
    if part.cause is Cause.BLOCKED:
        return _against_a_lock(kind, part, changed) if part.lock else _against_a_call(kind, part, changed)
    if part.cause is Cause.UNEXPLAINED:
        return _for_an_explanation(kind, part, watched=watched)
    return _OF_ONE_CAUSE[part.cause]


_OWN_OF_A_LOOP: Final = (
    "move it off the loop: `asyncio.to_thread()` if it releases the GIL, else a process; or cut it into pieces"
)
_OF_ONE_CAUSE: Final = {
    Cause.CORE: _MORE_CPU,
    Cause.STOPPED: "find who stops the process: a debugger, a shell's Ctrl-Z, or a program that sends SIGSTOP",
    Cause.COLLECTION: (
        "call `gc.freeze()` after start-up, set a higher `gc.set_threshold()`, or call `gc.collect()` when nothing waits"
    ),
}
"""The advice that depends on the cause alone."""


def _against_a_holder(part: Part, policy: str, *, shares_the_gil: bool) -> str:
    """Return the advice for a wait for the GIL."""
    if part.kept is Kept.C:
        return "this call keeps the GIL until it ends, and no policy can change that: run it in a process, or in pieces"
    if part.kept is Kept.UNREACHED:
        return (
            "a call of C keeps the GIL until it ends, and so does, on CPython 3.9 to 3.12, Python code of another interpreter;"
            f" no policy can change that: run it in a process, or in pieces; {one_interpreter()}"
        )
    if shares_the_gil:
        return (
            "run such work in processes, or less of it at a time: the request computes as well,"
            " so no policy makes both threads faster"
        )
    if policy:
        return f"run the work of the holder in a process: the policy {printable(policy)} did not prevent it"
    return "use `headway run`, which gives the GIL to the waiter at once; or run the work of the holder in a process"


def _against_a_lock(kind: StallKind, part: Part, changed: Collection[str]) -> str:
    """Return the advice for a wait for another thread."""
    if part.frames and awaits_an_import(part.frames[0]):
        return "import the module when the program starts: another thread was importing it"
    if part.circle is not Circle.NO:
        alone = part.holders[0].threads[0] == part.thread
        return against_deadlock(alone=alone, sure=part.circle is Circle.SURE)
    return _against_a_wait(kind, part, changed)


def _against_a_call(kind: StallKind, part: Part, changed: Collection[str]) -> str:
    """Return the advice for a blocking call that waits for no thread of the program."""
    if part.kept is Kept.C:
        return (
            "run the call in a process: it waits and keeps the GIL meanwhile, so no other thread of this process runs"
        )
    if kind is not StallKind.LOOP:
        return "the call waits for something outside the thread: check that, and set a time-out"
    if part.library is not None and _is_awaited(part.place, changed):
        return (
            "a library blocks in what is awaited there: use its own setting or another library for async code,"
            " or run the library's blocking call with `asyncio.to_thread()`"
        )
    return "await the call, or run it with `asyncio.to_thread()`"


def _for_an_explanation(kind: StallKind, part: Part, *, watched: bool) -> str:
    """Return the advice for time that is unexplained: mostly on how to learn more."""
    if part.lost:
        return _MORE_ROOM
    if part.idle and watched:
        return (
            "look whether that line calls something that sleeps with the GIL held; if not, the process was stopped"
            " (SIGSTOP, a debugger, a frozen container)"
        )
    if part.idle:
        return (
            "`headway watch` tells whether it had no core: it reads the system's account of each thread;"
            " if it had one, it slept in a call, or the process was stopped (SIGSTOP, a debugger, a frozen container)"
        )
    if part.place is None:
        return "record more: `headway trace` records every event"
    if kind is StallKind.LOOP:
        return (
            "run the call with `asyncio.to_thread()`: it releases the GIL, so that helps whether it computes or waits"
        )
    if watched:
        return "measure that call in the program: the watcher read no account of the thread at that time"
    return "`headway watch` tells whether the call computes, waits or has no core: it reads the system's account of each thread"


_AT_ITS_END: Final[dict[Awaited | None, str]] = {
    Awaited.EVENT: "look at the thread that should set the event",
    Awaited.CONDITION: "look at the thread that should notify the condition",
    Awaited.QUEUE: "look at the threads at the other end of the queue",
    Awaited.RESULT: "look at what should give the result: a thread of a full pool, or code that waits for this thread",
    Awaited.THREAD: "look at the thread that should end",
    Awaited.PERMIT: "hold each permit for less time, or give the semaphore more of them",
    Awaited.BARRIER: "look at the thread that comes to the barrier last",
    Awaited.CONNECTION: "return each connection to the pool sooner, or let the pool have more of them",
}
"""The advice for a thread that waits for another one, and for no lock."""
_OFF_THE_LOOP: Final[dict[Awaited | None, str]] = {
    Awaited.EVENT: "await an `asyncio.Event`, or call that with `asyncio.to_thread()`",
    Awaited.CONDITION: "await an `asyncio.Condition`, or call that with `asyncio.to_thread()`",
    Awaited.QUEUE: "await an `asyncio.Queue`, or call that with `asyncio.to_thread()`",
    Awaited.RESULT: (
        "await the result: a coroutine itself, a future through `asyncio.wrap_future()`;"
        " a result of the same loop never comes while the loop waits for it"
    ),
    Awaited.THREAD: "await the thread's end with `asyncio.to_thread()`",
    Awaited.PERMIT: "await an `asyncio.Semaphore`, or call that with `asyncio.to_thread()`",
    Awaited.BARRIER: "await an `asyncio.Barrier`, or call that with `asyncio.to_thread()`",
    Awaited.CONNECTION: "use the library's async pool, or call that with `asyncio.to_thread()`",
}
"""The same for the thread of an event loop."""


def _against_a_wait(kind: StallKind, part: Part, changed: Collection[str]) -> str:
    """Return the advice for a wait for another thread that is no deadlock."""
    had = part.holders[0].doing if part.holders else None
    if had is Doing.NO_CORE:
        return f"the thread that has the lock had no core: {_MORE_CPU}"
    if had in AWAITING:
        return (
            f"release the lock before the wait for {AWAITING[had].value} in the thread that has it:"
            " if the stalled thread is to end that wait, neither of them goes on"
        )
    awaited = awaited_at(part.frames, changed)
    others = "thread or process" if _may_be_of_processes(part, changed) else "thread"
    if kind is StallKind.LOOP:
        return _OFF_THE_LOOP.get(
            awaited,
            f"wait for it in another thread (`asyncio.to_thread()`), or hold the lock for less in the {others} that has it:"
            " such a lock stops the whole loop",
        )
    told = _AT_ITS_END.get(awaited, f"do less while the lock is held in the {others} that has it")
    return told if has_a_time_out(part.frames, changed) else f"{told}, or wait with a time-out"


def _is_awaited(frame: Frame | None, changed: Collection[str]) -> bool:
    """Tell whether a line of the program awaits something; a line that is not known does not."""
    if frame is None or frame.filename in changed:
        return False
    return _AWAITS.search(source_line(frame.filename, frame.line)) is not None


def _holder(one: LockHold, trace: Trace) -> dict[str, Any]:
    return {
        "thread": trace.threads[one.threads[0]].name,
        "time_s": one.blocked_ns / 1e9,
        "doing": one.doing.value,
        "place": _frame(_line_of(one.stack)),
        "stack": [_frame(each) for each in one.stack[:_DEPTH]],
    }


def _line_of(stack: tuple[Frame, ...]) -> Frame | None:
    """Return the line that tells what a holder does: where it waits in a module of the standard library, the program's own."""
    line = waiting_line(stack)
    return line if stack[:1] == (line,) else own_frame(stack) or line


def _frame(frame: Frame | None) -> dict[str, Any] | None:
    return None if frame is None else {"file": frame.filename, "line": frame.line, "function": frame.function}


def stall_json(trace: Trace, stall: Stall) -> dict[str, Any]:
    """Return a stall as JSON. Times are in seconds, and `began` is ISO 8601 in UTC."""
    realtime_ns, time_ns = trace.evidence.clock or (trace.process.start_realtime_ns, trace.start_ns)
    began_ns = realtime_ns + stall.since_ns - time_ns
    began = dt.datetime.fromtimestamp(began_ns / 1e9, dt.UTC)
    top = next((part for part in stall.parts if part.cause is stall.cause), None)
    watched, changed = trace.evidence.watched, _edited(trace, stall)
    ended_ns = trace.process.policy_ended_ns
    has_ended = ended_ns is not None and stall.since_ns >= trace.start_ns + ended_ns
    policy = "" if has_ended else trace.process.policy
    return {
        "began": began.isoformat(timespec="microseconds"),
        "pid": trace.process.pid,
        "program": trace.process.program,
        "kind": stall.kind.value,
        "thread": trace.threads[stall.thread].name,
        "serial": trace.threads[stall.thread].serial,
        "since_ns": stall.since_ns,
        "length_s": stall.length_ns / 1e9,
        "goes_on": stall.goes_on,
        "cut_off": stall.cut_off,
        "lost_s": stall.lost_ns / 1e9,
        "cause": stall.cause.value,
        "parts": [
            {
                "cause": part.cause.value,
                "time_s": part.time_ns / 1e9,
                "share": part.time_ns / max(1, stall.length_ns),
                "thread": None if part.thread is None else trace.threads[part.thread].name,
                "place": _frame(part.place),
                "library": _frame(part.library),
                "also": _frame(part.also),
                "stack": [_frame(one) for one in part.frames[:_DEPTH]],
                "kept": None if part.kept is None else part.kept.value,
                "lock": part.lock,
                "awaited": _awaited(part, changed),
                "lost": part.lost,
                "deadlock": part.circle.value,
                "may_be_process": _may_be_of_processes(part, changed),
                "holder": _holder(part.holders[0], trace) if part.holders else None,
                "holders": [_holder(one, trace) for one in part.holders],
                "advice": _advice_of(part, stall, policy, changed, watched=watched),
            }
            for part in stall.parts
        ],
        "advice": _advice_of(top or Part(stall.cause, 0), stall, policy, changed, watched=watched),
        "line": stall_line(trace, stall),
    }
