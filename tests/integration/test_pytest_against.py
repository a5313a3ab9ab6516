"""Real pytest runs that measure another revision: in a hook of git, and with tests that take something for themselves."""

import subprocess
import sys
import uuid

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TEST = """
import os, pytest
from product import value

@pytest.fixture
def taken(tmp_path):
    TAKES

@pytest.mark.headway(rounds=3, calls=3)
def test_value(headway, taken):
    with open("DONE", "a") as done:
        print(os.environ.get("HEADWAY_SIDE", "no"), value(), "GIT_INDEX_FILE" in os.environ, file=done)
    headway(value)
"""

TAKEN = """
    import socket
    with socket.socket(socket.AF_UNIX) as own:
        own.bind(NAME)
        yield
"""

TEMPORARY = """
    (tmp_path / "tree").write_text(os.environ.get("HEADWAY_SIDE", "no"))
    yield
    with open("DONE", "a") as done:
        print("the tree is", (tmp_path / "tree").read_text(), file=done)
"""

HOOK = """#!/bin/sh
exec PYTHON -m pytest -q --headway-against main --headway-launches 1 >> DONE.log 2>&1
"""


def git(*arguments, where):
    identity = ("-c", "user.name=me", "-c", "user.email=me@localhost")
    done = subprocess.run(["git", *identity, *arguments], cwd=where, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(quick, tmp_path):
    """Return a function that makes a repository whose tests take something, and that has two commits on a branch."""

    def made(takes="yield"):
        done = str(tmp_path / "done")
        quick.path.joinpath("product.py").write_text("def value():\n    return 0\n")
        quick.path.joinpath("test_value.py").write_text(TEST.replace("TAKES", takes).replace("DONE", done))
        quick.path.joinpath("pytest.ini").write_text("[pytest]\npythonpath = .\n")
        git("init", "--quiet", "-b", "main", ".", where=quick.path)
        git("add", ".", where=quick.path)
        git("commit", "--quiet", "-m", "first", where=quick.path)
        git("checkout", "--quiet", "-b", "work", where=quick.path)
        quick.path.joinpath("product.py").write_text("def value():\n    return 1\n")
        git("commit", "--quiet", "-am", "second", where=quick.path)
        return quick

    return made


@pytest.mark.parametrize("way", ["-a", "the index", "another tree"])
def test_a_hook_of_git_measures_and_the_commit_is_the_users(repository, tmp_path, way):
    """A hook before a commit compares with another branch, and the commit has what the user commits.

    git gives its hook variables of the repository; `commit -a` names the index that is being committed.
    """
    place = repository().path
    if way == "another tree":
        git("worktree", "add", "--quiet", "-b", "third", str(tmp_path / "third"), where=place)
    here = tmp_path / "third" if way == "another tree" else place
    hook = place / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(HOOK.replace("PYTHON", sys.executable).replace("DONE", str(tmp_path / "done")))
    hook.chmod(0o755)
    (here / "product.py").write_text("def value():\n    return 2\n")
    if way == "the index":
        git("add", "product.py", where=here)
    git("commit", "--quiet", "-m", "third", *(["-a"] if way == "-a" or here != place else []), where=here)

    assert git("show", "HEAD:product.py", where=here).endswith("return 2")
    assert git("diff", "--name-only", "HEAD~1", "HEAD", where=here) == "product.py"
    assert git("status", "--porcelain", "--untracked-files=no", where=here) == ""
    assert len(git("worktree", "list", where=place).splitlines()) == 1 + (here != place)
    assert "ratio to main" in (tmp_path / "done.log").read_text()
    # The session's own test has the variables of its process, as without Headway; the launches are of two trees.
    assert (tmp_path / "done").read_text().splitlines() == ["0 2 False", "1 0 False", "no 2 True"]


def test_an_address_that_both_trees_take_is_told(repository, address):
    """The second process of each pair fails, and the line tells that both live at once, with the variable that helps."""
    result = repository(TAKEN.replace("NAME", repr(address))).runpytest_subprocess(
        "-q", "--headway-against", "main", "--headway-launches", "2"
    )

    (told,) = [one for one in result.outlines if one.startswith("! test_value: in main: ")]
    assert "exit code 1: OSError: " in told
    assert "Address already in use" in told
    assert "(both trees' processes live at the same time: " in told
    assert "`HEADWAY_SIDE`" in told


def test_each_tree_may_have_an_address_of_its_own(repository, address):
    """With an address that depends on the tree, both are measured; the last line tells what the intervals are of."""
    name = f"{address!r} + os.environ.get('HEADWAY_SIDE', '')"
    result = repository(TAKEN.replace("NAME", name)).runpytest_subprocess(
        "-q", "--headway-against", "main", "--headway-launches", "1"
    )

    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("! *")
    result.stdout.fnmatch_lines(
        ["*ratio to main*", "intervals are of rounds within one process of each tree; `--headway-launches 6` *"]
    )


def test_each_process_has_temporary_files_of_its_own(repository, tmp_path):
    """Both trees' processes live at once, and a later pytest removes what is in the folder that `--basetemp` names.

    The options of pytest's cache are unknown without its plugin, and then an error of a strict configuration.
    """
    options = (f"--basetemp={tmp_path / 'mine'}", "-p", "no:cacheprovider", "--strict-config")
    result = repository(TEMPORARY).runpytest_subprocess(
        "-q", *options, "--headway-against", "main", "--headway-launches", "1"
    )

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*ratio to main*"])
    told = [one for one in (tmp_path / "done").read_text().splitlines() if one.startswith("the tree")]
    assert sorted(told) == ["the tree is 0", "the tree is 1", "the tree is no"]
    assert [one.name for one in tmp_path.iterdir() if "turns" in one.name] == []


def test_a_package_called_benchmark_is_not_compared_with_itself(repository):
    """Its folder is taken for one of tests, so both processes would run this tree's code; the session says so and fails."""
    quick = repository()
    folder = quick.path / "benchmark"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "engine.py").write_text("def value():\n    return 0\n")
    (folder / "test_engine.py").write_text(
        "from benchmark.engine import value\n\ndef test(headway):\n    headway(value)\n"
    )
    git("add", ".", where=folder)
    git("commit", "--quiet", "-m", "a package", where=folder)
    (folder / "engine.py").write_text("def value():\n    return 1\n")
    options = ("--headway-against", "HEAD", "--headway-launches", "1", "--headway-compare-fail", "5%")
    result = quick.runpytest_subprocess("-q", "benchmark", *options)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    told = "benchmark.engine is this tree's own there, too: benchmark is taken for a folder of tests; move its tests "
    assert any(one.startswith("! test: in HEAD: ") and told in one for one in result.outlines)


@pytest.fixture
def address():
    """Return an abstract address of a Unix socket, which no other program takes, unlike a port that was unused."""
    return f"\0headway-{uuid.uuid4().hex}"
