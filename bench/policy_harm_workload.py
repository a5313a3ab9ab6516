"""The work of `policy_harm.py`, run in the measured interpreter: it goes on while the policy changes all the time.

The arguments are the work, a number, the agent's folder, the shared library, the seconds that each policy is on at a
time, the number of rounds, and the policies ("" for none). Servers first print their port and start to measure at the
first request. The program prints a line of JSON: for each round, the work done in a second under each policy, in the
order of the arguments.
"""

import asyncio
import hashlib
import json
import os
import queue
import random
import socket
import sys
import threading
import time

DATA = b"x" * 65536
NOTHING = os.open(os.devnull, os.O_RDONLY)
SETTLE_S = 0.01
PATIENCE_S = 60

counts = []
"""What each thread has done, a number in a list of its own."""


def counter():
    """Return a new counter for one thread."""
    counts.append([0])
    return counts[-1]


def compute():
    """Run bytecode without calls."""
    for _ in range(2000):
        pass


def digest():
    """Run C code that releases the GIL, for some 40 us."""
    hashlib.sha256(DATA).digest()


def trips():
    """Release the GIL and acquire it again, with little in between, as the loop of a GUI does."""
    for _ in range(200):
        os.read(NOTHING, 0)


def repeat(work):
    """Repeat the work for ever, and count."""
    count = counter()
    while True:
        work()
        count[0] += 1


def start(target, *arguments):
    """Run a function in a thread until the process ends."""
    threading.Thread(target=target, args=arguments, daemon=True).start()


def queued(threads):
    """Pass items from producers through one queue to as many consumers."""
    items = queue.Queue(100)

    def produce():
        while True:
            items.put(1)

    def consume():
        count = counter()
        while True:
            items.get()
            count[0] += 1

    for _ in range(threads):
        start(produce)
        start(consume)


def locked(threads):
    """Acquire one lock around a little work, in several threads."""
    lock = threading.Lock()

    def work():
        for _ in range(50):
            with lock:
                sum(range(20))

    simply(work)(threads)


def serve(connection):
    """Echo until the client is gone."""
    count = counter()
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            request = connection.recv(4096)
            if not request:
                return
            connection.sendall(request)
            count[0] += 1


def echo(_number):
    """Serve with a thread for each connection."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(200)
    print(listener.getsockname()[1], flush=True)

    def accept():
        while True:
            connection, _ = listener.accept()
            start(serve, connection)

    start(accept)


def echo_in_a_loop(_number):
    """Serve in one thread, by asyncio."""
    count = counter()

    class Echo(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport = transport

        def data_received(self, data):
            self.transport.write(data)
            count[0] += 1

    async def run():
        server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    start(asyncio.run, run())


def simply(work):
    """Return a function that starts threads that repeat the work."""

    def begin(threads):
        for _ in range(threads):
            start(repeat, work)

    return begin


WORKS = {
    "compute": simply(compute),
    "digest": simply(digest),
    "trips": simply(trips),
    "queue": queued,
    "lock": locked,
    "echo": echo,
    "asyncio": echo_in_a_loop,
}


def done():
    """Return the work that all threads have done so far."""
    return sum(count[0] for count in counts)


def rate(scheduler, policy, seconds):
    """Return the work done in a second under a policy."""
    if policy:
        scheduler.start(policy)
    time.sleep(SETTLE_S)
    before, begun = done(), time.perf_counter()
    time.sleep(seconds)
    found = (done() - before) / (time.perf_counter() - begun)
    if policy:
        if scheduler.active != policy:
            raise RuntimeError(f"the policy {policy} is not on any more")
        scheduler.stop()
    return found


def main():
    """Start the work, and measure it under each policy in turns."""
    name, number, agent, library, seconds, times, *chosen = sys.argv[1:]
    sys.path.insert(0, agent)
    from headway_agent.scheduler import Scheduler

    scheduler = Scheduler(library)
    WORKS[name](int(number))
    patience = time.perf_counter() + PATIENCE_S
    while done() == 0 and time.perf_counter() < patience:
        time.sleep(SETTLE_S)
    rounds = []
    for _ in range(int(times)):
        found = {}
        for i in random.sample(range(len(chosen)), len(chosen)):
            found[i] = rate(scheduler, chosen[i], float(seconds))
        rounds.append([found[i] for i in range(len(chosen))])
    print(json.dumps(rounds), flush=True)
    os._exit(0)


main()
