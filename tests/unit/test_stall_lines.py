"""The lines that the parts of a stall are put at."""

import dataclasses

import pytest
from made_traces import MS
from test_stalls import AT_POLL, COMPUTE, HANDLER, at, loop, only, with_stacks
from told_traces import Script

from headway.traces.analysis.stall_model import Cause, Kept, Part, Stall, StallKind, merged
from headway.traces.analysis.stall_words import advice, stall_json, stall_line
from headway.traces.frames import Frame, Sample

FIRST, SECOND, THIRD = (Frame("/app/app.py", line, "sync", 5) for line in (7, 10, 12))
EARLY_NS, LATE_NS = 17 * 10**17, 4 * 10**18
"""Starts of a program, in 2023 and 2096: before and after the last change of a test's files."""


def told(*parts, length_ms=1000):
    """Return the merged parts as (time in ms, line, further line)."""
    return [
        (one.time_ns // MS, one.place and one.place.line, one.also and one.also.line)
        for one in merged(parts, length_ms * MS)
    ]


def test_each_blocking_call_of_a_function_has_its_own_time():
    """One long sleep gets no time of many short ones at another line, or of a third call."""
    many = [Part(Cause.BLOCKED, 20 * MS, 0, (SECOND,))] * 25
    found = told(Part(Cause.BLOCKED, 130 * MS, 0, (FIRST,)), *many, Part(Cause.BLOCKED, 100 * MS, 0, (THIRD,)))

    assert found == [(500, 10, None), (130, 7, None), (100, 12, None)]


def test_a_short_blocking_call_belongs_to_the_longest_one_of_its_function():
    """Many lines with little time each are no parts of their own."""
    lines = [Part(Cause.BLOCKED, 15 * MS, 0, (Frame("/app/app.py", line, "sync", 5),)) for line in range(20, 40)]

    assert told(Part(Cause.BLOCKED, 130 * MS, 0, (FIRST,)), *lines) == [(430, 7, None)]


def test_a_function_that_computes_is_at_its_line_with_most_time():
    """The longest single time does not give the line of the function; a line with a considerable share is told, too."""
    single, many = Part(Cause.OWN, 200 * MS, 0, (FIRST,)), [Part(Cause.OWN, 20 * MS, 0, (SECOND,))] * 20

    assert told(single, *many) == [(600, 10, 7)]
    assert told(dataclasses.replace(single, time_ns=50 * MS), *many) == [(450, 10, None)]


def test_the_samples_of_one_hold_at_two_lines_are_both_told():
    """A function that was seen at two lines within one hold has both in the line and in the log."""
    other = dataclasses.replace(COMPUTE, line=15)
    stacks = [(COMPUTE, HANDLER), (other, HANDLER), (other, HANDLER)]
    samples = tuple(Sample(at(20 + 40 * n), 101, stack) for n, stack in enumerate(stacks))
    trace = with_stacks(loop(Script()).hold(0, 10, 210, stack=AT_POLL).trace(300, "MainThread"), samples=samples)
    stall = only(trace)

    assert stall_line(trace, stall).endswith("100 % its own code at /app/app.py:15 compute (and line 12)")
    assert stall_json(trace, stall)["parts"][0]["also"] == {"file": "/app/app.py", "line": 12, "function": "compute"}


@pytest.mark.parametrize(("others_ms", "more"), [((4,), ""), ((4, 60), ", and 1 more"), ((60, 50), ", and 2 more")])
def test_places_with_hardly_any_time_are_not_counted_in_the_line(others_ms, more):
    """A request that only sleeps has some microseconds in other calls, whose place is not told."""
    parts = tuple(Part(Cause.BLOCKED, ms * MS, 0, (FIRST,) if ms > 100 else ()) for ms in (980, *others_ms))
    stall = Stall(StallKind.REQUEST, 0, at(0), at(1000), goes_on=False, parts=parts)

    assert stall_line(Script().trace(1000, "MainThread"), stall).endswith(
        f"a blocking call at /app/app.py:7 sync{more}"
    )


def test_a_recording_of_the_watcher_is_not_told_to_be_made():
    """Where the account has told what it can, the advice is about the line, and not to use `headway watch`."""
    for part in (Part(Cause.UNEXPLAINED, 5, 0, (FIRST,), idle=True), Part(Cause.UNEXPLAINED, 5, 0, (FIRST,))):
        assert "`headway watch` tells" in advice(StallKind.REQUEST, part)
        assert "headway" not in advice(StallKind.REQUEST, part, watched=True)


@pytest.mark.parametrize(
    ("kind", "own_ms", "kept", "policy", "by_policy"),
    [
        (StallKind.REQUEST, 980, Kept.PYTHON, "", False),
        (StallKind.REQUEST, 980, Kept.PYTHON, "fair", False),
        (StallKind.REQUEST, 100, Kept.PYTHON, "", True),
        (StallKind.LOOP, 980, Kept.PYTHON, "", True),
        (StallKind.REQUEST, 980, Kept.C, "", False),
    ],
)
def test_requests_that_share_the_gil_are_not_helped_by_a_policy(kind, own_ms, kept, policy, by_policy):
    """A request that computes as long as the thread it waits for needs another GIL; a short one needs the GIL soon."""
    trace = with_stacks(loop(Script()).trace(3000, "MainThread", "other", policy=policy))
    parts = (Part(Cause.GIL, 1000 * MS, 1, (COMPUTE,), kept), Part(Cause.OWN, own_ms * MS, 0, (COMPUTE,)))
    row = stall_json(trace, Stall(kind, 0, at(0), at(1000 + own_ms), goes_on=False, parts=parts))

    assert row["advice"] == row["parts"][0]["advice"]
    assert ("`headway run`" in row["advice"]) is by_policy
    assert ("less of it at a time" in row["advice"]) is (not by_policy and kept is Kept.PYTHON)


@pytest.mark.parametrize(
    ("source", "start_ns", "advised"),
    [
        ("rates = await client.rates()", LATE_NS, "a library blocks in what"),
        ("rates = client.rates()", LATE_NS, "await the call"),
        ("rates = await client.rates()", EARLY_NS, "await the call"),
    ],
    ids=["awaited", "called", "edited since"],
)
def test_a_blocking_call_in_a_package_has_both_lines(tmp_path, source, start_ns, advised):
    """The program's line leads there, and the package's line is the one that blocks; what is awaited needs no `await`."""
    app = tmp_path / "app.py"
    app.write_text(f"async def quote():\n    {source}\n")
    package = "/v/lib/python3.13/site-packages/ratelib"
    read = Frame("/usr/lib/python3.13/socket.py", 719, "SocketIO.readinto", 706)
    fetch, rates = Frame(f"{package}/_transport.py", 8, "fetch", 6), Frame(f"{package}/client.py", 20, "rates", 18)
    quote = Frame(str(app), 2, "quote", 1)
    part = Part(Cause.BLOCKED, 300 * MS, 0, (read, fetch, rates, quote))
    stall = Stall(StallKind.LOOP, 0, at(0), at(300), goes_on=False, parts=(part,))
    trace = Script().trace(300, "MainThread", start_realtime_ns=start_ns)

    assert stall_line(trace, stall).endswith("app.py:2 quote, in .../site-packages/ratelib/_transport.py:8 fetch")
    row = stall_json(trace, stall)
    assert row["parts"][0]["library"] == {"file": fetch.filename, "line": 8, "function": "fetch"}
    assert row["advice"].startswith(advised)


@pytest.mark.parametrize(("start_ns", "advised"), [(LATE_NS, ""), (EARLY_NS, ", or wait with a time-out")])
def test_the_advice_on_a_wait_takes_no_words_from_a_file_that_was_edited_since(tmp_path, start_ns, advised):
    """The line may have had no time-out when the trace was recorded."""
    app = tmp_path / "app.py"
    app.write_text("worker.join(2)\n")
    joins = (Frame("/usr/lib/python3.13/threading.py", 1, "Thread.join", 1), Frame(str(app), 1, "stop", 1))
    part = Part(Cause.BLOCKED, 300 * MS, 0, joins, lock=True)
    stall = Stall(StallKind.REQUEST, 0, at(0), at(300), goes_on=False, parts=(part,))
    row = stall_json(Script().trace(300, "MainThread", start_realtime_ns=start_ns), stall)

    assert row["advice"] == f"look at the thread that should end{advised}"


@pytest.mark.parametrize(("start_ns", "who"), [(LATE_NS, "another thread (a lock)"), (EARLY_NS, "another thread or")])
def test_a_lock_is_not_known_by_a_file_that_was_edited_since(tmp_path, start_ns, who):
    """A file that makes locks of threads now may have made one of processes then."""
    app = tmp_path / "app.py"
    app.write_text("import threading\nguard = threading.Lock()\nwith guard:\n    pass\n")
    part = Part(Cause.BLOCKED, 300 * MS, 0, (Frame(str(app), 3, "<module>", 1),), lock=True)
    stall = Stall(StallKind.REQUEST, 0, at(0), at(300), goes_on=False, parts=(part,))
    trace = Script().trace(300, "MainThread", start_realtime_ns=start_ns)

    assert f"a wait for {who}" in stall_line(trace, stall)


def test_a_package_that_the_program_is_has_one_line():
    """If no line of the stack is outside of packages, the innermost one is the place."""
    inner = Frame("/v/lib/python3.13/site-packages/shop/db.py", 8, "query", 6)
    outer = dataclasses.replace(inner, line=20, function="page")
    assert (Part(Cause.BLOCKED, MS, 0, (inner, outer)).place, Part(Cause.BLOCKED, MS, 0, (inner, outer)).library) == (
        inner,
        None,
    )
