"""Where the lab's files go: a folder on a disk, one in memory (tmpfs), one on a second file system.

Every launch that writes files has folders of its own below ours, which carry the runner's process number. They are
removed after the launch; the keeper removes them when the runner is killed, and the next run removes whatever a crash
of the machine left.
"""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from headway.errors import UsageError
from headway.lab.paths import cache_folder

__all__ = ["NAMES", "Volume", "Volumes", "find_volumes", "remove_folders"]

NAMES = ("disk", "tmpfs", "second")

_IN_MEMORY = frozenset({"tmpfs", "ramfs", "hugetlbfs", "devtmpfs"})
_OWN = re.compile(r"headway-lab-(\d+)-(\d+)-")
_MARGIN = 1.2
"""Free space wanted, over what the files take: a file system without any left is a trouble to others."""


@final
@dataclass(frozen=True)
class Volume:
    """A file system that we may write to.

    Attributes:
        name: "disk", "tmpfs" or "second".
        folder: Where we write, a folder that is there.
        type: The file system's type: "ext4".
        device: `st_dev`: tells file systems apart.
    """

    name: str
    folder: Path
    type: str
    device: int

    def free_bytes(self) -> int:
        """Return what an unprivileged writer may still use; in memory no more than half of what is available there."""
        status = os.statvfs(self.folder)
        free = status.f_bavail * status.f_frsize
        return min(free, _available_bytes() // 2) if self.type in _IN_MEMORY else free


def _available_bytes() -> int:
    """Return the memory that can be had without swapping: MemAvailable of proc_meminfo(5)."""
    text = Path("/proc/meminfo").read_text(encoding="ascii")
    match = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


def _type(folder: Path) -> str:
    """Return the type of the file system that holds `folder`: proc_pid_mountinfo(5)."""
    best, kind = "", ""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
        for line in mounts:
            fields = line.split()
            point = fields[4].encode().decode("unicode_escape")
            inside = folder == Path(point) or Path(point) in folder.parents
            # Of two mounts at one point, the later hides the earlier.
            if inside and len(point) >= len(best):
                best, kind = point, fields[fields.index("-") + 1]
    return kind


def _candidates(name: str) -> Iterator[Path]:
    home = Path.home()
    if name == "tmpfs":
        yield Path("/dev/shm")
        if os.environ.get("XDG_RUNTIME_DIR"):
            yield Path(os.environ["XDG_RUNTIME_DIR"])
        yield Path("/tmp")
        return
    yield cache_folder()
    yield from (home, Path("/var/tmp"), Path("/tmp"))
    if name == "second":
        with contextlib.suppress(OSError):
            yield from sorted(path for root in ("/mnt", "/media", "/srv") for path in Path(root).iterdir())


def _volume(name: str, folder: Path) -> Volume | None:
    folder = folder.resolve()
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK) or not os.statvfs(folder).f_blocks:
        return None  # The last: /proc and the like, which hold no files of ours.
    return Volume(name, folder, _type(folder), folder.stat().st_dev)


def _named(name: str) -> Volume | None:
    """Return the volume that `HEADWAY_DISK`, `HEADWAY_TMPFS` or `HEADWAY_SECOND` names."""
    variable = f"HEADWAY_{name.upper()}"
    folder = os.environ.get(variable)
    if not folder:
        return None
    found = _volume(name, Path(folder))
    if found is None:
        raise UsageError(f"{variable} is {folder}, which is no folder that we may write to", hint="name another")
    if (name == "tmpfs") != (found.type in _IN_MEMORY):
        raise UsageError(
            f"{variable} is {folder}, a {found.type or 'unknown file system'}; expected "
            + ("one in memory (tmpfs)" if name == "tmpfs" else "one on a disk"),
            hint="name another, or unset it",
        )
    return found


@final
@dataclass(frozen=True)
class Volumes:
    """The volumes of this machine, by name; one that it lacks is not there."""

    found: Mapping[str, Volume]

    def why_not(self, space: Mapping[str, int]) -> str:
        """Return why files of so many bytes cannot be written, or ""."""
        for name, needed in space.items():
            volume = self.found.get(name)
            if volume is None:
                what = {"disk": "on a disk", "tmpfs": "in memory (tmpfs)", "second": "on a second file system"}[name]
                return f"there is no folder {what} that we may write to (set HEADWAY_{name.upper()})"
            free = volume.free_bytes()
            if free < needed * _MARGIN:
                return (
                    f"{volume.folder} has {free / 2**20:,.1f} MiB free, it takes {needed * _MARGIN / 2**20:,.1f} MiB "
                    f"(set HEADWAY_{name.upper()} to another folder)"
                )
        return ""

    def make_folders(self, names: Sequence[str]) -> dict[str, str]:
        """Make a launch's folders and return their paths by volume. Raises OSError."""
        prefix = f"headway-lab-{os.getuid()}-{os.getpid()}-"
        made: dict[str, str] = {}
        try:
            for name in names:
                made[name] = tempfile.mkdtemp(prefix=prefix, dir=self.found[name].folder)
        except BaseException:
            remove_folders(made)
            raise
        return made

    def sweep(self) -> None:
        """Remove folders of runners of ours that are no more."""
        for volume in self.found.values():
            for entry in volume.folder.glob("headway-lab-*"):
                match = _OWN.match(entry.name)
                if match and int(match[1]) == os.getuid() and not Path(f"/proc/{match[2]}").exists():
                    shutil.rmtree(entry, ignore_errors=True)


def remove_folders(folders: Mapping[str, str]) -> None:
    """Remove a launch's folders with what is in them."""
    for folder in folders.values():
        shutil.rmtree(folder, ignore_errors=True)


def find_volumes() -> Volumes:
    """Return the volumes of this machine.

    `HEADWAY_DISK`, `HEADWAY_TMPFS` and `HEADWAY_SECOND` name folders of one's own choice.

    Raises:
        UsageError: One of these names something else.
    """
    found: dict[str, Volume] = {}
    for name in NAMES:
        candidates = (_volume(name, folder) for folder in _candidates(name))
        volume = _named(name) or next((one for one in candidates if one and _fits(name, one, found)), None)
        if volume is None and name == "second" and {"disk", "tmpfs"} <= found.keys():
            # Two disks are rare; memory beside the disk is a second file system all the same.
            other = found["tmpfs"]
            volume = Volume(name, other.folder, other.type, other.device)
        if volume is not None:
            found[name] = volume
    return Volumes(found)


def _fits(name: str, volume: Volume, found: Mapping[str, Volume]) -> bool:
    if (name == "tmpfs") != (volume.type in _IN_MEMORY):
        return False
    return name != "second" or "disk" not in found or volume.device != found["disk"].device
