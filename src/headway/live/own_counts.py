"""Asks the watcher of this process for its counts of this process: event loops' laps, and stalls by kind and cause.

The watcher answers from its own memory (headway.live.door), whatever this process does, and for the process that asks:
the kernel tells it which one that is. A watcher that does not answer costs the thread that asks half a second, at most
once in five seconds, and ever less often.
"""

import _socket  # gevent and eventlet replace `socket`: a thread that asks would let others run while it holds a lock
import logging
import os
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
"""The time after which a watcher that did not answer is asked again; it doubles with each failure in turn.

Each question to a stopped watcher takes a place in the queue at its socket, for which processes call that begin to record.
"""
_MOST_AGAIN_S: Final = 300.0
_MOST_BYTES: Final = 64 << 10
_NONE: Final = Counts(0, (), 0, {})


def _ask(path: str, family: int) -> bytes:
    """Return a watcher's answer; b"" if it does not count this process.

    Raises:
        OSError: There is no watcher, it does not answer in time, or it is another user's.
    """
    caller = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        # For each call by itself: this thread may wait long for the GIL between two of them.
        caller.settimeout(_PATIENCE_S)
        caller.connect(path)
        credentials = caller.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, struct.calcsize("3i"))
        if struct.unpack("3i", credentials)[1] not in (0, os.geteuid()):
            raise PermissionError(13, "the socket is another user's")
        caller.sendall(Door.question(family))
        answer = b""
        while more := caller.recv(_MOST_BYTES - len(answer)):
            answer += more
        return answer
    finally:
        caller.close()


@final
class _Watcher:
    """The watcher of this process, whichever that is; any thread may ask."""

    def __init__(self) -> None:
        # Protects the other attributes; held while the watcher is asked. Nothing under it may run code of the program or
        # let a greenlet wait: another one that then wants the lock would stop them all.
        self._lock = threading.Lock()
        self._door: tuple[str, int] | None = None
        self._found: Counts | None = None
        self._until_s = 0.0
        self._again_s = _AGAIN_S
        self._is_late = self._has_failed = False
        self._unsaid = ""

    def counts(self) -> Counts | None:
        """Return the counts of this process as of now; None if there are none, for a reason that `say` tells."""
        door = own_door()
        with self._lock:
            if door != self._door:  # another watcher, which may answer at once
                self._door, self._until_s, self._again_s = door, 0.0, _AGAIN_S
            if time.monotonic() >= self._until_s:
                self._found, fresh_s = self._asked(door)
                self._until_s = time.monotonic() + fresh_s
            return self._found

    def say(self) -> None:
        """Log why there are no counts that should be there, once. The caller holds no lock of ours."""
        with self._lock:
            why, self._unsaid = self._unsaid, ""
        if why:
            _LOG.warning("there are no metrics of event loops and stalls: the watcher does not answer: %s", why)

    def _asked(self, door: tuple[str, int] | None) -> tuple[Counts | None, float]:
        if door is None:
            return None, 0.0
        try:
            answer = _ask(*door)
            found = Counts.of_json(answer) if answer else None
        except (OSError, ValueError) as error:
            # Once, a watcher may be late: it has just been started, or the machine has far more work than cores. It is
            # late, too, if so many call that the queue at its socket is full.
            is_first, self._is_late = not self._is_late, isinstance(error, (TimeoutError, BlockingIOError))
            if not self._has_failed and not (is_first and self._is_late):
                self._has_failed = True
                self._unsaid = (error.strerror if isinstance(error, OSError) else None) or str(error)
            again_s, self._again_s = self._again_s, min(2 * self._again_s, _MOST_AGAIN_S)
            return None, again_s
        self._is_late, self._again_s = False, _AGAIN_S
        return found, _FRESH_S


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
        self._counted = _NONE, _NONE
        """The counts that have ended, and those that go on: replaced at once, as the process may fork at any time."""
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
            self._counted = _NONE, _NONE
            self.since_ns = time.time_ns()

    def now(self) -> Counts | None:
        """Return the totals up to now; None where no watcher watches this process, or it does not answer."""
        watcher = _watcher
        with self._lock:
            found = watcher.counts()
            if found is not None:
                before, last = self._counted
                if found.since_ns != last.since_ns:
                    before = before.plus(last)
                self._counted = before, found
                found = before.plus(found)
        watcher.say()
        return found


os.register_at_fork(after_in_child=OwnCounts.after_fork)
