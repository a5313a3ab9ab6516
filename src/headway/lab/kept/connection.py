"""Opens the file of the results store with SQLite, also where only reading is possible."""

import sqlite3
from pathlib import Path

from headway.errors import StoreError

__all__ = ["PATIENCE_S", "connect"]

PATIENCE_S = 30.0
"""How long to wait for another process that writes."""

_NO_SIDE_FILES = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL}
"""Errors where SQLite cannot make the side files of WAL: the folder may only be read, or its disk is full."""


def connect(path: Path, *, create: bool, write: bool) -> sqlite3.Connection:
    """Open the file, to read it or to change it.

    Args:
        path: The file.
        create: Create the file if it does not exist, and open it for writing.
        write: Open it for writing.

    Raises:
        StoreError: The newest launches cannot be read.
        sqlite3.Error: The file cannot be opened.
    """
    uri = path.absolute().as_uri()
    # A connection of mode `ro` would make the side files of WAL, and could not remove them when it is closed.
    mode = "rwc" if create else "rw"
    db = sqlite3.connect(f"{uri}?mode={mode}", uri=True, timeout=PATIENCE_S, isolation_level=None)
    if not (create or write):
        db.execute("PRAGMA query_only = ON")
        try:
            db.execute("SELECT COUNT(*) FROM sqlite_master")
        except sqlite3.OperationalError as error:
            db.close()
            if error.sqlite_errorcode & 0xFF not in _NO_SIDE_FILES:
                raise
            _refuse_a_log(path, error)
            db = sqlite3.connect(f"{uri}?immutable=1", uri=True, isolation_level=None)
    return db


def _refuse_a_log(path: Path, error: sqlite3.Error) -> None:
    """Raise StoreError if the file has a log of changes beside it: `immutable` would leave these out unsaid."""
    log = Path(f"{path.resolve()}-wal")
    if log.exists() and log.stat().st_size:
        raise StoreError(
            f"the newest launches of {path} are in {log}, which cannot be read there: {error}",
            hint="copy both files to a folder that you may write to, and name the copy with `--store`",
        )
