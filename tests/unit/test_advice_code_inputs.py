"""The code to paste has the inputs as they were measured, once, and says what it does not bring back."""

import ast
import json
import re
import runpy
import subprocess
import sys
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from headway_agent.strangers import target as agents
from test_advice_code import function_of

from headway.advice.code import _OURS, code_for, guard_for
from headway.advice.models import POOLS
from headway.advice.target import MOST_INPUTS, parse_target, with_inputs, with_json

LIBRARY = """
import enum, functools, os
class Size(enum.Enum):
    SMALL = 1
    LARGE = 2
class Cases:
    def __iter__(self): return iter([1, 2])
class Both(list):
    def __call__(self): raise AssertionError("what can be iterated is not called")
def made():
    with open("made.txt", "a") as file: file.write("once ")
    return [1, 2]
cached = functools.lru_cache(made)
partial = functools.partial(made)
sizes = [1, 2]
both = Both(sizes)
main = call = example = made
def added(to, n, *, more=0): return to + n + more
increased = functools.partial(added, 10)
def increases(): return [functools.partial(increased, 1, more=100), functools.partial(increased, 2, more=100), 3]
def of(n): return int(getattr(n, "value", n))
def record(**options): return options
"""


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A folder with a library, which is the current one and on the import path."""
    (tmp_path / "library.py").write_text(LIBRARY)
    (tmp_path / "cases.py").write_text("def of(): return [1, 2]\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("library", "cases"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


NOTED: list[list[Any]] = []


def noted(function, *args, **kwargs):
    """Note a call as a fixture `headway` that measures nothing and finds everything to scale."""
    NOTED.append([getattr(function, "__name__", ""), args, kwargs])
    return SimpleNamespace(scales=lambda **_: True)


def run_guard(text):
    """Run a guard and return the function and the arguments that it measures."""
    guard: dict[str, Any] = {}
    exec(text, guard)
    next(value for name, value in guard.items() if name.startswith("test_"))(noted)
    return NOTED.pop()


@pytest.mark.parametrize(
    ("name", "calls"),
    [("Size", 0), ("Cases", 1), ("made", 1), ("cached", 1), ("partial", 1), ("sizes", 0), ("both", 0)],
)
def test_the_code_takes_inputs_as_they_were_measured(library, name, calls):
    """An Enum can be iterated, and is not called; a cached function is: in the agent as in the code."""
    target = with_inputs(parse_target("library:of", cwd=library), f"library:{name}")
    function = agents.find(target.job())
    given = agents.inputs_of(target.job(), function)
    assert [function(*args) for args, _ in given] == [1, 2]
    makes = agents.maker_of(target.job(), function) is not None
    assert makes == bool(calls)
    code = code_for(target, function_of("plain", makes_inputs=makes), "serial", 1)
    assert "callable" not in code
    assert runpy.run_path(str(written(library, code)), run_name="__main__")["results"] == [1, 2]
    _, args, _ = run_guard(guard_for(target, function_of("plain", makes_inputs=makes), "threads", 2, 1.5))
    assert [function(*args)] == [1]


def test_inputs_of_a_target_that_is_a_partial_itself_may_be_partials_of_it(library):
    """Python makes them partials of the inner function, with the arguments of both: each call has its own ones alone."""
    target = with_inputs(parse_target("library:increased", cwd=library), "library:increases")
    function = agents.find(target.job())
    given, by_name, _ = agents.calls_of(target.job(), function)
    assert [function(*args, **kwargs) for args, kwargs in given] == [111, 112, 13]
    assert (by_name, agents.bound(function)) == (True, 1)
    known = function_of("plain", by_name=True, bound=1)
    code = code_for(target, known, "serial", 1)
    assert runpy.run_path(str(written(library, code)), run_name="__main__")["results"] == [111, 112, 13]
    _, args, kwargs = run_guard(guard_for(target, known, "threads", 2, 1.5))
    assert function(*args, **kwargs) == 111


def written(folder, code):
    """Return a file with the code."""
    pasted = folder / "pasted.py"
    pasted.write_text(code)
    return pasted


@pytest.mark.parametrize("model", ["threads", "processes-forkserver"])
def test_workers_do_not_make_the_inputs_again(library, model):
    """Workers that import the main file again would repeat what making the inputs does, and takes."""
    target = with_inputs(parse_target("library:of", cwd=library), "library:made")
    code = code_for(target, function_of("plain"), model, 2) + '\nif __name__ == "__main__":\n    print(results)\n'
    done = subprocess.run(
        [sys.executable, written(library, code)], cwd=library, capture_output=True, text=True, check=True, timeout=60
    )
    assert json.loads(done.stdout) == [1, 2]
    assert (library / "made.txt").read_text() == "once "


@pytest.mark.parametrize("inputs", ["cases:of", "library:main", "library:call", "library:example"])
def test_inputs_are_not_taken_for_the_function_or_for_the_code(library, inputs):
    """Inputs of the function's name, or of one that the code uses itself, are imported under another one."""
    target = with_inputs(parse_target("library:of", cwd=library), inputs)
    code = code_for(target, function_of("plain"), "threads", 2)
    assert runpy.run_path(str(written(library, code)), run_name="__main__")["results"] == [1, 2]
    assert run_guard(guard_for(target, function_of("plain"), "threads", 2, 1.5))[:2] == ["of", (1,)]
    changing = function_of("plain", changes_arguments=True)
    assert run_guard(guard_for(target, changing, "threads", 2, 1.5))[0] == "call"


def test_inputs_that_an_event_loop_takes_are_not_taken_for_the_code(library):
    """The code for a coroutine function has a function `main` of its own."""
    (library / "later.py").write_text("async def of(n): return n\nasync def one(n): return n\n")
    target = with_inputs(parse_target("later:of", cwd=library), "library:main")
    code = code_for(target, function_of("async"), "asyncio", 2)
    assert runpy.run_path(str(written(library, code)), run_name="__main__")["results"] == [1, 2]


@pytest.mark.parametrize("given", [{"n": 1}, {"class": 1, "n": 2}, {"content-type": 1}, {"ﬁ": 1}])
def test_a_guard_gives_arguments_by_names_that_are_none_of_pythons(library, given):
    """A function with `**options` takes any text as a name."""
    target = with_json(parse_target("library:record", cwd=library), json.dumps(given))
    text = guard_for(target, function_of("plain", by_name=True), "threads", 2, 1.5)
    assert run_guard(text) == ["record", (), given]


@pytest.mark.parametrize(
    ("model", "note"),
    [
        ("threads", ""),
        ("processes-forkserver", "Each process changes a copy of its arguments: the program never sees these changes."),
        ("interpreters", "Each interpreter changes a copy of its arguments: the program never sees these changes."),
    ],
)
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_the_code_says_what_changes_do_not_come_back(library, kind, model, note):
    """A reader of the code alone would take the changed inputs for results."""
    target = with_inputs(parse_target("library:of", cwd=library), "library:made")
    code = code_for(target, function_of(kind, changes_arguments=True), model, 2)
    compile(code, "pasted", "exec")
    assert ("never sees" in code) is bool(note)
    assert f"    # {note}\n" in code or not note
    assert "never sees" not in code_for(target, function_of(kind), model, 2)


def test_code_for_a_file_of_another_folder_says_what_its_import_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The measurements had the file's folder, and that of the inputs, on their import path: the user's program may not."""
    for name in "src", "the tests":
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name[:3]}_app.py").write_text("def work(n): return n\ndef given(): return [1]\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    needed = "# with src on the import path: PYTHONPATH=src, or the project installed\n"

    def written(inputs: str) -> list[str]:
        target = with_inputs(parse_target("src/src_app.py:work"), inputs)
        code = [
            code_for(target, function_of(kind), model, 2) for kind in ("plain", "async") for model in ("serial", *POOLS)
        ]
        return [*code, guard_for(target, function_of("plain"), "threads", 2, 1.5)]

    assert all(f"{needed}from src_app import work" in one for one in written(":given"))
    both = "# with src and the tests on the import path: PYTHONPATH='src:the tests', or the project installed\n"
    assert all(f"{both}from src_app import work" in one for one in written("the tests/the_app.py:given"))

    monkeypatch.setenv("PYTHONPATH", "src")
    assert not any("import path" in one for one in written(":given"))
    monkeypatch.delenv("PYTHONPATH")
    monkeypatch.chdir(tmp_path / "src")
    here = with_inputs(parse_target("src_app.py:work"), ":given")
    assert "import path" not in code_for(here, function_of("plain"), "serial", 2)


def _names(code: str) -> set[str]:
    """Return all names of a program in Python, also of the lines in its comments that may take the place of others."""
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    tree = cast(ast.AST, compile(re.sub(r"(?m)^#     ", "", code), "pasted", "exec", flags))
    found: set[str] = set()
    for one in ast.walk(tree):
        if isinstance(one, ast.alias):
            found.add(one.asname or one.name.partition(".")[0])  # `import a.b` binds `a`
        elif isinstance(one, ast.Name | ast.arg | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(next(getattr(one, field) for field in ("id", "arg", "name") if hasattr(one, field)))
    return found


def test_no_function_takes_a_name_that_the_code_needs() -> None:
    """A function called `multiprocessing`, or `list`, would else be what the pasted code calls for its own purposes."""
    found: set[str] = set()
    for kind, by_name, typical, count, given in product(
        ("plain", "generator", "async", "async generator"),
        (False, True),
        (0, 3),
        (2, MOST_INPUTS),
        (":given", "", "[]"),
    ):
        target = parse_target("app:work")
        if given:
            target = with_inputs(target, given) if given == ":given" else with_json(target, "[NaN]")
        function = function_of(kind, by_name=by_name, typical=typical, inputs=count, changes_arguments=typical > 0)
        for model in ("serial", *POOLS, *["asyncio"] * kind.startswith("async")):
            found |= _names(code_for(target, function, model, 2)) | _names(guard_for(target, function, model, 2, 1.5))
    # `address` is for the user to fill in; the names of the function, its inputs and its test are given here.
    own = found - {"work", "given", "address", "__name__", "test_work_scales"}

    assert {"ProcessPoolExecutor", "joblib", "itertools", "isinstance"} <= own
    assert own <= _OURS
