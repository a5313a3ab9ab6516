"""The cases of `policy_cases.py`, run in the measured interpreter: those in which GIL schedulers are known to fail.

The arguments are the work, its numbers as JSON, and the seconds. The program writes JSON objects, one a line. `load` is
the load to put on the server that now runs, until a line comes on stdin. `ready` says that the work runs for the
seconds. `interrupted_ns` is the time when the handler of SIGINT ran, and `figures` comes at the end. A wait that never
ended counts with the time until its thread was abandoned.
"""

import gc
import json
import os
import queue
import random
import re
import signal
import socket
import sys
import threading
import time

from policy_cases_crew_workload import NAP_S, Crew, alternating, burst, counting, fibbing, napping, say, timed

NOWHERE = os.open(os.devnull, os.O_RDWR)


def shares(crew, compute, fakes=0, burst_s=0.0):
    """Run CPU-bound threads, and threads that compute for a moment and then sleep for no time, as if they did I/O."""
    crew.add("compute", counting, times=compute)
    crew.add("fake", alternating, burst_s, 0, times=fakes)
    crew.run()
    return {**crew.shares("compute", "fake"), **crew.rates("compute", "fake")}


def writes(crew, writers, compute):
    """Run tiny writes that complete at once; each of them releases the GIL."""

    def writing():
        while True:
            os.write(NOWHERE, b"x")
            yield

    crew.add("write", writing, times=writers)
    crew.add("compute", counting, times=compute)
    crew.run()
    return {**crew.rates("write", "compute"), **(crew.shares("write") if writers > 1 else {})}


def datagrams(crew, message_bytes, compute):
    """Serve echoed datagrams."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))

    def serving():
        while True:
            data, sender = server.recvfrom(65535)
            server.sendto(data, sender)
            yield

    crew.add("serve", serving, waits=True)
    crew.add("compute", counting, times=compute)
    request = {"protocol": "udp", "request": "x" * message_bytes, "response_bytes": message_bytes}
    crew.run({"port": server.getsockname()[1], **request})
    return crew.rates("compute")


def stream(crew, request, answer, beside):
    """Answer requests of one connection at a time; `answer` returns the parts to send, each by its own call."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(8)

    def serving():
        while True:
            connection, _ = listener.accept()
            with connection:
                # Otherwise the kernel holds the second part back until the first is acknowledged: 40 ms or nothing, by
                # chance, and independent of the GIL.
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while True:
                    data = connection.recv(4096)
                    if not data:
                        break
                    for part in answer(data):
                        connection.sendall(part)
                    yield

    crew.add("serve", serving, waits=True)
    crew.add("compute", beside)
    response_bytes = sum(map(len, answer(request.encode())))
    crew.run({"port": listener.getsockname()[1], "request": request, "response_bytes": response_bytes})
    return crew.rates("compute")


def small_answers(crew):
    """Send each answer in two small parts."""
    return stream(crew, "x" * 64, lambda _: (b"x" * 32, b"x" * 32), counting)


def pages(crew):
    """Serve something like HTTP, beside a thread that computes fib."""

    def answer(data):
        first, *lines = data.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines if line)
        body = json.dumps({"path": first.split()[1], "host": headers["Host"], "items": list(range(20))})
        return (f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode(),)

    return stream(crew, "GET /items HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n", answer, fibbing)


def wakes(crew, compute, unit="count"):
    """Run a thread that sleeps for a millisecond, again and again."""
    crew.add("late", napping)
    crew.add("compute", fibbing if unit == "fib" else counting, times=compute)
    crew.run()
    asked_s = crew.rates("late")["late_per_s"] * NAP_S
    over = {"time_of_ideal": 1 / asked_s} if asked_s else {}
    return {**crew.times("late"), **crew.rates("compute"), **over}


def queued(crew):
    """Run a producer and a consumer at the ends of a queue."""
    items = queue.Queue(100)

    def putting():
        while True:
            items.put(1)
            yield

    def getting():
        while True:
            items.get()
            yield

    crew.add("put", putting, waits=True)
    crew.add("get", getting, waits=True)
    crew.add("compute", counting)
    crew.run()
    return crew.rates("get", "compute")


def turns(crew):
    """Run two threads that pass a turn to each other by a condition."""
    condition = threading.Condition()
    turn = [0]

    def taking(mine):
        while True:
            with condition:
                while turn[0] != mine:
                    condition.wait()
                turn[0] = 1 - mine
                condition.notify()
            yield

    crew.add("turn", taking, 0, waits=True)
    crew.add("turn", taking, 1, waits=True)
    crew.add("compute", counting)
    crew.run()
    return crew.rates("turn", "compute")


def inversion(crew, hold_s, compute):
    """Run a thread that computes with a lock and without, one that sleeps and needs the lock, and CPU-bound ones."""
    lock = threading.Lock()

    def holding():
        while True:
            with lock:
                yield from burst(hold_s)
            yield from burst(hold_s)

    def needing():
        while True:
            time.sleep(NAP_S)
            begun = time.perf_counter()
            with lock:
                pass
            yield time.perf_counter() - begun

    crew.add("hold", holding)
    crew.add("need", needing, waits=True)  # the holder may end while it has the lock
    crew.add("compute", counting, times=compute)
    crew.run()
    return {**crew.rates("need"), **crew.times("need"), **crew.shares("hold", "compute")}


def frames(crew, calls):
    """Run the loop of a GUI: a frame is `calls` calls that release the GIL and acquire it again at once."""

    def frame():
        for _ in range(calls):
            os.read(NOWHERE, 1)

    crew.add("frame", timed, frame)
    crew.add("compute", counting)
    crew.run()
    return {**crew.times("frame"), **crew.rates("frame", "compute")}


def flips(crew, threads, half_s):
    """Run threads that compute and sleep in turns, beside a thread that needs little."""
    crew.add("flip", alternating, half_s, half_s, times=threads)
    crew.add("late", napping)
    crew.run()
    return {**crew.times("late"), **crew.rates("flip"), **crew.shares("flip")}


def echoes(crew, pairs):
    """Run pairs of threads that send a byte to each other and back: all of them are I/O-bound."""

    def asking(end):
        while True:
            end.send(b"x")
            end.recv(1)
            yield

    def answering(end):
        while True:
            end.send(end.recv(1))
            yield

    for _ in range(pairs):
        near, far = socket.socketpair()
        crew.add("echo", asking, near)
        crew.add("answer", answering, far, waits=True)
    crew.run()
    return {**crew.rates("echo"), **crew.shares("echo")}


def interrupts(crew, compute):
    """Run the handler of SIGINT in a main thread that sleeps."""
    crew.add("compute", counting, times=compute)
    signal.signal(signal.SIGINT, lambda *_: say({"interrupted_ns": time.monotonic_ns()}))
    crew.run()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return crew.rates("compute")


def hogs(crew, hog):
    """Run a thread in long calls that hold the GIL and cannot be shortened, beside a thread that needs little."""
    heap = [[number] for number in range(100000)]
    numbers = [random.random() for _ in range(30000)]
    text = "x" * 3000
    calls = {
        "collect": gc.collect,
        "sort": lambda: sorted(numbers),
        "search": lambda: re.search("x*y", text),  # tries each end of each beginning
    }
    crew.add("late", napping)
    crew.add("hog", timed, calls[hog])
    crew.run()
    del heap
    return {**crew.times("late"), **crew.times("hog"), **crew.rates("hog")}


WORKS = {
    work.__name__: work
    for work in (
        *(shares, writes, datagrams, small_answers, pages, wakes, queued, turns, inversion, frames, flips, echoes),
        *(interrupts, hogs),
    )
}


def main():
    """Run the work of the arguments and report its figures."""
    name, numbers, seconds = sys.argv[1], json.loads(sys.argv[2]), float(sys.argv[3])
    say({"figures": WORKS[name](Crew(seconds), **numbers)})
    os._exit(0)  # threads that wait for ever are abandoned


main()
