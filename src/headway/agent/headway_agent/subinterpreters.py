"""One pool for every CPython's sub-interpreters with one GIL each (PEP 684): 3.12 and later.

3.14+ has `concurrent.futures.InterpreterPoolExecutor`; 3.13 has the private `_interpreters`, 3.12 `_xxsubinterpreters`.
`open_pool` returns the first if it exists, else `Pool`, which has the same methods `submit` and `shutdown`.

`Pool` keeps one thread per interpreter. That thread creates its interpreter, runs every task in it and destroys it,
because `destroy` of 3.12 waits for ever if another OS thread than the destroyer has imported `threading`.
A task travels as a pickle inside the script. Its result comes back in a memory file that both interpreters share (same
process, same descriptor), so that a large result cannot block, as it would in a pipe.
"""

import os
import pickle
import queue
import sys
import threading


def module():
    """Return the private module that makes interpreters; None before 3.12 (3.8 to 3.11 share one GIL)."""
    if sys.version_info < (3, 12):
        return None
    try:
        import _interpreters

        return _interpreters
    except ImportError:
        pass
    try:
        import _xxsubinterpreters

        return _xxsubinterpreters
    except ImportError:
        return None


def create():
    """Create an isolated interpreter with its own GIL; return its id."""
    return module().create()


def destroy(interpreter):
    """Destroy an interpreter in which nothing runs."""
    module().destroy(interpreter)


def run(interpreter, script):
    """Run `script` in `interpreter` and wait. Raises RuntimeError with the script's error if the script raises."""
    private = module()
    if hasattr(private, "exec"):
        failure = private.exec(interpreter, script)
        if failure is not None:
            raise RuntimeError("in the sub-interpreter: %s" % (getattr(failure, "formatted", None) or failure))
    else:
        private.run_string(interpreter, script)


_PRELUDE = """
import sys
sys.path[:] = {path!r}
import os, pickle
def _serve(task, fd):
    try:
        function, args = pickle.loads(task)
        outcome = (True, function(*args))
    except BaseException as error:
        outcome = (False, "%s: %s" % (type(error).__name__, error))
    answer = pickle.dumps(outcome)
    os.ftruncate(fd, 0)
    written = 0
    while written < len(answer):
        written += os.pwrite(fd, answer[written:], written)
"""


def _answer(fd):
    size = os.fstat(fd).st_size
    parts, offset = [], 0
    while offset < size:
        part = os.pread(fd, size - offset, offset)
        parts.append(part)
        offset += len(part)
    return pickle.loads(b"".join(parts))


def _memory_file():
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("headway-result"), "rb")
    import tempfile

    return tempfile.TemporaryFile()


class Pool:
    """`max_workers` interpreters, each with its own GIL and its own thread; the interface of an Executor."""

    def __init__(self, max_workers):
        from concurrent.futures import Future

        self._future, self._tasks = Future, queue.SimpleQueue()
        self._broken = None
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(max_workers)]
        for thread in self._threads:
            thread.start()

    def _work(self):
        try:
            self._serve()
        except BaseException as error:
            # This worker is gone; tasks in the queue must fail instead of waiting for ever.
            self._broken = error
            while not self._tasks.empty():
                item = self._tasks.get()
                if item is not None:
                    item[0].set_exception(error)

    def _serve(self):
        interpreter = create()
        with _memory_file() as results:
            fd = results.fileno()
            run(interpreter, _PRELUDE.format(path=sys.path))
            while True:
                item = self._tasks.get()
                if item is None:
                    break
                future, task = item
                try:
                    run(interpreter, "_serve(%r, %d)" % (task, fd))
                    good, value = _answer(fd)
                    if not good:
                        raise RuntimeError("in the sub-interpreter: %s" % value)
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(value)
        destroy(interpreter)

    def submit(self, function, *args):
        """Schedule `function(*args)`, both picklable and importable in a fresh interpreter; return a Future."""
        if self._broken is not None:
            raise RuntimeError("a sub-interpreter of this pool could not start: %s" % self._broken)
        future = self._future()
        self._tasks.put((future, pickle.dumps((function, args))))
        return future

    def shutdown(self, wait=True):  # noqa: FBT002  (Executor's signature)
        """Let every worker finish the queued tasks and destroy its interpreter."""
        for _ in self._threads:
            self._tasks.put(None)
        if wait:
            for thread in self._threads:
                thread.join()


def open_pool(max_workers):
    """Return a pool of sub-interpreters: the standard library's on 3.14+, ours on 3.12 and 3.13.

    Raises RuntimeError before 3.12, where sub-interpreters share one GIL and no module reaches them.
    """
    try:
        from concurrent.futures import InterpreterPoolExecutor
    except ImportError:
        if module() is None:
            raise RuntimeError("sub-interpreters with a GIL of their own need CPython 3.12 or later") from None
        return Pool(max_workers)
    return InterpreterPoolExecutor(max_workers)
