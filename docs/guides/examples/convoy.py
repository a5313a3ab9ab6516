"""An echo server in a thread, beside CPU-bound threads: `convoy.py [SECONDS] [THREADS]`."""

import socket
import sys
import threading
import time

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
THREADS = int(sys.argv[2]) if len(sys.argv) > 2 else 4
ended = threading.Event()


def compute():
    while not ended.is_set():
        sum(range(1000))


def serve(connection):
    while data := connection.recv(64):
        connection.sendall(data)


def ask(connection):
    times = []
    end = time.perf_counter() + SECONDS
    while (begin := time.perf_counter()) < end:
        connection.sendall(b"ping")
        connection.recv(64)
        times.append(time.perf_counter() - begin)
    ended.set()
    connection.close()
    times.sort()
    print(f"{len(times):,} answers; half of them took {1000 * times[len(times) // 2]:.3g} ms, the slowest {1000 * times[-1]:.3g} ms")


ours, theirs = socket.socketpair()
threads = [threading.Thread(target=compute, name=f"compute-{number}") for number in range(THREADS)]
threads.append(threading.Thread(target=serve, args=(theirs,), name="server"))
for thread in threads:
    thread.start()
ask(ours)
