"""Files that anyone may have made (a results store, kept results of benchmarks) are read, or refused with a reason."""

import json
import shutil
import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sample import examples
from synthetic import make_cell, make_interpreter, make_settings

from headway.errors import StoreError, UsageError
from headway.lab.kept.launched import Launch
from headway.lab.kept.results import load_run
from headway.lab.kept.store import Store
from headway.measure.journal import Entry
from headway.measure.measured import Measured
from headway.measure.result import Result
from headway.pytest_options import Asked
from headway.report.benchmarks import benchmark_tables

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text(max_size=5), one, max_size=3),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Return a store with a run of two cells."""
    path = tmp_path_factory.mktemp("store") / "good.sqlite"
    interpreter = make_interpreter()
    of_run = make_settings(launches=2, experiments=("sleep",), interpreters=(interpreter,))
    cells = [make_cell("sleep", label, interpreter.id) for label in ("serial", "threads")]
    with Store(path, create=True) as store:
        run_id = store.new_run(of_run, cells)
        for cell in cells:
            store.add_launch(run_id, cell.key, 0, Launch("ok", samples={"work_s": [1.0, 2.0]}, wall_s=1.0))
    return path


def read(path):
    """Read all of a store as the command line does."""
    with Store(path) as store:
        found = store.runs()
    run = load_run(store=path)
    return found, run.failures, run.experiments(), run.names


def refusal(path):
    """Return the error if the store cannot be read, else None."""
    try:
        read(path)
    except StoreError as error:
        return error
    return None


def read_or_refused(path):
    """Return whether the store was read; if it was not, the error must have one line and a hint."""
    error = refusal(path)
    assert error is None or (error.hint and "\n" not in error.message)
    return error is None


def test_a_good_store_is_read(good):
    """The undamaged store, which the other tests change, is read."""
    assert read_or_refused(good)


@given(
    damage=st.lists(st.tuples(st.integers(0, 2**20), st.binary(min_size=1, max_size=64)), max_size=6),
    cut=st.integers(0, 2**17),
)
# SQLite's message quotes the damaged table over several lines.
@example(damage=[(3552, b'"')], cut=1)
# The quoted text is not UTF-8.
@example(damage=[(3517, b"\x80")], cut=1)
@examples(80)
def test_a_damaged_store_is_read_or_refused(good, damage, cut):
    """A store with bytes changed anywhere, and its end cut off, is read or refused."""
    data = bytearray(good.read_bytes())
    for at, new in damage:
        begin = at % len(data)
        data[begin : begin + len(new)] = new
    if cut < len(data):
        del data[-cut:]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.sqlite"
        path.write_bytes(data)
        read_or_refused(path)


PLACES = [
    ("runs", "settings"), ("runs", "id"), ("runs", "started_at"), ("runs", "ended_at"), ("cells", "cell"), ("cells", "key"),
    ("launches", "facts"), ("launches", "reason"), ("launches", "block"), ("launches", "wall_s"), ("samples", "value"),
]  # fmt: skip


@given(
    st.sampled_from(PLACES),
    st.one_of(values.map(json.dumps), st.binary(max_size=8), st.text(max_size=8), st.just("[" * 100_000)),
)
@example(("launches", "facts"), "[1]")
@example(("runs", "settings"), "7")
@examples(150)
def test_foreign_values_are_read_or_refused(good, place, value):
    """A store with values of other kinds in any column, as another version may write them, is read or refused."""
    table, column = place
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.sqlite"
        shutil.copy(good, path)
        with sqlite3.connect(path) as db:
            try:
                db.execute(f"UPDATE {table} SET {column} = ?", (value,))
            except (sqlite3.IntegrityError, UnicodeEncodeError):
                return
        db.close()
        read_or_refused(path)


@given(st.data())
@examples(150)
def test_foreign_settings_are_read_or_refused(good, data):
    """A run whose settings have one foreign member, at any level, is read or refused."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.sqlite"
        shutil.copy(good, path)
        with sqlite3.connect(path) as db:
            (text,) = db.execute("SELECT settings FROM runs").fetchone()
            of_run = json.loads(text)
            inner = data.draw(st.sampled_from([of_run, of_run["machine"], of_run["interpreters"][0]]))
            inner[data.draw(st.sampled_from(sorted(inner)))] = data.draw(values)
            db.execute("UPDATE runs SET settings = ?", (json.dumps(of_run),))
        db.close()
        read_or_refused(path)


KEPT = {
    "groups": {"test_a.py": [{
        "name": "test_it", "label": "it", "model": "threads", "tasks": 2, "traced": False,
        "launches": [Measured(values_s=(1.0, 2.0), calls=3, note="a note", reference_s=(0.5, 0.6)).to_json()],
    }]}
}  # fmt: skip


NOW = Measured(values_s=(1.0, 2.0), calls=3, reference_s=(0.5, 0.6))


class _Session:
    """The part of a session that the plugin needs for a comparison."""

    def __init__(self, folder):
        self.config = self
        self.rootpath = folder
        self.invocation_params = self
        self.dir = folder
        self.earlier = None

    kept_file = Asked.kept_file
    _found = Asked._found


def compared_or_refused(text: bytes):
    """Return the results that were read, or None if they were refused."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "kept.json").write_bytes(text)
        session = _Session(Path(folder))
        refused = loaded(session)
        if refused:
            assert "kept.json holds no results of Headway" in refused
            return None
        benchmark_tables({}, session.earlier)
        now = Result(name="it", model="serial", launches=(NOW,))
        for key, known in session.earlier.known.items():
            assert all(launch.values_s for launches in known.sessions for launch in launches)
            entry = Entry(now, "", "", key=key) if isinstance(key, str) else Entry(now, *key)
            session.earlier.ratio(entry)
        return session.earlier.known


def loaded(session):
    """Load the results; return the reason if they were refused, else ""."""
    try:
        session.earlier = Asked.stored(session, "compare", "kept.json")
    except UsageError as error:
        return error.message
    return ""


def test_kept_results_are_read():
    """The undamaged results, which the other tests change, are read."""
    ((key, known),) = compared_or_refused(json.dumps(KEPT).encode()).items()
    assert key == ("test_a.py", "it")
    ((launch,),) = known.sessions
    assert launch == Measured(values_s=(1.0, 2.0), calls=3, note="a note", reference_s=(0.5, 0.6))


@given(st.one_of(st.binary(max_size=50), values.map(lambda one: json.dumps(one).encode()), st.just(b"[" * 100_000)))
@examples(100)
def test_any_file_is_compared_or_refused(text):
    """A file with any contents is compared or refused."""
    compared_or_refused(text)


@given(st.data())
@examples(150)
def test_foreign_results_are_compared_or_refused(data):
    """Kept results with one foreign member are compared or refused."""
    kept = json.loads(json.dumps(KEPT))
    (result,) = kept["groups"]["test_a.py"]
    inner = data.draw(st.sampled_from([kept, kept["groups"], result, result["launches"][0]]))
    inner[data.draw(st.sampled_from(sorted(inner)))] = data.draw(values)
    compared_or_refused(json.dumps(kept).encode())
