"""Decodes the counters of a process's threads from the memory that it records into (struct hw__slot).

Needs no numpy, because the watcher, which runs beside a service all the time, reads them.
"""

import struct
from dataclasses import dataclass
from mmap import mmap
from typing import Final, NamedTuple

__all__ = [
    "BUCKETS",
    "FREE",
    "HOLDING",
    "IDLE",
    "SLOT",
    "SLOT_BYTES",
    "SLOT_HEAD",
    "WAITING",
    "WORLD_BUCKETS",
    "Slot",
    "ThreadCounters",
    "changed",
    "serial_of",
    "steady_counters",
    "thread_counters",
]

# native/trace/format.h; a test holds them against traces/format.py.
FREE, IDLE, WAITING, HOLDING = 0, 1, 2, 3
BUCKETS: Final = 36
WORLD_BUCKETS: Final = 16
SLOT_BYTES: Final = 512
SLOT_HEAD: Final = struct.Struct("<IIiIqQQQQQQ")
SLOT: Final = struct.Struct(f"<IIiIqQQQQQQQQ8x64s{BUCKETS}I{BUCKETS}I{WORLD_BUCKETS}I")
_HEAD_FIELDS: Final = 13
_TELLING_BYTES: Final = 56
"""The fields of a slot from `state` to `wait_ns`."""
_READS: Final = 3
_STATES: Final = {FREE: "exited", IDLE: "away", WAITING: "waiting", HOLDING: "holding"}


class Slot(NamedTuple):
    """The first counters of a thread, as SLOT_HEAD has them: those that are read many times a second."""

    state: int
    serial: int
    tid: int
    gil: int
    since_ns: int
    holds: int
    hold_ns: int
    waits: int
    wait_ns: int
    forced: int
    worst_wait_ns: int


@dataclass(frozen=True, slots=True)
class ThreadCounters:
    """The counters of one thread since its first event in this recording."""

    serial: int
    """The thread's number in the recording: native ids are used again, serials are not."""
    tid: int
    name: str
    """The name that the program gave: see headway.printable."""
    gil: int
    """The GIL that the thread acquired last."""
    state: str
    """One of: holding, waiting, away (it neither has nor wants the GIL), or exited for a thread that has ended."""
    state_ns: int
    """The time in this state; 0 for exited threads."""
    holds: int
    """How often the thread acquired the GIL."""
    hold_ns: int
    """The time of all holds, including the one in progress."""
    waits: int
    """The number of ended waits."""
    wait_ns: int
    """The time of all waits, including the one in progress."""
    forced: int
    """How often the thread released the GIL because of a request."""
    worst_wait_ns: int
    """The longest ended wait."""
    worst_hold_ns: int
    wait_buckets: tuple[int, ...]
    """[i] counts waits from 2^(i-1) to below 2^i ns; the last one also counts all longer waits."""
    hold_buckets: tuple[int, ...]
    """The same counts for ended holds."""
    world_ns: int
    """The time of all ended waits for stop-the-world, which are among the waits, too."""
    world_buckets: tuple[int, ...]
    """[i] counts ended waits for stop-the-world below 4^(i+5) ns that no earlier bucket counts."""


def serial_of(slots: bytes, at: int) -> int:
    """Return the number of the thread whose counters are at this offset; 0 if no thread ever had this slot."""
    return int.from_bytes(slots[at + 4 : at + 8], "little")


def changed(slots: bytes, again: bytes) -> set[int]:
    """Return the offsets of the slots in `again` that differ from an earlier reading, or that it does not have.

    A thread's state, its serial, its holds and its waits are compared: all that it writes in one hand-off.
    """
    return {
        at
        for at in range(0, len(again), SLOT_BYTES)
        if slots[at : at + _TELLING_BYTES] != again[at : at + _TELLING_BYTES]
    }


def thread_counters(data: "bytes | mmap", at: int, time_ns: int) -> ThreadCounters:
    """Return the counters in a slot.

    Args:
        data: Memory of the process.
        at: The slot's offset in it.
        time_ns: CLOCK_MONOTONIC, from before the slot was read.
    """
    fields = SLOT.unpack_from(data, at)
    state, serial, tid, gil, since_ns, holds, hold_ns, waits, wait_ns, forced = fields[:10]
    worst_wait_ns, worst_hold_ns, world_ns = fields[10:_HEAD_FIELDS]
    name = fields[_HEAD_FIELDS].split(b"\0", 1)[0].decode("utf-8", "replace")
    buckets = fields[_HEAD_FIELDS + 1 :]
    word = _STATES.get(state, "away")
    state_ns = max(0, time_ns - since_ns) if state != FREE else 0
    return ThreadCounters(
        serial=serial,
        tid=tid,
        name=name or f"thread {tid}",
        gil=gil,
        state=word,
        state_ns=state_ns,
        holds=holds,
        hold_ns=hold_ns + (state_ns if state == HOLDING else 0),
        waits=waits,
        wait_ns=wait_ns + (state_ns if state == WAITING else 0),
        forced=forced,
        worst_wait_ns=worst_wait_ns,
        worst_hold_ns=worst_hold_ns,
        wait_buckets=buckets[:BUCKETS],
        hold_buckets=buckets[BUCKETS : 2 * BUCKETS],
        world_ns=world_ns,
        world_buckets=buckets[2 * BUCKETS :],
    )


def steady_counters(data: "bytes | mmap", at: int, time_ns: int) -> ThreadCounters | None:
    """Return the counters in a slot that a thread may just write to; None if no thread has the slot.

    A thread clears the slot that it takes over, so a reading at that moment would be half of each thread's. A reading
    at the end of a long hold would count this hold twice. Therefore a slot that changes is read again.

    Args:
        data: Memory of the process.
        at: The slot's offset in it.
        time_ns: CLOCK_MONOTONIC, from before the slot was read.
    """
    found = None
    for _ in range(_READS):
        before = Slot._make(SLOT_HEAD.unpack_from(data, at))
        found = thread_counters(data, at, time_ns)
        after = Slot._make(SLOT_HEAD.unpack_from(data, at))
        if before == after:
            break
        if before.serial != after.serial:
            found = None
    return found if found is not None and found.serial else None
