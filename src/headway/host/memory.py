"""The memory that this machine and its control groups leave to a process."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["available_memory_bytes", "groups_of", "memory_left_bytes"]

_GROUPS = Path("/sys/fs/cgroup")
_PROCESSES = Path("/proc")


def available_memory_bytes() -> int:
    """Return the memory available to this process without swapping, limited by its control groups."""
    return memory_left_bytes(groups_of("self"))


def groups_of(pid: int | str) -> str:
    """Return the control groups of a process, as in cgroups(7); "" if the process has ended."""
    with contextlib.suppress(OSError):
        return (_PROCESSES / str(pid) / "cgroup").read_text(encoding="utf-8", errors="surrogateescape")
    return ""


def memory_left_bytes(groups: str, *, with_active: bool = False) -> int:
    """Return MemAvailable of proc_meminfo(5), limited by control groups: the result of `groups_of`.

    `with_active` counts all file pages as left: the kernel gives up those in use, too, before it kills a process.
    """
    text = (_PROCESSES / "meminfo").read_text(encoding="ascii")
    match = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    caches = ["inactive_file", "active_file"] if with_active else ["inactive_file"]
    return min([int(match[1]) * 1024 if match else 0, *_left_by_groups(groups, caches)])


def _left_by_groups(groups: str, caches: Sequence[str]) -> Iterator[int]:
    """Yield limit minus usage of each control group: cgroups(7), version 2, then 1.

    The usage includes file pages that nobody has used for a while, which the kernel gives up before it swaps.
    """
    for line in groups.splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0":
            root, limit, used, prefix = _GROUPS, "memory.max", "memory.current", ""
        elif "memory" in controllers.split(","):
            root, prefix = _GROUPS / "memory", "total_"
            limit, used = "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        here = root / path.lstrip("/")
        for folder in (here, *here.parents):
            # In a container the path may be the host's, and "max" means no limit.
            with contextlib.suppress(OSError, ValueError):
                left = int((folder / limit).read_text()) - int((folder / used).read_text())
                yield max(0, left + sum(_cached_bytes(folder, prefix + one) for one in caches))
            if folder == root:
                break


def _cached_bytes(folder: Path, name: str) -> int:
    """Return a figure of a control group's memory.stat, in bytes; 0 if it is not there."""
    with contextlib.suppress(OSError, ValueError):
        fields = dict(line.split(" ", 1) for line in (folder / "memory.stat").read_text().splitlines())
        return int(fields.get(name, 0))
    return 0
