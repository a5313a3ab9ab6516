"""Run the commands that a page of the documentation shows, and compare their output with the page.

docs/contributing/documentation.md has the convention.
"""

import contextlib
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

from pages import Awaited, CtrlC, PageError, Step, first_missing, in_sample, read_page
from ports import free_ports

COLUMNS = 80
LIMIT_S = 90
"""The longest that a block may take, and the longest wait for output that comes after a block's end."""
SLOW_LIMIT_S = 1800
END_S = 90
"""How long commands of the second terminal may take to end after Ctrl-C.

A threaded worker of gunicorn 27.0 that gets a second signal within its handler of the first one waits for its own lock,
in one of some hundred ends. gunicorn kills it after 30 s.
"""

LEFT_S = 1
"""How long background jobs may go on after their shell, before they are asked again."""

_PORT = re.compile(r"127\.0\.0\.1:(\d+)\b")


def run_page(path, folder, environment, *, slow=False):
    """Run a page's commands in an empty folder, and compare their output with the page.

    Args:
        path: The page.
        folder: The folder for the page's files and commands.
        environment: Variables in addition to those of this process.
        slow: Whether to run the page as it stands, with the blocks, too, that only a test of everything runs.

    Raises:
        PageError: A command fails, or prints something else than the page shows.
    """
    text = path.read_text(encoding="utf-8")
    page = read_page(with_free_ports(text if slow else in_sample(text)))
    for example in page.examples:
        shutil.copy(path.parent / example, folder)
    for name, text in page.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("HEADWAY_P", "PYTHON"))}
    for name in ("VIRTUAL_ENV", "COLUMNS", "LINES"):
        variables.pop(name, None)
    variables |= {"TERM": "dumb", "BROWSER": "true", "LC_ALL": "C.UTF-8", **environment}
    variables["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{variables['PATH']}"
    with SecondTerminal(folder, variables) as second:
        for step in page.steps:
            line = 0
            try:
                if isinstance(step, CtrlC):
                    second.end()
                    continue
                line = (step.output if isinstance(step, Awaited) else step.commands).line
                if isinstance(step, Awaited):
                    second.wait_for(step.output.text)
                elif step.slow and not slow:
                    continue
                elif step.beside:
                    second.begin(step)
                else:
                    run_step(step, folder, variables, SLOW_LIMIT_S if step.slow else LIMIT_S)
            except PageError as error:
                raise PageError(f"{path.name}:{line}: {error}\n{second.told()}") from None


def with_free_ports(text):
    """Replace the ports that a page has after 127.0.0.1 by free ones, each by the same one in the whole page."""
    ports = sorted(set(_PORT.findall(text)))
    free = dict(zip(ports, map(str, free_ports(len(ports))), strict=True))
    return re.sub(r"\b\d+\b", lambda found: free.get(found[0], found[0]), text) if free else text


def run_step(step, folder, variables, limit_s=LIMIT_S):
    """Run one block on a terminal of its own; return its output.

    A detached process may write after the block's end (the summary of `headway trace`), so the block is over as soon as
    everything that the page shows is there.

    Raises:
        PageError: The block fails, prints something else, or takes longer than the limit.
    """
    with _terminal() as (ours, theirs), _begun(step, folder, variables, theirs) as process:
        try:
            return _output(process, ours, step, limit_s)
        finally:
            _signal_group(process.pid, signal.SIGKILL)


class SecondTerminal:
    """Commands that go on while others run, until the page says Ctrl-C, or ends."""

    def __init__(self, folder, variables):
        self._folder = folder
        self._variables = variables
        self._begun = contextlib.ExitStack()
        self._processes = []
        self._readers = []
        self._data = bytearray()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def begin(self, step):
        """Start a block of commands, and wait until they have printed what the page shows."""
        ours, theirs = self._begun.enter_context(_terminal())
        process = _begun(step, self._folder, self._variables, theirs)
        self._processes.append(process)
        reader = threading.Thread(target=self._read, args=(ours, process.pid), daemon=True)
        self._readers.append(reader)
        reader.start()
        for output in step.outputs:
            self.wait_for(output.text)

    def wait_for(self, shown):
        """Wait until the commands have printed the text, since they began or since the last Ctrl-C.

        Raises:
            PageError: A command has failed, or the text does not come within the limit.
        """
        until, length = time.monotonic() + LIMIT_S, -1
        missing = shown
        while True:
            # Without new output the comparison, which takes as long as a small program, would tell the same.
            if len(self._data) != length:
                length = len(self._data)
                missing = first_missing(shown, self.told())
            if not missing:
                return
            failed = next((one for one in self._processes if one.poll()), None)
            if failed is not None or time.monotonic() > until:
                why = f"its commands failed with {failed.returncode}" if failed else f"not within {LIMIT_S} s"
                raise PageError(f"the second terminal lacks {missing!r}: {why}")
            time.sleep(0.02)

    def told(self):
        """Return what the commands have printed since the last Ctrl-C."""
        return self._data.decode(errors="replace")

    def end(self):
        """Do as Ctrl-C does, and wait until all commands have ended; what does not end is killed.

        Raises:
            PageError: Something had to be killed.
        """
        killed = [process for process in self._processes if not _ends(process)]
        for reader in self._readers:
            reader.join()
        self._begun.close()
        told = self.told()
        self._processes, self._readers, self._data = [], [], bytearray()
        if killed:
            raise PageError(f"these commands did not end within {END_S} s of Ctrl-C: {killed[0].args[-1]}\n{told}")

    def _read(self, terminal, group):
        # The terminal is read until nobody is left who could write to it, since a full terminal makes its writers wait.
        while _is_there(group) or select.select([terminal], [], [], 0)[0]:
            if select.select([terminal], [], [], 0.02)[0]:
                self._data += os.read(terminal, 65536)


def _ends(process):
    """Have a process and its group end; return whether they did so before they were killed."""
    for number in (signal.SIGINT, signal.SIGTERM):
        _signal_group(process.pid, number)
        until = time.monotonic() + END_S / 2
        while time.monotonic() < until:
            over = process.poll() is not None
            if not _is_there(process.pid):
                return True
            # A shell lets its background jobs ignore Ctrl-C: what is left after the shell is asked in another way.
            if over and number == signal.SIGINT:
                until = min(until, time.monotonic() + LEFT_S)
            time.sleep(0.02)
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()
    return False


def _is_there(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@contextlib.contextmanager
def _terminal():
    """Open a terminal; give both of its ends."""
    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
        # A process that opens the terminal by its name finds it as long as `theirs` is open.
        yield ours, theirs
    finally:
        os.close(theirs)
        os.close(ours)


def _begun(step: Step, folder, variables, terminal):
    return subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", step.commands.text],
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )


def _output(process, terminal, step, limit_s):
    data, compared, missing = b"", None, ""
    until = time.monotonic() + limit_s
    ended = False
    while True:
        # The process is polled before the read: if it has ended, the terminal already has all of its output.
        over = process.poll() is not None
        if over and not ended:
            ended, until = True, time.monotonic() + min(limit_s, LIMIT_S)
        if select.select([terminal], [], [], 0.05)[0]:
            data += os.read(terminal, 65536)
            continue
        output = data.decode(errors="replace")
        if data != compared:
            compared = data
            missing = next((one for one in (first_missing(out.text, output) for out in step.outputs) if one), "")
        if over and process.returncode:
            raise PageError(f"exit code {process.returncode}:\n{step.commands.text}\n{output}")
        if over and not missing:
            return output
        if time.monotonic() > until:
            why = f"the output lacks {missing!r}" if over else f"it takes longer than {limit_s} s"
            raise PageError(f"{why}:\n{step.commands.text}\n{output}")


def _signal_group(group, number):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)
