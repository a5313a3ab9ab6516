"""A small program for predictions.py: it runs for some seconds, and then prints what it did and how long that took.

    python predictions_workload.py PROGRAM SECONDS [--cpu N] [--interval S] [--client-core N]

Threads have the names of their roles. CPU-bound threads are called `cpu`, the judged ones `main`: `main 0`, `main 1`.
The last line of stdout is JSON: {"rate": pieces of work of `main` a second, "p50_s": ..., "p99_s": ..., "pieces": ...,
"cpu": units of the `cpu` threads a second}; without latencies if the pieces of work have none.
"""

import argparse
import contextlib
import hashlib
import json
import os
import queue
import socket
import subprocess
import sys
import threading
import time
import zlib

WARM_S = 0.3
ROUNDS_A_US = 26
"""Of an empty loop, about, on CPython 3.13. It is a constant, so that all launches do the same work."""
stop = threading.Event()
done = []
"""(when, how long it took) of each piece of work, in seconds."""
units = []

CLIENT = """
import json, socket, sys, time
kind, port, connections, seconds, core = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5])
import os, selectors
if core >= 0: os.sched_setaffinity(0, [core])
chosen = selectors.DefaultSelector()
begun = {}
for _ in range(connections):
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM)
    one.connect(("127.0.0.1", port))
    if kind == "tcp": one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    chosen.register(one, selectors.EVENT_READ)
    begun[one] = time.perf_counter()
    one.send(b"x")
took, end = [], time.perf_counter() + seconds
while (now := time.perf_counter()) < end:
    for key, _ in chosen.select(1.0):
        one = key.fileobj
        one.recv(64)
        now = time.perf_counter()
        took.append((now, now - begun[one]))
        begun[one] = now
        one.send(b"x")
print(json.dumps(took))
"""


def burn(place):
    """Compute until the end."""
    while not stop.is_set():
        for _ in range(500):
            pass
        units[place] += 1


def work(us):
    """Compute for about this many microseconds, if nothing interrupts it.

    The amount of work is fixed, not the time: a loop until a time would be over for a thread that waited for the GIL.
    """
    for _ in range(us * ROUNDS_A_US):
        pass


def note(begun):
    """Record that a piece of work is done."""
    now = time.perf_counter()
    done.append((now, now - begun))


def start(name, target, *arguments):
    """Start a thread of a role; it ends when its client is gone."""

    def run():
        with contextlib.suppress(OSError):
            target(*arguments)

    threading.Thread(target=run, name=name, daemon=True).start()


def asked(kind, port, connections, arguments):
    """Run a client in a process of its own for the whole time, and take its figures."""
    command = [sys.executable, "-I", "-c", CLIENT, kind, str(port), str(connections)]
    # The client is not a part of the program, so it is neither traced nor scheduled.
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("HEADWAY_", "PYTHON", "LD_"))}
    told = subprocess.run(
        [*command, str(arguments.seconds + WARM_S), str(arguments.client_core)],
        stdout=subprocess.PIPE,
        env=clean,
        check=True,
    ).stdout
    done.extend(tuple(one) for one in json.loads(told))


def echo(arguments):
    """Send back what a client sends, in a thread."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        one, _ = listener.accept()
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while data := one.recv(64):
            one.send(data)

    start("main", serve)
    asked("tcp", listener.getsockname()[1], 1, arguments)


def udp(arguments):
    """Send back datagrams, as in the latency test of ccbench."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))

    def serve():
        while True:
            data, sender = server.recvfrom(64)
            server.sendto(data, sender)

    start("main", serve)
    asked("udp", server.getsockname()[1], 1, arguments)


def pool(arguments):
    """Wait for four connections in one thread, and answer in three others, as waitress does."""
    import selectors

    listener = socket.create_server(("127.0.0.1", 0))
    jobs = queue.Queue()
    chosen = selectors.DefaultSelector()
    chosen.register(listener, selectors.EVENT_READ)

    def accept():
        while True:
            for key, _ in chosen.select():
                if key.fileobj is listener:
                    one, _ = listener.accept()
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    chosen.register(one, selectors.EVENT_READ)
                elif key.fileobj.recv(64):
                    jobs.put(key.fileobj)
                else:
                    chosen.unregister(key.fileobj)

    def answer():
        while True:
            one = jobs.get()
            work(100)
            one.send(b"y")

    start("dispatcher", accept)
    for place in range(3):
        start(f"main {place}", answer)
    asked("tcp", listener.getsockname()[1], 4, arguments)


def streams(arguments):
    """Answer three connections in an event loop, and work 100 us for each answer."""
    import asyncio

    async def serve(reader, writer):
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError):  # the thread ends when the client is gone
            while await reader.read(64):
                work(100)
                writer.write(b"y")

    ports = queue.Queue()

    def loop():
        async def begin():
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            ports.put(server.sockets[0].getsockname()[1])
            await server.serve_forever()

        asyncio.run(begin())

    start("main", loop)
    asked("tcp", ports.get(), 3, arguments)


def zips(arguments):
    """Compress 16 KiB at a time in two threads, without the GIL."""
    data = bytes(range(256)) * 64

    def squeeze():
        while not stop.is_set():
            begun = time.perf_counter()
            zlib.compress(data, 1)
            note(begun)

    for place in range(2):
        start(f"main {place}", squeeze)
    wait(arguments)


def wait(arguments):
    """Wait while the threads work."""
    time.sleep(arguments.seconds + WARM_S)


def queued(arguments):
    """Run a producer and two consumers. A piece of work is an item, from its put until it is done."""
    items = queue.Queue(8)

    def produce():
        while not stop.is_set():
            work(60)
            items.put(time.perf_counter())

    def consume():
        while not stop.is_set():
            begun = items.get()
            work(80)
            note(begun)

    start("producer", produce)
    for place in range(2):
        start(f"main {place}", consume)
    wait(arguments)


def sleepers(arguments):
    """Sleep a millisecond at a time in two threads. A piece of work lasts from one wake-up to the next."""

    def doze():
        while not stop.is_set():
            begun = time.perf_counter()
            time.sleep(0.001)
            note(begun)

    for place in range(2):
        start(f"main {place}", doze)
    wait(arguments)


def hashes(arguments):
    """Hash a quarter of a MiB at a time in two threads, without the GIL."""
    data = bytes(1 << 18)

    def digest():
        while not stop.is_set():
            begun = time.perf_counter()
            hashlib.sha256(data).digest()
            note(begun)

    for place in range(2):
        start(f"main {place}", digest)
    wait(arguments)


def lines(arguments):
    """Write lines under one lock in two threads, and compute 200 us in between."""
    lock = threading.Lock()
    out = os.open(os.devnull, os.O_WRONLY)

    def write():
        while not stop.is_set():
            begun = time.perf_counter()
            work(200)
            with lock:
                os.write(out, b"a line\n")
            note(begun)

    for place in range(2):
        start(f"main {place}", write)
    wait(arguments)


PROGRAMS = {one.__name__: one for one in (echo, udp, pool, streams, queued, sleepers, hashes, zips, lines)}


def figures(pieces, seconds):
    """Return the rate and the latencies of the work that was done in the time after the warm-up.

    Later work does not count: the main thread may wait seconds for the GIL before it ends the other threads.
    """
    if not pieces:
        return {"rate": 0.0, "pieces": 0}
    begun = min(when for when, _ in pieces)
    took = sorted(length for when, length in pieces if begun + WARM_S <= when < begun + WARM_S + seconds)
    if not took:
        return {"rate": 0.0, "pieces": 0}
    points = {
        name: took[min(len(took) - 1, int(share * len(took)))] for name, share in (("p50_s", 0.5), ("p99_s", 0.99))
    }
    return {"rate": len(took) / seconds, "pieces": len(took), **points}


def main():
    """Run the program of the arguments, and print its figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("program", choices=sorted(PROGRAMS))
    parser.add_argument("seconds", type=float)
    parser.add_argument("--cpu", type=int, default=1)
    parser.add_argument("--interval", type=float)
    parser.add_argument("--client-core", type=int, default=-1)
    arguments = parser.parse_args()
    if arguments.interval is not None:
        sys.setswitchinterval(arguments.interval)
    units.extend([0] * arguments.cpu)
    for place in range(arguments.cpu):
        start(f"cpu {place}", burn, place)
    begun = time.perf_counter()
    PROGRAMS[arguments.program](arguments)
    computed = sum(units) / (time.perf_counter() - begun)
    stop.set()
    print(json.dumps({**figures(list(done), arguments.seconds), "cpu": computed}), flush=True)
    os._exit(0)  # waiting threads are not joined


if __name__ == "__main__":
    main()
