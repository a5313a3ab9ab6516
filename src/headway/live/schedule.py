"""Scheduling the GIL of this process: `headway.schedule("fair")`, and the priority that a thread sets for itself.

A policy decides which thread gets the GIL next, and when the holder is requested to release it (native/policy). The
policy applies to all threads of the process, including those that run already, and to forked children. A process has
one policy at a time.
"""

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import final

from headway.agent.headway_agent.library import UnfitError
from headway.agent.headway_agent.scheduler import Scheduler, options_text
from headway.arguments import check_flag, check_text, check_whole
from headway.errors import SchedulingError
from headway.library import library_path
from headway.native import policies

__all__ = ["Schedule", "ScheduleCounts", "check", "schedule", "thread_priority"]


@dataclass(frozen=True)
class ScheduleCounts:
    """Counts and times at the main interpreter's GIL since the policy began."""

    acquires: int
    """How often a thread acquired the GIL."""
    asked: int
    """How often the holder received a request to release the GIL."""
    granted: int
    """How often a waiter was told that it is its turn."""
    barged: int
    """How many of these times another thread acquired the GIL first."""
    graced: int
    """How often no waiter was woken, because the GIL would be wanted back at once."""
    idle_ns: int
    """How long the GIL was free while a thread wanted it."""
    wait_ns: int
    worst_wait_ns: int
    threads: int
    """The number of threads that are known now."""
    without: int
    """How often a thread found no room, and waited as without Headway."""
    rests: int
    """How often the GIL rested, because no thread had waited for it for a while; nothing is counted during a rest."""
    early: int
    """How many waits ended because the holder received a request sooner than from CPython."""
    early_wait_ns: int
    """The total length of these waits."""
    early_elsewhere: int
    """As `early`, at the GILs of other interpreters."""


_scheduler: Scheduler | None = None
_lock = threading.RLock()  # held while a policy begins or ends, also by a signal handler that does so meanwhile


def _free_lock() -> None:
    global _lock  # noqa: PLW0603 a thread that does not exist in a forked child may have it
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_free_lock)


def _the_scheduler() -> Scheduler:
    global _scheduler  # noqa: PLW0603 there is one per process
    if _scheduler is None:
        try:
            _scheduler = Scheduler(str(library_path()))
        except UnfitError as error:
            raise SchedulingError(f"the GIL of this process cannot be scheduled: {error}") from error
    return _scheduler


def check(policy: str, options: dict[str, int]) -> None:
    """Check that a policy exists and has these options.

    Raises:
        SchedulingError: The policy does not exist, or does not have an option or its value.
        NativeError: The native library is missing or does not fit.
    """
    if "/" in policy:
        if not Path(policy).is_file():
            raise SchedulingError(
                f"there is no policy at {policy}", hint="name a shared library that contains a policy"
            )
        return
    built_in, engine = policies()
    named = {one.name: one for one in built_in}
    if policy not in named:
        raise SchedulingError(
            f"there is no policy {policy!r}",
            hint=f"the policies are {', '.join(named)}, or the path of your own policy's library: see `headway policies`",
        )
    known = {one.name: one for one in (*named[policy].options, *engine)}
    for name, value in options.items():
        option = known.get(name)
        if option is None:
            raise SchedulingError(
                f"the policy {policy} has no option {name!r}", hint=f"its options are {', '.join(known)}"
            )
        if isinstance(value, bool) or not isinstance(value, int) or not option.least <= value <= option.most:
            raise SchedulingError(
                f"{name} is {value!r}, expected a whole number from {option.least} to {option.most}",
                hint=f"{option.about}; without it: {option.preset}",
            )


@final
class Schedule:
    """A policy that is active until stop() or the end of a `with`; `schedule()` returns it."""

    def __init__(self, policy: str, number: int) -> None:
        self.policy = policy
        self._number = number

    def __enter__(self) -> "Schedule":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def active(self) -> bool:
        """Whether the policy is active: it was neither stopped nor replaced, and the watchdog has not removed it."""
        return self._number != 0 and _the_scheduler().number == self._number

    def counts(self) -> ScheduleCounts:
        """Return the counts so far. Raises SchedulingError if the policy is no longer active."""
        found = _the_scheduler().counts(self._number) if self.active else {}
        if not found:
            raise SchedulingError(f"the policy {self.policy} is no longer active")
        return ScheduleCounts(**found)

    def stop(self) -> None:
        """Restore CPython's own behaviour. Stopping twice does nothing, nor does it stop a policy that came later."""
        with _lock:
            if self._number:
                _the_scheduler().stop(self._number)
                self._number = 0


def schedule(policy: str = "fair", **options: int) -> Schedule:
    """Schedule the GIL of this process by a policy from now on; with `with`, until the end of the block.

    Args:
        policy: A name that `headway policies` lists, or the path of a shared library that contains a policy.
        options: The policy's options and the engine's, whole numbers; their names contain units (`latency_us=20000`).

    Raises:
        UsageError: The policy is no text.
        SchedulingError: There is no such policy or option, a policy is active already, or this interpreter's GIL cannot
            be scheduled (it has none, is linked statically, or is not CPython 3.8 to 3.15 on Linux).
        NativeError: The native library is missing or does not fit.
    """
    check_text(
        "policy", policy, hint="name one of `headway policies`, such as 'fair', or the path of a library as a text"
    )
    check(policy, options)
    with _lock:
        try:
            number = _the_scheduler().start(policy, options_text(options))
        except UnfitError as error:
            raise SchedulingError(f"the GIL of this process cannot be scheduled by {policy}: {error}") from error
    return Schedule(policy, number)


def thread_priority(priority: int = 0, *, urgent: bool = False) -> None:
    """Set the calling thread's priority, under this policy and later ones, from its next wait for the GIL on.

    Args:
        priority: As nice(2): from -20, the most favoured, to 19. A step towards -20 gives a quarter more
            GIL time, a step towards 19 a fifth less.
        urgent: The thread's latency matters most: the thread need not wait for its turn. It gets no more GIL time; if
            it computes, it takes turns like any other thread.

    Raises:
        UsageError: The priority is no whole number, or `urgent` is neither True nor False.
        SchedulingError: The priority is out of range, or the process cannot be scheduled.
        NativeError: The native library is missing or does not fit.
    """
    check_whole("priority", priority, expected="-20 to 19")
    check_flag("urgent", urgent)
    try:
        _the_scheduler().hint(priority, urgent)
    except ValueError as error:
        raise SchedulingError(str(error)) from error
    except UnfitError as error:
        raise SchedulingError(f"this thread cannot be scheduled: {error}") from error
