"""Threads that sleep with the GIL in a call of C are told as that, with the line, and not as threads without a core."""

import pytest
from told_traces import AT_COMPUTE, AT_RECV, COMPUTE, Script, told

SHORTER = "sys.setswitchinterval"


def holding(*, ran: float = 0.01, rounds: int = 20, held_ms: float = 30.0, stack: int = AT_COMPUTE, **process):
    """Return a trace of a thread that keeps the GIL in each of its holds for long after a request, hardly on a core."""
    script = Script()
    for number in range(rounds):
        now = number * 100
        script.wait(1, now, asks_ms=now + 5, stack=stack and AT_RECV)
        script.hold(0, now, now + held_ms, stack=stack, forced=True, ran=ran)
        script.hold(1, now + held_ms, now + held_ms + 0.1, stack=stack and AT_RECV, ran=1.0)
        script.hold(0, now + held_ms + 0.2, now + held_ms + 0.3, stack=stack, ran=1.0)
    return script.trace(rounds * 100, "holder", "victim", **process)


def test_a_call_that_sleeps_with_the_gil_is_named():
    """The finding names the line and the call first; what else may have kept the thread from its core comes after that."""
    found = told(holding())
    one = found["off-core"]

    assert one.frame == COMPUTE
    assert " ms of that at app.py:12 compute, in 20 holds that another thread asked to end" in one.fact
    assert one.cause.startswith(
        "a call into C, on that line or just before it, sleeps without releasing the GIL: holder ran for 1.2 % of these holds"
    )
    assert one.advice.startswith("let that call release the GIL (`ctypes.CDLL`")
    assert SHORTER not in one.advice
    assert "behind-a-function" not in found


def test_a_call_that_sleeps_with_the_gil_is_told_without_lines_too():
    """On CPython 3.8 to 3.10 the holds themselves show it, and no shorter interval is advised."""
    one = told(holding(stack=0, stacks=False))["off-core"]

    assert one.cause.startswith("a call into C sleeps without releasing the GIL: holder ran for")
    assert one.frame is None
    assert SHORTER not in one.advice


@pytest.mark.parametrize("changes", [{"ran": 0.2}, {"rounds": 9}, {"held_ms": 9.0}], ids=["ran", "few", "soon"])
def test_other_holds_without_a_core_are_no_sleep(changes):
    """A thread that runs for a part of its holds, few holds, and releases within an interval of the request may lack a core."""
    one = told(holding(**changes))["off-core"]

    assert one.cause.startswith("the system ran something else on their cores")
    assert one.frame is None


def test_no_shorter_interval_is_advised_beside_a_call_that_none_ends_sooner():
    """The findings about a GIL do not contradict each other: the call is told with that a shorter interval is no help."""
    found = told(holding(ran=0.4, held_ms=60.0))

    assert "a shorter switch interval ends no such call sooner" in found["long-hold"].advice
    assert SHORTER not in found["off-core"].advice
