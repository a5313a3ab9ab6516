"""Attaching to a process without Python: one that has not started it yet is waited for, and never called meanwhile."""

import os
import subprocess
from pathlib import Path

import pytest
from attached import Attached
from real_programs import LIMIT_S

from headway.errors import RecordingError
from headway.host.interpreters import discover, select
from headway.live import inject
from headway.live.attach import StandsStillError, detach, look_at
from headway.traces.reader import read

BY_NAME = {interpreter.name: interpreter for interpreter in reversed(select(discover()[0], ["all"]))}
NAMES = [name for name in ("3.8", "3.11", "3.12", "3.13t") if name in BY_NAME] + ["3.14", "3.15"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="before 3.14, attaching is for x86-64"),
]

GATE = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void stand_at_the_gate(void) {
    char byte;
    int gate = open(getenv("GATE"), O_RDONLY);
    while (read(gate, &byte, 1) == 1) {
    }
    close(gate);
    unsetenv("LD_PRELOAD");
}
"""

PROGRAM = """
import select, sys, threading, time, types
while not select.select([sys.stdin], [], [], 0.001)[0]:
    time.sleep(0.001)
print("as it would")
"""


# In place of the standard library's module of that name, from whose file it takes the rest.
IMPORTED = """
import posix, sys
gate = posix.open(posix.environ[b"GATE"], posix.O_RDONLY)
while posix.read(gate, 1):
    pass
posix.close(gate)
file = sys.path[sys.path.index(__file__.rpartition("/")[0]) + 2] + "/" + __name__ + ".py"
with open(file, encoding="utf-8") as source:
    text = source.read()
exec(compile(text, file, "exec"), globals())
"""


class Waiting:
    """A process of an interpreter that waits at a gate until it is opened."""

    def __init__(self, interpreter, folder, options=(), **variables):
        gate = folder / "gate"
        os.mkfifo(gate)
        environment = {**os.environ, "GATE": str(gate), **variables}
        self.process = subprocess.Popen(
            [str(interpreter.executable), *options, "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self._gate = os.open(gate, os.O_WRONLY)  # returns when the process has come to it

    def open(self):
        """Let the process go on; again has no effect."""
        if self._gate >= 0:
            os.close(self._gate)
            self._gate = -1

    def end(self):
        """Tell the program to end; return what it printed, and its exit code."""
        self.open()
        output, errors = self.process.communicate("\n", timeout=LIMIT_S)
        return output, errors, self.process.returncode


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Return a library that waits when it is loaded."""
    folder = tmp_path_factory.mktemp("gate")
    (folder / "gate.c").write_text(GATE)
    built = folder / "gate.so"
    subprocess.run(["cc", "-shared", "-fPIC", folder / "gate.c", "-o", built], check=True)
    return built


@pytest.fixture(params=NAMES)
def waiting(request, library, tmp_path):
    """Return a process that has begun, and is before its first instruction of CPython."""
    one = Waiting(BY_NAME[request.param], tmp_path, LD_PRELOAD=str(library))
    with one.process:
        yield one
        one.process.kill()
        one.open()


def test_a_process_is_recorded_once_it_has_started_its_python(waiting, tmp_path):
    """The first tries find no Python to call; the process is recorded as soon as there is one, and computes the same."""
    target, tries = look_at(waiting.process.pid), []

    def check():
        tries.append(1)
        if len(tries) == 3:  # once before the first try, and once after each that found no Python
            waiting.open()

    held = Attached(target, tmp_path / "trace.hwt", patience_s=LIMIT_S, check=check)
    detach(target)
    held.close()
    assert waiting.end() == ("as it would\n", "", 0)
    assert read(tmp_path / "trace.hwt").process.pid == target.pid


@pytest.mark.matrix("name")
@pytest.mark.parametrize("module", ["os", "threading", "types"])
@pytest.mark.parametrize("name", NAMES)
def test_a_process_is_recorded_once_it_has_imported_what_that_needs(name, module, tmp_path):
    """The main thread executes the first request in the middle of an import, and another one afterwards.

    Headway's code imports `os` and `threading`, which itself imports `types` by way of `functools`.
    """
    interpreter, own = BY_NAME[name], tmp_path / "own"
    own.mkdir()
    (own / f"{module}.py").write_text(IMPORTED)
    options = ["-X", "frozen_modules=off"] if interpreter.order >= (3, 11) else []
    waiting = Waiting(interpreter, tmp_path, options, PYTHONPATH=str(own))
    tries = []

    def check():
        tries.append(1)
        if len(tries) == 3:  # the process has been asked, and has not answered
            waiting.open()

    with waiting.process:
        target = look_at(waiting.process.pid)
        held = Attached(target, tmp_path / "trace.hwt", patience_s=LIMIT_S, check=check)
        detach(target)
        held.close()
        assert waiting.end() == ("as it would\n", "", 0)
    assert read(tmp_path / "trace.hwt").process.pid == target.pid


def test_a_process_that_starts_no_python_is_left_as_it_is(waiting, tmp_path):
    """After the patience, the reason is told; nothing runs in the process later."""
    target = look_at(waiting.process.pid)
    before = Path(f"/proc/{target.pid}/maps").read_text()
    with pytest.raises(StandsStillError, match="runs no Python yet"):
        Attached(target, tmp_path / "trace.hwt", patience_s=0.0)
    assert Path(f"/proc/{target.pid}/maps").read_text() == before
    assert waiting.end() == ("as it would\n", "", 0)


def test_a_process_without_python():
    """A process without CPython is an error, and is not even stopped."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        try:
            with pytest.raises(RecordingError, match="does not run a CPython"):
                look_at(process.pid)
            with pytest.raises(RecordingError, match="has no CPython in it"):
                inject.run_soon(process.pid, "pass")
            assert process.poll() is None
        finally:
            process.kill()
