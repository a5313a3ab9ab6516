"""The private prefix: the interpreters that it may hold, the markers of complete ones, and the locks for changes."""

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
    """An interpreter that Headway can provide; `name` is its folder, and the binary is `python` and the name."""

    name: str
    from_source: bool

    @property
    def binary(self) -> str:
        """The name of the executable."""
        return f"python{self.name}"


# The packaged interpreters are first, because they take seconds; the build takes minutes.
TARGETS = (Target("3.14", from_source=False), Target("3.15", from_source=False), Target("3.13t", from_source=True))


@dataclass(frozen=True)
class Site:
    """The places of files, and the options of the user.

    Attributes:
        prefix: Holds a folder for each interpreter.
        cache: Holds apt's private state, patchelf, logs and scratch folders; it may be deleted between runs.
        jobs: The parallel jobs of `make` and of byte-compilation.
        with_tests: Whether to add CPython's own test modules to the packaged interpreters.
        talk: Reports the progress.
    """

    prefix: Path
    cache: Path
    jobs: int
    with_tests: bool
    talk: Talk

    def home(self, target: Target) -> Path:
        """Return the folder of an interpreter."""
        return self.prefix / target.name

    def log(self, target: Target) -> Path:
        """Return the log of an interpreter's provisioning."""
        return self.cache / "logs" / f"{target.name}.log"


def read_marker(home: Path) -> dict[str, Any] | None:
    """Return the completion marker of the interpreter in `home`, or None if there is no complete interpreter.

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
    """Return whether `target` exists, with CPython's test modules if the user wants them and the target has them."""
    marker = read_marker(site.home(target))
    return marker is not None and (target.from_source or not site.with_tests or bool(marker.get("tests")))


def write_marker(site: Site, target: Target, *, source: str, how: str, report: Mapping[str, Any]) -> None:
    """Declare the interpreter complete. This must be the last step; only CPython's own tests may be added later."""
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
    """Write the marker of `home` in one step, so that a reader never sees a part of it."""
    scratch = home / f"{MARKER}.new"
    scratch.write_text(json.dumps(marker, indent=2) + "\n", "utf-8")
    scratch.replace(home / MARKER)


@contextlib.contextmanager
def prefix_folder(site: Site, target: Target) -> Iterator[Path]:
    """Yield `<prefix>/3.X.part`, to be filled and renamed by settle(); the result is a complete interpreter or none.

    The folder is beside the final place, so that the rename stays within a file system. The caller must hold the lock.
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
    """Hold both locks, always in this order, so that runs that share the prefix or only the cache take turns."""
    with contextlib.ExitStack() as stack:
        for folder in (site.prefix, site.cache):
            folder.mkdir(parents=True, exist_ok=True)
            # The file is not removed at the end: another run could then lock a file that a third run does not see.
            file = stack.enter_context((folder / ".lock").open("w"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                site.talk.tell(f"waiting for another run (lock {file.name})")
                fcntl.flock(file, fcntl.LOCK_EX)
        yield
