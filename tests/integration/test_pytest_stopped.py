"""Sessions with benchmarks that Ctrl-C ends while their launches run."""

import json
import subprocess

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


COMMIT = [
    "git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "--quiet", "--allow-empty", "-m"
]  # fmt: skip

INTERRUPTS = """
import os, pathlib, signal, pytest

pytestmark = pytest.mark.headway(rounds=3, calls=3)

def begin():
    folder = pathlib.Path(__file__).parent
    with open(folder / "began", "a+") as began:
        began.write(".")
        if began.tell() == STOP_AT and not (folder / ".git").is_file():  # a worktree of the revision has a file
            os.kill(os.getppid(), signal.SIGINT)
            signal.pause()

def test_first(headway):
    begin()
    headway(sum, range(10))

def test_second(headway):
    begin()
    headway(sum, range(10))

def test_plain():
    raise AssertionError("after Ctrl-C")
"""


@pytest.mark.parametrize("options", [(), ("--headway-against", "HEAD")], ids=["here", "against"])
def test_launches_before_ctrl_c_are_kept(quick, options):
    """The results of the finished launches are shown, stored and written; the session has ended by Ctrl-C."""
    subprocess.run(["git", "init", "--quiet"], cwd=quick.path, check=True)
    subprocess.run([*COMMIT, "first"], cwd=quick.path, check=True)
    quick.makepyfile(INTERRUPTS.replace("STOP_AT", "3"))
    result = quick.runpytest_subprocess("-q", *options, "--headway-launches", "2", "--headway-json", "out.json")

    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["stored as *", "the launches were stopped early*"])
    (group,) = json.loads((quick.path / "out.json").read_text())["groups"].values()
    assert [len(one["launches"]) for one in group] == [1, 1]


def test_ctrl_c_in_the_first_launch_ends_the_session(quick):
    """Without a finished launch there is nothing to show, and no test runs."""
    quick.makepyfile(INTERRUPTS.replace("STOP_AT", "1"))
    result = quick.runpytest_subprocess("-q", "--headway-launches", "3", "--headway-json", "out.json")

    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.assert_outcomes()
    assert (quick.path / "began").read_text() == "."
