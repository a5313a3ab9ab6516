"""`headway advise` on real interpreters: what it finds out about a function, misbehaving functions, and side effects."""

import re
import subprocess
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest
from advised_app import APP, CORES, FOUND, interpreter, made
from real_programs import LIMIT_S

from headway.advice.asking import ask
from headway.advice.elsewhere import places
from headway.advice.examined import examine, missing_module
from headway.advice.holds import Holds, look
from headway.advice.observing import observed
from headway.advice.refused import refuse
from headway.advice.session import CALLS
from headway.advice.target import parse_target, with_inputs, with_json
from headway.errors import UsageError
from headway.host.interpreters import select
from headway.host.keeper import Keeper
from headway.host.machine import this_machine
from headway.lab.design import Cell, Variant
from headway.lab.launching.launch import run_launch
from headway.library import library_path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

WITH_GIL = [one.name for one in select(FOUND) if not one.free_threaded]


@pytest.fixture
def app(tmp_path, monkeypatch):
    """Return the folder with the functions, which is the working directory."""
    return made(tmp_path, monkeypatch)


def asked(name, *, on="3.13", limit_s=LIMIT_S):
    return examine(parse_target(name), interpreter(on), CORES, limit_s=limit_s)


# ---------------------------------------------------------------- the cheap questions


@pytest.mark.parametrize("name", [one.name for one in select(FOUND)])
@pytest.mark.matrix("name")
def test_a_function_is_examined(app, name):
    """A function's kind, its cost and its side effects are found from 3.8 to 3.15, with and without a GIL."""
    seen = asked("app:changes", on=name)
    assert seen.error == ""
    assert seen.function.kind == "plain"
    assert seen.function.differs
    kinds = {kind for kind, _ in seen.function.effects}
    assert {"globals", "environment", "random", "files"} <= kinds
    assert ("globals", "app.SEEN changes") in seen.function.effects
    assert asked("app:steady", on=name).function.effects == ()


@pytest.mark.parametrize(
    ("name", "kind"),
    [("count", "plain"), ("numbers", "generator"), ("lazy", "generator"), ("wait", "async"), ("wrapped", "async")],
)
def test_the_kind_of_a_function(app, name, kind):
    """The kinds are plain, a generator, a function that returns a generator, and async."""
    assert asked(f"app:{name}").function.kind == kind


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("crashes", "killed by SIGSEGV in its first call"),
        ("leaves", "SystemExit: 3"),
        ("leaves_at_once", "exit code 7 in its first call"),
        ("raises", r"ValueError: no platform \(.*app.py:\d+\)"),
        ("starts", "leaves a process behind"),
        ("forks", "its child comes back from the call"),
        ("closes_all", "closed a file descriptor"),
        ("closes_all_and_stays", "closed a file descriptor"),
        ("keyed", "takes arguments"),
        ("raise", "app has no raise; did you mean raises"),
        ("COUNT", "cannot be called"),
    ],
)
def test_a_stranger_is_a_clear_answer(app, name, words):
    """A function that crashes, exits, raises, starts processes or takes arguments is reported, without our own frames."""
    seen = asked(f"app:{name}")
    assert seen.function is None
    assert re.search(words, seen.error), seen.error
    assert "strangers" not in seen.detail


def test_odd_functions_are_no_reason_to_fail(app):
    """Closed output, NaN, and a variable that only the first call sets are no reason to fail."""
    assert asked("app:closes_stdout").error == ""
    assert not asked("app:nan").function.differs
    assert ("environment", "HEADWAY_ONCE") in asked("app:sets_once").function.effects


@pytest.mark.parametrize("name", ["3.8", "3.13", "3.14"])
def test_helpers_that_multiprocessing_keeps_are_not_left_by_a_call(app, name):
    """The first call starts the tracker of shared memory and, on 3.14, the server of forks: once for each process."""
    (app / "helped.py").write_text(
        "from concurrent.futures import ProcessPoolExecutor\nfrom multiprocessing.shared_memory import SharedMemory\n"
        "def shared():\n    one = SharedMemory(create=True, size=100)\n    one.close()\n    one.unlink()\n"
        "def pooled():\n    with ProcessPoolExecutor(1) as pool:\n        return pool.submit(abs, -1).result()\n"
    )
    assert asked("helped:shared", on=name).error == ""
    assert asked("helped:pooled", on=name).error == ""


def test_arguments_that_a_call_changes_are_made_anew(app):
    """Arguments that a call changes are made again for each sample, in serial and in threads as in processes."""
    target = with_json(parse_target("app:sorts"), '{"values": [3, 1, 2]}')
    function = examine(target, interpreter(), CORES, limit_s=LIMIT_S).function
    assert function.changes_arguments
    assert "arguments" in {kind for kind, _ in function.effects}


def test_calls_that_grow_their_argument_are_timed_with_new_ones(app):
    """A call that appends to its argument and sorts it takes as long in the first call as in the last one of thousands."""
    (app / "grows.py").write_text(
        "LONGEST = 0\n\ndef push(values):\n    global LONGEST\n    values.append(1)\n"
        "    LONGEST = max(LONGEST, len(values))\n    assert LONGEST < 9, LONGEST\n    return sorted(values)\n"
        "\nSHARED = [3, 2, 1]\nINPUTS = [SHARED] * 5\n"
    )
    for target in (
        with_json(parse_target("grows:push"), "[[3, 2, 1]]"),
        with_inputs(parse_target("grows:push"), "grows:INPUTS"),
    ):
        seen = examine(target, interpreter(), CORES, limit_s=LIMIT_S)
        assert seen.error == ""
        assert seen.function.changes_arguments
        assert not seen.function.differs
        holds = look(target, seen.place, seen.function, CORES)
        assert isinstance(holds, Holds), holds


def test_a_function_that_returns_a_generator_does_not_change_its_arguments(app):
    """The arguments are compared with themselves, though the kind of the function is known only after its call."""
    assert not examine(
        with_json(parse_target("app:iter_of"), "[5]"), interpreter(), CORES, limit_s=LIMIT_S
    ).function.changes_arguments


@pytest.mark.parametrize(
    ("name", "effects"), [("looks_up", ()), ("counts", (("globals", "pack.helpers.COUNT is bound anew"),))]
)
def test_an_import_in_a_call_is_no_side_effect(app, monkeypatch, name, effects):
    """The names and the bytecode of a module that the call imports are none; what calls change in that module is one."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    (app / "pack").mkdir()
    (app / "pack" / "__init__.py").touch()
    (app / "pack" / "helpers.py").write_text("TABLE, COUNT = {1: 2}, 0\n")
    (app / "pack" / "entry.py").write_text(
        "def looks_up():\n    from pack import helpers\n    return helpers.TABLE[1]\n"
        "def counts():\n    from pack import helpers\n    helpers.COUNT += 1\n"
    )
    assert asked(f"pack.entry:{name}").function.effects == effects


def test_a_module_beside_the_function_may_have_any_name(app):
    """The function is measured beside a module of the program that is called as one of the standard library."""
    (app / "resource.py").write_text("raise SystemExit('the program did not import this')\n")
    target = with_json(parse_target("app:iter_of"), "[5]")
    seen = examine(target, interpreter(), CORES, limit_s=LIMIT_S)
    assert isinstance(look(target, seen.place, seen.function, CORES), Holds)


@pytest.mark.parametrize("name", ["with_threads", "with_native_threads"])
def test_threads_of_a_functions_own_are_not_taken_for_waiting(app, name):
    """The holds of a function's own threads, which Python or a library has started, do not count as this thread's."""
    target = parse_target(f"app:{name}")
    seen = examine(target, interpreter(), CORES, limit_s=LIMIT_S)
    assert "threads of its own" in look(target, seen.place, seen.function, CORES)


def test_threads_of_the_import_are_none_of_the_function(app):
    """A pool that only makes the inputs, or that only the first call starts, is no reason to tell nothing of the GIL."""
    (app / "made.py").write_text(
        "from concurrent.futures import ThreadPoolExecutor\nfrom functools import lru_cache\n"
        "def made(seed):\n    return [seed * n % 20 for n in range(2000)]\n"
        "@lru_cache\ndef table():\n    with ThreadPoolExecutor(2) as pool:\n        return list(pool.map(made, range(5)))\n"
        "ROWS = table()\ntable.cache_clear()\ndef score(rows):\n    return sum(rows) + len(table())\n"
    )
    target = with_inputs(parse_target("made:score"), "made:ROWS")
    seen = examine(target, interpreter(), CORES, limit_s=LIMIT_S)
    assert isinstance(look(target, seen.place, seen.function, CORES), Holds)


def test_a_function_that_hangs_is_ended(app):
    """A function that hangs is ended, and the report says where it hangs."""
    seen = asked("app:hangs", limit_s=3)
    assert "did not end within" in seen.error
    assert "app.py" in seen.detail


def test_a_module_that_is_missing_is_named(app):
    """A missing module is named, and the function does not run."""
    (app / "needs.py").write_text("import nowhere_to_be_found\n\ndef f(): pass\n")
    seen = asked("needs:f")
    assert "ModuleNotFoundError" in seen.error
    assert seen.missing == "nowhere_to_be_found"


@pytest.mark.parametrize(
    ("name", "models", "words"),
    [
        ("closure", {"processes-forkserver", "interpreters"}, "the function cannot be pickled"),
        ("a_lock", {"processes-forkserver", "interpreters"}, "its result cannot be pickled"),
        ("main_thread_only", {"threads"}, "outside the main thread the function fails"),
    ],
)
def test_models_that_cannot_run_it_cost_no_launch(app, name, models, words):
    """Pickling and the main thread are checked before anything is launched."""
    refusals = asked(f"app:{name}").place.refusals
    assert {one.model for one in refusals} == models
    assert all(words in one.reason for one in refusals)


def test_the_module_that_refuses_a_sub_interpreter_is_named(app):
    """The module is named, even if the package that imports it turns the error into another one."""
    (app / "wraps.py").write_text(
        "try:\n    import _curses\nexcept ImportError:\n    raise RuntimeError('broken') from None\n"
    )
    (app / "user.py").write_text("import wraps\n\ndef f(): return 1\n")
    (refusal,) = asked("user:f").place.refusals
    assert (refusal.model, refusal.module) == ("interpreters", "_curses")


EXTENSION = """
#include <Python.h>
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "oldfashioned", NULL, -1, NULL};
PyMODINIT_FUNC PyInit_oldfashioned(void) { return PyModule_Create(&definition); }
"""


def test_the_module_that_switches_the_gil_on_is_named(app):
    """An extension without Py_mod_gil is named on 3.13t."""
    free_threaded = interpreter("3.13t")
    (app / "old.c").write_text(EXTENSION)
    include = Path(free_threaded.executable).resolve().parents[1] / "include" / "python3.13t"
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    target = app / "oldfashioned.so"
    subprocess.run([compiler, "-shared", "-fPIC", f"-I{include}", "old.c", "-o", str(target)], check=True)
    (app / "user.py").write_text("import oldfashioned\n\ndef f(): return 1\n")
    place = examine(parse_target("user:f"), free_threaded, CORES, limit_s=LIMIT_S).place
    assert place.switched_by == "oldfashioned"
    assert place.gil


# ---------------------------------------------------------------- which calls hold the GIL


@pytest.mark.parametrize("name", WITH_GIL)
@pytest.mark.matrix("name")
def test_calls_of_c_that_let_go_of_the_gil_and_those_that_do_not(app, name):
    """Each C call has its line, whether it releases the GIL, and how long it kept it."""
    target = parse_target("app:both")
    seen = examine(target, interpreter(name), CORES, limit_s=LIMIT_S)
    holds = look(target, seen.place, seen.function, CORES)
    assert isinstance(holds, Holds), holds
    assert holds.releases == "in part"
    assert holds.samples
    by_call = {one.call: one for one in holds.spots}
    assert by_call["zlib.compress"].releases == "yes"
    assert by_call["re.Pattern.findall"].releases == "no"
    line = 1 + APP.splitlines().index(next(one for one in APP.splitlines() if one.startswith("def match")))
    assert by_call["re.Pattern.findall"].words.startswith(f"app.py:{line} re.Pattern.findall")
    assert holds.longest.call == "re.Pattern.findall"


@pytest.mark.parametrize("name", WITH_GIL)
@pytest.mark.matrix("name")
def test_a_function_in_c_is_the_call_that_keeps_the_gil(app, name):
    """A function in C has one row, without a line, whether or not the interpreter tells a profiler of its call."""
    for target in (with_inputs(parse_target("app:repeated"), "app:TEXTS"), parse_target("app:repeated_here")):
        seen = examine(target, interpreter(name), CORES, limit_s=LIMIT_S)
        holds = look(target, seen.place, seen.function, CORES)
        assert isinstance(holds, Holds), holds
        (spot,) = holds.spots
        assert (spot.words, spot.releases, spot.at, spot.by) == ("re.Pattern.findall", "no", "", "")
        assert spot.calls > 0
        assert holds.longest == spot


def test_a_wait_holds_nothing(app):
    """A coroutine that sleeps for 20 ms holds nothing, and a wait for a core after that is no computing of its own."""
    target = with_json(parse_target("app:wait"), "[0.02]")
    seen = examine(target, interpreter(), CORES, limit_s=LIMIT_S)
    holds = look(target, seen.place, seen.function, CORES)
    assert isinstance(holds, Holds), holds
    assert holds.waits > 0.5
    assert holds.releases == "yes"


# ---------------------------------------------------------------- inputs


def test_inputs_of_a_module_as_a_list_a_generator_and_a_function(app):
    """The first 256 inputs are used, and an object that has no inputs is an error."""
    (app / "data.py").write_text(
        "one = [(3,), 4]\ndef two():\n    yield from one\nthree = (number for number in range(10**9))\nnone = []\nbad = 7\n"
        "def returns_none(): pass\ndef fails(): raise ValueError('no data')\n"
    )
    for name, count in (("one", 2), ("two", 2), ("three", 256)):
        target = with_inputs(parse_target("app:count"), f"data:{name}")
        assert examine(target, interpreter(), CORES, limit_s=LIMIT_S).function.inputs == count
    wrong = {
        "none": ("none is an empty list, expected an element for each call", "name inputs"),
        "bad": ("bad is 7 (int), expected a list, a generator", "name inputs"),
        "returns_none": ("returns_none() returns None, expected a list", "name inputs"),
        "fails": ("ValueError: no data", "run by itself"),
        "nothing": ("data has no nothing", "use names that the module defines"),
    }
    for name, (words, hint) in wrong.items():
        target = with_inputs(parse_target("app:count"), f"data:{name}")
        seen = examine(target, interpreter(), CORES, limit_s=LIMIT_S)
        assert words in seen.error
        assert hint in refuse(seen, target).hint


def test_arguments_as_json_by_place_and_by_name(app):
    """Arguments can be given by position or by name, and those that do not fit the signature are an error."""
    for text in ("[5]", '{"size": 5}'):
        assert examine(with_json(parse_target("app:count"), text), interpreter(), CORES, limit_s=LIMIT_S).error == ""
    seen = examine(with_json(parse_target("app:count"), '{"length": 5}'), interpreter(), CORES, limit_s=LIMIT_S)
    assert "does not fit its signature" in seen.error


@pytest.mark.parametrize("name", ["3.8", "3.13"])
def test_inputs_with_arguments_by_name(app, name):
    """An element that is a partial of the function has arguments by name; a partial of another function is an argument."""
    (app / "data.py").write_text(
        "import functools\nimport app\ndef scaled(n, *, by): return n * by\ndef first(n): return n\n"
        "both = [functools.partial(scaled, 1, by=3)]\nplace = [functools.partial(first, 1)]\n"
        "other = [functools.partial(scaled, 1)]\nwrong = [(1, 3)]\n"
    )
    for function, inputs, by_name in (("scaled", "both", True), ("first", "place", True), ("first", "other", False)):
        target = with_inputs(parse_target(f"data:{function}"), f"data:{inputs}")
        seen = examine(target, interpreter(name), CORES, limit_s=LIMIT_S)
        assert (seen.error, seen.function and seen.function.by_name) == ("", by_name)
    target = with_inputs(parse_target("data:scaled"), "data:wrong")
    refused = refuse(examine(target, interpreter(name), CORES, limit_s=LIMIT_S), target)
    assert "does not fit its signature (n, *, by)" in refused.message
    assert "functools.partial(scaled, ...)" in refused.hint
    assert "an argument that is a tuple stands in another one: ((a, b),)" in refused.hint


TEXT = """
class Text:
    def __init__(self, text="abc"): self.text = text
    def words(self, times): return (self.text * times).split("b")
    @staticmethod
    def fixed(times): return "ab" * times
    @classmethod
    def made(cls, times): return cls("ab" * times).text
"""


def test_a_method_needs_an_instance_which_json_cannot_give(app):
    """A plain method's refusal names the class and the ways that work; the other kinds of methods need no instance."""
    (app / "texts.py").write_text(TEXT + "INPUTS = [(Text(), 5)]\nWRONG = [(Text(), 'x')]\n")
    method = parse_target("texts:Text.words")
    for target in (method, with_json(method, "[5]"), with_json(method, "[1, 5]")):
        seen = examine(target, interpreter(), CORES, limit_s=LIMIT_S)
        assert seen.function is None
        hint = refuse(seen, target).hint
        assert "must be an instance of Text" in hint
        assert "--observe" in hint
    assert examine(with_inputs(method, "texts:INPUTS"), interpreter(), CORES, limit_s=LIMIT_S).error == ""
    wrong = with_inputs(method, "texts:WRONG")
    assert "instance" not in refuse(examine(wrong, interpreter(), CORES, limit_s=LIMIT_S), wrong).hint
    for name in ("fixed", "made"):
        target = with_json(parse_target(f"texts:Text.{name}"), "[5]")
        assert examine(target, interpreter("3.8"), CORES, limit_s=LIMIT_S).error == ""
        seen = examine(with_json(target, "[]"), interpreter("3.8"), CORES, limit_s=LIMIT_S)
        assert "instance" not in refuse(seen, target).hint


def test_arguments_of_a_method_are_taken_from_a_command(app):
    """A command's calls of a plain method have the instance."""
    (app / "texts.py").write_text(TEXT)
    (app / "run.py").write_text("from texts import Text\nText('xby').words(7)\n")
    with observed(parse_target("texts:Text.words"), f"{sys.executable} run.py", "", print) as target:
        assert examine(target, interpreter(), CORES, limit_s=LIMIT_S).error == ""


def test_arguments_are_taken_from_a_command_that_calls_it(app, monkeypatch):
    """The command runs with its own sitecustomize, and its output is not ours."""
    (app / "run.py").write_text("from app import count\nfor size in (10, 20, 30):\n    assert count(size=size) >= 0\n")
    other = app / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("open('was_here', 'w').close()\n")
    monkeypatch.setenv("PYTHONPATH", str(other))
    said = []
    with observed(parse_target("app:count"), f"{sys.executable} run.py", "", said.append) as target:
        seen = examine(target, interpreter(), CORES, limit_s=LIMIT_S)
    assert seen.function.inputs == 3
    assert (app / "was_here").exists()
    with (
        pytest.raises(UsageError, match="no calls were observed"),
        observed(parse_target("app:pack"), f"{sys.executable} run.py", "", said.append),
    ):
        pass
    with (
        pytest.raises(UsageError, match="cannot be run"),
        observed(parse_target("app:pack"), "no-such-command-here", "", said.append),
    ):
        pass


# ---------------------------------------------------------------- other interpreters


def test_another_interpreter_without_the_imports_is_told_about(app):
    """Nothing is installed unless the user asks for it."""
    home = asked("app:count").place
    with Keeper() as keeper:
        found, refusals, notes = places(
            parse_target("app:count"),
            replace(home, distributions={"some-library": "1.0"}),
            CORES,
            lost=0,
            interpreters=[interpreter("3.12")],
            install=False,
            keeper=keeper,
            say=pytest.fail,
        )
    assert (found, refusals) == ([], [])
    assert "some-library 1.0" in notes[0]
    assert "--install" in notes[0]


def test_a_library_that_came_from_no_index_is_not_asked_for_by_its_name(app):
    """An index may have another library under the name of a private one, so nothing is installed; conda's are public."""
    for name, installer in (("ours", "pip"), ("public", "conda")):
        (app / f"{name}.py").write_text("")
        info = app / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "INSTALLER").write_text(f"{installer}\n")
        (info / "direct_url.json").write_text('{"url": "file:///x", "dir_info": {}}')
        (info / "RECORD").write_text(f"{name}.py,,\n")
    (app / "user.py").write_text("import ours, public\n\ndef f(): return 1\n")
    home = asked("user:f").place
    assert home.distributions == {"ours": "1.0", "public": "1.0"}
    assert home.direct == ("ours",)
    with Keeper() as keeper:
        found, refusals, notes = places(
            parse_target("user:f"),
            home,
            CORES,
            lost=0,
            interpreters=[interpreter("3.12")],
            install=True,
            keeper=keeper,
            say=pytest.fail,
        )
    assert (found, refusals) == ([], [])
    assert "the function imports ours, installed from a file" in notes[0]


def test_libraries_of_the_users_own_site_folder_are_there(app, monkeypatch):
    """A module that `pip install --user` installed is found by the questions and by the launches."""
    monkeypatch.setenv("PYTHONUSERBASE", str(app / "base"))
    code = "import site; print(site.getusersitepackages())"
    own = interpreter()
    folder = Path(
        subprocess.run([own.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    )
    folder.mkdir(parents=True)
    (folder / "of_the_user.py").write_text("def f(): return 1\n")
    target = parse_target("of_the_user:f")
    assert missing_module(target, own, CORES) is None
    assert asked("of_the_user:f").error == ""
    params = {"target": target.job(), "kind": "plain", "workers": 1, "tasks": 2}
    variant = Variant(series="serial", workload=CALLS, model="serial", params=params, paths=target.paths)
    cell = Cell("x", variant, "free", own.id, "x")
    (launch,) = run_launch([cell], own.executable, this_machine(), limit_s=LIMIT_S)
    assert launch.status == "ok", launch.reason


def test_the_agents_answers_are_of_the_stage_that_was_asked(app):
    """The agent's answer belongs to the stage that was asked for."""
    answer = ask(
        "holds",
        parse_target("app:pack"),
        interpreter().executable,
        CORES,
        limit_s=LIMIT_S,
        library=str(library_path()),
        kind="plain",
    )
    assert answer.ended == ""
    assert set(answer.stages) == {"holds"}
