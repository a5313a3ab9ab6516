"""A program whose Python does not load Headway: one line on stderr says why, under `trace` and `watch`."""

import os
import re
import select
import subprocess
import sys
from pathlib import Path

import pytest
from real_programs import LIMIT_S

HEADWAY = str(Path(sys.executable).with_name("headway"))

REPLACED = "its PYTHONPATH was replaced, and does not lead to Headway any more"
FRONT = "the sitecustomize in front is found first, because it is before Headway's on PYTHONPATH"

pytestmark = pytest.mark.slow


def said_of(here, command, script):
    """Launch a shell script; return its output, and the lines on stderr that say what is not reached."""
    (here / "front").mkdir(exist_ok=True)
    (here / "front" / "sitecustomize.py").touch()
    done = subprocess.run(
        [HEADWAY, *command, "sh", "-c", script], cwd=here, capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    return done.stdout, [line for line in done.stderr.splitlines() if " is not " in line or "no Python" in line]


@pytest.mark.parametrize(("command", "what"), [(["trace", "-o", "x.hwt"], "traced"), (["watch"], "watched")])
@pytest.mark.parametrize(
    ("before", "cause"), [("export PYTHONPATH=/tmp;", REPLACED), ("export PYTHONPATH=front:$PYTHONPATH;", FRONT)]
)
@pytest.mark.parametrize("how", ["exec {}", "{}; true"], ids=["exec", "child"])
def test_a_python_out_of_reach_is_told_once(tmp_path, command, what, before, cause, how):
    """A script that changes PYTHONPATH gives one line, which names the cause."""
    python = f"{sys.executable} -c 'import time; time.sleep(1.5); print(1)'"
    output, lines = said_of(tmp_path, command, f"{before} {how.format(python)}")

    assert output == "1\n"
    assert len(lines) == 1
    assert re.fullmatch(rf"(headway: )?process \d+ is not {what}: {re.escape(cause)}", lines[0])


@pytest.mark.parametrize("command", [["trace", "-o", "x.hwt"], ["watch"]])
@pytest.mark.parametrize(
    "script",
    [f"sleep 0.3; {sys.executable} -c 'import time; time.sleep(1.3)'", f"exec {sys.executable} -c pass"],
    ids=["late", "brief"],
)
def test_nothing_is_said_of_a_late_or_a_brief_python(tmp_path, command, script):
    """A program that starts its Python later, and one that has ended before the first look, give no such line."""
    assert said_of(tmp_path, command, script) == ("", [])


@pytest.mark.parametrize(
    ("command", "end"),
    [
        (["trace", "-o", "x.hwt"], "no Python process of it was traced: there is no trace"),
        (["watch"], "no Python process of it was watched: there is nothing to show"),
    ],
)
@pytest.mark.parametrize("script", ["sleep 0.3", "true"])
def test_a_program_without_python_is_told_at_its_end(tmp_path, command, end, script):
    """The line at the start names a file, and one at the end says that there is none."""
    _, lines = said_of(tmp_path, command, script)

    assert lines == [f"headway: the program has ended, and {end}, unless one begins after its end"]
    assert not list(tmp_path.glob("*.hwt*"))


@pytest.mark.parametrize(("command", "what"), [(["trace", "-o", "x.hwt"], "traced"), (["watch"], "watched")])
def test_an_option_that_is_told_at_the_start_is_not_told_again(tmp_path, command, what):
    """The line of the launch has the cause already."""
    program = [sys.executable, "-I", "-c", "import time; time.sleep(1.5)"]
    done = subprocess.run(
        [HEADWAY, *command, *program], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    lines = [line for line in done.stderr.splitlines() if f" is not {what}: " in line]
    assert len(lines) == 1
    assert " -I ignores PYTHONPATH" in lines[0]


SOON = """
import sys
from headway.cli import main
from headway.live import unreached
unreached._SELDOM_S = 0.1
sys.exit(main(["trace", "-o", "x.hwt", *sys.argv[1:]]))
"""
"""`headway trace` whose first minute is short."""


def test_a_long_program_without_python_is_told_at_its_end(tmp_path):
    """After the first minute nobody looks for a cause, and the end is still told."""
    command = [sys.executable, "-c", SOON, "sh", "-c", "sleep 1.5"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=True)

    assert "headway: the program has ended, and no Python process of it was traced" in done.stderr


def test_the_reader_of_a_stderr_that_a_long_program_closes_waits_no_longer(tmp_path):
    """A daemon closes its stderr, and whoever started it waits for that."""
    command = [sys.executable, "-c", SOON, "sh", "-c", "exec 2>&-; read line; echo $line"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        said: list[bytes] = []
        while said[-1:] != [b""]:
            assert select.select([process.stderr], [], [], LIMIT_S)[0], "the collector keeps it open"
            said.append(os.read(process.stderr.fileno(), 4096))
        assert process.communicate(b"on\n", timeout=LIMIT_S) == (b"on\n", b"")

    assert b"no Python process" not in b"".join(said)
