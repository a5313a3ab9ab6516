"""`headway advise` on arguments that calls use up or change, and that cannot be pickled."""

import pytest
from advised_app import CORES, interpreter, made
from real_programs import LIMIT_S

from headway.advice.examined import examine
from headway.advice.holds import Holds, look
from headway.advice.refused import refuse
from headway.advice.session import CALLS
from headway.advice.target import parse_target, with_inputs
from headway.host.machine import this_machine
from headway.lab.design import Cell, Variant
from headway.lab.launching.launch import run_launch

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

USED = """
import threading, time
NUMBERS = 20_000
def total(numbers):
    count = 0
    for one in numbers:
        count += 1
    assert count == NUMBERS, count
    return count
def added(numbers): return sum(one & 3 for one in numbers)
def generators(): return [(one for one in range(NUMBERS)) for _ in range(3)]
MADE = generators()
def the_same(): return MADE

class Queue:
    def __init__(self): self.lock, self.items = threading.Lock(), list(range(20_000))
def drain(queue):
    count = 0
    while queue.items: count += queue.items.pop() & 3
    return count
def queues(): return [Queue() for _ in range(3)]
QUEUES = queues()
def stamp(queue): return time.perf_counter_ns()

def read(file): return len(file.read())
def read_again(file):
    file.seek(0)
    return len(file.read())
def files(): return [open(__file__) for _ in range(3)]
FILES = files()
"""


@pytest.fixture
def used(tmp_path, monkeypatch):
    """Return a function that returns the target of a function of the module above with inputs of it."""
    (made(tmp_path, monkeypatch) / "used.py").write_text(USED)
    return lambda name, inputs: with_inputs(parse_target(f"used:{name}"), f"used:{inputs}")


def examined(target, on="3.13"):
    return examine(target, interpreter(on), CORES, limit_s=LIMIT_S)


@pytest.mark.parametrize("on", ["3.8", "3.11", "3.13", "3.14"])
@pytest.mark.matrix("on")
@pytest.mark.parametrize(("name", "inputs"), [("total", "generators"), ("drain", "queues"), ("read", "files")])
def test_arguments_that_a_call_uses_up_are_made_anew(used, name, inputs, on):
    """The function of the inputs is called again, so that each call has the work of the first one; that is no effect."""
    seen = examined(used(name, inputs), on)
    assert seen.error == ""
    assert seen.function.changes_arguments
    assert not seen.function.differs
    assert seen.function.anew_s > 0
    assert {kind for kind, _ in seen.function.effects} == {"arguments"}


def test_each_call_of_a_launch_and_of_the_profile_has_its_own_arguments(used):
    """The function raises if a generator has been used by another call."""
    target, own = used("total", "generators"), interpreter()
    seen = examined(target)
    assert isinstance(look(target, seen.place, seen.function, CORES), Holds)
    params = {"target": target.job(), "kind": "plain", "workers": 2, "tasks": 8, "fresh": True}
    variant = Variant(series="threads", workload=CALLS, model="threads", params=params, paths=target.paths, samples=2)
    (launch,) = run_launch([Cell("x", variant, "free", own.id, "x")], own.executable, this_machine(), limit_s=LIMIT_S)
    assert launch.status == "ok", launch.reason


@pytest.mark.parametrize(
    ("name", "inputs"),
    [("added", "MADE"), ("added", "the_same"), ("drain", "QUEUES"), ("read", "FILES")],
)
def test_arguments_that_nothing_makes_anew_are_an_error(used, name, inputs):
    """A list of generators gives each to one call only, so no later call would have any work."""
    target = used(name, inputs)
    error = refuse(examined(target), target)
    assert "its arguments are used up by a call and cannot be pickled: " in error.message
    assert "--inputs module:function" in error.hint


@pytest.mark.parametrize(("name", "inputs"), [("read_again", "FILES"), ("stamp", "QUEUES"), ("stamp", "queues")])
def test_arguments_that_serve_many_calls_stay_the_same(used, name, inputs):
    """A file that is set back, and an object that a call only reads, may be used again, whatever the results are."""
    seen = examined(used(name, inputs))
    assert seen.error == ""
    assert not seen.function.changes_arguments
    assert seen.function.anew_s == 0


def test_the_memory_of_the_calls_counts(used, tmp_path):
    """The memory that a call needs is known after it, and that of a launch is its peak with all calls at a time."""
    (tmp_path / "pages.py").write_text(
        "import time\ndef page():\n    data = bytearray(b'x') * 40_000_000\n    time.sleep(1)\n    return len(data)\n"
        # The comparison of this list with the one before needs 40 MB.
        "ROWS = [None] * 5_000_000\ndef small(): return len(ROWS)\n"
    )
    target, own = parse_target("pages:page"), interpreter()
    assert 35e6 < examined(target).function.peak_bytes < 60e6
    assert examined(parse_target("pages:small")).function.peak_bytes < 10e6
    for model in ("threads", "processes-forkserver"):
        params = {"target": target.job(), "kind": "plain", "workers": 3, "tasks": 3}
        variant = Variant(series=model, workload=CALLS, model=model, params=params, paths=target.paths)
        cell = Cell("x", variant, "free", own.id, "x")
        (launch,) = run_launch([cell], own.executable, this_machine(), limit_s=LIMIT_S)
        details = launch.facts["details"]
        assert details["own_pss_bytes"] + sum(details["children_pss_bytes"]) > 100e6
