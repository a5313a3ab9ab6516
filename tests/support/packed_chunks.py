"""Packs chunks of events as the collector does, one event after the other: HW__CHUNK_PACKED of native/trace/format.h."""

from pathlib import Path

import numpy as np

from headway.traces import format as hwt
from headway.traces.writer import CHUNKS_OFFSET

_TIME_BYTES = (1, 2, 3, 8)
_VALUE_BYTES = (0, 1, 2, 4)


def packed(events: np.ndarray) -> bytes:
    """Return the events (EVENT_DTYPE) of a chunk in their packed form."""
    controls, kinds, times, values, flags = (bytearray() for _ in range(5))
    end_ns, before = 0, None
    for time_ns, value, kind, gil, flag in events.tolist():
        step = (time_ns - end_ns) % 2**64
        of_time = next((code for code, size in enumerate(_TIME_BYTES[:3]) if step < 1 << 8 * size), 3)
        of_flags = (flag.bit_length() + 7) // 8
        of_value = 0
        if before is None or value != before[0]:
            of_value = next(code for code, size in enumerate(_VALUE_BYTES) if code and value < 1 << 8 * size)
        has_kind = before is None or (kind, gil) != before[1:]
        times += step.to_bytes(_TIME_BYTES[of_time], "little")
        values += value.to_bytes(_VALUE_BYTES[of_value], "little") if of_value else b""
        flags += flag.to_bytes(of_flags, "little")
        kinds += bytes([kind, gil]) if has_kind else b""
        controls.append(
            of_time << hwt.PACKED_TIME
            | of_flags << hwt.PACKED_FLAGS
            | of_value << hwt.PACKED_VALUE
            | has_kind * hwt.PACKED_KIND
        )
        end_ns, before = time_ns + (flag if kind == hwt.HOLD else 0), (value, kind, gil)
    return bytes(controls + kinds + times + values + flags)


def pack_file(path: Path, *, every: int = 1) -> Path:
    """Pack the chunks of events of a trace file, each at its place; with `every` of 2 each second one, and so on."""
    data = bytearray(path.read_bytes())
    found = 0
    for at in range(CHUNKS_OFFSET, len(data), hwt.CHUNK_BYTES):
        head = np.frombuffer(bytes(data[at : at + hwt.CHUNK_HEADER_BYTES]), hwt.CHUNK_DTYPE).copy()
        if head["kind"][0] != hwt.CHUNK_EVENTS:
            continue
        found += 1
        if found % every:
            continue
        room = at + hwt.CHUNK_HEADER_BYTES
        events = np.frombuffer(bytes(data[room : room + int(head["used"][0])]), hwt.EVENT_DTYPE)
        content = packed(events)
        head["kind"], head["used"], head["events"] = hwt.CHUNK_PACKED, len(content), len(events)
        data[at : at + hwt.CHUNK_BYTES] = (head.tobytes() + content).ljust(hwt.CHUNK_BYTES, b"\0")
    path.write_bytes(data)
    return path


def _rounded(used: int) -> int:
    return hwt.CHUNK_HEADER_BYTES + max(64, -(-used // 64) * 64)


def share_places(path: Path) -> Path:
    """Move the chunks of events to as few places as they fit into, as the collector does."""
    data = bytearray(path.read_bytes())
    place, end, last = None, 0, 0
    for at in range(CHUNKS_OFFSET, len(data), hwt.CHUNK_BYTES):
        head = np.frombuffer(bytes(data[at : at + hwt.CHUNK_HEADER_BYTES]), hwt.CHUNK_DTYPE)[0]
        if head["kind"] not in {hwt.CHUNK_EVENTS, hwt.CHUNK_PACKED}:
            continue
        size = _rounded(int(head["used"]))
        if place is None or end + size > hwt.CHUNK_BYTES:
            place, end, last = at, size, 0
            continue
        data[place + end : place + end + size] = data[at : at + size]
        data[at : at + hwt.CHUNK_BYTES] = bytes(hwt.CHUNK_BYTES)
        field = place + last + hwt.CHUNK_DTYPE.fields["next"][1]
        data[field : field + 4] = (end - last - hwt.CHUNK_HEADER_BYTES).to_bytes(4, "little")
        last, end = end, end + size
    path.write_bytes(data)
    return path
