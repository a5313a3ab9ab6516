"""The event loop of a benchmark: asyncio's, or trio's; a loop such as uvloop's counts as asyncio's.

Only `run` starts a loop; it is for tests that are not async themselves.
"""

import importlib
import sys
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from typing import Any, Literal

from headway.errors import UsageError
from headway.measure import work

__all__ = [
    "LOOPS",
    "Library",
    "Task",
    "gather",
    "gathered",
    "pause",
    "readable",
    "run",
    "running",
    "runs_in",
    "sleep",
    "task_cost_s",
]

Library = Literal["asyncio", "trio"]
Task = Callable[[], Awaitable[Any]]
"""A function that is called in a task."""

LOOPS = ("asyncio", "uvloop", "trio")
"""The loops that `run` can start."""

_TASKS = 200
_ROUNDS = 5


def running() -> Library | None:
    """Return the library whose loop runs in this thread now, or None."""
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        return "trio"
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return None
        return "asyncio"
    return None


def runs_in(loop: str) -> bool:
    """Tell whether the loop that runs in this thread is one of `LOOPS`; that of uvloop is asyncio's, too."""
    if loop != "uvloop":
        return running() == loop
    if running() != "asyncio":
        return False
    import asyncio

    return any(one.__module__ == "uvloop" for one in type(asyncio.get_running_loop()).__mro__)


async def sleep(seconds: float) -> None:
    """Sleep in the running loop. A test may have replaced the libraries' own `sleep` by one that does not wait."""
    if running() == "trio":
        import trio

        with trio.move_on_after(seconds):
            await trio.sleep_forever()
        return
    import asyncio

    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    timer = loop.call_later(seconds, over.set)
    try:
        await over.wait()
    finally:
        timer.cancel()


async def pause() -> None:
    """Let the loop's other tasks run once."""
    if running() == "trio":
        import trio

        await trio.lowlevel.checkpoint()
    else:
        await _one_turn()


@types.coroutine
def _one_turn() -> Generator[None, None, None]:
    """Yield to asyncio's loop once, as `asyncio.sleep(0)` does."""
    yield


async def readable(file: int) -> None:
    """Wait until a file can be read."""
    if running() == "trio":
        import trio

        await trio.lowlevel.wait_readable(file)
        return
    import asyncio

    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(file, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(file)


async def gather(tasks: Sequence[Task]) -> list[Any]:
    """Run all at once, in a task each, and return the results in order; raise the first error and cancel the others."""

    async def begin_all(begin: Callable[[Task], None]) -> None:
        for task in tasks:
            begin(task)

    return await gathered(begin_all)


async def gathered(begin_all: Callable[[Callable[[Task], None]], Awaitable[None]]) -> list[Any]:
    """Let `begin_all` begin tasks, wait for them, and return the results in the order in which they began.

    The first error, also one of `begin_all`, is raised and cancels the rest.
    """
    results: list[Any] = []

    async def one(place: int, task: Task) -> None:
        results[place] = await task()

    if running() == "trio":
        import trio

        def begin_in_nursery(task: Task) -> None:
            results.append(None)
            nursery.start_soon(one, len(results) - 1, task)

        try:
            async with trio.open_nursery() as nursery:
                await begin_all(begin_in_nursery)
        except BaseExceptionGroup as group:
            raise _first(group) from None
        return results
    import asyncio

    def begin_in_group(task: Task) -> None:
        # The group keeps no task that has ended; each would take many times the memory of its result.
        results.append(None)
        all_of_them.create_task(one(len(results) - 1, task))

    try:
        async with asyncio.TaskGroup() as all_of_them:
            await begin_all(begin_in_group)
    except BaseExceptionGroup as group:
        raise _first(group) from None
    return results


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _nothing() -> None:
    """Do nothing, as the body of a task."""


async def task_cost_s() -> float:
    """Return the running loop's time for a task that does nothing, in seconds: created, run and awaited.

    The result is the least of a few rounds of one task after the other. A call costs this much in addition if each call
    is a task of its own; figures of awaits do not include it.
    """
    found = []
    for _ in range(_ROUNDS):
        begun = work.now_ns()
        if running() == "trio":
            import trio

            for _ in range(_TASKS):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_nothing)
        else:
            import asyncio

            loop = asyncio.get_running_loop()
            for _ in range(_TASKS):
                await loop.create_task(_nothing())
        found.append((work.now_ns() - begun) / _TASKS / 1e9)
    return min(found)


def run(main: Callable[[], Coroutine[Any, Any, Any]], loop: str = "") -> Any:
    """Run a coroutine function in a loop of its own, asyncio's if `loop` is "", and return its result.

    Raises:
        UsageError: The loop is none of `LOOPS`, or its library is not installed.
    """
    loop = loop or LOOPS[0]
    if loop not in LOOPS:
        raise UsageError(f"no loop is called {loop!r}", hint=f"one of {', '.join(LOOPS)}")
    try:
        library = importlib.import_module(loop)
    except ImportError as error:
        raise UsageError(f"the loop {loop!r} is not installed: {error}", hint=f"install {loop}") from error
    if loop == "trio":
        return library.run(main)
    import asyncio

    factory = library.new_event_loop if loop == "uvloop" else None
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main())
