"""The holds at whose end a GIL was handed to a waiter: their lengths, and the line at which most of them ended."""

import itertools
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.traces.analysis.intervals import Holds
from headway.traces.analysis.threads import Distribution, distribution
from headway.traces.libraries import is_of_threading
from headway.traces.model import Frame, Trace

__all__ = ["Handed", "handed", "starts_a_thread"]


@final
@dataclass(frozen=True)
class Handed:
    """The holds of one GIL at whose end a thread waited for it.

    Other holds hand nothing on, such as those of the imports, which end thousands of times before the second thread starts.

    Attributes:
        holds: The lengths of these holds.
        voluntary: The number of them that the holder ended by itself.
        stack: The stack at the line with most of these, innermost frame first; () if no line is known.
        at_line: The number of these at that line.
        of_threads: The number of these with which a thread ended, or waited for the start of another one.
        starts: The stack at which most threads were started, innermost frame first; () if none or no such stack is known.
    """

    holds: Distribution
    voluntary: int
    stack: tuple[Frame, ...]
    at_line: int
    of_threads: int
    starts: tuple[Frame, ...]


def handed(trace: Trace, holds: Holds, before: NDArray[np.integer]) -> Handed:
    """Return the holds of a GIL that ended with a waiter; `before` has for each hand-over the hold that ended."""
    which = np.unique(before)
    mine = holds.chosen(which)
    by_choice = mine.stack[~mine.forced]
    count = np.bincount(by_choice, minlength=len(trace.stack_frame))
    of_line = np.bincount(trace.stack_frame, weights=count, minlength=len(trace.frames)).astype(np.int64)
    of_line[0] = 0  # the unknown line
    line = int(of_line.argmax())
    at_line = int(of_line[line])
    stack = int(np.where(trace.stack_frame == line, count, 0).argmax())
    begun = [int(one) for one in np.unique(holds.stack) if starts_a_thread(trace, int(one))]
    ends = _is_last(trace, holds)[which] & ~mine.forced
    starts = np.isin(holds.stack, begun)
    most = max(begun, key=lambda one: int(np.count_nonzero(holds.stack == one)), default=0)
    return Handed(
        holds=distribution(mine.length_ns),
        voluntary=len(by_choice),
        stack=trace.stack(stack) if at_line else (),
        at_line=at_line,
        of_threads=int(np.count_nonzero(ends | (starts[which] & ~mine.forced))),
        starts=trace.stack(most) if begun else (),
    )


def _is_last(trace: Trace, holds: Holds) -> NDArray[np.bool_]:
    """Tell of each hold whether its thread ended after it, and had no further one."""
    threads, from_end = np.unique(holds.thread[::-1], return_index=True)
    ended = np.array([trace.threads[one].end_ns is not None for one in threads], dtype=bool)
    found = np.zeros(len(holds), dtype=bool)
    found[len(holds) - 1 - from_end[ended]] = True
    return found


def starts_a_thread(trace: Trace, stack: int) -> bool:
    """Tell whether a thread waits at a stack for the start of another one: `Thread.start()` returns when that one runs."""
    if not is_of_threading(trace.frames[trace.stack_frame[stack]]):
        return False
    of_module = itertools.takewhile(is_of_threading, trace.stack(stack))
    return any(one.function in ("start", "Thread.start") for one in of_module)
