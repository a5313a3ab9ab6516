"""What a pool is given for a call of a user's function: the function itself wherever that will do.

A user writes `pool.submit(function, *args)`, so that is what is measured. Calls with keyword arguments, generators and
coroutines need one of the functions below around them; each of them is found by its name in any worker.
"""

import asyncio
import inspect
import threading

__all__ = ["ASYNC", "GENERATOR", "PLAIN", "kind_of", "task_of"]

PLAIN, GENERATOR, ASYNC, ASYNC_GENERATOR = "plain", "generator", "async", "async generator"
"""What a call of a function gives: its result, or something whose work is done only when it is used up."""


def kind_of(function):
    """Return which of these a function is, by its code; a plain one may still return a generator."""
    while hasattr(function, "func") and not inspect.isroutine(function):
        function = function.func  # functools.partial
    if not inspect.isroutine(function) and callable(function) and not inspect.isclass(function):
        function = type(function).__call__
    if inspect.iscoroutinefunction(function):
        return ASYNC
    if inspect.isasyncgenfunction(function):
        return ASYNC_GENERATOR
    return GENERATOR if inspect.isgeneratorfunction(function) else PLAIN


def with_keywords(function, args, kwargs):
    """Call it."""
    return function(*args, **kwargs)


def used_up(function, args, kwargs):
    """Call it and return all that the iterator gives: a generator does its work only then."""
    return list(function(*args, **kwargs))


_own = threading.local()


def _loop():
    loop = getattr(_own, "loop", None)
    if loop is None:
        loop = _own.loop = asyncio.new_event_loop()
    return loop


def in_own_loop(function, args, kwargs):
    """Run a coroutine in an event loop of this thread's own, which stays for the next."""
    return _loop().run_until_complete(function(*args, **kwargs))


def used_up_in_own_loop(function, args, kwargs):
    """The same of an async generator: return all that it gives."""
    return _loop().run_until_complete(_all_of(function, args, kwargs))


async def _all_of(function, args, kwargs):
    return [one async for one in function(*args, **kwargs)]


async def awaited(function, args, kwargs):
    """Await it in the loop that runs."""
    return await function(*args, **kwargs)


async def awaited_and_used_up(function, args, kwargs):
    """Use up an async generator in the loop that runs."""
    return await _all_of(function, args, kwargs)


_AROUND = {
    PLAIN: (with_keywords, with_keywords),
    GENERATOR: (used_up, used_up),
    ASYNC: (in_own_loop, awaited),
    ASYNC_GENERATOR: (used_up_in_own_loop, awaited_and_used_up),
}


def task_of(function, kind, calls, *, in_loop=False):
    """Return (the function that a pool is given, a tuple of arguments for each call).

    `in_loop`: an event loop runs it among other coroutines; else one thread of its own does.
    """
    # asyncio's model awaits what is a coroutine function by its code; a wrapper that returns a coroutine is none.
    as_it_is = kind == PLAIN or (kind == ASYNC and in_loop and inspect.iscoroutinefunction(function))
    if as_it_is and not any(kwargs for _, kwargs in calls):
        return function, [args for args, _ in calls]
    return _AROUND[kind][in_loop], [(function, args, kwargs) for args, kwargs in calls]
