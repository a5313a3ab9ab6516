"""The programs of published_cases.py: `python published_cases_workload.py CASE SECONDS INTERVAL [alone]`.

The last line of stdout is JSON: {"pieces": polls a second, "work": units a second of the spinning thread}.
"""

import ctypes
import json
import os
import sys
import threading
import time

TRANSACTION_US = 1600
"""What is asked of usleep(3); the timer's slack and the wake-up make it about 1.66 ms."""
QUESTION_S = 42e-6
KEEPS, LETS_GO = ctypes.PyDLL(None), ctypes.CDLL(None)
units = [0]
pieces = [0, 0]


def spin():
    """Compute for ever."""
    while True:
        for _ in range(200):
            pass
        units[0] += 1


def transact(library):
    """Talk to the bus, which takes a fixed time, by calls that hold the GIL or release it."""
    call = library.usleep
    while True:
        call(TRANSACTION_US)
        pieces[0] += 1


def question():
    """Return a call into C that holds the GIL for about QUESTION_S."""
    count = 100
    while True:
        asked = range(count)
        begun = time.perf_counter()
        for _ in range(50):
            sum(asked)
        if time.perf_counter() - begun >= 50 * QUESTION_S:
            return lambda: sum(asked)
        count = count * 11 // 10


def poll(place, ask):
    """Ask whether a transfer is done, which it never is, and sleep; repeat this for ever."""
    while True:
        ask()
        time.sleep(100e-6)
        pieces[place] += 1


def main():
    """Run the threads of a case and print their counts."""
    case, seconds, interval, alone = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]
    sys.setswitchinterval(interval)
    polls = []
    if case == "sglang":
        ask = question()
        polls = [(poll, (0, ask)), (poll, (1, ask))]
    else:
        polls = [(transact, (KEEPS if case == "rustypot-holds" else LETS_GO,))]
    parts = {"poll": polls, "spin": [(spin, ())]}
    for part, threads in parts.items():
        if not alone or alone == [part]:
            for target, arguments in threads:
                threading.Thread(target=target, args=arguments, daemon=True).start()
    time.sleep(0.2)
    begun, before, worked = time.perf_counter(), sum(pieces), units[0]
    time.sleep(seconds)
    took = time.perf_counter() - begun
    print(json.dumps({"pieces": (sum(pieces) - before) / took, "work": (units[0] - worked) / took}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
