"""The settings of a watcher, as the process that starts it needs them, and the names of Headway's own processes.

Nothing here costs a service memory.
"""

import socket
from pathlib import Path
from typing import Any, Final, NamedTuple, final

__all__ = [
    "BETWEEN_NAME",
    "COLLECTOR_NAME",
    "LEAST_NS",
    "LEAST_RING",
    "MOST_NS",
    "MOST_RING",
    "WATCHER_NAME",
    "Limits",
    "Options",
    "family_of",
]

LEAST_NS: Final = 10_000_000
MOST_NS: Final = 600_000_000_000
"""The bounds of the lengths that make a stall."""
LEAST_RING: Final = 1 << 20
MOST_RING: Final = 1 << 30
"""The bounds of the memory for events, in bytes."""

WATCHER_NAME: Final = b"headway-watch"
"""The name of the watcher's process."""
COLLECTOR_NAME: Final = b"headway-collect"
"""The name of the process that writes the traces of a launch."""
BETWEEN_NAME: Final = b"headway-between"
"""The name of the parent of a watcher whose program is a container's first process."""


@final
class Limits(NamedTuple):
    """The lengths in ns from which something is a stall, and the size of the ring."""

    loop_ns: int = 100_000_000
    wait_ns: int = 100_000_000
    request_ns: int = 1_000_000_000
    ring_bytes: int = 4 << 20

    @property
    def shortest_ns(self) -> int:
        """The shortest of the three lengths."""
        return min(self.loop_ns, self.wait_ns, self.request_ns)


@final
class Options(NamedTuple):
    """The settings of a watcher.

    Attributes:
        folder: Where recordings and the log go.
        name: The beginning of the names of recordings and log.
        pid: The process that is watched together with its children; the watcher ends when they have ended.
        limits: The lengths that make a stall, and the size of the ring.
        keep: The number of recordings with this name to keep in the folder; new ones replace the oldest.
        quiet: Print nothing on stderr.
        listen: The HOST:PORT that serves metrics and `/dump`; "": none.
        own: The process itself has started the watcher, which ends when no process is watched any more. Otherwise the
            watcher waits for the process's end: a shell script may start one interpreter after the other.
        sparing: Write one recording in 20 s, instead of one in 2 s, for stalls beyond 20 in 10 minutes.
        is_told: A line has said already why the program itself is out of reach.
    """

    folder: str
    name: str
    pid: int
    limits: Limits
    keep: int = 20
    quiet: bool = False
    listen: str = ""
    own: bool = False
    sparing: bool = True
    is_told: bool = False

    @property
    def log(self) -> Path:
        """The file that stalls are written to, one line each."""
        return Path(self.folder) / f"{self.name}.stalls.jsonl"

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON."""
        return {**self._asdict(), "limits": self.limits._asdict()}

    @classmethod
    def of(cls, found: dict[str, Any]) -> "Options":
        """Return the settings that to_json() gave."""
        return cls(**{**found, "limits": Limits(**found["limits"])})


def family_of(host: str) -> socket.AddressFamily:
    """Return the family of a host's address: one with a colon is of IPv6."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET
