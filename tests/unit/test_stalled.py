"""The process that analyses a recording, where the disk has no room for the recording or for the log."""

import datetime as dt
import errno
import io
import json
import os
import sys

import pytest
from made_traces import MS
from told_traces import Script

from headway.cli import main
from headway.live import stalled
from headway.live.kept import partial_of, save_to_memory
from headway.traces import writer

S = 1000 * MS


def recording(tmp_path, **process):
    """Return the bytes of a recording with one stall."""
    script = Script().wait(0, 0).hold(1, 0, 300).hold(0, 301, 302)
    return writer.write(script.trace(400, "waits", "holds", **process), tmp_path / "whole.hwt").read_bytes()


def words(tmp_path, file, clock=None):
    """Return what an analysis is told of a recording in memory."""
    told = {
        "evidence": {"clock": clock} if clock else {},
        "told": {},
        "parts": {},
        "gone_ns": 0,
        "finished": False,
        "since_ns": 0,
        "asked": True,
        "quiet": False,
        "limits": {"loop_ns": 50 * MS, "wait_ns": 50 * MS, "request_ns": 50 * MS},
        "log": str(tmp_path / "stalls" / "app.stalls.jsonl"),
        "in_memory": file,
    }
    return json.dumps(told)


@pytest.fixture
def analyse(tmp_path, monkeypatch):
    """Return a function that analyses a recording in memory, of a thread that waited for 300 ms; the log is app's."""
    (tmp_path / "stalls").mkdir()

    def run(*, clock=None, **process):
        file = save_to_memory(lambda file: os.write(file, recording(tmp_path, **process)) and None)
        monkeypatch.setattr(sys, "stdin", io.StringIO(words(tmp_path, file, clock)))
        try:
            return stalled.main([str(partial_of(tmp_path / "stalls" / "app.hwt"))])
        finally:
            os.close(file)

    return run


def test_a_recording_in_memory_is_told_and_leaves_no_file(analyse, tmp_path, capfd):
    """The line says that there is no recording, and so does the log."""
    assert analyse() == 0

    (log,) = (tmp_path / "stalls").iterdir()
    assert [json.loads(line)["recording"] for line in log.read_text().splitlines()] == [""]
    output = capfd.readouterr()
    assert "waits waited" in output.err
    assert output.err.endswith(" [no recording]\n")
    assert len(json.loads(output.out)["stalls"]) == 1


@pytest.mark.parametrize("is_set", [False, True])
def test_a_stall_has_the_time_of_the_clock_as_it_is_now(analyse, tmp_path, is_set):
    """The clock may have been set since the recording began, or the machine suspended: for months all times were wrong."""
    began = dt.datetime(2026, 11, 28, 12, tzinfo=dt.UTC)
    later_ns, start_ns = round(began.timestamp()) * S + 7 * S, Script().trace(1, "waits").start_ns
    assert analyse(clock=[later_ns, start_ns + 7 * S] if is_set else None, start_realtime_ns=S) == 0

    row = json.loads((tmp_path / "stalls" / "app.stalls.jsonl").read_text())
    assert row["began"] == (began.isoformat(timespec="microseconds") if is_set else "1970-01-01T00:00:01.000000+00:00")


@pytest.mark.parametrize(
    ("program", "name"),
    [("multiprocessing.spawn", "app"), ("multiprocessing.forkserver", "app"), ("app.py", "app.py")],
)
def test_a_process_of_multiprocessing_has_the_name_of_what_is_watched(analyse, tmp_path, capfd, program, name):
    """All workers of a server, or of a Dask cluster, would have one name, which the user has never written."""
    assert analyse(program=program) == 0

    row = json.loads((tmp_path / "stalls" / "app.stalls.jsonl").read_text())
    assert row["program"] == name
    assert row["line"].startswith(f"{name} (")
    assert f"headway: {name} (" in capfd.readouterr().err


def test_a_stderr_that_cannot_be_written_costs_no_result(analyse, tmp_path, monkeypatch, capfd):
    """The watcher gets the stalls that the log has, though a line about them has no reader."""
    write = os.write

    def fails(file, data):
        if file == 2:
            raise BrokenPipeError
        return write(file, data)

    monkeypatch.setattr(stalled.os, "write", fails)
    assert analyse() == 0

    log = tmp_path / "stalls" / "app.stalls.jsonl"
    assert len(json.loads(capfd.readouterr().out)["stalls"]) == len(log.read_text().splitlines()) == 1


def test_a_log_that_cannot_be_written_is_not_taken_for_complete(analyse, tmp_path, monkeypatch, capfd):
    """The stall is told on stderr, and `headway stalls` does not say that there was none."""
    log = tmp_path / "stalls" / "app.stalls.jsonl"
    log.touch()

    def fails(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(stalled, "append", fails)
        assert analyse() == 0
    said = capfd.readouterr().err
    assert f"headway: stalls are missing from {log}: No space left on device\n" in said
    assert "waits waited" in said

    assert main(["stalls", str(tmp_path / "stalls")]) == 0
    output = capfd.readouterr()
    assert output.out == "no file shows whether there were stalls\n"
    assert output.err.startswith(f"{log}: stalls are missing here, as the log could not be written; last at ")

    assert analyse() == 0  # there is room again
    capfd.readouterr()
    assert main(["stalls", str(log), "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert (len(found["stalls"]), found["cannot_tell"]) == (1, [str(log)])


def test_one_process_analyses_recordings_one_after_the_other(tmp_path, monkeypatch, capfd):
    """Each has a result of its own, and one that cannot be read takes none from the others."""
    (tmp_path / "stalls").mkdir()
    data = recording(tmp_path)
    files = [save_to_memory(lambda file, data=data: os.write(file, data) and None) for data in (data, b"none", data)]
    outputs = [os.memfd_create("found") for _ in files[1:]]
    first, second, third = (str(partial_of(tmp_path / "stalls" / f"app-{number}.hwt")) for number in range(3))
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(words(tmp_path, file) for file in files)))

    assert stalled.main([first, second, str(os.dup(outputs[0])), third, str(os.dup(outputs[1]))]) == 1

    said = capfd.readouterr()
    found = [said.out.encode(), *(os.pread(output, 1 << 16, 0) for output in outputs)]
    assert [len(json.loads(text)["stalls"]) if text else None for text in found] == [1, None, 1]
    assert f"headway: {second}: " in said.err
    assert len((tmp_path / "stalls" / "app.stalls.jsonl").read_text().splitlines()) == 2
    for file in (*files, *outputs):
        os.close(file)
