"""Laws of the analysis of traces, for all traces."""

import json
from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from made_traces import made_trace, traces
from rich.cells import cell_len
from rich.console import Console
from sample import examples

from headway.report.trace.terminal import render_traces, short_summary
from headway.traces.analysis import analyse, as_json
from headway.traces.analysis.blame import blame, meet, waited_during
from headway.traces.analysis.intervals import recorded
from headway.traces.analysis.utilisation import per_bucket
from headway.traces.model import Kind, Park


def walked(trace):
    """Return holds and waits as (start, end, thread, gil), found by a walk through the events one by one."""
    holds, waits, doing = [], [], {}
    for event in trace.events:
        time, thread, gil = int(event["time_ns"]), int(event["thread"]), int(event["gil"])
        kind = event["kind"]
        if kind in {Kind.ACQUIRE, Kind.RELEASE, Kind.EXIT} and thread in doing:
            what, start, of_gil = doing.pop(thread)
            what.append((start, time, thread, of_gil))
        if kind in {Kind.ACQUIRE, Kind.WAIT}:
            doing[thread] = (holds if kind == Kind.ACQUIRE else waits, time, gil)
    for thread, (what, start, gil) in doing.items():
        what.append((start, trace.end_ns, thread, gil))
    return sorted(holds), sorted(waits)


def columns(intervals):
    kept = (intervals.start_ns, intervals.end_ns, intervals.thread, intervals.gil)
    return sorted(zip(*(column.tolist() for column in kept), strict=True))


def overlap(one, other):
    return max(0, min(one[1], other[1]) - max(one[0], other[0]))


small = st.one_of(
    traces(),
    st.builds(
        made_trace,
        threads=st.integers(3, 8),
        events=st.integers(0, 120),
        seed=st.integers(0, 99),
        gils=st.integers(1, 3),
        cpu_share=st.floats(0, 1),
    ),
)


@given(small)
def test_holds_and_waits_are_what_a_walk_through_the_events_finds(trace):
    """Pairing by columns gives the same holds and waits as a walk from event to event."""
    found = recorded(trace)

    assert (columns(found.holds), columns(found.waits)) == walked(trace)
    assert found.unpaired == 0


@given(small, st.integers(1, 70), st.integers(1, 9))
def test_blame_is_the_overlap_of_each_wait_with_each_hold(trace, most, block):
    """A cell of the blame is the sum over all pairs, for any columns and blocks; a row adds up to the time waited."""
    holds, waits = walked(trace)
    found = recorded(trace)
    for gil in range(len(trace.gils)):
        held, waited = found.holds.chosen(found.holds.gil == gil), found.waits.chosen(found.waits.gil == gil)
        with settings_of_blame(most, block):
            matrix = blame(gil, held, waited, meet(held, waited), len(trace.threads))
        expected = defaultdict(int)
        for wait in waits:
            for hold in holds:
                if wait[3] == hold[3] == gil:
                    expected[wait[2], hold[2]] += overlap(wait, hold)
        for row, waiter in enumerate(matrix.waiters):
            told = 0
            for column, holder in enumerate(matrix.holders):
                assert matrix.held_ns[row, column] == expected[waiter, holder]
                told += expected[waiter, holder]
            assert matrix.others_ns[row] == sum(ns for (one, _), ns in expected.items() if one == waiter) - told
            row_ns = matrix.held_ns[row].sum() + matrix.others_ns[row] + matrix.nobody_ns[row]
            assert row_ns == matrix.wait_ns[row]
            assert matrix.wait_ns[row] == sum(end - start for start, end, *who in waits if who == [waiter, gil])
            assert matrix.nobody_ns[row] >= 0


class settings_of_blame:  # noqa: N801 - reads like a function
    """A context in which blame has `columns` columns, and blocks of `block` holds."""

    def __init__(self, columns, block):
        self.values = {"COLUMNS": columns, "_BLOCK": block}

    def __enter__(self):
        import headway.traces.analysis.blame as module

        self.before = {name: getattr(module, name) for name in self.values}
        for name, value in self.values.items():
            setattr(module, name, value)

    def __exit__(self, *_):
        import headway.traces.analysis.blame as module

        for name, value in self.before.items():
            setattr(module, name, value)


@given(small)
def test_what_a_hold_blocked_is_the_overlap_with_all_waits(trace):
    """The time that threads waited during a hold is the sum over the waits for its GIL."""
    found = recorded(trace)
    for gil in range(len(trace.gils)):
        held, waited = found.holds.chosen(found.holds.gil == gil), found.waits.chosen(found.waits.gil == gil)

        expected = [
            sum(overlap(hold, wait) for wait in columns(waited))
            for hold in zip(held.start_ns, held.end_ns, strict=True)
        ]

        assert waited_during(held, waited).tolist() == expected


@given(small, st.integers(1, 9))
def test_buckets_hold_the_overlap_with_the_intervals(trace, buckets):
    """The time in a bucket is the overlap of each interval with it, also for buckets of unequal length."""
    span = trace.end_ns - trace.start_ns
    if span < buckets:
        return
    edges = np.array([trace.start_ns + span * number // buckets for number in range(buckets + 1)])
    waits = recorded(trace).waits

    totals = per_bucket(waits, waits.thread, len(trace.threads), edges)

    for thread in range(len(trace.threads)):
        mine = [wait for wait in columns(waits) if wait[2] == thread]
        expected = [
            sum(overlap(wait, bucket) for wait in mine)
            for bucket in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        ]
        assert totals[thread].tolist() == expected


@given(small, st.floats(0, 1))
def test_two_windows_add_up_to_the_whole(trace, position):
    """The times held, waited and parked before a moment and after it add up to those of the whole."""
    middle = trace.start_ns + int((trace.end_ns - trace.start_ns) * position)
    whole = analyse(trace)
    parts = [analyse(trace, until_ns=middle), analyse(trace, since_ns=middle)]

    def totals(one):
        held = defaultdict(int)
        for thread in one.threads:
            held[thread.index, "held"] += thread.holds.total_ns
            held[thread.index, "waited"] += thread.waits.total_ns
        for gil in one.gils:
            held[gil.index, "nobody"] += gil.nobody_ns
        for kind in Park:
            held[kind, "parked"] += one.contention.kinds[kind].total_ns if kind in one.contention.kinds else 0
        return held

    first, second = map(totals, parts)
    assert {key: first[key] + second[key] for key in totals(whole)} == totals(whole)


@given(small)
def test_lines_of_code_account_for_all_time(trace):
    """The times held and waited by line add up to the times held and waited, if there are few lines."""
    found = analyse(trace)

    assert sum(one.times.total_ns for one in found.held) == sum(gil.holds.total_ns for gil in found.gils)
    assert sum(one.times.total_ns for one in found.waited) == found.wait_ns


@examples(15)
@given(small, st.sampled_from([64, 80, 200]), st.booleans())
def test_every_trace_can_be_shown(trace, width, every):
    """Every trace can be rendered, summed up and printed as JSON, and no line is wider than the terminal."""
    analyses = [analyse(trace), analyse(trace, since_ns=trace.start_ns + 1)]
    console = Console(width=width, highlight=False)

    with console.capture() as captured:
        console.print(render_traces(analyses, every=every))
        console.print(short_summary(analyses))

    assert max(map(cell_len, captured.get().splitlines())) <= width
    json.dumps([as_json(one) for one in analyses], allow_nan=False)


@given(traces(), st.data())
def test_any_events_may_be_missing(trace, data):
    """An analysis of a trace with events missing finishes, its holds of a GIL do not overlap, and its rows add up."""
    kept = data.draw(st.lists(st.booleans(), min_size=len(trace.events), max_size=len(trace.events)))
    holed = type(trace)(**{**vars(trace), "events": trace.events[np.array(kept, dtype=bool)]})

    found = analyse(holed)

    for gil in found.gils:
        assert (gil.blame.nobody_ns >= 0).all()
        assert gil.holds.total_ns <= found.wall_ns
    holds = recorded(holed).holds
    for gil in range(len(trace.gils)):
        mine = holds.chosen(holds.gil == gil)
        assert (mine.start_ns[1:] >= mine.end_ns[:-1]).all()
