"""The timed loops: batches of calls and awaits, and calls that are timed one by one.

The module imports only the standard library, and nothing of Headway, because worker processes and sub-interpreters
import it, too. All times are nanoseconds of CLOCK_MONOTONIC, which is the same in every process.
"""

import functools
import itertools
import keyword
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

__all__ = ["GENERATED", "Timer", "arrive", "async_timer", "now_ns", "serve", "serve_async", "take_path", "timer"]

now_ns: Callable[[], int] = functools.partial(time.clock_gettime_ns, time.CLOCK_MONOTONIC)
"""Return the time. A test may have stopped the clocks of `time`: freezegun replaces them wherever a module has them."""

Timer = Callable[[int], Any]
"""Takes a number of calls; returns the nanoseconds that they took, or an awaitable of them."""

GENERATED = "<timer of headway>"
"""The file name of the generated code, which tracebacks show."""

_SYNC = """
def make(clock, repeat, function, {names}):
    def timer(calls):
        each = repeat(None, calls)
        begun = clock()
        for _ in each:
            function({call})
        return clock() - begun
    return timer
"""
_ASYNC = _SYNC.replace("def timer", "async def timer").replace("function(", "await function(", 1)


@functools.cache
def _made(source: str, positional: int, keywords: tuple[str, ...]) -> Callable[..., Timer]:
    """Return the maker of a timer whose loop contains the arguments in full, as in `timeit`.

    Unpacking the arguments would cost as much as a call.
    """
    places = [f"argument_{place}" for place in range(positional)]
    call = ", ".join([*places, *(f"{name}=keyword_{name}" for name in keywords)])
    names = ", ".join([*places, *(f"keyword_{name}" for name in keywords)])
    scope: dict[str, Any] = {}
    exec(compile(source.format(names=names, call=call), GENERATED, "exec"), scope)  # noqa: S102  (made of names that Python took as keywords)
    made: Callable[..., Timer] = scope["make"]
    return made


def _written_out(kwargs: Mapping[str, Any]) -> bool:
    """Whether these names can stand in a call; `f(**{"a b": 1})` cannot be written out."""
    return all(name.isidentifier() and not keyword.iskeyword(name) for name in kwargs)


def _timer(source: str, function: Callable[..., object], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Timer:
    if not _written_out(kwargs):
        function, args, kwargs = functools.partial(function, *args, **kwargs), (), {}
    make = _made(source, len(args), tuple(kwargs))
    return make(now_ns, itertools.repeat, function, *args, *kwargs.values())


def timer(function: Callable[..., object], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Timer:
    """Return a timer of a batch of calls: its loop has nothing but the call."""
    return _timer(_SYNC, function, args, kwargs)


def async_timer(function: Callable[..., Awaitable[object]], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Timer:
    """Return a timer of a batch of awaits, one after the other, in the loop that awaits it."""
    return _timer(_ASYNC, function, args, kwargs)


def take_path(path: Sequence[str]) -> None:
    """Set the import path to the measuring interpreter's: a sub-interpreter has only the interpreter's default path."""
    sys.path[:] = path


def arrive(*_given: object) -> None:
    """Do nothing: when a function and its arguments have arrived in a worker, the worker has imported what they need."""


def serve(
    function: Callable[..., object], args: Sequence[Any], kwargs: Mapping[str, Any], calls: int
) -> tuple[list[int], list[int]]:
    """Call the function `calls` times, one after the other; return when each call began and when it ended."""
    clock = now_ns
    begun, ended = [], []
    for _ in range(calls):
        begun.append(clock())
        function(*args, **kwargs)
        ended.append(clock())
    return begun, ended


async def serve_async(
    function: Callable[..., Awaitable[object]], args: Sequence[Any], kwargs: Mapping[str, Any], calls: int
) -> tuple[list[int], list[int]]:
    """Await the function `calls` times, one after the other; return when each call began and when it ended."""
    clock = now_ns
    begun, ended = [], []
    for _ in range(calls):
        begun.append(clock())
        await function(*args, **kwargs)
        ended.append(clock())
    return begun, ended
