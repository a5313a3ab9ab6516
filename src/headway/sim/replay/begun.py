"""Tells where holds that a change shortens began, if that is elsewhere: a line is only where they ended."""

from collections.abc import Iterator

import numpy as np

from headway.printable import printable
from headway.sim.replay.change import Change, matches
from headway.sim.replay.learn import Model
from headway.traces.analysis.hotspots import begun_at
from headway.traces.analysis.late import late
from headway.traces.analysis.words import place

__all__ = ["begun_elsewhere"]

_MOST = 0.5
"""The least share of the time of a line's holds that tells where they began."""


def begun_elsewhere(model: Model, change: Change) -> Iterator[str]:
    """Yield, for each line that is shortened, where most of its holds began, if that is in another file.

    A preempted hold shows the line that it ran, unless it was in a call of C, which answers a request at its end: a line
    after that call is then where the hold ends, as after the unpickling in a pool's thread. A hold that ended by itself
    shows no more.
    """
    trace, holds = model.trace, model.seen.holds
    interval_ns = np.full(len(holds), model.seen.interval_ns)
    is_late = late(holds, interval_ns, policy=bool(trace.process.policy))
    begun = begun_at(holds)
    for one in change.shorten:
        frames = matches(model, one)
        there = frames[trace.stack_frame[holds.stack]] & (holds.stack > 0)
        unseen = there & (is_late | ~holds.forced)
        begun_ns = np.bincount(begun[unseen], weights=holds.length_ns[unseen], minlength=1)
        own = {frame.filename for frame, found in zip(trace.frames, frames.tolist(), strict=True) if found}
        for stack in np.flatnonzero(begun_ns).tolist():
            if not stack or trace.frames[trace.stack_frame[stack]].filename in own:
                begun_ns[stack] = 0  # it is not known, or it is here
        if begun_ns.sum() >= _MOST * holds.length_ns[there].sum() > 0:
            yield (
                f"{printable(one.filename)}:{one.line} is where the holds that are shortened ended: they began after "
                f"{place(trace.frames[trace.stack_frame[int(begun_ns.argmax())]])}, and their time may be spent anywhere in between"
            )
