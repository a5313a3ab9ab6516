"""The probe of an interpreter: its answer, its time, and the cache of answers."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headway.errors import InterpreterError
from headway.host import probes, reaping
from headway.host.interpreters import discover, probe
from headway.host.paths import cache_path

CLAIMED = '{"implementation": "cpython", "version": "3.9.1", "minor": "3.9", "real": "/x"}'
"""The beginning of an answer: what makes it one of a CPython that Headway measures."""


@pytest.mark.parametrize(("slow", "is_found"), [(1, True), (2, False)])
def test_an_interpreter_that_takes_too_long_is_started_once_more(bare_machine, monkeypatch, slow, is_found):
    """The first start on a busy machine may need the time to read its files."""
    (bare_machine / "python3").symlink_to(os.path.realpath(sys.executable))
    start, starts = subprocess.run, []

    def started(command, **options):
        starts.append(command)
        if len(starts) <= slow:
            raise subprocess.TimeoutExpired(command, options["timeout"])
        return start(command, **options)

    monkeypatch.setattr(probes.subprocess, "run", started)
    found, passed_over = discover()

    assert [one.executable for one in found] == [os.path.realpath(sys.executable)] * is_found
    assert ["it took too long" in line for line in passed_over] == [True] * (not is_found)
    assert len(starts) == 2


@pytest.mark.parametrize(
    "output",
    [
        "1",
        "[]",
        '{"minor": "x"}',
        '{"minor": "3.9"}',
        CLAIMED,
        CLAIMED.replace("3.9.1", "3.9"),
        "[" * 99999,
        "\\377\\376",
    ],
)
def test_odd_answers_are_passed_over(bare_machine, output):
    """A file called python3 that prints anything is skipped, and stops nothing."""
    script = bare_machine / "python3"
    script.write_text(f"#!/bin/sh\nprintf '{output}'\n")
    script.chmod(0o755)

    found, passed_over = discover()

    assert (found, len(passed_over)) == ([], 1)


def test_what_a_slow_interpreter_started_is_ended(bare_machine, monkeypatch):
    """Children of a probe that takes too long do not stay behind, not even those in a process group of their own."""
    script = bare_machine / "python3.9"
    script.write_text("#!/bin/sh\nsetsid sleep 1000 > /dev/null &\necho $!\nwait\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bare_machine}:/usr/bin:/bin")
    left = []

    def too_slow(command, **options):
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=options["env"]) as process:
            left.append(os.pidfd_open(int(process.stdout.readline())))
            process.kill()
        raise subprocess.TimeoutExpired(command, options["timeout"])

    monkeypatch.setattr(probes.subprocess, "run", too_slow)
    with pytest.raises(InterpreterError, match="it took too long"):
        probe(str(script))

    assert len(left) == 2
    for one in left:
        assert select.select([one], [], [], 60)[0]  # it has ended
        os.close(one)


def test_a_process_in_the_middle_of_exec_is_looked_at_again(monkeypatch):
    """It has no environment for a moment; what it then runs must not stay behind."""
    with subprocess.Popen(["sleep", "1000"]) as child:
        answers = iter([None, None, True])
        monkeypatch.setattr(reaping, "_has_mark", lambda pid, _: pid == child.pid and next(answers, False))
        reaping.end_marked("HEADWAY_TEST", "1")

        assert child.wait(60) == -signal.SIGKILL
    monkeypatch.setattr(reaping, "_has_mark", lambda *_: None)
    reaping.end_marked("HEADWAY_TEST", "1")  # an environment that stays empty keeps nobody waiting for ever


def test_an_interpreter_that_is_gone_does_not_start(tmp_path):
    """A file that was removed after it was found is passed over like any other failure."""
    with pytest.raises(InterpreterError, match="gone does not start: No such file"):
        probes.ProbeCache().get(tmp_path / "gone")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 100_000,
        b'{"version": 5}',
        b'{"version": 5, "answers": null}',
        b'{"version": 5, "answers": []}',
        b'{"version": 5, "answers": {"KEY": null}}',
        b'{"version": 5, "answers": {"KEY": {}}}',
        b'{"version": 5, "answers": {"KEY": CLAIMED}}',
        b'{"version": 5, "answers": {"KEY": {"implementation": "cpython", "version": 3, "minor": "3", "minor_parts": ["3"]}}}',
    ],
)
def test_a_broken_cache_counts_as_empty(bare_machine, content):
    """The interpreter is asked again, and the file is as it should be afterwards."""
    real = Path(os.path.realpath(sys.executable))
    (bare_machine / "python3").symlink_to(real)
    key = probes.ProbeCache._key(real)
    file = cache_path() / "probes.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    claimed = json.dumps({**json.loads(CLAIMED), "minor_parts": [3, 9]})
    file.write_bytes(content.replace(b"KEY", key.encode()).replace(b"CLAIMED", claimed.encode()))

    found, passed_over = discover()

    assert ([one.executable for one in found], passed_over) == ([str(real)], [])
    assert json.loads(file.read_text())["answers"][key]["real"] == str(real)


def test_probe_tells_what_this_interpreter_is():
    """The probe of our own interpreter agrees with what the interpreter itself reports."""
    found = probe(sys.executable)

    assert found.version.startswith(".".join(map(str, sys.version_info[:3])))
    assert found.switch_interval_s == sys.getswitchinterval()
    assert {"serial", "threads", "asyncio", "processes-spawn"} <= set(found.models)
