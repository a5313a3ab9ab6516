"""`headway stalls` on data that does not show stalls, or does not show them yet."""

import json

import pytest
from told_traces import Script

from headway.cli import main
from headway.live import files, untold
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


def test_a_recording_without_stacks_tells_only_waits_for_the_gil(tmp_path, capsys):
    """CPython before 3.11 has no stacks, and without them Headway does not know where an event loop waits."""
    script = Script().wait(0, 0, stack=0).hold(1, 0, 300, stack=0).hold(0, 301, 302, stack=0)
    old = writer.write(script.trace(400, "a", "b", stacks=False, python="3.10.13"), tmp_path / "app.hwt")
    why = "a recording of Python 3.10.13 has no stacks, so Headway tells only its long waits for the GIL"

    assert main(["stalls", str(old)]) == 0
    output = capsys.readouterr()
    assert output.out.startswith("1 stall, ")
    assert output.err == f"{old}: {why}\n"
    assert main(["stalls", str(old), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cannot_tell"] == [str(old)]


def test_a_folder_of_a_trace_without_a_log_has_its_stalls(tmp_path, capsys):
    """`headway attach` and `headway trace` write no log: the traces tell."""
    writer.write(Script().wait(0, 0).hold(1, 0, 300).hold(0, 301, 302).trace(400, "a", "b"), tmp_path / "app.hwt")

    assert main(["stalls", str(tmp_path), "--json"]) == 0
    assert {one["recording"] for one in json.loads(capsys.readouterr().out)["stalls"]} == {"app.hwt"}


def test_stalls_of_a_program_that_has_just_ended_are_waited_for(tmp_path, monkeypatch, capsys):
    """A log whose watcher still analyses the program's last recording is read after that."""
    log = tmp_path / "app.stalls.jsonl"
    log.touch()
    watcher = untold.Untold(tmp_path)
    watcher.mark(True)

    def analysed(_):
        log.write_text(json.dumps({"began": "2026-01-01T00:00:00+00:00", "length_s": 1, "parts": []}) + "\n")
        watcher.mark(False)

    monkeypatch.setattr(untold.time, "sleep", analysed)
    for path in (log, tmp_path):
        watcher.mark(True)
        log.write_text("")
        assert main(["stalls", str(path)]) == 0
        output = capsys.readouterr()
        assert (output.out.splitlines()[0], output.err) == ("1 stall, 1 s in total", "")


def test_a_trace_that_is_not_complete_is_waited_for(tmp_path, monkeypatch, capsys):
    """The collector of a program that has ended may still write its trace."""
    path = tmp_path / "app.hwt"
    collector = files.lock(path)
    files.lock_path(path).write_text("0 0\n", encoding="ascii")  # no process with this id runs

    def written(_):
        writer.write(Script().hold(0, 0, 1).trace(9), path)
        files.unlock(path, collector)

    monkeypatch.setattr(files.time, "sleep", written)
    assert main(["stalls", str(path)]) == 0
    assert capsys.readouterr().out == "0 stalls, 0 ns in total\n"


@pytest.mark.parametrize(("name", "message"), [("nowhere.hwt", "there is no file"), ("empty", "has no log of stalls")])
def test_a_wrong_name_is_an_error(tmp_path, capsys, name, message):
    """There is nothing to read at all."""
    (tmp_path / "empty").mkdir()

    assert main(["stalls", str(tmp_path / name)]) == 6
    assert message in capsys.readouterr().err


def test_others_are_told_beside_a_file_that_cannot_be_read(tmp_path, capsys):
    """A folder without stalls, a trace that is none and a missing file cost a line each, and JSON names them."""
    good = writer.write(Script().wait(0, 0).hold(1, 0, 300).hold(0, 301, 302).trace(400, "a", "b"), tmp_path / "a.hwt")
    empty, broken, missing = tmp_path / "empty", tmp_path / "broken.hwt", tmp_path / "missing"
    empty.mkdir()
    broken.write_text("no trace")
    paths = [str(one) for one in (empty, good, broken, missing)]

    assert main(["stalls", *paths, "--json"]) == 0
    output = capsys.readouterr()
    found = json.loads(output.out)
    assert len(found["stalls"]) == 1
    assert found["cannot_tell"] == [str(empty), str(missing), str(broken)]
    assert len([line for line in output.err.splitlines() if line.startswith("left out: ")]) == 3
    assert main(["stalls", paths[0], paths[3]]) == 6
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(
        f"left out: the folder {empty} has no log of stalls\nerror: there is no file {missing}"
    )


def test_a_log_that_a_watcher_still_writes_is_no_wrong_name(tmp_path, capsys, monkeypatch):
    """The first log of a folder may come only after the program's end."""
    (tmp_path / "stalls").mkdir()
    log = tmp_path / "stalls" / "app.stalls.jsonl"
    monkeypatch.setattr("headway.cli.stalls_command.wait_until_told", lambda *_: log.touch() or True)

    assert main(["stalls", str(log.parent)]) == 0
    assert capsys.readouterr().out == "0 stalls, 0 ns in total\n"


def test_a_link_to_a_trace_has_the_stalls_of_the_launch_beside_it(tmp_path, capsys):
    """The traces of children beside the link are of the same launch, as for `headway report`."""
    script = Script().wait(0, 0).hold(1, 0, 300).hold(0, 301, 302)
    parent = writer.write(Script().hold(0, 0, 1).trace(9), tmp_path / "app.hwt")
    writer.write(script.trace(400, "a", "b"), tmp_path / "link.7.hwt")
    (tmp_path / "link.hwt").symlink_to(parent)

    assert main(["stalls", str(tmp_path / "link.hwt")]) == 0
    assert capsys.readouterr().out.startswith("1 stall, ")


def test_a_log_that_was_cut_off_in_its_first_entry_does_not_hide_others(tmp_path, capsys):
    """The disk was full when its first stall was written. It does not show whether there were further ones."""
    row = json.dumps({"began": "2026-01-01T00:00:00+00:00", "length_s": 1, "parts": []})
    cut, good = tmp_path / "a.stalls.jsonl", tmp_path / "b.stalls.jsonl"
    cut.write_text(row[:40])
    good.write_text(row + "\n")
    left_out = f"{cut}: left out, since not a valid entry: 1 line\n"

    assert main(["stalls", str(tmp_path)]) == 0
    output = capsys.readouterr()
    assert (output.out.splitlines()[0], output.err) == ("1 stall, 1 s in total", left_out)
    assert main(["stalls", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cannot_tell"] == [str(cut)]
    assert main(["stalls", str(cut)]) == 0
    output = capsys.readouterr()
    assert (output.out, output.err) == ("no file shows whether there were stalls\n", left_out)

    other = cut.rename(tmp_path / "a.txt")
    assert main(["stalls", str(other)]) == 6
    assert "is neither a log of stalls nor a trace" in capsys.readouterr().err


def test_a_device_is_there_and_is_no_log(capsys):
    """A path that exists and is no file is not said to be missing."""
    assert main(["stalls", "/dev/null"]) == 6
    assert capsys.readouterr().err.startswith("error: /dev/null is no log of stalls: it is no regular file\n\nhint: ")
