"""Forked workers that cannot reach the watcher: their stalls are in no log, and two places say so."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HEADWAY = str(Path(sys.executable).with_name("headway"))
LIMIT_S = 150

pytestmark = pytest.mark.slow

PROGRAM = """
import asyncio, os, pathlib, resource, shutil, sys, time

if sys.argv[1] == "files":
    loop = asyncio.new_event_loop()
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    try:
        while True:
            os.dup(0)
    except OSError:
        pass
else:
    folder = os.path.dirname(os.environ["HEADWAY_TRACE_DOOR"])
    shutil.rmtree(folder)
    pathlib.Path(folder).touch()  # so that the watcher cannot make its socket again
    loop = asyncio.new_event_loop()

async def work():
    await asyncio.sleep(0.2)
    time.sleep(0.3)
    await asyncio.sleep(0.1)

if os.fork() == 0:
    loop.run_until_complete(work())
    os._exit(0)
os.wait()
if sys.argv[1] != "files":
    os.unlink(folder)
"""


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ("files", r"\(its limits, `ulimit -n`, `-v` or `-f`, may be too low, or its root folder another one\)"),
        ("door", "/door (is|was) gone"),
    ],
)
def test_a_worker_that_does_not_reach_the_watcher(tmp_path, monkeypatch, case, why):
    """`headway stalls` does not say that nothing stalled."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("PYTHON", "HEADWAY_WATCH"))]:
        monkeypatch.delenv(name)
    Path("app.py").write_text(PROGRAM)
    command = [HEADWAY, "watch", "-o", "stalls", sys.executable, "app.py", case]
    found = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    told = subprocess.run([HEADWAY, "stalls", "stalls"], capture_output=True, text=True, timeout=LIMIT_S, check=True)

    assert " is not watched: it did not reach the watcher" in found.stderr
    assert told.stdout == "no file shows whether there were stalls\n"
    assert "stalls may be missing here, as " in told.stderr
    assert re.search(why, told.stderr)
