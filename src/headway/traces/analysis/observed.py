"""A trace as the search for stalls reads it: the events and stacks of each thread, and the evidence from outside."""

from collections import defaultdict
from functools import cached_property
from typing import Final, final

from headway.traces.analysis.accounts import Accounts
from headway.traces.analysis.thread_events import EventsByThread, ThreadEvents
from headway.traces.calls import Call, call_at
from headway.traces.loops import Home, home_at
from headway.traces.model import Frame, Sample, Trace
from headway.traces.sources import edited

__all__ = ["Observed"]

_WAITS: Final = (Call.SLEEP, Call.LOCK, Call.RECEIVE, Call.SEND, Call.POLL)


@final
class Observed:
    """The threads of one trace; what was looked up once is kept."""

    def __init__(self, trace: Trace) -> None:
        """Take a trace of a process with a GIL."""
        self.trace = trace
        self._homes: dict[int, Home | None] = {0: None}
        self._stacks: dict[int, tuple[Frame, ...]] = {}
        self._resting: dict[int, bool] = {}
        self._own: dict[int, ThreadEvents] = {}
        self._samples: dict[int, list[Sample]] = defaultdict(list)
        for sample in trace.evidence.samples:
            self._samples[sample.tid].append(sample)
        self.accounts = Accounts(trace.evidence.core_times, self.of)

    @cached_property
    def changed(self) -> frozenset[str]:
        """The files of source that are not those of the trace any more."""
        return edited(self.trace)

    @cached_property
    def _events(self) -> EventsByThread:
        return EventsByThread(self.trace)

    def of(self, thread: int) -> ThreadEvents:
        """Return the events of the thread with this index."""
        if thread not in self._own:
            self._own[thread] = ThreadEvents(self._events.of(thread), thread, self.rests)
        return self._own[thread]

    def home(self, stack: int) -> Home | None:
        """Return the home at which a thread is that waits at this stack; None if it is at none."""
        if stack not in self._homes:
            self._homes[stack] = home_at(self.stack(stack))
        return self._homes[stack]

    def stack(self, stack: int) -> tuple[Frame, ...]:
        """Return a stack, innermost frame first."""
        if stack not in self._stacks:
            self._stacks[stack] = self.trace.stack(stack)
        return self._stacks[stack]

    def waits_at(self, frames: tuple[Frame, ...]) -> bool:
        """Tell whether the innermost frame of a stack makes a call that waits."""
        return bool(frames) and call_at(frames[0], self.changed) in _WAITS

    def rests(self, stack: int) -> bool:
        """Tell whether a thread that releases the GIL at a stack is at a home, or in a call that waits."""
        if stack not in self._resting:
            self._resting[stack] = self.home(stack) is not None or self.waits_at(self.stack(stack))
        return self._resting[stack]

    def seen(self, thread: int, since_ns: int, until_ns: int) -> list[Sample]:
        """Return the samples of a thread's stack within a time."""
        tid = self.trace.threads[thread].tid
        return [one for one in self._samples.get(tid, ()) if since_ns <= one.time_ns <= until_ns]

    def sampled_ns(self, tid: int) -> list[int]:
        """Return the times at which samples of a thread's stack were taken, in their order."""
        return sorted(one.time_ns for one in self._samples.get(tid, ()))

    def stopped_ns(self, since_ns: int, until_ns: int) -> tuple[int, int]:
        """Return for how long the process was probably stopped within a time, and at most: looks are some time apart."""
        probable_ns = most_ns = 0
        for one in self.trace.evidence.stopped:
            begun_ns, over_ns = (one.running_ns + one.since_ns) // 2, (one.until_ns + one.runs_ns) // 2
            probable_ns += max(0, min(over_ns, until_ns) - max(begun_ns, since_ns))
            most_ns += max(0, min(one.runs_ns, until_ns) - max(one.running_ns, since_ns))
        return probable_ns, most_ns if probable_ns else 0

    def is_collecting(self, tid: int, time_ns: int) -> bool:
        """Tell whether a thread collects garbage at a time."""
        return any(one.tid == tid and one.start_ns <= time_ns <= one.end_ns for one in self.trace.evidence.collections)

    def collected_ns(self, tid: int, since_ns: int, until_ns: int) -> int:
        """Return the time for which a thread collected garbage."""
        return sum(
            max(0, min(one.end_ns, until_ns) - max(one.start_ns, since_ns))
            for one in self.trace.evidence.collections
            if one.tid == tid
        )
