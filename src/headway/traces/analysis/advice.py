"""Advice in words that fit the traced Python version and the measured figures."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headway.traces.analysis.cores import lacks_cores
from headway.traces.analysis.late import LATE_NS
from headway.traces.analysis.words import duration
from headway.traces.frames import Frame
from headway.traces.libraries import is_standard
from headway.traces.model import Process

if TYPE_CHECKING:
    # Not for the analysis of a stall, which needs a few of these words and waits for each import.
    from headway.traces.analysis.convoys import Convoy
    from headway.traces.analysis.result import Analysis, GilSummary

__all__ = [
    "UNREACHED",
    "against_deadlock",
    "another_gil",
    "by_policy",
    "in_parallel",
    "less_pickling",
    "one_interpreter",
    "pickles",
    "shorter_holds",
    "shorter_interval",
    "version",
]

_S_NS = 1_000_000_000
_SHORTER_NS = 500_000
"""The interval to try: a tenth of the default. Below it, hand-offs begin to cost more than the waits that they save."""
_SET_SHORTER = f"sys.setswitchinterval({_SHORTER_NS / _S_NS:g})"

UNREACHED = (
    "Python code ran in another interpreter than the waiter's: sub-interpreters of this process share the GIL, and on CPython"
    " 3.9 to 3.12 a request does not reach another interpreter"
)
"""The cause of a long hold of a process with `has_subinterpreters`, which a trace does not tell from a call of C."""

_BETWEEN_PROCESSES = (
    "/multiprocessing/connection.py",
    "/multiprocessing/queues.py",
    "/multiprocessing/reduction.py",
    "/concurrent/futures/process.py",
)
INTERPRETER_POOL = (3, 14)
FREE_THREADED = (3, 13)


def pickles(stack: Sequence[Frame]) -> bool:
    """Tell whether a thread that is at a stack receives or sends objects of other processes, which are pickled."""
    return bool(stack) and stack[0].filename.endswith(_BETWEEN_PROCESSES) and is_standard(stack[0])


def less_pickling() -> str:
    """Return the advice for threads that spend their time on objects that go between processes."""
    return (
        "pass less between the processes: ids or paths in place of the data, `multiprocessing.shared_memory`,"
        " or work on a part of the data that each process loads itself"
    )


def version(process: Process) -> tuple[int, int]:
    """Return the traced Python's (major, minor); (0, 0) if it is unknown."""
    found = re.match(r"(\d+)\.(\d+)", process.python)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def against_deadlock(*, alone: bool, sure: bool) -> str:
    """Return the advice for threads that wait for each other's locks.

    Args:
        alone: One thread waits for a lock that it has.
        sure: There is only one lock of each name.
    """
    first = "" if sure else "look first whether another thread has these locks; if not, "
    if alone:
        return f"{first}use a `threading.RLock`, or do not take the lock again in what is called with it"
    return f"{first}acquire these locks in the same order everywhere, or use one lock for both"


def another_gil(process: Process, gil: "GilSummary | None" = None) -> str:
    """Return the ways to give some work a GIL of its own; `gil` is the one that it has now, if that is known."""
    if gil is not None and not gil.main:
        return "`ProcessPoolExecutor`, or further interpreters with a GIL each: threads of one share its GIL"
    if version(process) >= INTERPRETER_POOL:
        return "`ProcessPoolExecutor`, or `InterpreterPoolExecutor`, whose workers have a GIL each"
    return "`ProcessPoolExecutor`"


def one_interpreter() -> str:
    """Return the ways out where a request does not reach other interpreters."""
    return (
        "if Python of a sub-interpreter ran there, CPython 3.13 or later, or one interpreter per process (mod_wsgi:"
        " `WSGIApplicationGroup %{GLOBAL}`; uWSGI: `single-interpreter`)"
    )


def in_parallel(process: Process, gil: "GilSummary | None" = None) -> str:
    """Return the ways to run Python code on several cores; `gil` is as for `another_gil`."""
    ways = another_gil(process, gil)
    if process.free_threaded:
        return f"{ways}, or this same build with the GIL off (`PYTHON_GIL=0`)"
    since = "this version's" if version(process) >= FREE_THREADED else "3.13's or a later"
    return f"{ways}, or {since} free-threaded build, where one thread alone is slower"


def by_policy(process: Process, gil: "GilSummary", convoy: "Convoy") -> str:
    """Return the advice to run the program under Headway's scheduler; "" if a policy scheduled it already.

    The figures are from bench/policy_corpus.py on CPython 3.13: servers beside a CPU-bound thread, the ratio of the p99
    of their answers under the policy `fair` to that without it (docs/guides/schedule-a-program.md).
    """
    if process.policy:
        return ""
    soon = "acquires the GIL at once"
    if convoy.release_ns >= LATE_NS:
        soon = f"requests the GIL at once, and has it {duration(convoy.release_ns)} later"
    run = f"run the program unchanged under `headway run`, so that {convoy.waiter} "
    if lacks_cores(gil):
        return f"{run}requests the GIL as soon as it has a core"
    return (
        f"{run}{soon}: measured servers beside a CPU-bound thread had 0.02 to 0.31 of their former p99, and that thread"
        " kept a tenth to a quarter of its work while they were busy"
    )


def shorter_holds(process: Process, gil: "GilSummary") -> str:
    """Return the advice to shorten holds that lose their cores; "" if none is ended by request, or a policy decides.

    A hold of 5 ms is longer than the slice that Linux gives a thread beside others, so the holder waits for the others'
    slices before it can release the GIL. Beside programs of the same niceness, 0.5 ms made such waits 4 to 32 times
    shorter; beside those that come first, 1.4 to 1.8 times (a 2-core virtual machine, Linux 6, CPython 3.11).
    """
    if process.policy or not gil.forced or gil.interval_ns < 2 * _SHORTER_NS:
        return ""
    return (
        f"`{_SET_SHORTER}` may help, too: a thread that holds the GIL for less time loses its core less often meanwhile"
    )


def shorter_interval(analysis: "Analysis", gil: "GilSummary", convoy: "Convoy") -> str:
    """Return the advice to set a shorter switch interval, with its cost; "" if it is short, or a policy decides.

    Only the intervals in the waits get shorter. The rest stays: a request that comes late because the waiter has no core,
    and the time from a request to the release, which is the rest of a call into C, or a wait of the holder for a core.
    How much that gives is no matter of these waits alone, because the threads then come back sooner, and wait more often.
    A prediction replays the trace with that interval: a report has its figures below the advice, where it can promise any.

    Args:
        analysis: The analysis.
        gil: The GIL that the threads wait for.
        convoy: The convoy to shorten.
    """
    if convoy.interval_ns < 2 * _SHORTER_NS or analysis.process.policy:
        return ""
    text = f"`{_SET_SHORTER}` would make these waits shorter"
    if lacks_cores(gil):
        return f"{text}; by how much depends on what else runs on the cores"
    if convoy.release_ns >= LATE_NS:
        text += f" (the {duration(convoy.release_ns)} from a request to the release stay)"
    text += ", at the cost of more forced hand-offs"
    if gil.handovers:
        text += f" (each takes {duration(gil.handover_ns / gil.handovers)} here)"
    return text
