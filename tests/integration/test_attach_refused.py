"""`headway attach` to a process in which the code that it is to run cannot even begin: the process goes on as it would.

Before CPython 3.14 that code is a pending call, whose failure would be an exception in the middle of the program.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from headway.lab.interpreters import discover

HEADWAY = str(Path(sys.executable).with_name("headway"))
BY_NAME = {one.name: one for one in reversed(discover()[0])}
CALLED = [name for name in ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.13t") if name in BY_NAME]
QUIET = ("3.11", "3.12", "3.13", "3.13t")
LIMIT_S = 60.0

pytestmark = [pytest.mark.slow, pytest.mark.any_load]

PROGRAM = """
import os, select, sys
seen, armed = [], False
def compute():
    print("ready", flush=True)
    while not select.select([0], [], [], 0)[0]:
        pass

def audits(event, arguments):
    if armed and event in ("compile", "exec", "open", "import"):
        raise RuntimeError(event)

def traces(frame, event, argument):
    if frame.f_code.co_filename != "<string>" or frame.f_code.co_name == "<module>":
        seen.append(frame.f_code.co_name)
        raise ValueError("no frame but the program's own")
    return traces

def deep(depth):
    return deep(depth - 1) if depth else compute()

if sys.argv[1] == "audit":
    sys.addaudithook(audits)
    armed = True
    compute()
elif sys.argv[1] == "trace":
    sys.settrace(traces)
    compute()
    print("tracing" if sys.gettrace() is traces else "not tracing", seen)
    sys.settrace(None)
else:
    sys.setrecursionlimit(200)
    for depth in range(199, 0, -1):
        try:
            deep(depth)
        except RecursionError:
            continue
        break
print("end")
"""


def played(name, way):
    """Attach to the program while it computes; return its exit code and what it said, and attach's exit code."""
    program = subprocess.Popen(
        [BY_NAME[name].executable, "-c", PROGRAM, way], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with program:
        lines = []
        while not lines or lines[-1] != "ready\n":
            lines.append(program.stdout.readline())
            assert lines[-1], program.stderr.read()
        words = [HEADWAY, "attach", str(program.pid), "--duration", "0.2", "--patience", "1", "-o", "x.hwt"]
        attach = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        output, errors = program.communicate("\n", timeout=LIMIT_S)
    return program.returncode, output.splitlines(), errors, attach


@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", CALLED)
@pytest.mark.parametrize("way", ["audit", "deep"])
def test_what_refuses_the_code_goes_on(name, way, tmp_path, monkeypatch):
    """An audit hook that raises; a main thread at its recursion limit."""
    monkeypatch.chdir(tmp_path)
    code, output, errors, attach = played(name, way)

    assert (code, output, errors) == (0, ["end"], "")
    assert attach.returncode != 0
    assert "error: " in attach.stderr


@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", CALLED)
def test_a_trace_function_that_raises(name, tmp_path, monkeypatch):
    """It is not called for our code where CPython can do that; before 3.11 the program loses it, and goes on."""
    monkeypatch.chdir(tmp_path)
    code, output, errors, attach = played(name, "trace")

    assert (code, output[-1:], errors) == (0, ["end"], "")
    if name in QUIET:
        assert output == ["tracing []", "end"]
        assert attach.returncode == 0, attach.stderr
