"""The alarm by which the calls of an async open load begin at their times."""

import pytest

from headway.measure import loops, work
from headway.measure.alarm import Alarm

LOOPS = pytest.mark.parametrize("loop", ["asyncio", "uvloop", "trio"])


@LOOPS
@pytest.mark.times
def test_an_alarm_is_never_early_and_not_rounded_to_milliseconds(loop):
    """No wake-up is early, and the best of many is less than the 0.9 ms late that a loop's own timer is each time."""
    late_ns = []

    async def sleep():
        with Alarm() as alarm:
            for _ in range(50):
                at_ns = work.now_ns() + 2_100_000
                await alarm.until(at_ns)
                late_ns.append(work.now_ns() - at_ns)

    loops.run(sleep, loop)
    assert 0 <= min(late_ns) < 700_000


@LOOPS
def test_an_alarm_for_a_time_that_has_come_does_not_wait(loop):
    """A time that has come already is no wait, even for a loop whose other tasks wait for this one."""

    async def now():
        with Alarm() as alarm:
            await alarm.until(work.now_ns() - 1)
            await alarm.until(1)

    loops.run(now, loop)


@LOOPS
def test_an_error_where_tasks_are_begun_cancels_them(loop):
    """The error is raised as it is, and the tasks that have begun do not go on."""

    async def begin_all(begin):
        begin(lambda: loops.sleep(60))
        await loops.pause()
        raise KeyError("here")

    with pytest.raises(KeyError, match="here"):
        loops.run(lambda: loops.gathered(begin_all), loop)
