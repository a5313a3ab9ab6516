"""The private prefix: which interpreters it may hold, which are complete, and how one gets in."""

import contextlib
import datetime as dt
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.host.own_folders import OWN
from headway.provision.archive import ProvisionError
from headway.provision.commands import Talk, scratch_folder

__all__ = [
    "TARGETS",
    "Site",
    "Target",
    "exclusive",
    "is_complete",
    "prefix_folder",
    "read_marker",
    "replace_marker",
    "write_marker",
]

MARKER = ".headway-complete"


@dataclass(frozen=True)
class Target:
    """An interpreter this tool can provide; `name` is both its folder and the end of its binary's name."""

    name: str
    from_source: bool

    @property
    def binary(self) -> str:
        """The executable's name."""
        return f"python{self.name}"


# The packaged ones first: they take seconds, the build takes minutes.
TARGETS = (Target("3.14", from_source=False), Target("3.15", from_source=False), Target("3.13t", from_source=True))


@dataclass(frozen=True)
class Site:
    """Where things go, and what the user asked for.

    Attributes:
        prefix: holds one folder per interpreter.
        cache: apt's private state, patchelf, logs and scratch; safe to delete between runs.
        jobs: parallel jobs for `make` and for byte-compiling.
        with_tests: also add CPython's own test modules to the packaged interpreters.
    """

    prefix: Path
    cache: Path
    jobs: int
    with_tests: bool
    talk: Talk

    def home(self, target: Target) -> Path:
        """The folder of an interpreter."""
        return self.prefix / target.name

    def log(self, target: Target) -> Path:
        """The log of its provisioning."""
        return self.cache / "logs" / f"{target.name}.log"


def read_marker(home: Path) -> dict[str, Any] | None:
    """The completion marker of the interpreter in `home`, or None where there is no complete interpreter.

    A folder that was moved or copied here is not complete: loader, rpath and prefix are absolute paths inside it.
    """
    try:
        marker = json.loads((home / MARKER).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    binary = home / "bin" / f"python{home.name}"
    if not isinstance(marker, dict) or not os.access(binary, os.X_OK):
        return None
    return marker if marker.get("prefix") == os.path.realpath(home) else None


def is_complete(site: Site, target: Target) -> bool:
    """Whether `target` is there with everything that was asked for (test modules exist for the packaged ones only)."""
    marker = read_marker(site.home(target))
    return marker is not None and (target.from_source or not site.with_tests or bool(marker.get("tests")))


def write_marker(site: Site, target: Target, *, source: str, how: str, report: Mapping[str, Any]) -> None:
    """Declare the interpreter complete. Must come last; only CPython's own tests may be added afterwards."""
    home = site.home(target)
    marker = {
        "version": report["version"],
        "source_package": source,
        "built_at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "how": how,
        "prefix": os.path.realpath(home),
        "tests": False,
        "built_without": report["missing"],
    }
    replace_marker(home, marker)


def replace_marker(home: Path, marker: Mapping[str, Any]) -> None:
    """Write the marker of `home` in one step, so that a reader never sees half of it."""
    scratch = home / f"{MARKER}.new"
    scratch.write_text(json.dumps(marker, indent=2) + "\n", "utf-8")
    scratch.replace(home / MARKER)


@contextlib.contextmanager
def prefix_folder(site: Site, target: Target) -> Iterator[Path]:
    """`<prefix>/3.X.part`, to be filled and renamed by settle(); afterwards there is a complete interpreter or none.

    Beside the final place, so that the rename is one within a file system. The lock must be held.
    """
    home = site.home(target)
    part = home.with_name(f"{home.name}.part")
    for folder in (home, part):
        if os.path.lexists(folder) and not any((folder / name).is_file() for name in (MARKER, OWN)):
            raise ProvisionError(
                f"{folder} is there and was not made by Headway", hint="move it, or set HEADWAY_INTERPRETERS"
            )
        shutil.rmtree(folder, ignore_errors=True)
    with scratch_folder(part):
        (part / OWN).touch()
        try:
            yield part
        finally:
            if not (home / MARKER).exists():
                shutil.rmtree(home, ignore_errors=True)


@contextlib.contextmanager
def exclusive(site: Site) -> Iterator[None]:
    """Hold both locks, so that runs which share the prefix or only the cache take turns; always in this order."""
    with contextlib.ExitStack() as stack:
        for folder in (site.prefix, site.cache):
            folder.mkdir(parents=True, exist_ok=True)
            # Not unlinked at the end: another run could then lock a file that no third run sees.
            file = stack.enter_context((folder / ".lock").open("w"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                site.talk.tell(f"waiting for another run (lock {file.name})")
                fcntl.flock(file, fcntl.LOCK_EX)
        yield
