"""The files of stored sessions: no failure and no other session costs what they hold."""

import errno
import json
import threading
from pathlib import Path

import pytest

from headway.errors import UsageError
from headway.measure.journal import Entry
from headway.measure.measured import Measured
from headway.measure.result import Result
from headway.pytest_session import _write_bytes
from headway.report import benchmarks
from headway.report.benchmarks import session_to_json, store_session


@pytest.fixture
def session(monkeypatch):
    """Return a session of one benchmark, as it is stored."""
    monkeypatch.setattr(benchmarks, "commit_info", lambda _folder: {})
    launch = Measured(values_s=(0.1, 0.2), calls=1, reference_s=(0.01, 0.01))
    return session_to_json({"f": [Entry(Result(name="it", model="serial", launches=(launch,)), "f", "it")]}, Path())


def sessions(path):
    return json.loads(path.read_text())["sessions"]


def test_a_session_is_added_or_replaces_the_stored_ones(tmp_path, session):
    """A session is added to a file, or replaces what it holds, and nothing else remains in the folder."""
    path = tmp_path / "new" / "base.json"
    for add, count in ((True, 1), (True, 2), (False, 1)):
        store_session(path, session, add=add)
        assert len(sessions(path)) == count
    assert list(path.parent.iterdir()) == [path]


def test_a_session_takes_the_place_of_a_link_that_loops(tmp_path, session):
    """A link to itself holds no sessions, so nothing is lost by its replacement."""
    path = tmp_path / "base.json"
    path.symlink_to(path.name)

    store_session(path, session, add=True)

    assert len(sessions(path)) == 1


def test_a_full_disk_costs_no_stored_session(tmp_path, session, monkeypatch):
    """If the disk is full, the file is as before."""
    path = tmp_path / "base.json"
    store_session(path, session, add=False)
    before = path.read_bytes()

    def half(self, data):
        with self.open("wb") as file:
            file.write(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(OSError, match="No space left"):
        store_session(path, session, add=True)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("is_new", [True, False])
def test_a_full_disk_leaves_no_new_file_of_results(tmp_path, room, is_new):
    """An empty file, or a part of one, would be taken for results; a file that was there is not removed."""
    path = tmp_path / "results.json"
    if not is_new:
        path.write_bytes(b"{}")
    room(10)
    with pytest.raises(OSError, match="File too large"):
        _write_bytes(path, b"x" * 20)
    room()
    assert path.exists() is not is_new
    _write_bytes(path, b"x" * 20)
    assert path.read_bytes() == b"x" * 20


def test_sessions_that_end_at_once_are_all_added(tmp_path, session):
    """Sessions that add themselves at the same time are all in the file."""
    path = tmp_path / "base.json"
    ends = threading.Barrier(8)

    def add():
        ends.wait()
        store_session(path, session, add=True)

    threads = [threading.Thread(target=add) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(sessions(path)) == 8


@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff", b'{"sessions": [{}]}', b'{"sessions": 5}'])
def test_a_file_that_became_invalid_is_told_and_kept(tmp_path, session, content):
    """A file that is no file of sessions any more is told, and not overwritten."""
    path = tmp_path / "base.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"nothing is added: .* holds no results of Headway: "):
        store_session(path, session, add=True)
    assert path.read_bytes() == content


def test_a_link_to_a_shared_file_stays_one(tmp_path, session):
    """A file that is a link to a file elsewhere stays a link."""
    (tmp_path / "shared").mkdir()
    shared, path = tmp_path / "shared" / "base.json", tmp_path / "base.json"
    path.symlink_to(shared)
    store_session(path, session, add=True)
    store_session(path, session, add=True)
    assert path.is_symlink()
    assert len(sessions(shared)) == 2
