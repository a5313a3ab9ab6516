"""Scheduling the GIL of this process: `headway.schedule("fair")`, and what a thread says of itself.

A policy decides who gets the GIL next and when the one that has it is asked for it (native/policy). It holds for all
threads of the process, those that run already included, and for forked children; there is one at a time.
"""

import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import final

from headway.agent.headway_agent.library import UnfitError
from headway.agent.headway_agent.scheduler import Scheduler, options_text
from headway.errors import SchedulingError
from headway.native import library_path, policies

__all__ = ["Schedule", "ScheduleCounts", "check", "schedule", "thread_priority"]


@dataclass(frozen=True)
class ScheduleCounts:
    """What happened at the main interpreter's GIL since the policy began."""

    acquires: int
    """Times a thread got the GIL."""
    asked: int
    """Times its holder was asked to let it go."""
    granted: int
    """Times a waiting thread was told that it is its turn."""
    barged: int
    """Of these, times another thread took it first."""
    graced: int
    """Times nobody was woken, since the GIL would be wanted back at once."""
    idle_ns: int
    """While the GIL was free and a thread wanted it."""
    wait_ns: int
    worst_wait_ns: int
    threads: int
    """That are known now."""
    without: int
    """Times a thread found no room and waited as without us."""
    rests: int
    """Times the GIL was left alone, as nobody had had to wait for it for long: nothing is counted until somebody has to."""
    early: int
    """Waits that ended because the holder was asked sooner than CPython would have asked."""
    early_wait_ns: int
    """How long these were, in all."""


_scheduler: Scheduler | None = None
_lock = threading.Lock()  # protects _scheduler's making, and that a policy begins or ends


def _the_scheduler() -> Scheduler:
    global _scheduler  # noqa: PLW0603 there is one per process
    if _scheduler is None:
        try:
            _scheduler = Scheduler(str(library_path()))
        except UnfitError as error:
            raise SchedulingError(f"the GIL of this process cannot be scheduled: {error}") from error
    return _scheduler


def check(policy: str, options: dict[str, int]) -> None:
    """Make sure that a policy is there and has these options.

    Raises:
        SchedulingError: It is not, or has not.
        NativeError: The native library is missing or does not fit.
    """
    if "/" in policy:
        if not Path(policy).is_file():
            raise SchedulingError(f"there is no policy at {policy}", hint="name a shared library that holds one")
        return
    built_in, engine = policies()
    named = {one.name: one for one in built_in}
    if policy not in named:
        raise SchedulingError(
            f"there is no policy {policy!r}",
            hint=f"there are {', '.join(named)}, and your own by the path of a library: see `headway policies`",
        )
    known = {one.name: one for one in (*named[policy].options, *engine)}
    for name, value in options.items():
        option = known.get(name)
        if option is None:
            raise SchedulingError(f"the policy {policy} has no option {name!r}", hint=f"it has {', '.join(known)}")
        if isinstance(value, bool) or not isinstance(value, int) or not option.least <= value <= option.most:
            raise SchedulingError(
                f"{name} is {value!r}, expected a whole number from {option.least} to {option.most}",
                hint=f"{option.about}; without it: {option.preset}",
            )


@final
class Schedule:
    """What `schedule()` gives: the policy that is on, until stop() or the end of a `with`."""

    def __init__(self, policy: str) -> None:
        self.policy = policy
        self._over = False

    def __enter__(self) -> "Schedule":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def active(self) -> bool:
        """It is on: it was not stopped, and the watchdog has not removed it."""
        return not self._over and _the_scheduler().active != ""

    def counts(self) -> ScheduleCounts:
        """Return what happened so far. Raises SchedulingError when the policy was stopped."""
        found = {} if self._over else _the_scheduler().counts()
        if not found:
            raise SchedulingError(f"the policy {self.policy} is not on any more")
        return ScheduleCounts(**found)

    def stop(self) -> None:
        """Put CPython's own behaviour back. Stopping twice does nothing."""
        with _lock:
            if not self._over:
                self._over = True
                _the_scheduler().stop()


def schedule(policy: str = "fair", **options: int) -> Schedule:
    """Have a policy schedule the GIL of this process from now on; with `with`, until the end of the block.

    Args:
        policy: A name that `headway policies` lists, or the path of a shared library that holds one.
        options: Its options and the engine's, whole numbers; units stand in their names (`latency_us=20000`).

    Raises:
        SchedulingError: There is no such policy or option, a policy is on already, or this interpreter's GIL cannot be
            scheduled (it has none, is linked statically, or is not CPython 3.8 to 3.15 on Linux).
        NativeError: The native library is missing or does not fit.
    """
    check(policy, options)
    with _lock:
        try:
            _the_scheduler().start(policy, options_text(options))
        except UnfitError as error:
            raise SchedulingError(f"the GIL of this process cannot be scheduled by {policy}: {error}") from error
    return Schedule(policy)


def thread_priority(priority: int = 0, *, urgent: bool = False) -> None:
    """Say how the calling thread is to fare, under this policy and those to come, from when it next wants the GIL.

    Args:
        priority: As nice(2): from -20, the most favoured, to 19; each step is worth a quarter of GIL time more or less.
        urgent: Its latency matters most: it waits for nobody's turn. It gets no more GIL time for it.

    Raises:
        SchedulingError: The priority is none, or the process cannot be scheduled.
        NativeError: The native library is missing or does not fit.
    """
    try:
        _the_scheduler().hint(priority, urgent)
    except ValueError as error:
        raise SchedulingError(str(error)) from error
    except UnfitError as error:
        raise SchedulingError(f"this thread cannot be scheduled: {error}") from error
