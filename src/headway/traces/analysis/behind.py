"""The finding about the function behind which threads waited most for the GIL, whatever the number of its threads."""

from collections.abc import Sequence

from headway.printable import printable
from headway.traces.analysis.advice import another_gil, less_pickling, pickles
from headway.traces.analysis.convoys import LEAST
from headway.traces.analysis.cores import LACKING, MORE_CORES
from headway.traces.analysis.hotspots import Behind, at_place, function_of, own_frame
from headway.traces.analysis.result import Analysis, Finding
from headway.traces.analysis.words import duration, listed, number, role, share

__all__ = ["BEHIND", "behind_a_function", "guilty_function", "told_already"]

BEHIND = 0.25
"""A share of all waiting: a function with less of it is not the one to begin with."""

_NO_CORE = (
    "most of the time, the system ran something else on that thread's core, a CPU quota was used up, or a call into C slept"
    " without releasing the GIL"
)


def guilty_function(analysis: Analysis) -> Behind | None:
    """Return the function that blocked others most; None if it has less than `BEHIND` of all waiting, or few waits."""
    waits = sum(gil.waits.count for gil in analysis.gils)
    enough = (one for one in analysis.behind if one.blocked_ns >= BEHIND * analysis.wait_ns)
    return next(enough, None) if waits >= LEAST else None


def told_already(analysis: Analysis, one: Behind, found: Sequence[Finding]) -> Finding | None:
    """Return the costliest problem at a line of the function, or at a call in a library that it made; None: there is none.

    A note does not count: it comes after all problems, and so does not say where to begin.
    """
    stacks = [place.stack for place in analysis.held]
    stacks += [convoy.holder_stack for gil in analysis.gils for convoy in gil.convoys]
    mine = function_of(one.frame, analysis.process)
    told = [
        each
        for each in found
        if each.weight == "problem"
        for at in (each.frame, *(own_frame(stack) for stack in stacks if stack and stack[0] == each.frame))
        if at is not None and function_of(at, analysis.process) == mine
    ]
    return max(told, key=lambda each: each.cost_ns, default=None)


def behind_a_function(analysis: Analysis, one: Behind, used: Sequence[Finding]) -> Finding:
    """Return the finding about the function that blocked others most.

    `used` are the findings about GILs that threads use up; this one tells of them instead.
    """
    name = f"`{printable(function_of(one.frame, analysis.process)[1])}`"
    names = list(dict.fromkeys(map(role, one.threads)))
    # Of other holds it is not known what ran in them.
    which, or_more = (" that another thread asked to end", " or more") if one.ran else ("", "")
    or_more *= one.blocked_ns < 0.99 * analysis.wait_ns
    of_it = (
        f"it held for {duration(one.held_ns)} in {number(one.holds, 'hold')}{which}, in {listed(names)};"
        f" most of the waiting happened{at_place(one.stack)}"
    )
    if one.off_core_ns >= LACKING * one.blocked_ns:
        of_it += f"; for {share(one.off_core_ns, one.blocked_ns)} of that waiting, the function's thread had no core"
    during = f"while {name} ran with the GIL" if one.ran else f"in holds that ended in {name}"
    waited_for = [gil for gil in analysis.gils if gil.waits.count]
    if len(waited_for) == 1:
        which_gil, sharers = waited_for[0].name, f"{number(waited_for[0].threads, 'thread')} shared it"
    else:  # a function of several interpreters may run at several GILs, and no number of threads shares one of them
        which_gil, sharers = "the same GIL", ""
    shared = "; ".join(two.fact for two in used) or sharers
    if one.lacked_cores:
        shared = "; ".join(filter(None, [shared, _NO_CORE]))
    elsewhere = f"or run it elsewhere: {another_gil(analysis.process)}{'; more threads do not help' * bool(used)}"
    if one.ran:
        causes = ": ".join(filter(None, [f"every thread that needs {which_gil} meanwhile waits", shared]))
        advice = f"make {name} shorter, let its calls release the GIL, {elsewhere}"
    elif pickles(one.stack):
        causes = "; ".join(filter(None, [shared, "such a hold pickles what goes to another process"]))
        advice = less_pickling()
    else:
        unknown = "the trace does not show what such a hold ran before, because no thread requested its end"
        causes = "; ".join(filter(None, [shared, unknown]))
        advice = f"check what runs before {name} releases the GIL, and make that shorter, {elsewhere}"
    if one.lacked_cores:  # shorter code waits for a core as long as before
        advice = MORE_CORES
    return Finding(
        kind="behind-a-function",
        weight="problem",
        fact=f"{share(one.blocked_ns, analysis.wait_ns)}{or_more} of all waiting for the GIL, {duration(one.blocked_ns)}, happened {during}; {of_it}",
        cause=causes,
        advice=advice,
        cost_ns=one.blocked_ns - one.off_core_ns,
        threads=tuple(names),
        frame=one.frame,
    )
