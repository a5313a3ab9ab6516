"""A trace's page: its columns are the trace's holds and waits."""

import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from made_traces import MS, UNKNOWN_FRAME, made_trace, traces
from sample import examples
from told_traces import AT_SERVE, SERVE, Script, convoy

from headway.report.html import columns as packing
from headway.report.html import render_page, trace_page
from headway.report.html.columns import Cut, End
from headway.traces.analysis import analyse
from headway.traces.analysis.intervals import recorded
from headway.traces.export.parks import parks
from headway.traces.frames import CUT
from headway.traces.model import Frame, Kind, Park


def page_of(*given_traces):
    page, blocks = trace_page([("", [(one, analyse(one)) for one in given_traces])], "0")
    return page, blocks


def unpacked(view, block):
    """Return the columns of a block as the page reads them."""
    data, at, found = np.frombuffer(zlib.decompress(block), dtype=np.uint8), 0, {}
    for column in view.columns:
        planes = data[at : at + column.rows * column.width].reshape(column.width, column.rows).astype(np.uint64)
        found[column.name] = sum(plane << np.uint64(8 * place) for place, plane in enumerate(planes))
        at += column.rows * column.width
    assert at == len(data)
    return {name: np.asarray(values, dtype=np.int64) for name, values in found.items()}


def intervals(view, columns, kind):
    """Yield (lane, start, end, stack) of every hold or wait."""
    for place, lane in enumerate(view.lanes):
        first, count = (lane.first_hold, lane.holds) if kind == "hold" else (lane.first_wait, lane.waits)
        at = 0
        for row in range(first, first + count):
            start = at + int(columns[f"{kind}_gap"][row])
            at = start + int(columns[f"{kind}_length"][row])
            yield place, start, at, int(columns[f"{kind}_stack"][row])


def packed_whole(trace, lanes, whole):
    """Return the data of a trace's whole time for a page that gives `whole` intervals one by one."""
    found, window = recorded(trace), (trace.start_ns, trace.end_ns)
    holds, waits = Cut.to(window, found.holds), Cut.to(window, found.waits)
    return packing.pack(lanes, holds, waits, window, (trace.stack_parent, trace.stack_frame), whole=whole)


def test_the_timeline_has_every_hold_and_wait():
    """The timeline has the thread, time, length and stack of every hold and wait of the convoy."""
    trace = convoy()
    page, blocks = page_of(trace)
    (view,) = page.views
    columns = unpacked(view, blocks[view.block])
    found = recorded(trace)

    labels = [lane.label for lane in view.lanes]
    for kind, wanted in (("hold", found.holds), ("wait", found.waits)):
        shown = sorted((start, end, labels[lane], stack) for lane, start, end, stack in intervals(view, columns, kind))
        assert shown == sorted(
            (int(start) - trace.start_ns, int(end) - trace.start_ns, trace.threads[thread].name, int(stack))
            for start, end, thread, stack in zip(
                wanted.start_ns, wanted.end_ns, wanted.thread, wanted.stack, strict=True
            )
        )
        assert shown
    assert (columns["hold_flags"] & End.FORCED > 0).sum() == found.holds.forced.sum() > 0
    assert [mark.kind for mark in view.marks].count("convoy") == 5
    assert "reader, which waits in convoys, waited 5 ms" in {mark.text for mark in view.marks}


def test_the_waits_of_a_pool_whose_threads_have_one_name_are_marked():
    """A pool is found by its threads, also if their labels differ in their native ids only."""
    page, _ = page_of(convoy(rounds=40, waiters=("worker",) * 10))
    (view,) = page.views

    assert [mark.kind for mark in view.marks].count("convoy") == 5


@examples(60)
@given(traces())
def test_nothing_is_lost_in_the_columns(trace):
    """The columns of any trace have all time held and waited, in each stack, and the rows that the lanes name."""
    page, blocks = page_of(trace)
    (view,) = page.views
    columns = unpacked(view, blocks[view.block])
    found, parked = recorded(trace), parks(trace)

    assert int(columns["hold_length"].sum()) == int(found.holds.length_ns.sum()) == int(columns["stack_held"].sum())
    waited = int(found.waits.length_ns.sum()) + int((parked.end_ns - parked.start_ns).sum())
    assert int(columns["wait_length"].sum()) == int(columns["stack_waited"].sum()) == waited
    assert sum(lane.waits for lane in view.lanes) == len(found.waits) + len(parked)
    assert sum(lane.holds for lane in view.lanes) == len(columns["hold_gap"]) == len(found.holds)
    ends = [end for kind in ("hold", "wait") for _, _, end, _ in intervals(view, columns, kind)]
    assert max(ends, default=0) <= view.span_ns
    for mark in view.marks:
        assert 0 <= mark.lane < len(view.lanes)
        assert 0 <= mark.at_ns <= mark.until_ns <= view.span_ns
    render_page(page, blocks)


def test_a_frame_has_its_function_and_its_line_apart():
    """A function's name may have blanks, and the frame that stands for frames that are not recorded has no file."""
    frames = (UNKNOWN_FRAME, Frame("/a/b/c/app.py", 7, "a name of blanks", 5), CUT, SERVE)
    page, _ = page_of(replace(Script().hold(0, 0, 1).trace(2), frames=frames))

    shown = [(one.function, one.place, one.file) for one in page.views[0].frames[:3]]
    assert shown == [("?", "?", ""), ("a name of blanks", ".../b/c/app.py:7", "/a/b/c/app.py"), (CUT.function, "?", "")]


def test_waits_for_locks_have_lanes_of_their_own():
    """On a build without a GIL no thread held it, and a wait is as long as its park."""
    script = Script().park(0, 10, 35, Park.LOCK, stack=AT_SERVE).park(1, 20, 30, Park.OBJECT)
    trace = script.trace(50, "one", "two", gils=0, free_threaded=True, gil_enabled=False)
    page, blocks = page_of(trace)
    (view,) = page.views
    columns = unpacked(view, blocks[view.block])

    assert [(lane.label, lane.gil, lane.summary) for lane in view.lanes] == [
        ("one", -1, "waited for locks 25 ms"),
        ("two", -1, "waited for locks 10 ms"),
    ]
    assert [one[:3] for one in intervals(view, columns, "wait")] == [(0, 10 * MS, 35 * MS), (1, 20 * MS, 30 * MS)]


def test_a_thread_at_two_gils_has_two_lanes_and_marks_name_the_gil():
    """The lanes of one thread have its index, and a mark says at which GIL the hold was."""
    script = Script().hold(0, 0, 5).hold(0, 10, 13, gil=1).hold(1, 20, 21)
    (view,) = page_of(script.trace(30, "both", "one", gils=2))[0].views

    assert [(lane.label, lane.thread, lane.gil) for lane in view.lanes] == [
        ("both", 0, 0),
        ("one", 1, 0),
        ("both", 0, 1),
    ]
    assert [mark.text.partition(" at ")[0] for mark in view.marks] == [
        "both held the main GIL for 5 ms",
        "both held GIL 1 for 3 ms",
        "one held the main GIL for 1 ms",
    ]


def test_a_long_trace_is_shares_and_its_longest(monkeypatch):
    """A trace with more intervals than fit has bins that add up to the whole time, and rows for the longest only."""
    monkeypatch.setattr(packing, "LONGEST", 50)
    trace = made_trace(events=4000, threads=3, seed=2)
    found = recorded(trace)
    of = [(0, thread) for thread in range(3)]
    packed = packed_whole(trace, of, 1000)

    assert packed.bins == packing.BINS
    assert [sum(row[place] for row in packed.rows) for place in (1, 3)] == [50, 50]
    columns = unpacked(packed, packed.block)
    width_ns = (trace.end_ns - trace.start_ns) / packed.bins
    held_ns = columns["bin_held"].sum() / 65_535 * width_ns
    assert held_ns == pytest.approx(float(found.holds.length_ns.sum()), rel=0.01)
    shortest = int(np.sort(found.holds.length_ns)[-50])
    assert int(columns["hold_length"].min()) == shortest


def test_a_moment_in_a_long_trace_is_not_rounded_away():
    """A hold that takes a tiny share of its bin is in the bin, and the lane's times are exact."""
    script = Script().hold(0, 400_000, 400_000.0001).hold(1, 500_000, 600_000)
    trace = script.trace(1_000_000, "moment", "busy")
    packed = packed_whole(trace, [(0, 0), (0, 1)], 0)

    held = unpacked(packed, packed.block)["bin_held"].reshape(2, packed.bins)
    assert held[0].sum() == 1
    assert held[1].max() == 65_535
    lanes = page_of(trace)[0].views[0].lanes
    assert {lane.label: (lane.held_ns, lane.waited_ns) for lane in lanes} == {
        "moment": (100, 0),
        "busy": (100_000 * MS, 0),
    }


def test_thousands_of_lanes_have_fewer_bins():
    """The number of bins is bounded over all lanes, so that a thread for each request does not cost gigabytes."""
    trace = made_trace(events=20_000, threads=2_000, seed=3)
    packed = packed_whole(trace, [(0, thread) for thread in range(2_000)], 0)

    assert packed.bins == 2_000
    assert next(one.rows for one in packed.columns if one.name == "bin_held") == 4_000_000


def test_a_launch_of_several_processes_has_one_title():
    """The title has the program's name and the number of processes."""
    other = convoy(pid=4243, parent_pid=4242)
    page, _ = page_of(convoy(), other)

    assert page.title == "app.py (2 processes)"
    assert [view.title for view in page.views] == ["app.py (pid 4242)", "app.py (pid 4243)"]


def test_a_window_is_cut_and_begins_at_nought():
    """A window has only what lies in it, in times from its own start."""
    trace = convoy()
    window = (trace.start_ns + 20 * MS, trace.start_ns + 40 * MS)
    analysis = analyse(trace, since_ns=window[0], until_ns=window[1])
    page, blocks = trace_page([("", [(trace, analysis)])], "0")
    (view,) = page.views

    assert (view.begin_ns, view.span_ns) == (20 * MS, 20 * MS)
    held = list(intervals(view, unpacked(view, blocks[view.block]), "hold"))
    assert held
    assert all(0 <= start <= end <= view.span_ns for _, start, end, _ in held)


def test_an_interval_that_was_not_seen_whole_has_flags():
    """Holds and waits that the window cuts have flags for it, and those without a recorded end have theirs."""
    script = Script().hold(0, 0, 30, forced=True).wait(1, 10).hold(1, 30, 40).add(45, 0, Kind.ACQUIRE).wait(1, 46)
    trace = script.trace(60, "one", "two")
    whole = [(End.FORCED, 0, 0, 30), (0, 1, 30, 40), (End.OPEN, 0, 45, 60), (0, 1, 10, 30), (End.OPEN, 1, 46, 60)]
    cases: list[tuple[int | None, int | None, list[tuple[int, int, int, int]]]] = [
        (None, None, whole),
        (20, 40, [(End.FORCED | End.BEFORE, 0, 0, 10), (0, 1, 10, 20), (End.BEFORE, 1, 0, 10)]),
        (5, 15, [(End.FORCED | End.BEFORE | End.AFTER, 0, 0, 10), (End.AFTER, 1, 5, 10)]),
    ]
    for since, until, wanted in cases:
        window = [None if one is None else trace.start_ns + one * MS for one in (since, until)]
        page, blocks = trace_page([("", [(trace, analyse(trace, since_ns=window[0], until_ns=window[1]))])], "0")
        (view,) = page.views
        columns = unpacked(view, blocks[view.block])
        shown = [
            (flags, view.lanes[lane].label, start, end)
            for kind in ("hold", "wait")
            for flags, (lane, start, end, _) in zip(
                columns[f"{kind}_flags"], intervals(view, columns, kind), strict=True
            )
        ]
        assert sorted(shown) == sorted(
            (flags, ("one", "two")[thread], start * MS, end * MS) for flags, thread, start, end in wanted
        )


def test_a_thread_is_only_text():
    """A thread with a name like the end of a script is escaped in the page."""
    trace = convoy()
    hostile = "</script><img src=x onerror=alert(1)>"
    trace = replace(trace, threads=tuple(replace(one, name=hostile) for one in trace.threads))
    page, blocks = page_of(trace)

    shown = render_page(page, blocks)
    assert "<img" not in shown
    assert shown.count("</script>") == 3


def test_a_million_events_fit():
    """A page of a million events is at most 6 MB."""
    trace = made_trace(events=1_000_000, threads=6, seed=1)
    page, blocks = page_of(trace)

    assert len(trace.events) >= 1_000_000
    assert page.views[0].bins == 0
    assert len(render_page(page, blocks)) <= 6_000_000
