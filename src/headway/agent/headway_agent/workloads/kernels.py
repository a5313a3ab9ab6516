"""Pure-Python kernels for one thread: they measure an interpreter's own speed, without concurrency.

Each kernel stresses another part of the interpreter, and takes about the same time. The value that a kernel returns is
compared with its first value, so that no kernel can silently do less.
"""

import math
import time

from . import warm


def loop(n):
    """Integer arithmetic in a while loop."""
    total = 0
    i = 0
    while i < n * 400:
        total += i & 3
        i += 1
    return total


def calls(n):
    """Python-to-Python calls: naive Fibonacci."""

    def fib(k):
        return k if k < 2 else fib(k - 1) + fib(k - 2)

    return [fib(13) for _ in range(n // 2)][-1] if n > 1 else fib(13)


class _Body:
    __slots__ = ("mass", "position", "speed")

    def __init__(self, position, speed, mass):
        self.position = position
        self.speed = speed
        self.mass = mass


def attributes(n):
    """Attribute reads and writes and float arithmetic: bodies on a line."""
    bodies = [_Body(float(i), 1.0 / (i + 1), 1.0 + i) for i in range(4)]
    for _ in range(n * 4):
        for a in bodies:
            for b in bodies:
                if a is not b:
                    distance = a.position - b.position
                    a.speed -= b.mass * distance / (abs(distance) ** 3 + 1.0) * 0.001
        for body in bodies:
            body.position += body.speed * 0.001
    return round(sum(body.position for body in bodies), 9)


def containers(n):
    """Dict and list work: count words, sort them."""
    words = ["w%d" % (i * 7919 % 61) for i in range(200)]
    counts = {}
    for _ in range(n):
        for word in words:
            counts[word] = counts.get(word, 0) + 1
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ranked[0]


def text(n):
    """String building, splitting and joining."""
    length = 0
    for i in range(n * 6):
        line = ",".join([str(i), "abc", str(i * 3), "def"])
        length += len(line.upper().split(",")) + len(line.replace("abc", "xyz"))
    return length


def generators(n):
    """Generator resumption and comprehension."""

    def pairs(limit):
        for i in range(limit):
            yield i, i + 1

    return sum(a * b for a, b in pairs(n * 130)) + len([x for x in range(n * 60) if x % 3])


def floats(n):
    """Float arithmetic: a row of the Mandelbrot set."""
    inside = 0
    for column in range(n * 3):
        c = complex(-2 + 3 * column / (n * 3), 0.3)
        z = 0j
        for _ in range(40):
            z = z * z + c
            if abs(z) > 2:
                break
        else:
            inside += 1
    return inside


def exceptions(n):
    """Raising and catching."""
    caught = 0
    for i in range(n * 45):
        try:
            if i % 2:
                raise ValueError(i)
        except ValueError:
            caught += 1
    return caught


KERNELS = (loop, calls, attributes, containers, text, generators, floats, exceptions)


class Kernels:
    """Every kernel once per sample. Metrics: `NAME_s` each, and `work_s`, their geometric mean."""

    def __init__(self, job):
        self.scale = job["params"]["scale"]

    def open(self):
        for kernel in KERNELS:
            warm(kernel, 1)
        self.answers = [kernel(self.scale) for kernel in KERNELS]
        return {}

    def sample(self):
        metrics = {}
        logs = 0.0
        for kernel, answer in zip(KERNELS, self.answers):
            begun_ns = time.perf_counter_ns()
            result = kernel(self.scale)
            elapsed_s = (time.perf_counter_ns() - begun_ns) / 1e9
            if result != answer:
                raise AssertionError("%s returned %r, before %r" % (kernel.__name__, result, answer))
            metrics[kernel.__name__ + "_s"] = elapsed_s
            logs += math.log(elapsed_s)
        metrics["work_s"] = math.exp(logs / len(KERNELS))
        return metrics

    def close(self):
        pass
