"""Runs threads that take turns with the GIL through gil_oracle.c, and prints how long they waited by their own clocks.

Usage: gil_oracle_program.py LIBRARY CORES THREADS HOLD_US AWAY_US SECONDS
"""

import ctypes
import json
import os
import sys
import threading
import time

library = ctypes.PyDLL(sys.argv[1])
cores, threads = (int(word) for word in sys.argv[2:4])
hold_ns, away_ns = (int(float(word) * 1000) for word in sys.argv[4:6])
seconds = float(sys.argv[6])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


class Waited(ctypes.Structure):
    """The C struct waited."""

    _fields_ = [("total_ns", ctypes.c_int64), ("count", ctypes.c_int64)]


library.turns.restype = None
library.turns.argtypes = [ctypes.c_int64] * 3 + [ctypes.POINTER(Waited)]
found = [Waited() for _ in range(threads)]
together = threading.Barrier(threads)


def turns(number):
    """Wait until all threads are there, then take turns."""
    together.wait()
    until_ns = time.monotonic_ns() + int(seconds * 1e9)
    library.turns(hold_ns, away_ns, until_ns, found[number])


crowd = [threading.Thread(target=turns, args=(number,), name=f"turns-{number}") for number in range(threads)]
for one in crowd:
    one.start()
for one in crowd:
    one.join()
print(json.dumps({"waited_ns": sum(one.total_ns for one in found), "count": sum(one.count for one in found)}))
