"""A watcher that is killed leaves its mark beside the log, and `headway stalls` says which stalls are missing."""

import json
import os
import signal
import subprocess
import sys

import pytest

from headway.cli.main import main
from headway.live import watcher
from headway.live.detached import Program
from headway.live.door import Door
from headway.live.marks import Mark, has_unseen_end, killed_watchers
from headway.live.options import Limits, Options

WATCHER = """
import os, sys
from pathlib import Path
from headway.live.marks import Mark
mark = Mark(Path(sys.argv[1]), int(sys.argv[2]))
mark.begin()
print("begun", flush=True)
if sys.stdin.readline():
    mark.note_end()
    print("noted", flush=True)
sys.stdin.read()
mark.end()
"""


@pytest.fixture
def log(tmp_path):
    """Return the empty log of a watcher's folder."""
    path = tmp_path / "app.stalls.jsonl"
    path.touch()
    return path


@pytest.fixture
def start(log):
    """Return a function that starts a process with the mark of a watcher of `pid`."""
    started = []

    def watcher(pid):
        words = [sys.executable, "-c", WATCHER, str(log), str(pid)]
        started.append(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        assert started[-1].stdout.readline() == b"begun\n"
        return started[-1]

    yield watcher
    for one in started:
        one.kill()
        one.communicate()


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait()


def gone():
    """Return the id of a process that has ended."""
    with subprocess.Popen(["true"]) as process:
        return process.pid


def told(log, capfd):
    """Return what `headway stalls` says of the log, and its line without stalls."""
    assert main(["stalls", str(log)]) == 0
    output = capfd.readouterr()
    return output.err.removeprefix(f"{log}: "), output.out


def test_a_watcher_that_lives_or_ends_in_order_leaves_nothing(log, start, capfd):
    """Only that one has a mark at all, as long as it lives."""
    process = start(os.getpid())
    assert len(list(log.parent.iterdir())) == 2
    assert list(killed_watchers(log)) == []
    assert told(log, capfd)[0] == ""
    process.communicate()
    assert list(log.parent.iterdir()) == [log]


def test_a_process_that_runs_on_is_watched_no_more(log, start, capfd):
    """A log without stalls does not mean that there were none."""
    kill(start(os.getpid()))
    said, printed = told(log, capfd)
    assert said.startswith(f"process {os.getpid()} is watched no more: its watcher, begun at 20")
    assert printed == "no file shows whether there were stalls\n"

    assert main(["stalls", str(log), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["cannot_tell"] == [str(log)]


def test_an_end_is_unseen_until_the_watcher_notes_it(log, start, capfd):
    """A killed watcher sees nothing any more, whether it has noted the end or not."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as program:
        first, second = start(program.pid), start(program.pid)
        assert not has_unseen_end(log.parent)
    assert has_unseen_end(log.parent)
    for one in (first, second):
        assert has_unseen_end(log.parent)
        one.stdin.write(b"\n")
        one.stdin.flush()
        assert one.stdout.readline() == b"noted\n"
    assert not has_unseen_end(log.parent)

    kill(start(os.getpid()))
    kill(first)
    assert not has_unseen_end(log.parent)
    assert sorted(one.pid for one in killed_watchers(log)) == sorted([os.getpid(), program.pid])


def test_the_next_watcher_notes_what_is_missing(log, start, capfd):
    """The mark of a process that has ended becomes a note with the time; that of one that runs stays."""
    kill(start(gone()))
    assert "was killed, or ended with its container; stalls after that may be missing here" in told(log, capfd)[0]
    second = start(os.getpid())
    said, _ = told(log, capfd)
    assert said.startswith("stalls may be missing here, as a watcher was killed between 20")
    assert said.endswith(" UTC (app.stalls.jsonl.incomplete says so)\n")
    kill(second)
    start(os.getpid())
    assert told(log, capfd)[0].startswith(f"process {os.getpid()} is watched no more")


def test_the_process_with_the_same_id_may_be_another_one(log, start):
    """A process is known by its id, when it began, and its machine."""
    kill(start(os.getpid()))
    (mark,) = log.parent.glob(".app.*.watcher")
    words = json.loads(mark.read_text())
    assert [one.is_needed for one in killed_watchers(log)] == [True]
    for name, value in (("began_ticks", words["began_ticks"] - 1), ("host", "elsewhere"), ("pid_namespace", 1)):
        mark.write_text(json.dumps(words | {name: value}))
        assert [one.is_needed for one in killed_watchers(log)] == [False]


@pytest.mark.parametrize("words", ["", "[]", "{", '{"pid": "x"}'])
def test_a_mark_that_is_none_says_nothing(log, words, capfd):
    """A mark is empty until its watcher holds it; the folder may have any other file with such a name."""
    log.with_name(f".app.{'0' * 16}.watcher").write_text(words)
    assert told(log, capfd)[0] == ""


def test_a_watcher_of_a_program_that_has_ended_has_no_mark(log, monkeypatch):
    """It lives a moment longer, in which its container may end: no stall is missing then."""
    made = watcher.Watcher(Door(), Options(str(log.parent), "app", 1, Limits(), quiet=True))
    made._begin_log()
    marks = []
    monkeypatch.setattr(made, "_step", lambda: marks.append(len(list(log.parent.glob(".app.*.watcher")))))
    monkeypatch.setattr(watcher, "_LINGER_S", 0.01)
    monkeypatch.setattr(watcher, "let_go_of_stderr", lambda: None)
    with subprocess.Popen(["true"]) as process:
        program = Program(process.pid)
    made.run(program)
    program.close()

    assert (marks[0], set(marks[1:])) == (1, {0})


def test_a_folder_that_cannot_be_written_has_no_mark(tmp_path):
    """The watcher goes on without one."""
    mark = Mark(tmp_path / "missing" / "app.stalls.jsonl", os.getpid())
    mark.begin()
    mark.end()
    assert list(tmp_path.iterdir()) == []
