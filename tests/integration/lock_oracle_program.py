"""Runs threads that contend for locks through lock_oracle.c, and prints their turns by their own clocks.

The output has the turns of each thread, by its name. A turn is three times in ns, as oracle.h has them.

Usage: lock_oracle_program.py LIBRARY CORES THREADS LOCKS HOLD_US PAUSE_US SECONDS [object|barge]

`object`: the threads contend for an object's lock. `barge`: for one lock, asleep while they have it.
"""

import ctypes
import json
import os
import sys
import threading
import time

ROOM = 100_000  # turns of one thread

library = ctypes.PyDLL(sys.argv[1])
cores, threads, locks = (int(word) for word in sys.argv[2:5])
hold_ns, pause_ns = (int(float(word) * 1000) for word in sys.argv[5:7])
seconds = float(sys.argv[7])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


class Turns(ctypes.Structure):
    """The C struct turns."""

    _fields_ = [("room", ctypes.c_int64), ("count", ctypes.c_int64), ("times", ctypes.POINTER(ctypes.c_int64 * 3))]


class Contended:
    """The object whose lock is contended for."""


library.contend.restype = None
wanted = sys.argv[8:]
library.contend.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.py_object if "object" in wanted else ctypes.c_void_p]
library.contend.argtypes += [ctypes.c_int64] * 3 + [ctypes.POINTER(Turns)]
library.barge.restype = None
library.barge.argtypes = [ctypes.c_int64] * 2 + [ctypes.POINTER(Turns)]
target = Contended() if "object" in wanted else None
found = [Turns(ROOM, 0, (ctypes.c_int64 * 3 * ROOM)()) for _ in range(threads)]
together = threading.Barrier(threads)


def contend(number):
    """Wait until all threads are there, then contend."""
    together.wait()
    until_ns = time.monotonic_ns() + int(seconds * 1e9)
    if "barge" in wanted:
        library.barge(hold_ns, until_ns, found[number])
    else:
        library.contend(number, locks, target, hold_ns, pause_ns, until_ns, found[number])


crowd = [threading.Thread(target=contend, args=(number,), name=f"contend-{number}") for number in range(threads)]
for one in crowd:
    one.start()
for one in crowd:
    one.join()
times = {crowd[i].name: [list(turn) for turn in found[i].times[: found[i].count]] for i in range(threads)}
print(json.dumps(times))
