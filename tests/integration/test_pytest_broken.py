"""Sessions that cannot measure: tests that fail in each launch, and files that cannot be written."""

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


FAILS_LATER = """
import itertools, os, pytest

pytestmark = pytest.mark.headway(seconds=0.02)

def failing(fail):
    count = itertools.count()
    def work():
        if next(count) > 9:
            fail()
    return work

def broken():
    raise ValueError("broken")

def test_raises(headway):
    headway(failing(broken))

def test_exits(headway):
    headway(failing(lambda: os._exit(7)))

def test_second_raises(headway):
    headway(int)
    headway(failing(broken))

def test_good(headway):
    headway(int)
"""


def test_a_test_that_fails_in_each_launch_fails(quick):
    """A test that fails without launches does not pass with them, and tells the error of the first launch."""
    quick.makepyfile(FAILS_LATER)
    result = quick.runpytest_subprocess("-q", "--headway-save", "base", "--headway-launches", "2")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, failed=3)
    found = "*HeadwayError: {} is not measured, as the test failed in every launch; in the first one: exit code {}"
    result.stdout.fnmatch_lines(
        [
            found.format("test_raises", "1: ValueError: broken"),
            found.format("test_exits", "7"),
            found.format("test_second_raises (2)", "1: ValueError: broken"),
        ]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--headway-json", "folder"], "*--headway-json folder: that is a folder; name a file in it*"),
        (["--headway-pyperf", "."], "*--headway-pyperf .: that is a folder; name a file in it*"),
        (["--headway-save", "kept"], "*--headway-save kept: *kept.json is a folder; choose another name*"),
    ],
)
def test_a_folder_in_place_of_a_file_is_refused_before_anything_runs(quick, options, message):
    """A file that could never be written costs no measurement."""
    quick.mkdir("folder")
    (quick.path / ".headway" / "kept.json").mkdir(parents=True)
    quick.makepyfile("def test_it(headway):\n    open('ran', 'w').close()\n")
    result = quick.runpytest_subprocess("-q", *options)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])
    assert not (quick.path / "ran").exists()


def test_a_session_whose_file_cannot_be_written_fails(quick):
    """A file that cannot be written after the measurement, as on a full disk, fails the session."""
    quick.makepyfile("def test_it(headway):\n    headway.options(rounds=3, calls=3)(int)\n")
    result = quick.runpytest_subprocess("-q", "--headway-json", "/dev/full")

    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["/dev/full cannot be written: No space left on device"])
