"""`headway watch` and the garbage collections of a program that it watches."""

import subprocess
import sys
from pathlib import Path

import pytest

from headway.lab import discover

HEADWAY = str(Path(sys.executable).with_name("headway"))
LIMIT_S = 150  # see tests/support/real_programs.py
WITH_COLLECTIONS_IN_CALLS = ("3.8", "3.9", "3.10", "3.11")
BY_NAME = {one.name: one for one in discover()[0]}

pytestmark = pytest.mark.slow

PROGRAM = """
import functools, gc, json, operator, sys, threading, time

ticks, over = [], False

def tick():
    while not over:
        ticks.append(0)
        time.sleep(0.0005)

sys.setswitchinterval(0.0005)
parse = json.scanner.c_make_scanner(json.JSONDecoder())
text = json.dumps([{"name": str(i), "tags": [i, str(i)]} for i in range(60000)])
thread = threading.Thread(target=tick)
thread.start()
while not ticks:
    time.sleep(0.001)
before = gc.get_stats()[0]["collections"]
# One call of C from the first count of ticks to the last one.
calls = [ticks.__len__, functools.partial(parse, text, 0), ticks.__len__]
first, _, last = list(map(operator.methodcaller("__call__"), calls))
over = True
print(gc.get_stats()[0]["collections"] - before > 9, last - first, len(gc.callbacks))
"""


@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", WITH_COLLECTIONS_IN_CALLS)
def test_a_call_of_c_keeps_the_gil_as_if_nobody_watched(tmp_path, name):
    """In a call of C that allocates, no other thread gets the GIL at the collections that begin in the call."""
    (tmp_path / "app.py").write_text(PROGRAM)
    command = [HEADWAY, "watch", "-o", "stalls", "--python", BY_NAME[name].executable, "app.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=LIMIT_S)

    assert (done.returncode, done.stdout) == (0, "True 0 1\n"), done.stderr
