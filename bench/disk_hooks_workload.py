"""Runs in the measured interpreter for `disk_hooks.py`: an echo server that times what the interpreter calls at its GIL.

Arguments: the timer's library, the core to stay on. Prints a line of JSON with the port, and for each line of its
standard input one: "reset" begins to count anew, "read" tells the counts, their width, the longest call, and whether
Headway's hook is what was timed. It ends with its standard input.
"""

import ctypes
import json
import os
import socket
import sys
import threading

from trace_overhead_workload import accept

BIN_NS, BINS = 16, 1 << 16


def main():
    """Serve, and answer."""
    os.sched_setaffinity(0, [int(sys.argv[2])])
    timer = ctypes.CDLL(sys.argv[1])
    timer.hook_timer_read.restype = ctypes.c_uint64
    failed = timer.hook_timer_install()
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(100)
    threading.Thread(target=accept, args=(listener,), daemon=True, name="accept").start()
    print(json.dumps({"port": listener.getsockname()[1], "failed": failed}), flush=True)
    for line in sys.stdin:
        if line.strip() == "reset":
            timer.hook_timer_reset()
            print("{}", flush=True)
        else:
            counts = (ctypes.c_uint32 * BINS)()
            longest_ns = timer.hook_timer_read(counts)
            found = {index: count for index, count in enumerate(counts) if count}
            hooked = bool(timer.hook_timer_is_before(b"libheadway"))
            print(
                json.dumps({"bin_ns": BIN_NS, "counts": found, "longest_ns": longest_ns, "hooked": hooked}), flush=True
            )
    os._exit(0)


main()
