"""The holds at whose end a GIL was handed to a waiter: their lengths, and the line at which most of them ended."""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.traces.analysis.intervals import Holds
from headway.traces.analysis.threads import Distribution, distribution
from headway.traces.model import Frame, Trace

__all__ = ["Handed", "handed"]


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
    """

    holds: Distribution
    voluntary: int
    stack: tuple[Frame, ...]
    at_line: int


def handed(trace: Trace, holds: Holds, before: NDArray[np.integer]) -> Handed:
    """Return the holds of a GIL that ended with a waiter; `before` has for each hand-over the hold that ended."""
    mine = holds.chosen(np.unique(before))
    by_choice = mine.stack[~mine.forced]
    count = np.bincount(by_choice, minlength=len(trace.stack_frame))
    of_line = np.bincount(trace.stack_frame, weights=count, minlength=len(trace.frames)).astype(np.int64)
    of_line[0] = 0  # the unknown line
    line = int(of_line.argmax())
    at_line = int(of_line[line])
    stack = int(np.where(trace.stack_frame == line, count, 0).argmax())
    return Handed(distribution(mine.length_ns), len(by_choice), trace.stack(stack) if at_line else (), at_line)
