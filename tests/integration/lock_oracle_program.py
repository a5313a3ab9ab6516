"""Runs threads that contend for locks through lock_oracle.c, and prints how long they waited by their own clocks.

Usage: lock_oracle_program.py LIBRARY CORES THREADS LOCKS HOLD_US PAUSE_US SECONDS [object]
"""

import ctypes
import json
import os
import sys
import threading
import time

library = ctypes.PyDLL(sys.argv[1])
cores, threads, locks = (int(word) for word in sys.argv[2:5])
hold_ns, pause_ns = (int(float(word) * 1000) for word in sys.argv[5:7])
seconds = float(sys.argv[7])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


class Waited(ctypes.Structure):
    """The C struct waited."""

    _fields_ = [("total_ns", ctypes.c_int64), ("count", ctypes.c_int64)]


class Contended:
    """The object whose lock is contended for."""


library.contend.restype = None
library.contend.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.py_object if len(sys.argv) > 8 else ctypes.c_void_p]
library.contend.argtypes += [ctypes.c_int64] * 3 + [ctypes.POINTER(Waited)]
target = Contended() if len(sys.argv) > 8 else None
found = [Waited() for _ in range(threads)]
together = threading.Barrier(threads)


def contend(number):
    """Wait until all threads are there, then contend."""
    together.wait()
    until_ns = time.monotonic_ns() + int(seconds * 1e9)
    library.contend(number, locks, target, hold_ns, pause_ns, until_ns, found[number])


crowd = [threading.Thread(target=contend, args=(number,)) for number in range(threads)]
for one in crowd:
    one.start()
for one in crowd:
    one.join()
print(json.dumps({"waited_ns": sum(one.total_ns for one in found), "count": sum(one.count for one in found)}))
