"""Findings about holders that answer a request late, because they are in a call of C."""

import pytest
from told_traces import AT_COMPUTE, AT_RECV, COMPUTE, Script, told

from headway.traces.model import Kind


def calls_of_c(call_ms, awaits_ms, *, ran=1.0, **process):
    """Return a trace of a thread that calls C for so long in each hold, and of one that wants the GIL so long after its begin.

    `call_ms` may be a function of the latter. `ran` is the share of each hold in which the thread ran on a core.
    """
    script, now = Script(), 0.0
    for await_ms in awaits_ms:
        end = now + (call_ms(await_ms) if callable(call_ms) else call_ms)
        script.wait(1, now + await_ms, asks_ms=now + await_ms + 5)
        script.hold(0, now, end, forced=True, ran=ran).wait(0, end, stack=AT_COMPUTE)
        script.hold(1, end, end + 0.02, stack=AT_RECV)
        now = end + 0.02
    script.add(now, 0, Kind.ACQUIRE)
    return script.trace(now, "caller", "reader", **process)


@pytest.mark.parametrize(
    ("call_ms", "awaits_ms"),
    [(8, [2.0] * 20), (9.5, [0.5 + number * 0.2 for number in range(20)]), (14, [2.0] * 20)],
    ids=["in step", "at any time", "longer"],
)
def test_a_call_of_c_that_ends_within_an_interval_after_a_request_is_no_convoy(call_ms, awaits_ms):
    """A hold that is one call ends no sooner if it is asked sooner, so neither an interval nor a policy is advised."""
    found = told(calls_of_c(call_ms, awaits_ms))

    assert "convoy" not in found
    assert found["long-hold"].frame == COMPUTE
    assert "Python code answers at its next call or turn of a loop" in found["long-hold"].cause
    assert "a shorter switch interval ends no such call sooner" in found["long-hold"].advice


def test_holds_that_end_out_of_step_are_made_of_shorter_calls():
    """Calls of 2 ms end most holds after 8 ms, and some after 10 ms: a request that comes sooner is answered sooner."""
    awaits_ms = [4.0 if number % 5 == 0 else 2.0 for number in range(20)]
    found = told(calls_of_c(lambda await_ms: await_ms + 6, awaits_ms))

    assert "it then needs 1 ms more at the median" in found["convoy"].cause
    assert "long-hold" not in found


def test_a_holder_that_had_no_core_after_a_request_is_in_no_call_of_c():
    """Python code that lost its core between a request and the release answers late, and still makes a convoy."""
    found = told(calls_of_c(9.5, [2.0] * 20, ran=7 / 9.5))

    assert "setswitchinterval(0.0005)" in found["convoy"].advice
    assert "long-hold" not in found


@pytest.mark.parametrize(
    ("before_ms", "ran_before", "late"),
    [(300, 0.02, "93.7 ms"), (300, None, ""), (100, 1.0, ""), (100, 0.5, "50.4 ms")],
    ids=["before", "not known", "after", "some of it before"],
)
def test_a_time_without_a_core_counts_only_after_the_request(before_ms, ran_before, late):
    """A hold of 400 ms has a core for 100 ms of them: the request tells how much of these came after it."""
    script = Script().wait(1, 10, asks_ms=before_ms, ran=ran_before).hold(0, 0, 400, forced=True, ran=0.25)
    script.hold(1, 400, 401, stack=AT_RECV)
    found = told(script.trace(401, "caller", "reader"))

    assert ("long-hold" in found) == bool(late)
    assert not late or f"for up to {late} after another thread had requested it" in found["long-hold"].fact


def test_a_convoy_behind_short_calls_of_c_is_not_told_to_shrink_tenfold():
    """Calls of 2 ms are asked at any time of them: an earlier request helps, but by no known factor."""
    script, now = Script(), 0.0
    for number in range(20):
        length_ms = 5.05 + number * 0.1
        script.wait(1, now, asks_ms=now + 5).hold(0, now, now + length_ms, forced=True, ran=1.0)
        script.wait(0, now + length_ms, stack=AT_COMPUTE)
        script.hold(1, now + length_ms, now + length_ms + 0.02, stack=AT_RECV)
        now += length_ms + 0.02
    one = told(script.add(now, 0, Kind.ACQUIRE).trace(now, "caller", "reader"))["convoy"]

    assert "it then needs 1 ms more at the median, since it is in a call into C" in one.cause
    assert "let the call release the GIL" in one.advice
    assert "setswitchinterval" not in one.advice
    assert "headway run" not in one.advice


def test_a_convoy_behind_calls_that_end_about_when_they_are_asked_is_not_told_to_shrink_tenfold():
    """Calls of about 7 ms are mostly asked near their end: the late answers, and not the median, show the call."""
    script, now = Script(), 0.0
    for answer_ms in (0.05, 0.08, 0.12, 0.3, 0.06, 0.09, 1.3, 0.04, 2.9, 0.15) * 3:
        end = now + 7 + answer_ms
        script.wait(1, now + 2, asks_ms=now + 7).hold(0, now, end, forced=True, ran=1.0)
        script.wait(0, end, stack=AT_COMPUTE).hold(1, end, end + 0.02, stack=AT_RECV)
        now = end + 0.02
    one = told(script.add(now, 0, Kind.ACQUIRE).trace(now, "caller", "reader"))["convoy"]

    assert "in a tenth of the cases it then needs 1.46 ms or more, since it is in a call into C" in one.cause
    assert "setswitchinterval" not in one.advice
    assert "headway run" not in one.advice


def test_remedies_promise_no_more_than_the_time_before_the_request():
    """A holder without a core for a while releases 1 ms after each request, which no interval and no policy changes."""
    script, now = Script(), 0.0
    for _ in range(20):
        script.wait(1, now, asks_ms=now + 5)
        script.hold(0, now, now + 6, forced=True, ran=0.84)
        script.wait(0, now + 6, stack=AT_COMPUTE)
        script.hold(1, now + 6, now + 6.02, stack=AT_RECV)
        now += 6.02
    script.add(now, 0, Kind.ACQUIRE)

    advice = told(script.trace(now, "cruncher", "reader"))["convoy"].advice

    assert "so that reader requests the GIL at once, and has it 1 ms later: measured servers" in advice
    assert "shorter (the 1 ms from a request to the release stay), at the cost of more forced hand-offs" in advice
