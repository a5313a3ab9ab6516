"""The end of a watch ends that watch: neither a later watch or recording, nor that of another process."""

import os
import signal
import subprocess
import sys

import pytest

from headway.library import library_path
from headway.live.untold import wait_until_told

LIMIT_S = 150

pytestmark = pytest.mark.slow

LATER_WATCH = """
import headway
from headway.live.own_recorder import the_recorder

first = headway.watch("first")
assert first.finish(120)
second = headway.watch("second")
assert second is not first
first.stop()
assert first.finish(120)
assert the_recorder().active
assert headway.watch("third") is second
assert second.finish(120)
assert not the_recorder().active
"""

LATER_TRACE = """
import headway
from headway.live.own_recorder import the_recorder

first = headway.watch("first")
assert first.finish(120)
with headway.trace() as traced:
    first.stop()
    assert the_recorder().active
    there = headway.watch("second")
    assert there is not first
    assert there.watcher == 0
    assert there.finish(120)
    assert the_recorder().active
second = headway.watch("second")
assert second.watcher
assert second.finish(120)
"""

TRACE_INSTEAD = """
import headway
from headway.agent.headway_agent.recorder import detach
from headway.live.own_recorder import the_recorder
from headway.library import library_path

first = headway.watch("first")
assert detach(str(library_path()))  # as `headway detach` does
with headway.trace() as traced:
    first.stop()
    assert the_recorder().active
"""

FORKED = """
import os, headway
from headway.live.own_recorder import the_recorder

parents = headway.watch("parents", name="it")
child = os.fork()
if child == 0:
    mine = headway.watch("mine")
    fits = mine is headway.watch("mine") and mine is not parents and mine.watcher == 0 and mine.folder == parents.folder
    # With no time to wait, only a finish that waits for nothing succeeds.
    fits = fits and mine.finish(0.0) and parents.finish(0.0) and the_recorder().active
    os._exit(0 if fits else 1)
assert os.waitpid(child, 0)[1] == 0
assert parents.finish(120)
"""

FORKED_AFTER_THE_END = """
import os, headway
parents = headway.watch("parents")
assert parents.finish(120)
child = os.fork()
if child == 0:
    mine = headway.watch("mine")
    fits = mine.watcher != 0 and parents.finish(0.0) and mine.finish(120)
    os._exit(0 if fits else 1)
assert os.waitpid(child, 0)[1] == 0
"""

ENDS_UNSEEN = """
import os, signal, time
from pathlib import Path
import headway

watch = headway.watch("stalls")
while not any(one.read_text() for one in Path("stalls").glob(".*.watcher")):  # without words it is not held yet
    time.sleep(0.01)
print(watch.watcher, flush=True)
os.kill(watch.watcher, signal.SIGSTOP)
os._exit(0)
"""


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(LATER_WATCH, id="later-watch"),
        pytest.param(LATER_TRACE, id="later-trace"),
        pytest.param(TRACE_INSTEAD, id="trace-instead"),
        pytest.param(FORKED, id="forked"),
        pytest.param(FORKED_AFTER_THE_END, id="forked-after-the-end"),
    ],
)
def test_a_watch_ends_nothing_but_itself(program, tmp_path):
    """Each program ends a watch again or in a forked child, and looks at what is recorded now."""
    subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        timeout=LIMIT_S,
        cwd=tmp_path,
        env=os.environ | {"HEADWAY_NATIVE": str(library_path())},
    )


def test_an_end_that_the_watcher_has_not_seen_yet_is_waited_for(tmp_path):
    """On a busy machine a program had ended, and its log was read, before its watcher had a core."""
    run = [sys.executable, "-c", ENDS_UNSEEN]
    done = subprocess.run(run, check=True, timeout=LIMIT_S, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    watcher = int(done.stdout)
    try:
        assert not wait_until_told(tmp_path / "stalls", patience_s=0)
    finally:
        os.kill(watcher, signal.SIGCONT)
    assert wait_until_told(tmp_path / "stalls", LIMIT_S)
