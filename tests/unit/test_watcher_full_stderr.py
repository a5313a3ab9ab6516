"""Stderr is a pipe that nobody reads: neither the watcher nor its analyses, nor the program's start and end, wait for it."""

import contextlib
import os
import subprocess
import sys
import time

import pytest
from test_stalls import with_stacks
from test_watcher_reports import of_waits, watched

from headway.live.door import Door
from headway.live.options import Limits, Options
from headway.live.said import print_line
from headway.live.watcher import Watcher
from headway.traces import writer

LIMIT_S = 60
SAYS = "from headway.live.said import Said; Said(quiet=False).say('it'); print('on')"
SAYS_IN_A_PROGRAM = "from headway.agent.headway_agent.library import say; say('it'); print('on')"


@pytest.fixture
def full():
    """Return the two ends of a pipe that is full. Its descriptors block, as a service's do."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(writing, b"x" * 4096):
            pass
    os.set_blocking(writing, True)
    yield reading, writing
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize(
    "command",
    [("-c", SAYS), ("-m", "headway", "watch", "-c", "print('on')"), ("-c", SAYS_IN_A_PROGRAM)],
    ids=["the watcher's loop", "the launcher", "the program"],
)
def test_a_line_that_has_no_room_is_left_out(full, tmp_path, command):
    """The watcher would lose events, and the program would never begin."""
    _, writing = full
    done = subprocess.run(
        [sys.executable, *command], stdout=subprocess.PIPE, stderr=writing, timeout=LIMIT_S, check=True, cwd=tmp_path
    )
    assert done.stdout == b"on\n"
    assert os.get_blocking(writing)


def test_an_analysis_ends_although_nobody_reads(full, tmp_path):
    """The log has the stalls, and the watcher gets the results."""
    watcher = Watcher(Door(), Options(str(tmp_path / "stalls"), "it", 1, Limits()))
    data = writer.write(with_stacks(of_waits(4, 8)), tmp_path / "it.hwt").read_bytes()
    one = watched(data)
    one.asked = True
    stderr = os.dup(2)
    os.dup2(full[1], 2)
    try:
        watcher._report(one, time.monotonic_ns())
        (report,) = watcher._reports
        try:
            assert report.process.wait(LIMIT_S) == 0
        finally:
            report.process.kill()
            watcher._collect()
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        watcher._reception.close()

    assert list(watcher.log.parent.glob("*.hwt"))


def test_a_line_comes_whole_as_soon_as_there_is_room(full):
    """It waits for a slow reader for a moment, and no line is longer than a pipe takes at once."""
    reading, writing = full
    stderr = os.dup(2)
    os.dup2(writing, 2)
    try:
        assert not print_line("lost", patience_s=0)
        os.read(reading, 4096)
        assert print_line("ä" * 4096, patience_s=0)
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
    os.set_blocking(reading, False)
    text = os.read(reading, 1 << 20).lstrip(b"x").decode()
    assert text == "headway: " + "ä" * ((4095 - len("headway: ")) // 2) + "\n"
