"""`headway stalls` on data that does not show stalls."""

import json

import pytest
from told_traces import Script

from headway.cli import main
from headway.traces import writer
from headway.traces.model import Park


@pytest.fixture
def free(tmp_path):
    """Return the path of a recording of a process without a GIL, in a folder of its own."""
    (tmp_path / "stalls").mkdir()
    trace = Script().park(0, 0, 900, Park.LOCK).trace(1000, gils=0, free_threaded=True, gil_enabled=False)
    return writer.write(trace, tmp_path / "stalls" / "app.hwt")


@pytest.mark.parametrize("is_folder", [False, True])
def test_stalls_without_a_gil_cannot_be_told(free, capsys, is_folder):
    """A recording of a process without a GIL, alone or in a folder without a log, is no proof that nothing stalled."""
    assert main(["stalls", str(free.parent if is_folder else free)]) == 0
    output = capsys.readouterr()

    assert output.out == "no file shows whether there were stalls\n"
    assert output.err == f"{free}: the process ran without a GIL, so Headway cannot tell its stalls\n"


def test_stalls_of_other_files_are_told(free, tmp_path, capsys):
    """A trace with a GIL beside it has its stalls, and the JSON names the file that cannot tell."""
    other = writer.write(Script().hold(0, 0, 1).trace(9), tmp_path / "app.hwt")

    assert main(["stalls", str(free), str(other), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["stalls"], found["cannot_tell"]) == ([], [str(free)])
    assert main(["stalls", str(free), str(other)]) == 0
    assert capsys.readouterr().out == "0 stalls, 0 ns in total\n"
