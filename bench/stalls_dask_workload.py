"""A Dask worker with stalls, for bench/stalls.py.

stalls_dask_workload.py worker PORT          a scheduler at that port, in a process of its own, and a worker in this one
stalls_dask_workload.py client PORT PLAN     causes stalls in the worker's event loop, or in a task beside it
"""

import asyncio
import json
import sys
import time

import stalls_workload as stalls


async def worker(port):
    from distributed import Worker

    scheduler = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "distributed.cli.dask_scheduler",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--no-dashboard",
    )
    try:
        while True:
            try:
                async with Worker(f"tcp://127.0.0.1:{port}", nthreads=2, dashboard=False) as one:
                    await one.finished()
                break
            except OSError:
                await asyncio.sleep(0.1)
    finally:
        scheduler.terminate()


def in_a_task(cause, seconds):
    """Stall in a thread of the worker's pool."""
    begun_ns = time.monotonic_ns()
    if cause == "gc_other":
        stalls.prepare_garbage(seconds)
        begun_ns = time.monotonic_ns()
        stalls.collect(seconds)
    else:
        stalls._rate()
        begun_ns = time.monotonic_ns()
        getattr(stalls, cause)(seconds)
    return stalls.record([cause], begun_ns, ())


async def on_the_loop(cause, seconds):
    """Stall in the worker's event loop."""
    stalls._rate()
    await asyncio.sleep(0.05)
    begun_ns = time.monotonic_ns()
    stalls.stand_still([cause], seconds)
    await asyncio.sleep(0)
    return stalls.record([cause], begun_ns, ())


def ask(port, plan):
    from distributed import Client

    with Client(f"tcp://127.0.0.1:{port}", timeout=60) as client:
        client.wait_for_workers(1, timeout=60)
        for cause, seconds in plan:
            time.sleep(stalls.QUIET_S)
            if cause in stalls.IN_THE_WAY:
                found = client.submit(in_a_task, cause, seconds, pure=False).result()
            else:
                (found,) = client.run(on_the_loop, cause, seconds).values()
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        asyncio.run(worker(int(sys.argv[2])))
    else:
        ask(int(sys.argv[2]), json.loads(sys.argv[3]))
