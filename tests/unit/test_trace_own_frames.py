"""Headway's own code, at the ends of `with headway.trace()` and of `headway attach`, is not the program's."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from told_traces import Script

from headway.live.script import script
from headway.traces.analysis import analyse
from headway.traces.analysis.hotspots import at_place, own_frame
from headway.traces.analysis.words import place as place_of
from headway.traces.export.collapsed import write_holds
from headway.traces.frames import OURS as OUR_WORK
from headway.traces.frames import Frame
from headway.traces.invariants import violations
from headway.traces.model import Kind, Trace
from headway.traces.own_code import SCRIPT_CHECKS
from headway.traces.reader import read
from headway.traces.writer import write

OURS = "/env/lib/python3.13/site-packages/headway/live/recording.py"
WITH = Frame("app.py", 7, "main", 3)
THEIRS = Frame("lib/recording.py", 9, "Recording.__exit__", 8)
FRAMES = (
    Frame("", 0, "?"),
    WITH,
    Frame(OURS, 240, "Recording.__exit__", 230),
    Frame(OURS, 148, "_Memory.goes_on", 144),
    Frame("<frozen genericpath>", 145, "sameopenfile", 140),
    Frame(OURS, 217, "Recording.__enter__", 210),
    Frame(OURS, 330, "Recording.summary", 320),
    THEIRS,
)
"""A stack's index is that of its innermost frame."""
PARENTS = (0, 0, 1, 2, 3, 1, 1, 1)


def recorded(folder: Path, **process: object) -> Trace:
    """Return a trace, read from a file, of a hold at each stack."""
    script = Script()
    for stack in range(1, len(FRAMES)):
        script.hold(0, 2 * stack, 2 * stack + 1, stack=stack)
    made = dataclasses.replace(
        script.trace(20, "MainThread", **process),
        frames=FRAMES,
        stack_parent=np.array(PARENTS),
        stack_frame=np.arange(len(FRAMES)),
    )
    return read(write(made, folder / "own.hwt"))


def places(trace: Trace) -> list[tuple[Frame, ...]]:
    """Return the stacks of the releases."""
    events = trace.events
    return [trace.stack(int(one)) for one in events["value"][events["kind"] == Kind.RELEASE]]


def test_a_hold_up_to_the_end_of_a_with_is_at_the_line_of_the_with(tmp_path: Path) -> None:
    """All that is below the ends of a `with` is left out; a request of the program's, and its own classes, are not."""
    trace = recorded(tmp_path)
    assert places(trace) == [(WITH,)] * 5 + [(FRAMES[6], WITH), (THEIRS, WITH)]
    assert violations(trace) == []


def test_all_outputs_have_the_program_s_line(tmp_path: Path) -> None:
    """The analysis and an export of stacks take the stacks from the trace."""
    trace = recorded(tmp_path)
    found = analyse(trace)
    assert [one.stack for one in found.longest if one.stack[0] == WITH] == [(WITH,)] * 5
    write_holds([trace], tmp_path / "stacks.txt")
    text = (tmp_path / "stacks.txt").read_text()
    assert "main (app.py:7) " in text
    assert not any(name in text for name in ("sameopenfile", "goes_on", "__enter__"))


def test_without_a_gil_the_stacks_are_told_as_they_are(tmp_path: Path) -> None:
    """A hold is then that of an import, which the analysis knows by its innermost frames."""
    trace = recorded(tmp_path, free_threaded=True, gil_enabled=False)
    assert [one[0] for one in places(trace)] == list(FRAMES[1:])


ATTACHED = (
    Frame("", 0, "?"),
    Frame("<string>", 9, "<module>", 1),
    Frame("<string>", 0, "<module>", 1),
    Frame("<string>", SCRIPT_CHECKS, "_headway", 1),
    Frame("<string>", 28, "_headway", 1),
    Frame("/env/headway_agent/recorder.py", 132, "_json", 130),
    Frame("<string>", 43, "<module>", 1),
)
"""The program comes from `-c`; 2 and 6 are lines of the script's module, and the writer gives it the same code as 1."""


def attached(folder: Path, parents: tuple[int, ...], frames: tuple[Frame, ...], **process: object) -> Trace:
    """Return a trace, read from a file, of a hold at each stack."""
    script = Script()
    for stack in range(1, len(frames)):
        script.hold(0, 2 * stack, 2 * stack + 1, stack=stack)
    made = dataclasses.replace(
        script.trace(20, "MainThread", **process),
        frames=frames,
        stack_parent=np.array(parents),
        stack_frame=np.arange(len(frames)),
    )
    return read(write(made, folder / "attached.hwt"))


def test_the_script_of_attach_is_not_the_programs(tmp_path: Path) -> None:
    """A hold that ends where the script begins is the program's, at the interrupted line; the rest of it is Headway's."""
    frames = (ATTACHED[0], WITH, *ATTACHED[2:])
    trace = attached(tmp_path, (0, 0, 1, 2, 2, 4, 1), frames)
    assert places(trace) == [(WITH,), (WITH,), (WITH,), (OUR_WORK,), (OUR_WORK,), (WITH,)]
    assert violations(trace) == []


def test_the_scripts_lines_are_known() -> None:
    """The line up to which a hold is the program's is the one of the first call that releases the GIL."""
    lines = script(1, ("recorder",), "('', ())", "pass", socket="s", token="t").splitlines()
    assert lines[0] == "def _headway():"
    assert lines[SCRIPT_CHECKS - 1] == "    posix.stat('s')"
    before = [line.partition("#")[0] for line in lines[1 : SCRIPT_CHECKS - 1]]
    assert [line for line in before if "(" in line] == ["    if posix.getpid() != 1:"]  # it keeps the GIL


def test_no_finding_accuses_the_work_of_attach(tmp_path: Path) -> None:
    """The table has the time of it under a name of its own, and no time is lost."""
    frames = (ATTACHED[0], WITH, *ATTACHED[2:])
    found = analyse(attached(tmp_path, (0, 0, 1, 2, 2, 4, 1), frames))
    assert own_frame((OUR_WORK,)) is None
    assert [(place_of(one.frame), one.times.count) for one in found.held] == [
        ("app.py:7 main", 4),
        ("Headway's own work in the process", 2),
    ]
    assert all(one.frame != OUR_WORK for one in found.findings)


@pytest.mark.parametrize("filename", ["app.py", "<string>"])
def test_a_function_of_the_programs_own_is_not_the_script(filename: str, tmp_path: Path) -> None:
    """The script's function begins at the first line of a text without a file."""
    mine = Frame(filename, 28, "_headway", 20)
    trace = attached(tmp_path, (0, 0, 1), (ATTACHED[0], Frame(filename, 40, "<module>", 1), mine))
    assert places(trace)[1][0] == mine


@pytest.mark.parametrize("root", [2, 5])
def test_a_with_whose_caller_is_not_known_has_the_unknown_stack(root: int, tmp_path: Path) -> None:
    """There is no line of the program to show."""
    made = dataclasses.replace(
        Script().hold(0, 1, 2, stack=1).trace(3, "MainThread"),
        frames=(FRAMES[0], FRAMES[root]),
        stack_parent=np.array([0, 0]),
        stack_frame=np.array([0, 1]),
    )
    assert places(read(write(made, tmp_path / "root.hwt"))) == [()]


def test_the_code_that_starts_a_process_is_not_the_programs() -> None:
    """A process of multiprocessing is started with `-c` and a line of code that calls `spawn_main()`."""
    spawn = Frame("/usr/lib/python3.13/multiprocessing/spawn.py", 122, "spawn_main", 100)
    line = Frame("<string>", 1, "<module>", 1)

    assert own_frame((spawn, line)) is None
    assert own_frame((WITH, spawn, line)) == WITH
    assert own_frame((Frame("/usr/lib/python3.13/queue.py", 180, "Queue.get", 154), line)) == line


@pytest.mark.parametrize(
    ("functions", "told"),
    [
        (("Timed.acquire", "Timed.__enter__", "transfer"), " at app.py:1 Timed.acquire, called from app.py:3 transfer"),
        (("Timed.acquire",), " at app.py:1 Timed.acquire"),
        (("acquire", "transfer"), " at app.py:1 acquire"),
    ],
)
def test_a_lock_of_the_programs_own_class_is_told_with_the_line_that_uses_it(
    functions: tuple[str, ...], told: str
) -> None:
    """All locks of such a class wait at one line, which tells no lock from another."""
    stack = [Frame("app.py", line, function, line) for line, function in enumerate(functions, 1)]

    assert at_place(stack) == told
