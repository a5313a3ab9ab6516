"""Runs one scenario of event_oracle.c, whose log has each call with its times. Runs on CPython 3.8 and later.

Usage: event_oracle_program.py LIBRARY LOG SCENARIO

A forked child has a log of its own, LOG.PID.
"""

import ctypes
import os
import signal
import sys
import threading
import time

US, MS = 1000, 1000 * 1000
library = ctypes.PyDLL(sys.argv[1])
log = sys.argv[2]


class Work(ctypes.Structure):
    """The C struct work."""

    _fields_ = [
        ("rounds", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("steps", ctypes.POINTER(ctypes.c_int64 * 2)),
        ("kill_at", ctypes.c_int64),
    ]


def work(rounds, *steps, kill_at=-1):
    """Return rounds of these steps: how long without the GIL, and how long with it; below 0 the thread computes."""
    array = (ctypes.c_int64 * 2 * len(steps))(*steps)
    return Work(rounds, len(steps), array, kill_at)


library.open_log.argtypes = [ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64]
library.turns.argtypes = [ctypes.POINTER(Work)]
library.foreign.argtypes = library.handed.argtypes = [ctypes.c_int, ctypes.POINTER(Work)]
library.interpreters.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.POINTER(Work)]
library.forked.argtypes = [ctypes.c_int64]
library.lock_turns.argtypes = [ctypes.POINTER(Work), ctypes.c_void_p]


def open_log(path, books=16, room=4096):
    """Begin the log of this process."""
    assert library.open_log(path.encode(), books, room) == 0


def turning(one, together):
    """Take turns, once all threads are there."""
    together.wait()
    library.turns(one)


def started(works):
    """Start a thread for each of these works; return the threads."""
    together = threading.Barrier(len(works))
    threads = [
        threading.Thread(target=turning, args=(one, together), name=f"turning {i}") for i, one in enumerate(works)
    ]
    for thread in threads:
        thread.start()
    return threads


def ended(threads):
    """Wait for the end of threads."""
    for thread in threads:
        thread.join()


def holds():
    """Hold the GIL for known lengths, from nothing to more than two switch intervals, beside each other."""
    open_log(log)
    first = work(36, (2 * MS, 300 * US), (-50 * US, 0), (1 * MS, 12 * MS))
    second = work(60, (300 * US, -20 * US), (0, 0), (1 * MS, 7 * MS), (-100 * US, -90 * US))
    ended(started([first, second]))


def rates():
    """Release the GIL at known rates: as often as possible, alone and beside others, and every millisecond."""
    open_log(log, room=2 * 40_001)
    ended(started([work(40_000, (0, 0))]))
    ended(started([work(4_000, (0, 0)), work(4_000, (-5 * US, 0)), work(100, (1 * MS, 0))]))


def called():
    """Release the GIL for a call, soon after a request."""
    open_log(log)
    sys.setswitchinterval(0.001)
    ended(started([work(60, (4 * MS, 1500 * US)), work(50, (3 * MS, 1700 * US))]))


def marking(together):
    """Compute in Python until threads have come in turn 40 times."""
    library.begin_window()
    together.wait()
    while library.mark() < 40:
        sum(range(20))


def forced():
    """Compute in Python beside each other, so that only requests end a hold."""
    open_log(log)
    sys.setswitchinterval(0.0005)
    together = threading.Barrier(3)
    threads = [threading.Thread(target=marking, args=(together,), name=f"marking {i}") for i in range(3)]
    for thread in threads:
        thread.start()
    ended(threads)


def foreign():
    """Let threads of C call back, beside a thread of Python's."""
    open_log(log)
    others = started([work(60, (500 * US, 200 * US))])
    library.foreign(3, work(50, (300 * US, 200 * US), (-20 * US, -10 * US)))
    ended(others)


def handed():
    """Hand one thread state round among three threads of C, beside a thread of Python's."""
    open_log(log)
    others = started([work(100, (300 * US, 200 * US))])
    library.handed(3, work(50, (0, 200 * US), (0, -10 * US)))
    ended(others)


def interpreters(own):
    """Use two sub-interpreters from two threads each, beside a thread of the main one."""
    open_log(log)
    others = started([work(80, (300 * US, 200 * US))])
    assert library.interpreters(2, own, work(40, (300 * US, 200 * US), (-20 * US, -10 * US))) == 0
    ended(others)


def shared():
    """Sub-interpreters share the main GIL."""
    interpreters(0)


def own():
    """Each sub-interpreter has a GIL of its own."""
    interpreters(1)


def forks():
    """Fork beside threads that take turns; the children take turns, too."""
    open_log(log)
    turns = work(60, (500 * US, 300 * US), (-20 * US, -10 * US))
    others = started([turns, turns])
    for _ in range(3):
        before_ns = time.monotonic_ns()
        child = os.fork()
        if child == 0:
            open_log(f"{log}.{os.getpid()}")
            ended(started([turns, turns]))
            os._exit(0)
        library.forked(before_ns)
        assert os.waitpid(child, 0)[1] == 0
    ended(others)


def signals():
    """Send signals to all threads while they take turns."""
    open_log(log)
    caught = []
    signal.signal(signal.SIGUSR1, lambda *_: caught.append(1))
    signal.signal(signal.SIGALRM, lambda *_: caught.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.0007, 0.0007)
    threads = started([work(300, (300 * US, 200 * US), (-20 * US, -10 * US), (0, 0)) for _ in range(2)])
    for _ in range(150):
        for thread in threads:
            if thread.is_alive():
                signal.pthread_kill(thread.ident, signal.SIGUSR1)
        time.sleep(0.0005)
    signal.setitimer(signal.ITIMER_REAL, 0)
    ended(threads)
    assert caught


def killed():
    """End by SIGKILL in the middle of a hold, while others wait and work."""
    open_log(log)
    steps = (300 * US, 200 * US), (-20 * US, -10 * US), (0, 0)
    ended(started([work(10_000, *steps), work(10_000, *steps), work(10_000, *steps, kill_at=150)]))


def attached():
    """Take turns until the log's reader says stop; the main thread runs Python now and then."""
    open_log(log, books=4, room=100_000)
    steps = (1 * MS, 200 * US), (-60 * US, -30 * US)
    threads = started([work(1 << 40, *steps), work(1 << 40, *steps)])
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.005)


class Contended:
    """The object whose lock is contended for."""


def contend(one, what, together):
    """Contend for a lock, once all threads are there."""
    together.wait()
    library.lock_turns(one, what)


def locks(cores, what):
    """Contend for a lock on one core or two, without a GIL."""
    open_log(log)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    one = work(600, (300 * US, 200 * US), (-20 * US, -15 * US), (-5 * US, 1 * MS))
    together = threading.Barrier(3)
    threads = [threading.Thread(target=contend, args=(one, what, together), name=f"contend {i}") for i in range(3)]
    for thread in threads:
        thread.start()
    ended(threads)


target = Contended()
SCENARIOS = {
    **{one.__name__: one for one in (holds, rates, called, forced, foreign, handed, shared, own)},
    **{one.__name__: one for one in (forks, signals, killed, attached)},
    "mutex1": lambda: locks(1, None),
    "mutex2": lambda: locks(2, None),
    "object1": lambda: locks(1, id(target)),
    "object2": lambda: locks(2, id(target)),
}
SCENARIOS[sys.argv[3]]()
