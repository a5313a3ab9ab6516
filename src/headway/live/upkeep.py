"""The duties of a collector, or a watcher, to the processes that record for it: signs of life, and a bound on memory.

A process that records keeps its events in memory until we have copied them. If we are gone, nobody takes them any more;
so the process waits for a sign of life (native/trace/control.h) and records nothing without one. If we are only slow,
events pile up; so the process may have no more of them than a part of what its control groups still leave to it.

A thread of our own does both: the other threads may wait for a disk.
"""

import contextlib
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Final, final

from headway.host.memory import groups_of, memory_left_bytes

if TYPE_CHECKING:
    from headway.native import Collection

__all__ = ["LEAST_CHUNKS", "Upkeep"]

LEAST_CHUNKS: Final = 64
"""The chunks of memory that a process gets in any case."""
_BEAT_S: Final = 0.5
"""The time between two signs of life; native/trace/session.h has the time without one after which we count as gone."""
_LOOK_S: Final = 1.0
"""The time between two looks at the memory that is left."""
_PART: Final = 8
"""The events of all processes of a control group may have one part in so many of the memory that is left."""


@final
class _Kept:
    """One process that records."""

    def __init__(self, groups: str) -> None:
        self.groups = groups
        self.chunks = self.least = LEAST_CHUNKS


@final
class Upkeep:
    """Takes care of processes that record, until it is closed."""

    def __init__(self) -> None:
        """Begin with no process."""
        self._lock = threading.Lock()
        self._all: dict[Collection, _Kept] = {}
        self._left_bytes: dict[str, int] = {}
        """The memory that is left, by control groups."""
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, collection: "Collection", pid: int) -> None:
        """Begin to take care of a process."""
        one = _Kept(groups_of(pid))
        left_bytes = _left_bytes(one.groups)
        with self._lock:
            self._all[collection] = one
            self._left_bytes[one.groups] = left_bytes
            collection.beat()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="headway-upkeep", daemon=True)
                self._thread.start()

    def remove(self, collection: "Collection") -> None:
        """Take care of a process no longer: its collection is about to be closed."""
        with self._lock:
            self._all.pop(collection, None)

    def share(self, collection: "Collection", chunks: int, least: int = LEAST_CHUNKS) -> None:
        """Limit a process to `chunks` chunks of memory: fewer where little memory is left, but never below `least`."""
        with self._lock:
            one = self._all[collection]
            one.chunks, one.least = chunks, least
            self._divide([collection])

    def _divide(self, collections: "list[Collection]") -> None:
        """Give processes their share of the memory that is left. The lock must be held."""
        from headway.native import CHUNK_BYTES

        numbers = Counter(one.groups for one in self._all.values())
        for collection in collections:
            one = self._all[collection]
            most = self._left_bytes[one.groups] // _PART // numbers[one.groups] // CHUNK_BYTES
            collection.share(min(one.chunks, max(one.least, most)))

    def close(self) -> None:
        """Take care of no process any more."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        looked_s = time.monotonic()
        while not self._closed.wait(_BEAT_S):
            with self._lock:
                for collection in self._all:
                    collection.beat()
                groups = {one.groups for one in self._all.values()}
            now_s = time.monotonic()
            if now_s - looked_s >= _LOOK_S:
                looked_s = now_s
                left_bytes = {one: _left_bytes(one) for one in groups}
                with self._lock:
                    # A process that has come meanwhile keeps what was found for it.
                    self._left_bytes |= left_bytes
                    present = {one.groups for one in self._all.values()}
                    self._left_bytes = {one: left for one, left in self._left_bytes.items() if one in present}
                    self._divide(list(self._all))


def _left_bytes(groups: str) -> int:
    with contextlib.suppress(OSError, ValueError):
        return memory_left_bytes(groups)
    return 1 << 62  # it is not known
