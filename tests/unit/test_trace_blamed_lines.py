"""No line of a program is blamed for what is a lack of cores: its finding comes by its own cost, with the cores' advice."""

from told_traces import AT_COMPUTE, AT_RECV, Script, told

from headway.traces.analysis import analyse


def waking_late(*, free_ms: float = 6.0):
    """Return a trace of threads that wait for a GIL which is mostly free, and the rest of the time behind `compute`."""
    script = Script()
    for now in range(0, 2000, 20):
        script.hold(0, now, now + 4, stack=AT_COMPUTE).wait(1, now)
        script.hold(1, now + 4 + free_ms, now + 4.1 + free_ms, stack=AT_RECV)
    return script.trace(2000, "worker", "reader")


def now_and_then(*, ran: float):
    """Return a trace of a thread that computes for a moment, in 8 of 160 times for 30 ms, with the given share of a core."""
    script = Script()
    for turn in range(160):
        now, held_ms = turn * 40, 1 if turn % 20 else 30
        share = ran if held_ms > 1 else 1.0
        script.hold(0, now, now + held_ms, forced=held_ms > 1, ran=share).wait(
            1, now, asks_ms=now + max(1, held_ms - 4)
        )
        script.hold(1, now + held_ms, now + held_ms + 0.1, stack=AT_RECV, ran=1.0)
    return script.trace(6400, "small", "victim")


def test_a_late_wake_up_comes_before_a_function_behind_which_fewer_waited():
    """Most of the waiting passes while no thread holds the GIL: the function has the other part, and comes after that."""
    found = analyse(waking_late()).findings

    assert {one.kind for one in found[:2]} == {"late-wake-up", "hand-overs"}
    assert found[2].kind == "behind-a-function"


def test_a_function_whose_thread_had_no_core_is_not_lifted_above_that():
    """The holders had no core for less than a fifth of the whole time, and all the same for nearly all of the waiting."""
    found = analyse(now_and_then(ran=0.2)).findings
    kinds = [one.kind for one in found if one.weight == "problem"]

    assert kinds.index("off-core") < kinds.index("behind-a-function")


def test_no_shorter_function_is_advised_where_its_thread_had_no_core():
    """A function that mostly waits for a core is not told to be shorter; one that has a core is."""
    lacking, having = (told(now_and_then(ran=ran))["behind-a-function"] for ran in (0.2, 0.9))

    assert lacking.fact.endswith("for 80 % of that waiting, the function's thread had no core")
    assert lacking.advice.startswith("give the process more cores")
    assert "the system ran something else on that thread's core" in lacking.cause
    assert having.advice.startswith("make `compute` shorter")
    assert "core" not in having.cause
