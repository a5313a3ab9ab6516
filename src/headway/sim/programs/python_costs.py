"""Measures the costs of Python code in the interpreter that runs this program. Imports nothing of headway.

    python -I python_costs.py CORE[,CORE...] REPEATS

Pins itself to the first core. Prints JSON: lists of samples in ns by the names of sim/costs.py (without the cold ones
if REPEATS is 0), and `slow_down`. `slow_down` is the share by which a loop takes longer for each further thread that
runs it at the same time on another core; null if the GIL is on, or if there is only one core. CPython 3.8 and later.
"""

import json
import os
import socket
import statistics
import sys
import threading
import time

__all__: list = []

ROUNDS = 20000
COLD_NS = 5000000
MOST_THREADS = 4

now = time.perf_counter_ns
table = {"x": 1, "y": 2}


def loop(rounds):
    """Return the time of one round of a loop; the evaluation loop checks for requests once in each round."""
    j = 0
    start = now()
    for _ in range(rounds):
        j += 1
        j -= 1
    return (now() - start) / rounds


def shared_loop(rounds):
    """Run a loop that reads an object which other threads also read."""
    total = 0
    for i in range(rounds):
        total += table["x"]
        total ^= i
        total -= i & 3
    return total


def connection():
    """Return the two ends of a connection over loopback TCP."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    for end in (near, far):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return near, far


def compute(for_ns):
    """Do other work on this core."""
    end = now() + for_ns
    while now() < end:
        for _ in range(200):
            pass


def message(near, far, found):
    """Send, receive, do a bit of work, and send back; add the time of each to `found`."""
    a = now()
    near.sendall(b"x")
    b = now()
    far.recv(4096)
    c = now()
    str(table.get("z")).split()
    d = now()
    far.sendall(b"x")
    near.recv(4096)
    found[0].append(b - a)
    found[1].append(c - b)
    found[2].append(d - c)


def messages(repeats):
    """Return the times of calls and work when they run all the time, and the first and second time after other work."""
    near, far = connection()
    hot, first, second = ([], [], []), ([], [], []), ([], [], [])
    for _ in range(repeats * 20):
        message(near, far, hot)
    for _ in range(repeats):
        compute(COLD_NS)
        message(near, far, first)
        message(near, far, second)
    near.close()
    far.close()
    names = ("send", "receive", "work")
    found = {"hot_" + name: times for name, times in zip(names, hot)}
    found.update({"cold_" + name: times for name, times in zip(names, first)})
    found["cold_work_next"] = second[2]
    return found


def pending(repeats):
    """Return the times, hot and cold, of a C function that the evaluation loop calls, and of a direct call."""
    import ctypes  # not every build has ctypes

    library = ctypes.PyDLL(None)
    library.Py_AddPendingCall.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    function = ctypes.cast(
        library.abs, ctypes.c_void_p
    )  # of a null pointer it is 0, as a pending call's result must be
    library.abs.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    add, direct = library.Py_AddPendingCall, library.abs
    found = {"hot_pending": [], "hot_direct": [], "cold_pending": [], "cold_direct": []}

    # Alternate between the two, because only the difference counts. Time 20 calls at once, because reading the clock
    # takes about as long as one call.
    def both(times, before, state):
        before()
        start = now()
        for _ in times:
            add(function, None)
        found[state + "_pending"].append((now() - start) / len(times))
        before()
        start = now()
        for _ in times:
            direct(None, None)
        found[state + "_direct"].append((now() - start) / len(times))

    for _ in range(repeats * 5):
        both(range(20), lambda: None, "hot")
    for _ in range(repeats):
        both(range(1), lambda: compute(COLD_NS), "cold")
    return found


def together(cores):
    """Return a thread's CPU time for the loop with one thread on each core; CPU time leaves out other programs."""
    start, times = threading.Barrier(len(cores)), []

    def work(core):
        os.sched_setaffinity(0, {core})
        shared_loop(ROUNDS)
        start.wait()
        begun = time.thread_time_ns()
        shared_loop(ROUNDS * 10)
        times.append(time.thread_time_ns() - begun)

    threads = [threading.Thread(target=work, args=(core,)) for core in cores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(times) / len(times)


def slow_down(cores):
    """Return the share by which the loop takes longer for each further thread, or None."""
    cores = cores[:MOST_THREADS]
    if getattr(sys, "_is_gil_enabled", lambda: True)() or len(cores) < 2:
        return None
    alone, beside = min(together(cores[:1]) for _ in range(5)), statistics.median(together(cores) for _ in range(5))
    return max(0.0, (beside / alone - 1) / (len(cores) - 1))


def main():
    """Measure, and print the result."""
    cores, repeats = [int(core) for core in sys.argv[1].split(",")], int(sys.argv[2])
    os.sched_setaffinity(0, {cores[0]})
    loop(ROUNDS)
    found = {"loop": [loop(ROUNDS // 10) for _ in range(50)], "slow_down": slow_down(cores)}
    os.sched_setaffinity(0, {cores[0]})
    if repeats:
        found.update(messages(repeats))
        found.update(pending(repeats))
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
