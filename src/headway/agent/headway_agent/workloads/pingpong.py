"""Two tasks that send an integer back and forth: the cost of a switch.

A *channel* is the way by which the two sides communicate: `pipes` (two pipes and 8-byte integers), `event` (two
threading.Event), `queue` (two queue.Queue, or two cross-interpreter queues). The placement pins the first side to the
first of the job's `party_cpus` and the second side to the second.
"""

import os
import struct
import sys
import threading
import time

from .. import proc

_STOP = -1
_INTEGER = struct.Struct("q")


def party_cpus(job):
    """Return the core lists for the two sides; (None, None) under placement `free`."""
    return job.get("party_cpus") or (None, None)


def echo_pipes(reader, writer, cpus):
    """Run the second side over pipes: add one and send back, until told to stop."""
    proc.pin(cpus)
    read, write, pack, unpack = os.read, os.write, _INTEGER.pack, _INTEGER.unpack
    while True:
        value = unpack(read(reader, 8))[0]
        if value == _STOP:
            return
        write(writer, pack(value + 1))


def echo_connections(reader, writer, cpus):
    """Run `echo_pipes` in another process, which received `multiprocessing` connections over pipes."""
    echo_pipes(reader.fileno(), writer.fileno(), cpus)


def echo_stamps(reader, writer, cpus):
    """Run the second side of the one-way variant: answer each time stamp with its age in ns."""
    proc.pin(cpus)
    while True:
        stamp_ns = _INTEGER.unpack(os.read(reader, 8))[0]
        age_ns = time.monotonic_ns() - stamp_ns
        if stamp_ns == _STOP:
            return
        os.write(writer, _INTEGER.pack(age_ns))


def echo_stamp_connections(reader, writer, cpus):
    """Run `echo_stamps` in another process."""
    echo_stamps(reader.fileno(), writer.fileno(), cpus)


def echo_queue(questions, answers, cpus):
    """Run the second side over queues."""
    proc.pin(cpus)
    while True:
        value = questions.get()
        if value == _STOP:
            return
        answers.put(value + 1)


class _Pipes:
    """Two pipes, and a second side that runs `echo` in a thread, a process or a sub-interpreter."""

    echo_in_thread = staticmethod(echo_pipes)
    echo_in_process = staticmethod(echo_connections)

    def __init__(self, model, cpus):
        if model.startswith("processes"):
            import multiprocessing

            context = multiprocessing.get_context(model.partition("-")[2])
            their_reader, self._our_end = context.Pipe(duplex=False)
            self._their_end, their_writer = context.Pipe(duplex=False)
            self.writer, self.reader = self._our_end.fileno(), self._their_end.fileno()
            self._partner = context.Process(
                target=self.echo_in_process, args=(their_reader, their_writer, cpus), daemon=True
            )
            self._partner.start()
            their_reader.close()
            their_writer.close()
            return
        their_reader, self.writer = os.pipe()
        self.reader, their_writer = os.pipe()
        if model == "threads":
            self._partner = threading.Thread(
                target=self.echo_in_thread, args=(their_reader, their_writer, cpus), daemon=True
            )
        elif model == "interpreters":
            self._partner = _interpreter_thread(self.echo_in_thread, their_reader, their_writer, cpus)
        else:
            raise ValueError("no ping-pong over pipes for the model %r" % model)
        self._partner.start()

    def exchange(self, rounds):
        """Send an integer and wait for it plus one, `rounds` times; return the last value."""
        read, write, pack, unpack = os.read, os.write, _INTEGER.pack, _INTEGER.unpack
        reader, writer = self.reader, self.writer
        value = 0
        for _ in range(rounds):
            write(writer, pack(value + 1))
            value = unpack(read(reader, 8))[0]
        return value

    def close(self):
        os.write(self.writer, _INTEGER.pack(_STOP))
        self._partner.join()


def _interpreter_thread(function, *args):
    """Return an unstarted thread that calls `function(*args)` in a separate sub-interpreter."""
    from .. import subinterpreters

    script = "import sys\nsys.path[:] = {path!r}\nfrom {module} import {name}\n{name}(*{args!r})".format(
        path=sys.path, module=function.__module__, name=function.__name__, args=args
    )

    def run():
        try:
            subinterpreters.run(subinterpreters.create(), script)
        finally:
            # The first side then reads the end of the file instead of waiting for ever.
            os.close(args[1])

    return threading.Thread(target=run, daemon=True)


class _Events:
    """A shared integer and two events, in two threads."""

    def __init__(self, model, cpus):
        if model != "threads":
            raise ValueError("threading.Event joins threads only, not %r" % model)
        self._ours, self._theirs = threading.Event(), threading.Event()
        self._value = 0
        self._partner = threading.Thread(target=self._echo, args=(cpus,), daemon=True)
        self._partner.start()

    def _echo(self, cpus):
        proc.pin(cpus)
        while True:
            self._theirs.wait()
            self._theirs.clear()
            if self._value == _STOP:
                return
            self._value += 1
            self._ours.set()

    def exchange(self, rounds):
        self._value = 0
        for _ in range(rounds):
            self._value += 1
            self._theirs.set()
            self._ours.wait()
            self._ours.clear()
        return self._value

    def close(self):
        self._value = _STOP
        self._theirs.set()
        self._partner.join()


class _Queues:
    """Two queues: `queue.Queue` between threads, `concurrent.interpreters` queues (3.14+) between interpreters."""

    def __init__(self, model, cpus):
        if model == "threads":
            import queue

            self._questions, self._answers = queue.Queue(), queue.Queue()
            self._partner = threading.Thread(
                target=echo_queue, args=(self._questions, self._answers, cpus), daemon=True
            )
        elif model == "interpreters":
            from concurrent import interpreters

            self._questions, self._answers = interpreters.create_queue(), interpreters.create_queue()
            partner = interpreters.create()
            self._partner = threading.Thread(
                target=partner.call, args=(echo_queue, self._questions, self._answers, cpus), daemon=True
            )
        else:
            raise ValueError("no ping-pong over queues for the model %r" % model)
        self._partner.start()

    def exchange(self, rounds):
        put, get = self._questions.put, self._answers.get
        value = 0
        for _ in range(rounds):
            put(value + 1)
            value = get()
        return value

    def close(self):
        self._questions.put(_STOP)
        self._partner.join()


class _Asyncio:
    """Two tasks of one event loop over two `asyncio.Queue`."""

    def __init__(self, model, _cpus):
        if model != "asyncio":
            raise ValueError("asyncio queues join asyncio tasks only, not %r" % model)
        import asyncio

        self._asyncio = asyncio
        self._loop = asyncio.new_event_loop()

    async def _echo(self, questions, answers):
        while True:
            value = await questions.get()
            if value == _STOP:
                return
            await answers.put(value + 1)

    async def _exchange(self, rounds):
        questions, answers = self._asyncio.Queue(), self._asyncio.Queue()
        partner = self._asyncio.ensure_future(self._echo(questions, answers))
        value = 0
        for _ in range(rounds):
            await questions.put(value + 1)
            value = await answers.get()
        await questions.put(_STOP)
        await partner
        return value

    def exchange(self, rounds):
        return self._loop.run_until_complete(self._exchange(rounds))

    def close(self):
        self._loop.close()


CHANNELS = {"pipes": _Pipes, "event": _Events, "queue": _Queues, "asyncio-queue": _Asyncio}


class PingPong:
    """`rounds` rounds of there and back over `channel`.

    Metrics: `switch_s`, the time per switch (two a round); `pool_start_s`, the time until the second side's first
        answer.
    """

    def __init__(self, job):
        self.job = job
        self.params = job["params"]

    def open(self):
        ours, theirs = party_cpus(self.job)
        begun_ns = time.perf_counter_ns()
        self.channel = CHANNELS[self.params["channel"]](self.job["model"], theirs)
        # Pinned only after the start of the second side, which would inherit our core.
        proc.pin(ours)
        self.channel.exchange(1)
        return {"pool_start_s": (time.perf_counter_ns() - begun_ns) / 1e9}

    def sample(self):
        rounds = self.params["rounds"]
        begun_ns = time.perf_counter_ns()
        value = self.channel.exchange(rounds)
        elapsed_ns = time.perf_counter_ns() - begun_ns
        if value != 2 * rounds:
            raise AssertionError("%d rounds gave %r, expected %d" % (rounds, value, 2 * rounds))
        return {"switch_s": elapsed_ns / 1e9 / (2 * rounds)}

    def close(self):
        self.channel.close()


class _StampPipes(_Pipes):
    echo_in_thread = staticmethod(echo_stamps)
    echo_in_process = staticmethod(echo_stamp_connections)

    def exchange(self, rounds):
        """Send `rounds` time stamps; return their ages in ns as measured by the other side."""
        ages_ns = []
        for _ in range(rounds):
            os.write(self.writer, _INTEGER.pack(time.monotonic_ns()))
            ages_ns.append(_INTEGER.unpack(os.read(self.reader, 8))[0])
        return ages_ns


class OneWay(PingPong):
    """`rounds` time stamps through a pipe. Metric: `one_way_s`, the age of each on arrival (a list)."""

    def open(self):
        ours, theirs = party_cpus(self.job)
        self.channel = _StampPipes(self.job["model"], theirs)
        proc.pin(ours)
        self.channel.exchange(1)
        return {}

    def sample(self):
        return {"one_way_s": [age_ns / 1e9 for age_ns in self.channel.exchange(self.params["rounds"])]}
