"""The part of a lab run that a Dask worker carries out: one block of launches after the other. The store is elsewhere.

A worker that measures has one thread for it, which sets up the run's environment, launches, and tears it down again:
pinned cores belong to a thread, and a launched process ends with the thread that launched it. The lab's own lock allows
one run at a time on a machine.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar, final

from headway.lab.design import Cell
from headway.lab.kept.launched import Launch
from headway.lab.kept.settings import Settings
from headway.lab.launching.lock import only_lab
from headway.lab.launching.request import Request
from headway.lab.launching.runner import Ready, plan_of, ready, ready_again
from headway.lab.plan import Plan

__all__ = ["NotBegunError", "begin", "begin_again", "end", "launch"]

_R = TypeVar("_R")


class NotBegunError(RuntimeError):
    """The run was begun by another process than this one."""


@final
@dataclass
class _Open:
    """A run that this process has begun."""

    token: str
    ready: Ready
    open: contextlib.ExitStack
    launcher: Callable[[Sequence[Cell], int], list[Launch]]


_lock = threading.Lock()  # protects the creation of _thread
_thread: ThreadPoolExecutor | None = None
_now: dict[str, _Open] = {}
"""The begun run by its token; only _thread touches it."""
_LAB: Final = "headway-lab"


def _in_the_thread(work: Callable[[], _R]) -> _R:
    global _thread  # noqa: PLW0603 there is one per process
    with _lock:
        if _thread is None:
            _thread = ThreadPoolExecutor(1, thread_name_prefix=_LAB)
    return _thread.submit(work).result()


def _end() -> None:
    for token in list(_now):
        _now.pop(token).open.close()


def _begin(token: str, made: Callable[[], Ready]) -> Ready:
    _end()
    with contextlib.ExitStack() as opened:
        opened.enter_context(only_lab())
        found = made()
        launcher = opened.enter_context(found.launcher)
        _now[token] = _Open(token, found, opened.pop_all(), launcher)
    return found


def begin(token: str, request: Request, cluster: str, host: str) -> tuple[Settings, Plan]:
    """Make this machine ready for a new run; return the run's settings and plan.

    Args:
        token: Identifies the run in later calls.
        request: The run to make.
        cluster: The name that the runs of all machines have in common.
        host: The name of this machine.

    Raises:
        As `headway.lab.run`.
    """

    def work() -> tuple[Settings, Plan]:
        from dataclasses import replace

        found = _begin(token, lambda: ready(request))
        return replace(found.settings, cluster=cluster, host=host), found.plan

    return _in_the_thread(work)


def begin_again(token: str, settings: Settings, cells: Sequence[Cell], left: Sequence[Cell]) -> tuple[Settings, Plan]:
    """Make this machine ready to continue a run that was begun on it; return the run's settings and plan.

    Args:
        token: Identifies the run in later calls.
        settings: The run's settings.
        cells: All cells of the run.
        left: The cells that may get further launches.

    Raises:
        As `headway.lab.resume`.
    """

    def work() -> tuple[Settings, Plan]:
        found = _begin(token, lambda: ready_again(settings, plan_of(settings, cells), left))
        return found.settings, found.plan

    return _in_the_thread(work)


def launch(token: str, cells: Sequence[Cell], block: int) -> tuple[int, list[Launch]]:
    """Launch one cell, or several cells that take turns, for a block; return this process's id and the launches.

    Raises:
        NotBegunError: This process has not begun the run.
    """

    def work() -> tuple[int, list[Launch]]:
        if token not in _now:
            raise NotBegunError(token)
        return os.getpid(), list(_now[token].launcher(cells, block))

    return _in_the_thread(work)


def end() -> None:
    """End all begun runs, and release what they use."""
    _in_the_thread(_end)
