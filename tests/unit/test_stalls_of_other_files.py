"""`headway stalls` on logs that come by a pipe, and on those that logrotate has renamed."""

import gzip
import json
import os
import pty
import socket
import sys
import threading

import pytest

from headway.cli import main
from headway.errors import TraceError

ROW = {
    "began": "2026-11-29T16:00:00+00:00",
    "kind": "request",
    "cause": "own code",
    "length_s": 1.5,
    "parts": [{"cause": "own code", "time_s": 1.5, "place": None}],
}
LINE = json.dumps(ROW) + "\n"


def number(capsys):
    """Return the number of stalls in the JSON that was printed."""
    return len(json.loads(capsys.readouterr().out)["stalls"])


@pytest.fixture
def piped():
    """Return the descriptor of a pipe that has a log, and no more to come."""
    reading, writing = os.pipe()
    os.write(writing, LINE.encode())
    os.close(writing)
    yield reading
    os.close(reading)


def test_a_log_comes_by_a_pipe(piped, capsys):
    """As from `<(zcat app.stalls.jsonl.1.gz)` of a shell."""
    assert main(["stalls", f"/dev/fd/{piped}", "--json"]) == 0
    assert number(capsys) == 1


@pytest.fixture(params=["pipe", "socket", "terminal", "nothing"])
def given(request, piped):
    """Return the descriptor of something that a log comes by, and the number of its stalls."""
    if request.param == "pipe":
        yield piped, 1
    elif request.param == "nothing":
        with open(os.devnull) as nothing:
            yield nothing.fileno(), 0
    elif request.param == "socket":
        here, there = socket.socketpair()
        with here, there:
            there.sendall(LINE.encode())
            there.shutdown(socket.SHUT_WR)
            yield here.fileno(), 1
    else:
        typing, terminal = pty.openpty()
        os.write(typing, LINE.encode() + b"\x04")
        yield terminal, 1
        os.close(terminal)
        os.close(typing)


def test_a_log_comes_at_stdin(given, capsys):
    """The name for it is that of other tools. It is a socket under ssh, and may be a terminal or /dev/null."""
    descriptor, stalls = given
    stdin = os.dup(0)
    os.dup2(descriptor, 0)
    try:
        assert main(["stalls", "-", "--json"]) == 0
    finally:
        os.dup2(stdin, 0)
        os.close(stdin)
    assert number(capsys) == stalls


def test_a_closed_stdin_is_an_error(capsys, monkeypatch):
    """Python tells of it by this; its descriptor may be that of another file by then."""
    monkeypatch.setattr(sys, "stdin", None)

    assert main(["stalls", "-"]) == TraceError.exit_code
    assert "/dev/stdin cannot be read: Bad file descriptor" in capsys.readouterr().err


def test_a_named_pipe_is_read(tmp_path, capsys):
    """Its folder has no watcher that is waited for."""
    path = tmp_path / "log"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=(LINE,))
    writer.start()
    assert main(["stalls", str(path), "--json"]) == 0
    writer.join()
    assert number(capsys) == 1


@pytest.mark.parametrize("has_new", [True, False])
def test_logs_that_were_renamed_are_those_of_their_folder(tmp_path, capsys, has_new):
    """Beside an empty log they would all be missing. Packed ones are named, with the command that reads them."""
    (tmp_path / "app.stalls.jsonl.1").write_text(LINE)
    (tmp_path / "app.stalls.jsonl-20261129").write_text(json.dumps(ROW | {"pid": 8}) + "\n")
    (tmp_path / "app.stalls.jsonl-2026-11-28.2").write_text(json.dumps(ROW | {"pid": 9}) + "\n")
    packed = tmp_path / "app.stalls.jsonl.2.gz"
    with gzip.open(packed, "wb") as file:
        file.write(LINE.encode())
    (tmp_path / "app.stalls.jsonl.incomplete").touch()
    (tmp_path / "app.stalls.jsonl-2026-11-28.old").write_text(LINE)
    if has_new:
        (tmp_path / "app.stalls.jsonl").touch()

    assert main(["stalls", str(tmp_path), "--json"]) == 0
    output = capsys.readouterr()
    assert len(json.loads(output.out)["stalls"]) == 3
    assert f"{packed} is not read; `zcat {packed} | headway stalls -` reads it\n" in output.err
