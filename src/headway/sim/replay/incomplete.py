"""Tells what a trace lacks of the part that is replayed: events that had no room, and damaged bytes of the file."""

from collections import Counter
from collections.abc import Iterator

from headway.printable import printable
from headway.sim.replay.learn import Model
from headway.traces.analysis.words import number, role, share

__all__ = ["incomplete"]

_FELT = 0.01
"""A role whose events are missing for a smaller share of its time has nearly all of its turns: no interval is as narrow."""

_SO = "the figures of the trace and the model lack what happened then"


def incomplete(model: Model) -> Iterator[str]:
    """Yield a sentence for each role of which events are missing, and for losses whose threads and times are not known."""
    loss, process = model.trace.loss, model.trace.process
    told = list(_missing(model))
    yield from told
    if loss.damaged_bytes and not told:
        yield (
            f"{number(loss.damaged_bytes, 'byte')} of the trace are damaged or missing: the figures of the trace and the model lack what"
            " stood there"
        )
    if loss.unseen_threads:
        yield f"{number(loss.unseen_threads, 'thread')} of the program left nothing in the trace, and the model does not have them"
    elif loss.unplaced_events and not process.simulated:  # a simulated run's trace ends before these
        yield f"{number(loss.unplaced_events, 'event')} had no room in the trace, of threads that are not known: {_SO}"


def _missing(model: Model) -> Iterator[str]:
    trace, since_ns, until_ns = model.trace, model.seen.since_ns, model.seen.until_ns
    roles = {one.thread: one.role for one in model.actors}
    missing_ns = Counter[int]()
    for gap in trace.gaps:
        missing_ns[gap.thread] += max(0, min(gap.until_ns, until_ns) - max(gap.since_ns, since_ns))
    for thread in missing_ns:
        roles.setdefault(thread, role(printable(trace.threads[thread].name)) or "a thread")
    why = "there was no room for them" if trace.loss.dropped_events else "the trace is damaged"
    for name in dict.fromkeys(roles.values()):
        threads = [thread for thread, own in roles.items() if own == name]
        lacks_ns, whole_ns = sum(missing_ns[one] for one in threads), len(threads) * (until_ns - since_ns)
        if lacks_ns >= _FELT * whole_ns:
            yield (
                f"events of {name} are missing for {share(lacks_ns, whole_ns)} of the time that is replayed, since {why}: {_SO}"
            )
