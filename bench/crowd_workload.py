"""The program of `crowd.py`, run in the measured interpreter: many threads that wake now and then, and a bystander.

The bystander counts its rounds of `time.sleep(0)`, which releases the GIL and acquires it again. The arguments are the
number of threads, the seconds, the seconds between two wake-ups (0.5), and `calm`. With `calm`, counting begins when
each thread has woken once and sleeps again, which may take seconds if thousands wake at once. The program prints a line
of JSON: the threads that could be started, the bystander's rounds, the longest of them, their time in all, and the part of
it for which the bystander waited for a core, which is the machine's and not the program's.
"""

import json
import os
import sys
import threading
import time

STACK_BYTES = 64 << 10


def queued_ns():
    """Return for how long this thread has waited for a core so far; 0 if the kernel does not tell it."""
    try:
        with open("/proc/thread-self/schedstat") as account:
            return int(account.read().split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def main():
    """Start the threads, count, and end at once, because joining so many threads would take too long."""
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
        pass  # crowd.py tells which limit may be the reason
    go.set()
    while calm and len(woken) < started:
        time.sleep(0.01)
    rounds, worst_ns, before_queued_ns = 0, 0, queued_ns()
    begun_ns = now_ns = time.perf_counter_ns()
    while now_ns - begun_ns < seconds * 1e9:
        time.sleep(0)
        before_ns, now_ns = now_ns, time.perf_counter_ns()
        worst_ns = max(worst_ns, now_ns - before_ns)
        rounds += 1
    took_ns, waited_ns = now_ns - begun_ns, queued_ns() - before_queued_ns
    found = {"started": started, "rounds": rounds, "worst_ns": worst_ns, "took_ns": took_ns, "queued_ns": waited_ns}
    print(json.dumps(found), flush=True)
    os._exit(0)


main()
