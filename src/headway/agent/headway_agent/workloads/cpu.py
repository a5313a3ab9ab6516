"""CPU-bound tasks: increments, a countdown, sums, SHA-256."""

import hashlib

from . import WARM_CALLS, Tasks, warm


def increment(n):
    """Increment an int `n` times (source A)."""
    value = 0
    for _ in range(n):
        value += 1
    return value


class Increment(Tasks):
    """`tasks` tasks of `n` increments each."""

    function = increment

    def make_arguments(self):
        return [(self.params["n"],)] * self.params["tasks"]

    def expected(self):
        return [self.params["n"]] * self.params["tasks"]


def countdown(n):
    """Count `n` down to zero (source C)."""
    while n > 0:
        n -= 1
    return n


class Countdown(Tasks):
    """`n` decrements split evenly over `threads` tasks, one worker each."""

    function = countdown

    def make_arguments(self):
        threads = self.params["threads"]
        return [(self.params["n"] // threads,)] * threads

    def expected(self):
        return [0] * self.params["threads"]


_order = []
"""The task that finished each chunk, in order. Threads and coroutines share it; other processes have their own."""


def sigma(n, every, task):
    """Sum 0..n in pieces of `every` additions, noting after each piece that `task` ran (source D)."""
    total = 0
    for start in range(0, n + 1, every):
        for value in range(start, min(start + every, n + 1)):
            total += value
        _order.append(task)
    return total


async def sigma_yielding(n, every, task):
    """Do the same as `sigma` in a coroutine that yields to the event loop with `sleep(0)` after each piece."""
    from asyncio import sleep

    total = 0
    for start in range(0, n + 1, every):
        for value in range(start, min(start + every, n + 1)):
            total += value
        _order.append(task)
        await sleep(0)
    return total


class Sigma(Tasks):
    """`times` sums of 0..n. `yields`: yield to the event loop after each piece of `every` additions (asyncio only).

    A further metric, `order_changes`: how often the running task changed from one piece to the next. `times - 1` means
    that the tasks ran one after the other. The metric exists only if the tasks share this interpreter.
    """

    function = sigma

    def __init__(self, job):
        super().__init__(job)
        if self.params.get("yields"):
            self.task = sigma_yielding
            for _ in range(WARM_CALLS):
                steps = sigma_yielding(1, 1, 0)
                try:
                    while True:
                        steps.send(None)
                except StopIteration:
                    pass

    def make_arguments(self):
        return [(self.params["n"], self.params["every"], task) for task in range(self.params["times"])]

    def expected(self):
        n = self.params["n"]
        return [n * (n + 1) // 2] * self.params["times"]

    def sample(self):
        _order.clear()
        metrics = super().sample()
        if len(_order) == self.params["times"] * len(range(0, self.params["n"] + 1, self.params["every"])):
            metrics["order_changes"] = sum(a != b for a, b in zip(_order, _order[1:]))
        return metrics


_messages = {}
"""Size -> the message; several sizes take turns within a launch."""


def sha256(size_bytes, messages):
    """Return the SHA-256 of the last of `messages` messages of `size_bytes` zero bytes each."""
    message = _messages.get(size_bytes)
    if message is None:
        message = _messages[size_bytes] = bytes(size_bytes)
    digest = ""
    for _ in range(messages):
        digest = hashlib.sha256(message).hexdigest()
    return digest


class Sha256(Tasks):
    """`tasks` tasks over `threads` workers, each hashing `messages` messages of `size_bytes` (source C).

    hashlib releases the GIL for messages of 2,048 bytes and more (Modules/_hashopenssl.c, HASHLIB_GIL_MINSIZE).
    """

    function = sha256

    def make_arguments(self):
        self.params["workers"] = self.params["threads"]
        sha256(self.params["size_bytes"], 1)  # The message is made here, outside every timed part.
        return [(self.params["size_bytes"], self.params["messages"])] * self.params["tasks"]

    def expected(self):
        return [hashlib.sha256(bytes(self.params["size_bytes"])).hexdigest()] * self.params["tasks"]


warm(increment, 1)
warm(countdown, 1)
warm(sigma, 1, 1, 0)
warm(sha256, 1, 1)
