"""Processes of the program that are not watched: a line on stderr tells of them, and so does the log's note of gaps.

Without the note, `headway stalls` would say that nothing stalled.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from headway.live.stall_log import note_gap_now

if TYPE_CHECKING:
    from headway.live.door import Reception
    from headway.live.watched import Watched

__all__ = ["Unwatched"]

_PAUSE_NS: Final = 1_000_000_000
"""The time between two looks at the door."""


@final
class Unwatched:
    """The processes that a watcher would watch, and does not."""

    def __init__(self, log: Path, door: Path, say: Callable[[str], None], hook: Path | None) -> None:
        """Begin without any.

        Args:
            log: The watcher's log.
            door: The socket at which processes call.
            say: Prints a line on stderr.
            hook: The file of Headway's by which each Python that the program starts finds us; None: there is none.
        """
        self._log, self._door, self._say, self._hook = log, door, say, hook
        self._lost = self._told = self._look_ns = 0
        self._was_gone_ns = -_PAUSE_NS
        self._is_door_gone = self._is_hook_gone = False

    def refused(self, why: str) -> None:
        """Tell that a process that has called is not watched, and why."""
        text = f"a process is not watched: {why}"
        self._say(text)
        note_gap_now(self._log, text)

    def see(self, one: "Watched", now_ns: int) -> None:
        """Tell of further children of a watched process that could not call, if there are any."""
        more = one.ring.lost_children - one.lost_children
        if more <= 0:
            return
        one.lost_children += more
        self._lost += more
        if self._lost == 1:
            text = f"a child of process {one.ring.pid} is not watched: it did not reach the watcher"
        else:
            text = (
                f"{self._lost} children are not watched, the last one of process {one.ring.pid}:"
                " they did not reach the watcher"
            )
        if not os.path.lexists(self._door) or now_ns - self._was_gone_ns < _PAUSE_NS:
            text += f", whose socket {self._door} was gone"
        else:
            text += " (its limits, `ulimit -n`, `-v` or `-f`, may be too low, or its root folder another one)"
        note_gap_now(self._log, text)
        if self._lost >= 2 * self._told:  # a server may fork for each request
            self._told = self._lost
            self._say(text)

    def keep_door(self, reception: "Reception", now_ns: int) -> None:
        """Have the door made again if it is gone, and tell if that is not possible: nothing else tells of later processes."""
        if now_ns < self._look_ns:
            return
        self._look_ns = now_ns + _PAUSE_NS
        why = ""
        if not os.path.lexists(self._door):
            self._was_gone_ns = now_ns
            why = reception.make_door_again()
        if why and not self._is_door_gone:
            self._tell_of_later(f"the watcher's socket {self._door} is gone, and cannot be made again ({why})")
        self._is_door_gone = bool(why)
        # An upgrade, or the removal of an environment, under a service that goes on.
        is_gone = self._hook is not None and not os.path.lexists(self._hook)
        if is_gone and not self._is_hook_gone:
            self._tell_of_later(f"Headway was removed or replaced since the watch began ({self._hook} is gone)")
        self._is_hook_gone = is_gone

    def _tell_of_later(self, why: str) -> None:
        text = f"{why}: processes that begin now are not watched"
        self._say(text)
        note_gap_now(self._log, text)
