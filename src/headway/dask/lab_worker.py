"""The part of a lab run that a Dask worker carries out: one block of launches after the other. The store is elsewhere.

A worker that measures has one thread for it, which sets up the run's environment, launches, and tears it down again:
pinned cores belong to a thread, and a launched process ends with the thread that launched it. The lab's own lock allows
one run at a time on a machine, and this module allows one at a time in this process. A run whose client is gone ends
by itself.
"""

import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar, final

from headway.errors import HeadwayError
from headway.lab.design import Cell
from headway.lab.kept.launched import Launch
from headway.lab.kept.settings import Settings
from headway.lab.launching.lock import only_lab
from headway.lab.launching.request import Request
from headway.lab.launching.runner import Ready, plan_of, ready, ready_again
from headway.lab.plan import Plan

__all__ = ["NotBegunError", "begin", "begin_again", "end", "launch"]

_R = TypeVar("_R")
_TAKEN_S: Final = 60.0
"""How long after its last launch a run keeps another one from this process."""
_IDLE_S: Final = 600.0
"""How long after its last launch a run ends: its client is gone, or begins again if other machines took so long."""


class NotBegunError(RuntimeError):
    """The run was begun by another process than this one."""


@final
@dataclass
class _Open:
    """A run that this process has begun."""

    token: str
    cluster: str
    open: contextlib.ExitStack
    launcher: Callable[[Sequence[Cell], int], list[Launch]]
    used_s: float = 0.0
    """The time of the last use (time.monotonic())."""
    timer: threading.Timer | None = None
    """Ends the run after _IDLE_S."""

    def use(self) -> None:
        """Note a use of the run, which is over now."""
        self.used_s = time.monotonic()
        self.stop_timer()
        self.timer = threading.Timer(_IDLE_S, _in_the_thread, [functools.partial(_end_idle, self.token)])
        self.timer.daemon = True
        self.timer.start()

    def stop_timer(self) -> None:
        """Let the run go on, or be ended, without the timer."""
        if self.timer is not None:
            self.timer.cancel()

    def end(self) -> None:
        """Release what the run uses."""
        self.stop_timer()
        self.open.close()


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


def _end(token: str) -> None:
    found = _now.pop(token, None)
    if found is not None:
        found.end()


def _end_idle(token: str) -> None:
    if token in _now and time.monotonic() - _now[token].used_s >= _IDLE_S:
        _end(token)


def _begin(token: str, cluster: str, made: Callable[[], Ready]) -> Ready:
    for one in list(_now.values()):
        # The same run is another client's that continues it: the client before has ended, or has lost this worker.
        left_s = one.used_s + _TAKEN_S - time.monotonic()
        if one.cluster != cluster and left_s > 0:
            raise HeadwayError(
                f"cluster run {one.cluster} measures on this machine, by the same worker",
                hint=f"wait until it ends, or for {left_s:.0f} s if its `headway lab` is gone",
            )
        _end(one.token)
    with contextlib.ExitStack() as opened:
        opened.enter_context(only_lab())
        found = made()
        launcher = opened.enter_context(found.launcher)
        _now[token] = _Open(token, cluster, opened.pop_all(), launcher)
    _now[token].use()
    return found


def begin(token: str, request: Request, cluster: str, host: str) -> tuple[Settings, Plan]:
    """Make this machine ready for a new run; return the run's settings and plan.

    Args:
        token: Identifies the run in later calls.
        request: The run to make.
        cluster: The name that the runs of all machines have in common.
        host: The name of this machine.

    Raises:
        HeadwayError: Another cluster run measures here.
        Others: As `headway.lab.run`.
    """

    def work() -> tuple[Settings, Plan]:
        from dataclasses import replace

        found = _begin(token, cluster, lambda: ready(request))
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
        HeadwayError: Another cluster run measures here.
        Others: As `headway.lab.resume`.
    """

    def work() -> tuple[Settings, Plan]:
        found = _begin(token, settings.cluster, lambda: ready_again(settings, plan_of(settings, cells), left))
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
        try:
            return os.getpid(), list(_now[token].launcher(cells, block))
        finally:
            _now[token].use()

    return _in_the_thread(work)


def end(token: str) -> None:
    """End a begun run, and release what it uses; do nothing if it has ended."""
    _in_the_thread(functools.partial(_end, token))
