"""The trace file (.hwt), version 3, as numpy types: native/trace/format.h, name by name.

The header native/trace/format.h is the specification and says what everything means. A test compares each size, offset
and number with it. The names here are the header's without `HW__`; `struct hw__chunk` is `CHUNK_DTYPE`.
"""

import numpy as np

__all__ = [
    "ACQUIRE",
    "ASSUMED",
    "BUCKETS",
    "CHUNK_BYTES",
    "CHUNK_CLOSED",
    "CHUNK_DTYPE",
    "CHUNK_EVENTS",
    "CHUNK_HEADER_BYTES",
    "CHUNK_META",
    "CHUNK_OPEN",
    "CHUNK_PACKED",
    "COLLECTED",
    "COMMAND_BYTES",
    "COUNTERS_ONLY",
    "EVENT_DTYPE",
    "EXIT",
    "FORCED",
    "FORMAT_VERSION",
    "FREE_THREADED",
    "GIL_ENABLED",
    "HEADER_BYTES",
    "HEADER_DTYPE",
    "HOLD",
    "INTERVAL",
    "MAGIC",
    "MAX_DEPTH",
    "META_CODE",
    "META_CODE_DTYPE",
    "META_DTYPE",
    "META_GIL",
    "META_GIL_DTYPE",
    "META_GIL_END",
    "META_NAME",
    "META_NAME_DTYPE",
    "META_NODE",
    "META_NODE_DTYPE",
    "META_NOTE",
    "META_NOTE_DTYPE",
    "META_TYPE",
    "META_TYPE_DTYPE",
    "NAME_BYTES",
    "NO_GIL",
    "OPTIONS_BYTES",
    "PACKED_FLAGS",
    "PACKED_KIND",
    "PACKED_TIME",
    "PACKED_VALUE",
    "PARK",
    "PARK_AGAIN",
    "PARK_EVENT",
    "PARK_LOCK",
    "PARK_MUTEX",
    "PARK_OBJECT",
    "PARK_WORLD",
    "PATH_BYTES",
    "RAN_ALL",
    "RAN_SHIFT",
    "READ_VERSIONS",
    "RELEASE",
    "REQUEST",
    "SLOT_DTYPE",
    "SLOT_FREE",
    "SLOT_HOLDING",
    "SLOT_IDLE",
    "SLOT_WAITING",
    "STACKS",
    "STRUCTS",
    "SUBINTERPRETERS",
    "UNPACKED_VERSION",
    "UNPARK",
    "WAIT",
]

MAGIC = b"\x89HWT\r\n\x1a\n"
FORMAT_VERSION = 3
UNPACKED_VERSION = 2
"""It had no packed chunks."""
READ_VERSIONS = (UNPACKED_VERSION, FORMAT_VERSION)
"""The versions that the reader reads."""
HEADER_BYTES = 4096
CHUNK_BYTES = 16384
CHUNK_HEADER_BYTES = 128
NAME_BYTES = 64
BUCKETS = 36
WORLD_BUCKETS = 16
COMMAND_BYTES = 1024
PATH_BYTES = 512
OPTIONS_BYTES = 512

# header.flags
FREE_THREADED = 1
GIL_ENABLED = 2
STACKS = 4
COUNTERS_ONLY = 8
SUBINTERPRETERS = 16

# slot.state
SLOT_FREE = 0
SLOT_IDLE = 1
SLOT_WAITING = 2
SLOT_HOLDING = 3


# chunk.kind, chunk.state
CHUNK_EVENTS = 1
CHUNK_META = 2
CHUNK_PACKED = 3
CHUNK_OPEN = 1
CHUNK_CLOSED = 2

# the byte of a packed event
PACKED_TIME = 0
PACKED_FLAGS = 2
PACKED_VALUE = 4
PACKED_KIND = 0x40

# event.kind, event.flags
WAIT = 1
ACQUIRE = 2
RELEASE = 3
REQUEST = 4
EXIT = 5
PARK = 6
UNPARK = 7
INTERVAL = 8
HOLD = 9
COLLECTED = 10
FORCED = 1
ASSUMED = 2
RAN_SHIFT = 8
RAN_ALL = 254
PARK_AGAIN = 4
PARK_MUTEX = 0x100
NO_GIL = 255
PARK_OBJECT = 0x200
PARK_WORLD = 0x300
PARK_LOCK = 0x400
PARK_EVENT = 0x500

# meta.type
META_GIL = 1
META_GIL_END = 2
META_CODE = 3
META_NODE = 4
META_NAME = 5
META_TYPE = 6
META_NOTE = 7
MAX_DEPTH = 128

HEADER_DTYPE = np.dtype(
    [
        ("magic", "V8"),
        ("version", "<u4"),
        ("header_bytes", "<u4"),
        ("family", "<u8"),
        ("pid", "<i4"),
        ("parent_pid", "<i4"),
        ("python_version", "<u4"),
        ("flags", "<u4"),
        ("start_ns", "<i8"),
        ("start_realtime_ns", "<i8"),
        ("end_ns", "<i8"),
        ("slot_count", "<u4"),
        ("slot_bytes", "<u4"),
        ("slots_offset", "<u8"),
        ("chunk_bytes", "<u4"),
        ("chunk_count", "<u4"),
        ("chunks_offset", "<u8"),
        ("chunks_taken", "<u8"),
        ("dropped_events", "<u8"),
        ("overwritten_events", "<u8"),
        ("lost_stacks", "<u8"),
        ("gil_count", "<u4"),
        ("thread_count", "<u4"),
        ("interval_us", "<u4"),
        ("core_count", "<u4"),
        ("overwritten_until_ns", "<i8"),
        ("command", f"V{COMMAND_BYTES}"),
        ("executable", f"V{PATH_BYTES}"),
        ("program", f"V{PATH_BYTES}"),
        ("known_until_ns", "<i8"),
        ("left_ns", "<i8"),
        ("policy", f"V{NAME_BYTES}"),
        ("lost_interval_ns", "<i8"),
        ("lost_interval_us", "<u4"),
        ("executed", "<u4"),
        ("process_start_ns", "<i8"),
        ("lived_until_ns", "<i8"),
        ("removed_files", "<u4"),
        ("unrecorded_processes", "<u4"),
        ("policy_end_ns", "<i8"),
        ("policy_options", f"V{OPTIONS_BYTES}"),
    ],
    align=True,
)
SLOT_DTYPE = np.dtype(
    [
        ("state", "<u4"),
        ("serial", "<u4"),
        ("tid", "<i4"),
        ("gil", "<u4"),
        ("since_ns", "<i8"),
        ("holds", "<u8"),
        ("hold_ns", "<u8"),
        ("waits", "<u8"),
        ("wait_ns", "<u8"),
        ("forced", "<u8"),
        ("worst_wait_ns", "<u8"),
        ("worst_hold_ns", "<u8"),
        ("world_ns", "<u8"),
        ("reserved", "<u8"),
        ("name", f"V{NAME_BYTES}"),
        ("wait_buckets", "<u4", BUCKETS),
        ("hold_buckets", "<u4", BUCKETS),
        ("world_buckets", "<u4", WORLD_BUCKETS),
    ],
    align=True,
)
CHUNK_DTYPE = np.dtype(
    [
        ("state", "<u4"),
        ("kind", "<u4"),
        ("used", "<u4"),
        ("owner", "<u4"),
        ("sequence", "<u8"),
        ("tid", "<i4"),
        ("named", "<u4"),
        ("thread_start_ns", "<i8"),
        ("name", f"V{NAME_BYTES}"),
        ("lost_interval_ns", "<i8"),
        ("lost_interval_us", "<u4"),
        ("number", "<u4"),
        ("next", "<u4"),
        ("events", "<u4"),
    ],
    align=True,
)
EVENT_DTYPE = np.dtype(
    [("time_ns", "<i8"), ("value", "<u4"), ("kind", "u1"), ("gil", "u1"), ("flags", "<u2")],
    align=True,
)
META_DTYPE = np.dtype([("type", "<u2"), ("reserved", "<u2"), ("bytes", "<u4")], align=True)
META_GIL_DTYPE = np.dtype(
    [("meta", META_DTYPE), ("index", "<u4"), ("main", "<u4"), ("address", "<u8"), ("time_ns", "<i8")],
    align=True,
)
META_CODE_DTYPE = np.dtype(
    [
        ("meta", META_DTYPE),
        ("id", "<u4"),
        ("first_line", "<i4"),
        ("filename_bytes", "<u4"),
        ("qualname_bytes", "<u4"),
        ("linetable_bytes", "<u4"),
        ("filename_kind", "u1"),
        ("qualname_kind", "u1"),
        ("reserved", "<u2"),
    ],
    align=True,
)
META_NODE_DTYPE = np.dtype(
    [("meta", META_DTYPE), ("id", "<u4"), ("parent", "<u4"), ("code", "<u4"), ("offset", "<i4")], align=True
)
META_NAME_DTYPE = np.dtype(
    [("meta", META_DTYPE), ("tid", "<i4"), ("name_bytes", "<u4"), ("time_ns", "<i8")], align=True
)
META_TYPE_DTYPE = np.dtype([("meta", META_DTYPE), ("id", "<u4"), ("name_bytes", "<u4")], align=True)
META_NOTE_DTYPE = np.dtype([("meta", META_DTYPE), ("note_bytes", "<u4"), ("reserved", "<u4")], align=True)

STRUCTS = {
    "header": HEADER_DTYPE,
    "slot": SLOT_DTYPE,
    "chunk": CHUNK_DTYPE,
    "event": EVENT_DTYPE,
    "meta": META_DTYPE,
    "meta_gil": META_GIL_DTYPE,
    "meta_code": META_CODE_DTYPE,
    "meta_node": META_NODE_DTYPE,
    "meta_name": META_NAME_DTYPE,
    "meta_type": META_TYPE_DTYPE,
    "meta_note": META_NOTE_DTYPE,
}
"""The types by the name of the C struct without `hw__`."""
