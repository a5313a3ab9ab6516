"""How the examination of a function answers, and what is told of one that fails or hangs."""

import faulthandler
import os
from pathlib import Path
from typing import Any

import pytest
from headway_agent.strangers.talk import Talk

from headway.advice.examined import Examined
from headway.advice.refused import refuse
from headway.advice.target import parse_target

STACKS = 'Timeout (0:00:54)!\nThread 0x1 (most recent call first):\n  File "app.py", line 3 in slow\n'
TRACEBACK = "Traceback (most recent call last):\nValueError: no platform\n"


@pytest.fixture
def armed(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the list of the times after which the stacks are to be written."""
    times: list[float] = []
    monkeypatch.setattr(faulthandler, "dump_traceback_later", lambda after_s, **_: times.append(after_s))
    return times


def test_the_time_until_the_stacks_begins_anew_with_each_stage(
    armed: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit of a stage does, too; a forked child has no thread that would write the stacks."""
    reader, writer = os.pipe()
    talk = Talk(writer, 5.0)
    talk.begin("import")
    talk.begin("again", 2)
    assert armed == [5.0] * 3
    monkeypatch.setattr(os, "getpid", lambda: -1)
    talk.begin("again", 3)
    assert len(armed) == 3
    os.close(writer)
    with os.fdopen(reader) as said:
        assert [line.count("begun") for line in said] == [1] * 3


def test_without_a_time_no_stacks_are_written(armed: list[float]) -> None:
    """A question without a limit asks for none."""
    Talk(1)

    assert armed == []


@pytest.mark.parametrize(
    ("output", "hung", "told", "other"),
    [
        (STACKS + TRACEBACK, False, "no platform", "line 3 in slow"),
        (STACKS + TRACEBACK, True, "line 3 in slow", "no platform"),
        (TRACEBACK, True, "no platform", "line 3 in slow"),
    ],
)
def test_stacks_are_told_of_a_process_that_hung(output: str, told: str, other: str, *, hung: bool) -> None:
    """A process that took long and then raised has written stacks that tell nothing of its end."""
    place: Any = None
    error = refuse(Examined(place, None, "it ended", output, hung=hung), parse_target("app:slow"))

    assert told in error.hint
    assert other not in error.hint


@pytest.mark.parametrize(
    ("error", "is_in_a_loop"),
    [
        ("RuntimeError: asyncio.run() cannot be called from a running event loop", True),
        ("RuntimeError: This event loop is already running", True),
        ("RuntimeError: Cannot run the event loop while another loop is running", True),
        ("RuntimeError: no running event loop", False),
    ],
)
def test_only_a_loop_in_a_loop_has_the_hint_to_await(error: str, *, is_in_a_loop: bool) -> None:
    """A function that needs a loop and finds none is the opposite."""
    place: Any = None
    found = refuse(Examined(place, None, error), parse_target("app:fetch"))

    assert ("await the coroutine" in found.hint) == is_in_a_loop


@pytest.mark.parametrize(
    ("file", "hint"),
    [
        ("ns/work.py", "name it by its module: ns.work:work"),
        ("src/ns/work.py", "name it by its module: src.ns.work:work"),
        ("work.py", "name it by its module: here.work:work, in the folder {above}"),
        ("../other/work.py", "name it by its module: other.work:work, in the folder {above}"),
    ],
)
def test_a_file_of_a_package_without_init_is_named_by_its_module(tmp_path: Path, file: str, hint: str) -> None:
    """Nothing but the name of its module tells Python that the file is in a package, so that `from .helper` works."""
    here = tmp_path / "here"
    (here / file).parent.mkdir(parents=True, exist_ok=True)
    (here / file).write_text("from .helper import helper\ndef work(): pass\n")
    place: Any = None
    error = (
        "its module cannot be imported: ImportError: attempted relative import with no known parent package (work.py:1)"
    )
    found = refuse(Examined(place, None, error), parse_target(file, cwd=here))
    assert found.hint == hint.format(above=tmp_path)
