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
