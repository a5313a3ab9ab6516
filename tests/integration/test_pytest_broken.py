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
