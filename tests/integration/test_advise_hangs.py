"""`headway advise` on functions and modules that hang: the answer has the user's line, and the input."""

from pathlib import Path

import pytest
from advised_app import CORES, interpreter, made

from headway.advice.examined import examine
from headway.advice.refused import refuse
from headway.advice.target import parse_target, with_inputs, with_json

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


LATER = (
    "import pathlib, time\nwhile 'Timeout (' not in open('/proc/self/fd/2').read(): time.sleep(0.05)\n"
    "time.sleep(0.3)\npathlib.Path('raised').touch()\nraise ValueError"
)
"""A child's code that raises after the stacks have been written, and before the process is killed."""


def refused(target, limit_s):
    return refuse(examine(target, interpreter(), CORES, limit_s=limit_s), target)


def test_the_line_at_which_a_function_hangs_comes_first_with_the_input(tmp_path, monkeypatch):
    """None of our own frames is shown, and the third input is the one that hangs."""
    (made(tmp_path, monkeypatch) / "stuck.py").write_text(
        "import time\ndef wait(n):\n    if n == 3:\n        time.sleep(600)\n    return n\nINPUTS = [1, 2, 3, 4]\n"
    )
    error = refused(with_inputs(parse_target("stuck:wait"), "stuck:INPUTS"), 15)
    assert "with input 3 of 4" in error.message
    first, frame = error.hint.splitlines()[1:]
    assert first == "the innermost frame first:"
    assert frame.endswith('stuck.py", line 4 in wait')


def test_the_line_at_which_an_import_hangs_is_shown(tmp_path, monkeypatch):
    """The stack is as deep as that of an import, and other threads wait, too; later output does not hide it."""
    (made(tmp_path, monkeypatch) / "stuck.py").write_text(
        "import subprocess, sys, threading, time\nfor _ in range(3):\n"
        "    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
        f"subprocess.Popen([sys.executable, '-c', {LATER!r}])\n"
        "event = threading.Event()\nevent.wait(600)\ndef f(n): return n\n"
    )
    error = refused(with_json(parse_target("stuck:f"), "[1]"), 15)
    assert Path("raised").exists()
    assert "while its module was imported" in error.message
    assert 'stuck.py", line 6 in <module>' in error.hint
    assert "headway_agent" not in error.hint
    assert "importlib" not in error.hint
