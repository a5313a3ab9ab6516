"""The threads of a program of `policy_corpus.py`, their counts, and the programs; in the measured interpreter."""

import threading
import time

WARMUP_S = 0.2
STARTED_S = 20.0


def work(rounds):
    """Compute: 200 rounds take about 10 us."""
    total = 0
    for i in range(rounds):
        total += i * i % 7
    return total


class Program:
    """The threads of a program, with the counts of their work."""

    def __init__(self):
        self.done = []
        self.computed = []
        self.times = []
        self.started = threading.Event()
        self.started.set()

    def add(self, body, *arguments, times=1):
        """Start threads that call `body(counter, *arguments)`, which runs for ever and counts pieces in counter[0]."""
        for _ in range(times):
            counter = [0]
            self.done.append(counter)
            threading.Thread(target=body, args=(counter, *arguments), daemon=True).start()

    def helper(self, body, *arguments, times=1):
        """Start threads whose work is not counted."""
        for _ in range(times):
            threading.Thread(target=body, args=([0], *arguments), daemon=True).start()

    def compute(self, times=1):
        """Start CPU-bound threads."""
        for _ in range(times):
            counter = [0]
            self.computed.append(counter)
            threading.Thread(target=computing, args=(counter,), daemon=True).start()

    def run(self, seconds):
        """Return the figures of this many seconds, after a warm-up."""
        self.started.wait(STARTED_S)
        time.sleep(WARMUP_S)
        counters = [*self.done, *self.computed]
        begun, before, cpu_s = time.perf_counter(), [one[0] for one in counters], time.process_time()
        del self.times[:]
        time.sleep(seconds)
        after, times = [one[0] for one in counters], list(self.times)
        passed_s, cpu_s = time.perf_counter() - begun, time.process_time() - cpu_s
        pieces = [late - early for early, late in zip(before, after, strict=True)]
        done, computed = pieces[: len(self.done)], pieces[len(self.done) :]
        figures = {}
        if done:
            figures = {"rate": sum(done) / passed_s, "cpu_s": cpu_s / max(1, sum(done))}
        if computed:
            figures["computed"] = sum(computed) / passed_s
        if times:
            times.sort()
            figures |= {f"p{p}_s": times[min(len(times) - 1, len(times) * p // 100)] for p in (50, 99)}
        even = computed if computed and not done else done
        if len(even) > 1 and sum(even):
            figures["least"] = min(even) * len(even) / sum(even)
        return figures


def computing(counter):
    """Compute for ever, and count the units."""
    while True:
        work(400)
        counter[0] += 1


PROGRAMS = {}


def program(group):
    """Return a decorator that adds a function of a `Program` to the corpus."""

    def named(function):
        PROGRAMS[function.__name__.removeprefix("p_").replace("_", "-")] = (group, function)
        return function

    return named


def sleeping(counter, times):
    """Sleep for 5 ms at a time, and note how late each wake-up was."""
    while True:
        until = time.perf_counter() + 0.005
        time.sleep(0.005)
        times.append(time.perf_counter() - until)
        counter[0] += 1


def calling(program, call, threads):
    """Start threads that repeat a call."""

    def body(counter):
        while True:
            call()
            counter[0] += 1

    program.add(body, times=threads)
