"""Compares a trace with the log of event_oracle.c, event by event.

The log has, for each thread, its calls that acquire or release the GIL, each with the time before and after it. The trace
must have exactly one event of that thread for each, in this order, between these two times. The times come from two
clocks that agree to within `CLOCKS_NS` (native/base/ticks.h). All else is compared by order and by intervals, so that a
thread may lose its core anywhere.
"""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from headway.traces.analysis.blame import blame, meet
from headway.traces.analysis.intervals import recorded
from headway.traces.export.parks import parks
from headway.traces.model import Flag, Kind

RELEASE, ACQUIRE, SWAP, MARK, WINDOW, LOCK, UNLOCK, FORK = range(1, 9)  # as in event_oracle.c
CLOCKS_NS = 1000
PREEMPTED_NS = 50_000  # a thread that is back so soon after a request was preempted: docs/internals/recorder.md
SHARE = 0.01
AT_ONCE_NS = 20_000  # in a call that acquires, on the way to its wait
QUIET_RELEASES = 4096  # after so many without a wait, a wait for the GIL's mutex is not seen (recorder.md)
FEW = 0.1  # of the calls, in which the thread may have been kept from that way, as by an interrupt
CALLERS = ("turning", "foreign", "handed", "interpreters")  # of event_oracle_program.py
EVER_NS = 1 << 62
CALL = np.dtype(
    {
        "names": ["before_ns", "after_ns", "kind", "gil", "to", "framed", "slept", "pushed", "makes"],
        "formats": ["<i8", "<i8", *["<u2"] * 6, "<u4"],
    }
)
_OF_TURNS = [Kind.WAIT, Kind.ACQUIRE, Kind.RELEASE]


@dataclass(frozen=True)
class Book:
    """The calls of one thread, in windows: in between, the thread may do other things."""

    tid: int
    name: str
    windows: list
    forks: np.ndarray
    """When this thread forked: any thread may have had to wait for that."""


@dataclass
class Tally:
    """The result: the number of things that were compared, and of those that were wrong."""

    events: int = 0
    waits: int = 0
    missing: int = 0
    extra: int = 0
    certain_ns: int = 0
    """The time in calls in which another thread held for certain; only of calls in which the thread never lost its core."""
    told_ns: int = 0
    """The part of it that the trace has as waiting."""
    calls: int = 0
    """The calls that have such a time."""
    short: int = 0
    """Those of them of which the trace has less than it must."""
    early: list = field(default_factory=list)
    """How long before its call each wait began that must not, where the recorder cannot know that: up to CPython 3.12."""
    wrong: list = field(default_factory=list)

    def check(self, right, said):
        """Note a fault for each thing that is not right; `said` tells what it is, from its index."""
        for index in np.flatnonzero(~np.atleast_1d(right)):
            self.wrong.append(said(index))

    def told(self, certain_ns, told_ns):
        """Add the time for which the thread waited for certain, and what of it is told, call by call."""
        self.certain_ns += int(certain_ns.sum())
        self.told_ns += int(told_ns.sum())
        self.calls += int((certain_ns > 0).sum())
        self.short += int((told_ns < (1 - SHARE) * certain_ns - AT_ONCE_NS).sum())

    def faults(self):
        """Return the faults, in words; the first few of them."""
        found = [f"{self.missing} events missing"] * (self.missing > 0) + [f"{self.extra} too many"] * (self.extra > 0)
        if len(self.early) > 2 + FEW * self.waits:
            found.append(f"{len(self.early)} of {self.waits} waits began before their calls")
        if self.short > 2 + FEW * self.calls:
            found.append(f"waiting missing in {self.short} of {self.calls} calls")
        return found + self.wrong[:5] + [f"{len(self.wrong)} faults"] * (len(self.wrong) > 5)


def read_books(path):
    """Return the books of a log, also of a process that was killed."""
    data = np.memmap(path, np.uint8, mode="r")
    _, room, count, _ = data[:32].view("<i8")
    books = []
    for number in range(int(count)):
        at = 4096 + number * (64 + int(room) * CALL.itemsize)
        tid, calls = data[at : at + 16].view("<i8")
        name = data[at + 16 : at + 64].tobytes().split(b"\0")[0].decode()
        found = np.array(data[at + 64 : at + 64 + int(calls) * CALL.itemsize].view(CALL))
        forks = found[found["kind"] == FORK]
        found = found[found["kind"] != FORK]
        windows = [one[one["kind"] != WINDOW] for one in np.split(found, np.flatnonzero(found["kind"] == WINDOW))]
        books.append(Book(int(tid), name, [one for one in windows if len(one)], forks))
    return books


def cut(books, since_ns, until_ns):
    """Return the books with the calls that begin and end within these times only."""
    inside = [
        [one[(one["before_ns"] >= since_ns) & (one["after_ns"] <= until_ns)] for one in book.windows] for book in books
    ]
    return [
        Book(book.tid, book.name, [one for one in windows if len(one)], book.forks)
        for book, windows in zip(books, inside, strict=True)
    ]


def held(books):
    """Return when each thread held each of the oracle's GILs for certain: {gil: {tid: [[start, end], ...]}}."""
    spans: dict = {}
    for book in books:
        for window in book.windows:
            for call, after in pairwise(window):
                if call["kind"] in (ACQUIRE, SWAP) and after["kind"] in (RELEASE, SWAP):
                    mine = spans.setdefault(int(call["to"]), {}).setdefault(book.tid, [])
                    mine.append([int(call["after_ns"]), int(after["before_ns"])])
    return {gil: {tid: np.array(one) for tid, one in ones.items()} for gil, ones in spans.items()}


def time_within(spans):
    """Return a function from starts and ends to how much of each lies within the spans, which do not overlap."""
    spans = spans[spans[:, 0].argsort()]
    assert (spans[1:, 0] >= spans[:-1, 1]).all(), "the oracle's threads hold one GIL at a time"
    at = spans.ravel()
    passed_ns = np.repeat(np.concatenate([[0], np.cumsum(spans[:, 1] - spans[:, 0])]), 2)[1:-1]
    return lambda start_ns, end_ns: np.interp(end_ns, at, passed_ns) - np.interp(start_ns, at, passed_ns)


def _expected(window):
    """Return the events that the calls of a window make: the calls, the kinds, and the GILs."""
    call = np.repeat(np.arange(len(window)), np.where(window["kind"] == SWAP, 2, 1))
    second = np.append(False, call[1:] == call[:-1])
    kind = window["kind"][call]
    acquires = (kind == ACQUIRE) | second
    gil = np.where(acquires, window["to"][call], window["gil"][call])
    return call, np.where(acquires, Kind.ACQUIRE, Kind.RELEASE), gil


def _aligned(tally, kinds, gils, fits, first_ns, last_ns, events):
    """Return the pairs of expected and recorded events; count those without the other one."""
    time_ns = events["time_ns"]
    if (
        len(kinds) == len(events)
        and (kinds == events["kind"]).all()
        and ((time_ns >= first_ns) & (time_ns <= last_ns)).all()
        and all(fits(gil, own) for gil, own in set(zip(gils.tolist(), events["gil"].tolist(), strict=True)))
    ):
        return np.arange(len(kinds)), np.arange(len(events))
    pairs, i, j = [], 0, 0
    while i < len(kinds) and j < len(events):
        if time_ns[j] < first_ns[i]:
            tally.extra, j = tally.extra + 1, j + 1
        elif time_ns[j] > last_ns[i]:
            tally.missing, i = tally.missing + 1, i + 1
        elif events["kind"][j] != kinds[i] or not fits(int(gils[i]), int(events["gil"][j])):
            tally.extra, j = tally.extra + 1, j + 1
        else:
            pairs.append((i, j))
            i, j = i + 1, j + 1
    tally.missing += len(kinds) - i
    tally.extra += len(events) - j
    both = np.array(pairs, int).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _in(intervals, thread, start_ns, end_ns):
    """Return which of these intervals of a thread are among the analysis's."""
    mine = intervals.thread == thread
    found = set(zip(intervals.start_ns[mine].tolist(), intervals.end_ns[mine].tolist(), strict=True))
    return np.array([one in found for one in zip(start_ns.tolist(), end_ns.tolist(), strict=True)], bool)


class _Comparison:
    """One trace beside the books of its process."""

    def __init__(self, trace, books, *, in_flight):
        self.trace, self.books, self.in_flight = trace, books, in_flight
        self.tally = Tally()
        self.held = held(books)
        self.gils = {}  # of the trace, by the oracle's number
        found = recorded(trace)
        self.holds, self.waits = found.holds, found.waits
        # A thread that acquires the GIL clears the request to the one that has released it.
        self.clears_requests = tuple(int(part) for part in trace.process.python.split(".")[:2]) < (3, 13)
        events = trace.events
        self.quiet = (events["kind"] == Kind.RELEASE).sum() >= QUIET_RELEASES
        self.request = events[events["kind"] == Kind.REQUEST]
        self.forks = np.concatenate([np.zeros(0, CALL), *(book.forks for book in books)])

    def fits(self, gil, recorded_gil):
        """Tell whether the trace's GIL is the oracle's: always the same one, and only number 0 is the main one."""
        mine = self.gils.setdefault(gil, recorded_gil)
        is_main = self.trace.gils[recorded_gil].main
        return mine == recorded_gil and is_main == (gil == 0)

    def events_of(self, book):
        """Return the thread's index in the trace, and its events that begin or end a hold or wait."""
        first_ns = book.windows[0]["before_ns"][0]
        found = [
            index
            for index, one in enumerate(self.trace.threads)
            if one.tid == book.tid and (one.end_ns is None or one.end_ns >= first_ns)
        ]
        if not found:
            return None, self.trace.events[:0]
        events = self.trace.events
        mine = events[(events["thread"] == found[0]) & np.isin(events["kind"], _OF_TURNS)]
        return found[0], mine

    def compare(self):
        """Compare all books."""
        for book in self.books:
            if not book.windows:
                continue
            index, events = self.events_of(book)
            for number, window in enumerate(book.windows):
                last = number == len(book.windows) - 1
                until_ns = EVER_NS if last and self.in_flight else window["after_ns"][-1] + CLOCKS_NS
                since_ns = window["before_ns"][0] - CLOCKS_NS
                some = np.flatnonzero((events["time_ns"] >= since_ns) & (events["time_ns"] <= until_ns))
                self.window(book, index, window, events[some], last and self.in_flight)
        self.blame()
        return self.tally

    def window(self, book, index, window, events, in_flight):
        """Compare one window with the thread's events in it."""
        tally = self.tally
        call, kinds, gils = _expected(window)
        turns = np.flatnonzero(events["kind"] != Kind.WAIT)
        if in_flight and len(turns) == len(kinds) + 1:
            turns = turns[:-1]
        first_ns, last_ns = window["before_ns"][call] - CLOCKS_NS, window["after_ns"][call] + CLOCKS_NS
        at, event = _aligned(tally, kinds, gils, self.fits, first_ns, last_ns, events[turns])
        event = turns[event]
        tally.events += len(at)
        if not len(at):
            return
        acquires = kinds[at] == Kind.ACQUIRE
        self.acquires(book, index, window, call[at[acquires]], events, event[acquires])
        self.hold_lengths(book, index, window, call[at], kinds[at], events[event])
        releases = events[event[~acquires]]
        if self.trace.process.has_stacks:
            frame = self.trace.stack_frame[releases["value"]]
            names = [i for i, one in enumerate(self.trace.frames) if one.function in CALLERS]
            right = np.where(window["framed"][call[at[~acquires]]], np.isin(frame, names), frame == 0)
            tally.check(right, lambda _: f"{book.name}: a release at a line that does not call the oracle")
        forced = releases[releases["flags"] & Flag.FORCED != 0]
        self.requests(book, index, forced)

    def requests(self, book, index, forced):
        """A forced release follows a request by another thread, in the same hold."""
        for one in forced:
            start_ns = self.holds.start_ns[(self.holds.thread == index) & (self.holds.end_ns == one["time_ns"])]
            asked = self.request[(self.request["gil"] == one["gil"]) & (self.request["thread"] != index)]
            mine = (asked["time_ns"] <= one["time_ns"]) & (asked["time_ns"] >= start_ns.min(initial=EVER_NS))
            self.tally.check(mine.any(), lambda _: f"{book.name}: a release was forced, and nobody asked")

    def hold_lengths(self, book, index, window, call, kinds, events):
        """A hold from an acquire to the next release is one of the analysis, of a length within the oracle's bounds."""
        first = np.flatnonzero((kinds[:-1] == Kind.ACQUIRE) & (kinds[1:] == Kind.RELEASE))
        before, after = window[call[first]], window[call[first + 1]]
        length_ns = events["time_ns"][first + 1] - events["time_ns"][first]
        right = length_ns >= after["before_ns"] - before["after_ns"] - 2 * CLOCKS_NS
        right &= length_ns <= after["after_ns"] - before["before_ns"] + 2 * CLOCKS_NS
        right &= _in(self.holds, index, events["time_ns"][first], events["time_ns"][first + 1])
        self.tally.check(right, lambda _: f"{book.name}: a hold is not as long as the oracle says")

    def acquires(self, book, index, window, call, events, event):
        """Compare the waits that lead to acquires."""
        tally, name = self.tally, book.name
        waits = np.flatnonzero(events["kind"] == Kind.WAIT)
        leads = np.isin(event - 1, waits) & (event > 0)
        # A wait in the window that leads to no acquire of the oracle's is one too many, but for one in flight.
        lost = set(waits.tolist()) - set((event[leads] - 1).tolist())
        lost -= {len(events) - 1, len(events) - 2} if self.in_flight else set()
        tally.extra += len(lost)
        calls = window[call]
        slept = (calls["slept"] > 0) & ~self.elsewhere(calls)
        tally.check(
            leads | ~slept, lambda _: f"{name}: the thread slept in a call that acquires, and no wait is recorded"
        )
        tally.waits += int(leads.sum())
        for one, at in zip(calls[leads], event[leads], strict=True):
            start_ns, end_ns = events["time_ns"][at - 1], events["time_ns"][at]
            within = one["before_ns"] - CLOCKS_NS <= start_ns <= end_ns
            # A preempted thread waits from its release on.
            released = events[at - 2] if at >= 2 and events["kind"][at - 2] == Kind.RELEASE else None
            preempted = released is not None and released["flags"] & Flag.FORCED and start_ns == released["time_ns"]
            early_ns = one["before_ns"] - start_ns
            if preempted and self.clears_requests and not within and not self.back_soon(window, one):
                tally.early.append(int(early_ns))
                continue
            tally.check(
                within or (preempted and self.back_soon(window, one)),
                lambda _, early_ns=early_ns: f"{name}: a wait began {early_ns} ns before the call",
            )
        start_ns, end_ns = events["time_ns"][event[leads] - 1], events["time_ns"][event[leads]]
        tally.check(_in(self.waits, index, start_ns, end_ns), lambda _: f"{name}: a wait is not one of the analysis")
        self.certain(book, calls, events, event, leads)

    def elsewhere(self, calls):
        """Return in which calls the thread may have slept without a wait that can be seen.

        It may have slept for a fork, or for the lock that guards the list of thread states. It may also have slept for the
        GIL's mutex, at which the recorder does not look once the GIL was released often without a wait for it.
        """
        found = (calls["makes"] > 0) | self.quiet
        for fork in self.forks:
            found |= (calls["before_ns"] <= fork["after_ns"]) & (calls["after_ns"] >= fork["before_ns"])
        return found

    @staticmethod
    def back_soon(window, call):
        """Tell whether the thread wanted the GIL again so soon after the call that released it that it may be preempted."""
        at = np.searchsorted(window["before_ns"], call["before_ns"])
        if call["kind"] == SWAP:  # which has just released another GIL, or the same one
            return True
        return at > 0 and call["before_ns"] - window["after_ns"][at - 1] < PREEMPTED_NS

    def certain(self, book, calls, events, event, leads):
        """Add up the time in calls in which another thread held for certain, and the part that is told as waiting."""
        sure = (calls["pushed"] == 0) & ~self.elsewhere(calls)
        for gil, by_thread in self.held.items():
            others = [spans for tid, spans in by_thread.items() if tid != book.tid]
            mine = sure & (calls["to"] == gil)
            if not others or not mine.any():
                continue
            within = time_within(np.concatenate(others))
            some = calls[mine]
            certain_ns = within(some["before_ns"], some["after_ns"])
            end_ns = events["time_ns"][event[mine]]
            start_ns = np.where(leads[mine], events["time_ns"][event[mine] - 1], end_ns)
            self.tally.told(certain_ns, within(np.maximum(start_ns, some["before_ns"]), end_ns))

    def blame(self):
        """A thread that held for certain while another one waited has at least that much of the blame."""
        for gil, by_thread in self.held.items():
            number = self.gils.get(gil)
            if number is None:
                continue
            holds = self.holds.chosen(self.holds.gil == number)
            waits = self.waits.chosen(self.waits.gil == number)
            found = blame(number, holds, waits, meet(holds, waits), len(self.trace.threads))
            for column, holder in enumerate(found.holders.tolist()):
                tid = self.trace.threads[holder].tid
                spans = by_thread.get(tid)
                if spans is None:
                    continue
                within = time_within(spans)
                for row, waiter in enumerate(found.waiters.tolist()):
                    own = waits.thread == waiter
                    least_ns = within(waits.start_ns[own], waits.end_ns[own]).sum()
                    slack_ns = 2 * CLOCKS_NS * int(own.sum())
                    right = found.held_ns[row, column] >= least_ns - slack_ns and (
                        holder != waiter or least_ns <= slack_ns
                    )
                    self.tally.check(right, lambda _, tid=tid: f"too little blame for thread {tid}")


def compare(trace, books, *, in_flight=False):
    """Compare a trace with the books of its process; return the tally.

    Args:
        trace: The trace.
        books: The books, without marks.
        in_flight: The process was killed, or goes on: of each thread, one more event may follow the last call.
    """
    return _Comparison(trace, books, in_flight=in_flight).compare()


def compare_marks(trace, books):
    """Compare a trace with books of marks: threads compute, and only a request ends a hold. Return the tally."""
    tally = Tally()
    found = recorded(trace)
    holds, waits = found.holds, found.waits
    spans = sorted(
        (int(call["before_ns"]), int(call["after_ns"]), book.tid)
        for book in books
        for window in book.windows
        for call in window
    )
    index = {one.tid: number for number, one in enumerate(trace.threads)}
    seen = set()
    for one, (start_ns, end_ns, tid) in enumerate(spans):
        mine = index.get(tid, -1)
        for at_ns in {start_ns, end_ns}:
            here = (holds.start_ns - CLOCKS_NS <= at_ns) & (at_ns <= holds.end_ns + CLOCKS_NS)
            tally.check(
                (holds.thread[here] == mine).any(), lambda _: "a thread was at a mark, and did not hold the GIL"
            )
        seen.add(tid)
        if one + 1 == len(spans):
            break
        # Between the last mark of this thread and the first one of the next, one releases and the other acquires.
        next_ns, _, next_tid = spans[one + 1]
        other = index.get(next_tid, -1)
        released = (holds.thread == mine) & (holds.end_ns >= end_ns - CLOCKS_NS) & (holds.end_ns <= next_ns + CLOCKS_NS)
        acquired = (
            (holds.thread == other) & (holds.start_ns >= end_ns - CLOCKS_NS) & (holds.start_ns <= next_ns + CLOCKS_NS)
        )
        tally.events += 2
        tally.missing += int(not released.any()) + int(not acquired.any())
        if next_tid in seen:  # it computes all the time, so it waited while this thread was at its marks
            own = (waits.thread == other) & (waits.end_ns >= start_ns) & (waits.start_ns <= end_ns)
            overlap_ns = np.minimum(waits.end_ns[own], end_ns) - np.maximum(waits.start_ns[own], start_ns)
            tally.waits += int(own.sum())
            tally.told(np.array([end_ns - start_ns]), overlap_ns.sum())
    inside = np.zeros(len(holds), bool)
    for book in books:
        for window in book.windows:
            first_ns, last_ns = window["before_ns"][0], window["after_ns"][-1]
            inside |= (holds.thread == index.get(book.tid, -1)) & (holds.start_ns > first_ns) & (holds.end_ns < last_ns)
    tally.check(holds.forced[inside], lambda _: "a thread that only computes was not forced to release the GIL")
    return tally


def compare_locks(trace, books, kind, function):
    """Compare a trace of a free-threaded interpreter with books of a lock; return the tally.

    A call that wants the lock has one wait at most, and one if another thread had the lock meanwhile; only a call that is
    woken in vain and then gets the lock while it spins may have two (docs/internals/recorder.md).
    """
    tally = Tally()
    found = parks(trace)
    spans: dict = {}
    for book in books:
        for window in book.windows:
            lock, unlock = window[window["kind"] == LOCK], window[window["kind"] == UNLOCK]
            spans[book.tid] = np.stack([lock["after_ns"], unlock["before_ns"]], axis=1)
    index = {one.tid: number for number, one in enumerate(trace.threads)}
    names = [i for i, one in enumerate(trace.frames) if one.function == function]
    for book in books:
        (window,) = book.windows
        others = time_within(np.concatenate([one for tid, one in spans.items() if tid != book.tid]))
        mine = found.thread == index.get(book.tid, -1)
        mine &= (found.start_ns >= window["before_ns"][0] - CLOCKS_NS) & (
            found.end_ns <= window["after_ns"][-1] + CLOCKS_NS
        )
        of_lock = mine & (found.kind == kind)
        start_ns, end_ns = found.start_ns[of_lock], found.end_ns[of_lock]
        lock = window[window["kind"] == LOCK]
        at = np.maximum(np.searchsorted(lock["before_ns"] - CLOCKS_NS, start_ns, "right") - 1, 0)
        inside = (start_ns >= lock["before_ns"][at] - CLOCKS_NS) & (end_ns <= lock["after_ns"][at] + CLOCKS_NS)
        tally.extra += int((~inside).sum())
        count = np.bincount(at[inside], minlength=len(lock))
        tally.events += int((count > 0).sum())
        tally.waits += int(count.sum())
        tally.check(count <= 2, lambda i: "a call waits more than twice")
        # In a call that slept, or in which the lock was another's for long enough, there is a wait.
        certain_ns = others(lock["before_ns"], lock["after_ns"])
        sure = lock["pushed"] == 0
        tally.missing += int(((lock["slept"] > 0) & (certain_ns > AT_ONCE_NS) & (count == 0)).sum())
        told_ns = others(np.maximum(start_ns, lock["before_ns"][at]), np.maximum(end_ns, lock["before_ns"][at]))
        told_ns = np.bincount(at[inside], weights=told_ns[inside], minlength=len(lock))
        tally.told(certain_ns[sure], told_ns[sure])
        right = np.isin(trace.stack_frame[found.stack[of_lock]], names)
        tally.check(right, lambda _: f"a wait at another line than in {function}")
    return tally
