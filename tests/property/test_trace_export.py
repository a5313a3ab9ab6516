"""Exports of any valid traces agree with the traces, and meet their formats' requirements."""

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from export_checks import (
    expected_slices,
    expected_stack,
    profile_stack,
    read_gecko,
    read_perfetto,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from made_traces import made_process, made_trace, traces

from headway.traces.analysis.intervals import recorded
from headway.traces.export import FORMATS, perfetto
from headway.traces.export.parks import parks
from headway.traces.model import Flag, Kind

some_traces = st.lists(traces(), min_size=1, max_size=2)


def exported(name, of):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "out"
        FORMATS[name](of, path)
        assert [one.name for one in Path(folder).iterdir()] == ["out"]
        return {
            "perfetto": read_perfetto,
            "gecko": read_gecko,
            "parquet": pq.read_table,
        }.get(name, Path.read_text)(path)


@given(some_traces)
@settings(deadline=None)
def test_perfetto_slices_are_the_holds_waits_and_parks(several):
    """A Perfetto export has exactly the trace's holds, waits and parks as slices, with their stacks."""
    sequences, _ = exported("perfetto", several)

    assert len(sequences) == len(several)
    for trace, sequence in zip(several, sequences.values(), strict=True):
        assert sequence.thread_slices() == expected_slices(trace)
        if len(trace.stack_frame) > 1:
            found = recorded(trace)
            stacks = [int(one) for kind in (found.holds, found.waits, parks(trace)) for one in kind.stack]
            expected = Counter(tuple(expected_stack(trace, stack)) for stack in stacks)
            assert Counter(tuple(s) for of in sequence.slices.values() for *_, s, _ in of if s) == expected


@given(traces())
@settings(deadline=None)
def test_perfetto_counts_who_waits(trace):
    """The counter of a GIL is, at every time, the number of waits that are open then."""
    sequence = exported("perfetto", [trace])[0][1]

    waits = recorded(trace).waits
    for gil in range(len(trace.gils)):
        mine = waits.chosen(waits.gil == gil)
        points = sequence.counters[sequence.of_process(f"threads that wait for GIL {gil}")]
        assert [time for time, _ in points] == sorted({time for time, _ in points})
        for time, value in points:
            assert value == np.count_nonzero((mine.start_ns <= time) & (mine.end_ns > time))


@given(traces())
@settings(deadline=None)
def test_perfetto_shows_who_holds_each_gil(trace):
    """The slices on the GILs' tracks are its holds, one after the other."""
    sequence = exported("perfetto", [trace])[0][1]

    holds = recorded(trace).holds
    for gil in trace.gils:
        track = sequence.of_process(f"GIL {gil.index} ({'main' if gil.main else 'sub-interpreter'})")
        slices = [(start, end) for start, end, *_ in sequence.slices[track]]
        mine = holds.chosen(holds.gil == gil.index)
        assert slices == list(zip(mine.start_ns.tolist(), mine.end_ns.tolist(), strict=True))


@given(some_traces)
@settings(deadline=None)
def test_gecko_weights_are_the_time_held(several):
    """In a Firefox profile, every stack's weight is the time held with it, to the nanosecond."""
    profile = exported("gecko", several)

    at = 0
    for trace in several:
        holds = recorded(trace).holds
        for index in range(len(trace.threads)):
            mine = holds.chosen(holds.thread == index)
            expected = Counter()
            for stack, length in zip(mine.stack.tolist(), mine.length_ns.tolist(), strict=True):
                expected[tuple(expected_stack(trace, stack))] += length
            samples, found = profile["threads"][at]["samples"], Counter()
            for stack, weight in zip(samples["stack"], samples["weight"], strict=True):
                found[tuple(profile_stack(profile, stack))] += round(weight * 1e6)
            assert +found == +expected
            at += 1
    assert at == len(profile["threads"])


@given(some_traces)
@settings(deadline=None)
def test_gecko_markers_are_the_intervals(several):
    """In a Firefox profile every hold, wait and park is a marker with its times."""
    profile = exported("gecko", several)

    threads = iter(profile["threads"])
    start_ns = min(trace.start_ns for trace in several)
    titles = {"holds GIL": "GIL hold", "waits for GIL": "GIL wait", "waits for lock": "Lock wait"}
    for trace in several:
        expected = Counter(
            (thread, titles[state], start, length) for thread, state, start, length, _ in expected_slices(trace)
        )
        found = Counter()
        for index in range(len(trace.threads)):
            markers = next(threads)["markers"]
            for name, *times in zip(markers["name"], markers["startTime"], markers["endTime"], strict=True):
                start, end = (start_ns + round(time_ms * 1e6) for time_ms in times)
                found[index, profile["shared"]["stringArray"][name], start, end - start] += 1
        assert found == expected


@given(some_traces, st.sampled_from(["hold", "wait"]))
@settings(deadline=None)
def test_collapsed_weights_add_up(several, what):
    """Folded stacks have one line for each thread and stack; the weights add up to all time held, or waited for GILs and locks."""
    lines = exported(f"collapsed-{what}", several).splitlines()

    total = sum(int(getattr(recorded(trace), f"{what}s").length_ns.sum()) for trace in several)
    if what == "wait":
        total += sum(int((one.end_ns - one.start_ns).sum()) for one in map(parks, several))
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == total
    assert all(line.rpartition(" ")[0].count(";") >= 2 for line in lines)


@given(some_traces)
@settings(deadline=None)
def test_parquet_rows_are_the_events(several):
    """A Parquet export that is read back has the trace's events, with names in place of indices."""
    found = exported("parquet", several).to_pylist()

    at = 0
    for trace in several:
        for event in trace.events:
            row, kind = found[at], Kind(event["kind"])
            thread = trace.threads[event["thread"]]
            located = kind in {Kind.WAIT, Kind.RELEASE, Kind.PARK}
            stack = int(event["value"]) if located else 0
            assert (row["time_ns"], row["kind"], row["gil"]) == (event["time_ns"], kind.name, event["gil"])
            assert (row["pid"], row["thread"], row["tid"]) == (trace.process.pid, thread.serial, thread.tid)
            assert row["thread_name"] == thread.name
            assert row["forced"] == bool(kind == Kind.RELEASE and event["flags"] & Flag.FORCED)
            assert row["assumed"] == bool(kind == Kind.ACQUIRE and event["flags"] & Flag.ASSUMED)
            assert row["stack"] == (stack if located else None)
            assert row["location"] == (str(trace.stack(stack)[0]) if stack else None)
            assert row["frames"] == ("\n".join(map(str, trace.stack(stack)[::-1])) if stack else None)
            assert (row["lock"] is not None) == (kind in {Kind.PARK, Kind.UNPARK})
            assert row["type"] == ((trace.types[event["value"]] or None) if kind == Kind.UNPARK else None)
            assert row["interval_us"] == (event["value"] if kind == Kind.INTERVAL else None)
            at += 1
    assert at == len(found)


@pytest.mark.parametrize("gils", [1, 2])
def test_a_trace_over_many_blocks_is_whole(tmp_path, monkeypatch, gils):
    """A Perfetto export that is written in many blocks keeps every slice, in order."""
    monkeypatch.setattr(perfetto, "_BLOCK_EVENTS", 64)
    trace = made_trace(threads=6, events=4000, gils=gils, process=made_process(pid=77))
    path = tmp_path / "out"

    FORMATS["perfetto"]([trace], path)

    assert read_perfetto(path)[0][1].thread_slices() == expected_slices(trace)
