"""Asks the watcher of this process for its counts of this process: event loops' laps, and stalls by kind and cause.

The watcher answers from its own memory (headway.live.door), whatever this process does, and for the process that asks:
the kernel tells it which one that is. A watcher that does not answer costs the thread that asks half a second, at most
once in five seconds.
"""

import logging
import os
import socket
import struct
import threading
import time
import weakref
from typing import ClassVar, Final, final

from headway.live.door import Door
from headway.live.watchers_counts import Counts
from headway.live.watching import own_door

__all__ = ["OwnCounts"]

_LOG = logging.getLogger("headway.gil")
_PATIENCE_S: Final = 0.5
"""The time that an answer may take; the watcher may be writing a recording of another process."""
_FRESH_S: Final = 0.1
"""An answer serves all metrics of one export, so that they fit each other."""
_AGAIN_S: Final = 5.0
"""The time after which a watcher that did not answer is asked again."""
_MOST_BYTES: Final = 64 << 10
_NONE: Final = Counts(0, (), 0, {})


def _ask(path: str, family: int) -> bytes:
    """Return a watcher's answer; b"" if it does not count this process.

    Raises:
        OSError: There is no watcher, it does not answer in time, or it is another user's.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        # For each call by itself: this thread may wait long for the GIL between two of them.
        caller.settimeout(_PATIENCE_S)
        caller.connect(path)
        credentials = caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        if struct.unpack("3i", credentials)[1] not in (0, os.geteuid()):
            raise PermissionError(13, "the socket is another user's")
        caller.sendall(Door.question(family))
        answer = b""
        while more := caller.recv(_MOST_BYTES - len(answer)):
            answer += more
        return answer


@final
class _Watcher:
    """The watcher of this process, whichever that is; any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # protects the other attributes; held while the watcher is asked
        self._found: Counts | None = None
        self._until_s = 0.0
        self._is_late = self._has_said = False

    def counts(self) -> Counts | None:
        """Return the counts of this process as of now; None if there are none, the log says once if they should be there."""
        with self._lock:
            if time.monotonic() >= self._until_s:
                self._found, fresh_s = self._asked()
                self._until_s = time.monotonic() + fresh_s
            return self._found

    def _asked(self) -> tuple[Counts | None, float]:
        door = own_door()
        if door is None:
            return None, 0.0
        try:
            answer = _ask(*door)
            self._is_late = False
            return Counts.of_json(answer) if answer else None, _FRESH_S
        except (OSError, ValueError) as error:
            # Once, a watcher may be late: it has just been started, or the machine has far more work than cores.
            is_first, self._is_late = not self._is_late, isinstance(error, TimeoutError)
            if not self._has_said and not (is_first and self._is_late):
                self._has_said = True
                why = (error.strerror if isinstance(error, OSError) else None) or str(error)
                _LOG.warning("there are no metrics of event loops and stalls: the watcher does not answer: %s", why)
            return None, _AGAIN_S


_watcher = _Watcher()


@final
class OwnCounts:
    """The counts of this process, whose totals go on where it is watched anew. Any thread may call it."""

    _all: ClassVar[weakref.WeakSet["OwnCounts"]] = weakref.WeakSet()

    def __init__(self, *, goes_on: bool = False) -> None:
        """Begin with empty totals.

        Args:
            goes_on: A forked child goes on from its parent's totals: else its totals begin at 0.
        """
        self._goes_on = goes_on
        self._lock = threading.Lock()  # protects the other attributes; held while the watcher is asked
        self._before = self._last = _NONE
        """The counts that have ended, and those that go on."""
        self.since_ns = time.time_ns()
        """The start of these totals (time.time_ns())."""
        self._all.add(self)

    @classmethod
    def after_fork(cls) -> None:
        """Reset all in a forked child, which has counts of its own, and no other thread to release a lock."""
        global _watcher  # noqa: PLW0603 there is one per process
        _watcher = _Watcher()
        for one in list(cls._all):
            one._begin_in_child()  # noqa: SLF001 its own class

    def _begin_in_child(self) -> None:
        self._lock = threading.Lock()
        if not self._goes_on:
            self._before = self._last = _NONE
            self.since_ns = time.time_ns()

    def now(self) -> Counts | None:
        """Return the totals up to now; None where no watcher watches this process, or it does not answer."""
        with self._lock:
            found = _watcher.counts()
            if found is None:
                return None
            if found.since_ns != self._last.since_ns:
                self._before = self._before.plus(self._last)
            self._last = found
            return self._before.plus(found)


os.register_at_fork(after_in_child=OwnCounts.after_fork)
