"""The launcher's knowledge before it becomes a program: the command, its reach, and the environment."""

import os
import sys
from pathlib import Path

import pytest

from headway.agent import STARTUP_PATH
from headway.cli.main import _parse
from headway.cli.trace_command import program
from headway.errors import ProgramMissingError, UsageError
from headway.live.door import Door
from headway.live.launch import (
    command_line,
    environment,
    name_behind,
    original_environment,
    out_of_reach,
    scheduled_environment,
)


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
        (["env", "-i", "python3", "app.py"], "`env -i`"),
        (["env", "A=1", "-", "/usr/bin/python3", "app.py"], "`env -`"),
        (["env", "-S", "PYTHONPATH=/x python3 -u", "app.py"], "`env PYTHONPATH=...`"),
        (["env", "-i", "sh", "app.sh"], None),
        (["env", "A=1", "python3", "app.py", "-i", "PYTHONPATH=/x"], None),
        (["env"], None),
        (["grep", "-I", "x"], None),
    ],
)
def test_options_that_shut_us_out_are_found(words, option):
    """Only options of the interpreter itself count, not the program's, and not an option's argument."""
    found = out_of_reach(words)

    assert (found is None) == (option is None)
    assert option is None or option in found


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/v/bin/python3.13t -u some/app.py --port 80", "app"),
        ("python -m uvicorn.main app:app", "uvicorn"),
        ("setsid python3 app.py", "app"),
        ("env -u X A=1 nice -n 5 /usr/bin/python3 -m flask run", "flask"),
        ("uv run python app.py", "app"),
        ("python -c print(1)", ""),
        ("setsid gunicorn app:app", ""),
        ("gunicorn --name python app:app", ""),
        ("./python_app.py app.py", ""),
    ],
)
def test_the_program_behind_a_launcher_has_the_name(command, name):
    """Recordings of `setsid python app.py` are named after app.py; a program's own arguments name nothing."""
    assert name_behind(command.split()) == name


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


def test_a_folder_does_not_stand_in_the_way_of_a_program(tmp_path, monkeypatch):
    """A name without a slash is the program on the PATH, as in a shell, though a folder here has that name."""
    monkeypatch.chdir(tmp_path)
    for name in ("true", "no-such-program"):
        Path(name).mkdir()

    assert command_line(["true", "-x"]) == (["true", "-x"], "true")
    assert command_line(["./true"], python="python3.13") == (["python3.13", "./true"], "true")
    assert command_line(["no-such-program"], python="python3.13")[0] == ["python3.13", "no-such-program"]


def test_an_interpreter_for_a_program_is_an_error(tmp_path, monkeypatch):
    """A program that is no script runs by itself, so an interpreter that is named for it would have no effect."""
    monkeypatch.chdir(tmp_path)
    tool = Path("tool")
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)

    for name in ("true", "./tool"):
        with pytest.raises(UsageError, match=f"--python is .* {name} is a program") as caught:
            command_line([name], python="python3.13")
        assert "leave out --python" in caught.value.hint
        assert command_line([name])[0] == [name]
    with pytest.raises(ProgramMissingError):
        command_line(["no-such-program"], python="python3.13")


def test_an_interpreter_that_is_named_goes_before_a_first_line(tmp_path):
    """An executable script has the interpreter of its first line only if none is named for it."""
    script = tmp_path / "app.py"
    script.write_text("#!/bin/echo\n")
    script.chmod(0o755)

    assert command_line([str(script)])[0] == [str(script)]
    assert command_line([str(script)], python="python3.13")[0] == ["python3.13", str(script)]


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["-mhttp.server", "8000"], ["-m", "http.server", "8000"]),
        (["-o", "x.hwt", "-mpytest", "-o", "x=1", "-mslow"], ["-m", "pytest", "-o", "x=1", "-mslow"]),
        (["-cprint(1)", "-x"], ["-c", "print(1)", "-x"]),
        (["-m", "pytest", "-mslow"], ["-m", "pytest", "-mslow"]),
        (["--", "app.py", "-mslow"], ["app.py", "-mslow"]),
    ],
)
def test_an_option_and_its_word_may_be_one(words, command, monkeypatch, tmp_path):
    """`-mMODULE` and `-cCODE` end our own options, as `-m MODULE` does, and keep the program's arguments."""
    monkeypatch.chdir(tmp_path)
    Path("app.py").touch()
    parsed = _parse(["trace", *words])

    assert program(parsed)[0][1:] == command
    assert parsed.output == (Path("x.hwt") if words[0] == "-o" else None)


def test_no_policy_is_none_whatever_the_environment_names():
    """The policy of an outer `headway run`, or of a shell, does not stay where none is wanted."""
    outer = {"HEADWAY_POLICY": "bfs", "HEADWAY_POLICY_OPTIONS": "x=1", "HEADWAY_WHY": "1"}

    assert not outer.keys() & scheduled_environment(None, base=outer).keys()
    found = scheduled_environment("fair", base=outer)
    assert (found["HEADWAY_POLICY"], found["HEADWAY_POLICY_OPTIONS"]) == ("fair", "")


@pytest.mark.parametrize("command", ["run", "trace", "watch"])
@pytest.mark.parametrize(
    "words",
    [
        ["-m", "mm", "--", "a"],
        ["-m", "mm", "a", "--", "-b"],
        ["-m", "mm", "a", "--", "b", "--", "c"],
        ["-m", "mm", "--", "--"],
        ["-m", "mm", "a", "--"],
        ["-m", "--", "a"],
        ["-c", "C", "-x", "--", "c"],
        ["-c", "C", "--"],
        ["-c", "", "--", "-c"],
    ],
)
def test_a_modules_double_dash_is_its_own(command, words):
    """The arguments of a module and of code begin right behind it, as Python's own, with every `--` among them."""
    assert program(_parse([command, *words]))[0][1:] == words


def test_the_double_dash_before_a_program_is_ours(monkeypatch, tmp_path):
    """The first `--` ends our own options, and a script gets each further one."""
    monkeypatch.chdir(tmp_path)
    Path("app.py").touch()

    for words in (["--", "app.py", "--", "a"], ["app.py", "--", "a"]):
        assert program(_parse(["run", *words]))[0][1:] == ["app.py", "--", "a"]


@pytest.mark.parametrize(
    ("line", "said", "hint"),
    [
        ("#!/usr/bin/env python3\r", r"app\.py names the interpreter 'python3\\r', which", "ends in a carriage return"),
        (
            "#!/usr/bin/env no-such-python",
            "names the interpreter 'no-such-python', which is not on the PATH",
            "--python",
        ),
        ("#! /usr/bin/env\tpython3 -u", "names the interpreter 'python3 -u', which", "correct that line"),
    ],
)
@pytest.mark.parametrize("name", ["app.py", "app"])
def test_an_interpreter_that_env_will_not_find_is_named(name, line, said, hint, tmp_path):
    """The error of `env` names neither the script nor the invisible end of its line; the exit code is that of `env`."""
    script = tmp_path / name
    script.write_text(f"{line}\nprint(1)\n", newline="")
    script.chmod(0o755)

    with pytest.raises(ProgramMissingError, match=said.replace(r"app\.py", name)) as caught:
        command_line([str(script)])
    assert hint in caught.value.hint
    assert caught.value.exit_code == 127


@pytest.mark.parametrize(
    "line", ["#!/usr/bin/env sh", "#!/usr/bin/env -S sh -e", "#!/usr/bin/env A=1 sh", "#!/bin/sh", ""]
)
def test_other_first_lines_are_left_to_the_kernel(line, tmp_path):
    """Only a name that `env` looks up is examined."""
    script = tmp_path / "app"
    script.write_text(f"{line}\necho\n")
    script.chmod(0o755)

    assert command_line([str(script)])[0] == [str(script)]
