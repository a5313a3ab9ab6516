"""One watched process: its last events in a ring in our memory, and what the watcher sees of the process meanwhile.

The process records into memory that it shares with us, as under `headway trace`. The watcher copies new events into a
file of bounded size that has no name, where they replace the oldest events. The last seconds are therefore always
there, whatever the process does: nothing asks the process, and nothing waits for its GIL.

Needs no numpy, because a watcher runs beside a service all the time.
"""

import contextlib
import itertools
import mmap
import os
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Any, Final, final

from headway.agent.headway_agent.recorder import WATCHED
from headway.live.door import PROCESS_MEMORY_BYTES, watch_process
from headway.live.files import began_realtime_ns, begin_ticks
from headway.live.header import FIELDS_BYTES, Header, header_in
from headway.live.homes import Homes
from headway.live.lived import Lived
from headway.live.options import Limits
from headway.live.sampling import Accounts, Looker, Stops
from headway.live.slots import HOLDING, IDLE, SLOT_BYTES, SLOT_HEAD, WAITING, Slot, ThreadCounters, steady_counters
from headway.live.stacks import Stacks
from headway.live.upkeep import LEAST_CHUNKS, Upkeep
from headway.native import CHUNK_BYTES, HOME_POOL, Collection, Laps, Worth
from headway.traces.frames import Asleep, Away, CoreTime, Sample, packed

__all__ = ["Limits", "Ring"]

_MEMORY_CHUNKS: Final = 2048
"""The limit of chunks (16 KiB each) in the process's memory, which is copied ten times a second, or when it fills.

Each thread that begins takes one, and touches only a page of it. What a burst of threads touches is given back.
"""
_MOST_MEMORY_CHUNKS: Final = PROCESS_MEMORY_BYTES // CHUNK_BYTES
_EVIDENCE_NS: Final = 15_000_000_000
_MOST_SAMPLES, _MOST_CORE_TIMES = 1500, 4000
_SAMPLED_NS: Final = 10_000_000
"""The length of a hold from which the holder's stack is sampled."""
_META_BYTES: Final = 32 << 20
"""The limit for names, code and stacks, which are kept while the process is watched. A large service has some MB."""
_TOO_MANY_STACKS: Final = (
    f"it has more than {_META_BYTES >> 20} MB of code and stacks: lines that were not seen before are not reported"
)
_OFTEN_NS, _RARELY_NS = 15_000_000, 200_000_000
"""The time between two samples of a hold: at first, and at most."""
_AWAY_NS: Final = 10_000_000
"""The time away from the GIL after which a thread's account is read: then, now and then, and when the thread is back."""
_AWAY_AGAIN_NS: Final = 100_000_000
"""The time away after which the account is read again, and from there on at times that grow by half."""
_MOST_AGAIN: Final = 4
"""The largest number of threads that are looked at again in one pass because they are still away: most are idle."""
_STILL: Final = 5
"""An event loop that does one thing for this fraction (1 / _STILL) of the shortest stall is looked at."""
_MOST_STILL: Final = 64
_MOST_TIDS: Final = 16
"""The largest number of threads whose account is read in one pass."""

_FEW_SLOTS, _MOST_SLOTS = 8, 32768


@final
class Ring:
    """A process that is watched."""

    def __init__(self, memory: int, pid: int, limits: Limits, upkeep: Upkeep) -> None:
        """Begin to copy and watch a process.

        Args:
            memory: The descriptor that the process has sent; the caller still owns it.
            pid: The process's id.
            limits: The lengths that make a stall, and the size of the ring.
            upkeep: Takes care of the process until this is closed.

        Raises:
            OSError: The memory is not that of a recorder, or there is no descriptor or memory left.
        """
        self.pid = pid
        self._limits = limits
        self._upkeep = upkeep
        with contextlib.ExitStack() as failed:
            self._file = os.memfd_create("headway-ring", os.MFD_CLOEXEC)
            failed.callback(os.close, self._file)
            self._collection = Collection(memory, self._file, Path(WATCHED))
            failed.callback(self._collection.close)
            upkeep.add(self._collection, pid)
            failed.callback(upkeep.remove, self._collection)
            self._collection.began(began_realtime_ns(pid))
            self._lived = Lived(pid, self._collection, memory)
            self._collection.watch(loop_ns=limits.loop_ns, pool_ns=limits.request_ns)
            self._collection.limit_meta(_META_BYTES // CHUNK_BYTES)
            header = header_in(os.pread(memory, FIELDS_BYTES, 0))
            if header is None or header.slot_bytes != SLOT_BYTES or not 0 < header.slots_offset < 1 << 24:
                raise OSError(71, "the process records in another format")
            self._slots_at, self._slot_count = header.slots_offset, min(header.slot_count, _MOST_SLOTS)
            self._slots = mmap.mmap(memory, self._slots_at + self._slot_count * SLOT_BYTES, prot=mmap.PROT_READ)
            failed.callback(self._slots.close)
            self.pidfd, gone = watch_process(pid)
            failed.pop_all()
        self.gone_ns = time.monotonic_ns() if gone else 0
        """Until when the process ran, as far as that was seen; 0: it has not ended."""
        self.finished = False
        """Whether the recording has ended in order, so that it has its own end: the process was not killed."""
        self.stopped = False
        """Whether the recording has ended in a process that still runs the same program, or is just exiting."""
        self._began = begin_ticks(pid) if self.pidfd < 0 and not gone else None
        self.stacks = Stacks(self._file)
        self._homes = Homes(self._collection, self.stacks)
        self.laps: Laps = self._collection.laps(0)
        """The laps of the process's threads up to the last copy."""
        self.lost_children = 0
        """The number of the process's forked children that could not call at the watcher's socket."""
        self.blind = ""
        """Why stacks cannot be read; "" if they can."""
        self.tells = True
        """Whether stalls can be told at all: without a GIL they cannot."""
        self._looker = self._look_inside(memory, header)
        self._samples: deque[Sample] = deque(maxlen=_MOST_SAMPLES)
        self._core_times: deque[CoreTime] = deque(maxlen=_MOST_CORE_TIMES)
        self._asleep: deque[Asleep] = deque(maxlen=_MOST_CORE_TIMES)
        self._sampled_ns: dict[int, int] = {}
        self._used_slots = _FEW_SLOTS
        self._room_for = 0
        self._accounts = Accounts(pid)
        self._stops = Stops(self._accounts)
        self._long_waits: dict[int, int] = {}
        self._accounted: dict[int, tuple[int, int]] = {}
        """By serial: the beginning of the state that the thread was in when its account was last read, and from which length
        of a time away the next look is due."""
        self._late: dict[int, tuple[int, str]] = {}
        """By serial: the native id and the name of a thread with a lap that takes too long. Its slot may be another's later."""
        self._have_room()
        self._queued_ns: dict[int, int] = {}

    def _look_inside(self, memory: int, header: Header) -> Looker | None:
        if not header.has_gil:
            self.blind = "it runs without a GIL, so its stalls are not reported"
            self.tells = False
            return None
        try:
            return Looker(self.pid, memory)
        except ValueError:
            self.blind = (
                "its stacks cannot be read (its Python is before 3.11, or of an unknown build): "
                "only waits for the GIL are reported, without lines"
            )
        except (FileNotFoundError, ProcessLookupError):
            pass  # the process has ended already
        except OSError as error:
            self.blind = f"its memory may not be read ({error.strerror or error}): lines of long calls are not reported"
        return None

    @property
    def collection(self) -> Collection:
        """The collection that copies the process's events."""
        return self._collection

    @property
    def worth(self) -> Worth:
        """The limits from which threads are worth a look."""
        return Worth(_SAMPLED_NS, self._limits.wait_ns // 2, self._limits.shortest_ns // _STILL, _AWAY_NS)

    @property
    def gone(self) -> bool:
        """Whether the process has ended."""
        return self.gone_ns > 0

    @property
    def shows_end(self) -> bool:
        """Whether the end of the process is seen even if it is killed."""
        return self.pidfd >= 0 or self._began is not None

    def end(self) -> None:
        """Mark the process as ended now, or when it began to exit."""
        self.gone_ns = self.gone_ns or self._ran_until_ns(time.monotonic_ns())

    def _ran_until_ns(self, now_ns: int) -> int:
        """Return until when the process has run: `now_ns`, unless it was seen exiting before."""
        if not self._stops.seems_to_exit:
            return now_ns
        return self._stops.exits_ns(max((slot.since_ns for slot in self.slots()), default=0)) or now_ns

    def close(self) -> None:
        """Close everything. Events that the process records later are lost."""
        self._slots.close()
        self._upkeep.remove(self._collection)
        self._collection.close()
        os.close(self._file)
        if self.pidfd >= 0:
            os.close(self.pidfd)
        if self._looker is not None:
            self._looker.close()
        self._accounts.close()

    # ------------------------------------------------------------------ looking
    def slots(self) -> Iterator[Slot]:
        """Yield the counters of all threads, also of those that have ended."""
        while True:
            last = self._slots_at + (self._used_slots - 1) * SLOT_BYTES
            if self._used_slots >= self._slot_count or not any(self._slots[last + 4 : last + 8]):
                break
            self._used_slots = min(self._slot_count, 2 * self._used_slots)
        for place in range(self._used_slots):
            found = Slot._make(SLOT_HEAD.unpack_from(self._slots, self._slots_at + place * SLOT_BYTES))
            if found.serial:
                yield found

    def counters(self, now_ns: int) -> list[ThreadCounters]:
        """Return all counters of all threads, also of those that have ended."""
        places = range(self._used_slots)
        found = (steady_counters(self._slots, self._slots_at + place * SLOT_BYTES, now_ns) for place in places)
        return [one for one in found if one is not None]

    def look(self, now_ns: int) -> tuple[bool, bool]:
        """Look at threads that hold the GIL for long, and at what the system does with event loops.

        Returns:
            Whether an event loop had no core for too long, and whether a thread waits or waited too long for the GIL.
        """
        self._stops.look(now_ns)
        loops = set(self.laps.loops)
        looked_at: dict[int, None] = {}
        of_loops: set[int] = set()
        away: set[int] = set()
        holding: set[int] = set()
        waits = False
        again = 0
        for slot in self.slots():
            since_ns = now_ns - slot.since_ns
            if slot.serial in loops and slot.state:
                looked_at[slot.tid] = None
                of_loops.add(slot.tid)
            if slot.state == HOLDING and since_ns >= _SAMPLED_NS:
                holding.add(slot.tid)
                self._sample(slot, now_ns)
            waits = waits or (slot.state == WAITING and since_ns >= self._limits.wait_ns)
            is_known = self._accounted.get(slot.serial, (-1, 0))[0] == slot.since_ns
            if is_known and slot.state == IDLE and again >= _MOST_AGAIN:
                continue
            if len(looked_at) < _MOST_TIDS and self._is_due(slot, since_ns):
                looked_at[slot.tid] = None
                if slot.state == IDLE:
                    away.add(slot.tid)
                    again += is_known
            worst_ns = slot.worst_wait_ns
            if worst_ns >= self._limits.wait_ns and self._long_waits.get(slot.serial, 0) != worst_ns:
                self._long_waits[slot.serial] = worst_ns
                waits = True
        queued = False
        for tid in list(looked_at)[:_MOST_TIDS]:
            seen = self._account(tid, is_away=tid in away, holds=tid in holding)
            if seen is not None:
                before_ns = self._queued_ns.get(tid, seen.queued_ns)
                queued = queued or (tid in of_loops and seen.queued_ns - before_ns >= self._limits.loop_ns)
                self._queued_ns[tid] = seen.queued_ns
        self._have_room()
        for kept in (self._long_waits, self._queued_ns, self._accounted):
            if len(kept) > _MOST_SLOTS:
                kept.clear()
        return queued, waits

    def _is_due(self, slot: Slot, since_ns: int) -> bool:
        """Tell whether a thread's account is due: the thread does one thing for long, or has just finished that thing.

        A hold and a wait are looked at again and again, a thread that is away ever more rarely. The system reports time
        without a core only when that time is over, so the end must be seen, too. But a thread that ends right after a
        call has no account then.
        """
        known_ns, again_ns = self._accounted.get(slot.serial, (-1, 0))
        lasts = (
            (slot.state == HOLDING and since_ns >= _SAMPLED_NS)
            or (slot.state == WAITING and since_ns >= self._limits.wait_ns // 2)
            or (slot.state == IDLE and since_ns >= (again_ns if known_ns == slot.since_ns else _AWAY_NS))
        )
        is_over = known_ns >= 0 and known_ns != slot.since_ns
        if lasts:
            self._accounted[slot.serial] = slot.since_ns, max(_AWAY_AGAIN_NS, since_ns + since_ns // 2)
        elif is_over:
            del self._accounted[slot.serial]
        return lasts or is_over

    def _account(self, tid: int, *, is_away: bool, holds: bool) -> CoreTime | None:
        """Record the core time that the system has given a thread up to now, and for what it sleeps if it is away."""
        seen = self._accounts.now(tid, holds=holds)
        if seen is not None:
            self._core_times.append(seen)
        now_ns = time.monotonic_ns()
        if is_away and self._accounts.sleeps_in_a_futex(tid, now_ns):
            self._asleep.append(Asleep(now_ns, tid))
        return seen

    def _sample(self, slot: Slot, now_ns: int) -> None:
        """Sample the stack of the GIL's holder: often at first, then more rarely."""
        pause_ns = min(_RARELY_NS, _OFTEN_NS + (now_ns - slot.since_ns) // 10)
        if self._looker is None or not self.stacks.gil or slot.gil != 0:
            return
        if now_ns - self._sampled_ns.get(slot.serial, 0) < pause_ns:
            return
        if len(self._sampled_ns) > _MOST_SLOTS:
            self._sampled_ns.clear()
        self._sampled_ns[slot.serial] = now_ns
        frames = self._looker.holders_stack(self.stacks.gil)
        if frames:
            self._samples.append(Sample(time.monotonic_ns(), slot.tid, frames))

    def copy(self, now_ns: int, *, hurry: bool = False) -> None:
        """Copy new events, and update which threads have event loops."""
        if hurry:
            self._collection.hurry()
        over = self.gone or (self._began is not None and begin_ticks(self.pid) != self._began)
        if not over:
            self._lived.look(now_ns)
            over = self._lived.over
        state = self._collection.copy(last=over)
        self.finished, self.stopped = state.ended, state.ended and not over
        ran_until_ns = self._ran_until_ns(now_ns)
        if state.ended or over:
            self.gone_ns = self.gone_ns or ran_until_ns
        self.lost_children = state.lost_children
        if state.lost_meta:
            self.blind = _TOO_MANY_STACKS
        self._homes.settle()
        if not self.stacks.gil:
            self.stacks.update()
        until_ns = self.gone_ns or ran_until_ns
        self.laps = self._collection.laps(until_ns)
        if self.laps.open_loops or self.laps.open_pools:
            self._note_late(until_ns)

    def _note_late(self, now_ns: int) -> None:
        """Note the threads whose laps take too long: when such a lap is reported, its thread may have ended."""
        late = {one.serial for one in self._collection.late_laps(now_ns)} - self._late.keys()
        if not late:
            return
        if len(self._late) > _MOST_SLOTS:
            self._late.clear()
        self._late |= {one.serial: (one.tid, one.name) for one in self.counters(now_ns) if one.serial in late}

    def _have_room(self) -> None:
        """Give each thread, however many there are, a chunk to write to, both in memory and in the ring.

        Where little memory is left, threads that do not fill their chunks still find one.
        """
        if self._room_for != self._used_slots:
            self._room_for = self._used_slots
            open_chunks = 2 * self._used_slots
            self._collection.limit(max(self._limits.ring_bytes // CHUNK_BYTES, open_chunks))
            chunks = min(_MOST_MEMORY_CHUNKS, _MEMORY_CHUNKS + open_chunks)
            self._upkeep.share(self._collection, chunks, least=min(chunks, LEAST_CHUNKS + self._used_slots))

    @property
    def threads(self) -> int:
        """The largest number of threads that a look covers."""
        return self._used_slots

    # ------------------------------------------------------------------ keeping
    def evidence(self, now_ns: int, oldest_ns: int = 0) -> dict[str, Any]:
        """Return the observations of the last seconds, in the format of notes (headway.traces.notes).

        `oldest_ns` is the time from which they are wanted, if that is earlier; 0: there is none.
        """
        still = (slot for slot in self.slots() if slot.serial in self._accounted)
        for slot in itertools.islice(still, _MOST_STILL):
            self._account(slot.tid, is_away=slot.state == IDLE, holds=slot.state == HOLDING)
        since_ns = min(now_ns - _EVIDENCE_NS, oldest_ns or now_ns)
        laps = [
            one
            for one in self._collection.late_laps(self.gone_ns or self._ran_until_ns(now_ns))
            if not one.ended_ns or one.ended_ns >= since_ns
        ]
        self.stacks.update()
        away = [
            Away(one.serial, one.away_since_ns, one.away_until_ns, frames)
            for one in laps
            if one.away_since_ns and (frames := self.stacks.frames(one.away_stack))
        ]
        return packed([*(one for one in self._samples if one.time_ns >= since_ns), *away]) | {
            "core_times": [
                [one.time_ns, one.tid, one.ran_ns, one.queued_ns] for one in self._core_times if one.time_ns >= since_ns
            ],
            "asleep": [[one.time_ns, one.tid] for one in self._asleep if one.time_ns >= since_ns],
            "stopped": [list(astuple(one)) for one in self._stops.known if one.runs_ns >= since_ns],
            "laps": [
                [
                    one.serial,
                    one.begun_ns,
                    one.ended_ns,
                    int(one.home == HOME_POOL),
                    *self._late.get(one.serial, (0, "")),
                ]
                for one in laps
            ],
        }

    def save(self, file: int) -> None:
        """Copy the ring into a file (`file` is its descriptor), which then is a trace. Raises OSError."""
        size = os.fstat(self._file).st_size
        at = 0
        while at < size:
            try:
                at = os.lseek(self._file, at, os.SEEK_DATA)
            except OSError:  # the rest is a hole
                break
            end = os.lseek(self._file, at, os.SEEK_HOLE)
            while at < end:
                data = os.pread(self._file, min(1 << 20, end - at), at)
                if not data:
                    break
                at += os.pwrite(file, data, at)  # on a full disk perhaps less than all
        os.ftruncate(file, size)
