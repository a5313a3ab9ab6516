"""Says why a trace gives no model."""

import numpy as np

from headway.errors import ScenarioError
from headway.printable import printable
from headway.traces.analysis.intervals import Holds, recorded
from headway.traces.analysis.words import duration
from headway.traces.model import Trace
from headway.traces.overview import Overview

__all__ = ["no_gil", "refused", "too_many"]

_LEAST_NS = 1_000_000_000
"""The length of a trace that the hint asks for: a trace that is as long is not too short."""

_MOST_THREADS = 2000
"""The simulation of more threads takes minutes, and so many are mostly started for one task each, which no model replays."""


def no_gil(trace: Trace) -> ScenarioError:
    """Return the error for a trace in which no GIL was used, or of which nothing can be read."""
    if not len(trace.events) and not trace.loss.whole:
        return ScenarioError(
            "no event of the trace could be read, so nothing can be predicted from it",
            hint="record again; `headway report` tells what the trace lacks",
        )
    return ScenarioError(
        "the trace shows no GIL, so nothing can be predicted from it",
        hint="trace a program that runs on an interpreter with a GIL",
    )


def refused(trace: Trace, whole: Overview, shown_ns: int) -> ScenarioError:
    """Return the error for a trace that shows too little, or only a GIL that imports switched on for a moment.

    Args:
        trace: The trace, or a part of it.
        whole: The overview of the whole.
        shown_ns: The length of the part that could be replayed.
    """
    if not len(recorded(trace).holds):
        return no_gil(trace)
    length_ns = whole.end_ns - whole.start_ns
    if length_ns < _LEAST_NS:
        shows = f"{duration(shown_ns)} of it show" if shown_ns > 1 else "no part of it shows"
        return ScenarioError(
            f"the trace is too short for a prediction: {shows} the program at work",
            hint="record for at least a second",
        )
    used = {serial for waited_ns in whole.waited_ns.values() for serial in waited_ns}
    threads = [one for one in trace.threads if one.serial in used]
    if len(threads) == 1:
        name = printable(threads[0].name) or f"thread {threads[0].tid}"
        return ScenarioError(
            f"only {name} used the GIL in the {duration(length_ns)} of the trace, and no thread waited for it, so there is"
            " nothing to predict",
            hint="trace a program with several threads that need the GIL",
        )
    waited_ns = sum(one for waited_ns in whole.waited_ns.values() for one in waited_ns.values())
    waited = f"waited {duration(waited_ns)}" if waited_ns else "did not wait"
    part = f"only {duration(shown_ns)}" if shown_ns > 1 else "no part"
    return ScenarioError(
        f"{part} of the {duration(length_ns)} of the trace can be replayed (threads {waited} for the GIL), too little for a"
        " prediction",
        hint="record while the program is at work",
    )


def too_many(holds: Holds, gil: int, since_ns: int, until_ns: int) -> ScenarioError | None:
    """Return the error if more threads had a GIL between two times than can be replayed; else None."""
    within = (holds.gil == gil) & (holds.start_ns < until_ns) & (holds.end_ns > since_ns)
    count = len(np.unique(holds.thread[within]))
    if count <= _MOST_THREADS:
        return None
    return ScenarioError(
        f"{count:,} threads had the GIL in the {duration(until_ns - since_ns)} that would be replayed; a prediction is for at"
        f" most {_MOST_THREADS:,}",
        hint="record a program whose threads live on, such as those of a pool; `headway report` shows any number",
    )
