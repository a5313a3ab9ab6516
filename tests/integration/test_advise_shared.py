"""`headway advise` on functions that change or take something of the process, and give it back before they return."""

import pytest
from advised_app import CORES, FOUND, interpreter, made
from real_programs import LIMIT_S

from headway.advice.examined import examine
from headway.advice.target import parse_target, with_inputs
from headway.host.interpreters import select

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SHARED = """
import asyncio, os, sqlite3, threading, time
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
LOCK, UNUSED, FEW = threading.Lock(), threading.Lock(), threading.Semaphore(3)
def in_turn():
    with LOCK:
        time.sleep(0.002)
def few_at_a_time():
    with FEW:
        time.sleep(0.002)
def waits_at_a_condition():
    with READY:
        READY.wait_for(lambda: True)
        READY.wait(0.002)
READY = threading.Condition()
class Till:
    def __init__(self): self.lock = threading.RLock()
    def pay(self):
        with self.lock:
            with self.lock: pass
            time.sleep(0.002)
pay = Till().pay
tills = [(Till(),)]
def made():
    lock = threading.Lock()
    def inner():
        with lock: time.sleep(0.002)
    return inner
inner = made()
def particular():
    if type(LOCK) is not type(threading.Lock()): raise TypeError("a lock is expected")
    with LOCK: pass
async def awaits():
    global TURN
    TURN = TURN or asyncio.Lock()
    async with TURN: await asyncio.sleep(0.002)
TURN = None
def counts_in_memory():
    rows = sqlite3.connect(":memory:")
    return rows.execute("select 1").fetchall()
"""


@pytest.fixture
def function(tmp_path, monkeypatch):
    """Return a function that examines a function of SHARED."""
    (made(tmp_path, monkeypatch) / "shared.py").write_text(SHARED)

    def of(name, on="3.13", inputs=""):
        target = parse_target(f"shared:{name}")
        seen = examine(with_inputs(target, inputs) if inputs else target, interpreter(on), CORES, limit_s=LIMIT_S)
        assert seen.error == ""
        return seen.function

    return of


@pytest.fixture
def effects(function):
    """Return a function that returns the effects of a function of SHARED."""
    return lambda *words: function(*words).effects


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


@pytest.mark.parametrize("name", [one.name for one in select(FOUND)])
@pytest.mark.matrix("name")
def test_the_locks_that_calls_take_are_found(function, name):
    """A lock of the module, of the method's object or of a closure, and one of asyncio; not one that no call takes."""
    lines = ["", *SHARED.splitlines()]
    for target, inputs, held in (
        ("in_turn", "", "LOCK"),
        ("pay", "", "self.lock"),
        ("Till.pay", "shared:tills", "self.lock"),
        ("inner", "", "lock"),
        ("awaits", "", "TURN"),
    ):
        (lock,) = function(target, name, inputs).locks
        assert lock.name == held
        assert "with" in lines[int(lock.at.rpartition(":")[2])]
        assert (lock.share > 0.8, lock.most) == (True, 1)


def test_the_hold_of_a_condition_ends_while_it_waits_and_a_semaphore_lets_several_in(function):
    """A condition that calls wait at is free meanwhile."""
    (lock,) = function("waits_at_a_condition").locks
    assert lock.share < 0.5
    (lock,) = function("few_at_a_time").locks
    assert lock.most == 3


def test_a_function_that_does_not_bear_a_watched_lock_is_advised_on_all_the_same(function):
    """Nothing is known of its locks then."""
    assert function("particular").locks == ()
    assert function("counts_in_memory").locks == ()
