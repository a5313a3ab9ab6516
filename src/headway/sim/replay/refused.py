"""Says why a trace gives no model."""

import numpy as np

from headway.errors import ScenarioError
from headway.printable import printable
from headway.traces.analysis.intervals import recorded
from headway.traces.analysis.words import duration
from headway.traces.model import Trace

__all__ = ["no_gil", "refused"]

_LEAST_NS = 1_000_000_000
"""The length of a trace that the hint asks for: a trace that is as long is not too short."""


def no_gil() -> ScenarioError:
    """Return the error for a trace in which no GIL was used."""
    return ScenarioError(
        "the trace shows no GIL, so nothing can be predicted from it",
        hint="trace a program that runs on an interpreter with a GIL",
    )


def refused(trace: Trace, shown_ns: int) -> ScenarioError:
    """Return the error for a trace that shows too little, or only a GIL that imports switched on for a moment.

    Args:
        trace: The trace.
        shown_ns: The length of the part that could be replayed.
    """
    found = recorded(trace)
    if not len(found.holds):
        return no_gil()
    length_ns = trace.end_ns - trace.start_ns
    if length_ns < _LEAST_NS:
        shows = f"{duration(shown_ns)} of it show" if shown_ns > 1 else "no part of it shows"
        return ScenarioError(
            f"the trace is too short for a prediction: {shows} the program at work",
            hint="record for at least a second",
        )
    threads = np.union1d(found.holds.thread, found.waits.thread).tolist()
    if len(threads) == 1:
        name = printable(trace.threads[threads[0]].name) or f"thread {trace.threads[threads[0]].tid}"
        return ScenarioError(
            f"only {name} used the GIL in the {duration(length_ns)} of the trace, and no thread waited for it, so there is"
            " nothing to predict",
            hint="trace a program with several threads that need the GIL",
        )
    waited = f"waited {duration(int(found.waits.length_ns.sum()))}" if len(found.waits) else "did not wait"
    part = f"only {duration(shown_ns)}" if shown_ns > 1 else "no part"
    return ScenarioError(
        f"{part} of the {duration(length_ns)} of the trace can be replayed (threads {waited} for the GIL), too little for a"
        " prediction",
        hint="record while the program is at work",
    )
