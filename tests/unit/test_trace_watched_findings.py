"""Findings about a recording of `headway watch`, which has what `headway trace` does not: accounts and collections."""

import dataclasses

import pytest
from made_traces import MS, START_NS
from told_traces import AT_RECV, Script, told

from headway.traces.frames import Collected, CoreTime, Evidence

HOLDER = 101
"""The native id of the thread that holds the GIL."""


def recording(*, queued_ms=0, collected_ms=0, until_ms=600, is_open=False, **evidence):
    """Return a recording of a thread that holds the GIL for 500 ms, up to `until_ms`, 485 ms of that after a request."""
    script = Script().hold(1, 0, 1, stack=AT_RECV).wait(1, 110, asks_ms=115)
    if is_open:
        script.add(100, 0, 2)
    else:
        script.hold(0, 100, 600, forced=True).hold(1, 600, 601, stack=AT_RECV)
    looks = [(100, 0, 0), (110, 10, 0), (until_ms, until_ms - 100 - queued_ms, queued_ms)]
    times = [CoreTime(START_NS + at * MS, HOLDER, ran * MS, queued * MS) for at, ran, queued in looks]
    collections = [Collected(HOLDER, START_NS + 600 * MS - collected_ms * MS, START_NS + 600 * MS, 2)] * bool(
        collected_ms
    )
    observed = Evidence(**{"core_times": tuple(times), "collections": tuple(collections), "watched": True, **evidence})
    return dataclasses.replace(script.trace(900, "holder", "reader", ended=False, growing=True), evidence=observed)


def test_a_holder_without_a_core_kept_the_gil_in_no_call():
    """The system's account tells that Python code had no core after the request."""
    found = told(recording(queued_ms=480))

    assert "long-hold" not in found
    assert found["off-core"].cause.startswith(
        "the system ran something else on their cores, a CPU quota was used up, or the process was stopped"
    )


@pytest.mark.parametrize("collected_ms", [0, 480])
def test_a_late_holder_is_in_a_call_or_in_a_collection(collected_ms):
    """Nothing that the recording knows is left open: neither the thread's core nor garbage collections."""
    one = told(recording(collected_ms=collected_ms))["long-hold"]

    assert "not measured" not in one.cause
    assert "time off a core does not count" in one.fact
    assert "gc.callbacks" not in one.advice
    if collected_ms:
        assert one.cause.startswith("garbage collections took 99 % of that time")
        assert "gc.freeze()" in one.advice
        assert "release the GIL" not in one.advice
    else:
        assert "collection" not in one.cause + one.advice
        assert "let that call release the GIL" in one.advice


@pytest.mark.parametrize("watched", [True, False])
def test_a_hold_without_a_look_at_its_thread_is_not_measured(watched):
    """The first looks at a thread may come long after a hold; without them, the finding says so."""
    one = told(recording(core_times=(CoreTime(START_NS + 800 * MS, HOLDER, 700 * MS, 0),), watched=watched))[
        "long-hold"
    ]

    assert "which was not measured" in one.cause
    assert ("or a garbage collection began there" in one.cause) is not watched


@pytest.mark.parametrize("watched", [True, False])
def test_a_call_that_goes_on_is_named_by_the_stalls_of_the_file(watched):
    """A recording of `headway watch` is told to be looked at, and not to be made."""
    found = told(recording(is_open=True, until_ms=900, watched=watched))

    assert found["long-hold"].advice.startswith("`headway stalls` on this file" if watched else "`headway watch` names")


@pytest.mark.parametrize(("watched", "words"), [(True, "while the process ran"), (False, "its collector was killed")])
def test_a_recording_of_a_process_that_ran_on(watched, words):
    """A recording of `headway watch` gets no further events, also if the process has ended since."""
    assert words in told(recording(watched=watched))["unfinished"].fact
