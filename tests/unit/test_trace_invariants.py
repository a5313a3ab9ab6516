"""The check of all traces' invariants finds each violation."""

import dataclasses

import numpy as np
import pytest
from made_traces import START_NS, made_trace, small

from headway.traces.invariants import violations
from headway.traces.model import Frame, Gil, Kind, Thread

W, A, R, EXIT = Kind.WAIT, Kind.ACQUIRE, Kind.RELEASE, Kind.EXIT
REQUEST, PARK, UNPARK = Kind.REQUEST, Kind.PARK, Kind.UNPARK


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        ([(1, R, 0)], "does not follow"),
        ([(1, A, 0), (2, A, 0)], "does not follow"),
        ([(1, A, 0), (2, A, 1)], "GIL 0: event 1 (ACQUIRE by thread 2)"),
        ([(1, A, 0), (2, R, 1)], "GIL 0: event 1 (RELEASE by thread 2)"),
        ([(1, A, 0), (2, W, 0)], "WAIT of GIL 0 by thread 1"),
        ([(1, W, 0), (2, W, 0)], "WAIT of GIL 0 by thread 1"),
        ([(1, W, 0), (2, A, 0, 1)], "ACQUIRE of GIL 1 by thread 1"),
        ([(1, A, 0), (2, A, 0, 1), (3, R, 0), (4, R, 0, 1)], "ACQUIRE of GIL 1 by thread 1"),
        ([(1, REQUEST, 0)], "REQUEST of GIL 0 by thread 1"),
        ([(1, W, 0), (2, A, 0), (3, REQUEST, 0)], "REQUEST of GIL 0 by thread 1"),
        ([(1, A, 0), (2, EXIT, 0)], "EXIT of GIL 0 by thread 1"),
        ([(1, EXIT, 0), (2, PARK, 0)], "goes on after its EXIT"),
        ([(2, A, 0), (1, R, 0)], "comes after one at"),
        ([(-1, A, 0)], "outside the trace"),
        ([(101, A, 0)], "outside the trace"),
        ([(1, 0, 0)], "event 0 has kind 0"),
        ([(1, A, 2)], "event 0 has thread 2"),
        ([(1, A, 0, 2)], "event 0 has gil 2"),
        ([(1, W, 0, 0, 1)], "event 0 has value 1"),
        ([(1, PARK, 0), (2, UNPARK, 0, 0, 1)], "event 1 has value 1"),
        ([(1, PARK, 0, 0, 0, 0x600)], "event 0 has flags 1536"),
        ([(1, A, 0, 0, 0, 4)], "event 0 has flags 4"),
    ],
)
def test_bad_events_are_found(rows, word):
    """Each rule that events break is reported with the event."""
    found = violations(small(rows, gils=2))

    assert any(word in one for one in found), found


def replaced(**changes):
    """Return a sound trace with changes to it."""
    return dataclasses.replace(small([(1, A, 0), (2, R, 0), (3, EXIT, 1)]), **changes)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"end_ns": START_NS - 1}, "before its start"),
        ({"frames": ()}, "is missing"),
        ({"types": ()}, "is missing"),
        ({"stack_parent": np.array([0, 1]), "stack_frame": np.array([0, 0])}, "the parent of stack 1 is 1"),
        ({"stack_parent": np.array([0, 0]), "stack_frame": np.array([0, 1])}, "the frame of stack 1 is 1"),
        ({"stack_parent": np.array([0, 0])}, "differ in length"),
        ({"gils": (Gil(1, True, 0, START_NS, None),)}, "says that it is GIL 1"),
        ({"gils": (Gil(0, True, 0, START_NS, START_NS + 1),)}, "after the end of GIL 0"),
        ({"threads": (Thread(1, 7, "a", START_NS, None),) * 2}, "the same serial"),
        (
            {"threads": (Thread(1, 7, "", START_NS, None), Thread(2, 7, "b", START_NS, START_NS + 3))},
            "thread 1 has no name",
        ),
        (
            {"threads": (Thread(1, 7, "a", START_NS + 2, None), Thread(2, 7, "b", START_NS, START_NS + 3))},
            "outside the life of thread 1",
        ),
        (
            {"threads": (Thread(1, 7, "a", START_NS, None), Thread(2, 7, "b", START_NS, START_NS + 9))},
            f"thread 2 ends at {START_NS + 9}",
        ),
    ],
)
def test_bad_tables_are_found(changes, word):
    """Threads, GILs and stacks that do not fit are found."""
    assert violations(replaced()) == []
    found = violations(replaced(**changes))

    assert any(word in one for one in found), found


def test_only_the_first_few_of_a_kind_are_told():
    """A trace that is wrong everywhere does not fill the screen."""
    trace = made_trace(events=10_000)
    trace.events["time_ns"][:] = trace.events["time_ns"][::-1].copy()

    found = violations(trace)

    assert len(found) < 40
    assert any("more of these" in one for one in found)


def test_a_sound_trace_has_none():
    """Thousands of events of many threads and GILs pass."""
    assert violations(made_trace(events=30_000, threads=20, gils=3)) == []
    assert Frame("", 0, "?") == made_trace(events=1).frames[0]
