"""Runs in the measured interpreter for `crowd.py`: many threads that wake now and then, and a bystander that counts its rounds.

Arguments: threads, seconds, the seconds between two wakes (0.5), and `calm`: it counts when each thread has woken for the first
time and sleeps again, which thousands that wake at once may take seconds for. Prints one line of JSON: threads that could be started, rounds of the bystander's
`time.sleep(0)`, which lets the GIL go and takes it back, and the longest of them.
"""

import json
import os
import sys
import threading
import time

STACK_BYTES = 64 << 10


def main():
    """Start the threads, count, and end at once: nobody waits for so many threads."""
    threads, seconds = int(sys.argv[1]), float(sys.argv[2])
    pause_s = float(sys.argv[3]) if len(sys.argv) > 3 else 0.5
    calm = sys.argv[4:] == ["calm"]
    threading.stack_size(STACK_BYTES)
    go = threading.Event()
    woken = []

    def sleeper():
        go.wait()
        woken.append(None)
        while True:
            time.sleep(pause_s)

    started = 0
    try:
        for _ in range(threads):
            threading.Thread(target=sleeper, daemon=True).start()
            started += 1
    except (RuntimeError, MemoryError):
        pass  # the bench says which limit that may be
    go.set()
    while calm and len(woken) < started:
        time.sleep(0.01)
    rounds, worst_ns = 0, 0
    begun_ns = now_ns = time.perf_counter_ns()
    while now_ns - begun_ns < seconds * 1e9:
        time.sleep(0)
        before_ns, now_ns = now_ns, time.perf_counter_ns()
        worst_ns = max(worst_ns, now_ns - before_ns)
        rounds += 1
    print(json.dumps({"started": started, "rounds": rounds, "worst_ns": worst_ns}), flush=True)
    os._exit(0)


main()
