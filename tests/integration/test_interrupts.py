"""A Ctrl-C that comes where Python swallows its handler's exception."""

import dataclasses
import signal
import subprocess
import sys
import textwrap

import pytest
from synthetic import make_cell

from headway import lab
from headway.cli import console
from headway.cli.main import main

STARTS = """
    import os, signal, subprocess, sys, tempfile, threading
    from headway.host.children import start

    NUMBER = signal.Signals[sys.argv[1]]
    def stop(number, frame):
        raise KeyboardInterrupt
    signal.signal(NUMBER, stop)
    # Python runs this in the fork, and swallows what it raises.
    os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), NUMBER))

    def try_it():
        with tempfile.TemporaryFile() as errors:
            try:
                process = start(["/bin/cat"], (), stdout=subprocess.DEVNULL, stderr=errors)
            except KeyboardInterrupt:
                print("stopped")
            else:
                print("went on")
                process.stdin.close()
                process.wait()

    try_it()
    assert signal.getsignal(NUMBER) is stop
    try:
        print(os.waitpid(-1, 0))
    except ChildProcessError:
        print("nobody is left")
    signal.signal(NUMBER, signal.SIG_IGN)
    try_it()
    thread = threading.Thread(target=try_it)
    thread.start()
    thread.join()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_ctrl_c_while_a_process_is_started(name):
    """A Ctrl-C during the start of a process stops us and ends the process.

    Ignored signals stay ignored, and other threads can start processes, too.
    """
    command = [sys.executable, "-c", textwrap.dedent(STARTS), name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.stderr == ""
    assert done.stdout.splitlines() == ["stopped", "nobody is left", "went on", "went on"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_that_python_swallows_ends_the_run_before_the_next_launch(monkeypatch, tmp_path, capsys, number):
    """A Ctrl-C during an object's collection ends the run before the next launch; a finished run is not affected."""

    class Collected:
        def __del__(self):
            signal.raise_signal(number)

    def run(_request, *, report, say, provide):
        first = lab.Progress("a-run", 0, 2, None, make_cell("sleep", "one", "i"), 0, 0, None)
        report(first)
        Collected()
        reached.append(1)
        report(dataclasses.replace(first, done=2, cell=None))
        report(dataclasses.replace(first, done=1))
        reached.append(2)

    reached = []
    monkeypatch.setattr(sys, "unraisablehook", lambda _what: None)
    monkeypatch.setattr(lab, "run", run)
    monkeypatch.setattr(lab, "load_run", lambda run, store: exit(f"{run} is shown"))
    before = signal.getsignal(number)

    with pytest.raises(SystemExit, match="a-run is shown"):
        main(["lab", "sleep", "--store", str(tmp_path / "store.sqlite")])
    assert reached == [1]
    assert signal.getsignal(number) == before
    assert "run a-run: 2 launches" in capsys.readouterr().err


def test_a_reader_that_goes_away_ends_the_run_as_ctrl_c_does(monkeypatch, tmp_path, capsys):
    """`headway lab | head` stops launching, shows how to go on, and says by its exit code that the run is not whole."""

    def run(_request, *, report, say, provide):
        report(lab.Progress("a-run", 0, 2, None, make_cell("sleep", "one", "i"), 0, 0, None))
        raise BrokenPipeError

    discarded = []
    monkeypatch.setattr(console, "discard_output", lambda: discarded.append(True))
    monkeypatch.setattr(lab, "run", run)
    monkeypatch.setattr(lab, "load_run", lambda run, store: exit(f"{run} is shown"))
    with pytest.raises(SystemExit, match="a-run is shown"):
        main(["lab", "sleep", "--store", str(tmp_path / "store.sqlite")])
    assert discarded == [True]
    assert "the reader of the output is gone" in capsys.readouterr().err
