"""Waiting without work: sleeps of `period_s`, `times` of them (source D)."""

import time

from . import Tasks


def sleep(period_s):
    """Block this thread."""
    time.sleep(period_s)


async def sleep_coroutine(period_s):
    """Suspend this coroutine."""
    from asyncio import sleep as asyncio_sleep

    await asyncio_sleep(period_s)


async def sleep_sequence(period_s, times):
    """Await one sleep after the other."""
    for _ in range(times):
        await sleep_coroutine(period_s)


class Sleep(Tasks):
    """Sleeps one after the other, in threads, or gathered by asyncio; `gather` false awaits them one by one."""

    function = sleep

    def __init__(self, job):
        if job["model"] == "asyncio":
            self.task = sleep_coroutine if job["params"].get("gather", True) else sleep_sequence
        super().__init__(job)

    def make_arguments(self):
        period_s, times = self.params["period_s"], self.params["times"]
        if self.task is sleep_sequence:
            return [(period_s, times)]
        return [(period_s,)] * times
