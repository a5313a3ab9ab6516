"""Workloads that misbehave, for tests of launches.

The agent runs them, so they need only CPython 3.8 and the standard library.
"""

import os
import subprocess
import sys
import threading


class Good:
    def __init__(self, job):
        self.job = job

    def open(self):
        return {}

    def sample(self):
        return {"work_s": 0.001}

    def close(self):
        pass


class Raises(Good):
    def sample(self):
        raise ZeroDivisionError("on purpose")


class Divides(Good):
    def sample(self):
        return {"work_s": float("nan")}


class Crashes(Good):
    def sample(self):
        import ctypes  # Imported here, because sub-interpreters of 3.12 cannot import it.

        ctypes.string_at(0)


class Killed(Good):
    def sample(self):
        os.kill(os.getpid(), 9)


class Hangs(Good):
    def sample(self):
        threading.Event().wait()


class Leaves(Good):
    def sample(self):
        os._exit(0)


class Hungry(Good):
    def sample(self):
        self.memory = bytearray(1 << 40)


class Talks(Good):
    """Prints, and leaves behind a child that would live for ever."""

    def open(self):
        child = subprocess.Popen([sys.executable, "-c", "import threading; threading.Event().wait()"])
        print("noise on stdout", child.pid, flush=True)
        print("child", child.pid, file=sys.stderr, flush=True)
        return {}


class Says(Good):
    """Reports the cores on which it runs."""

    def sample(self):
        return {"cores": len(os.sched_getaffinity(0)), "first_core": min(os.sched_getaffinity(0))}


class NoInterpreters(Good):
    """Makes the creation of sub-interpreters fail."""

    def open(self):
        from headway_agent import model, subinterpreters

        def create():
            raise RuntimeError("on purpose")

        subinterpreters.create = create
        model.open_model("interpreters", 3).start()
        return {}
