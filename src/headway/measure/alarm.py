"""An alarm that wakes a task of an event loop at a time, and neither before nor a millisecond later.

Timers of loops are rounded to whole milliseconds: asyncio's and trio's upwards, uvloop's from a clock that is itself
truncated, so that a sleep may end too early. A timer of the kernel is a file that becomes readable at its time, which
every loop can wait for.
"""

import ctypes
import os
from types import TracebackType
from typing import Self, final

from headway.measure import loops, work

__all__ = ["Alarm"]

_MONOTONIC, _ABSOLUTE = 1, 1


class _Time(ctypes.Structure):
    """`struct timespec`."""

    _fields_ = (("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long))


class _Setting(ctypes.Structure):
    """`struct itimerspec`."""

    _fields_ = (("it_interval", _Time), ("it_value", _Time))


@final
class Alarm:
    """Lets one task of the running loop sleep until times of `work.now_ns`, whose clock is that of the timer."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._file = self._checked(self._libc.timerfd_create(_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC))

    @staticmethod
    def _checked(result: int) -> int:
        if result < 0:
            raise OSError(ctypes.get_errno(), f"timerfd: {os.strerror(ctypes.get_errno())}")
        return result

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    async def until(self, at_ns: int) -> None:
        """Return at a time; at once if it has come already."""
        if work.now_ns() >= at_ns:
            return
        setting = _Setting(it_value=_Time(*divmod(at_ns, 1_000_000_000)))
        self._checked(self._libc.timerfd_settime(self._file, _ABSOLUTE, ctypes.byref(setting), None))
        await loops.readable(self._file)
        os.read(self._file, 8)
