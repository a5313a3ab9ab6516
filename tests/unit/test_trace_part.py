"""Reading a part of a long trace: the same events, threads and figures of the whole as from reading it all."""

import dataclasses

import numpy as np
import pytest
from made_traces import MS, START_NS, made_process, made_trace, small
from patched_traces import patch_header

from headway.sim.replay.window import overview_of
from headway.traces.invariants import violations
from headway.traces.model import Flag, Kind
from headway.traces.reader import read, read_part
from headway.traces.writer import write

TRACES = {
    "several GILs": made_trace(events=6_000, threads=7, gils=2),
    "one GIL": made_trace(events=4_000, threads=3, seed=1),
    "no stacks": made_trace(events=2_000, threads=3, stacks=False),
}


def part_of(path, share, least):
    """Return a part that begins at a share of a trace, the overview, and the part's chosen beginning."""
    chosen = []

    def choose(whole):
        chosen.append(whole.start_ns + int(share * (whole.end_ns - whole.start_ns)))
        return chosen[0], least

    return *read_part(path, choose, most=1_000), chosen[0]


@pytest.mark.parametrize("short_holds", [False, True])
@pytest.mark.parametrize("name", TRACES)
def test_the_overview_of_a_file_is_that_of_the_trace(tmp_path, name, short_holds):
    """A file that is only surveyed gives the figures of one that is read: its releases by part and frame, its waits."""
    path = write(TRACES[name], tmp_path / "app.hwt", events_per_chunk=50, short_holds=short_holds)
    _, found, _ = part_of(path, 0.5, 100)
    expected = overview_of(read(path))

    assert (found.start_ns, found.end_ns) == (expected.start_ns, expected.end_ns)
    np.testing.assert_array_equal(found.released, expected.released)
    assert found.waited_ns == expected.waited_ns


@pytest.mark.parametrize("share", [0.01, 0.3, 0.97])
@pytest.mark.parametrize("name", TRACES)
def test_a_part_has_the_events_of_the_whole(tmp_path, name, share):
    """A part has every event after its beginning until its end, and what was open at its beginning begins there."""
    path = write(TRACES[name], tmp_path / "app.hwt", events_per_chunk=30, short_holds=True)
    whole = read(path)
    part, _, since_ns = part_of(path, share, 500)

    assert violations(part) == []
    assert part.loss.whole
    assert [one.serial for one in part.threads] == [one.serial for one in whole.threads]
    assert (part.start_ns, part.stack_frame.tolist()) == (since_ns, whole.stack_frame.tolist())
    inside = (whole.events["time_ns"] >= since_ns) & (whole.events["time_ns"] <= part.end_ns)
    later = part.events["time_ns"] > since_ns
    np.testing.assert_array_equal(part.events[later], whole.events[inside & (whole.events["time_ns"] > since_ns)])
    assert np.count_nonzero(inside) >= 500 or part.end_ns == whole.end_ns
    assert np.count_nonzero(inside) < 1_500
    for gil in range(len(whole.gils)):
        of_gil = (whole.events["gil"] == gil) & np.isin(whole.events["kind"], (Kind.ACQUIRE, Kind.RELEASE))
        before = whole.events[of_gil & (whole.events["time_ns"] < since_ns)]
        held = [one["thread"] for one in before[-1:] if one["kind"] == Kind.ACQUIRE]
        assumed = part.events[(part.events["gil"] == gil) & (part.events["flags"] & Flag.ASSUMED != 0)]
        assert [one["thread"] for one in assumed] == held
        assert set(assumed["time_ns"].tolist()) <= {since_ns}


def test_a_short_trace_is_read_in_whole(tmp_path):
    """A trace with few events needs no part, and the function that would choose one is not called."""
    path = write(TRACES["no stacks"], tmp_path / "app.hwt")
    trace, overview = read_part(path, lambda _: pytest.fail("a short trace"), most=2_000)

    assert overview is None
    np.testing.assert_array_equal(trace.events, read(path).events)


def test_a_part_has_the_switch_interval_that_was_set_before_it(tmp_path):
    """The last change before the part counts, although its event is not read; a later one is an event of the part."""
    rows = [(9 * MS + 20, Kind.INTERVAL, 0, 0, 700), (11 * MS + 20, Kind.INTERVAL, 0, 0, 800)]
    rows += [(500 * MS + 20, Kind.INTERVAL, 0, 0, 900)]
    for number in range(700):
        rows += [(number * MS, Kind.ACQUIRE, 0), (number * MS + 10, Kind.RELEASE, 0)]
    trace = small(sorted(rows, key=lambda row: row[0]), end=700 * MS)
    path = write(trace, tmp_path / "app.hwt", events_per_chunk=20)
    part, _, _ = part_of(path, 0.4, 500)

    assert part.process.interval_us == 800
    assert part.events["value"][part.events["kind"] == Kind.INTERVAL].tolist() == [900]


@pytest.mark.parametrize("how", ["part", "overwritten"])
@pytest.mark.parametrize(("share", "policy"), [(None, "fair"), (0.9, "fair"), (0.0001, "")])
def test_the_end_of_the_policy_counts_from_the_begin_of_what_is_left(tmp_path, how, share, policy):
    """The policy ends at the same time as before; if it ended before the first event that is left, there was none."""
    trace = TRACES["one GIL"]
    ended_ns = None if share is None else int(share * (trace.end_ns - trace.start_ns))
    trace = dataclasses.replace(trace, process=made_process(policy="fair", policy_ended_ns=ended_ns))
    path = write(trace, tmp_path / "app.hwt", events_per_chunk=30, room=None if how == "part" else 60)
    found = part_of(path, 0.5, 500)[0] if how == "part" else read(path)
    cut_off_ns = found.start_ns - START_NS

    assert cut_off_ns > 0
    assert found.process.policy == policy
    assert found.process.policy_ended_ns == (ended_ns - cut_off_ns if ended_ns and policy else None)


def test_the_front_of_a_file_that_was_overwritten_is_no_part(tmp_path):
    """An overview begins where the trace does, and a part that would begin earlier begins there, too."""
    path = write(TRACES["one GIL"], tmp_path / "app.hwt", events_per_chunk=30, room=60)
    whole = read(path)
    part, overview, since_ns = part_of(path, 0.0, 300)

    assert whole.start_ns > START_NS
    assert overview.start_ns == since_ns == part.start_ns == whole.start_ns
    np.testing.assert_array_equal(overview.released, overview_of(whole).released)
    assert part.loss.overwritten_events > 0
    later = part.events["time_ns"] > since_ns
    inside = (whole.events["time_ns"] > since_ns) & (whole.events["time_ns"] <= part.end_ns)
    np.testing.assert_array_equal(part.events[later], whole.events[inside])


def test_a_file_that_grows_is_known_until_a_time_only(tmp_path):
    """Events after the time until which all events are known are in neither the overview nor a part."""
    path = write(TRACES["one GIL"], tmp_path / "app.hwt", events_per_chunk=30)
    until_ns = int(TRACES["one GIL"].events["time_ns"][3_000])
    patch_header(path, "end_ns", 0)
    patch_header(path, "known_until_ns", until_ns)
    whole = read(path)
    part, overview, since_ns = part_of(path, 0.9, 5_000)

    assert part.process.growing
    assert (overview.end_ns, part.end_ns) == (until_ns, until_ns)
    np.testing.assert_array_equal(overview.released, overview_of(whole).released)
    later = part.events["time_ns"] > since_ns
    np.testing.assert_array_equal(part.events[later], whole.events[whole.events["time_ns"] > since_ns])
