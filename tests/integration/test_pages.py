"""The pages of the documentation: what they show is what a reader gets.

docs/contributing/documentation.md has the convention.
"""

import dataclasses
import datetime as dt
import os
from pathlib import Path

import pytest
from pages import PageError, read_page, run_page, run_step

from headway.host.machine import this_machine
from headway.sim import calibration

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

DOCS = Path(__file__).parents[2] / "docs"


def runnable(folder):
    """Return the pages of a folder that have something to run, as parameters."""
    return [
        pytest.param(path, id=path.stem)
        for path in sorted((DOCS / folder).glob("*.md"))
        if read_page(path.read_text(encoding="utf-8")).steps
    ]


@pytest.fixture
def environment(tmp_path):
    """Variables that give a page a cache of its own, and `python3.13t` on PATH.

    The cache has a calibration, since measuring one takes half a minute.
    """
    cache = tmp_path / "cache" / "headway"
    cache.mkdir(parents=True)
    now = dt.datetime.now(dt.UTC).isoformat()
    ours = dataclasses.replace(calibration.PRESET, machine=calibration._facts(this_machine()), taken_at=now)
    calibration.save(ours, cache / "calibration.json")
    free_threaded = Path(os.environ["HEADWAY_INTERPRETERS"]) / "3.13t" / "bin"
    return {"XDG_CACHE_HOME": str(cache.parent), "PATH": f"{os.environ['PATH']}{os.pathsep}{free_threaded}"}


@pytest.fixture
def folder(tmp_path):
    """The empty folder in which a reader begins."""
    path = tmp_path / "reader"
    path.mkdir()
    return path


@pytest.mark.parametrize("path", runnable("tutorials"))
def test_a_tutorial_shows_what_its_commands_print(path, folder, environment):
    """Each command of a tutorial succeeds, in order, in one folder; its output has the words that the page shows."""
    run_page(path, folder, environment)


@pytest.mark.parametrize("path", runnable("guides"))
def test_a_guide_shows_what_its_commands_print(path, folder, environment):
    """Each command of a guide that can be run here succeeds, and prints what the guide shows."""
    run_page(path, folder, environment)


def step(commands, shown=""):
    """Return a step as a page has it."""
    return read_page(f"```sh\n{commands}\n```\n\n```text\n{shown}\n```\n").steps[0]


def test_a_command_that_fails_is_named(folder):
    """Also one in the middle of a block, and in the middle of a pipe."""
    with pytest.raises(PageError, match=r"exit code 3:\n(.*\n)*.*told"):
        run_step(step("echo told; (exit 3) | cat\necho never"), folder, dict(os.environ))


def test_another_output_is_a_failure(folder):
    """The part that is missing is named, with all that was printed."""
    with pytest.raises(PageError, match=r"the output lacks 'two':\n(.*\n)*one"):
        run_step(step("echo one", "one\n...\ntwo"), folder, dict(os.environ), limit_s=0.5)


def test_what_a_detached_process_prints_later_is_waited_for(folder):
    """A process that opens the terminal by its name, as the summary of a trace does, counts as well."""
    # The pipe ends when the shell does.
    commands = """mkfifo go
setsid bash -c 'cat < go; echo late > "$0"' "$(tty <&2)" > /dev/null 2>&1 < /dev/null &
exec 3> go
echo early"""
    output = run_step(step(commands, "early\nlate"), folder, dict(os.environ))

    assert output.split() == ["early", "late"]
