"""Tells which waits are for a lock: it has no order, as a queue has one, and whoever holds it may release it."""

import itertools
import re
from collections.abc import Collection

from headway.printable import printable
from headway.sim.steps import awaits_a_lock
from headway.traces.calls import takes_a_lock
from headway.traces.libraries import awaits_others, is_of_threading
from headway.traces.model import Frame, Trace
from headway.traces.sources import edited, source_line

__all__ = ["lock_lines"]

_LOGGING = "/logging/__init__.py"
"""Before CPython 3.13, `Handler.handle` takes the handler's lock by a call, and releases it itself."""
_WITH = re.compile(r"\s*with\b")


def lock_lines(trace: Trace, stacks_in: Collection[int]) -> dict[int, str]:
    """Return the line, for each of some stacks in which a `with` of the program or of a library awaits a lock.

    In a simulated program, it is the line of a step. That may be a semaphore or a condition's lock, too. Other lines
    that acquire a lock are left out: a lock that one thread acquires and another releases may be a signal, which has an
    order as a queue has.
    """
    stacks = {stack: trace.stack(stack) for stack in stacks_in if stack}
    takers = {stack: at for stack, frames in stacks.items() if (at := _taker(frames)) is not None}
    changed = edited(trace, {frame.filename for frame in takers.values()})
    return {
        stack: f"{printable(frame.filename)}:{frame.line}"
        for stack, frame in takers.items()
        if awaits_a_lock(trace, frame) or (frame.filename not in changed and _enters(stacks[stack], frame, changed))
    }


def _taker(stack: tuple[Frame, ...]) -> Frame | None:
    """Return the frame in which a thread waits, itself or in `threading` for it; None if a queue or a pool waits for it."""
    at = next(itertools.filterfalse(is_of_threading, stack), None)
    return None if at is None or awaits_others(at) else at


def _enters(stack: tuple[Frame, ...], at: Frame, changed: Collection[str]) -> bool:
    """Tell whether a thread awaits a lock at a `with` in this frame, itself or in `threading` for it."""
    if stack[0] == at and at.filename.endswith(_LOGGING) and at.function == "Handler.acquire":
        return True
    if _WITH.match(source_line(at.filename, at.line)) is None:
        return False
    if stack[0] == at:
        return takes_a_lock(at, changed)
    return stack[stack.index(at) - 1].function.rpartition(".")[2] in ("acquire", "__enter__")
