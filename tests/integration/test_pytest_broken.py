"""Sessions that cannot measure: tests that fail, nothing to be measured, and files that cannot be written."""

import re

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
    result = quick.runpytest_subprocess("-q", "--headway-json=/dev/full")

    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["/dev/full cannot be written: No space left on device"])


@pytest.mark.parametrize("options", [["-n", "2"], ["--headway-disable"]])
def test_intervals_and_ratios_pass_where_nothing_is_measured(quick, options):
    """No assertion on an interval, a ratio or a rounded figure fails because there is none."""
    quick.makepyfile(
        """
        import math, statistics

        def work():
            pass

        def test_it(headway):
            one, other = headway.options(trace=True)(work), headway.serial(work, 100)
            found = headway.compare({"a": work, "b": work})
            assert found.ratio("b", "a").high < 3 and 0.3 < one.ratio_to(other).value < 3
            assert one.interval.high < 0.05 and one.interval.half_width < 0.1
            assert other.percentile(0.99).interval.high < 1
            assert statistics.median(one.values_s) < 1 and math.floor(other.throughput_per_s) > 10
            assert one.gil_wait_share <= 0.9 and one.gil_wait_share.interval.low < 0.9
        """
    )
    result = quick.runpytest_subprocess("-q", *options)
    assert result.ret == 0, result.stdout.str()


def test_a_failure_while_it_is_timed_shows_no_frame_of_ours(beside_plugins):
    """The user's frames are left of an error in a timed call, of a forgotten `await`, and of a refused option."""
    beside_plugins.makepyfile(
        fails_later="""
        import itertools

        calls = itertools.count()

        def work():
            if next(calls) == 5:
                raise ValueError("mine")
        """
    )
    beside_plugins.makepyfile(
        """
        import fails_later, itertools, pytest

        def failing():
            left = iter(range(30))
            def work():
                if next(left, None) is None:
                    raise ValueError("mine")
            return work

        def test_timed(headway):
            headway(failing())

        def test_compared(headway):
            headway.compare({"one": failing(), "other": failing()})

        def test_threads(headway):
            headway.concurrent(failing(), tasks=2, model="threads")

        def test_processes(headway):
            headway.concurrent(fails_later.work, tasks=2, model="processes")

        async def later():
            pass

        @pytest.mark.asyncio
        async def test_forgotten(headway):
            headway(later)

        @pytest.mark.headway(rounds=0)
        def test_refused(headway):
            headway(failing())
        """
    )
    result = beside_plugins.runpytest_subprocess("-q", "--tb=short", "-W", "ignore")

    result.assert_outcomes(failed=4, passed=1, errors=2)
    assert "headway/measure/" not in result.stdout.str()
    frames = re.findall(r"^(\S+):\d+: in (\w+)", result.stdout.str(), re.MULTILINE)
    of_user = [function for file, function in frames if file.startswith("test_")]
    assert of_user == [
        *("test_forgotten", "test_timed", "work", "test_compared", "work"),
        *("test_threads", "work", "test_processes"),
    ]
    others = [file for file, _ in frames if not file.startswith("test_")]
    assert all("concurrent/futures" in file or "site-packages" in file for file in others)
