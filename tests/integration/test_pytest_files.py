"""Files that the plugin's options name: a slip is told before anything runs."""

import pytest
from plugin_suites import TWO

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--headway-json", "x.json", "--headway-pyperf", "./x.json"],
            "*--headway-json and --headway-pyperf name the same file x.json; use another name for one of them*",
        ),
        (["--headway-store", "nowhere/x.sqlite"], "*--headway-store nowhere/x.sqlite: *nowhere does not exist*"),
    ],
)
def test_a_file_that_two_options_name_or_that_has_no_folder_is_refused(quick, options, message):
    """One file would replace the other, or a folder would be made that somebody misspelt."""
    quick.makepyfile(TWO)
    result = quick.runpytest_subprocess("-q", *options)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])
    assert not (quick.path / "nowhere").exists()


@pytest.mark.parametrize("name", ["against", "compare"])
def test_an_empty_name_to_compare_with_is_refused(quick, name):
    """A variable of a CI may be empty; without a word, nothing would be compared."""
    quick.makepyfile(TWO)
    result = quick.runpytest_subprocess("-q", f"--headway-{name}", "")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--headway-{name}: expected *, and nothing is given; a variable in the command *"])


def test_a_launch_does_not_check_files_that_it_does_not_write(quick):
    """A test may move to another folder, where the launch's options name no folder."""
    quick.makepyfile(TWO)
    (quick.path / "there").mkdir()
    options = ["--headway-store", "there/x.sqlite", "--headway-launches", "2"]

    quick.runpytest_subprocess("-q", *options).assert_outcomes(passed=2)
    assert (quick.path / "there" / "x.sqlite").exists()


LOGS = """
import logging, pytest

@pytest.mark.headway(rounds=2, calls=1)
def test_first(headway):
    headway(logging.getLogger("mine").warning, "a call")

def test_last():
    logging.getLogger("mine").warning("the end")
"""


@pytest.mark.parametrize("way", ["option", "configuration"])
def test_the_log_is_that_of_the_session(quick, way):
    """A launch neither empties nor writes the log file of the session, whichever way that is named."""
    quick.makepyfile(LOGS)
    if way == "configuration":
        quick.makeini("[pytest]\nlog_file = x.log\nlog_file_format = %(message)s %(process)d")
    options = ["--log-file", "x.log", "--log-file-format", "%(message)s %(process)d"] if way == "option" else []
    quick.runpytest_subprocess("-q", *options, "--headway-launches", "2").assert_outcomes(passed=2)

    lines = (quick.path / "x.log").read_text().splitlines()
    # The session calls the function once, before its last test.
    assert [line.rpartition(" ")[0] for line in lines] == ["a call", "the end"]
    assert len({line.rpartition(" ")[2] for line in lines}) == 1


def test_a_value_by_which_pytest_finds_another_root_folder_is_refused(quick, monkeypatch):
    """After a space a value is a path of tests for pytest, which would import the code of the tree that it is in."""

    def run(*options):
        return quick.runpytest_subprocess("-q", "--collect-only", *options)

    for tree in ("main", "work", "work/base"):
        folder = quick.mkdir(tree)
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / f"test_{folder.name}.py").write_text("def test_it():\n    pass\n")
        (folder / ".headway").mkdir()
        (folder / ".headway" / "base.json").write_text('{"headway": 2, "sessions": []}')
    monkeypatch.chdir(quick.path / "work")
    file = "../main/.headway/base.json"
    for value in (file, "base"):
        refused = run("--headway-compare", value)
        assert refused.ret == pytest.ExitCode.USAGE_ERROR
        refused.stderr.fnmatch_lines([f"*--headway-compare {value}: pytest takes *; write --headway-compare={value}"])
    # The configuration is the right one with `=`, and beside a path of tests.
    assert run(f"--headway-compare={file}").ret == pytest.ExitCode.OK
    assert run("test_work.py", "--headway-compare", file).ret == pytest.ExitCode.OK
    monkeypatch.chdir(quick.path)
    assert run("work/test_work.py", "--headway-compare", "work/.headway/base.json").ret == pytest.ExitCode.OK
    # A session without a configuration has another root folder, too, and so other stored sessions.
    (quick.path / "out.json").touch()
    monkeypatch.chdir(quick.mkdir("alone"))
    run("--headway-json", "../out.json").stderr.fnmatch_lines([f"*root folder is {quick.path} for that reason; *"])
