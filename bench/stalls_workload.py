"""The programs of bench/stalls.py: they have stalls of known causes, one after the other.

    stalls_workload.py LOOP PLAN     LOOP is asyncio or uvloop
    stalls_workload.py served PLAN   a thread that sends requests to the server at $STALLS_PORT, which has `application`

PLAN is a JSON list of [cause, seconds]. After each stall, the program prints a line of JSON: its causes, its begin and
end by time.monotonic_ns(), and the time of each cause. Each function below stalls in one way.
"""

import asyncio
import gc
import itertools
import json
import os
import queue
import socket
import subprocess
import sys
import threading
import time
import urllib.request

QUIET_S = 0.35
"""Between two stalls."""


def own_python(seconds):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        sum(range(50))


_PER_S = []


def _rate():
    """Return how many ones a call of C adds up in a second while it holds the GIL."""
    if not _PER_S:
        begun = time.perf_counter()
        sum(itertools.repeat(1, 3_000_000))
        _PER_S.append(3_000_000 / (time.perf_counter() - begun))
    return _PER_S[0]


def own_call(seconds):
    sum(itertools.repeat(1, int(seconds * _rate())))


class Node:
    """Garbage: each object refers to itself."""


_NODES_PER_S = 6_000_000
_garbage = []


def prepare_garbage(seconds):
    _garbage.clear()
    gc.disable()
    for _ in range(int(seconds * _NODES_PER_S)):
        one = Node()
        one.itself = one
        _garbage.append(one)
    gc.enable()


def collect(_seconds):
    gc.collect()


def blocked_sleep(seconds):
    time.sleep(seconds)


def blocked_process(seconds):
    subprocess.run(["sleep", str(seconds)], check=True)


def blocked_lock(seconds):
    lock = threading.Lock()
    lock.acquire()
    threading.Timer(seconds, lock.release).start()
    with lock:
        pass


def blocked_socket(seconds):
    here, there = socket.socketpair()
    threading.Timer(seconds, there.send, [b"x"]).start()
    here.recv(1)


def blocked_queue(seconds):
    items = queue.Queue()
    threading.Timer(seconds, items.put, [1]).start()
    items.get()


def gil_call(seconds):
    """Hold the GIL in one call of C, in another thread."""
    sum(itertools.repeat(1, int(seconds * _rate())))


def gil_python(seconds):
    """Compute in Python, as one of many threads: the event loop gets the GIL after all of them."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        sum(range(50))


MANY = 30
IN_THE_WAY = {"gil_call": (gil_call, 1), "gil_python": (gil_python, MANY), "gc_other": (collect, 1)}


def in_another_thread(cause, seconds):
    """Return threads that will cause a stall, and the event that they wait for."""
    work, count = IN_THE_WAY[cause]
    go = threading.Event()
    threads = [threading.Thread(target=lambda: (go.wait(), work(seconds)), name=f"other-{n}") for n in range(count)]
    for thread in threads:
        thread.start()
    return threads, go


def hog(seconds):
    """Occupy the core that this process runs on, by another process with a real-time priority."""
    core = min(os.sched_getaffinity(0))
    code = (
        "import os, sys, time\n"
        f"os.sched_setaffinity(0, [{core}])\n"
        "print(flush=True); sys.stdin.readline()\n"
        "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))\n"
        f"end = time.monotonic() + {seconds}\n"
        "while time.monotonic() < end: pass\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdout.readline()
    return process


def stand_still(causes, seconds):
    """Stall in this thread, and return the time of each cause; each of two causes takes about a half."""
    took = []
    for cause in causes:
        begun = time.perf_counter()
        {"gc": collect}.get(cause, globals().get(cause))(seconds / len(causes))
        took.append(time.perf_counter() - begun)
    return took


def record(causes, begun_ns, took):
    """Return the record of a stall; `took` is the time of each cause, in s."""
    return {"causes": causes, "since_ns": begun_ns, "until_ns": time.monotonic_ns(), "took": took}


def told(what):
    print(json.dumps(what), flush=True)


async def play(plan):
    """Cause the stalls of a plan in this event loop, which otherwise does something every 5 ms."""

    async def tick():
        while True:
            if peers is not None:
                peers.beat()
            await asyncio.sleep(0.005)

    peers = None
    if "STALLS_PEERS" in os.environ:
        import stalls_peers_workload

        peers = stalls_peers_workload.Peers(float(os.environ["STALLS_PEERS"]))
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])  # for `core`; the watcher is not bound to this core
    ticking = asyncio.create_task(tick())
    _rate()
    for cause, seconds in plan:
        causes = cause.split("+")
        begun_ns = time.monotonic_ns()
        if any(one.startswith("gc") for one in causes):
            prepare_garbage(seconds)
        threads, go = in_another_thread(cause, seconds) if cause in IN_THE_WAY else ([], None)
        process = hog(seconds) if cause == "core" else None
        await asyncio.sleep(0)
        told(record(["setup"], begun_ns, ()))
        await asyncio.sleep(QUIET_S)
        if peers is not None:
            peers.begin()
        begun_ns, took = time.monotonic_ns(), ()
        if process is not None:
            process.stdin.write(b"\n")
            process.stdin.flush()
            while process.poll() is None:
                await asyncio.sleep(0.005)
        elif threads:
            go.set()
            while any(one.is_alive() for one in threads):
                await asyncio.sleep(0.005)
        else:
            took = stand_still(causes, seconds)
            await asyncio.sleep(0)
        what = record(causes, begun_ns, took)
        told(what if peers is None else what | {"peers": await peers.end()})
        await asyncio.sleep(0.05)  # so that the preparation of the next stall is another lap of the loop
    await asyncio.sleep(QUIET_S)
    ticking.cancel()
    if peers is not None:
        peers.close()


_ready = {}


def application(environ, start_response):
    """Answer WSGI requests, which stall as their path says: /setup/CAUSE/SECONDS, then /CAUSE/SECONDS."""
    *setup, cause, seconds = environ["PATH_INFO"].strip("/").split("/")
    causes, seconds = cause.split("+"), float(seconds)
    if setup:
        _rate()
        if any(one.startswith("gc") for one in causes):
            prepare_garbage(seconds)
        _ready["threads"] = in_another_thread(cause, seconds) if cause in IN_THE_WAY else None
        text = b""
    else:
        begun_ns, took = time.monotonic_ns(), ()
        if _ready["threads"]:
            threads, go = _ready["threads"]
            go.set()
            while any(one.is_alive() for one in threads):
                time.sleep(0.001)
        else:
            took = stand_still(causes, seconds)
        text = json.dumps(record(causes, begun_ns, took)).encode()
    start_response("200 OK", [("Content-Length", str(len(text)))])
    return [text]


def ask(plan):
    """Send the requests of a plan to a server, one after the other."""
    address = f"http://127.0.0.1:{os.environ['STALLS_PORT']}"
    for cause, seconds in plan:
        with urllib.request.urlopen(f"{address}/setup/{cause}/{seconds}") as answer:
            answer.read()
        time.sleep(QUIET_S)
        with urllib.request.urlopen(f"{address}/{cause}/{seconds}") as answer:
            print(answer.read().decode(), flush=True)


def main():
    kind, plan = sys.argv[1], json.loads(sys.argv[2])
    if kind == "served":
        ask(plan)
    elif kind == "uvloop":
        import uvloop

        uvloop.run(play(plan))
    else:
        asyncio.run(play(plan))


if __name__ == "__main__":
    main()
