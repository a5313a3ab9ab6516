"""Real pytest runs of tests that replace the file system, get the fixture in another way, or have a time limit."""

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

FAKE = """
import builtins, io, os, pytest

def refuse(*given, **more):
    raise OSError("the files of the machine are not there")

@pytest.fixture
def fs(monkeypatch):
    for name in ("open", "stat", "mkdir", "listdir", "replace", "unlink"):
        monkeypatch.setattr(os, name, refuse)
    for module in (io, builtins):
        monkeypatch.setattr(module, "open", refuse)

@pytest.mark.headway(rounds=3, calls=3)
def test_it(fs, headway):
    assert headway(int).measured
"""


@pytest.mark.parametrize("options", [(), ("--headway-launches", "2")])
def test_a_test_may_have_a_file_system_of_its_own(quick, options):
    """A fixture that stands before ours may take the files away, as pyfakefs does; the results are stored all the same."""
    quick.makepyfile(FAKE)
    result = quick.runpytest_subprocess("-q", "--headway-json", "out.json", *options)

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"test_it *{2 if options else 1}/ 3/ 3", "stored as *", "wrote out.json"])


GOT = """
import pytest

@pytest.fixture
def bench(request):
    return request.getfixturevalue("headway").options(rounds=3, calls=3)

def test_named(headway):
    headway.options(rounds=3, calls=3)(int)

def test_got(request):
    request.getfixturevalue("headway").options(rounds=3, calls=3)(int)

def test_by_a_fixture(bench):
    bench(int)
"""


def test_a_test_that_gets_the_fixture_by_its_name_is_launched(quick):
    """A test whose code asks for the fixture is a benchmark, too; one that another fixture asks for is told."""
    quick.makepyfile(GOT)
    result = quick.runpytest_subprocess("-q", "--headway-launches", "2")

    result.assert_outcomes(passed=3)
    result.stdout.re_match_lines([r"test_by_a_fixture .* 1/ 3/ 3"])
    result.stdout.re_match_lines([r"test_got .* 2/ 3/ 3"])
    (told,) = [line for line in result.outlines if line.startswith("! ")]
    assert told.endswith(".py::test_by_a_fixture: not launched; name `headway` among its arguments")
    result = quick.runpytest_subprocess("-q", "--headway-only")
    result.assert_outcomes(passed=2, deselected=1)


def test_a_comparison_fails_for_a_benchmark_that_is_not_launched(quick):
    """A limit that a benchmark was not held against is not kept."""
    quick.makepyfile(GOT)
    for command in (("init", "-q", "-b", "main", "."), ("add", "."), ("commit", "-qm", "all")):
        quick.run("git", "-c", "user.name=me", "-c", "user.email=me@localhost", *command)
    options = ("--headway-against", "main", "--headway-launches", "1", "--headway-compare-fail", "900%")
    result = quick.runpytest_subprocess("-q", *options)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["--headway-compare-fail: not compared: *.py::test_by_a_fixture"])
    result = quick.runpytest_subprocess("-q", "--headway-only", *options)
    assert result.ret == 0


WAITS = """
import os, time, pytest

@pytest.mark.timeout(4)
@pytest.mark.headway(rounds=2, calls=1)
def test_it(headway):
    # Only the other tree's process takes as long as the limit.
    headway(lambda: time.sleep(5 * (os.environ.get("HEADWAY_SIDE") == "1") / 2))
"""


def test_the_wait_for_the_other_trees_turns_is_no_time_of_the_test(quick, monkeypatch):
    """pytest-timeout sets no timer in a process that takes turns: its launcher has a limit for each turn."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:asyncio -p no:anyio -p no:benchmark")
    quick.makepyfile(WAITS)
    for command in (("init", "-q", "-b", "main", "."), ("add", "."), ("commit", "-qm", "all")):
        quick.run("git", "-c", "user.name=me", "-c", "user.email=me@localhost", *command)
    result = quick.runpytest_subprocess("-q", "--headway-against", "main", "--headway-launches", "1")

    result.assert_outcomes(passed=1)
    assert "ratio to main" in result.stdout.str()


def test_keys_of_a_comparison_may_be_numbers(quick):
    """The table names alternatives by the texts of their keys."""
    quick.makepyfile(
        "def test_it(headway):\n"
        "    found = headway.options(rounds=3, calls=3).compare({10: int, 100: float})\n"
        "    assert found[10].measured and found[100].measured\n"
    )
    result = quick.runpytest_subprocess("-q")

    result.assert_outcomes(passed=1)
    result.stdout.re_match_lines([r"100? +serial "])
    assert result.ret == 0


@pytest.mark.parametrize("option", ["save", "add", "compare"])
def test_a_name_that_no_file_can_have_is_refused_before_anything_runs(quick, option):
    """A name of 300 characters is an error of the command line."""
    quick.makepyfile("def test_it(headway):\n    open('ran', 'w').close()\n")
    result = quick.runpytest_subprocess("-q", f"--headway-{option}", 300 * "a")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --headway-{option} aaa*: *too long*"])
    assert not (quick.path / "ran").exists()
