"""Renews a lease: an attached process stays recorded or scheduled only as long as its lease is renewed.

The process has made a page and sent its descriptor (native/base/lease.h). The page holds the time of expiry, which a
thread of ours moves forward. If we end for any reason, the renewals end, too, and seconds later the process by itself
goes back to CPython's own behaviour.

A process that executes another program keeps its id, and its page says nothing. But the memory that had the page is
gone, even if the new program is the same one at the same addresses.
"""

import contextlib
import ctypes
import enum
import fcntl
import mmap
import os
import stat
import threading
import time
from typing import final

from headway.errors import RecordingError
from headway.live.memory import Memory, mappings

__all__ = ["SPAN_S", "Ended", "Lease"]

SPAN_S = 5.0
"""How long a process goes on without hearing of us; headway_agent/library.py has the same value."""
_RENEW_S = 0.5
_NAME = "/memfd:headway-lease"
"""The beginning of the name of a page in the list of a process's mappings (native/base/lease.c)."""

_GET_SEALS, _SEAL_SHRINK = 1034, 2  # F_GET_SEALS, F_SEAL_SHRINK of <linux/fcntl.h>


class Ended(enum.IntEnum):
    """How a lease ended; native/base/lease.h has the same values, except the negative one."""

    REPLACED = -1
    """The process has executed another program; no process says so, and it is seen from outside."""

    LIVE = 0
    BY_HAND = 1
    """The process was told to end what the lease was for."""
    EXPIRED = 2
    """The process has not heard of us for too long."""
    WATCHDOG = 3
    """The policy's watchdog has removed it."""


class _Page(ctypes.Structure):
    """struct hw__lease_page."""

    _fields_ = (("until_ns", ctypes.c_int64), ("now_ns", ctypes.c_int64), ("ended", ctypes.c_int64))


@final
class Lease:
    """Renews a lease until it is closed."""

    def __init__(self, pid: int, descriptor: int) -> None:
        """Take over a descriptor that a process sent; the descriptor is closed in any case.

        Raises:
            RecordingError: The descriptor is no page of a lease, such as one that could be truncated while we write.
        """
        try:
            self._memory = _mapped(descriptor)
        except (OSError, ValueError) as error:
            raise RecordingError(f"process {pid} has sent no lease page: {error}") from None
        finally:
            os.close(descriptor)
        self._program = _Program(pid)
        self._page = _Page.from_buffer(self._memory)
        # The clocks of two time namespaces may differ. The message's travel time makes the lease that much shorter.
        self._offset_ns = int(self._page.now_ns) - time.monotonic_ns()
        self._closed = threading.Event()
        self._renew()
        self._thread = threading.Thread(target=self._keep_up, name="headway-lease", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop renewing the lease."""
        self._closed.set()
        self._thread.join()
        self._program.close()

    @property
    def ended(self) -> Ended:
        """Whether the lease is over, and why, as the process says or as its end shows."""
        said = int(self._page.ended)
        if said == Ended.LIVE:
            return Ended.REPLACED if self._program.is_replaced() else Ended.LIVE
        return Ended(said) if Ended.LIVE < said <= Ended.WATCHDOG else Ended.EXPIRED

    def _renew(self) -> None:
        # One store of eight bytes: ctypes stores a 64-bit word at once.
        self._page.until_ns = time.monotonic_ns() + self._offset_ns + int(SPAN_S * 1e9)

    def _keep_up(self) -> None:
        while not self._closed.wait(_RENEW_S):
            self._renew()


class _Program:
    """The program that has sent a page, and that maps it as long as it is the program of its process."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._memory: Memory | None = None
        self._address: int | None = None
        with contextlib.suppress(OSError, ValueError):  # a process that may not be looked at any more, or has ended
            self._memory = Memory(pid, read_only=True)
            # In this order, the page is never looked for in the memory of an earlier program.
            self._address = next((start for start, *_, path in mappings(pid) if path.startswith(_NAME)), None)

    def is_replaced(self) -> bool:
        """Return whether the process runs another program; False if that is not known, or the process has ended."""
        if self._memory is None or self._address is None:
            return False
        try:
            self._memory.read(self._address, 1)
        except OSError:  # the memory is gone
            from headway.live.lived import incarnation_of

            return incarnation_of(self._pid) is not None
        return False

    def close(self) -> None:
        """Close the memory; after that, nothing is known."""
        if self._memory is not None:
            self._memory.close()
            self._memory = None


def _mapped(descriptor: int) -> mmap.mmap:
    """Map the page of a lease, if it is sealed against truncation: a truncated page would end us by SIGBUS."""
    found = os.fstat(descriptor) if fcntl.fcntl(descriptor, _GET_SEALS) & _SEAL_SHRINK else None
    if found is None or not stat.S_ISREG(found.st_mode) or found.st_size != mmap.PAGESIZE:
        raise ValueError("the page is not sealed")
    return mmap.mmap(descriptor, mmap.PAGESIZE)
