"""Figures of the whole of a trace, for a reader that has only a part of its events in memory.

`survey` goes through a file's events once, some at a time. It takes them as they are in the file: events that contradict
each other, which reader.py removes, are too few to change its figures.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from headway.traces import format as hwt
from headway.traces.mending import NEVER_NS, kind_table
from headway.traces.packed import AT_ONCE, event_counts

__all__ = ["PARTS", "Overview", "Survey", "survey"]

PARTS: Final = 20
"""The number of parts, equally long, into which a trace is divided."""
_Read = Callable[[Sequence[int]], tuple[NDArray[np.void], NDArray[np.int64]]]
"""Returns the events of chunks, and how many each has, by the chunks' indices."""
_TURNS = kind_table(hwt.WAIT, hwt.ACQUIRE, hwt.HOLD, hwt.RELEASE, hwt.EXIT)
_RELEASES = kind_table(hwt.RELEASE, hwt.HOLD)
_ACQUIRES = kind_table(hwt.ACQUIRE, hwt.HOLD)


@final
@dataclass(frozen=True, eq=False)
class Overview:
    """The whole of a trace in figures.

    Attributes:
        start_ns, end_ns: The beginning and the end of the trace.
        released: (PARTS, frames), int64: how often a GIL was released in each part of the trace, by the innermost frame.
        waited_ns: By GIL, and by the serial of each thread that used it, for how long the thread waited for it.
    """

    start_ns: int
    end_ns: int
    released: NDArray[np.int64]
    waited_ns: Mapping[int, Mapping[int, int]]


@final
@dataclass(eq=False)
class Survey:
    """The contents of a file's event chunks in figures; chunks are those that were given, in their order.

    Attributes:
        start_ns, end_ns: The beginning and the end of the trace.
        first_ns: The time of the first event of each chunk; NEVER_NS: the chunk has none.
        over_ns: The time of the first event of the next chunk of its thread; NEVER_NS: there is none.
        counts: The number of events of each chunk.
        stacks: (GIL, stack) as in the file, of the releases in `released`.
        released: (PARTS, stacks), int64: how often the GIL was released there.
        waited_ns: As in `Overview`.
        intervals: The changes of the main GIL's switch interval: when, and the new one in microseconds.
    """

    start_ns: int
    end_ns: int
    first_ns: NDArray[np.int64]
    over_ns: NDArray[np.int64]
    counts: NDArray[np.int64]
    stacks: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))
    released: NDArray[np.int64] = field(default_factory=lambda: np.zeros((PARTS, 0), dtype=np.int64))
    waited_ns: dict[int, dict[int, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    intervals: list[tuple[int, int]] = field(default_factory=list)

    def until_ns(self, since_ns: int, events: int) -> int:
        """Return a time by which at least so many events have happened since `since_ns`; NEVER_NS: there are fewer."""
        later = np.flatnonzero(self.first_ns >= since_ns)
        # A chunk's last event comes before the first one of its thread's next chunk.
        later = later[np.argsort(self.over_ns[later], kind="stable")]
        enough = np.flatnonzero(np.cumsum(self.counts[later]) >= events)
        return int(self.over_ns[later[enough[0]]]) if len(enough) else NEVER_NS

    def within(self, since_ns: int, until_ns: int) -> NDArray[np.bool_]:
        """Return a mask of the chunks that tell what happens in a part of the trace, and what is open at its beginning."""
        found: NDArray[np.bool_] = (self.first_ns <= until_ns) & (self.over_ns >= since_ns)
        return found

    def overview(
        self,
        stacks: Callable[[int, NDArray[np.uint32]], tuple[NDArray[np.uint32], int]],
        stack_frame: NDArray[np.int64],
        frames: int,
    ) -> Overview:
        """Return the overview of the trace.

        Args:
            stacks: Returns the indices of a GIL's stacks by their ids in the file (records.Tables.stacks).
            stack_frame: The innermost frame of each stack.
            frames: The number of frames.
        """
        released = np.zeros((frames, PARTS), dtype=np.int64)
        for gil in np.unique(self.stacks[:, 0]).tolist():
            mine = self.stacks[:, 0] == gil
            indices, _ = stacks(gil, self.stacks[mine, 1].astype(np.uint32))
            np.add.at(released, stack_frame[indices], self.released[:, mine].T)
        waited_ns = {gil: dict(of_gil) for gil, of_gil in self.waited_ns.items()}
        return Overview(self.start_ns, self.end_ns, released.T, waited_ns)


def survey(
    head: NDArray[np.void],
    read: _Read,
    start_ns: int,
    end_ns: int,
    latest_ns: int,
) -> Survey:
    """Go through all events of a file.

    Args:
        head: The headers of the event chunks (CHUNK_DTYPE), by owner and in the order in which they were taken.
        read: Returns the events of chunks, and how many each has, by their indices in `head`.
        start_ns: The beginning of the trace. Earlier events do not count.
        end_ns: Its end; later events do not count. 0: the time of its last event.
        latest_ns: A time beyond it is damage.
    """
    counts = event_counts(head)
    end_ns = end_ns or _last_ns(head, counts, read, (start_ns, latest_ns))
    found = Survey(start_ns, end_ns, np.full(len(head), NEVER_NS), np.full(len(head), NEVER_NS), counts)
    keys: list[NDArray[np.int64]] = []
    numbers: list[NDArray[np.int64]] = []
    for owner, chunks in _of_owners(head):
        waits_since: tuple[int, int] | None = None
        for at in range(0, len(chunks), AT_ONCE):
            events = _events(chunks[at : at + AT_ONCE], read, found.first_ns)
            events = events[(events["time_ns"] >= start_ns) & (events["time_ns"] <= end_ns)]
            key, number = _released(events, start_ns, end_ns)
            keys.append(key)
            numbers.append(number)
            waits_since = _add_waits(found.waited_ns, owner, events, waits_since)
            changes = events[(events["kind"] == hwt.INTERVAL) & (events["gil"] == 0)]
            found.intervals += zip(changes["time_ns"].tolist(), changes["value"].tolist(), strict=True)
        used = chunks[found.first_ns[chunks] < NEVER_NS]
        found.over_ns[used[:-1]] = found.first_ns[used[1:]]
        if waits_since is not None:
            found.waited_ns[waits_since[1]][owner] += max(0, end_ns - waits_since[0])
    found.intervals.sort()
    _put_together(found, keys, numbers)
    return found


def _of_owners(head: NDArray[np.void]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    owners, firsts = np.unique(head["owner"], return_index=True)
    for owner, first, until in zip(owners.tolist(), firsts, np.append(firsts, len(head))[1:], strict=True):
        yield owner, np.arange(first, until)


def _events(chunks: NDArray[np.int64], read: _Read, first_ns: NDArray[np.int64]) -> NDArray[np.void]:
    """Return the events of chunks; `first_ns` gets the time of the first one of each."""
    events, sizes = read(chunks.tolist())
    firsts = np.cumsum(sizes) - sizes
    some = sizes > 0
    first_ns[chunks[some]] = events["time_ns"][firsts[some]]
    return events


def _last_ns(head: NDArray[np.void], counts: NDArray[np.int64], read: _Read, within_ns: tuple[int, int]) -> int:
    last_ns, latest_ns = within_ns
    firsts = np.zeros(len(head), dtype=np.int64)
    for _, chunks in _of_owners(head):
        used = chunks[counts[chunks] > 0]
        if len(used):
            events = _events(used[-1:], read, firsts)
            known = events["time_ns"][events["time_ns"] <= latest_ns]
            last_ns = max(last_ns, int(known.max(initial=0)))
    return last_ns


def _released(events: NDArray[np.void], start_ns: int, end_ns: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (part, GIL, stack) of the releases, each as one number, and how often each occurs."""
    releases = events[_RELEASES[events["kind"]]]
    time_ns = releases["time_ns"] + np.where(releases["kind"] == hwt.HOLD, releases["flags"], 0)
    part = np.clip((time_ns - start_ns) * PARTS // max(1, end_ns - start_ns), 0, PARTS - 1)
    key = (part << 40) | (releases["gil"].astype(np.int64) << 32) | releases["value"]
    distinct, number = np.unique(key, return_counts=True)
    return distinct, number


def _add_waits(
    waited_ns: dict[int, dict[int, int]], owner: int, events: NDArray[np.void], since: tuple[int, int] | None
) -> tuple[int, int] | None:
    """Add a thread's waits. `since` is the time and the GIL of a wait that has begun before, and is returned likewise."""
    turns = events[_TURNS[events["kind"]]]
    if not len(turns):
        return since
    kind, time_ns, gil = turns["kind"], turns["time_ns"], turns["gil"]
    if since is not None and kind[0] != hwt.WAIT:
        waited_ns[since[1]][owner] += max(0, int(time_ns[0]) - since[0])
    begun = np.flatnonzero((kind[:-1] == hwt.WAIT) & (_ACQUIRES[kind[1:]] | (kind[1:] == hwt.EXIT)))
    length_ns = np.maximum(time_ns[begun + 1] - time_ns[begun], 0)
    for one in np.flatnonzero(np.bincount(gil)).tolist():
        waited_ns[one][owner] += int(length_ns[gil[begun] == one].sum())
    return (int(time_ns[-1]), int(gil[-1])) if kind[-1] == hwt.WAIT else None


def _put_together(found: Survey, keys: list[NDArray[np.int64]], numbers: list[NDArray[np.int64]]) -> None:
    if not keys:
        return
    key, number = np.concatenate(keys), np.concatenate(numbers)
    part, place = key >> 40, key & ((1 << 40) - 1)
    distinct, index = np.unique(place, return_inverse=True)
    found.stacks = np.stack([distinct >> 32, distinct & 0xFFFFFFFF], axis=1)
    found.released = np.zeros((PARTS, len(distinct)), dtype=np.int64)
    np.add.at(found.released, (part, index), number)
