"""The report of a program whose time passes without the GIL: it says where to look, and speaks of the GIL alone."""

import os

import pytest
from test_trace_unseen_findings import renamed
from told_traces import AT_RECV, AT_SERVE, Script, told

JOINS = ("/usr/lib/python3.13/threading.py", "Thread.join")


def program(recv, *, until_ms=1000.0, wait_ms=0.0, gap_ms=400.0):
    """Return the findings of two threads, of which the second is at `recv` (file, function) but for a moment now and then.

    `wait_ms` is the time for which one waits for the GIL, before each such moment.
    """
    script, now = Script(), 0.0
    while now + gap_ms < until_ms:
        if wait_ms:
            script.hold(0, now, now + wait_ms, stack=AT_SERVE, forced=True).wait(1, now)
        script.hold(1, now + wait_ms, now + wait_ms + 0.1, stack=AT_RECV)
        now += gap_ms
    script.hold(0, until_ms - 1, until_ms - 0.5, stack=0)
    return told(renamed(script.trace(until_ms, "MainThread", "worker"), recv=recv))


def test_a_report_says_where_the_time_passes_if_not_at_the_gil():
    """A join is nobody's fault, so that it is no finding; but it is where a reader has to look next."""
    one = program(JOINS)["no-contention"]

    assert one.cause == "the GIL does not slow this program down: nothing to improve at the GIL"
    assert one.advice == (
        "look next at what threads do without the GIL, if they are not idle there: worker spent 1 s (100 % of its time) at "
        ".../lib/python3.13/threading.py:700 Thread.join, called from app.py:30 serve"
    )


def test_an_event_loop_that_has_nothing_to_run_is_told_as_such():
    """The event loop is idle while its tasks wait, as for a pool of connections, which leaves no event."""
    script = Script().hold(0, 0, 1, stack=AT_RECV).hold(0, 90, 91, stack=AT_RECV)
    loop = renamed(script.trace(100, "MainThread"), recv=("/usr/lib/python3.13/asyncio/runners.py", "Runner.run"))

    assert told(loop)["no-contention"].advice == (
        "look next at what threads do without the GIL, if they are not idle there: MainThread spent 98 ms (98 % of its time) "
        "in its event loop, which had nothing to run: what the tasks await is not in the trace"
    )


def test_a_program_that_is_seldom_without_the_gil_is_not_sent_elsewhere():
    """A thread that has the GIL nearly always has its time there."""
    script = Script().hold(0, 0, 90, stack=AT_SERVE).hold(0, 91, 100, stack=AT_SERVE)

    assert told(script.trace(100))["no-contention"].advice == ""


@pytest.mark.parametrize(
    ("line", "wait_ms", "is_told"),
    [("time.sleep(0.1)", 8, True), ("time.sleep(0.1)", 30, False), ("lock.join()", 8, False)],
)
def test_time_that_passes_elsewhere_is_told_beside_a_small_problem(tmp_path, line, wait_ms, is_told):
    """Waits of a few milliseconds for the GIL do not hide that a thread sleeps nearly always; a join is idle time."""
    source = tmp_path / "retry.py"
    source.write_text("\n" * 699 + f"    {line}\n")
    os.utime(source, (0, 0))
    at = (str(source), "backoff") if "sleep" in line else JOINS
    found = program(at, wait_ms=wait_ms, gap_ms=100)

    assert any(one.weight == "problem" for one in found.values())
    assert ("elsewhere" in found) == is_told
    if is_told:
        assert found["elsewhere"].weight == "note"
        assert found["elsewhere"].fact.startswith("far more time passes without the GIL: worker spent ")
