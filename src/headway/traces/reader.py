"""Reads trace files (.hwt, native/trace/format.h) into `Trace`, also files that grow, were cut off, or are damaged.

For any bytes, the result is a TraceError or a trace that keeps the invariants (invariants.py). `Trace.loss`
tells what was left out. If the process still runs, the events that it writes during the reading are left out, because
the reader would have those of one thread and not those of another.

The columns of 10 million events alone take 200 MB. Each step below therefore works in place, or frees its input.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headway.traces import format as hwt
from headway.traces import mending
from headway.traces.chunks import last_before_gaps, opened, read_header, refuse_joined
from headway.traces.collected import collections_of, without_collections
from headway.traces.described import SeenThread, process_of, threads_of, until_nul
from headway.traces.frames import Evidence, with_names
from headway.traces.gaps import Gaps
from headway.traces.model import EVENT_DTYPE, Kind, Loss, Silent, Trace, known_flags
from headway.traces.notes import evidence_of
from headway.traces.overview import Overview, Survey, survey
from headway.traces.packed import AT_ONCE, event_counts
from headway.traces.records import Name, Records, Tables
from headway.traces.stored import Stored

__all__ = ["read", "read_part"]

_DUMMY = re.compile(r"Dummy-\d+")
_EVENT_BYTES = hwt.EVENT_DTYPE.itemsize
_LONGEST_NS = 366 * 24 * 3600 * 10**9
"""No trace is longer; a time beyond it is damage."""
_LATE_NS = 10 * 10**9
"""The longest time by which a thread that was writing an event when tracing ended may have finished it later."""
_WHOLE_EVENTS = 1_000_000
"""A file with at most so many events is read in whole: that takes about a second."""
_LEFT_NS = 100_000_000
"""The longest time by which another thread may write an event after a thread has called `_exit()`."""
_KNOWN = mending.kind_table(*Kind)
_OF_A_STACK = mending.kind_table(Kind.WAIT, Kind.RELEASE, Kind.PARK)


def read(path: Path | str) -> Trace:
    """Read the trace file at `path`; the process may still be writing it.

    Raises:
        TraceError: The file cannot be read, is not a trace, has another version, has a header that makes no sense, or has
            more than one trace.
    """
    path = Path(path)
    with opened(path) as file:
        return _Reading(path, file).trace()


def read_part(
    path: Path | str, choose: Callable[[Overview], tuple[int, int]], *, most: int = _WHOLE_EVENTS
) -> tuple[Trace, Overview | None]:
    """Read the trace file at `path`; of a long one, only a part into memory.

    The part has all threads of the trace, and no losses of its own: `Trace.loss` is that of the file. Garbage collections
    outside the part are left out.

    Args:
        path: The file.
        choose: Chooses the part from an overview of a long trace: its beginning, and the number of events that it has at
            least, if there are so many.
        most: The number of events of the longest file that is read in whole.

    Returns:
        The trace, and the overview of the whole of it; None: the trace is the whole.

    Raises:
        TraceError: As for `read`.
    """
    path = Path(path)
    with opened(path) as file:
        reading = _Reading(path, file)
        return reading.trace(choose, most=most), reading.overview


def _with_releases(events: NDArray[np.void]) -> NDArray[np.void]:
    """Split each HOLD of events by thread into an ACQUIRE and a RELEASE."""
    holds = np.flatnonzero(events["kind"] == hwt.HOLD)
    if not len(holds):
        return events
    # Expand one column at a time, because a second copy of all columns takes a lot of memory.
    twice = np.ones(len(events), dtype=np.int64)
    twice[holds] = 2
    found = np.zeros(len(events) + len(holds), dtype=EVENT_DTYPE)
    for name in EVENT_DTYPE.names or ():
        found[name] = np.repeat(events[name], twice)
    releases = holds + np.arange(1, len(holds) + 1)
    acquires = releases - 1
    found["time_ns"][releases] += found["flags"][releases]
    found["kind"][releases] = Kind.RELEASE
    found["kind"][acquires] = Kind.ACQUIRE
    found["value"][acquires] = 0
    found["flags"][acquires] = 0
    found["flags"][releases] = 0
    return found


class _Reading:
    """Reads one file; `trace` performs the steps in order."""

    def __init__(self, path: Path, file: int) -> None:
        self._path = path
        self._file = file
        self._header = read_header(path, file)
        refuse_joined(path, file, self._header)
        self._offset = int(self._header["chunks_offset"])
        self._start_ns = int(self._header["start_ns"])
        self._end_ns = int(self._header["end_ns"])
        self._cut_ns = 0
        self._damaged_bytes = 0
        if self._end_ns and not 0 <= self._end_ns - self._start_ns <= _LONGEST_NS:
            self._damaged_bytes += self._header["end_ns"].nbytes
            self._end_ns = 0
        self._stored = Stored(path, file, self._header, grows=not self._end_ns)
        self._process = replace(process_of(self._header), ended=bool(self._end_ns))
        self._lost_events = int(self._header["dropped_events"])
        self._overwritten_events = int(self._header["overwritten_events"])
        self._is_cut = False
        """The file ends before its last chunk, as after a copy that was broken off."""
        self._own_names: list[Name] = []
        self._records = Records()
        self.overview: Overview | None = None
        self._surveyed: Survey | None = None
        self._part_ns: tuple[int, int] | None = None
        self._gaps = Gaps(self._header)

    def trace(self, choose: Callable[[Overview], tuple[int, int]] | None = None, *, most: int = 0) -> Trace:
        """Read the file; if `choose` is given and the file has more than `most` events, a part of it (`read_part`)."""
        chunks, known_until_ns = self._snapshot()
        mine = self._stored.of_events(chunks)
        if choose is not None and int(event_counts(mine["head"]).sum()) > most:
            tables = self._choose(choose, mine, chunks, known_until_ns)
            seen, events = self._read_events(mine)
        else:
            seen, events = self._read_events(mine)
            # Read records after events: a process writes a record before the events that refer to it.
            tables = self._read_records(chunks)
        until_ns = self._part_ns[1] if self._part_ns is not None else known_until_ns

        evidence, damaged_bytes = evidence_of(self._records.notes)
        events, collections = without_collections(events, seen)
        events = mending.whole_waits(_with_releases(events), lost=self._lost_events > 0)
        gils = self._records.gils(min(int(self._header["gil_count"]), mending.used_gils(events)), self._start_ns)
        names = {one.tid: one.name for one in sorted(self._records.names)}
        unreleased = with_names(evidence.unreleased, names, {one.address for one in gils})
        evidence = replace(evidence, unreleased=unreleased)
        silent = self._silent(seen, evidence)
        events = self._without_damaged(events, len(gils))
        if until_ns:
            events = _without(events, events["time_ns"] > until_ns)
        events = self._without_overwritten(events, seen)
        if self._part_ns is not None:
            events = self._cut(events, self._part_ns[0], self._surveyed_interval_us(self._part_ns[0]))
        gils = mending.ended_gils(gils, events)
        if self._process.free_threaded and not self._process.gil_enabled:
            events = _without(events, mending.in_vain(events))
        ends_ns = np.array([mending.NEVER_NS if one.end_ns is None else one.end_ns for one in gils], dtype=np.int64)
        events = self._without_contradictory(events, mending.contradictions(events, ends_ns))
        events = events[mending.by_time(events)]
        events = self._without_contradictory(events, mending.taken_twice(events))
        self._place_values(events, tables)

        last_ns = int(events["time_ns"][-1]) if len(events) else self._start_ns
        left_ns = self._left_ns(last_ns)
        lived_ns = min(int(self._header["lived_until_ns"]), self._start_ns + _LONGEST_NS)
        end_ns = max(last_ns, self._end_ns or known_until_ns or left_ns or lived_ns)
        if self._part_ns is not None:
            end_ns = max(last_ns, until_ns)
        elif self._is_cut:
            end_ns = last_ns  # nothing is known of what came later
        self._damaged_bytes += damaged_bytes
        threads = threads_of(seen, events, [*self._records.names, *self._own_names], end_ns)
        return Trace(
            process=replace(self._process, ended=bool(self._end_ns or left_ns), growing=known_until_ns > 0),
            start_ns=self._start_ns,
            end_ns=end_ns,
            events=events,
            threads=threads,
            gils=tuple(gils),
            stack_parent=tables.stack_parent,
            stack_frame=tables.stack_frame,
            frames=tables.frames,
            types=tables.types,
            loss=Loss(
                dropped_events=self._lost_events,
                overwritten_events=self._overwritten_events,
                lost_stacks=int(self._header["lost_stacks"]),
                damaged_bytes=self._damaged_bytes + self._records.damaged_bytes,
                removed_files=int(self._header["removed_files"]),
                unrecorded_processes=int(self._header["unrecorded_processes"]),
                unseen_threads=self._gaps.unseen_threads,
                unplaced_events=self._gaps.unplaced_events,
            ),
            silent=silent,
            evidence=replace(evidence, collections=collections_of(collections, end_ns)),
            gaps=self._gaps.of(threads, events, self._start_ns, end_ns),
            cut_ns=self._cut_ns,
        )

    def _silent(self, seen: Sequence[SeenThread], evidence: Evidence) -> tuple[Silent, ...]:
        """Return the threads that were there and have no event; () if events of theirs may be lost.

        Those that kept a GIL of their own are others.

        Recording names all of Python's threads when it begins and when it ends. Without a GIL, a thread that works has no
        event either. Some versions of Python keep `Dummy-1`, the name of a thread of C, after its end: it tells of no thread.
        """
        is_off = self._process.free_threaded and not self._process.gil_enabled
        if is_off or self._lost_events or self._overwritten_events or self._damaged_bytes:
            return ()
        tids = {one.tid for one in seen} | {one.tid for one in evidence.unreleased}
        names = {one.tid: one.name for one in sorted(self._records.names) if one.name.strip() and one.tid not in tids}
        frames = {one.tid: one.frames for one in evidence.standing}
        return tuple(
            Silent(name, frames.get(tid, ())) for tid, name in sorted(names.items()) if not _DUMMY.fullmatch(name)
        )

    def _left_ns(self, last_ns: int) -> int:
        """Return when the process ended itself by `_exit()`; 0 if it did not, or if its end is known otherwise.

        A child of vfork() that fails calls `_exit()`, too, with its parent's memory. The parent then goes on, and has
        later events.
        """
        left_ns = int(self._header["left_ns"])
        ended = not self._end_ns and last_ns - _LEFT_NS <= left_ns <= self._start_ns + _LONGEST_NS
        return max(left_ns, last_ns) if left_ns and ended else 0

    def _snapshot(self) -> tuple[NDArray[np.void], int]:
        """Read the chunks' headers. If the file grows, also return the time until which no event is missing; else 0."""
        # Take the time from the header first: the process writes it last, after the events that it covers.
        known_until_ns = 0 if self._end_ns else int(self._header["known_until_ns"])
        if not 0 <= known_until_ns <= self._start_ns + _LONGEST_NS:
            self._damaged_bytes += self._header["known_until_ns"].nbytes
            known_until_ns = 0
        chunks = self._stored.headers()
        # An empty chunk that makes no sense was just being taken by a thread.
        sound = Stored.sound(chunks, hwt.CHUNK_EVENTS) | Stored.sound(chunks, hwt.CHUNK_META)
        self._damaged_bytes += int(np.count_nonzero(~sound & (chunks["head"]["used"] > 0))) * hwt.CHUNK_BYTES
        taken = int(self._header["chunk_count"])
        if self._header["version"] == hwt.UNPACKED_VERSION:  # it may count places that were never used
            taken = min(taken, int(self._header["chunks_taken"]))
        missing = taken - max(0, os.fstat(self._file).st_size - self._offset) // hwt.CHUNK_BYTES
        self._damaged_bytes += max(0, missing) * hwt.CHUNK_BYTES
        self._is_cut = missing > 0 and self._end_ns > 0
        return chunks, known_until_ns

    def _read_events(self, mine: NDArray[np.void]) -> tuple[list[SeenThread], NDArray[np.void]]:
        """Read the threads and their events, by thread; the events' `thread` is the thread's index in the list."""
        head = mine["head"]
        serials, firsts, index = np.unique(head["owner"], return_index=True, return_inverse=True)
        lasts = np.append(firsts, len(head))[1:] - 1
        seen = [
            SeenThread(
                int(serial),
                int(head["tid"][first]),
                int(head["thread_start_ns"][first]),
                until_nul(head["name"][last]),
            )
            for serial, first, last in zip(serials, firsts, lasts, strict=True)
        ]
        self._damaged_bytes += int((head["used"][head["kind"] == hwt.CHUNK_EVENTS] % _EVENT_BYTES).sum())
        counts = event_counts(head)
        if self._surveyed is not None and self._part_ns is not None:
            counts[~self._surveyed.within(*self._part_ns)] = 0
        places = np.concatenate([[0], np.cumsum(counts)])
        events = np.zeros(int(places[-1]), dtype=EVENT_DTYPE)
        columns = {name: events[name] for name in hwt.EVENT_DTYPE.names or ()}
        in_file = np.argsort(mine["position"], kind="stable")
        in_file = in_file[counts[in_file] > 0]
        for first in range(0, len(in_file), AT_ONCE):
            self._fill(columns, mine, in_file[first : first + AT_ONCE].tolist(), places)
        events["thread"] = np.repeat(index, counts)
        for one in lasts.tolist():
            # A thread that set its own name did so at some time after its chunk began.
            if head["named"][one] == 1:
                if self._surveyed is not None and self._surveyed.counts[one]:
                    begun_ns = int(self._surveyed.first_ns[one])
                elif counts[one]:
                    begun_ns = int(events["time_ns"][places[one]])
                else:
                    begun_ns = int(head["thread_start_ns"][one])
                self._own_names.append(Name(begun_ns, int(head["tid"][one]), until_nul(head["name"][one])))
        gaps = last_before_gaps(head, dropped=self._lost_events > 0)
        if self._is_cut:  # any thread may have had more events
            gaps = np.union1d(gaps, lasts)
        self._gaps.after_chunks(head, gaps, events["time_ns"], places)
        gaps = gaps[counts[gaps] > 0]
        torn = mending.open_at_gaps(events, places[gaps + 1], index[gaps])
        return seen, self._without_contradictory(events, torn)

    def _fill(
        self,
        columns: Mapping[str, NDArray[np.generic]],
        mine: NDArray[np.void],
        which: Sequence[int],
        places: NDArray[np.int64],
    ) -> None:
        """Read the events of some chunks into their places in columns; what cannot be read stays 0."""
        read, sizes, gone = self._stored.events(mine, which)
        until = 0
        for one, size in zip(which, sizes.tolist(), strict=True):
            until += size
            if one in gone:
                lost = int(places[one + 1] - places[one])
                self._overwritten_events += lost
                self._damaged_bytes -= lost * _EVENT_BYTES  # its zeros are counted later
                continue
            place = int(places[one])
            for name, column in columns.items():
                column[place : place + size] = read[name][until - size : until]

    def _choose(
        self,
        choose: Callable[[Overview], tuple[int, int]],
        mine: NDArray[np.void],
        chunks: NDArray[np.void],
        known_until_ns: int,
    ) -> Tables:
        """Choose the part to be read, and read the records."""
        overwritten_ns = int(self._header["overwritten_until_ns"]) if self._overwritten_events else 0
        latest_ns = self._start_ns + _LONGEST_NS
        start_ns = max(self._start_ns, overwritten_ns + 1)
        if start_ns > (self._end_ns or known_until_ns or latest_ns):
            start_ns = self._start_ns  # a time after all events is damage
        found = survey(
            mine["head"],
            lambda which: self._stored.events(mine, which)[:2],
            start_ns,
            self._end_ns or known_until_ns,
            latest_ns,
        )
        tables = self._read_records(chunks)
        self._surveyed, self.overview = found, found.overview(tables.stacks, tables.stack_frame, len(tables.frames))
        since_ns, least = choose(self.overview)
        self._part_ns = (max(start_ns, since_ns), min(found.end_ns, found.until_ns(since_ns, least)))
        return tables

    def _read_records(self, chunks: NDArray[np.void]) -> Tables:
        """Read the records, and the chunks with them anew if the process may have added some."""
        chunks = chunks if self._end_ns else self._stored.headers()
        mine = chunks[Stored.sound(chunks, hwt.CHUNK_META)]
        for one in mine[np.argsort(mine["head"]["sequence"], kind="stable")]:
            used = int(one["head"]["used"])
            data = self._stored.read(int(one["position"]), 0, used)
            self._damaged_bytes += used - len(data)
            self._records.add(int(one["head"]["owner"]), data)
        return self._records.tables(has_gil=self._process.gil_enabled)

    def _without_damaged(self, events: NDArray[np.void], gils: int) -> NDArray[np.void]:
        """Remove events that no recorder writes, and events that are out of order within their thread."""
        kind, time = events["kind"], events["time_ns"]
        bad = ~_KNOWN[kind] | ~known_flags(events)
        bad |= (events["gil"] >= gils) & mending.OF_A_GIL[kind]
        latest_ns = self._end_ns + _LATE_NS if self._end_ns else self._start_ns + _LONGEST_NS
        bad |= (time < self._start_ns) | (time > latest_ns)
        events = self._counted(events, bad)

        time, thread = events["time_ns"], events["thread"]
        back = np.flatnonzero((time[1:] < time[:-1]) & (thread[1:] == thread[:-1]))
        if not len(back):
            return events
        bad = np.zeros(len(events), dtype=np.bool_)
        for one in np.unique(thread[back]):
            mine = slice(*np.searchsorted(thread, [one, one + 1]))
            bad[mine] = mending.going_back(time[mine])
        return self._counted(events, bad)

    def _counted(self, events: NDArray[np.void], bad: NDArray[np.bool_]) -> NDArray[np.void]:
        self._damaged_bytes += int(np.count_nonzero(bad)) * _EVENT_BYTES
        self._gaps.without(events, bad)
        return _without(events, bad)

    def _without_contradictory(self, events: NDArray[np.void], bad: NDArray[np.bool_]) -> NDArray[np.void]:
        """Remove events that do not fit; count them by the cause of the gap: lack of room, overwriting, or damage."""
        count = int(np.count_nonzero(bad))
        if self._lost_events:
            self._lost_events += count
        elif self._overwritten_events:
            self._overwritten_events += count
        else:
            self._damaged_bytes += count * _EVENT_BYTES
        self._gaps.without(events, bad)
        return _without(events, bad)

    def _without_overwritten(self, events: NDArray[np.void], seen: list[SeenThread]) -> NDArray[np.void]:
        """Cut off the front of a trace in which events were overwritten; the trace then begins at the cut."""
        if not self._overwritten_events:
            return events
        header = read_header(self._path, self._file)  # the current one: the file may grow
        cut_ns = self._complete_from_ns(header, events)
        if cut_ns <= self._start_ns:
            return events
        # A thread that exited before the cut is not a thread of this trace.
        over = events["thread"][(events["kind"] == Kind.EXIT) & (events["time_ns"] < cut_ns)]
        alive = np.ones(len(seen), dtype=np.bool_)
        alive[over] = False
        count = len(events)
        interval_us = self._interval_us(header, events, cut_ns)
        events = self._cut(_without(events, ~alive[events["thread"]]), cut_ns, interval_us)
        self._overwritten_events += count - len(events)
        events["thread"] = (np.cumsum(alive) - 1)[events["thread"]]
        seen[:] = [one for one, is_alive in zip(seen, alive, strict=True) if is_alive]
        self._gaps.serials = [one.serial for one in seen]
        return events

    def _cut(self, events: NDArray[np.void], cut_ns: int, interval_us: int) -> NDArray[np.void]:
        """Make the trace begin at a time, at which the main GIL has this switch interval; return the later events."""
        before, cut_off_ns = self._process, cut_ns - self._start_ns
        ended_ns = None if before.policy_ended_ns is None else before.policy_ended_ns - cut_off_ns
        is_over = ended_ns is not None and ended_ns <= 0  # the part that is left had no policy
        self._process = replace(
            before,
            start_realtime_ns=before.start_realtime_ns + cut_off_ns,
            begin_realtime_ns=before.begin_realtime_ns or before.start_realtime_ns,
            interval_us=interval_us,
            policy="" if is_over else before.policy,
            policy_ended_ns=None if is_over else ended_ns,
            policy_options=None if is_over else before.policy_options,
        )
        self._start_ns = cut_ns
        self._cut_ns += cut_off_ns
        return _without(events, mending.cut_front(events, cut_ns))

    def _surveyed_interval_us(self, cut_ns: int) -> int:
        """Return the main GIL's switch interval at a cut, whose earlier events were not read."""
        assert self._surveyed is not None
        earlier = [interval_us for time_ns, interval_us in self._surveyed.intervals if time_ns < cut_ns]
        return earlier[-1] if earlier else self._process.interval_us

    def _interval_us(self, header: np.void, events: NDArray[np.void], cut_ns: int) -> int:
        """Return the main GIL's switch interval at a cut; its last change may have been overwritten."""
        changes = events[(events["kind"] == Kind.INTERVAL) & (events["gil"] == 0) & (events["time_ns"] < cut_ns)]
        known = [(self._start_ns, self._process.interval_us)]
        known += zip(changes["time_ns"].tolist(), changes["value"].tolist(), strict=True)
        known += [(int(header["lost_interval_ns"]), int(header["lost_interval_us"]))]
        return max((one for one in known if one[0] < cut_ns), key=lambda one: one[0])[1]

    def _complete_from_ns(self, header: np.void, events: NDArray[np.void]) -> int:
        """Return the time from which on no event was overwritten."""
        until_ns = int(header["overwritten_until_ns"])
        # A time after all events is damage. Contradicting events are then removed one by one.
        return until_ns + 1 if len(events) and until_ns < int(events["time_ns"].max()) else self._start_ns

    def _place_values(self, events: NDArray[np.void], tables: Tables) -> None:
        """Turn the GILs' ids in `value` into indices. An unknown id becomes 0 (unknown) and counts as damage."""
        for kinds, look_up in ((_OF_A_STACK, tables.stacks), (mending.kind_table(Kind.UNPARK), tables.type_ids)):
            places = np.flatnonzero(kinds[events["kind"]])
            for gil in np.flatnonzero(np.bincount(events["gil"][places], minlength=1)).tolist():
                mine = places[events["gil"][places] == gil]
                indices, missing = look_up(gil, events["value"][mine])
                events["value"][mine] = indices
                self._damaged_bytes += missing * events["value"].itemsize
        # With the GIL off, events belong to no GIL; the file keeps their stacks and types under the number NO_GIL.
        events["gil"][events["gil"] == hwt.NO_GIL] = 0


def _without(events: NDArray[np.void], bad: NDArray[np.bool_]) -> NDArray[np.void]:
    return events[~bad] if bad.any() else events
