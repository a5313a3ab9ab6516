"""`headway advise` on functions that change or take something of the process, and give it back before they return."""

import pytest
from advised_app import CORES, FOUND, interpreter, made

from headway.advice.examined import examine
from headway.advice.target import parse_target
from headway.host.interpreters import select

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SHARED = """
import os, sqlite3
def there_and_back():
    before = os.getcwd()
    os.chdir("/")
    try:
        return len(os.listdir("."))
    finally:
        os.chdir(before)
def set_and_reset():
    os.environ["HEADWAY_FOR_A_CALL"] = "1"
    del os.environ["HEADWAY_FOR_A_CALL"]
def inserts():
    with sqlite3.connect("rows.db") as rows:
        rows.execute("create table if not exists rows (n)")
        rows.execute("insert into rows values (1)")
    rows.close()
kept = sqlite3.connect(":memory:", check_same_thread=False)
kept.execute("create table rows (n)")
def inserts_by_a_kept_connection():
    kept.execute("insert into rows values (1)")
def counts_in_memory():
    rows = sqlite3.connect(":memory:")
    return rows.execute("select 1").fetchall()
"""


@pytest.fixture
def effects(tmp_path, monkeypatch):
    """Return a function that returns the effects of a function of SHARED."""
    (made(tmp_path, monkeypatch) / "shared.py").write_text(SHARED)

    def of(name, on="3.13"):
        seen = examine(parse_target(f"shared:{name}"), interpreter(on), CORES, limit_s=30.0)
        assert seen.error == ""
        return seen.function.effects

    return of


@pytest.mark.parametrize("name", [one.name for one in select(FOUND)])
@pytest.mark.matrix("name")
def test_a_working_directory_that_a_call_changes_and_restores_is_a_side_effect(effects, name):
    """A comparison before and after the call shows no difference; other threads see it during the call."""
    assert [kind for kind, _ in effects("there_and_back", name)] == ["working directory"]


def test_an_environment_variable_that_a_call_sets_and_removes_is_a_side_effect(effects):
    """The environment is that of all threads, too."""
    assert effects("set_and_reset") == (("environment", "HEADWAY_FOR_A_CALL"),)


@pytest.mark.parametrize("name", [one.name for one in select(FOUND)])
@pytest.mark.matrix("name")
def test_a_database_that_a_call_opens_or_changes_is_a_side_effect(effects, name):
    """SQLite opens files without Python, and an open connection counts the rows that it has changed."""
    (found,) = effects("inserts", name)
    assert found == ("files", "opens a database: sqlite3.connect(rows.db)")
    assert effects("inserts_by_a_kept_connection", name) == (("globals", "shared.kept changes"),)
    assert effects("counts_in_memory", name) == ()
