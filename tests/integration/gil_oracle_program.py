"""Runs threads that take turns with the GIL through gil_oracle.c, and prints their turns by their own clocks.

The output has the turns of each thread, by its name. A turn is three times in ns, as oracle.h has them.

Usage: gil_oracle_program.py LIBRARY CORES THREADS HOLD_US AWAY_US SECONDS [seldom]

`seldom`: the first thread is never away, so that the others come while it uses the GIL alone.
"""

import ctypes
import json
import os
import sys
import threading
import time

ROOM = 400_000  # turns of one thread

library = ctypes.PyDLL(sys.argv[1])
cores, threads = (int(word) for word in sys.argv[2:4])
hold_ns, away_ns = (int(float(word) * 1000) for word in sys.argv[4:6])
seconds = float(sys.argv[6])
is_seldom = "seldom" in sys.argv[7:]
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


class Turns(ctypes.Structure):
    """The C struct turns."""

    _fields_ = [("room", ctypes.c_int64), ("count", ctypes.c_int64), ("times", ctypes.POINTER(ctypes.c_int64 * 3))]


library.take_turns.restype = None
library.take_turns.argtypes = [ctypes.c_int64] * 3 + [ctypes.POINTER(Turns)]
found = [Turns(ROOM, 0, (ctypes.c_int64 * 3 * ROOM)()) for _ in range(threads)]
together = threading.Barrier(threads)


def turns(number):
    """Wait until all threads are there, then take turns."""
    together.wait()
    until_ns = time.monotonic_ns() + int(seconds * 1e9)
    library.take_turns(hold_ns, 0 if is_seldom and number == 0 else away_ns, until_ns, found[number])


crowd = [threading.Thread(target=turns, args=(number,), name=f"turns-{number}") for number in range(threads)]
for one in crowd:
    one.start()
for one in crowd:
    one.join()
times = {crowd[i].name: [list(turn) for turn in found[i].times[: found[i].count]] for i in range(threads)}
print(json.dumps(times))
