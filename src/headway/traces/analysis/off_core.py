"""The finding about threads that hold a GIL without running: they have no core, or sleep in a call of C."""

from headway.traces.analysis.advice import another_gil, shorter_holds
from headway.traces.analysis.hotspots import at_place
from headway.traces.analysis.long_holds import long_holds
from headway.traces.analysis.result import Analysis, Finding, GilSummary
from headway.traces.analysis.words import duration, number, share

__all__ = ["without_running"]

_SYSTEM = "the system ran something else on their cores, a CPU quota was used up, "
_CHECK = "check what else runs on these cores (`headway doctor`, a container's CPU quota)"


def without_running(analysis: Analysis, gil: GilSummary, *, slows: bool) -> Finding:
    """Return the finding about a GIL. `slows`: threads waited for it for long enough to gain from shorter holds."""
    # A watcher's account has late holds alone, and the longest time for which each may have had no core.
    least = "about" if analysis.watched else "at least"
    fact = (
        f"threads held {gil.name} without running on a core for {least} {duration(gil.off_core_ns)}, "
        f"{share(gil.off_core_ns, gil.holds.total_ns)} of the time that it was held"
    )
    if gil.asleep is not None:
        return _asleep(analysis, gil, fact)
    shorter = shorter_holds(analysis.process, gil) if slows and not _has_long_holds(analysis, gil) else ""
    return Finding(
        kind="off-core",
        weight="problem",
        fact=fact,
        cause=_SYSTEM
        + (
            "or the process was stopped: `headway stalls` on this file tells which, and at which stall"
            if analysis.watched
            else "the process was stopped, or a call into C slept without releasing the GIL"
        ),
        advice=_CHECK
        + "; if one line causes this, let its call release the GIL" * (not analysis.watched)
        + (f"; {shorter}" if shorter else ""),
        cost_ns=gil.off_core_ns,
        gil=gil.index,
    )


def _has_long_holds(analysis: Analysis, gil: GilSummary) -> bool:
    """Tell whether calls that no shorter interval ends sooner are told of the threads of a GIL."""
    told = {thread for one in long_holds(analysis) for thread in one.threads}
    return any(one.label in told for one in gil.by_thread)


def _asleep(analysis: Analysis, gil: GilSummary, fact: str) -> Finding:
    one = gil.asleep
    assert one is not None
    who = analysis.labels[one.thread]
    return Finding(
        kind="off-core",
        weight="problem",
        fact=(
            f"{fact}; {duration(one.off_core_ns)} of that{at_place(one.stack)}, in {number(one.holds, 'hold')} that another"
            " thread asked to end"
        ),
        cause=(
            f"a call into C{', on that line or just before it,' * (one.frame is not None)} sleeps without releasing the GIL: {who} ran for"
            f" {share(one.held_ns - one.off_core_ns, one.held_ns)} of these holds, and {one.late:,} of them went on for more"
            f" than a switch interval after the request; or else {_SYSTEM}or the process was stopped"
        ),
        advice=(
            "let that call release the GIL (`ctypes.CDLL` in place of `PyDLL`, `Py_BEGIN_ALLOW_THREADS`, Cython's `nogil`), or"
            f" run it elsewhere: {another_gil(analysis.process, gil)}; no switch interval ends it sooner; if it does not sleep,"
            f" {_CHECK}"
        ),
        cost_ns=gil.off_core_ns,
        gil=gil.index,
        threads=(who,),
        frame=one.frame,
    )
