"""Runs in the measured interpreter for `policy_harm.py`: work that goes on while the policy changes every moment.

Arguments: the work, a number, the agent's folder, the shared library, how long each policy is on at a time (s), how
often, and the policies ("" for none). Servers first print their port and begin to measure at the first request. Prints
a line of JSON: for each time round, what was done in a second under each policy, in the order of the arguments.
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
    """Return a place to count in for one thread."""
    counts.append([0])
    return counts[-1]


def compute():
    """Bytecode, no calls."""
    for _ in range(2000):
        pass


def digest():
    """C code that lets go of the GIL, for some 40 us."""
    hashlib.sha256(DATA).digest()


def trips():
    """What a GUI's loop does: lets the GIL go and takes it back, with little between."""
    for _ in range(200):
        os.read(NOTHING, 0)


def repeat(work):
    """Do it for ever."""
    count = counter()
    while True:
        work()
        count[0] += 1


def start(target, *arguments):
    """Have a thread do it as long as the process lives."""
    threading.Thread(target=target, args=arguments, daemon=True).start()


def queued(threads):
    """Items go from producers through one queue to as many consumers."""
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
    """Threads take one lock around a little work."""
    lock = threading.Lock()

    def work():
        for _ in range(50):
            with lock:
                sum(range(20))

    simply(work)(threads)


def serve(connection):
    """Echo until the other side is gone."""
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
    """The same with asyncio, in one thread."""
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
    """Return what starts threads that repeat it."""

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
    """Return what all threads have done so far."""
    return sum(count[0] for count in counts)


def rate(scheduler, policy, seconds):
    """Return what is done in a second under a policy."""
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
    """Do as the arguments say."""
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
