"""Threads that share a lock, and write down who had it: `lock_holders_program.py KIND FILE`.

The file has a JSON list of [thread, begin_ns, end_ns] on CLOCK_MONOTONIC, the times for which each thread had the lock.
"""

import json
import sys
import threading
import time

lock = threading.Lock()
other_lock = threading.Lock()
all_have_begun = threading.Barrier(3)  # the main thread, and those of the deadlock
log = []
until_s = time.monotonic() + 1.5


def had(begin_ns):
    log.append((threading.current_thread().name, begin_ns, time.monotonic_ns()))


def refresh():
    while time.monotonic() < until_s:
        with lock:
            begin_ns = time.monotonic_ns()
            time.sleep(0.03)
            had(begin_ns)
        time.sleep(0.01)


def lookup():
    while time.monotonic() < until_s:
        with lock:
            had(time.monotonic_ns())
        time.sleep(0.002)


def hog():
    while time.monotonic() < until_s:
        sum(range(2_000))


def first():
    with lock:
        all_have_begun.wait()
        with other_lock:
            pass


def second():
    with other_lock:
        all_have_begun.wait()
        with lock:
            pass


KINDS = {
    "sleeps": (refresh, lookup, lookup, lookup),
    "hog": (refresh, lookup, lookup, hog),
    "deadlock": (first, second),
}


def main():
    kind, file = sys.argv[1:]
    threads = [
        threading.Thread(target=one, name=f"{one.__name__}-{number}", daemon=True)
        for number, one in enumerate(KINDS[kind])
    ]
    for one in threads:
        one.start()
    if kind == "deadlock":
        all_have_begun.wait()
    for one in threads:
        one.join(None if kind != "deadlock" else 1)
    with open(file, "w") as out:
        json.dump(log, out)


if __name__ == "__main__":
    main()
