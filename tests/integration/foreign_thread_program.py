"""Has a thread of C code call a function of Python, and prints the thread's native id.

Usage: foreign_thread_program.py LIBRARY CALLS
"""

import ctypes
import sys
import threading
import time

found = set()


def answer(number):
    """Block in every second call; the others only compute."""
    found.add(threading.get_native_id())
    if number % 2:
        time.sleep(0.001)


called = ctypes.CFUNCTYPE(None, ctypes.c_int)(answer)
assert ctypes.CDLL(sys.argv[1]).call_from_a_thread(called, int(sys.argv[2])) == 0
(tid,) = found
print(tid)
