"""The concurrency models: each runs the same function on the same list of arguments in its own way.

A model imports what it needs when it is made, which a program does once. It has these methods:

- `start()` creates the pool and waits until every worker is there.
- `on_each(function, *args)` calls the function once in each place where tasks will run that shares no memory with
  others.
- `run(function, arguments)` runs one task per argument tuple and returns the results in order: the timed part.
- `close()` closes the pool.

The caller times `start` and reports it separately, never inside the time of `run`.

`run` adds next to nothing to the call that it wraps; `bench/model_overhead.py` compares it with the bare calls.
"""

import os


class Serial:
    """A plain loop in the main thread."""

    def __init__(self, workers):
        pass

    def start(self):
        pass

    def on_each(self, function, *args):
        function(*args)

    def run(self, function, arguments):
        return [function(*args) for args in arguments]

    def close(self):
        pass


def meet(here_fd, go_fd, function=None, args=()):
    """Report this worker as ready, then wait until all are. Descriptors work across sub-interpreters; locks do not."""
    if function is not None:
        function(*args)
    os.write(here_fd, b".")
    os.read(go_fd, 1)


def _start_all(submit, workers, *call):
    """Make a lazily growing pool start all its workers: each gets a task that ends only when all have begun."""
    here_reader, here_writer = os.pipe()
    go_reader, go_writer = os.pipe()
    try:
        futures = [submit(meet, here_writer, go_reader, *call) for _ in range(workers)]
        for future in futures:
            # A worker that ends before it has met the others, because it could not start, must end the wait.
            future.add_done_callback(lambda done: done.exception() and os.write(here_writer, b"!"))
        arrived = b""
        while len(arrived) < workers and b"!" not in arrived:
            arrived += os.read(here_reader, workers)
        os.write(go_writer, b"." * workers)
        for future in futures:
            future.result()
    finally:
        for fd in (here_reader, here_writer, go_reader, go_writer):
            os.close(fd)


class _Pooled:
    """The common part of the models over `concurrent.futures`."""

    def __init__(self, workers):
        self.workers = workers
        self.pool = None

    def run(self, function, arguments):
        submit = self.pool.submit
        return [future.result() for future in [submit(function, *args) for args in arguments]]

    def close(self):
        if self.pool is not None:
            self.pool.shutdown()


class Threads(_Pooled):
    """`concurrent.futures.ThreadPoolExecutor`."""

    def __init__(self, workers):
        super().__init__(workers)
        from concurrent.futures import ThreadPoolExecutor

        self._executor = ThreadPoolExecutor

    def start(self):
        self.pool = self._executor(self.workers)
        _start_all(self.pool.submit, self.workers)

    def on_each(self, function, *args):
        function(*args)


class Interpreters(_Pooled):
    """Sub-interpreters with a GIL each, in threads of this process: 3.12+."""

    def __init__(self, workers):
        super().__init__(workers)
        from .subinterpreters import open_pool

        self._open_pool = open_pool

    def start(self):
        self.pool = self._open_pool(self.workers)
        _start_all(self.pool.submit, self.workers)

    def on_each(self, function, *args):
        _start_all(self.pool.submit, self.workers, function, args)


def _join_barrier(barrier):
    global _barrier
    _barrier = barrier


def _wait_at_barrier(function=None, args=()):
    # No worker gets a second one of these tasks before every other worker has had its first.
    _barrier.wait()
    if function is not None:
        function(*args)


class Processes(_Pooled):
    """`concurrent.futures.ProcessPoolExecutor` with the start method `method`."""

    method = "spawn"

    def __init__(self, workers):
        super().__init__(workers)
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        self._context = multiprocessing.get_context(self.method)
        self._executor = ProcessPoolExecutor

    def start(self):
        barrier = self._context.Barrier(self.workers)
        self.pool = self._executor(
            self.workers, mp_context=self._context, initializer=_join_barrier, initargs=(barrier,)
        )
        for future in [self.pool.submit(_wait_at_barrier) for _ in range(self.workers)]:
            future.result()

    def on_each(self, function, *args):
        for future in [self.pool.submit(_wait_at_barrier, function, args) for _ in range(self.workers)]:
            future.result()


class ForkserverProcesses(Processes):
    """Processes from a fork server, which forks each worker from one clean process."""

    method = "forkserver"


async def _call(function, args):
    return function(*args)


class Asyncio:
    """Coroutines gathered in one event loop. A plain function is called inside a coroutine that never awaits."""

    def __init__(self, workers):
        self.workers = workers
        self.loop = None
        import asyncio
        import inspect

        self._asyncio = asyncio
        self._is_coroutine_function = inspect.iscoroutinefunction

    def start(self):
        self.loop = self._asyncio.new_event_loop()
        self.loop.run_until_complete(self._asyncio.sleep(0))

    def on_each(self, function, *args):
        function(*args)

    def run_coroutine(self, coroutine):
        """Run one coroutine in the model's loop and return its result: for objects that are opened or closed there."""
        return self.loop.run_until_complete(coroutine)

    def run(self, function, arguments):
        return self.loop.run_until_complete(self.gather(function, arguments))

    async def gather(self, function, arguments):
        if self._is_coroutine_function(function):
            return await self._asyncio.gather(*[function(*args) for args in arguments])
        return await self._asyncio.gather(*[_call(function, args) for args in arguments])

    def close(self):
        if self.loop is not None:
            self.loop.close()


class _AsyncioPool(Asyncio):
    """`loop.run_in_executor` over the pool of another model."""

    inner = Threads

    def __init__(self, workers):
        super().__init__(workers)
        self._inner = self.inner(workers)

    def start(self):
        super().start()
        self._inner.start()

    def on_each(self, function, *args):
        self._inner.on_each(function, *args)

    async def gather(self, function, arguments):
        submit, pool = self.loop.run_in_executor, self._inner.pool
        return await self._asyncio.gather(*[submit(pool, function, *args) for args in arguments])

    def close(self):
        self._inner.close()
        super().close()


class AsyncioThreads(_AsyncioPool):
    """`run_in_executor` with a ThreadPoolExecutor."""


class AsyncioProcesses(_AsyncioPool):
    """`run_in_executor` with a spawned ProcessPoolExecutor."""

    inner = Processes


MODELS = {
    "serial": Serial,
    "threads": Threads,
    "processes-spawn": Processes,
    "processes-forkserver": ForkserverProcesses,
    "asyncio": Asyncio,
    "asyncio-threads": AsyncioThreads,
    "asyncio-processes": AsyncioProcesses,
    "interpreters": Interpreters,
}

CROSSES_A_PICKLE = frozenset({"processes-spawn", "processes-forkserver", "asyncio-processes", "interpreters"})
"""Models whose tasks and results travel as pickles."""


def open_model(name, workers):
    """Return the model `name` with `workers` workers, not started yet. Raises KeyError for a name not in `MODELS`."""
    return MODELS[name](workers)
