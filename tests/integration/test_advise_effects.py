"""The side effects of calls: each kind of state that they change, and what they set and take back before they return."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from advised_app import CORES, FOUND, interpreter, made
from headway_agent.strangers import effects
from real_programs import LIMIT_S

from headway.advice.examined import examine
from headway.advice.target import parse_target, with_inputs
from headway.host.interpreters import select

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

KEPT = """
import array, collections, contextlib, decimal, functools, gc, io, itertools, logging, os, random, socket, sys, threading
import types, warnings
COUNTER, DEQUE, DEFAULTS = collections.Counter(), collections.deque(), collections.defaultdict(list)
ORDERED, ARRAY, BUFFER = collections.OrderedDict(), array.array("d", [0.0]), io.StringIO()
NUMBERS, RANDOM, NESTED = itertools.count(), random.Random(1), {"rows": []}
SPACE, OWN, CURRENT = types.SimpleNamespace(n=0), threading.local(), None
import asyncio, queue
class Slotted:
    __slots__ = ("found", "__hidden", "unset")
    def __init__(self): self.found, self.__hidden = {}, 0
    def hide(self): self.__hidden += 1
class Part:
    def __init__(self): self.index, self.x = Slotted(), 0
INDEX, QUEUE, SIMPLE, DEEP = Slotted(), queue.Queue(), queue.SimpleQueue(), {"a": ({"b": [[]]},)}
PARTS, APP, ROLLING = [Part(), Part()], Part(), collections.deque([Part(), Part()])
class Names(dict): pass
NAMES = Names()

def counter(): COUNTER["calls"] += 1
def deque_(): DEQUE.append(1)
def defaults_(): DEFAULTS["key"].append(1)
def ordered(): ORDERED[len(ORDERED)] = 1
def array_(): ARRAY[0] += 1
def buffer(): BUFFER.write("x")
def numbers(): return next(NUMBERS)
def random_(): return RANDOM.random()
def nested(): NESTED["rows"].append(1)
def space(): SPACE.n += 1
def names(): NAMES[len(NAMES)] = 1
def default(seen=[]): seen.append(1)
def attribute(): attribute.calls = getattr(attribute, "calls", 0) + 1
def slots(): INDEX.found[len(INDEX.found)] = 1
def mangled(): INDEX.hide()
def queued(): QUEUE.put(1)
def simple(): SIMPLE.put(1)
def deep(): DEEP["a"][0]["b"][0].append(1)
def of_elements():
    for part in PARTS: part.x += 1
def of_objects(): APP.index.found["key"] = len(APP.index.found), APP.x
def rolls():
    ROLLING.popleft()
    ROLLING.append(Part())
def symlink():
    with contextlib.suppress(OSError): os.symlink("nowhere", "a-link")
def mode(): os.chmod(".", 0o700)
def cut():
    with contextlib.suppress(OSError): os.truncate("no-such-file", 0)
def times(): os.utime(".")
def sends():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one: one.sendto(b"x", ("127.0.0.1", 9))
def path(): sys.path.append("nowhere")
def recursion(): sys.setrecursionlimit(sys.getrecursionlimit() + 1)
def precision(): decimal.getcontext().prec += 1
def silences(): warnings.simplefilter("ignore")
def level(): logging.getLogger().setLevel(logging.root.level + 1)
def collector(): gc.set_threshold(gc.get_threshold()[0] + 1)

def global_back():
    global CURRENT
    CURRENT = 1
    seen = CURRENT
    CURRENT = None
    return seen
def global_gone():
    global GONE
    GONE = 1
    del GONE
def attribute_back():
    SPACE.current = 1
    del SPACE.current
def key_back():
    NAMES["current"] = 1
    del NAMES["current"]
def element_back():
    DEQUE.append(1)
    return DEQUE.pop()
def output_back():
    with contextlib.redirect_stdout(io.StringIO()) as out: print("x")
    return out.getvalue()
def stream_back():
    before = sys.stdout
    sys.stdout = io.StringIO()
    sys.stdout = before
def mask_back(): os.umask(os.umask(0o22))
def below(): return Caller().call()
class Caller:
    def call(self): return functools.partial(global_back)()
def closed():
    current = None
    def inner():
        nonlocal current
        current = 1
        current = None
    return inner
closure = closed()
class Job:
    def run(self):
        self.state = 1
        del self.state
run = Job().run

@functools.lru_cache(None)
def looked_up(n): return n
def cached(): return looked_up(1)
@functools.lru_cache(None)
def the_model(): return object()
def one_model(): return the_model()

def own():
    OWN.value = 1
    rows = []
    rows.append(1)
    local = {"a": 1}
    local["b"] = 2
    def inner():
        nonlocal rows
        rows = 1
    inner()
    return Job()

if __name__ == "__main__":
    import json, kept
    from headway_agent.strangers.effects import Effects
    out, found = sys.stdout, {}
    for name in sys.argv[1:]:
        function = getattr(kept, name)
        effects = Effects(function)
        effects.begin()
        function()
        effects.called_once()
        function()
        found[name] = effects.end()
    out.write(json.dumps(found))
"""

STAYS = {
    "counter": ["globals", "kept.COUNTER changes"],
    "deque_": ["globals", "kept.DEQUE changes"],
    "defaults_": ["globals", "kept.DEFAULTS changes"],
    "ordered": ["globals", "kept.ORDERED changes"],
    "array_": ["globals", "kept.ARRAY changes"],
    "buffer": ["globals", "kept.BUFFER changes"],
    "numbers": ["globals", "kept.NUMBERS changes"],
    "random_": ["random", "kept.RANDOM's state"],
    "nested": ["globals", "kept.NESTED changes"],
    "space": ["globals", "kept.SPACE.n is bound anew"],
    "names": ["globals", "kept.NAMES changes"],
    "default": ["globals", "kept.default's default seen changes"],
    "attribute": ["globals", "kept.attribute.calls is made"],
    "slots": ["globals", "kept.INDEX.found changes"],
    "mangled": ["globals", "kept.INDEX._Slotted__hidden is bound anew"],
    "queued": ["globals", "kept.QUEUE changes"],
    "simple": ["globals", "kept.SIMPLE changes"],
    "deep": ["globals", "kept.DEEP changes"],
    "of_objects": ["globals", "kept.APP.index.found changes"],
    "rolls": ["globals", "kept.ROLLING changes"],
    "symlink": ["files", "makes the link a-link"],
    "mode": ["files", "changes the mode of ."],
    "cut": ["files", "cuts no-such-file"],
    "times": ["files", "changes the times of ."],
    "sends": ["network", "sends to ('127.0.0.1', 9)"],
    "path": ["settings", "sys.path"],
    "recursion": ["settings", "the recursion limit"],
    "precision": ["settings", "the decimal context"],
    "silences": ["settings", "warnings.filters"],
    "level": ["settings", "the root logger"],
    "collector": ["settings", "the garbage collector"],
    "cached": ["helper's cache", "results of kept.looked_up are kept (functools.lru_cache)"],
}
BACK = {
    "global_back": ["globals", "kept.CURRENT is bound within a call (kept.py:{})", "CURRENT = 1"],
    "global_gone": ["globals", "kept.GONE is bound within a call (kept.py:{})", "GONE = 1"],
    "attribute_back": ["globals", "kept.SPACE.current is bound within a call (kept.py:{})", "SPACE.current = 1"],
    "key_back": ["globals", "kept.NAMES changes within a call (kept.py:{})", 'NAMES["current"] = 1'],
    "element_back": ["globals", "kept.DEQUE changes within a call (kept.py:{})", "DEQUE.append(1)"],
    "output_back": ["settings", "sys.stdout is set within a call (kept.py:{})", "with contextlib.redirect_stdout"],
    "stream_back": ["settings", "sys.stdout is bound within a call (kept.py:{})", "sys.stdout = io.StringIO()"],
    "mask_back": ["settings", "the umask is set within a call (kept.py:{})", "def mask_back"],
    "below": ["globals", "kept.CURRENT is bound within a call (kept.py:{})", "CURRENT = 1"],
    "closure": ["globals", "current (of its closure) is bound within a call (kept.py:{})", "current = 1"],
    "run": ["globals", "self.state is bound within a call (kept.py:{})", "self.state = 1"],
}


@pytest.fixture
def seen(tmp_path):
    """Return a function that returns the effects of functions of KEPT on an interpreter, by their names."""
    (tmp_path / "kept.py").write_text(KEPT)
    agent = os.path.dirname(os.path.dirname(os.path.dirname(effects.__file__)))

    def of(executable, names):
        done = subprocess.run(
            [executable, str(tmp_path / "kept.py"), *names],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": agent},
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)

    return of


@pytest.mark.parametrize("name", [one.name for one in select(FOUND)])
@pytest.mark.matrix("name")
def test_all_state_of_a_process_that_calls_change_is_a_side_effect(seen, name):
    """Containers of every kind, generators of numbers, defaults, files, and settings; a function has only its own."""
    found = seen(interpreter(name).executable, [*STAYS, "own", "one_model", "of_elements"])

    assert found.pop("of_elements") == [["globals", f"kept.PARTS[{place}].x is bound anew"] for place in (0, 1)]
    assert found == {**{one: [words] for one, words in STAYS.items()}, "own": [], "one_model": []}


@pytest.mark.parametrize("name", [one.name for one in select(FOUND)])
@pytest.mark.matrix("name")
def test_what_a_call_sets_and_takes_back_is_a_side_effect(seen, name):
    """The values before and after the call are the same; the code of the function, and of those that it calls, tells it."""
    lines = KEPT.splitlines()

    found = seen(interpreter(name).executable, list(BACK))

    for one, (kind, words, begins) in BACK.items():
        at = 1 + next(place for place, line in enumerate(lines) if line.strip().startswith(begins))
        assert found[one] == [[kind, words.format(at)]], one


def test_arrays_and_generators_of_numpy_are_state_too(seen, tmp_path):
    """They are looked at where the function's module has imported NumPy."""
    pytest.importorskip("numpy")
    more = (
        "import numpy\nSUMS, DRAWS = numpy.zeros(3), numpy.random.default_rng(1)\n"
        "def sums(): SUMS[0] += 1\ndef draws(): return DRAWS.random()\n"
    )
    (tmp_path / "kept.py").write_text(more + KEPT)

    assert seen(sys.executable, ["sums", "draws"]) == {
        "sums": [["globals", "kept.SUMS changes"]],
        "draws": [["random", "kept.DRAWS's state"]],
    }


def test_the_state_of_a_module_that_the_first_call_imports_is_none_of_its_effects(seen, tmp_path):
    """Objects of its classes are looked into from the first call on, with the attributes that they have after it."""
    (tmp_path / "lazy.py").write_text("class Job:\n    def __init__(self): self.rows = []\nJOB = Job()\n")
    (tmp_path / "kept.py").write_text("def imports():\n    import lazy\n    return lazy.JOB.rows\n" + KEPT)

    assert seen(sys.executable, ["imports"]) == {"imports": []}


def test_settings_of_a_module_that_the_first_call_imports_are_its_effects(seen, tmp_path):
    """They are compared with those that such a module begins with, as far as calls can set them; the import sets none."""
    (tmp_path / "kept.py").write_text(
        "def configures():\n    import logging\n    logging.basicConfig(level=10)\n"
        "def limits():\n    import socket\n    socket.setdefaulttimeout(5)\n"
        "def imports():\n    import logging, socket\n"
        "import sys\n" + KEPT[KEPT.index('if __name__ == "__main__"') :]
    )

    assert seen(sys.executable, ["configures"]) == {"configures": [["settings", "the root logger"]]}
    assert seen(sys.executable, ["limits"]) == {"limits": [["settings", "the default timeout of sockets"]]}
    assert seen(sys.executable, ["imports"]) == {"imports": []}


def test_the_cache_of_a_helper_is_told_from_the_second_call(tmp_path, monkeypatch):
    """First calls with the other inputs are as long as the first of all, and fill the time for all calls."""
    made(tmp_path, monkeypatch)
    Path("helped.py").write_text(
        "import functools, time\n@functools.lru_cache(None)\ndef kept(n):\n    time.sleep(0.2)\n    return n\n"
        "def looks_up(n): return kept(n)\nnumbers = list(range(8))\n"
    )
    target = parse_target("helped:looks_up")
    function = examine(with_inputs(target, "helped:numbers"), interpreter("3.13"), CORES, limit_s=LIMIT_S).function

    assert [kind for kind, _ in function.effects] == ["helper's cache"]
    assert function.own_s > 0.05
    assert function.first_s > 100 * function.later_s
