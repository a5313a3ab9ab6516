"""Folders that the lab may remove: only those with Headway's marker in them, whatever their names are.

A name proves nothing: `$HEADWAY_LIBRARIES` and the folders that volumes name may be a user's, with the user's files in
them.
"""

import contextlib
import os
import shutil
import stat
from pathlib import Path

__all__ = ["OWN", "is_own", "mark", "remove_own"]

OWN = ".headway-folder"
"""The marker file, which a folder of Headway has from its first moment on."""


def mark(folder: Path) -> None:
    """Put the marker into a folder that has just been made."""
    (folder / OWN).touch(mode=0o600)


def is_own(folder: Path) -> bool:
    """Return whether `folder` is a folder of this user with the marker in it, and no link to one."""
    try:
        marked = (folder.lstat(), (folder / OWN).lstat())
    except OSError:
        return False
    return (
        stat.S_ISDIR(marked[0].st_mode)
        and stat.S_ISREG(marked[1].st_mode)
        and all(status.st_uid == os.getuid() for status in marked)
    )


def remove_own(folder: Path) -> bool:
    """Remove a folder that has the marker; the marker goes last, so that an interrupted removal can be repeated.

    Returns:
        Whether nothing is left at this path; a folder without the marker is left alone.
    """
    if is_own(folder):
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                elif entry.name != OWN:
                    os.unlink(entry.path)
        with contextlib.suppress(OSError):
            if os.listdir(folder) == [OWN]:
                (folder / OWN).unlink()
                folder.rmdir()
    return not os.path.lexists(folder)
