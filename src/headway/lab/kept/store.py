"""The results store: one SQLite file (WAL) with a row per launch and cell, committed before the next launch starts.

The store keeps raw samples; every statistic is computed from them later. A killed run loses at most the launch in
progress. Several processes may read while one writes.
"""

import contextlib
import datetime as dt
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from headway.errors import StoreError
from headway.host.paths import check_store_folder
from headway.lab.design import Cell
from headway.lab.kept.connection import PATIENCE_S, connect
from headway.lab.kept.headers import RunHeader, StoredLaunch, Unreadable, header_of, settings_text
from headway.lab.kept.launched import Launch, checked_facts
from headway.lab.kept.predictions import Prediction
from headway.lab.kept.settings import Settings
from headway.lab.kept.typed import typed
from headway.lab.plan import cell_from_json, cell_to_json
from headway.printable import printable

__all__ = ["Store"]

_VERSION = 1
_DAMAGED = "name another file with `--store`; if it is damaged, `sqlite3 FILE .recover` saves what is readable"
_HINTS = {
    sqlite3.SQLITE_FULL: "free space on that disk, then try again: all that was stored before is there",
    sqlite3.SQLITE_IOERR: "the disk may be full or damaged: free space on it, or name a file on another one with `--store`",
    sqlite3.SQLITE_CANTOPEN: "name a file in a folder that you may write with `--store`, or set HEADWAY_STORE",
    sqlite3.SQLITE_READONLY: "name a file that you may write with `--store`, or set HEADWAY_STORE",
    sqlite3.SQLITE_BUSY: "another process writes it, or has stopped while it did: wait until that ends, or end it",
}
"""The code of an error of SQLite (https://www.sqlite.org/rescode.html) -> what to do."""

_SCHEMA = """
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    started_at TEXT NOT NULL,          -- UTC, ISO 8601
    ended_at TEXT,                     -- NULL while running, or where the runner was killed
    settings TEXT NOT NULL             -- JSON of lab.kept.settings
);
CREATE TABLE cells (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    cell TEXT NOT NULL,                -- JSON of the cell
    UNIQUE (run, key)
);
CREATE TABLE launches (
    id INTEGER PRIMARY KEY,
    cell INTEGER NOT NULL REFERENCES cells (id) ON DELETE CASCADE,
    block INTEGER NOT NULL,            -- which repetition, of its experiment
    started_at TEXT NOT NULL,          -- when it was stored, after its end: UTC, ISO 8601
    status TEXT NOT NULL CHECK (status IN ('ok', 'failed')),
    reason TEXT NOT NULL,              -- why it failed, or ''
    wall_s REAL NOT NULL,
    facts TEXT NOT NULL,               -- JSON: GIL state, affinity, core utilisation, context switches, memory
    stderr TEXT NOT NULL,
    UNIQUE (cell, block)               -- no launch counts twice, whoever resumes
);
CREATE TABLE samples (
    launch INTEGER NOT NULL REFERENCES launches (id) ON DELETE CASCADE,
    metric TEXT NOT NULL,              -- unit in the name: work_s, pool_start_s, lost
    position INTEGER NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (launch, metric, position)
) WITHOUT ROWID;
"""

_PREDICTIONS = """
CREATE TABLE IF NOT EXISTS predictions (
    cell INTEGER PRIMARY KEY REFERENCES cells (id) ON DELETE CASCADE, -- one a cell: nothing is predicted twice
    written_at TEXT NOT NULL,          -- UTC, ISO 8601, with microseconds
    prediction TEXT NOT NULL           -- JSON: figures, version, calibration, what it rests on
)
"""
"""The table is added to stores of older versions, too. Older versions of Headway can still read these stores."""


def _rows(run_id: str, cells: Sequence[Cell]) -> list[tuple[str, str, str]]:
    return [(run_id, cell.key, json.dumps(cell_to_json(cell))) for cell in cells]


_SECOND = dt.timedelta(seconds=1)
"""The resolution of a launch's stored time: whole seconds, truncated."""


def _moment(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).astimezone(dt.UTC)


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


class Store:
    """The results in one file.

    Args:
        path: The file.
        create: Create the file if it does not exist, and the folder of the user's own store.
        write: Open the file for writing. Reading changes nothing that is stored, and leaves no file beside the store,
            unless SQLite may not write it.

    Raises:
        StoreError: The file cannot be opened, is no results store, or (without `create`) does not exist.
    """

    def __init__(self, path: Path, *, create: bool = False, write: bool = False) -> None:
        self.path = path
        with self._errors():
            if path.is_dir():
                raise StoreError(f"{path} is a folder, expected a file", hint="name a file with `--store`")
            if create:
                check_store_folder(path)
            elif not path.exists():
                raise StoreError(f"there is no results store at {path}", hint="`headway lab` makes one")
            self._db = connect(path, create=create, write=write)
            try:
                self._check_version(create=create)
                if create or write:
                    self._db.execute("PRAGMA foreign_keys = ON")
                    self._use_wal()
                    # With WAL, NORMAL survives any kill of this process; only a power cut may lose the last launches.
                    self._db.execute("PRAGMA synchronous = NORMAL")
                    self._db.execute(_PREDICTIONS)
                opened = path.stat()
                self._file = opened.st_dev, opened.st_ino
            except BaseException:
                self._db.close()
                raise

    def _use_wal(self) -> None:
        """Have changes written beside the file first; this mode stays with the file."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                # SQLite does not wait where two processes change the mode at once: neither could go on.
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                return

    def _check_there(self) -> None:
        """Raise StoreError if the file was removed or replaced: SQLite goes on with the old one, which has no name."""
        with contextlib.suppress(FileNotFoundError):
            now = self.path.stat()
            if (now.st_dev, now.st_ino) == self._file:
                return
        raise StoreError(
            f"the results store {self.path} was removed or replaced while it was in use",
            hint="start the run again, and leave the file where it is until the run ends",
        )

    def _version(self) -> tuple[int, set[str]]:
        """Return the version of the schema, and the names of the tables: 0 and none for an empty file."""
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        return version, {name for (name,) in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def _check_version(self, *, create: bool) -> None:
        version, tables = self._version()
        if (version, tables) == (0, set()):
            if not create:
                raise StoreError(f"{self.path} is empty: no run is stored in it", hint="`headway lab` makes a run")
            with self._transaction():
                # Another process may have created the tables since the look above.
                if self._version() == (0, set()):
                    for statement in _SCHEMA.split(";"):
                        self._db.execute(statement)
                    self._db.execute(f"PRAGMA user_version = {_VERSION}")
            version, tables = self._version()
        if version != _VERSION or not {"runs", "cells", "launches", "samples"} <= tables:
            raise StoreError(
                f"{self.path} is not a results store of this version of Headway (version {version}, expected {_VERSION})",
                hint="name another file with `--store`, or move this one away",
            )

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of SQLite and of the file system into StoreError."""
        try:
            yield
        except (sqlite3.Error, json.JSONDecodeError, UnicodeDecodeError, KeyError) as error:
            # UnicodeDecodeError: SQLite's message quotes a damaged schema.
            raise StoreError(
                f"the results store {self.path} cannot be used: {printable(' '.join(str(error).split()))}",
                hint=_HINTS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, _DAMAGED),
            ) from error
        except OSError as error:
            raise StoreError(
                f"the results store {self.path} cannot be opened: {error.strerror or error}",
                hint="name a writable file with `--store`, or set HEADWAY_STORE",
            ) from error

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Turn errors from using stored values into StoreError: another program may have written them.

        Raises:
            StoreError: The values are not Headway's.
        """
        with self._errors():
            try:
                yield
            except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError) as error:
                raise StoreError(
                    f"the results store {self.path} holds values that Headway did not write: {error!r}",
                    hint="name another file with `--store`, or move this one away",
                ) from error

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # a full disk, and some errors of it, end a transaction by themselves
                self._db.execute("ROLLBACK")
            raise

    def new_run(self, settings: Settings, cells: Sequence[Cell]) -> str:
        """Store a run's settings and cells; return its id."""
        stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%d-%H%M%S")
        run_id = f"{stamp}-{os.urandom(2).hex()}"
        with self._errors(), self._transaction():
            self._db.execute("INSERT INTO runs VALUES (?, ?, NULL, ?)", (run_id, _now(), settings_text(settings)))
            # Without OR IGNORE, so that a plan with the same cell twice is an error: it is a bug.
            self._db.executemany("INSERT INTO cells (run, key, cell) VALUES (?, ?, ?)", _rows(run_id, cells))
        return run_id

    def _put_cells(self, run_id: str, cells: Sequence[Cell]) -> None:
        """Add the cells that the run does not have yet."""
        self._db.executemany("INSERT OR IGNORE INTO cells (run, key, cell) VALUES (?, ?, ?)", _rows(run_id, cells))

    def add_cell(self, run_id: str, cell: Cell) -> None:
        """Add a cell to a run whose cells are not known beforehand."""
        with self._errors():
            self._put_cells(run_id, [cell])

    def change_run(self, run_id: str, settings: Settings, cells: Sequence[Cell]) -> None:
        """Replace a run's settings and its cells; cells that are no longer planned are deleted with their launches."""
        with self._errors(), self._transaction():
            self._db.execute("UPDATE runs SET settings = ? WHERE id = ?", (settings_text(settings), run_id))
            kept = {cell.key for cell in cells}
            known = self._db.execute("SELECT id, key FROM cells WHERE run = ?", (run_id,)).fetchall()
            self._db.executemany("DELETE FROM cells WHERE id = ?", [(cell,) for cell, key in known if key not in kept])
            self._put_cells(run_id, cells)

    def set_settings(self, run_id: str, settings: Settings) -> None:
        """Replace a run's settings: the experiments that a run declares may grow while it runs."""
        with self._errors():
            self._db.execute("UPDATE runs SET settings = ? WHERE id = ?", (settings_text(settings), run_id))

    def add_launch(self, run_id: str, key: str, block: int, launch: Launch) -> bool:
        """Store a launch with its samples, safe against any kill; return False if that launch is already stored."""
        with self._errors():
            self._check_there()
            with self._transaction():
                return self._put_launch(run_id, key, block, launch)

    def replace_launches(self, run_id: str, key: str, launches: Sequence[Launch]) -> None:
        """Store all launches of a cell, as blocks 0, 1, ..., instead of those that it has, safe against any kill."""
        with self._errors():
            self._check_there()
            with self._transaction():
                self._db.execute(
                    "DELETE FROM launches WHERE cell IN (SELECT id FROM cells WHERE run = ? AND key = ?)", (run_id, key)
                )
                for block, launch in enumerate(launches):
                    self._put_launch(run_id, key, block, launch)

    def _put_launch(self, run_id: str, key: str, block: int, launch: Launch) -> bool:
        cursor = self._db.execute(
            "INSERT OR IGNORE INTO launches (cell, block, started_at, status, reason, wall_s, facts, stderr)"
            " SELECT id, ?, ?, ?, ?, ?, ?, ? FROM cells WHERE run = ? AND key = ?",
            (
                block,
                _now(),
                launch.status,
                launch.reason,
                launch.wall_s,
                json.dumps(launch.facts),
                launch.stderr,
                run_id,
                key,
            ),
        )
        if cursor.rowcount != 1:
            return False
        self._db.executemany(
            "INSERT INTO samples VALUES (?, ?, ?, ?)",
            [
                (cursor.lastrowid, metric, position, value)
                for metric, values in launch.samples.items()
                for position, value in enumerate(values)
            ],
        )
        return True

    def add_prediction(self, run_id: str, prediction: Prediction) -> None:
        """Store a prediction for a cell, with the time.

        Raises:
            StoreError: The cell was measured before, or has a prediction, or is not in the run.
        """
        with self._errors(), self._transaction():
            found = self._db.execute(
                "SELECT c.id, COUNT(l.id), COUNT(p.cell) FROM cells c LEFT JOIN launches l ON l.cell = c.id"
                " LEFT JOIN predictions p ON p.cell = c.id WHERE c.run = ? AND c.key = ? GROUP BY c.id",
                (run_id, prediction.key),
            ).fetchone()
            if found is None or found[1] or found[2]:
                why = "the run has no such cell" if found is None else ""
                why = why or ("the cell was measured before" if found[1] else "the cell already has a prediction")
                raise StoreError(
                    f"the prediction for {printable(prediction.key)} is refused: {why}",
                    hint="a prediction is written once, and before its cell's first launch; start a new run",
                )
            written_at = dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")
            self._db.execute(
                "INSERT INTO predictions VALUES (?, ?, ?)", (found[0], written_at, json.dumps(prediction.to_json()))
            )

    def predictions(self, run_id: str) -> dict[str, Prediction]:
        """Return a run's predictions by cell key; leave out those that were stored after a launch of their cell."""
        with self.reading():
            if not self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'predictions'").fetchone():
                return {}  # A store of an older version, opened for reading.
            rows = self._db.execute(
                "SELECT c.key, p.written_at, p.prediction, MIN(l.started_at) FROM predictions p"
                " JOIN cells c ON c.id = p.cell LEFT JOIN launches l ON l.cell = c.id WHERE c.run = ? GROUP BY c.id",
                (run_id,),
            ).fetchall()
            return {
                key: Prediction.from_json(key, written_at, json.loads(text))
                for key, written_at, text, launched_at in rows
                if launched_at is None or _moment(written_at) <= _moment(launched_at) + _SECOND
            }

    def end_run(self, run_id: str) -> None:
        """Mark the run as ended."""
        with self._errors():
            self._db.execute("UPDATE runs SET ended_at = ? WHERE id = ?", (_now(), run_id))

    def runs(self) -> list[RunHeader]:
        """Return every run that can be read, the newest last; `unreadable` has the others."""
        return [one for one in self._headers() if isinstance(one, RunHeader)]

    def unreadable(self) -> list[Unreadable]:
        """Return every run whose row cannot be read, the newest last."""
        return [one for one in self._headers() if isinstance(one, Unreadable)]

    def _headers(self) -> list[RunHeader | Unreadable]:
        with self.reading():
            rows = self._db.execute(
                "SELECT r.id, r.started_at, r.ended_at, r.settings, COUNT(DISTINCT c.id), COUNT(l.id),"
                " COALESCE(SUM(l.status = 'failed'), 0)"
                " FROM runs r LEFT JOIN cells c ON c.run = r.id LEFT JOIN launches l ON l.cell = c.id"
                " GROUP BY r.id ORDER BY r.started_at, r.rowid"
            ).fetchall()
        return [header_of(*row) for row in rows]

    def find_id(self, name: str = "last") -> str:
        """Return the id of the run called `name` (see `find_run`), also of one that cannot be read. Raises StoreError."""
        return self._find(name).id

    def find_run(self, name: str = "last") -> RunHeader:
        """Return the run called `name`: an id, its unambiguous beginning, "last", or "last~N" (N before the last).

        Raises:
            StoreError: No run or several runs have that name, or the run cannot be read.
        """
        found = self._find(name)
        if isinstance(found, Unreadable):
            raise StoreError(
                f"run {printable(found.id)} in {self.path} cannot be read: {found.why}",
                hint="`headway runs` lists the other runs; `headway runs --delete RUN` deletes this one",
            )
        return found

    def _find(self, name: str) -> RunHeader | Unreadable:
        runs = self._headers()
        if name == "last" or name.startswith("last~"):
            back = name.removeprefix("last").removeprefix("~") or "0"
            number = int(back) if back.isascii() and back.isdigit() else len(runs)
            fitting = runs[-1 - number :][:1] if number < len(runs) else []
        elif not name:  # every id begins with it
            raise StoreError("the name of the run is empty", hint="name an id, its beginning, `last`, or `last~N`")
        else:
            fitting = [run for run in runs if run.id == name] or [run for run in runs if run.id.startswith(name)]
        if len(fitting) != 1:
            what = f"{len(fitting)} runs begin with" if fitting else "no run is called"
            raise StoreError(f"{what} `{name}` in {self.path}", hint="`headway runs` lists them")
        return fitting[0]

    def delete_runs(self, run_ids: Sequence[str]) -> int:
        """Delete runs with their launches, and return the number of bytes by which the file becomes smaller.

        Raises:
            StoreError: The file cannot be written; or it has no room to become smaller, and says so.
        """
        with self._errors():
            # Recent changes are beside the file (WAL) until a checkpoint, so one comes before each look at its size.
            checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)"
            self._db.execute(checkpoint)
            before = self.path.stat().st_size
            with self._transaction():
                self._db.executemany("DELETE FROM runs WHERE id = ?", [(one,) for one in run_ids])
            try:
                self._db.execute("VACUUM")
            except sqlite3.OperationalError as error:
                raise StoreError(
                    f"the runs are deleted, but {self.path} is as large as before: {error}",
                    hint="make room on the disk, and run `sqlite3 FILE VACUUM`; new runs use the room in the file",
                ) from error
            self._db.execute(checkpoint)
            return before - self.path.stat().st_size

    def cells(self, run_id: str) -> list[Cell]:
        """Return a run's cells, in the order of its plan."""
        with self.reading():
            rows = self._db.execute("SELECT cell FROM cells WHERE run = ? ORDER BY id", (run_id,)).fetchall()
            cells = [typed(cell_from_json(json.loads(text))) for (text,) in rows]
            return [cell for cell in cells if typed(cell.variant)]

    def done(self, run_id: str) -> set[tuple[str, int]]:
        """Return (cell key, block) of every stored launch."""
        with self._errors():
            rows = self._db.execute(
                "SELECT c.key, l.block FROM launches l JOIN cells c ON c.id = l.cell WHERE c.run = ?", (run_id,)
            ).fetchall()
        return set(rows)

    def launches(self, run_id: str) -> list[StoredLaunch]:
        """Return a run's launches with their samples, in the order of storing."""
        with self.reading():
            rows = self._db.execute(
                "SELECT l.id, c.key, l.block, l.status, l.reason, l.wall_s, l.facts, l.stderr"
                " FROM launches l JOIN cells c ON c.id = l.cell WHERE c.run = ? ORDER BY l.id",
                (run_id,),
            ).fetchall()
            samples: dict[int, dict[str, list[float]]] = {}
            for launch_id, metric, value in self._db.execute(
                "SELECT s.launch, s.metric, s.value FROM samples s JOIN launches l ON l.id = s.launch"
                " JOIN cells c ON c.id = l.cell WHERE c.run = ? ORDER BY s.launch, s.metric, s.position",
                (run_id,),
            ):
                samples.setdefault(launch_id, {}).setdefault(metric, []).append(float(value))
            return [
                StoredLaunch(
                    str(key),
                    int(block),
                    Launch(
                        status,
                        str(reason),
                        samples.get(launch_id, {}),
                        # An agent whose answers were garbled may have told anything; its launch failed, and no figure
                        # comes from it.
                        (checked_facts if status == "ok" else dict)(json.loads(facts)),
                        str(stderr),
                        float(wall_s),
                    ),
                )
                for launch_id, key, block, status, reason, wall_s, facts, stderr in rows
            ]
