"""The rounds of a benchmark: batches of calls, and loads of many calls at once; `open_load` has open loads.

A *source* runs one round: `once(calls)` returns a `Round`, or an awaitable of one if the function is async. The steps
of a benchmark are generators that yield such values and receive them back awaited (see `drive`), so that each step is
written once for sync and async functions.
"""

import inspect
import pickle
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol, final

from headway.agent.headway_agent.library import gil_enabled
from headway.agent.headway_agent.model import MODELS, open_model
from headway.errors import NativeError, RecordingError, UsageError
from headway.measure import loops, work

__all__ = [
    "WORKERS",
    "Batches",
    "Begins",
    "Lag",
    "Load",
    "Round",
    "Source",
    "Steps",
    "Target",
    "Watch",
    "drop",
    "refuse_inside",
]

Steps = Generator[Any, Any, Any]
"""A generator that yields values that may be awaitable, receives them back awaited, and returns the final value."""

WORKERS = {"threads": "threads", "processes": "processes-spawn", "interpreters": "interpreters"}
"""Short name of a kind of worker -> the agent's model."""

_LAG_PERIOD_S = 0.005


def drop(awaitable: object) -> None:
    """Close a coroutine that will never be awaited, so that Python does not warn about it."""
    if inspect.iscoroutine(awaitable):
        awaitable.close()


_CALLED: ContextVar[str] = ContextVar("called", default="")
"""The name of the function whose first call runs now."""


@final
class _FirstCall:
    """The awaitable that a first call has returned; what runs while it is awaited is still a part of that call."""

    def __init__(self, name: str, awaited: Awaitable[Any]) -> None:
        self._name, self._awaited = name, awaited

    def __await__(self) -> Generator[Any, None, Any]:
        token = _CALLED.set(self._name)
        try:
            result = yield from _through(self._awaited).__await__()
        finally:
            _CALLED.reset(token)
        _refuse_unused(self._name, result)
        return result


async def _through(awaited: Awaitable[Any]) -> Any:
    return await awaited


def _refuse_unused(name: str, result: object) -> None:
    """Raise UsageError if a function returned something whose iteration does the work, which is not measured then.

    Other iterators, such as files and cursors, may be the whole result of a function's work.
    """
    if isinstance(result, AsyncGenerator):
        raise UsageError(
            f"{name} returns an async generator: its iteration would not be measured",
            hint="give a function that consumes it: `async def use_up(): [one async for one in function()]`",
        )
    if isinstance(result, Generator | map | filter | zip):
        what = "a generator" if isinstance(result, Generator) else f"an iterator (`{type(result).__name__}`)"
        raise UsageError(
            f"{name} returns {what}: its iteration would not be measured",
            hint="give a function that consumes it: `lambda: list(function())`",
        )


def refuse_inside() -> None:
    """Raise UsageError if a function that is measured begins a benchmark itself."""
    if _CALLED.get():
        raise UsageError(
            f"{_CALLED.get()} is measured, and calls `headway` itself",
            hint="measure the inner function alone: `headway(function, *args)`",
        )


@final
@dataclass
class Target:
    """A function with its arguments.

    Attributes:
        function: The function.
        args, kwargs: The arguments.
        awaits: The function is plain, and its first call returned an awaitable.
    """

    function: Callable[..., Any]
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    awaits: bool = False

    def check(self) -> None:
        """Raise UsageError if it is no function, or a coroutine that has been called already."""
        given: object = self.function
        if inspect.isawaitable(given):
            drop(given)
            raise UsageError(
                "the argument is a coroutine, which can be awaited only once",
                hint="give the function and its arguments: `await headway(fetch, url)`, not `headway(fetch(url))`",
            )
        if not callable(self.function):
            raise UsageError(f"{self.function!r} is not a function", hint="headway(function, *args)")
        if inspect.isasyncgenfunction(self.function):
            raise UsageError(
                f"{self.name} is an async generator: only its creation would be measured, and not its iteration",
                hint="give a function that consumes it: `async def use_up(): [one async for one in generator()]`",
            )

        if inspect.isgeneratorfunction(self.function):
            raise UsageError(
                f"{self.name} is a generator: only its creation would be measured, and not its iteration",
                hint="give a function that consumes it: `lambda: list(generator())`",
            )

    @property
    def name(self) -> str:
        """The function's name."""
        inner = getattr(self.function, "func", self.function)
        return str(getattr(inner, "__name__", None) or type(inner).__name__)

    @property
    def is_async(self) -> bool:
        """Whether the function must be awaited.

        That includes async partials, methods and callable objects, and functions that have returned an awaitable.
        """
        if self.awaits:
            return True
        called = getattr(self.function, "__call__", None)  # noqa: B004
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(called)

    def first_call(self) -> Any:
        """Call the function, note whether its result is an awaitable, and return the result, or an awaitable of it.

        Raises:
            UsageError: The function is plain, returns an awaitable, and no loop runs that could await it. Or it returns
                a generator, or another iterator that computes its values only when they are taken.
        """
        token = _CALLED.set(self.name)
        try:
            result = self.function(*self.args, **self.kwargs)
        finally:
            _CALLED.reset(token)
        if not self.is_async and inspect.isawaitable(result):
            if loops.running() is None:
                what = "a coroutine" if inspect.iscoroutine(result) else f"an awaitable ({type(result).__name__})"
                drop(result)
                raise UsageError(
                    f"{self.name} returns {what} that is not awaited, so nothing would be measured",
                    hint="call it from an async test, `await headway(function)`, or give a function that is `async def`",
                )
            self.awaits = True
        if inspect.isawaitable(result):
            return _FirstCall(self.name, result)
        _refuse_unused(self.name, result)
        return result


@final
@dataclass(frozen=True)
class Begins:
    """The begins of an open load's calls.

    Attributes:
        calls: The number of calls.
        late: The number of calls that began more than `LATE_NS` after their time.
        latest_ns: The longest time that a call began after its time.
        took_ns: From the first call's time to the last begin.
        asked_ns: From the first call's time to the last one's.
    """

    calls: int
    late: int
    latest_ns: int
    took_ns: int
    asked_ns: int


@final
@dataclass(frozen=True)
class Round:
    """The measurements of one round.

    Attributes:
        took_ns: The time from its first call to its last return.
        calls: The number of its calls.
        latencies_ns: The latency of each call, if calls were timed one by one.
        held, waited: The shares of its threads' time, if the GIL was measured.
        stretches_s: For an open load: the median latency of each of its stretches.
        begins: For an open load: how its calls began.
        cpu_ns: The CPU time of this process in the meantime.
    """

    took_ns: int
    calls: int
    latencies_ns: Sequence[int] = ()
    held: float | None = None
    waited: float | None = None
    stretches_s: tuple[float, ...] = ()
    begins: Begins | None = None
    cpu_ns: int = 0


class Source(Protocol):
    """Runs rounds."""

    def once(self, calls: int) -> "Round | Awaitable[Round]":
        """Run a round of `calls` calls, of each task."""
        ...

    def close(self) -> None:
        """Stop everything that it started."""
        ...


@final
class Watch:
    """Measures the GIL times of the thread that measures, if they are wanted and available."""

    def __init__(self, *, wanted: bool) -> None:
        self._times: Callable[[], Any] | None = None
        self.note = ""
        if not wanted:
            return
        from headway.live.recording import gil_times

        try:
            gil_times()
        except (RecordingError, NativeError) as error:
            self.note = error.message
        else:
            self._times = gil_times

    def __bool__(self) -> bool:
        return self._times is not None

    def read(self) -> tuple[int, int]:
        """Return how long the calling thread has held the GIL and waited for it so far, in nanoseconds."""
        return tuple(self._times()) if self._times else (0, 0)

    def since(self, before: tuple[int, int]) -> tuple[int, int]:
        """Return how long the calling thread has held the GIL and waited for it since `before`, in nanoseconds."""
        held_ns, waited_ns = self.read()
        return held_ns - before[0], waited_ns - before[1]

    def shares(self, held_ns: int, waited_ns: int, of_ns: int) -> tuple[float, float] | tuple[None, None]:
        """Return both as shares of `of_ns`; None, None if the GIL is not measured. Without a GIL both are 0."""
        if self and not gil_enabled():
            return 0.0, 0.0  # the times are those of waits for locks
        return (min(1.0, held_ns / of_ns), min(1.0, waited_ns / of_ns)) if self else (None, None)


def _round(watch: Watch, before: tuple[int, int], took_ns: int, calls: int, latencies_ns: Sequence[int] = ()) -> Round:
    held, waited = watch.shares(*watch.since(before), took_ns)
    return Round(took_ns, calls, latencies_ns, held, waited)


@final
class Batches:
    """One call after the other, timed together."""

    def __init__(self, target: Target, watch: Watch) -> None:
        self._watch = watch
        self._async = target.is_async
        make = work.async_timer if self._async else work.timer
        self._timer = make(target.function, target.args, target.kwargs)

    def once(self, calls: int) -> Round | Awaitable[Round]:
        """Run a batch."""
        if self._async:
            return self._awaited(calls)
        before = self._watch.read()
        return _round(self._watch, before, self._timer(calls), calls)

    async def _awaited(self, calls: int) -> Round:
        before = self._watch.read()
        return _round(self._watch, before, await self._timer(calls), calls)

    def close(self) -> None:
        """Do nothing: nothing was started."""


def _serve_watched(
    watch: Watch, target: Target, calls: int, ready: threading.Barrier
) -> tuple[list[int], list[int], int, int]:
    """Serve in a worker thread, and return also how long it held the GIL and waited for it.

    No worker begins before all have read their times: a worker's wait for its first turn is a wait for the GIL.
    """
    before = watch.read()
    ready.wait()
    begun, ended = work.serve(target.function, target.args, target.kwargs, calls)
    return begun, ended, *watch.since(before)


def _check_travels(target: Target) -> None:
    """Raise UsageError if a function and its arguments cannot go to another process or interpreter."""
    try:
        pickle.dumps((target.function, tuple(target.args), dict(target.kwargs)))
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        raise UsageError(
            f"{target.name} cannot go to another process or interpreter: {error}",
            hint="give a function of a module, and not a lambda or a function inside a test",
        ) from error


@final
class Load:
    """Several tasks at once, each with several calls one after the other, all of them timed.

    `model` is "serial" for calls one after the other without any task, "loop" for tasks of the running loop, or a model
    of the agent with workers.
    """

    def __init__(self, target: Target, tasks: int, model: str, watch: Watch) -> None:
        self._target, self._tasks, self._watch = target, tasks, watch
        self._pool = None
        if model not in {"serial", "loop", "threads"}:
            _check_travels(target)
        self._in_threads = model == "threads"
        if model in MODELS and model != "serial":
            self._pool = open_model(model, tasks)
            try:
                self._pool.start()
                if model == "interpreters":
                    self._pool.on_each(work.take_path, sys.path)
                # A worker that imports longer than others in a round would begin its task later.
                self._pool.on_each(work.arrive, target.function, tuple(target.args), dict(target.kwargs))
            except BaseException as error:
                self._pool.close()
                if isinstance(error, Exception):
                    raise UsageError(f"the model {model!r} cannot start: {error}", hint="another model") from error
                raise

    def once(self, calls: int) -> Round | Awaitable[Round]:
        """Run all tasks once."""
        target = self._target
        if target.is_async:
            return self._awaited(calls)
        if self._pool is None:
            before = self._watch.read()
            begun, ended = work.serve(target.function, target.args, target.kwargs, calls)
            latencies = [end - begin for begin, end in zip(begun, ended, strict=True)]
            return _round(self._watch, before, ended[-1] - begun[0], calls, latencies)
        if self._in_threads and self._watch:
            work_of_one = (self._watch, target, calls, threading.Barrier(self._tasks))
            return self._of(self._pool.run(_serve_watched, [work_of_one] * self._tasks))
        serve = (target.function, tuple(target.args), dict(target.kwargs), calls)
        return self._of(self._pool.run(work.serve, [serve] * self._tasks))

    async def _awaited(self, calls: int) -> Round:
        target, before = self._target, self._watch.read()

        async def one() -> tuple[list[int], list[int]]:
            return await work.serve_async(target.function, target.args, target.kwargs, calls)

        answers = [await one()] if self._tasks == 1 else await loops.gather([one] * self._tasks)
        found = self._of(answers)
        return _round(self._watch, before, found.took_ns, found.calls, found.latencies_ns)

    def _of(self, answers: Sequence[Sequence[Any]]) -> Round:
        # In the order of their begins, calls that are slow at the same time are neighbours.
        calls = sorted(one for begun, ended, *_ in answers for one in zip(begun, ended, strict=True))
        latencies = [end - begin for begin, end in calls]
        first_ns = min(begun[0] for begun, *_ in answers)
        took_ns = max(ended[-1] for _, ended, *_ in answers) - first_ns
        if len(answers[0]) == 2:
            return Round(took_ns, len(latencies), latencies)
        lived_ns = sum(ended[-1] - first_ns for _, ended, *_ in answers) or 1
        held_ns, waited_ns = (sum(one[place] for one in answers) for place in (2, 3))
        held, waited = self._watch.shares(held_ns, waited_ns, lived_ns)
        return Round(took_ns, len(latencies), latencies, held, waited)

    def close(self) -> None:
        """End the workers."""
        if self._pool is not None:
            self._pool.close()


@final
class Lag:
    """Measures the lag of the event loop while it watches: how much longer than 5 ms a sleep of 5 ms takes."""

    def __init__(self) -> None:
        self.found_s: list[float] = []
        self._done = False

    async def watch(self) -> None:
        """Measure until `stop`."""
        while not self._done:
            begun_ns = work.now_ns()
            await loops.sleep(_LAG_PERIOD_S)
            self.found_s.append(max(0.0, (work.now_ns() - begun_ns) / 1e9 - _LAG_PERIOD_S))

    def restart(self) -> None:
        """Prepare for another `watch`."""
        self._done = False

    def stop(self) -> None:
        """End `watch`."""
        self._done = True
