"""`pytest --headway-stalls` names tests in which an event loop stood still, with cause and line, and no others."""

import pytest

from headway.pytest_stalls import over_s

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TESTS = """
import asyncio, time
import pytest

def nap():
    time.sleep(0.3)

def busy():
    until = time.thread_time() + 0.3  # on a busy machine it may have no core for most of a time by the clock
    while time.thread_time() < until:
        sum(range(100))

async def after_a_while():
    await asyncio.sleep(0.01)
    nap()

async def at_once():
    busy()

def test_blocks():
    asyncio.run(after_a_while())

def test_computes():
    asyncio.run(at_once())

def test_waits():
    asyncio.run(asyncio.sleep(0.3))

def test_has_no_loop():
    busy()

@pytest.mark.asyncio
async def test_of_a_plugin():
    await asyncio.sleep(0.01)
    nap()
"""


@pytest.mark.parametrize("more", [(), ("-n", "2"), ("-p", "no:xdist")], ids=["one process", "xdist", "without xdist"])
def test_tests_that_starved_a_loop_are_named(pytester, more):
    """Tests that blocked or computed in the loop are named with their line, and tests that only wait are not."""
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("--headway-stalls", *more)
    result.assert_outcomes(passed=5)
    text = result.stdout.str().partition("tests in which an event loop stalled")[2]

    told = {}
    for line in text.splitlines():
        if "::" in line and not line.startswith(" "):
            name = line.rpartition("::")[2]
        elif "nap" in line or "busy" in line:  # on a busy machine a loop may also be late for lack of a core
            told.setdefault(name, []).append(line)
    assert set(told) == {"test_blocks", "test_computes", "test_of_a_plugin"}
    assert all(len(lines) == 1 for lines in told.values())
    assert "a blocking call at" in told["test_blocks"][0]
    assert " nap" in told["test_blocks"][0]
    assert "its own code at" in told["test_computes"][0]
    assert " busy" in told["test_computes"][0]
    assert " nap" in told["test_of_a_plugin"][0]


def test_nothing_is_said_where_nothing_stood_still(pytester):
    """One line says that nothing stood still, and without the option there is none."""
    pytester.makepyfile("def test_it(): pass")
    asked = pytester.runpytest_subprocess("--headway-stalls", "--headway-stalls-over", "2s")
    assert asked.ret == 0
    asked.stdout.fnmatch_lines(["headway: no event loop stalled for 2 s or longer"])
    assert "headway:" not in pytester.runpytest_subprocess().stdout.str()


CRASHES = """
import asyncio, os, time

def nap():
    time.sleep(0.3)

async def blocks():
    await asyncio.sleep(0.01)
    nap()

async def crashes():
    await blocks()
    os._exit(3)

def test_blocks():
    asyncio.run(blocks())

def test_passes():
    pass

def test_crashes():
    asyncio.run(crashes())
"""


def test_stalls_of_a_worker_that_crashed_are_named(pytester, monkeypatch):
    """The controller reads the log of a worker of xdist that has crashed, and leaves no folder behind."""
    folder = pytester.mkdir("temporary")
    monkeypatch.setenv("TMPDIR", str(folder))
    pytester.makepyfile(CRASHES)
    result = pytester.runpytest_subprocess("--headway-stalls", "-n", "1")
    result.assert_outcomes(passed=2, failed=1)
    text = result.stdout.str()
    told = text.partition("tests in which an event loop stalled")[2]
    named = [line.rpartition("::")[2] for line in told.splitlines() if "::" in line and not line.startswith(("F", " "))]

    assert sorted(named) == ["test_blocks", "test_crashes"], text
    assert told.count(" nap") == 2
    assert "not known" not in text
    assert not list(folder.glob("headway-*"))


BEFORE_THE_NOTES = """
import os, pytest

@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session):
    if hasattr(session.config, "workerinput"):
        os.unlink(os.path.join(session.config.workerinput["headway_stalls_folder"], "worker.jsonl"))
"""


def test_a_worker_of_which_nothing_is_known_is_named(pytester):
    """Where a crashed worker has left no notes, its stalls are not known, and nothing says that there were none."""
    pytester.makeconftest(BEFORE_THE_NOTES)
    pytester.makepyfile("import os\ndef test_it(): os._exit(3)")
    text = pytester.runpytest_subprocess("--headway-stalls", "-n", "1").stdout.str()
    assert "headway: some or all stalls are not known: worker gw0 ended early: its stalls are not known" in text
    assert "no event loop stalled" not in text


@pytest.mark.parametrize(
    ("does", "why"),
    [
        ("note_gap(watching._watch.log, 'the disk was full')", "stalls may be missing here, as the disk was full"),
        ("os.kill(watching._watch.watcher, signal.SIGKILL)", "the watcher was killed: some stalls may be missing"),
    ],
    ids=["gap", "killed"],
)
def test_a_watch_with_gaps_is_not_called_free_of_stalls(pytester, does, why):
    """If the watcher notes a gap in its log, or is killed, the reason is shown."""
    imports = "import os, signal\nfrom headway.live import watching\nfrom headway.live.stall_log import note_gap"
    pytester.makepyfile(f"{imports}\ndef test_it(): {does}")
    text = pytester.runpytest_subprocess("--headway-stalls").stdout.str()
    assert f"headway: some or all stalls are not known: {why}" in text
    assert "no event loop stalled" not in text


def test_a_bad_time_is_an_error(pytester):
    """A bad time is an error before any test runs."""
    pytester.makepyfile("def test_it(): pass")
    result = pytester.runpytest_subprocess("--headway-stalls", "--headway-stalls-over", "soon")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--headway-stalls-over 'soon' is not a time from 10ms to 600s*"])


@pytest.mark.parametrize(("text", "seconds"), [("100ms", 0.1), ("2s", 2.0), ("1.5 s", 1.5)])
def test_times(text, seconds):
    """A time is a number with a unit."""
    assert over_s(text) == pytest.approx(seconds)
