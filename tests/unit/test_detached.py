"""The start of a process that is no child of its starter."""

import errno
import json
import os
import resource
import signal
import sys

import pytest

from headway.errors import RecordingError
from headway.live import detached as module
from headway.live import watcher
from headway.live.detached import alone, detached, start_detached
from headway.live.options import Limits, Options
from headway.live.watching import start_watcher

ENDS_BY_DEFAULT = sorted(
    signal.valid_signals()
    - {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGSYS, signal.SIGTRAP}
    - {signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH}
    - {signal.SIGKILL, signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
)
OPTIONS = Options("/nowhere", "it", os.getpid(), Limits())


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import time; time.sleep(60)", "it is not ready after 0.1 s"),
        ("import sys; sys.exit(3)", "with exit code 3"),
        ("import sys; print('no room'); sys.exit(3)", "^no room$"),
    ],
    ids=["late", "ended", "ended-with-a-reason"],
)
def test_no_error_tells_the_command(code, said):
    """A command has a door's secret number, and the reason of a failure goes to a service's log."""
    kept = os.open(os.devnull, os.O_RDONLY)
    try:
        with pytest.raises((OSError, ValueError), match=said) as failed:
            start_detached([sys.executable, "-I", "-S", "-c", code, "secret"], kept, {}, 0.1 if "sleep" in code else 60)
    finally:
        os.close(kept)

    assert "secret" not in str(failed.value)
    assert failed.value.__suppress_context__


@pytest.mark.parametrize(("code", "said"), [("print('no room')", "no room"), ("", "it ended before it was ready")])
def test_what_a_command_prints_instead_of_an_id_is_the_reason(code, said):
    """The detached process may fail after its command has ended well."""
    kept = os.open(os.devnull, os.O_RDONLY)
    try:
        with pytest.raises(ValueError, match=f"^{said}$"):
            start_detached([sys.executable, "-I", "-S", "-c", code], kept, {}, 60)
    finally:
        os.close(kept)


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "not inherited"])
def test_a_command_has_a_stderr(is_closed):
    """A command that would begin without stderr has /dev/null there, and no file that it opens counts as its stderr."""
    code = "import os; print(int(os.path.samestat(os.fstat(2), os.stat(os.devnull))))"
    kept, stderr = os.open(os.devnull, os.O_RDONLY), os.dup(2)
    try:
        os.close(2) if is_closed else os.set_inheritable(2, False)
        found = start_detached([sys.executable, "-I", "-S", "-c", code], kept, {}, 60)
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(kept)

    assert found == 1


def test_a_limit_of_processes_is_named(monkeypatch, capfd):
    """The process between us and the detached one tells by its status that it could start none; a watcher says so."""
    monkeypatch.setattr(module.os, "fork", lambda: 1 << 30)
    monkeypatch.setattr(module.os, "waitpid", lambda *_: (1 << 30, 1 << 8))

    with pytest.raises(BlockingIOError) as failed:
        detached(lambda: None)
    assert (failed.value.errno, failed.value.strerror) == (errno.EAGAIN, os.strerror(errno.EAGAIN))

    assert watcher.main([json.dumps(OPTIONS.to_json()), "0", "/nowhere", "1"]) == 1
    assert capfd.readouterr().out == f"{os.strerror(errno.EAGAIN)}\n"


def test_a_watcher_that_cannot_begin_tells_why(tmp_path):
    """The reason is that of the detached process itself, as of a folder that is gone."""
    with pytest.raises(RecordingError, match=r"does not start: .*No such file or directory: '.*gone'"):
        start_watcher(OPTIONS._replace(folder=str(tmp_path / "gone")))


def test_a_limit_of_open_files_is_named(monkeypatch):
    """A watcher that could not open the files of one process is not started."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (8, 8))

    with pytest.raises(RecordingError, match="it may open 8 files, expected 16"):
        start_watcher(OPTIONS)


def test_no_signal_to_a_whole_service_ends_a_process_of_ours():
    """Each signal that ends a process by default is ignored, such as SIGUSR1, by which services reopen their logs."""
    reading, writing = os.pipe()

    def work():
        (output,) = alone(b"headway-test", writing)
        assert output is not None
        for number in ENDS_BY_DEFAULT:
            os.kill(os.getpid(), number)
            os.write(output, bytes([number]))

    try:
        detached(work)
        os.close(writing)
        seen = b"".join(iter(lambda: os.read(reading, 100), b""))
    finally:
        os.close(reading)
    assert list(seen) == ENDS_BY_DEFAULT
    assert {signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGQUIT, signal.SIGRTMIN} <= set(seen)
