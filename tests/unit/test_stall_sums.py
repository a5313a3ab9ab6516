"""Logs of stalls that may come from anywhere, their sums, and the tables of these."""

import dataclasses
import io
import json
import math

import pytest
from made_traces import made_trace
from rich.console import Console
from test_stalls import AT_LOCK, AT_POLL, AT_SLEEP, loop, only, with_stacks
from told_traces import Script

from headway.cli.main import main
from headway.report.stalls import render_stalls
from headway.traces.analysis.doing import Doing
from headway.traces.analysis.stall_sums import Sum, sum_up, told_rows
from headway.traces.analysis.stall_words import stall_json, stall_line
from headway.traces.writer import write


def text_of(rendered, width=100):
    """Return the text, with control characters as they are."""
    out = io.StringIO()
    Console(file=out, width=width).print(rendered)
    return out.getvalue()


def test_a_wait_for_an_import_is_told_as_such():
    """An import has no time-out, and another thread ends the wait: the advice says so, and not that a peer is slow."""
    script = Script().hold(0, 0, 1, stack=AT_POLL).hold(0, 2, 3, stack=AT_LOCK).hold(0, 403, 404, stack=AT_POLL)
    trace = with_stacks(script.trace(500, "MainThread"))
    bootstrap = {"filename": "<frozen importlib._bootstrap>", "function": "_ModuleLock.acquire"}
    frames = tuple(
        dataclasses.replace(one, **bootstrap) if one.function == "Condition.wait" else one for one in trace.frames
    )
    trace = dataclasses.replace(trace, frames=frames)
    stall = only(trace)

    assert "100 % a wait for another thread (it was importing the same module) at" in stall_line(trace, stall)
    assert stall_json(trace, stall)["advice"] == (
        "import the module when the program starts: another thread was importing it"
    )


def test_a_file_is_one_line_by_whatever_path_the_program_was_started():
    """The names of files of a program that was started as `./app.pyz` have that, too; a name in brackets stays."""
    rows = [
        {"began": "2026-01-01T00:00:00+00:00", "length_s": 1, "pid": pid, "parts": [{"cause": "own code", "time_s": 1}]}
        for pid in range(3)
    ]
    for row, file in zip(rows, ("/srv/./app.pyz/prices.py", "/srv/app.pyz/prices.py", "<string>"), strict=True):
        row["parts"][0]["place"] = {"file": file, "line": 27, "function": "look_up"}

    assert {line: one.count for (_, line), one in sum_up(rows).by_line.items()} == {
        "/srv/app.pyz/prices.py:27 look_up": 2,
        "<string>:27 look_up": 1,
    }


@pytest.mark.parametrize(
    "change",
    [
        {"length_s": "1.5"},
        {"length_s": math.nan},
        {"length_s": 10**400},
        {"began": "2026-01-01T00:00:00"},
        {"pid": [1]},
        {"parts": [{"time_s": math.inf, "cause": "a"}]},
        {"parts": 1},
    ],
)
def test_a_line_that_no_watcher_wrote_is_counted_and_left_out(change):
    """Values that are no stall's would fail only in the sums, or in JSON."""
    row = {"began": "2026-01-01T00:00:00+00:00", "length_s": 1, "parts": []}

    assert told_rows([json.dumps(row | change), json.dumps(row), "[" * 100_000]) == ([row], 2)


def test_of_a_stall_that_goes_on_the_last_line_counts():
    """A stall is logged again when it has grown, and at its end; lines of two watchers may come in any order."""
    row = {"began": "2026-01-01T00:00:00+00:00", "parts": [], "pid": 7, "serial": 1, "since_ns": 5}
    lines = [row | {"length_s": length_s, "goes_on": True} for length_s in (1.0, 10.0)]

    assert [one["length_s"] for one in sum_up(lines).rows] == [10.0]
    over = row | {"length_s": 12.0, "goes_on": False}
    assert [one["length_s"] for one in sum_up([*lines, over]).rows] == [12.0]
    assert [one["length_s"] for one in sum_up([over, *lines]).rows] == [12.0]


def test_the_newest_intervals_are_shown():
    """Intervals beyond the newest ones are left out of the table, and are there on request."""
    rows = [
        {"began": f"20{year}-01-01T00:00:00+00:00", "length_s": 1.0, "parts": [], "since_ns": year}
        for year in range(10, 30)
    ]
    few, every = (text_of(render_stalls(sum_up(rows), every=one)) for one in (False, True))

    assert "2028-12-28" in few
    assert "2009-12-31" not in few
    assert "7 earlier ones left out" in few
    assert "2009-12-31" in every


def test_what_a_log_says_reaches_the_terminal_without_control_characters():
    """A log in another user's folder may hold anything."""
    part = {"time_s": 1.0, "cause": "a\x1b]0;b"}
    row = {
        "began": "2026-01-01T00:00:00+00:00",
        "length_s": 1,
        "parts": [part],
        "cause": part["cause"],
        "advice": "\x1b[2J",
    }

    assert "\x1b" not in text_of(render_stalls(sum_up([row])))


def test_each_cause_has_the_advice_of_its_longest_part():
    """A cause that is the main one of no stall has advice, too, and a longer part without advice takes none away."""
    script = loop(Script()).hold(0, 10, 11, stack=AT_LOCK).hold(0, 111, 112, stack=AT_SLEEP)
    trace = with_stacks(script.hold(0, 312, 313, stack=AT_POLL).trace(400, "MainThread"), away=0)
    row = stall_json(trace, only(trace))
    bare = row | {"since_ns": 1, "parts": [{**part, "time_s": 9, "advice": ""} for part in row["parts"]], "advice": ""}
    sums = sum_up([row, bare])

    assert [(part["lock"], part["advice"][:11]) for part in row["parts"][:2]] == [
        (False, "await the c"),
        (True, "await an `a"),
    ]
    assert "a wait for another thread (a condition) at" in row["line"]
    assert sums.by_cause["event loop", "blocking call"].advice.startswith("await the call")
    assert sums.by_cause["event loop", "own code"].advice.startswith("move it")
    waited = sums.by_cause["event loop", "wait for another thread"]
    assert (waited.count, waited.advice[:11]) == (2, "await an `a")
    assert ("wait for another thread", "/app/app.py:42 handler") in sums.by_line


def test_a_lock_may_be_that_of_another_process():
    """No thread of the process may have a lock of multiprocessing; one of threading, whose file is known, is another matter."""
    script = Script().hold(0, 0, 1, stack=AT_POLL).hold(0, 2, 3, stack=AT_LOCK).hold(0, 403, 404, stack=AT_POLL)
    trace = with_stacks(script.trace(500, "MainThread"))
    enters = {"filename": "/usr/lib/python3.13/multiprocessing/synchronize.py", "function": "SemLock.__enter__"}
    frames = tuple(
        dataclasses.replace(one, **enters) if one.function == "Condition.wait" else one for one in trace.frames
    )
    of_processes = dataclasses.replace(trace, frames=frames)
    row = stall_json(of_processes, only(of_processes))

    assert "100 % a wait for another thread or process (a lock, an event, a queue) at" in row["line"]
    assert "in the thread or process that has it" in row["advice"]
    assert ("event loop", "wait for another thread or process") in sum_up([row]).by_cause
    assert row["parts"][0]["may_be_process"]
    assert not stall_json(trace, only(trace))["parts"][0]["may_be_process"]


def test_the_other_processes_of_a_launch_are_read_with_its_trace(tmp_path, capsys):
    """The stalls of a server's workers are in the traces beside its own; one that died early left nothing."""
    slept = with_stacks(loop(Script()).hold(0, 10, 11, stack=AT_SLEEP).hold(0, 211, 212, stack=AT_POLL).trace(300, "M"))
    parent = made_trace(events=100)
    for name, trace, pid in (("app.hwt", parent, 10), ("app.11.hwt", slept, 11), ("app.12.hwt", parent, 12)):
        write(
            dataclasses.replace(trace, process=dataclasses.replace(trace.process, family=7, pid=pid)), tmp_path / name
        )
    whole = (tmp_path / "app.12.hwt").read_bytes()
    (tmp_path / "app.12.hwt").write_bytes(whole[:40])

    assert main(["stalls", "--json", str(tmp_path / "app.hwt")]) == 0
    found = json.loads(capsys.readouterr().out)

    assert [(one["recording"], one["pid"]) for one in found["stalls"]] == [("app.11.hwt", 11)]


def test_processes_of_several_hosts_are_told_apart():
    """Processes of containers that share a folder may have one id; a row of a trace is that of the log's stall."""
    stall = {"began": "2026-01-01T00:00:00+00:00", "length_s": 1.0, "parts": [], "program": "app", "pid": 7}
    places = [{"host": host, "pid_namespace": at} for host, at in (("web-1", 11), ("web-2", 11), ("web-2", 12))]
    rows = [stall | place | {"serial": 1, "since_ns": 5} for place in places]
    alone = stall | {"serial": 2, "since_ns": 6}
    both = sum_up([*rows, alone | places[0], alone])
    text = text_of(render_stalls(both))

    assert [(*key, one.count) for key, one in both.by_process.items()] == [
        ("app", "7", "web-1", "11", 2),
        ("app", "7", "web-2", "11", 1),
        ("app", "7", "web-2", "12", 1),
    ]
    assert all(word in text for word in ("PID namespace", "web-1", "web-2"))
    assert "host" not in text_of(render_stalls(sum_up(rows[:1])))
    assert "web-2" not in text_of(render_stalls(sum_up(rows[1:])))


def test_the_threads_that_had_the_gil_or_a_lock_are_summed_up():
    """The threads of a pool are one holder; a thread of one's own has its name; an unknown holder has no row."""
    spot = {"file": "/app/app.py", "line": 7, "function": "load"}
    lock = {"cause": "blocking call", "lock": True, "time_s": 1.0, "place": {**spot, "line": 3, "function": "handler"}}
    held = [{"thread": f"pool_{one}", "doing": "away", "place": spot} for one in (0, 1)]
    gil = {"cause": "GIL", "time_s": 0.5, "thread": "burner2", "kept": "in one call of C", "place": spot}
    parts = [*(lock | {"holder": one} for one in held), lock | {"holder": None}, gil, gil | {"thread": None}]
    parts += [{"cause": "no core", "time_s": 0.2, "thread": name} for name in ("burner2", "MainThread")]
    stall = {"began": "2026-01-01T00:00:00+00:00", "length_s": 4.0, "program": "app", "pid": 7, "thread": "MainThread"}
    found = sum_up([stall | {"parts": [one], "since_ns": place} for place, one in enumerate(parts)])
    text = text_of(render_stalls(found), width=200)

    line, at = "/app/app.py:3 handler", "/app/app.py:7 load"
    assert [(tuple(key), one.count, one.time_s) for key, one in found.by_holder.items()] == [
        (("lock", line, "pool_*", "away", at), 2, 2.0),
        (("GIL", "", "burner2", "in one call of C", at), 1, 0.5),
        (("GIL", "", "burner2", "and waited for a core", "?"), 1, 0.2),
    ]
    assert f"burner2: the GIL, in one call of C at {at}" in text
    assert "burner2: the GIL, and waited for a core" in text
    assert f"pool_*: the lock of {line}, {Doing.AWAY.words} at {at}" in text
    assert found.to_json()["by_holder"][1]["thread"] == "burner2"


def test_holders_in_files_of_equal_short_names_have_a_row_each():
    """The holder that has cost most keeps the short name; another one of the same short name has its whole path."""
    deep = [f"/srv/{release}/app/src/service/load.py" for release in ("blue", "green")]
    spots = [{"file": one, "line": 7, "function": "load"} for one in deep]
    parts = [
        {"cause": "GIL", "time_s": time_s, "thread": "pool_1", "kept": "in one call of C", "place": spot}
        for spot, time_s in zip(spots, (2.0, 1.0), strict=True)
    ]
    stall = {"began": "2026-01-01T00:00:00+00:00", "length_s": 3.0, "program": "app", "pid": 7, "parts": parts}
    lines = [line for line in text_of(render_stalls(sum_up([stall])), 200).splitlines() if "the GIL, in one" in line]

    assert [("/srv/green" in line, " ".join(line.split()[-7:])) for line in lines] == [
        (False, "1 2 s 67 % 2 s"),
        (True, "1 1 s 33 % 1 s"),
    ]


def test_threads_that_had_a_lock_in_turn_have_each_its_own_time():
    """Of one wait for a lock, each holder has its own time; a log that has one holder only gives it the whole time."""
    spot = {"file": "/app/app.py", "line": 7, "function": "load"}
    held = [
        {"thread": name, "doing": "away", "place": spot, "time_s": time_s} for name, time_s in (("b", 0.6), ("a", 0.2))
    ]
    part = {"cause": "blocking call", "lock": True, "time_s": 0.9, "place": spot, "holder": held[0], "holders": held}
    old = {**part, "holder": {"thread": "c", "doing": "away", "place": spot}}
    del old["holders"]
    stall = {"began": "2026-01-01T00:00:00+00:00", "length_s": 1.8, "program": "app", "pid": 7, "parts": [part, old]}

    assert {key.thread: one.time_s for key, one in sum_up([stall]).by_holder.items()} == {"c": 0.9, "b": 0.6, "a": 0.2}


def test_the_thread_that_had_a_lock_for_longest_comes_first():
    """It may have done several things meanwhile, each for less time than another thread did one."""
    spot = {"file": "/app/app.py", "line": 7, "function": "load"}
    held = [("ran", "b", 0.3), ("away", "a", 0.5), ("away", "b", 0.4)]
    parts = [
        {
            "cause": "blocking call",
            "lock": True,
            "time_s": time_s,
            "place": spot,
            "holders": [{"thread": name, "doing": doing, "place": spot, "time_s": time_s}],
        }
        for doing, name, time_s in held
    ]
    stall = {"began": "2026-01-01T00:00:00+00:00", "length_s": 1.2, "program": "app", "pid": 7, "parts": parts}

    assert [(one.thread, one.doing) for one in sum_up([stall]).by_holder] == [
        ("b", "away"),
        ("b", "ran"),
        ("a", "away"),
    ]


def test_the_time_of_a_stopped_process_is_not_that_of_a_holder():
    """The holders had the lock while the process was stopped, too. The sums have that time once, as that of the stop."""
    spot = {"file": "/app/app.py", "line": 7, "function": "load"}
    held = [{"thread": name, "doing": "away", "place": spot, "time_s": time_s} for name, time_s in (("b", 3), ("a", 1))]
    lock = {"cause": "blocking call", "lock": True, "time_s": 1.0, "place": spot, "holders": held}
    parts = [lock, {"cause": "stopped process", "time_s": 3.0}]
    stall = {"began": "2026-01-01T00:00:00+00:00", "length_s": 4.0, "program": "app", "pid": 7, "parts": parts}

    assert {key.thread: one.time_s for key, one in sum_up([stall]).by_holder.items()} == {"b": 0.75, "a": 0.25}


def test_a_stall_behind_two_threads_of_a_pool_is_one_stall():
    """A stall counts once for its holder, which is the pool, and its time for the longest is that of both threads."""
    spot = {"file": "/app/app.py", "line": 7, "function": "load"}
    parts = [{"cause": "GIL", "time_s": 0.5, "thread": f"pool_{one}", "kept": None, "place": spot} for one in (0, 1)]
    stall = {"began": "2026-01-01T00:00:00+00:00", "length_s": 1.0, "program": "app", "pid": 7}
    (one,) = sum_up([stall | {"since_ns": at, "parts": parts} for at in range(3)]).by_holder.values()

    assert (one.count, one.time_s, one.longest_s) == (3, 3.0, 1.0)


def test_sums_as_json_have_the_types_of_the_stalls():
    """Ids are numbers, times have a zone, and there is nothing of the inner state; a row of a trace has no host."""
    stall = {"began": "2026-01-01T00:00:07.500000+00:00", "length_s": 2.0, "kind": "event loop", "program": "app"}
    part = {"cause": "GIL", "time_s": 2.0, "advice": "release it"}
    placed = stall | {
        "pid": 7,
        "serial": 1,
        "since_ns": 5,
        "parts": [part],
        "host": "web-1",
        "pid_namespace": 4026531836,
    }
    alone = stall | {"pid": 8, "serial": 1, "since_ns": 5, "parts": [], "program": "other", "length_s": 1.0}

    found = json.loads(json.dumps(sum_up([placed, alone]).to_json()))

    summed = {"count": 1, "time_s": 2.0, "longest_s": 2.0, "advice": ""}
    assert found == {
        "stalls": [placed, alone],
        "by_cause": [{"kind": "event loop", "cause": "GIL", **summed, "advice": "release it"}],
        "by_line": [{"cause": "GIL", "line": "?", **summed}],
        "by_holder": [],
        "by_process": [
            {"program": "app", "pid": 7, "host": "web-1", "pid_namespace": 4026531836, **summed},
            {
                "program": "other",
                "pid": 8,
                "host": "",
                "pid_namespace": None,
                **summed,
                "time_s": 1.0,
                "longest_s": 1.0,
            },
        ],
        "over_time": [{"since": "2026-01-01T00:00:07+00:00", **summed, "count": 2, "time_s": 3.0}],
        "bin_s": 1,
    }


def test_the_advice_of_a_sum_is_that_of_most_of_its_time():
    """One long stall with other advice does not speak for many short ones."""
    one = Sum()
    for time_s, advice in [(0.7, "more cores"), *[(0.2, "hold it for less time")] * 26, (0.3, "")]:
        one.add(time_s, advice)

    assert one.advice == one.to_json()["advice"] == "hold it for less time"
    assert Sum().advice == ""


def test_a_cause_of_next_to_no_time_has_no_advice():
    """Each stall of a second has some microseconds of own code: nobody should make that faster."""
    parts = [
        {"cause": "GIL", "time_s": 0.98, "advice": "release it"},
        {"cause": "own code", "time_s": 0.001, "advice": "make it faster"},
        {"cause": "no core", "time_s": 0.03, "advice": "more cores"},
    ]
    row = {"began": "2026-11-29T16:00:00+00:00", "kind": "request", "cause": "GIL", "length_s": 1.011, "parts": parts}
    text = text_of(render_stalls(sum_up([row])))

    assert "  GIL: release it" in text
    assert "  no core: more cores" in text
    assert "own code" in text
    assert "make it faster" not in text
