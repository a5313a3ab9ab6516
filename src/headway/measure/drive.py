"""Drives the steps of a benchmark: for plain functions at once, and for async ones in the running loop."""

import inspect
from typing import Any

from headway.errors import UsageError
from headway.measure.rounds import Steps, drop

__all__ = ["await_steps", "begin_steps", "run_steps"]


def begin_steps(steps: Steps) -> tuple[bool, Any]:
    """Run steps until one yields an awaitable; return (False, the awaitable), or (True, the final value)."""
    value = None
    try:
        while True:
            value = steps.send(value)
            if inspect.isawaitable(value):
                return False, value
    except StopIteration as end:
        return True, end.value
    except RuntimeError as error:
        stop = _through_steps(error)
        if stop is None:
            raise
        raise stop from None


def _through_steps(error: RuntimeError) -> StopIteration | None:
    """Return the StopIteration that Python turned into this error in a generator of Headway (PEP 479), or None."""
    stop = error.__cause__
    if not isinstance(stop, StopIteration) or stop.__traceback__ is None:
        return None
    # The traceback starts at the generator that the exception ended. If that is the user's, the error is the user's
    # own.
    module = str(stop.__traceback__.tb_frame.f_globals.get("__name__", ""))
    return stop if module.startswith("headway.") else None


def run_steps(steps: Steps) -> Any:
    """Run steps of plain functions to their end and return the final value.

    Raises:
        UsageError: A step yielded an awaitable.
    """
    done, value = begin_steps(steps)
    if done:
        return value
    drop(value)
    error = UsageError(
        "a set-up or tear-down is async, but its function is not",
        hint="make the function async, or the set-up and tear-down plain functions",
    )
    # The error is thrown into the steps, which clean up and raise it again.
    value = steps.throw(error)
    while True:
        drop(value)
        value = steps.send(None)


async def await_steps(steps: Steps, given: Any = None) -> Any:
    """Run steps to their end in the running loop, await each awaitable, and return the final value.

    Args:
        steps: The steps; if they have begun (see `begin_steps`), they continue.
        given: The last awaitable that they yielded, to await first; None if they have not begun.
    """
    value = given
    try:
        while True:
            if not inspect.isawaitable(value):
                value = steps.send(value)
            while inspect.isawaitable(value):
                try:
                    value = await value
                except BaseException as error:  # noqa: BLE001  (it goes on into the steps)
                    # The error is thrown into the steps, which clean up: a tear-down may have to be awaited, too.
                    value = steps.throw(error)
    except StopIteration as end:
        return end.value
    finally:
        steps.close()
