"""Measure how late a Dask worker's event loop wakes while tasks run: dask worker ... --preload dask_lag.py"""

import asyncio
import time

TICK_S = 0.01
lags_s = []


async def watch(worker):
    while True:
        busy = worker.state.executing_count > 0
        begun = time.perf_counter()
        await asyncio.sleep(TICK_S)
        if busy:
            lags_s.append(time.perf_counter() - begun - TICK_S)


async def dask_setup(worker):
    worker.lag_watch = asyncio.create_task(watch(worker))


def dask_teardown(worker):
    lags_s.sort()
    p50, p99 = (lags_s[int(len(lags_s) * share)] * 1e3 for share in (0.5, 0.99))
    print(f"{len(lags_s)} ticks, late by p50 {p50:.3f} ms, p99 {p99:.3f} ms, max {lags_s[-1] * 1e3:.3f} ms", flush=True)
