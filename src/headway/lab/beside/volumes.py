"""The places of the lab's files: a folder on a disk, one in memory (tmpfs), and one on a second file system.

Every launch that writes files has its own folders, named with the runner's process number, in the volume's folder. They
are removed after the launch. The keeper removes them if the runner is killed, and the next run removes the remains of a
crash of the machine.
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
from headway.host.memory import available_memory_bytes
from headway.host.own_folders import mark, remove_own
from headway.host.paths import cache_folder, home_folder

__all__ = ["NAMES", "Volume", "Volumes", "find_volumes", "remove_folders"]

NAMES = ("disk", "tmpfs", "second")

_MOUNTS = "/proc/self/mountinfo"
_IN_MEMORY = frozenset({"tmpfs", "ramfs", "hugetlbfs", "devtmpfs"})
_OWN = re.compile(r"headway-lab-(\d+)-(\d+)-(\d+)-")
_MARGIN = 1.2
"""The required free space, as a multiple of the files' size: a full file system would disturb other programs."""


@final
@dataclass(frozen=True)
class Volume:
    """A file system that the user may write to.

    Attributes:
        name: "disk", "tmpfs" or "second".
        folder: An existing folder for the lab's files.
        type: The file system's type, such as "ext4".
        device: The `st_dev` of the folder, which distinguishes file systems.
    """

    name: str
    folder: Path
    type: str
    device: int

    def free_bytes(self) -> int:
        """Return the bytes that an unprivileged writer may still use; in memory, at most half of what is available."""
        status = os.statvfs(self.folder)
        free = status.f_bavail * status.f_frsize
        return min(free, available_memory_bytes() // 2) if self.type in _IN_MEMORY else free


def _type(folder: Path) -> str:
    """Return the type of the file system that holds `folder`: proc_pid_mountinfo(5)."""
    best, kind = "", ""
    with open(_MOUNTS, encoding="utf-8", errors="surrogateescape", newline="\n") as mounts:
        for line in mounts:
            fields = line.split(" ")  # other white space may be part of a name
            point = _unescaped(fields[4])
            inside = folder == Path(point) or Path(point) in folder.parents
            # If two mounts have the same point, the later one hides the earlier one.
            if inside and len(point) >= len(best):
                best, kind = point, fields[fields.index("-") + 1]
    return kind


def _unescaped(text: str) -> str:
    """Return a path of mountinfo, in which a space, a tab, a line end and a backslash are octal escapes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def _candidates(name: str) -> Iterator[Path]:
    if name == "tmpfs":
        yield Path("/dev/shm")
        if os.environ.get("XDG_RUNTIME_DIR"):
            yield Path(os.environ["XDG_RUNTIME_DIR"])
        yield Path("/tmp")
        return
    yield cache_folder()
    if (home := home_folder()) is not None:
        yield home
    yield from (Path("/var/tmp"), Path("/tmp"))
    for root in ("/mnt", "/media", "/srv") if name == "second" else ():
        with contextlib.suppress(OSError):
            yield from sorted(Path(root).iterdir())


def _volume(name: str, folder: Path) -> Volume | None:
    folder = Path(os.path.realpath(folder))  # Path.resolve() fails on a link that loops
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK) or not os.statvfs(folder).f_blocks:
        return None  # No blocks: /proc and the like, which cannot hold the lab's files.
    return Volume(name, folder, _type(folder), folder.stat().st_dev)


def _named(name: str) -> Volume | None:
    """Return the volume that `HEADWAY_DISK`, `HEADWAY_TMPFS` or `HEADWAY_SECOND` names."""
    variable = f"HEADWAY_{name.upper()}"
    folder = os.environ.get(variable)
    if not folder:
        return None
    found = _volume(name, Path(folder))
    if found is None:
        raise UsageError(f"{variable} is {folder}, expected a folder that you may write to", hint="name another folder")
    if name != "second" and (name == "tmpfs") != (found.type in _IN_MEMORY):
        raise UsageError(
            f"{variable} is {folder}, a {found.type or 'unknown file system'}; expected "
            + ("one in memory (tmpfs)" if name == "tmpfs" else "one on a disk"),
            hint="name another folder, or unset the variable",
        )
    return found


@final
@dataclass(frozen=True)
class Volumes:
    """The volumes of this machine, by name; a missing volume has no entry."""

    found: Mapping[str, Volume]

    def why_not(self, space: Mapping[str, int]) -> str:
        """Return why files of these sizes cannot be written, or ""."""
        for name, needed in space.items():
            volume = self.found.get(name)
            if volume is None:
                what = {"disk": "on a disk", "tmpfs": "in memory (tmpfs)", "second": "on a second file system"}[name]
                return f"there is no folder {what} that you may write to (set HEADWAY_{name.upper()})"
            free = volume.free_bytes()
            if free < needed * _MARGIN:
                return (
                    f"{volume.folder} has {free / 2**20:,.1f} MiB free, but the files take {needed * _MARGIN / 2**20:,.1f} MiB "
                    f"(set HEADWAY_{name.upper()} to another folder)"
                )
        return ""

    def make_folders(self, names: Sequence[str]) -> dict[str, str]:
        """Make a launch's folders and return their paths by volume. Raises OSError."""
        prefix = f"headway-lab-{os.getuid()}-{_process_space()}-{os.getpid()}-"
        made: dict[str, str] = {}
        try:
            for name in names:
                made[name] = tempfile.mkdtemp(prefix=prefix, dir=self.found[name].folder)
                mark(Path(made[name]))
        except BaseException:
            remove_folders(made)
            raise
        return made

    def sweep(self) -> None:
        """Remove the folders of this user's runners that no longer exist."""
        for volume in self.found.values():
            for entry in volume.folder.glob("headway-lab-*"):
                match = _OWN.match(entry.name)
                ours = match and (int(match[1]), int(match[2])) == (os.getuid(), _process_space())
                if match and ours and not Path(f"/proc/{match[3]}").exists():
                    remove_own(entry)

    def to_json(self) -> dict[str, dict[str, str]]:
        """Return each volume's folder and type, to be stored with a run."""
        return {name: {"folder": str(one.folder), "type": one.type} for name, one in self.found.items()}


def _process_space() -> int:
    """Return the number of the process namespace, which tells process numbers of containers apart: pid_namespaces(7).

    Containers may share the folder.
    """
    return os.stat("/proc/self/ns/pid").st_ino


def remove_folders(folders: Mapping[str, str]) -> None:
    """Remove a launch's folders with their content."""
    for folder in folders.values():
        shutil.rmtree(folder, ignore_errors=True)


def find_volumes() -> Volumes:
    """Return the volumes of this machine.

    The user may choose folders with `HEADWAY_DISK`, `HEADWAY_TMPFS` and `HEADWAY_SECOND`.

    Raises:
        UsageError: One of the variables names something else than a suitable folder.
    """
    found: dict[str, Volume] = {}
    for name in NAMES:
        candidates = (_volume(name, folder) for folder in _candidates(name))
        volume = _named(name) or next((one for one in candidates if one and _fits(name, one, found)), None)
        if volume is None and name == "second" and {"disk", "tmpfs"} <= found.keys():
            # Machines with two disks are rare; memory counts as a second file system beside the disk.
            other = found["tmpfs"]
            volume = Volume(name, other.folder, other.type, other.device)
        if volume is not None:
            found[name] = volume
    return Volumes(found)


def _fits(name: str, volume: Volume, found: Mapping[str, Volume]) -> bool:
    if (name == "tmpfs") != (volume.type in _IN_MEMORY):
        return False
    return name != "second" or "disk" not in found or volume.device != found["disk"].device
