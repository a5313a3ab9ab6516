"""Crews of threads for `policy_cases_workload.py`: their counts and times, and the loops that most of them run.

The module runs in the measured interpreter. A loop is a generator that yields after each unit of work, so that a crew
can count the unit and end the loop. It yields None, or the seconds of the unit that are of interest.
"""

import json
import math
import os
import sys
import threading
import time

NAP_S = 0.001
LEAVE_S = 30


def say(message):
    """Send a message to the parent, by a single system call, because a signal handler may run in between."""
    os.write(1, json.dumps(message).encode() + b"\n")


class Member:
    """A thread of a crew, with its counts and times."""

    def __init__(self, role, loop, waits):
        self.role, self.loop, self.waits = role, loop, waits
        self.units, self.cpu_ns, self.times_s = 0, 0, []
        self.thread = None


class Crew:
    """Threads that start together and run for some seconds."""

    def __init__(self, seconds):
        self.seconds = seconds
        self._members = []
        self._begin = threading.Event()
        self._ended = False

    def add(self, role, loop, *arguments, times=1, waits=False):
        """Add `times` threads with a loop each. `waits`: they wait for other threads, and are not joined at the end."""
        self._members += [Member(role, loop(*arguments), waits) for _ in range(times)]

    def _work(self, member):
        self._begin.wait()
        begun_ns = time.thread_time_ns()
        for took_s in member.loop:
            if self._ended and member.waits:
                continue  # not counted; a thread that waits for this one needs it in order to end
            member.units += 1
            if took_s is not None:
                member.times_s.append(took_s)
            if self._ended:
                break
        member.cpu_ns = time.thread_time_ns() - begun_ns

    def run(self, load=None):
        """Run the threads for the seconds, or as long as the parent sends requests to the server."""
        for member in self._members:
            member.thread = threading.Thread(target=self._work, args=(member,), daemon=True)
            member.thread.start()
        self._begin.set()
        begun = time.monotonic()
        if load is None:
            say({"ready": True})
            time.sleep(self.seconds)
        else:
            say({"load": load})
            sys.stdin.readline()
        self._ended = True
        self._elapsed_s = time.monotonic() - begun
        for member in self._members:
            if not member.waits:
                member.thread.join(LEAVE_S)
                if member.thread.is_alive():
                    raise RuntimeError(f"a thread ({member.role}) does not end")

    def rates(self, *roles):
        """Return the units a second of all threads of each role that exists."""
        done = {role: sum(one.units for one in self._members if one.role == role) for role in roles}
        there = {member.role for member in self._members}
        return {role + "_per_s": units / self._elapsed_s for role, units in done.items() if role in there}

    def times(self, role):
        """Return the percentiles of the times of a role's units; if no unit was done, they are the whole time."""
        times_s = sorted(time_s for one in self._members if one.role == role for time_s in one.times_s)
        times_s = times_s or [self._elapsed_s]
        points = {"p50": 0.5, "p99": 0.99, "max": 1}
        return {
            f"{role}_{name}_ms": 1e3 * times_s[math.ceil(point * len(times_s)) - 1] for name, point in points.items()
        }

    def shares(self, *roles):
        """Return the least share of CPU time over a fair one among these roles' threads, Jain's index, the CPU time."""
        used = [member.cpu_ns for member in self._members if member.role in roles]
        squares = sum(one * one for one in used)
        return {
            "least_of_fair": min(used) * len(used) / max(1, sum(used)),
            "jain": sum(used) ** 2 / max(1, len(used) * squares),
            "cpu_of_time": sum(used) / 1e9 / self._elapsed_s,
        }


def count():
    """Compute one unit: some 10 us of bytecode without calls."""
    for _ in range(1000):
        pass


def counting():
    """Compute in units without calls."""
    while True:
        count()
        yield


def burst(seconds):
    """Compute for this much CPU time."""
    end_ns = time.thread_time_ns() + seconds * 1e9
    while time.thread_time_ns() < end_ns:
        count()
        yield


def alternating(busy_s, idle_s):
    """Compute and sleep in turn."""
    while True:
        yield from burst(busy_s)
        time.sleep(idle_s)


def fib(n):
    """Compute with recursive calls."""
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def fibbing():
    """Compute fib(15) repeatedly; each takes about a tenth of a millisecond."""
    while True:
        fib(15)
        yield


def napping():
    """Sleep again and again; yield how late each wake-up was."""
    while True:
        begun = time.perf_counter()
        time.sleep(NAP_S)
        yield time.perf_counter() - begun - NAP_S


def timed(work):
    """Do the work again and again; yield how long it took."""
    while True:
        begun = time.perf_counter()
        work()
        yield time.perf_counter() - begun
