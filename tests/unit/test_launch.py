"""The launcher's knowledge before it becomes a program: the command, its reach, and the environment."""

import os
import sys
from pathlib import Path

import pytest

from headway.agent import STARTUP_PATH
from headway.live.door import Door
from headway.live.launch import command_line, environment, original_environment, out_of_reach, scheduled_environment


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, ""),
        ("", ""),
        ("lib", ":lib"),
        (":lib", "::lib"),
        ("lib:", ":lib:"),
        (":", "::"),
        ("a::b:a", ":a::b:a"),
        (str(STARTUP_PATH), ""),
        (f"{STARTUP_PATH}:lib", ":lib"),
    ],
)
def test_the_users_path_is_kept_to_the_letter(before, after):
    """Our path comes first, once, and the user's is unchanged; an empty entry is the current folder."""
    base = {} if before is None else {"PYTHONPATH": before}

    assert scheduled_environment(None, base=base)["PYTHONPATH"] == f"{STARTUP_PATH}{after}"


def test_arguments_are_recorded_only_where_asked():
    """A launch below another one does not inherit the setting."""
    doors = [Door(record_arguments=True), Door()]
    asked = environment(doors[0].environment(), base={})

    assert asked["HEADWAY_TRACE_ARGUMENTS"] == "1"
    assert "HEADWAY_TRACE_ARGUMENTS" not in environment(doors[1].environment(), base=asked)
    assert len({door.family for door in doors}) == 2
    for door in doors:
        door.close()
        assert not door.folder.exists()


def test_the_original_environment_is_the_process_own(monkeypatch):
    """The original environment is the process's own, without later changes by Python or anyone else."""
    monkeypatch.setenv("HEADWAY_TEST_MADE_LATER", "1")

    assert "HEADWAY_TEST_MADE_LATER" not in original_environment()
    assert original_environment()["PATH"] == os.environ["PATH"]


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["python3", "app.py", "-I"], None),
        (["python3", "-I", "app.py"], "-I"),
        (["python3", "-uBE", "-m", "x"], "-E"),
        (["python3", "-W", "-S", "app.py"], None),
        (["python3", "-WIgnore", "-XE", "app.py"], None),
        (["python3", "-c", "-I"], None),
        (["python3", "-bc", "-I"], None),
        (["python3", "-mSite", "-I"], None),
        (["python3", "--check-hash-based-pycs", "never", "-S", "app.py"], "-S"),
        (["python3", "-", "-I"], None),
        (["python3"], None),
        (["env", "A=1", "python3", "-I", "app.py"], "-I"),
        (["env", "-S", "python3 -I", "app.py"], "-I"),
        (["env"], None),
        (["grep", "-I", "x"], None),
    ],
)
def test_options_that_shut_us_out_are_found(words, option):
    """Only options of the interpreter itself count, not the program's, and not an option's argument."""
    found = out_of_reach(words)

    assert (found is None) == (option is None)
    assert option is None or option in found


@pytest.mark.parametrize("line", ["#!{} -I", "#!/usr/bin/env -S {} -I", "#! {} -I"])
def test_a_first_line_that_shuts_us_out_is_found(tmp_path, line):
    """The interpreter and its option in a script's first line are found."""
    script = tmp_path / "tool"
    script.write_text(line.format(sys.executable) + "\nprint(1)\n")
    script.chmod(0o755)

    assert "-I" in (out_of_reach([str(script)]) or "")
    assert out_of_reach([str(Path(script).with_name("nothing"))]) is None


def test_a_program_may_come_from_the_standard_input_or_a_pipe(tmp_path):
    """`-` is Python with a program from its input, as `python3 -`; a pipe with a name is a script."""
    assert command_line(["-", "--fast"], python="python3.13") == (["python3.13", "-", "--fast"], "stdin")
    pipe = tmp_path / "63"
    os.mkfifo(pipe)
    assert command_line([str(pipe)], python="python3.13") == (["python3.13", str(pipe)], "63")
