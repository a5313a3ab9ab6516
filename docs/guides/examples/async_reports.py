"""Make reports in threads, and measure how late the event loop wakes: async_reports.py [SECONDS [THREADS]]"""

import asyncio
import sys
import time

given = dict(enumerate(sys.argv))
SECONDS, THREADS = float(given.get(1, 10)), int(given.get(2, 1))
TICK_S = 0.01
lags_s, made = [], 0


def report(month):
    totals = {}
    for order in range(50_000):
        customer = (month + order * 7919) % 1000
        totals[customer] = totals.get(customer, 0) + order % 97
    return max(totals.values())


async def make_reports():
    global made
    while True:
        await asyncio.to_thread(report, made)
        made += 1


async def watch():
    while True:
        begun = time.perf_counter()
        await asyncio.sleep(TICK_S)
        lags_s.append(time.perf_counter() - begun - TICK_S)


async def main():
    tasks = [asyncio.create_task(make_reports()) for _ in range(THREADS)] + [asyncio.create_task(watch())]
    await asyncio.wait(tasks, timeout=SECONDS)
    reports = made
    lags_s.sort()
    p50, p99 = (lags_s[int(len(lags_s) * share)] * 1e3 for share in (0.5, 0.99))
    print(f"{len(lags_s)} ticks, late by p50 {p50:.3f} ms, p99 {p99:.3f} ms, max {lags_s[-1] * 1e3:.3f} ms")
    print(f"{reports / SECONDS:.2f} reports/s", flush=True)


asyncio.run(main())
