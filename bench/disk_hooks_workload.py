"""The server of `disk_hooks.py`, run in the measured interpreter: it echoes, and times a call that its GIL makes.

The arguments are the timer's library and the core to stay on. The program prints a line of JSON with its port, and then
one for each line of its standard input. "reset" restarts the counting. "read" gives the counts, the width of a bin, the
longest call, and whether the timed function is Headway's hook. The program ends at the end of its standard input.
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
    """Serve, and answer the lines of the standard input."""
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
