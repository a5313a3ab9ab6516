"""The work of `trace_overhead.py`, run in the measured interpreter at full speed; it reports its own rate.

The arguments are the Unix socket of the bench, the workload, the core to stay on (-1: any), and the number of CPU-bound
threads. The protocol has a JSON object a line. When ready, the program sends {"pid", "port"}. It answers {"seconds"}
with the work done in that time; `echo` counts nothing itself, and waits for {"stop"} meanwhile. After {"record",
"agent", "library"} it records for the collector at that address, or stops recording if the address is "", and answers
{}. {} ends the program.
"""

import json
import os
import socket
import sys
import threading
import time

CHUNK = 20000
TRIPS = 1000
NOTHING = os.open(os.devnull, os.O_RDONLY)


def countdown(n):
    """Count down: bytecode without calls."""
    while n > 0:
        n -= 1


def fibonacci(n):
    """Call and return, which is the most frequent event for a tracer of functions."""
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def trips(n):
    """Release the GIL and acquire it again `n` times, with little in between: 100 ns of reading nothing."""
    for _ in range(n):
        os.read(NOTHING, 0)


def spin():
    """Compute for ever."""
    while True:
        countdown(CHUNK)


def serve(connection):
    """Echo until the client is gone: two GIL round trips for each request."""
    with connection:
        while True:
            request = connection.recv(4096)
            if not request:
                return
            connection.sendall(request)


def accept(listener):
    """Give each connection a thread."""
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


def repeat(work, argument, deadline, done):
    """Do the work until the deadline, at least once, and record how often."""
    times = 0
    while times == 0 or time.perf_counter() < deadline:
        work(argument)
        times += 1
    done.append(times)


def in_threads(threads, work, argument, seconds):
    """Return how often per second the threads together did the work."""
    done = []
    begun = time.perf_counter()
    workers = [
        threading.Thread(target=repeat, args=(work, argument, begun + seconds, done), name=f"worker-{i}")
        for i in range(threads)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(done) / (time.perf_counter() - begun)


def alone(work, argument, seconds):
    """Return how often per second this thread did the work."""
    done = []
    begun = time.perf_counter()
    repeat(work, argument, begun + seconds, done)
    return done[0] / (time.perf_counter() - begun)


def record(order):
    """Switch headway's recorder on for the collector at an address, or off if the address is ""."""
    if order["agent"] not in sys.path:
        sys.path.insert(0, order["agent"])
    from headway_agent import recorder

    recorder.detach(order["library"])  # also stops the recording of the previous window
    if order["record"]:
        recorder.Recorder(order["library"]).start(order["record"], order["family"], 128 << 20)


def main():
    """Report that the program is ready, and carry out orders until the end."""
    address, workload, core, spinners = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    if core >= 0:
        os.sched_setaffinity(0, [core])
    bench = socket.socket(socket.AF_UNIX)
    bench.connect(address)
    lines = bench.makefile("r")

    def say(answer):
        bench.sendall(json.dumps(answer).encode() + b"\n")

    port = 0
    if workload == "echo":
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(100)
        port = listener.getsockname()[1]
        threading.Thread(target=accept, args=(listener,), daemon=True, name="accept").start()
        for i in range(spinners):
            threading.Thread(target=spin, daemon=True, name=f"spinner-{i}").start()
    else:
        if workload == "trips":
            # Before the first thread starts, glibc takes shorter paths, and recording starts a thread.
            first = threading.Thread(target=countdown, args=(1,))
            first.start()
            first.join()
        for _ in range(50):  # warm up the code
            countdown(CHUNK // 20)
            fibonacci(12)
    say({"pid": os.getpid(), "port": port})
    for line in lines:
        order = json.loads(line)
        if "record" in order:
            record(order)
            say({})
        elif "seconds" in order:
            begun = time.perf_counter()
            cpu_s = time.process_time()
            rate = 0.0
            if workload == "echo":
                lines.readline()
            elif workload == "threads":
                rate = in_threads(4, countdown, CHUNK, order["seconds"])
            elif workload == "trips":
                rate = alone(trips, TRIPS, order["seconds"]) * TRIPS
            else:
                rate = alone(fibonacci, 18, order["seconds"])
            done = {"rate": rate, "cpu_s": time.process_time() - cpu_s, "elapsed_s": time.perf_counter() - begun}
            say(done)
        else:
            return


if __name__ == "__main__":
    main()
