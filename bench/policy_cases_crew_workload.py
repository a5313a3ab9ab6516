"""Crews of threads for `policy_cases_workload.py`, what they count and time, and the loops that most of them run.

Runs in the measured interpreter. A loop is a generator that yields after each unit of work, so that a crew can count it
and end it: None, or the seconds that matter of it.
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
    """Tell the parent; by one system call, for a handler of a signal may come between."""
    os.write(1, json.dumps(message).encode() + b"\n")


class Member:
    """A thread of a crew, and what it did."""

    def __init__(self, role, loop, waits):
        self.role, self.loop, self.waits = role, loop, waits
        self.units, self.cpu_ns, self.times_s = 0, 0, []
        self.thread = None


class Crew:
    """Threads that begin together and go on for some seconds."""

    def __init__(self, seconds):
        self.seconds = seconds
        self._members = []
        self._begin = threading.Event()
        self._ended = False

    def add(self, role, loop, *arguments, times=1, waits=False):
        """Add so many threads with a loop each; `waits`: it waits for others, and so is left alone at the end."""
        self._members += [Member(role, loop(*arguments), waits) for _ in range(times)]

    def _work(self, member):
        self._begin.wait()
        begun_ns = time.thread_time_ns()
        for took_s in member.loop:
            if self._ended and member.waits:
                continue  # not counted: who waits for this one must find it, to come to its own end
            member.units += 1
            if took_s is not None:
                member.times_s.append(took_s)
            if self._ended:
                break
        member.cpu_ns = time.thread_time_ns() - begun_ns

    def run(self, load=None):
        """Let them work: for the seconds, or for as long as the parent asks things of the server."""
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
        """Return units a second of all threads of each role that there is."""
        done = {role: sum(one.units for one in self._members if one.role == role) for role in roles}
        there = {member.role for member in self._members}
        return {role + "_per_s": units / self._elapsed_s for role, units in done.items() if role in there}

    def times(self, role):
        """Return how long the units of a role took; those of one that got nowhere took all the time."""
        times_s = sorted(time_s for one in self._members if one.role == role for time_s in one.times_s)
        times_s = times_s or [self._elapsed_s]
        points = {"p50": 0.5, "p99": 0.99, "max": 1}
        return {
            f"{role}_{name}_ms": 1e3 * times_s[math.ceil(point * len(times_s)) - 1] for name, point in points.items()
        }

    def shares(self, *roles):
        """Return the least share of CPU time among threads of these roles over a fair one, Jain's index, and the CPU time."""
        used = [member.cpu_ns for member in self._members if member.role in roles]
        squares = sum(one * one for one in used)
        return {
            "least_of_fair": min(used) * len(used) / max(1, sum(used)),
            "jain": sum(used) ** 2 / max(1, len(used) * squares),
            "cpu_of_time": sum(used) / 1e9 / self._elapsed_s,
        }


def count():
    """Compute a unit, some 10 us of bytecode without calls."""
    for _ in range(1000):
        pass


def counting():
    """Compute."""
    while True:
        count()
        yield


def burst(seconds):
    """Compute for so much CPU time."""
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
    """Compute with calls."""
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def fibbing():
    """Compute fib(15), a tenth of a millisecond or so."""
    while True:
        fib(15)
        yield


def napping():
    """Sleep again and again; yields how much later than asked it woke."""
    while True:
        begun = time.perf_counter()
        time.sleep(NAP_S)
        yield time.perf_counter() - begun - NAP_S


def timed(work):
    """Do it again and again; yields how long it took."""
    while True:
        begun = time.perf_counter()
        work()
        yield time.perf_counter() - begun
