"""Trace files on disk: names, and what is to be done to one whose process is gone."""

import contextlib
import glob
import os
from pathlib import Path

import numpy as np

from headway.errors import UsageError
from headway.traces import format as fmt

__all__ = ["check_new", "family_files", "finish", "unused_name"]


def check_new(path: Path, *, force: bool = False) -> Path:
    """Return the absolute path of a trace file that can be written; with `force`, what stands there is removed.

    Raises:
        UsageError: It exists, or its folder does not, or cannot be written to.
    """
    path = path.absolute()
    if path.suffix != ".hwt":
        raise UsageError(f"{path.name} is no name of a trace", hint="end it with .hwt, as in `-o app.hwt`")
    if not path.parent.is_dir():
        raise UsageError(f"the folder {path.parent} is not there", hint="make it, or name another with -o")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UsageError(f"the folder {path.parent} cannot be written to", hint="name another file with -o")
    if os.path.lexists(path):
        if not force or not path.is_file():
            raise UsageError(f"{path} exists", hint="name another file with -o, or overwrite it with --force")
        for old in family_files(path):
            old.unlink()
    return path


def unused_name(folder: Path, program: str) -> Path:
    """Return a name for a program's trace that is not taken yet: `app.hwt`, `app-2.hwt`, ..."""
    stem = "".join(c if c.isalnum() or c in "._-" else "-" for c in Path(program).stem).strip(".-") or "program"
    number = 1
    while True:
        path = folder / (f"{stem}.hwt" if number == 1 else f"{stem}-{number}.hwt")
        if not os.path.lexists(path):
            return path
        number += 1


def family_files(path: Path) -> list[Path]:
    """Return a trace's file and those of its process's children: of the same launch, not only of a like name."""
    if not path.exists():
        return []
    header = _header(path)
    others = sorted(path.parent.glob(f"{glob.escape(path.stem)}.*.hwt")) if header is not None else []
    return [path, *(other for other in others if _same_launch(header, _header(other)))]


def _same_launch(one: np.void | None, other: np.void | None) -> bool:
    return one is not None and other is not None and bool(one["family"] == other["family"])


def _header(path: Path) -> np.void | None:
    """Return a trace's header, None where there is none."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        block = file.read(fmt.HEADER_DTYPE.itemsize)
        if len(block) == fmt.HEADER_DTYPE.itemsize and block.startswith(fmt.MAGIC):
            header: np.void = np.frombuffer(block, fmt.HEADER_DTYPE)[0]
            return header
    return None


def finish(path: Path) -> None:
    """Cut the file of a process that is gone to what it has used: while it ran, it was as long as it could get.

    That of a process that still runs, as a daemon does after its launcher, is left alone: what it is about to write to
    must not be cut off.
    """
    header = _header(path)
    if header is None or Path(f"/proc/{header['pid']}").exists():
        return
    chunks = min(int(header["chunks_taken"]), int(header["chunk_count"]))
    used = int(header["chunks_offset"]) + chunks * fmt.CHUNK_BYTES
    with contextlib.suppress(OSError):
        if used < path.stat().st_size:
            os.truncate(path, used)
