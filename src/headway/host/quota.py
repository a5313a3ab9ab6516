"""The CPU quota of this process: what its cgroups allow, in cores. Linux, from /proc and /sys, cgroups of both versions."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["quota_cores", "quotas"]

_CGROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
_HIERARCHIES: Final = ("cpu", "cpu,cpuacct", "cpuacct,cpu")
"""The folders of version 1's hierarchy with the CPU controller; distributions link the first to one of the others."""


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _groups() -> Iterator[tuple[int, Path]]:
    """Yield the version and the folder of each cgroup that binds this process: its own ones and those above them.

    In a container the folder of the own one may be missing: the container's view then begins at a group above it.
    """
    for line in _read(_OWN).splitlines() or ["0::/", "0:cpu:/"]:
        controllers, _, path = line.partition(":")[2].partition(":")
        if not controllers:
            version, roots = 2, [_CGROUPS]
        elif "cpu" in controllers.split(","):
            version, roots = 1, [root for name in _HIERARCHIES if (root := _CGROUPS / name).is_dir()][:1]
        else:
            continue
        for root in roots:
            own = root / path.lstrip("/")
            yield from ((version, one) for one in (own, *own.parents) if one.is_relative_to(root))


def quotas() -> list[float]:
    """Return what each cgroup of this process allows, in cores; infinity stands for a group without a limit.

    Raises:
        ValueError, ZeroDivisionError: A file has a form that we do not know.
    """
    found = []
    for version, group in _groups():
        names = ("cpu.max",) if version == 2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        words = " ".join(_read(group / name) for name in names).split()
        if words:
            quota, period = words
            found.append(math.inf if quota in {"max", "-1"} else int(quota) / int(period))
    return found


def quota_cores() -> float:
    """Return the CPU time that this process may use, in cores; infinite without a quota."""
    try:
        return min(quotas(), default=math.inf)
    except (ValueError, ZeroDivisionError):
        return math.inf
