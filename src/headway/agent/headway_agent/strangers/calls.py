"""Chooses what a pool runs for a call of a user's function: the function itself, if that suffices.

A user writes `pool.submit(function, *args)`, so exactly that is measured. Calls with keyword arguments, generators and
coroutines need one of the functions below around them; any worker can find these by name.

asyncio is imported for coroutines only: its import takes longer than all others together, in each process and in each
sub-interpreter.
"""

import ast
import inspect
import pickle
import textwrap
import threading
import time

__all__ = [
    "ASYNC",
    "GENERATOR",
    "LOOP",
    "PLAIN",
    "SERIAL",
    "WORKER",
    "Copies",
    "are_equal",
    "is_lazy",
    "kind_of",
    "own_inputs",
    "own_loop_of",
    "sent",
    "task_of",
]

PLAIN, GENERATOR, ASYNC, ASYNC_GENERATOR = "plain", "generator", "async", "async generator"
"""The kinds of a function: its call gives its result, or an object that does the work only when it is used up."""


def kind_of(function):
    """Return a function's kind, one of the above, by its code; a plain one may still return a generator."""
    while hasattr(function, "func") and not inspect.isroutine(function):
        function = function.func  # functools.partial
    if not inspect.isroutine(function) and callable(function) and not inspect.isclass(function):
        function = type(function).__call__
    if inspect.iscoroutinefunction(function):
        return ASYNC
    if inspect.isasyncgenfunction(function):
        return ASYNC_GENERATOR
    return GENERATOR if inspect.isgeneratorfunction(function) else PLAIN


def is_lazy(result):
    """Tell whether a result does its work only when it is used up: a generator, or an iterator such as that of `map`."""
    if not hasattr(result, "__next__"):
        return False
    kind = type(result)
    return hasattr(result, "send") or kind in (map, filter, zip) or kind.__module__ == "itertools"


def own_loop_of(function):
    """Return "asyncio.run" or "run_until_complete" if a function's own source calls it, else ""; runs none of its code.

    Functions inside of it do not count: they may be for other threads.
    """
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function)))).body
    except Exception:
        return ""  # a function in C, or one without a file
    nodes = list(ast.iter_child_nodes(tree))
    while nodes:
        one = nodes.pop()
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        nodes.extend(ast.iter_child_nodes(one))
        called = one.func if isinstance(one, ast.Call) else None
        if not isinstance(called, ast.Attribute):
            continue
        if called.attr == "run" and isinstance(called.value, ast.Name) and called.value.id == "asyncio":
            return "asyncio.run"
        if called.attr == "run_until_complete":
            return "run_until_complete"
    return ""


def with_keywords(function, args, kwargs):
    """Call a function with keyword arguments."""
    return function(*args, **kwargs)


def used_up(function, args, kwargs):
    """Call a function and return all items of its iterator: a generator does its work only then."""
    return list(function(*args, **kwargs))


_own = threading.local()


def _loop():
    loop = getattr(_own, "loop", None)
    if loop is None:
        import asyncio

        loop = _own.loop = asyncio.new_event_loop()
    return loop


def in_own_loop(function, args, kwargs):
    """Run a coroutine in an event loop of this thread's own, which is kept for further calls."""
    return _loop().run_until_complete(function(*args, **kwargs))


def used_up_in_own_loop(function, args, kwargs):
    """Return all items of an async generator, run in an event loop of this thread's own."""
    return _loop().run_until_complete(_all_of(function, args, kwargs))


def in_new_loop(function, args, kwargs):
    """Run a coroutine in an event loop of this call's own, as the code to paste does in a worker."""
    import asyncio

    return asyncio.run(function(*args, **kwargs))


def used_up_in_new_loop(function, args, kwargs):
    """Return all items of an async generator, run in an event loop of this call's own."""
    import asyncio

    return asyncio.run(_all_of(function, args, kwargs))


async def _all_of(function, args, kwargs):
    return [one async for one in function(*args, **kwargs)]


async def awaited(function, args, kwargs):
    """Await a coroutine in the running loop."""
    return await function(*args, **kwargs)


async def awaited_and_used_up(function, args, kwargs):
    """Return all items of an async generator in the running loop."""
    return await _all_of(function, args, kwargs)


SERIAL, WORKER, LOOP = range(3)
"""What runs the calls: one thread, one after the other; a pool's worker; an event loop, among other coroutines."""

_AROUND = {
    PLAIN: (with_keywords,) * 3,
    GENERATOR: (used_up,) * 3,
    ASYNC: (in_own_loop, in_new_loop, awaited),
    ASYNC_GENERATOR: (used_up_in_own_loop, used_up_in_new_loop, awaited_and_used_up),
}


def task_of(function, kind, calls, *, by=SERIAL):
    """Return (the function for the pool, a tuple of arguments for each call). `by` is one of the constants above."""
    if kind in (ASYNC, ASYNC_GENERATOR):
        import asyncio  # noqa: F401  (the first call takes the time of none of our own imports)
    # asyncio's model awaits only coroutine functions, by their code; a wrapper that returns a coroutine is none.
    as_it_is = kind == PLAIN or (kind == ASYNC and by == LOOP and inspect.iscoroutinefunction(function))
    if as_it_is and not any(kwargs for _, kwargs in calls):
        return function, [args for args, _ in calls]
    return _AROUND[kind][by], [(function, args, kwargs) for args, kwargs in calls]


_TIMED_S, _LONG_S = 0.01, 0.2
"""The times up to which a pickle is timed again: at most 20 times, and at most 3 times."""


def sent(value):
    """Return (bytes, seconds there and back) of sending a value to another process; raise what pickling raises.

    The first pickle of a type also imports what later ones need: with an array it takes ten times as long.
    """
    took_s, begun_s = [], time.perf_counter()
    while True:
        before_s = time.perf_counter()
        data = pickle.dumps(value)
        pickle.loads(data)
        now_s = time.perf_counter()
        took_s.append(now_s - before_s)
        if len(took_s) >= (20 if now_s - begun_s < _TIMED_S else 3) or now_s - begun_s >= _LONG_S:
            return len(data), sorted(took_s)[(len(took_s) - 1) // 2]


class Copies:
    """Unchanged copies of the inputs, for a function that changes its arguments.

    They are pickled when this object is made, so it must be made before the first call. `most_bytes`: from this size of
    all pickles on, no further input is kept. Raises what pickling raises.
    """

    def __init__(self, given, most_bytes=None):
        self.pickled = []
        total_bytes = 0
        for one in given:
            self.pickled.append(pickle.dumps(one))
            total_bytes += len(self.pickled[-1])
            if most_bytes is not None and total_bytes >= most_bytes:
                break

    @property
    def count(self):
        """The number of inputs of which there are copies."""
        return len(self.pickled)

    @property
    def most_bytes(self):
        """The size of the largest input."""
        return max(map(len, self.pickled))

    def arguments(self, task, function, place):
        """Return a tuple of new arguments for a call of `task`, as `task_of` gives them, by its place in a row of calls."""
        args, kwargs = pickle.loads(self.pickled[place % len(self.pickled)])
        return args if task is function else (function, args, kwargs)


def are_equal(value, copy):
    """Tell whether a value is equal to a copy of it: to one that was pickled and loaded.

    Tables and columns (of pandas, polars, pyarrow) are compared by their own `equals`: their pickles have caches that
    reading them fills. Other objects are compared by their pickles, since `==` may mean identity, or the same key.
    """
    if type(value) is not type(copy):
        return False
    if type(value) in (list, tuple):
        return len(value) == len(copy) and all(map(are_equal, value, copy))
    if type(value) is dict:
        return list(value) == list(copy) and all(map(are_equal, value.values(), copy.values()))
    if not isinstance(value, type) and callable(getattr(value, "equals", None)):
        return bool(value.equals(copy))
    return pickle.dumps(pickle.loads(pickle.dumps(value))) == pickle.dumps(copy)


MOST_COPIED_BYTES = 256 << 20


def own_inputs(given, workers):
    """Return the inputs, with copies of them so that each of the workers has its own; too few if these cannot be made.

    Where there is no GIL, threads contend for an object that they share: its count of references, its lock. Fewer inputs
    than threads are examples, and the program's calls would each have objects of its own.
    """
    if len(given) >= workers:
        return given
    try:
        pickles = [pickle.dumps(one) for one in given]
        # Twice as many, since the calls under way at a time need not be neighbours.
        times = min(-(-2 * workers // len(given)), 1 + MOST_COPIED_BYTES // max(1, sum(map(len, pickles))))
        return [*given, *(pickle.loads(one) for _ in range(times - 1) for one in pickles)]
    except Exception:
        return given
