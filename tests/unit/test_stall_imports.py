"""A handler that imports: its line is known although nobody has looked, as a module's code runs once."""

import pytest
import test_stalls
from made_traces import MS
from test_stalls import AT_POLL, FOREVER, HANDLER, LIB, RUN_ONCE, STACKS, with_stacks
from told_traces import Script

from headway.traces.analysis.importing import importing
from headway.traces.analysis.stall_model import Cause, Thresholds
from headway.traces.analysis.stalls import find_stalls
from headway.traces.model import Frame

SITE = "/v/lib/python3.13/site-packages"
CALLS = Frame("<frozen importlib._bootstrap>", 488, "_call_with_frames_removed", 480)
RUNS = Frame("<frozen runpy>", 88, "_run_code", 65)
READS = Frame("<frozen importlib._bootstrap_external>", 1186, "FileLoader.get_data", 1180)


def module(line, name="big"):
    return Frame(f"{SITE}/{name}/__init__.py", line, "<module>", 1)


def importer(line):
    return Frame(HANDLER.filename, line, HANDLER.function, HANDLER.first_line)


LOOP = (RUN_ONCE, FOREVER)
OUTER = (CALLS, HANDLER, *LOOP)
MAIN = Frame("/app/app.py", 90, "<module>", 1)


@pytest.mark.parametrize(
    ("before", "after", "certain"),
    [
        ((READS, module(3), *OUTER), (READS, module(9), *OUTER), OUTER),
        ((READS, module(3), *OUTER), (READS, module(3), *OUTER), (module(3), *OUTER)),
        ((module(5, "b"), CALLS, module(3), *OUTER), (READS, CALLS, module(3), *OUTER), (module(3), *OUTER)),
        ((READS, module(3), *OUTER), (READS, module(3, "other"), *OUTER), ()),
        ((READS, module(3), CALLS, importer(42), *LOOP), (READS, module(3), CALLS, importer(43), *LOOP), ()),
        ((READS, *OUTER), (READS, *OUTER), ()),
        ((READS, HANDLER, MAIN), (READS, HANDLER, MAIN), ()),
        ((READS, HANDLER, MAIN, RUNS), (READS, HANDLER, MAIN, RUNS), ()),
        ((), (READS, module(3), *OUTER), ()),
    ],
    ids=["a", "one line", "inner", "two modules", "two lines", "no module", "the program", "-m", "unknown"],
)
def test_only_a_modules_code_shows_that_a_thread_was_there_all_the_time(before, after, certain):
    """A handler's line that two stacks have in common may have been left, and come back to in a loop."""
    assert importing(before, after) == certain


@pytest.mark.parametrize("imports", [True, False])
def test_the_line_that_imports_is_told_without_a_look(monkeypatch, imports):
    """The thread computes for 200 ms between two files that it reads, and neither of them is where it computed."""
    caller = (CALLS,) if imports else (Frame(f"{LIB}/contextlib.py", 80, "inner", 70),)
    stacks = [(READS, module(line), *caller, HANDLER, *LOOP) for line in (3, 9)]
    monkeypatch.setattr(test_stalls, "STACKS", [*STACKS, *stacks])
    first, second = len(STACKS), len(STACKS) + 1
    script = Script().hold(0, 0, 1, stack=AT_POLL).hold(0, 10, 11, stack=first).hold(0, 12, 212, stack=second)
    trace = with_stacks(script.hold(0, 213, 214, stack=AT_POLL).trace(400, "MainThread"))

    (stall,) = find_stalls(trace, Thresholds(50 * MS))
    (part,) = (one for one in stall.parts if one.cause is Cause.OWN and one.time_ns > 100 * MS)
    assert part.place == (HANDLER if imports else None)
