"""Make an image of live counters for a test: header and slots as the recorder keeps them in shared memory."""

import os

import numpy as np

from headway.live.counters import Snapshot, decode
from headway.live.header import header_in
from headway.traces import format as hwt

SLOTS_OFFSET = 65536
STATES = {"exited": hwt.SLOT_FREE, "away": hwt.SLOT_IDLE, "waiting": hwt.SLOT_WAITING, "holding": hwt.SLOT_HOLDING}


def make_header(slot_count=8, **fields):
    """Return the header of a recording of this process."""
    header = np.zeros(1, hwt.HEADER_DTYPE)
    facts = {
        "magic": np.void(hwt.MAGIC),
        "version": hwt.FORMAT_VERSION,
        "pid": os.getpid(),
        "flags": hwt.GIL_ENABLED,
        "start_ns": 1000,
        "slot_count": slot_count,
        "slot_bytes": hwt.SLOT_DTYPE.itemsize,
        "slots_offset": SLOTS_OFFSET,
        "program": np.void(b"made.py".ljust(hwt.PATH_BYTES, b"\0")),
    } | fields
    for name, value in facts.items():
        header[name] = value
    return header


def make_slots(*threads, slot_count=8):
    """Return slots for `threads`, each of which is a dict of a slot's fields.

    The name is a text, the state a word, and `waits_of`, `holds_of` and `worlds_of` are {bucket: n}.
    """
    slots = np.zeros(slot_count, hwt.SLOT_DTYPE)
    for slot, thread in zip(slots, threads, strict=False):
        facts = {"tid": 100 + thread["serial"], "state": "away"} | thread
        for which in ("wait", "hold", "world"):
            for bucket, count in facts.pop(f"{which}s_of", {}).items():
                slot[f"{which}_buckets"][bucket] = count
        facts["state"] = STATES[facts["state"]]
        facts["name"] = np.void(facts.pop("name", f"t{facts['serial']}").encode().ljust(hwt.NAME_BYTES, b"\0"))
        for name, value in facts.items():
            slot[name] = value
    return slots


def make_snapshot(time_ns, *threads, slot_count=8, **fields) -> Snapshot:
    """Return a snapshot of the counters at `time_ns`."""
    fields = {"thread_count": max((thread["serial"] for thread in threads), default=0)} | fields
    header = header_in(make_header(slot_count, **fields).tobytes())
    assert header is not None
    return decode(header, make_slots(*threads, slot_count=slot_count).tobytes(), time_ns)


def image(*threads, **fields) -> bytes:
    """Return a trace file without chunks."""
    header = make_header(**{"thread_count": len(threads)} | fields).tobytes()
    return header.ljust(SLOTS_OFFSET, b"\0") + make_slots(*threads).tobytes()
