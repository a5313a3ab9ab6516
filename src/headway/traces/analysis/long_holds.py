"""Findings about holds that go on after a request: a call of C, a garbage collection, or a thread without a core."""

from collections.abc import Iterator

from headway.traces.analysis.advice import UNREACHED, another_gil, less_pickling, one_interpreter, pickles
from headway.traces.analysis.hotspots import Place, at_place
from headway.traces.analysis.result import Analysis, Finding
from headway.traces.analysis.words import duration, listed, place, share
from headway.traces.frames import OURS

__all__ = ["long_holds"]

_MOST_PLACES = 3

_WORTH = 0.005
"""The least time that threads wait during a place's late holds, as a share of the wall time."""


def long_holds(analysis: Analysis) -> Iterator[Finding]:
    """Yield a finding for each place at which threads kept the GIL for long after others had requested it."""
    long = [
        one
        for one in analysis.held
        # Counts late holds only: in an hour of a convoy, one hold of a hundred thousand is late by chance.
        if one.late_blocked_ns >= _WORTH * analysis.wall_ns > 0 and one.frame != OURS
    ]
    for one in sorted(long, key=lambda one: -one.overrun_ns)[:_MOST_PLACES]:
        yield _long_hold(analysis, one)


def _long_hold(analysis: Analysis, one: Place) -> Finding:
    where = at_place(one.stack) if one.frame is not None else ""
    # The line of a hold is that of its end.
    apart = analysis.process.has_subinterpreters
    unended = one.frame is None and any(each.open and each.overrun_ns > 0 for each in analysis.longest)
    return Finding(
        kind="long-hold",
        weight="problem",
        fact=(
            f"{listed(one.overrun_threads)} kept the GIL{where} for up to {duration(one.overrun_max_ns)} after another thread had "
            f"requested it (switch interval: {duration(one.interval_ns)}"
            f"{'' if one.late_unmeasured else '; time off a core does not count'}), "
            f"{duration(one.overrun_ns)} in total; "
            f"holds there last {duration(one.times.p50_ns)} at the median and {duration(one.times.max_ns)} at most, and "
            f"threads waited {duration(one.blocked_ns)} during them"
        ),
        cause=_kept_by(analysis, one, unended=unended)
        + f"; or {UNREACHED}" * apart
        + ("; or the system ran something else on the thread's core, which was not measured" * one.late_unmeasured),
        advice="; ".join(filter(None, [_shorter(analysis, one, unended=unended), one_interpreter() * apart])),
        cost_ns=one.late_blocked_ns,
        threads=one.overrun_threads,
        frame=one.frame,
    )


def _kept_by(analysis: Analysis, one: Place, *, unended: bool) -> str:
    """Return what kept the GIL in late holds. A recording of `headway watch` has the garbage collections."""
    answers = ": Python code answers at its next call or turn of a loop, but nothing can interrupt"
    if _is_collecting(one):
        return f"garbage collections took {share(one.late_collected_ns, one.overrun_ns)} of that time{answers} a collection"
    may_be_one = not analysis.watched
    call = (
        "a call into C had not returned when the trace ended, and does not release the GIL"
        + "; or a garbage collection went on" * may_be_one
        if unended
        else "a call into C, on that line or just before it, does not release the GIL"
        + ", or a garbage collection began there" * may_be_one
    )
    pickled = ""
    if _pickles(one):
        pickled = "; such holds pickle or unpickle what goes between processes"
        # From CPython 3.13 on, _Py_HandlePending() looks for requests before it collects: one that is made during a
        # collection is answered at the next call, which may be in another function.
        pickled += ", and the objects that unpickling makes set collections off" * may_be_one
    return f"{call}{answers} {'these' if may_be_one else 'such a call'}{_begun(one)}{pickled}"


def _pickles(one: Place) -> bool:
    """Tell whether late holds began, or else ended, where a pool's own code pickles."""
    return pickles(one.begun or one.stack)


def _begun(one: Place) -> str:
    """Return where the holds began, if that is in another file: the call may be on the way to the line where they ended."""
    if not one.begun or one.frame is None or one.begun[0].filename == one.frame.filename:
        return ""
    return f"; these holds began after {place(one.begun[0])}, and the call may be anywhere in between"


def _is_collecting(one: Place) -> bool:
    """Tell whether garbage collections are known to have kept the GIL for most of the time after requests."""
    return 2 * one.late_collected_ns >= one.overrun_ns > 0


def _shorter(analysis: Analysis, one: Place, *, unended: bool) -> str:
    """Return the advice about late holds; "" if there is none."""
    if _is_collecting(one):
        return "call `gc.freeze()` after the start, set a higher `gc.set_threshold()`, or call `gc.collect()` when nothing waits"
    if one.frame is None:
        ways = (
            "`headway watch` names the line of such a call while it goes on",
            "`headway stalls` on this file has its line",
        )
        return ways[analysis.watched] * unended
    less = (
        "let that call release the GIL (`Py_BEGIN_ALLOW_THREADS`, Cython's `nogil`), give it less work at a time, or, if "
        f"its result is small, run it elsewhere: {another_gil(analysis.process)}"
    )
    if _pickles(one):
        less = less_pickling()
    return (
        f"{less}; "
        + "if `gc.callbacks` show that it is a collection, `gc.freeze()` after the start makes it shorter; "
        * (not analysis.watched)
        + "a shorter switch interval ends no such call sooner"
    )
