"""Small traces to export, and what every export must be, checked against the format's own schema where there is one."""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import jsonschema
import numpy as np
from google.protobuf.unknown_fields import UnknownFieldSet
from made_traces import made_process
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

from headway.traces.analysis.intervals import recorded
from headway.traces.export.parks import parks
from headway.traces.export.text import clean, location
from headway.traces.model import EVENT_DTYPE, Frame, Gil, Kind, Process, Thread, Trace

SCHEMA = json.loads((Path(__file__).parents[1] / "schemas" / "firefox_profile_60.json").read_text())
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4


ODD = 'é😀 \udcff"\\;\n\u2028'


def small_trace(events, *, frames=(), process: Process | None = None, **changes) -> Trace:
    """Return a trace of (time, thread, kind, value, flags); frame i is stack i, called by stack i - 1."""
    rows = [(time, value, thread, kind, 0, flags) for time, thread, kind, value, flags in events]
    values = {
        "process": process or made_process(),
        "start_ns": 1000,
        "end_ns": 9000,
        "events": np.array(rows, dtype=EVENT_DTYPE),
        "threads": (Thread(1, 4242, "MainThread", 1000, None), Thread(2, 4243, "w-1", 1000, None)),
        "gils": (Gil(0, True, 1, 1000, None),),
        "stack_parent": np.maximum(np.arange(len(frames) + 1) - 1, 0),
        "stack_frame": np.arange(len(frames) + 1),
        "frames": (Frame("", 0, "?"), *frames),
    }
    return Trace(**(values | changes))


TWO_FRAMES = (Frame("app.py", 40, "main", 36), Frame("app.py", 12, "handle", 9))
HANDED_OVER = [
    (1000, 0, Kind.ACQUIRE, 0, 0),
    (1500, 1, Kind.WAIT, 1, 0),
    (6500, 1, Kind.REQUEST, 0, 0),
    (6600, 0, Kind.RELEASE, 2, 1),
    (6700, 1, Kind.ACQUIRE, 0, 0),
    (6900, 1, Kind.RELEASE, 0, 0),
]


def leaf(trace, stack: int, unknown: str) -> str:
    """Return what a slice at a stack is called."""
    return location(trace.frames[trace.stack_frame[stack]]) if stack else unknown


def expected_slices(trace) -> list[tuple]:
    """Return (thread, state, start, length, name) of every hold, wait and park."""
    found = recorded(trace)
    kinds = {"holds GIL": found.holds, "waits for GIL": found.waits, "waits for lock": parks(trace)}
    return sorted(
        (
            int(one.thread[i]),  # type: ignore[attr-defined]
            state,
            int(one.start_ns[i]),  # type: ignore[attr-defined]
            int(one.end_ns[i] - one.start_ns[i]),  # type: ignore[attr-defined]
            leaf(trace, int(one.stack[i]), state),  # type: ignore[attr-defined]
        )
        for state, one in kinds.items()
        for i in range(len(one))
    )


def expected_stack(trace, stack: int) -> list[tuple[str, str, int]]:
    """Return a stack as (function, file, line), outermost first."""
    frames = trace.stack(stack)[::-1] or trace.frames[:1]
    return [(clean(one.function), clean(one.filename), one.line) for one in frames]


# Perfetto


@dataclass
class Sequence:
    """What one process's packets say."""

    interned: dict = field(default_factory=lambda: defaultdict(dict))
    tracks: dict = field(default_factory=dict)
    slices: dict = field(default_factory=lambda: defaultdict(list))  # track -> (start, end, name, stack, notes)
    open: dict = field(default_factory=lambda: defaultdict(list))
    instants: list = field(default_factory=list)  # (track, time, name, flows, last flows, depth)
    counters: dict = field(default_factory=lambda: defaultdict(list))
    last_ns: int = 0

    def threads(self) -> list[int]:
        """Return the threads' tracks, in the order of the trace's threads."""
        return [uuid for uuid, one in self.tracks.items() if one.HasField("thread")]

    def thread_slices(self) -> list[tuple]:
        """Return (thread, state, start, length, name) of every slice on the threads' tracks."""
        threads = {uuid: index for index, uuid in enumerate(self.threads())}
        return sorted(
            (threads[one.parent_uuid], one.name.rstrip(" 0123456789"), start, end - start, name)
            for uuid, one in self.tracks.items()
            if one.parent_uuid in threads
            for start, end, name, _, _ in self.slices[uuid]
        )

    def of_process(self, name: str) -> int:
        """Return a process's track by its name."""
        process = next(uuid for uuid, one in self.tracks.items() if one.HasField("process"))
        return next(u for u, one in self.tracks.items() if one.parent_uuid == process and one.name == name)


def read_perfetto(path: Path) -> tuple[dict[int, Sequence], object]:
    """Return the sequences of a Perfetto trace and its clock snapshot, having checked what the format asks for."""
    trace = perfetto_trace_pb2.Trace.FromString(path.read_bytes())
    no_unknown_fields(trace)
    sequences, snapshots, uuids = {}, [], set()
    for packet in trace.packet:
        number = packet.trusted_packet_sequence_id
        assert number > 0
        if number not in sequences:
            assert packet.first_packet_on_sequence
            assert packet.sequence_flags == 3
            assert packet.trace_packet_defaults.timestamp_clock_id == 3
            sequences[number] = Sequence()
        sequence = sequences[number]
        kind = packet.WhichOneof("data")
        if kind == "clock_snapshot":
            snapshots.append(packet.clock_snapshot)
        elif kind == "track_descriptor":
            one = packet.track_descriptor
            assert one.uuid not in uuids
            assert not one.parent_uuid or one.parent_uuid in sequence.tracks
            uuids.add(one.uuid)
            sequence.tracks[one.uuid] = one
        elif kind == "track_event":
            assert snapshots
            assert packet.sequence_flags == 2
            assert packet.timestamp >= sequence.last_ns
            sequence.last_ns = packet.timestamp
            read_event(sequence, packet.timestamp, packet.track_event)
        for name, entries in packet.interned_data.ListFields():
            for entry in entries:
                assert entry.iid > 0
                assert entry.iid not in sequence.interned[name.name]
                sequence.interned[name.name][entry.iid] = entry
    for sequence in sequences.values():
        assert not any(sequence.open.values())
    assert len(snapshots) == 1
    return sequences, snapshots[0]


def no_unknown_fields(message) -> None:
    """Assert that the schema knows every field of a message."""
    assert len(UnknownFieldSet(message)) == 0
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None:
            for one in value if descriptor.is_repeated else [value]:
                no_unknown_fields(one)


def read_event(sequence: Sequence, time_ns: int, event) -> None:
    """Take in one packet: every number that it names is defined, and ends follow begins."""
    interned = sequence.interned
    track = event.track_uuid
    assert track in sequence.tracks
    assert all(one in interned["event_categories"] for one in event.category_iids)
    is_counter = sequence.tracks[track].HasField("counter")
    assert is_counter == (event.type == COUNTER)
    if event.type == BEGIN:
        stack = read_stack(sequence, event.callstack_iid) if event.HasField("callstack_iid") else None
        notes = {}
        for note in event.debug_annotations:
            which = note.WhichOneof("value")
            value = getattr(note, which)
            known = interned["debug_annotation_string_values"]
            notes[interned["debug_annotation_names"][note.name_iid].name] = (
                known[value].str.decode() if which == "string_value_iid" else value
            )
        sequence.open[track].append((time_ns, interned["event_names"][event.name_iid].name, stack, notes))
    elif event.type == END:
        start_ns, name, stack, notes = sequence.open[track].pop()
        sequence.slices[track].append((start_ns, time_ns, name, stack, notes))
    elif event.type == INSTANT:
        name = interned["event_names"][event.name_iid].name
        depth = len(sequence.open[track])
        sequence.instants.append((track, time_ns, name, list(event.flow_ids), list(event.terminating_flow_ids), depth))
    else:
        assert event.type == COUNTER
        sequence.counters[track].append((time_ns, event.counter_value))


def read_stack(sequence: Sequence, iid: int) -> list[tuple[str, str, int]]:
    """Return an interned stack as (function, file, line), outermost first."""
    interned = sequence.interned
    frames = [interned["frames"][one] for one in interned["callstacks"][iid].frame_ids]
    assert frames
    return [
        (
            interned["function_names"][one.function_name_id].str.decode(),
            interned["source_paths"][one.source_path_iid].str.decode() if one.source_path_iid else "",
            one.line_number,
        )
        for one in frames
    ]


# Firefox Profiler


def read_gecko(path: Path) -> dict:
    """Return a profile, having checked it against the schema and every index in it."""
    profile = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(SCHEMA).validate(profile)
    shared = profile["shared"]
    strings = len(shared["stringArray"])
    lengths = {name: shared[name]["length"] for name in shared if name != "stringArray"}
    for name in lengths:
        equal_columns(shared[name])
    within(shared["sources"]["filename"], strings)
    within(shared["funcTable"]["name"], strings)
    within(shared["funcTable"]["source"], lengths["sources"])
    within(shared["funcTable"]["resource"], lengths["resourceTable"], least=-1)
    within(shared["frameTable"]["func"], lengths["funcTable"])
    within(shared["frameTable"]["category"], len(profile["meta"]["categories"]))
    within(shared["stackTable"]["frame"], lengths["frameTable"])
    for index, prefix in enumerate(shared["stackTable"]["prefix"]):
        assert prefix is None or prefix < index
    schemas = {one["name"]: one for one in profile["meta"]["markerSchema"]}
    keys = set()
    for thread in profile["threads"]:
        assert (thread["pid"], thread["tid"]) not in keys
        keys.add((thread["pid"], thread["tid"]))
        samples, markers = thread["samples"], thread["markers"]
        equal_columns(samples)
        equal_columns(markers)
        assert samples["length"] > 0
        assert samples["time"] == sorted(samples["time"])
        within(samples["stack"], lengths["stackTable"])
        assert markers["startTime"] == sorted(markers["startTime"])
        within(markers["name"], strings)
        within(markers["category"], len(profile["meta"]["categories"]))
        for start, end, data in zip(markers["startTime"], markers["endTime"], markers["data"], strict=True):
            assert start <= end
            fields = {one["key"]: one["format"] for one in schemas[data["type"]]["fields"]}
            for key, value in data.items():
                if fields.get(key) == "unique-string":
                    within([value], strings)
                else:
                    assert key in fields or key in {"type", "cause"}
            if "cause" in data:
                within([data["cause"]["stack"]], lengths["stackTable"])
    return profile


def equal_columns(table: dict) -> None:
    """Assert that all columns of a table are as long as it says."""
    assert {len(column) for column in table.values() if isinstance(column, list)} <= {table["length"]}


def within(indices: list, length: int, *, least: int = 0) -> None:
    """Assert that indices, where there are any, are of a table of that length."""
    assert all(one is None or least <= one < length for one in indices)


def profile_stack(profile: dict, stack: int | None) -> list[tuple[str, str, int]]:
    """Return a profile's stack as (function, file, line), outermost first."""
    shared, found = profile["shared"], []
    while stack is not None:
        frame = shared["stackTable"]["frame"][stack]
        function = shared["frameTable"]["func"][frame]
        source = shared["funcTable"]["source"][function]
        found.append(
            (
                shared["stringArray"][shared["funcTable"]["name"][function]],
                "" if source is None else shared["stringArray"][shared["sources"]["filename"][source]],
                shared["frameTable"]["line"][frame] or 0,
            )
        )
        stack = shared["stackTable"]["prefix"][stack]
    return found[::-1]
