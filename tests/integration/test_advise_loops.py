"""`headway advise` on functions that run an event loop of their own."""

import pytest
from advised_app import CORES, FOUND, interpreter, made
from real_programs import LIMIT_S

from headway.advice.course import _notes
from headway.advice.examined import examine
from headway.advice.holds import Holds, look
from headway.advice.refused import refuse
from headway.advice.target import parse_target
from headway.host.interpreters import select

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

LOOPS = """
import asyncio, functools
async def inner():
    await asyncio.sleep(0.001)
def runs(): return asyncio.run(inner())
def kept(): return LOOP.run_until_complete(inner())
LOOP = asyncio.new_event_loop()
def logged(function):
    @functools.wraps(function)
    def call(*args): return function(*args)
    return call
@logged
def wrapped():
    return asyncio.run(inner())
class Job:
    def run(self): return 1
def steady(): return Job().run()
def elsewhere():
    import threading
    thread = threading.Thread(target=lambda: asyncio.run(inner()))
    thread.start()
    thread.join()
async def nested(): return asyncio.run(inner())
"""


@pytest.mark.parametrize("on", [one.name for one in select(FOUND)])
@pytest.mark.matrix("on")
def test_a_function_that_runs_a_loop_is_told_with_what_a_coroutine_must_do(tmp_path, monkeypatch, on):
    """Its source tells it, from 3.8 to 3.15, also below a decorator; another `run`, or one for another thread, does not count."""
    (made(tmp_path, monkeypatch) / "loops.py").write_text(LOOPS)
    seen = {
        name: examine(parse_target(f"loops:{name}"), interpreter(on), CORES, limit_s=LIMIT_S)
        for name in ("runs", "kept", "wrapped", "steady", "elsewhere")
    }
    assert {name: one.function.own_loop for name, one in seen.items()} == {
        "runs": "asyncio.run",
        "kept": "run_until_complete",
        "wrapped": "asyncio.run",
        "steady": "",
        "elsewhere": "",
    }
    assert any("asyncio.to_thread" in one for one in _notes(seen["runs"], seen["runs"].function))


def test_a_coroutine_that_runs_a_loop_has_a_hint_of_its_own(tmp_path, monkeypatch):
    """The function does run by itself, so the hint tells what to do in the coroutine."""
    (made(tmp_path, monkeypatch) / "loops.py").write_text(LOOPS)
    target = parse_target("loops:nested")
    error = refuse(examine(target, interpreter(), CORES, limit_s=LIMIT_S), target)
    assert "running event loop" in error.message
    assert "await the coroutine" in error.hint


def test_a_function_without_coroutines_runs_where_asyncio_is_not_imported(tmp_path, monkeypatch):
    """Its import takes longer than all of ours, in each process and sub-interpreter; a function's own one is its own."""
    (made(tmp_path, monkeypatch) / "plain.py").write_text(
        "import sys\nHEAVY = {'asyncio', 'ssl', 'importlib.metadata'}\nassert not HEAVY & sys.modules.keys()\n"
        "def f():\n    assert not HEAVY & sys.modules.keys(), sys.modules.keys()\n"
    )
    seen = examine(parse_target("plain:f"), interpreter(), CORES, limit_s=LIMIT_S)
    assert seen.error == ""
    assert seen.place.refusals == ()
    holds = look(parse_target("plain:f"), seen.place, seen.function, CORES)
    assert isinstance(holds, Holds), holds
