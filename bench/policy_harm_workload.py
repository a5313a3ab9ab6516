"""Runs in the measured interpreter for `policy_harm.py`: work that tells its own rate.

Arguments: the work, a number, seconds. Prints the rate as a line of JSON; the servers first print their port, and are
told to end by the end of stdin.
"""

import asyncio
import hashlib
import json
import os
import queue
import socket
import sys
import threading
import time

DATA = b"x" * 65536
NOTHING = os.open(os.devnull, os.O_RDONLY)


def compute():
    """Bytecode, no calls."""
    for _ in range(10000):
        pass


def digest():
    """C code that lets go of the GIL, for some 40 us."""
    hashlib.sha256(DATA).digest()


def trips():
    """What a GUI's loop does: lets the GIL go and takes it back, with little between."""
    for _ in range(200):
        os.read(NOTHING, 0)


def repeat(work, deadline, done):
    """Do it until the deadline and note how often."""
    times = 0
    while time.perf_counter() < deadline:
        work()
        times += 1
    done.append(times)


def in_threads(work, threads, seconds):
    """Return the rate of so many threads together."""
    done, begun = [], time.perf_counter()
    workers = [threading.Thread(target=repeat, args=(work, begun + seconds, done)) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(done) / (time.perf_counter() - begun)


def queued(threads, seconds):
    """Return items a second from producers through one queue to as many consumers."""
    items, deadline, taken = queue.Queue(100), time.perf_counter() + seconds, []

    def produce():
        while time.perf_counter() < deadline:
            for _ in range(20):
                items.put(1)
        items.put(None)

    def consume():
        count = 0
        while items.get() is not None:
            count += 1
        taken.append(count)

    begun = time.perf_counter()
    workers = [threading.Thread(target=one) for one in (produce, consume) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(taken) / (time.perf_counter() - begun)


def locked(threads, seconds):
    """Return rounds a second of threads that take one lock around a little work."""
    lock = threading.Lock()

    def work():
        for _ in range(50):
            with lock:
                sum(range(20))

    return in_threads(work, threads, seconds)


def serve(connection):
    """Echo until the other side is gone."""
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            request = connection.recv(4096)
            if not request:
                return
            connection.sendall(request)


def echo():
    """Serve with a thread for each connection until stdin ends."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(200)
    print(listener.getsockname()[1], flush=True)

    def accept():
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    sys.stdin.read()


async def echo_in_a_loop():
    """The same with asyncio."""

    class Echo(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport = transport

        def data_received(self, data):
            self.transport.write(data)

    loop = asyncio.get_running_loop()
    server = await loop.create_server(Echo, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


def main():
    """Do as the arguments say."""
    name, number, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    if name == "echo":
        echo()
    elif name == "asyncio":
        asyncio.run(echo_in_a_loop())
    else:
        simple = {"compute": compute, "digest": digest, "trips": trips}
        rate = {"queue": queued, "lock": locked}.get(name)
        found = rate(number, seconds) if rate else in_threads(simple[name], number, seconds)
        print(json.dumps(found), flush=True)
    os._exit(0)


main()
