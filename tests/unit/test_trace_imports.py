"""A GIL of a free-threaded build that only imports of extension modules switch on, each for a moment."""

from dataclasses import replace

import numpy as np
import pytest
from made_traces import MS
from told_traces import AT_COMPUTE, FRAMES, Script

from headway.traces.analysis import analyse
from headway.traces.analysis.intervals import recorded
from headway.traces.invariants import violations
from headway.traces.model import Frame, Kind, Loss
from headway.traces.reader import read
from headway.traces.writer import write

BOOTSTRAP = "<frozen importlib._bootstrap>"
AT_IMPORT, AT_OWN_IMPORT = 5, 6
"""Stacks: `_call_with_frames_removed`, called from `create_module`; `load` of Headway's agent."""


def told(script, end_ms, **process):
    """Return the trace of a script on a free-threaded build, with the stacks of imports."""
    trace = script.trace(end_ms, "MainThread", "worker", free_threaded=True, gil_enabled=False, **process)
    more = (
        Frame("<frozen importlib._bootstrap_external>", 1318, "ExtensionFileLoader.create_module", 1315),
        Frame(BOOTSTRAP, 488, "_call_with_frames_removed", 480),
        Frame("/lib/headway/agent/headway_agent/library.py", 43, "load", 38),
    )
    return replace(
        trace,
        frames=(*FRAMES, *more),
        stack_parent=np.array([0, 0, 0, 2, 0, 4, 0], dtype=np.int64),
        stack_frame=np.arange(7, dtype=np.int64),
    )


def importing():
    """Return a script: an import switches the GIL on, `worker` takes a turn in it, and then waits in vain."""
    script = Script().hold(1, 1, 6, stack=AT_COMPUTE, forced=True).wait(0, 2, stack=0, asks_ms=6)
    return script.wait(1, 6, stack=AT_COMPUTE).hold(0, 6, 7, stack=AT_IMPORT)


@pytest.mark.parametrize(
    ("script", "fact"),
    [
        (importing(), "Python 3.13.0 ran free-threaded with the GIL off, except while it imported extension modules"),
        (
            Script().hold(0, 98, 99, stack=AT_OWN_IMPORT),
            "Python 3.13.0 ran free-threaded with the GIL off: no thread waited for it",
        ),
    ],
    ids=["of the program", "of Headway"],
)
def test_a_gil_that_only_imports_switched_on_is_none(script, fact):
    """Neither the import's hold nor waits that the trace does not end make a GIL, a finding or advice."""
    found = analyse(told(script, 100))

    assert (found.gils, found.threads, found.held, found.longest) == ((), (), (), ())
    assert [(one.kind, one.fact) for one in found.findings] == [("gil-off", fact)]


def test_a_gil_that_stays_on_after_an_import_is_told():
    """The report shows a GIL that an extension switched on for good, and a wait ends where an import switched it off."""
    script = importing().hold(0, 50, 90).hold(1, 91, 95)
    trace = told(script, 100)
    found = analyse(trace)

    assert [gil.holds.count for gil in found.gils] == [4]
    assert "gil-came-on" in {one.kind for one in found.findings}
    waits = recorded(trace).waits
    assert ((waits.end_ns - trace.start_ns) // MS).tolist() == [6, 7]


def test_a_gil_that_is_held_at_the_end_is_told():
    """A hold that goes on at the end of the trace is no import that is over."""
    found = analyse(told(Script().hold(0, 1, 2, stack=AT_IMPORT).add(3, 0, Kind.ACQUIRE), 100))

    assert [one.kind for one in found.findings][:1] == ["gil-came-on"]


@pytest.mark.parametrize(("held_ms", "gils"), [(0.5, 0), (30, 1)])
def test_without_stacks_the_time_decides(held_ms, gils):
    """Without stacks, a GIL counts if it was held for a hundredth of the time."""
    script = Script().hold(0, 1, 1 + held_ms, stack=0)
    trace = script.trace(100, stacks=False, free_threaded=True, gil_enabled=False)

    assert len(analyse(trace).gils) == gils


def test_a_gil_that_came_on_and_was_hardly_used_is_a_note():
    """A GIL that stays on is no problem if threads hardly hold it."""
    (found,) = (one for one in analyse(told(Script().hold(0, 1, 1.5), 100)).findings if one.kind == "gil-came-on")

    assert found.weight == "note"


def test_waits_in_vain_at_several_imports_are_no_damage(tmp_path):
    """A thread that waits in vain at one import waits again at the next one, or for a sub-interpreter's GIL."""
    script = importing()
    script.wait(1, 20, stack=AT_COMPUTE, asks_ms=25).hold(0, 19, 26, stack=AT_IMPORT)
    script.wait(1, 30, stack=AT_COMPUTE, gil=1).hold(0, 29, 31, stack=AT_IMPORT, gil=1)
    script.wait(1, 39, stack=AT_COMPUTE).hold(1, 40, 41, stack=AT_IMPORT)
    script.wait(1, 50, stack=AT_COMPUTE, gil=1)
    path = tmp_path / "a.hwt"
    write(told(script, 100, gils=2), path)
    trace = read(path)

    assert trace.loss == Loss()
    assert violations(trace) == []
    assert [one.kind for one in analyse(trace).findings] == ["gil-off"]
    waited = trace.events[(trace.events["kind"] == Kind.WAIT) & (trace.events["thread"] == 1)]
    assert ((waited["time_ns"] - trace.start_ns) // MS).tolist() == [39, 50]
    with_a_gil = replace(trace.process, free_threaded=False, gil_enabled=True)
    write(replace(told(script, 100, gils=2), process=with_a_gil), path)
    assert read(path).loss.damaged_bytes
