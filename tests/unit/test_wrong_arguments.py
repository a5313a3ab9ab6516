"""Arguments that no program can mean: each is refused at once, in words."""

import os
from pathlib import Path

import pytest

from headway.cli.main import main
from headway.errors import UsageError
from headway.live.schedule import schedule


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--pin", "0-99999999999", "app.py"], "'0-99999999999' is not a list of CPUs"),
        (["run", "--pin", "0-99999", "app.py"], "'0-99999' is not a list of CPUs"),
        (["run", "--pin", "3-1", "app.py"], "'3-1' is not a list of CPUs"),
        (["run", "--pin", "0,,2", "app.py"], "'0,,2' is not a list of CPUs"),
        (["run", "--pin", "-1", "app.py"], "'-1' is not a list of CPUs"),
        (["trace", "--max-size", "9" * 400, "app.py"], "is not a size from 1MB to 1TB"),
        (["watch", "-o", "", "app.py"], "argument -o/--output: the name is empty, expected a path"),
        (["stalls", ""], "argument FILE: the name is empty, expected a path"),
        (["watch", "--over", f"{'9' * 400}s", "app.py"], "is not a time from 10ms to 600s"),
        (["watch", "--ring", f"{'9' * 400}MB", "app.py"], "is not a size from 1MB to 1024MB"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, list) else "",
)
def test_an_absurd_argument_is_refused_at_once(words, message, capsys):
    """No set of billions of CPUs is made, and no number of hundreds of digits ends in a traceback."""
    with pytest.raises(SystemExit) as stopped:
        main(words)

    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_cores_that_are_not_there_are_named(capsys):
    """A list with a form that is right names cores of this machine."""
    assert main(["run", "--pin", "65535", "app.py"]) == 2
    assert "not all of the CPUs [65535] are available" in capsys.readouterr().err


def test_the_folder_of_the_policies_header_is_no_json(capsys):
    """A program that asks for JSON gets an error, and no text that it cannot parse."""
    assert main(["policies", "--include", "--json"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "--include prints the name of a folder, and no JSON" in said.err


def test_a_pipe_that_nobody_writes_to_is_no_trace(tmp_path, capsys):
    """The command does not wait for a writer that never comes."""
    os.mkfifo(tmp_path / "pipe")

    assert main(["report", str(tmp_path / "pipe")]) == 6
    assert "is not a trace: it is no regular file" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["trace", "run", "watch"])
def test_a_program_without_a_name_is_not_the_current_folder(command, tmp_path, monkeypatch, capsys):
    """A variable that is not set gives an empty word, and Python would run the folder."""
    monkeypatch.chdir(tmp_path)

    assert main([command, ""]) == 2
    assert "the name of the program is empty" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("policy", [3, None, Path("fair")])
def test_a_policy_that_is_no_text_is_refused(policy):
    """The error names the argument and its value."""
    with pytest.raises(UsageError, match=r"^policy is .*, expected a text") as caught:
        schedule(policy)
    assert "headway policies" in caught.value.hint
