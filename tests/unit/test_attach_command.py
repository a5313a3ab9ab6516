"""The words of `headway attach` at its end: of processes that it could not enter, and of a recording that is short."""

import argparse
import subprocess
import sys
from types import SimpleNamespace
from typing import cast

import pytest
from made_traces import made_trace

from headway.cli.attach_command import _end, _Recording, _Signals
from headway.live.attach import Attachment, Target
from headway.live.door import Door
from headway.live.lease import Ended
from headway.traces import family
from headway.traces.writer import write


@pytest.fixture
def recording(tmp_path):
    """Return what the command has recorded of process 4711, into a file with a trace that is shorter than a second."""
    file = tmp_path / "app.hwt"
    write(made_trace(events=100), file)
    arguments = argparse.Namespace(duration=1000.0, no_summary=False, patience=10.0, despite_filter=False)
    target = Target(4711, (3, 14), free_threaded=False, started=1)
    nothing = cast(Door, None), arguments, cast(_Signals, SimpleNamespace())
    return _Recording(target, file, *nothing)


def test_children_that_were_not_entered_are_told_with_the_remedy(recording, capsys):
    """A child that ends at once can only be recorded from its start."""
    recording.newcomers._gone = {12, 11}
    recording.tell(ended=False)

    said = capsys.readouterr().err
    assert "began too late or ended too early: 11, 12; `headway trace` records children from their start\n" in said
    assert "warning" not in said


@pytest.mark.parametrize(("duration_s", "warned"), [(1000.0, True), (None, False)])
def test_the_trace_is_read_once(recording, monkeypatch, capsys, duration_s, warned):
    """It may have hundreds of megabytes; the warning and the summary are from the same reading."""
    reads = []

    def read_once_more(path, read=family.read_family):
        reads.append(path)
        return read(path)

    monkeypatch.setattr(family, "read_family", read_once_more)
    recording._arguments.duration = duration_s
    recording.tell(ended=True)

    said = capsys.readouterr().err
    assert len(reads) == 1
    assert ("of the 1000 s asked: the child processes of process 4711 have ended" in said) == warned
    assert f"the trace is in {recording._file}" in said


@pytest.mark.parametrize("policy", [False, True])
def test_a_program_that_ends_before_headway_has_left_it_is_no_failure(policy, capsys):
    """All of it is recorded, and nothing of Headway's is left that could end by itself."""
    program = subprocess.Popen([sys.executable, "-c", "pass"])
    program.wait()
    target = Target(program.pid, (3, 14), free_threaded=False, started=1)
    arguments = argparse.Namespace(patience=10.0, despite_filter=False)
    held, signals = SimpleNamespace(ended=Ended.LIVE), SimpleNamespace(check=lambda: None)

    code = _end(target, cast(Attachment, held), arguments, cast(_Signals, signals), policy=policy)

    assert (code, capsys.readouterr().err) == (0, "")
