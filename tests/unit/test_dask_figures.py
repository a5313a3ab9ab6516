"""The reports of a cluster's workers: figures between heartbeats, the table, the log of stalls, and tasks' sums."""

import asyncio
import json
import os
import socket
import threading
from types import SimpleNamespace

import pytest
from live_image import image
from rich.console import Console

from headway.cli.dask_view import render_workers
from headway.dask import cluster, tasks
from headway.dask import worker as worker_module
from headway.dask.figures import Looks
from headway.dask.tasks import OTHER, TaskTimes
from headway.dask.worker import HeadwayWorker, take_recording
from headway.errors import RecordingError, UsageError
from headway.live import watching as watch_module
from headway.live.own_recorder import the_recorder
from headway.live.recording import GilTimes, gil_times
from headway.live.stall_log import StallLog, here
from headway.live.watch import Watch

TASK = {"count": 3, "run_s": 5.0, "hold_s": 4.5, "wait_s": 0.1, "longest_hold_s": 2.5, "longest_wait_s": 0.05}


def worker(name, time_s, *, waited=0.0, held=0.0, pid=7, knocked=None, **more):
    """Return what the scheduler knows of a worker."""
    told = {
        "time_s": time_s,
        "pid": pid,
        "loop": "MainThread",
        "policy": "",
        "folder": "",
        "tasks": {},
        "roles": {"MainThread": [0.0, waited], "Dask-Default-Threads": [held, 0.0]},
        "stalls": {},
        "last_stall": "",
    } | more
    metrics = {"headway": told, "event_loop_interval": 0.02}
    return {"name": name, "metrics": metrics if knocked is None else metrics | {"gil_contention": knocked}}


def test_shares_are_between_two_heartbeats():
    """A look without a new heartbeat keeps the previous shares, and the workers whose loops waited longest come first."""
    looks = Looks({"a": worker("a", 10.0), "b": worker("b", 10.0)})
    new = {"a": worker("a", 14.0, waited=1.0, held=2.0, knocked=0.75), "b": worker("b", 12.0, waited=1.0)}
    for _ in range(2):
        first, second = looks.look(new)

        assert (first.name, first.interval_s, first.loop_wait_share, first.knocked_share) == ("b", 2.0, 0.5, None)
        assert (second.loop_wait_share, second.held_share, second.knocked_share) == (0.25, 0.5, 0.75)


def test_a_loop_has_the_role_of_its_thread():
    """The number of a loop's thread is not part of its role, and a loop without figures has no share."""
    plugin = HeadwayWorker()
    thread = threading.Thread(target=plugin._begin, args=[None], name="Dask-Loop-3")
    thread.start()
    thread.join()
    told = {"loop": plugin._loop_role, "roles": {"Dask-Loop": [0.0, 1.0]}}
    looks = Looks({"a": worker("a", 10.0, loop="Dask-Loop", roles={"Dask-Loop": [0.0, 0.0]}), "b": worker("b", 10.0)})
    known, unknown = looks.look({"a": worker("a", 14.0, **told), "b": worker("b", 14.0, loop="gone")})

    assert (known.loop_wait_share, unknown.loop_wait_share, unknown.held_share) == (0.25, None, 0.0)


def test_a_worker_that_is_another_process_now_begins_anew():
    """The counters of a process that is gone are not subtracted from those of the next one."""
    looks = Looks({"a": worker("a", 10.0, waited=100.0)})
    (one,) = looks.look({"a": worker("a", 14.0, waited=1.0, pid=8)})

    assert (one.interval_s, one.loop_wait_share, one.is_told) == (0.0, None, True)


def test_the_table_names_the_task_and_says_who_is_without():
    """The prefix with the longest hold is beside its worker, and a worker without the plugin is named."""
    told = worker("w1", 1.0, tasks={"keeps": TASK, "small": TASK | {"longest_hold_s": 0.001}}, stalls={"GIL": [2, 5.0]})
    told["metrics"]["headway"]["last_stall"] = "event loop late by 2.5 s"
    found = Looks({}).look({"x": told, "y": {"name": "w2", "metrics": {}}})
    console = Console(width=160)
    with console.capture() as captured:
        console.print(render_workers(found))
    text = captured.get()

    assert "keeps, 2.5 s" in text
    assert "w1: event loop late by 2.5 s" in text
    assert "without Headway: w2" in text
    # gilknocker measures a share of time, and not of attempts.
    assert "share of the time of gilknocker's samples" in " ".join(text.split())


@pytest.mark.parametrize(("tasks_of", "line"), [((7, 6), "3 more rows: `--json` has all"), ((5, 5), "")])
def test_rows_that_the_table_lacks_are_counted(tasks_of, line):
    """The table has the ten tasks that held the GIL longest, and a line below says how many others there are."""
    workers = {
        f"w{index}": worker(f"w{index}", 1.0, tasks={f"task_{number}": TASK for number in range(count)})
        for index, count in enumerate(tasks_of)
    }
    console = Console(width=160)
    with console.capture() as captured:
        console.print(render_workers(Looks({}).look(workers)))
    lines = [one.strip() for one in captured.get().splitlines()]

    assert [one for one in lines if "--json" in one] == ([line] if line else [])


def test_stalls_that_nobody_reports_are_not_shown_as_none():
    """The table has a dash where the number is unknown, and 0 where there were no stalls."""
    found = Looks({}).look({"a": worker("unwatched", 1.0, stalls=None), "b": worker("watched", 1.0)})
    console = Console(width=160)
    with console.capture() as captured:
        console.print(render_workers(found))
    rows = {line.split()[0]: line.split() for line in captured.get().splitlines() if "watched" in line}

    assert [one.stall_count for one in found] == [None, 0]
    assert {name: row[5] for name, row in rows.items()} == {"unwatched": "-", "watched": "0"}


@pytest.mark.parametrize(
    ("watching", "log", "stalls"), [(0, None, None), (7, None, None), (7, "mine.stalls.jsonl", {"GIL": [1, 0.5]})]
)
def test_the_stalls_are_those_of_the_watch_that_there_is(tmp_path, monkeypatch, watching, log, stalls):
    """Another watch than the plugin's own has a log of another name, which may be unknown; a trace has none at all."""
    found = watch_module.Watch(tmp_path, 0, others=watching, log=None if log is None else tmp_path / log)
    monkeypatch.setattr(worker_module, "watch", lambda *_, **__: found)
    plugin, owner = HeadwayWorker(folder=str(tmp_path)), SimpleNamespace()
    plugin._begin(owner)
    plugin._begin_watching()
    parts = [{"cause": "GIL", "time_s": 0.5}]
    row = {"pid": os.getpid(), "kind": "event loop", "goes_on": False, "cause": "GIL", "parts": parts} | here()
    for name in ("mine", "dask"):
        (tmp_path / f"{name}.stalls.jsonl").write_text(json.dumps(row) + "\n")
    told = asyncio.run(plugin.told(None))
    worker_module._watches.leave(owner)

    assert told["stalls"] == stalls


def test_a_traced_worker_says_at_once_that_it_has_no_recording(tmp_path):
    """A plugin that found the worker traced has a watch that watches nothing, and no recording to wait for."""
    plugin = SimpleNamespace(_watch=watch_module.Watch(tmp_path, 0))
    with pytest.raises(RuntimeError, match="recorded already when the plugin began"):
        asyncio.run(take_recording(SimpleNamespace(plugins={"headway": plugin})))


@pytest.fixture
def counting():
    """Allow counting in this process, and stop the recorder afterwards."""
    yield
    the_recorder().stop()


def test_tasks_are_measured_in_their_thread(counting):
    """Tasks are summed by prefix, also if they fail; prefixes beyond the limit are `other`."""
    times = TaskTimes()
    assert times.measured("good", lambda: sum(range(200_000))) == sum(range(200_000))
    with pytest.raises(ZeroDivisionError):
        times.measured("bad", lambda: 1 / 0)
    thread = threading.Thread(target=times.measured, args=["good", lambda: sum(range(200_000))])
    thread.start()
    thread.join()
    for number in range(500):
        times.measured(f"p{number}", lambda: None)
    told = times.told(1000)

    assert (told["good"]["count"], told["bad"]["count"]) == (2, 1)
    assert 0 < told["good"]["longest_hold_s"] <= told["good"]["hold_s"] <= told["good"]["run_s"]
    assert len(told) <= 401
    assert sum(one["count"] for one in told.values()) == 503
    assert told[OTHER]["count"] >= 200
    assert next(iter(told)) == "good"
    assert len(times.told(5)) == 5


@pytest.mark.parametrize("good", [0, 1])
def test_a_task_without_times_runs(monkeypatch, good):
    """A recorder that cannot start before a task, or at its end, fails no task, and the task is not in the sums."""
    left = [GilTimes(0, 0)] * good

    def asked():
        if not left:
            raise RecordingError("this process cannot be recorded")
        return left.pop()

    monkeypatch.setattr(tasks, "gil_times", asked)
    times = TaskTimes()

    assert times.measured("task", lambda: 42) == 42
    assert times.told(10) == {}


def sums(hold_ms: int, longest_ms: int) -> tasks._Sums:
    return tasks._Sums(1, hold_ms * 10**6, hold_ms * 10**6, 0, longest_ms * 10**6, 0)


@pytest.mark.parametrize("before", [0, 40, 450, 2000])
def test_a_rare_task_with_the_longest_hold_keeps_its_name(before):
    """Many prefixes with more time in all, before it and after it, do not take its row; the rest is `other`."""
    times = TaskTimes()
    for number in range(before):
        times._add(f"load_{number}", sums(1000, 5))
    times._add("validate", sums(471, 471))
    for number in range(before, 2000):
        times._add(f"load_{number}", sums(1000, 5))
    told = times.told(30)

    assert told["validate"]["longest_hold_s"] == 0.471
    assert max(told, key=lambda prefix: told[prefix]["longest_hold_s"]) == "validate"
    assert len(told) == 30
    assert sum(one["count"] for one in told.values()) == 2001
    assert told[OTHER]["longest_hold_s"] == 0.005


def test_a_port_that_only_takes_connections_is_no_scheduler(monkeypatch):
    """A server that says nothing, and a scheme that cannot be used here, are errors with a hint, and nothing waits."""
    monkeypatch.setattr(cluster, "_PATIENCE_S", 0.3)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(cluster.ClusterError, match=r"did not answer within 0\.3 s\n"),
        cluster.connected(f"tcp://127.0.0.1:{silent.getsockname()[1]}"),
    ):
        pass
    with pytest.raises(UsageError, match="tls cannot be used here"), cluster.connected("tls://127.0.0.1:9"):
        pass


def test_a_worker_gives_its_own_recording(counting, tmp_path):
    """In a folder that containers share, a worker passes over a recording of another process with its id."""
    gil_times()
    with Watch(os.getpid()) as one:
        start_ns = one.snapshot().start_ns

    def record():
        for name, began_ns in (("dask-1", start_ns + 1), ("dask-2", start_ns)):
            (tmp_path / f"{name}-{os.getpid()}.hwt").write_bytes(image(start_ns=began_ns))

    plugin = SimpleNamespace(_watch=SimpleNamespace(folder=tmp_path, record=record, watches=True))
    name, data = asyncio.run(take_recording(SimpleNamespace(plugins={"headway": plugin})))

    assert (name, data) == (f"dask-2-{os.getpid()}.hwt", image(start_ns=start_ns))


def test_the_log_is_followed(tmp_path):
    """Only whole rows of this process's finished stalls count, also when the log is rotated or others share it."""
    path = tmp_path / "dask.stalls.jsonl"
    us = {"pid": os.getpid()} | here()
    old = us | {"goes_on": False, "cause": "GIL", "length_s": 9.0, "line": "old"}
    path.write_text(json.dumps(old) + "\n")
    log = StallLog(path)
    parts = [{"cause": "GIL", "time_s": 0.375}, {"cause": "no core", "time_s": 0.125}]
    row = us | {"kind": "event loop", "goes_on": False, "cause": "GIL", "length_s": 0.5, "parts": parts, "line": "late"}
    lines = [
        row,
        row | {"pid": os.getpid() + 1},
        row | {"host": "another"},
        row | {"pid_namespace": 1},
        row | {"kind": "thread"},
        row | {"goes_on": True},
        row | {"cause": "own code", "parts": [{"cause": "own code", "time_s": 0.5}], "line": "last"},
    ]
    text = "".join(json.dumps(one) + "\n" for one in lines) + "no JSON\n"
    with path.open("a") as file:
        file.write(text[:-300])
        file.flush()
        log.read()
        file.write(text[-300:] + '{"pid": 7')
    log.read()

    assert log.by_cause == {"GIL": [1, 0.375], "no core": [0, 0.125], "own code": [1, 0.5]}
    assert log.last == "last"

    path.rename(tmp_path / "old")
    path.write_text(json.dumps(row) + "\n")
    log.read()
    assert log.by_cause["GIL"] == [2, 0.75]
