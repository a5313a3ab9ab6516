"""`headway advise` on functions whose work is to change their arguments or globals."""

import pytest
from advised_app import CORES, interpreter, made
from real_programs import LIMIT_S

from headway.advice.examined import examine
from headway.advice.target import parse_target, with_inputs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CHANGING = """
import functools
LOG, COUNT, MEMO = [], 0, {}
def fill(record): record["answer"] = record["id"] * 2
def fill_and_return(record):
    record["answer"] = record["id"] * 2
    return record
def fill_or_return(record):
    if record["id"]: return record
    record["answer"] = 1
def log(record): LOG.append(record["id"])
def write(record):
    LOG.append(record["id"])
    with open("left.txt", "a") as file: file.write("x")
def remembered(record):
    if record["id"] not in MEMO: MEMO[record["id"]] = record["id"] * 2
    return MEMO[record["id"]]
@functools.lru_cache(None)
def cached(): return 1
def check(record): assert record
class Account:
    def __init__(self): self.sum = 0
    def add(self, record): self.sum += 1
ACCOUNT = Account()
add = ACCOUNT.add
def fill_the_rest(record):
    if record["id"]: record["answer"] = record["id"] * 2
def log_the_rest(record):
    if record["id"]: LOG.append(record["id"])
def records(): return [{"id": k} for k in range(4)]
def pairs(): return [(Account(), one) for one in records()]
"""


@pytest.fixture
def reasons(tmp_path, monkeypatch):
    """Return a function that returns, for a function of the module above, why processes cannot run it; "" if they can."""
    (made(tmp_path, monkeypatch) / "changing.py").write_text(CHANGING)

    def ask(name, inputs=":records"):
        target = parse_target(f"changing:{name}")
        target = with_inputs(target, inputs) if inputs else target
        found = examine(target, interpreter("3.13"), CORES, limit_s=LIMIT_S)
        assert found.function is not None, found.error
        return [found.place.why_not(model) for model in ("processes-forkserver", "interpreters", "threads")]

    return ask


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("fill", "copies of its arguments"),
        ("log", "changing.LOG of its own"),
        ("add", "changing.ACCOUNT.sum of its own"),
        ("Account.add", "copies of its arguments"),
        ("fill_the_rest", "copies of its arguments"),
        ("log_the_rest", "changing.LOG of its own"),
    ],
)
def test_processes_cannot_do_work_that_is_a_change(reasons, name, what):
    """The pasted code would lose all of it; threads change the program's own objects.

    The first input may be one of which the function makes nothing.
    """
    processes, interpreters, threads = reasons(name, ":pairs" if name == "Account.add" else ":records")
    never = "the program never sees the changes"
    assert processes == f"the function returns None and changes {what} in each process: {never}"
    assert interpreters == f"the function returns None and changes {what} in each sub-interpreter: {never}"
    assert threads == ""


@pytest.mark.parametrize("name", ["fill_and_return", "fill_or_return", "write", "remembered", "check", "cached"])
def test_processes_run_what_returns_or_writes_something(reasons, name):
    """A result may be all that the program wants, and so may a file be; a cache is nothing that the program misses."""
    assert reasons(name, "" if name == "cached" else ":records") == ["", "", ""]
