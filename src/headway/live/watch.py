"""Read the live counters of a recorded process from outside, without stopping the process or being noticed by it.

A recorded process maps a memfd named `headway`, which begins with the header and the counters of native/trace/format.h.
The process keeps a descriptor of the memfd only if no collector writes a file; otherwise the counters are read through
the process's memory. Reads use pread() and not mmap(), so that pages that the process never touched stay unallocated.

The process may belong to another user, and may be hostile. No number in its memory makes us read or allocate more than
the process has, and never more than `_MOST_SLOTS` threads take.
"""

import contextlib
import fcntl
import os
import struct
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from headway.errors import RecordingError
from headway.live.beginnings import beginnings
from headway.live.counters import Rates, Snapshot, decode, difference
from headway.live.descriptors import above_streams, close_own, identity
from headway.live.files import descendants
from headway.live.header import COUNTERS_ONLY, FIELDS_BYTES, FORMAT_VERSION, Header, header_in
from headway.live.lived import incarnation_of
from headway.live.own_gils import HeldGil, OwnGils
from headway.live.proc import ids_in, status
from headway.live.slots import FREE, SLOT_BYTES, SLOT_HEAD, ThreadCounters, changed
from headway.live.switched_on import GilSwitch
from headway.live.thread_ids import ThreadIds

__all__ = [
    "History",
    "Monitor",
    "Sample",
    "Watch",
    "WatchEndedError",
    "counts_only",
    "is_of_this_process",
    "is_recorded",
    "process_of",
]

_MEMFD = "/memfd:headway (deleted)"
_READS = 5  # attempts until two consecutive reads of a slot agree
_TRIES = 20  # attempts for a child that records nothing (yet)
_MOST_SLOTS = 1 << 16  # 20 MiB of counters; many times the recorder's number of slots
_MOST_OFFSET = 1 << 24
_FLOCK = "hhqqi"  # struct flock of fcntl(2)


class WatchEndedError(RecordingError):
    """No more can be read: the process ended or started another program, or its recording was ended."""


def process_of(pid: int) -> int:
    """Return the id of the process that a native thread's id belongs to (a process's id is its own); 0 for none."""
    try:
        return int(status(pid).get("Tgid", "0"))
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _candidates(pid: int) -> list[tuple[str, int]]:
    """Return paths at which the process's counters may be readable, each with the offset at which they begin."""
    found = []
    with contextlib.suppress(FileNotFoundError), os.scandir(f"/proc/{pid}/fd") as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if os.readlink(entry.path) == _MEMFD:
                    found.append((entry.path, 0))
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields = line.rstrip("\n").split(maxsplit=5)
            if len(fields) == 6 and fields[5] == _MEMFD and int(fields[2], 16) == 0:
                # Only root may use the first path; only a user who may trace the process may use the second one.
                found.append((f"/proc/{pid}/map_files/{fields[0]}", 0))
                found.append((f"/proc/{pid}/mem", int(fields[0].partition("-")[0], 16)))
    return found


def is_recorded(pid: int) -> bool:
    """Return whether a process has counters that can be read."""
    try:
        Watch(pid).close()
    except RecordingError:
        return False
    return True


def counts_only(pid: int) -> bool:
    """Return whether a process has counters that can be read, and records nothing else."""
    try:
        with Watch(pid) as one:
            return one.counters_only
    except RecordingError:
        return False


def is_of_this_process(trace: bytes) -> bool:
    """Tell whether a trace is of what this process records now; one of another container may have our id in its name.

    Raises:
        RecordingError: This process is not recorded.
    """
    header = header_in(trace)
    if header is None:
        return False
    with Watch(os.getpid()) as one:
        return header.start_ns == one.snapshot().start_ns


def _fits(header: Header) -> bool:
    """Return whether the number and the offset of the slots in a header are within the bounds."""
    return 0 < header.slot_count <= _MOST_SLOTS and header.slots_offset <= _MOST_OFFSET


def _read_header(fd: int, base: int) -> Header | None:
    try:
        return header_in(os.pread(fd, FIELDS_BYTES, base))
    except OSError:
        return None  # the memory is not mapped any more


class Watch:
    """The counters of one recorded process. Close it, or use it in a `with`."""

    def __init__(self, pid: int) -> None:
        """Find the counters.

        Args:
            pid: The process's id.

        Raises:
            RecordingError: The process does not exist, may not be traced by this user, or is not recorded.
        """
        self.pid = pid
        self._fd, self._base = -1, 0
        self._identity = 0, 0
        """The device and inode of the counters' file, which in our own process the program may close."""
        try:
            incarnation = incarnation_of(pid)
            if incarnation is None:
                raise RecordingError(
                    f"there is no process {pid}", hint="`pgrep -a python` lists Python processes"
                ) from None
            own_pid = ids_in(status(pid))[-1]
            header = self._open(own_pid)
        except (FileNotFoundError, ProcessLookupError):
            raise RecordingError(f"process {pid} has ended") from None
        except PermissionError:
            raise RecordingError(
                f"you may not read process {pid}",
                hint="watch it as its user, or as root; in a container, root needs CAP_SYS_PTRACE",
            ) from None
        if header is None:
            raise RecordingError(
                f"process {pid} is not recorded", hint=f"`headway top {pid}` starts counting and watches it"
            )
        self._incarnation = incarnation
        self._header = header
        self._switch = GilSwitch(pid)
        self._own_gils = OwnGils(pid)
        self._held: set[HeldGil] = set()
        self._ids = ThreadIds(pid)
        self._began_ns: dict[int, int] = {}

    def _open(self, own_pid: int) -> Header | None:
        for path, base in _candidates(self.pid):
            try:
                fd = above_streams(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY))
            except OSError:
                continue
            header = _read_header(fd, base)
            # Until its own first event, a forked child has its parent's header.
            ours = header is not None and header.pid == own_pid and header.end_ns == 0
            if ours and header is not None and header.version != FORMAT_VERSION:
                os.close(fd)
                raise RecordingError(
                    f"process {self.pid} is recorded in format {header.version}, expected {FORMAT_VERSION}",
                    hint="it runs under another version of Headway: watch it with that version",
                )
            if ours and header is not None and header.slot_bytes == SLOT_BYTES:
                if not _fits(header):
                    os.close(fd)
                    raise RecordingError(
                        f"the counters of process {self.pid} are not valid: {header.slot_count} threads, at byte"
                        f" {header.slots_offset}; expected at most {_MOST_SLOTS}, below byte {_MOST_OFFSET}",
                        hint="Headway's recorder did not write them: do not trust this process",
                    )
                self._fd, self._base, self._identity = fd, base, identity(fd)
                return header
            os.close(fd)
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the counters; the process goes on as before."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            close_own(fd, self._identity)

    @property
    def program(self) -> str:
        """The program's name for users: see headway.printable."""
        text = self._header.program.split(b"\0", 1)[0].decode("utf-8", "replace")
        return text or f"process {self.pid}"

    @property
    def has_gil(self) -> bool:
        """Whether the process has a GIL: False if free-threaded, with the GIL off as far as is known."""
        return self._header.has_gil or self.gil_came_on

    @property
    def gil_came_on(self) -> bool:
        """Whether the GIL was off when the recording began, and an extension module has switched it on since."""
        return not self._header.has_gil and self._switch.is_on()

    def unreleased(self, threads: Iterable[ThreadCounters]) -> tuple[int, ...]:
        """Return the ids of threads that hold a sub-interpreter's own GIL, and have not acquired it since the counting began.

        Only threads that held it at the last call, too, are returned: of those, the counters are known to be complete.

        Args:
            threads: The counters of the process's threads.
        """
        held = set(self._own_gils.held())
        kept, self._held = held & self._held, held
        return tuple(sorted({one.tid for one in kept} - {one.tid for one in threads if one.gil}))

    @property
    def counters_only(self) -> bool:
        """Whether the process records only counters."""
        return bool(self._header.flags & COUNTERS_ONLY)

    def join(self) -> bool:
        """Keep the counting going for as long as this watch is open; return whether others want it, too.

        The request is a lock on the counters' file: the kernel drops the lock when its owner ends, however that
        happens.
        """
        others = self._wanted_by_others()
        fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, 0, 1, 0))
        return others

    def leave(self) -> bool:
        """Withdraw the request of `join`; return whether others still want the counting."""
        if self._fd < 0:
            return False
        fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_UNLCK, os.SEEK_SET, 0, 1, 0))
        return self._wanted_by_others()

    def _wanted_by_others(self) -> bool:
        # The query takes no lock: two processes that query at the same time do not mistake each other for a third one.
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        kind: int = struct.unpack(_FLOCK, fcntl.fcntl(self._fd, fcntl.F_OFD_GETLK, asked))[0]
        return kind != fcntl.F_UNLCK

    def snapshot(self) -> Snapshot:
        """Return the counters at this moment.

        Raises:
            WatchEndedError: The process ended or started another program, or its recording was ended.
        """
        header = self._alive()
        count = min(self._header.slot_count, header.thread_count)
        time_ns = time.monotonic_ns()
        slots = self._read(count)
        for _ in range(_READS - 1):
            # A slot that a hand-off has half written differs at the next read.
            again_ns = time.monotonic_ns()
            again = self._read(count)
            torn = changed(slots, again)
            slots, time_ns = again, again_ns
            if not torn:
                break
        else:
            # Slots whose threads change faster than we read: their state at this moment is unknown.
            free = {at for at in torn if SLOT_HEAD.unpack_from(slots, at)[0] == FREE}
            slots = b"".join(slots[at : at + SLOT_BYTES] for at in range(0, len(slots), SLOT_BYTES) if at not in free)
        found = decode(header, slots, time_ns)
        return replace(found, has_gil=self.has_gil, began_ns=self._beginnings(found.threads))

    def _beginnings(self, threads: tuple[ThreadCounters, ...]) -> dict[int, int]:
        """Return when these threads began, by serial; the kernel is asked once for each."""
        new = {one.serial: one.tid for one in threads if one.serial not in self._began_ns}
        began_ns = beginnings(self.pid, new.values(), self._ids)
        known_ns = self._began_ns | {serial: began_ns[tid] for serial, tid in new.items()}
        self._began_ns = {one.serial: known_ns[one.serial] for one in threads}
        return self._began_ns

    def _alive(self) -> Header:
        if self._fd < 0:
            raise WatchEndedError(f"the watch of process {self.pid} is closed")
        incarnation = incarnation_of(self.pid)
        if incarnation is None or incarnation[0] != self._incarnation[0]:
            raise WatchEndedError(f"process {self.pid} has ended")
        if incarnation != self._incarnation:
            raise WatchEndedError(f"process {self.pid} has started another program")
        header = _read_header(self._fd, self._base)
        if header is None or header.end_ns != 0:
            raise WatchEndedError(f"the recording of process {self.pid} was ended")
        return header

    def _read(self, count: int) -> bytes:
        """Return the whole ones of the first slots."""
        block = os.pread(self._fd, count * SLOT_BYTES, self._base + self._header.slots_offset)
        return block[: len(block) - len(block) % SLOT_BYTES]


class History:
    """The snapshots of the last seconds of one recording."""

    def __init__(self, window_s: float = 5.0) -> None:
        self._window_ns = int(window_s * 1e9)
        self._kept: deque[Snapshot] = deque()

    def add(self, snapshot: Snapshot) -> None:
        """Add a snapshot; drop those older than the window, or all if the snapshot is of another recording."""
        if self._kept and self._kept[-1].start_ns != snapshot.start_ns:
            self._kept.clear()
        self._kept.append(snapshot)
        while len(self._kept) > 2 and self._kept[1].time_ns <= snapshot.time_ns - self._window_ns:
            self._kept.popleft()

    def interval(self) -> Rates | None:
        """Return the rates between the last two snapshots; None if there are fewer than two."""
        return difference(self._kept[-2], self._kept[-1]) if len(self._kept) > 1 else None

    def window(self) -> Rates | None:
        """Return the rates over the window, or since the recording began; None for fewer than two snapshots."""
        return difference(self._kept[0], self._kept[-1]) if len(self._kept) > 1 else None


@dataclass(frozen=True, slots=True)
class Sample:
    """The rates of one process in the last interval and over the window."""

    pid: int
    program: str
    has_gil: bool
    interval: Rates
    window: Rates
    gil_came_on: bool = False
    """An extension module has switched the GIL of a free-threaded build on since the recording began."""
    unreleased: tuple[int, ...] = ()
    """The ids of threads that have held a sub-interpreter's own GIL since before the counting, which counts nothing of it."""


class Monitor:
    """Samples a process again and again, and on request its recorded descendants, too."""

    def __init__(self, pid: int, *, children: bool = False, window_s: float = 5.0) -> None:
        """Prepare the monitor; the process need not be recorded yet.

        Args:
            pid: The process's id.
            children: Watch the process's descendants, too.
            window_s: The time that percentiles cover.
        """
        self.pid = pid
        self._children = children
        self._window_s = window_s
        self._incarnation = incarnation_of(pid)
        self._watches: dict[int, tuple[Watch, History]] = {}
        self._tries: dict[int, tuple[tuple[str, ...] | None, int]] = {}  # of a process: its program, and how many
        self._again: deque[int] = deque()
        self.ended = ""
        """Why the process itself was counted no more at last; "" before that."""

    @property
    def alive(self) -> bool:
        """Whether the process itself exists, whatever program it runs."""
        now = incarnation_of(self.pid)
        return now is not None and self._incarnation is not None and now[0] == self._incarnation[0]

    @property
    def watched(self) -> tuple[int, ...]:
        """The processes whose counters are read."""
        return tuple(self._watches)

    def close(self) -> None:
        """Close all watches."""
        for watch, _ in self._watches.values():
            watch.close()
        self._watches.clear()

    def look_again(self, pid: int) -> None:
        """Look for the counters of a process also if it had none for long: it has just begun. Any thread may call it."""
        self._again.append(pid)

    def sample(self) -> list[Sample]:
        """Read all counters; a process has a sample from its second reading on."""
        while self._again:
            self._tries.pop(self._again.popleft(), None)
        pids = [self.pid, *(descendants(self.pid) if self._children else ())]
        for pid in set(self._watches) - set(pids):
            self._drop(pid)
        self._tries = {pid: tries for pid, tries in self._tries.items() if pid in pids}
        found = []
        for pid in pids:
            watch, history = self._read(pid)
            if watch is None or history is None:
                continue
            interval, window = history.interval(), history.window()
            if interval is not None and window is not None:
                unreleased = watch.unreleased(one.now for one in interval.threads)
                found.append(Sample(pid, watch.program, watch.has_gil, interval, window, watch.gil_came_on, unreleased))
        return found

    def _read(self, pid: int) -> tuple[Watch | None, History | None]:
        """Add a snapshot to a process's history; if its recording has ended, look once for the next one."""
        for _ in range(2):
            try:
                known = self._watches.get(pid) or self._begin(pid)
                if known is None:
                    return None, None
                known[1].add(known[0].snapshot())
            except WatchEndedError as error:
                self.ended = error.message if pid == self.pid else self.ended
                self._drop(pid)
                self._tries.pop(pid, None)
            else:
                return known
        return None, None

    def _begin(self, pid: int) -> tuple[Watch, History] | None:
        program = None
        with contextlib.suppress(PermissionError):
            program = incarnation_of(pid)
        tried, tries = self._tries.get(pid, (None, 0))
        if program != tried:  # exec() keeps the id, and the new program may be Python
            tries = 0
        if pid != self.pid and tries >= _TRIES:
            return None
        try:
            known = Watch(pid), History(self._window_s)
        except WatchEndedError:
            raise
        except RecordingError:
            self._tries[pid] = program, tries + 1
            return None
        known[0].unreleased(())  # the first look; the next one tells which are still held
        self._watches[pid] = known
        return known

    def _drop(self, pid: int) -> None:
        known = self._watches.pop(pid, None)
        if known is not None:
            known[0].close()
