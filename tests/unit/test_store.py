"""The results store."""

import dataclasses
import json
import os
import shutil
import sqlite3

import pytest
from synthetic import make_cell, make_settings

from headway.errors import HeadwayError, StoreError
from headway.host.paths import default_store
from headway.lab.kept.launched import Launch
from headway.lab.kept.store import Store
from headway.lab.launching.lock import only_lab

SETTINGS = make_settings(launches=2)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "results.sqlite", create=True) as opened:
        yield opened


def test_a_launch_comes_back_as_it_was_stored(store):
    """Samples in order, facts and stderr survive the round trip."""
    cell = make_cell("sleep", "serial", "3.13.0", params={"times": 3})
    run_id = store.new_run(SETTINGS, [cell])
    launch = Launch("failed", "why", {"work_s": [3.0, 1.0, 2.0], "lost": [0.0]}, {"gil_enabled": True}, "trace\n", 1.5)

    assert store.add_launch(run_id, cell.key, 0, launch)

    (found,) = store.launches(run_id)
    assert (found.key, found.block, found.launch) == (cell.key, 0, launch)
    assert store.cells(run_id) == [cell]


def test_no_launch_counts_twice(store):
    """A second launch of the same cell and block is refused and changes nothing."""
    cell = make_cell("sleep", "serial", "3.13.0")
    run_id = store.new_run(SETTINGS, [cell])

    assert store.add_launch(run_id, cell.key, 0, Launch("ok", samples={"work_s": [1.0]}))
    assert not store.add_launch(run_id, cell.key, 0, Launch("ok", samples={"work_s": [9.0]}))

    assert [one.launch.samples for one in store.launches(run_id)] == [{"work_s": [1.0]}]
    assert store.done(run_id) == {(cell.key, 0)}


def test_launches_of_a_cell_are_replaced_together(store):
    """A cell has the new launches alone, also if they are fewer, and other cells keep theirs."""
    cell, other = (make_cell("sleep", label, "3.13.0") for label in ("serial", "threads"))
    run_id = store.new_run(SETTINGS, [cell, other])
    for key in (cell.key, other.key):
        store.replace_launches(run_id, key, [Launch("ok", samples={"work_s": [1.0, 2.0]}), Launch(reason="it did")])

    store.replace_launches(run_id, cell.key, [Launch("ok", samples={"work_s": [9.0]})])

    found = [(one.key, one.block, one.launch.samples) for one in store.launches(run_id)]
    assert sorted(found, key=lambda one: one[:2]) == [
        (cell.key, 0, {"work_s": [9.0]}),
        (other.key, 0, {"work_s": [1.0, 2.0]}),
        (other.key, 1, {}),
    ]


def test_a_run_is_complete_when_every_planned_launch_is_there(store):
    """Headers count planned, stored and failed launches."""
    cell = make_cell("sleep", "serial", "3.13.0")
    run_id = store.new_run(SETTINGS, [cell])
    store.add_launch(run_id, cell.key, 0, Launch("ok"))
    before = store.find_run(run_id)
    store.add_launch(run_id, cell.key, 1, Launch("failed"))
    after = store.find_run(run_id)

    assert (before.planned, before.done, before.complete) == (2, 1, False)
    assert (after.done, after.failed, after.complete) == (2, 1, True)
    assert (before.launches, after.launches) == ("1 of 2 launches", "2 of 2 launches")


def test_a_run_with_a_budget_is_complete_when_it_has_ended(store):
    """Its claims decide how many launches it has, so no number is planned."""
    cell = make_cell("sleep", "serial", "3.13.0")
    run_id = store.new_run(dataclasses.replace(SETTINGS, budget_s=60.0), [cell])
    store.add_launch(run_id, cell.key, 0, Launch("ok"))
    before = store.find_run(run_id)
    store.end_run(run_id)

    assert (before.planned, before.launches, before.complete) == (None, "1 launch", False)
    assert store.find_run(run_id).complete


def test_runs_are_found_by_id_beginning_and_age(store):
    """A run is named by `last`, `last~1`, an id or its unambiguous beginning; anything else is an error with a hint."""
    first, second = (store.new_run(SETTINGS, []) for _ in range(2))

    assert store.find_run("last").id == second
    assert store.find_run("last~1").id == first
    assert store.find_run(first).id == first
    for name in ("last~2", "last~x", "last~²", "nothing", "2"):
        with pytest.raises(StoreError) as caught:
            store.find_run(name)
        assert "headway runs" in caught.value.hint


def test_an_empty_name_is_no_run(store):
    """Each id begins with it, so it would name the only run."""
    store.new_run(SETTINGS, [])

    for find in (store.find_id, store.find_run):
        with pytest.raises(StoreError, match="the name of the run is empty"):
            find("")


@pytest.mark.parametrize("change", [{"budget_s": "10"}, {"seed": "1"}, {"limit_s": None}])
def test_settings_that_could_not_be_read_are_not_stored(store, change):
    """Headway would have written a row that it cannot read; the store stays as it was."""
    run_id = store.new_run(SETTINGS, [])
    wrong = dataclasses.replace(SETTINGS, **change)

    for write in (
        lambda: store.new_run(wrong, []),
        lambda: store.change_run(run_id, wrong, []),
        lambda: store.set_settings(run_id, wrong),
    ):
        with pytest.raises(TypeError):
            write()

    (header,) = store.runs()
    assert (header.id, header.settings) == (run_id, SETTINGS)


def test_a_run_that_cannot_be_read_leaves_the_others(store):
    """The bad run is named with the reason, is never taken for another one, and can be deleted."""
    first, bad, last = (store.new_run(SETTINGS, []) for _ in range(3))
    wrong = json.dumps({**SETTINGS.to_json(), "seed": "1"})
    store._db.execute("UPDATE runs SET settings = ? WHERE id = ?", (wrong, bad))

    assert [one.id for one in store.runs()] == [first, last]
    assert [(one.id, one.why) for one in store.unreadable()] == [(bad, "TypeError(\"seed is '1'\")")]
    assert [store.find_run(name).id for name in ("last", "last~2", first)] == [last, first, first]
    with pytest.raises(StoreError, match=f"^run {bad} in .* cannot be read: .*seed is '1'"):
        store.find_run("last~1")

    assert store.find_id("last~1") == bad
    store.delete_runs([bad])
    assert store.unreadable() == []


def test_deleted_runs_are_gone_with_all_that_they_had(store):
    """The other runs keep all that they have, and the file becomes smaller."""
    cell = make_cell("sleep", "serial", "3.13.0")
    runs = [store.new_run(SETTINGS, [cell]) for _ in range(3)]
    for run_id in runs:
        store.add_launch(run_id, cell.key, 0, Launch("ok", samples={"work_s": [0.5] * 20_000}))

    freed_bytes = store.delete_runs([runs[0], runs[2]])

    assert freed_bytes > 100_000
    assert [one.id for one in store.runs()] == [runs[1]]
    (kept,) = store.launches(runs[1])
    assert len(kept.launch.samples["work_s"]) == 20_000
    with sqlite3.connect(store.path) as db:
        assert db.execute("SELECT COUNT(*) FROM samples").fetchone() == (20_000,)
        assert db.execute("SELECT COUNT(*) FROM cells").fetchone() == (1,)


def test_one_lab_at_a_time():
    """A second lab is refused, with the id of the one that measures, and is allowed afterwards."""
    with (
        only_lab(),
        pytest.raises(HeadwayError, match=f"measuring on this machine \\(process {os.getpid()}\\)"),
        only_lab(),
    ):
        pass
    with only_lab():
        pass


def test_a_lock_that_cannot_be_made_has_a_hint(monkeypatch, tmp_path):
    """A home that may only be read is no reason to free space."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "headway" / "lab.lock").mkdir(parents=True)
    with pytest.raises(HeadwayError, match=r"lab\.lock cannot be opened: Is a directory") as caught, only_lab():
        pass
    assert "XDG_CACHE_HOME" in caught.value.hint


def test_reading_leaves_a_store_as_it_is(store):
    """A reader changes neither the file nor its folder, also if it has no right to write."""
    store.new_run(SETTINGS, [])
    store.close()
    before = store.path.read_bytes()
    store.path.chmod(0o444)

    with Store(store.path) as reader:
        assert len(reader.runs()) == 1

    assert store.path.read_bytes() == before


def test_a_missing_store_is_an_error_unless_it_may_be_made(tmp_path):
    """Reading does not create a store."""
    with pytest.raises(StoreError, match="no results store"):
        Store(tmp_path / "none.sqlite")
    assert not (tmp_path / "none.sqlite").exists()


@pytest.mark.parametrize(
    "content", [b"not a database, but long enough to be taken for one" * 40, b"SQLite format 3\x00" + b"\xff" * 5000]
)
def test_a_damaged_store_is_named(tmp_path, content):
    """A file that SQLite cannot read gives one error with its path, and is left alone."""
    path = tmp_path / "broken.sqlite"
    path.write_bytes(content)

    with pytest.raises(StoreError, match=r"broken\.sqlite") as caught:
        Store(path, create=True)

    assert caught.value.hint
    assert path.read_bytes() == content


def test_a_foreign_database_is_refused(tmp_path):
    """A SQLite file of another program is not taken for a store."""
    path = tmp_path / "foreign.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE things (name)")
    db.close()

    before = path.read_bytes()

    for create in (False, True):
        with pytest.raises(StoreError, match="not a results store of this version"):
            Store(path, create=create)

    assert path.read_bytes() == before


def test_an_unwritable_place_is_refused(tmp_path):
    """A path below a file cannot be a store."""
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreError, match="cannot be"):
        Store(tmp_path / "file" / "results.sqlite", create=True)


def test_only_the_folder_of_the_users_own_store_is_made(tmp_path, monkeypatch):
    """The folder of a store that somebody named may be a slip, and a store there would not be found again."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("HEADWAY_STORE")
    named = tmp_path / "deep" / "results.sqlite"

    with pytest.raises(StoreError, match=f"the folder {named.parent} of the results store is not there") as caught:
        Store(named, create=True)
    assert f"`mkdir -p {named.parent}`" in caught.value.hint
    assert list(tmp_path.iterdir()) == []
    Store(default_store(), create=True).close()
    assert default_store() == tmp_path / "data" / "headway" / "results.sqlite"
    assert default_store().exists()


def test_two_sessions_may_create_the_store_at_once(tmp_path, monkeypatch):
    """The tables that another process has created between our look and our transaction are taken as they are."""
    path, look = tmp_path / "results.sqlite", Store._version
    others = iter([True])

    def version(self):
        found = look(self)
        if next(others, False):
            Store(path, create=True).close()
        return found

    monkeypatch.setattr(Store, "_version", version)
    with Store(path, create=True) as opened:
        assert opened.runs() == []


@pytest.mark.parametrize("write", [False, True])
def test_an_empty_store_has_no_run(tmp_path, write):
    """A file that was created on a full disk is empty, and is no error of SQLite's."""
    path = tmp_path / "results.sqlite"
    path.touch()
    with pytest.raises(StoreError, match="no run is stored in it"):
        Store(path, write=write)
    with Store(path, create=True) as opened:
        assert opened.runs() == []


def test_a_full_disk_is_told_as_that(store):
    """SQLite ends the transaction by itself on a full disk, and the reason is told, not the second ROLLBACK."""
    cell = make_cell("sleep", "serial", "3.13.0")
    run_id = store.new_run(SETTINGS, [cell])
    (pages,) = store._db.execute("PRAGMA page_count").fetchone()
    store._db.execute(f"PRAGMA max_page_count = {pages}")
    launch = Launch("ok", "", {"work_s": [1.0] * 20_000}, {}, "x" * 100_000, 1.5)

    with pytest.raises(StoreError, match="database or disk is full") as caught:
        store.add_launch(run_id, cell.key, 0, launch)
    assert "free space on that disk" in caught.value.hint

    store._db.execute("PRAGMA max_page_count = 100000")
    assert store.add_launch(run_id, cell.key, 0, launch)


@pytest.mark.parametrize("put_another", [False, True])
def test_a_store_that_is_gone_is_told_at_the_next_launch(store, put_another):
    """SQLite writes on into a file that has no name any more, and its launches would be lost at the end."""
    cell = make_cell("sleep", "serial", "3.13.0")
    run_id = store.new_run(SETTINGS, [cell])
    launch = Launch("ok", "", {"work_s": [1.0]}, {}, "", 1.5)
    assert store.add_launch(run_id, cell.key, 0, launch)
    store.path.rename(store.path.with_name("moved"))
    if put_another:
        store.path.touch()

    with pytest.raises(StoreError, match="was removed or replaced while it was in use"):
        store.add_launch(run_id, cell.key, 1, launch)


def test_a_store_that_cannot_be_looked_at_is_an_error_of_the_store(store):
    """A folder that became a file, or that may not be entered any more, ends in the store's error with its hint."""
    cell = make_cell("sleep", "serial", "3.13.0")
    run_id = store.new_run(SETTINGS, [cell])
    store.path.parent.rename(store.path.parent.with_name("moved"))
    store.path.parent.touch()

    with pytest.raises(StoreError, match="cannot be opened: Not a directory") as caught:
        store.add_launch(run_id, cell.key, 0, Launch("ok"))
    assert caught.value.hint


def test_runs_are_deleted_where_the_file_cannot_become_smaller(store, monkeypatch):
    """A full disk leaves no room for a smaller copy of the file, and the answer says that the runs are gone."""
    run_id = store.new_run(SETTINGS, [make_cell("sleep", "serial", "3.13.0")])

    class Full:
        """The store's connection, on a disk without room for VACUUM."""

        def __init__(self, db):
            self._db = db

        def __getattr__(self, name):
            return getattr(self._db, name)

        def execute(self, statement, *more):
            if statement == "VACUUM":
                raise sqlite3.OperationalError("database or disk is full")
            return self._db.execute(statement, *more)

    monkeypatch.setattr(store, "_db", Full(store._db))
    with pytest.raises(StoreError, match=r"the runs are deleted, but .* is as large as before"):
        store.delete_runs([run_id])
    assert store.runs() == []


def test_a_reader_leaves_the_folder_as_it_was(tmp_path):
    """The side files that SQLite needs to read go when the reader goes; nothing can be written meanwhile."""
    path = tmp_path / "results.sqlite"
    with Store(path, create=True) as store:
        run_id = store.new_run(SETTINGS, [])
    before = path.read_bytes()
    with Store(path) as reader:
        assert reader.find_id() == run_id
        with pytest.raises(StoreError, match="readonly"):
            reader.end_run(run_id)

    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == before


def test_a_reader_leaves_a_writer_its_files(store):
    """A reader that goes while a run is written takes nothing from it."""
    cell = make_cell("sleep", "serial", "3.13.0")
    run_id = store.new_run(SETTINGS, [cell])
    with Store(store.path) as reader:
        assert reader.find_id() == run_id
    assert store.add_launch(run_id, cell.key, 0, Launch("ok", samples={"work_s": [1.0]}))

    with Store(store.path) as reader:
        assert reader.done(run_id) == {(cell.key, 0)}


def test_a_store_without_its_side_files_is_read_only_if_nothing_is_missing(store, tmp_path):
    """Where SQLite cannot use the log of the newest launches, they are not left out without a word."""
    cell = make_cell("sleep", "serial", "3.13.0")
    run_id = store.new_run(SETTINGS, [cell])
    store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    copy = tmp_path / "copy.sqlite"
    shared = copy.with_name("copy.sqlite-shm")
    shared.symlink_to("nowhere")  # as in a folder that may only be read: SQLite, which follows no link, makes no file
    shutil.copy(store.path, copy)
    with Store(copy) as reader:
        assert reader.find_id() == run_id

    store.add_launch(run_id, cell.key, 0, Launch("ok", samples={"work_s": [1.0]}))
    shutil.copy(f"{store.path}-wal", f"{copy}-wal")
    link = tmp_path / "deep" / "link.sqlite"
    link.parent.mkdir()
    link.symlink_to(copy)
    for path in (copy, link):
        with pytest.raises(StoreError, match=r"newest launches of .* are in .*copy\.sqlite-wal") as caught:
            Store(path)
        assert "copy both files" in caught.value.hint
    shared.unlink()
    with Store(copy) as reader:
        assert reader.done(run_id) == {(cell.key, 0)}
