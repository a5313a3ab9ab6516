"""The program of `crowd.py`, run in the measured interpreter: many threads that wake now and then, and a bystander.

The bystander counts its rounds of `time.sleep(0)`, which releases the GIL and acquires it again. The arguments are the
number of threads, the seconds, the seconds between two wake-ups (0.5), and `calm`. With `calm`, counting begins when
each thread has woken once and sleeps again, which may take seconds if thousands wake at once. The program prints a line
of JSON: the threads that could be started, the bystander's rounds, and the longest of them.
"""

import json
import os
import sys
import threading
import time

STACK_BYTES = 64 << 10


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
