"""The code to paste runs as it is, whatever the function is called."""

import asyncio
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from distributed import LocalCluster

from headway.advice.code import code_for, guard_for, required_of, unguarded
from headway.advice.target import MOST_INPUTS, parse_target, with_inputs, with_json, with_pickled
from headway.lab.stats import Interval

LIBRARY = """
import functools
def given(): return [1, 2]
def scaled(n, *, by=2): return n * by
async def scaled_later(n, *, by=2): return n * by
def repeated(n, *, by=2): yield n * by
def named(f): return [functools.partial(f, 1, by=3), (2,), 3]
def of_scaled(): return named(scaled)
def of_scaled_later(): return named(scaled_later)
def of_repeated(): return named(repeated)
def plain(n): return n
def args(n): return n
def pool(n): return n
def inputs(n): return n
def whole(n): yield n
async def coroutine(n): return n
async def main(n): return n
async def one(n): return n
def client(n): return n
def address(n): return n
class result:
    @staticmethod
    def doubled(n): return 2 * n
"""


def function_of(
    kind,
    *,
    by_name=False,
    inputs=2,
    changes_arguments=False,
    pickle_s=1e-5,
    unpicklable=(),
    makes_inputs=True,
    typical=0,
    bound=0,
) -> Any:
    """Return a function of which only its kind, and what matters about its arguments, are known."""
    return SimpleNamespace(
        kind=kind,
        by_name=by_name,
        inputs=inputs,
        changes_arguments=changes_arguments,
        changes=("its arguments",) * changes_arguments,
        makes_inputs=makes_inputs,
        typical=typical,
        bound=bound,
        pickle_s=pickle_s,
        unpicklable=unpicklable,
        call_s=0.02,
    )


def run_pasted(folder, code, **given):
    """Run pasted code as a program that has these names besides; return its names."""
    pasted = folder / "pasted.py"
    pasted.write_text(code)
    return runpy.run_path(str(pasted), init_globals=given, run_name="__main__")


@pytest.mark.parametrize(
    ("name", "kind", "expected", "model"),
    [
        (*case, model)
        for model in ("serial", "threads", "asyncio")
        for case in (
            ("plain", "plain", [1, 2]),
            ("args", "plain", [1, 2]),
            ("pool", "plain", [1, 2]),
            ("inputs", "plain", [1, 2]),
            ("whole", "generator", [[1], [2]]),
            ("coroutine", "async", [1, 2]),
            ("main", "async", [1, 2]),
            ("one", "async", [1, 2]),
            ("result.doubled", "plain", [2, 4]),
        )
        if model != "asyncio" or case[1] == "async"
    ],
)
def test_the_code_gives_the_results(tmp_path, monkeypatch, model, name, kind, expected):
    """The pasted code has the results of all calls, also if the function has a name that the code uses itself."""
    (tmp_path / "library.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "library", raising=False)
    target = with_inputs(parse_target(f"library:{name}", cwd=tmp_path), "library:given")
    assert run_pasted(tmp_path, code_for(target, function_of(kind), model, 2))["results"] == expected


@pytest.mark.parametrize(
    ("name", "kind", "model"),
    [
        (name, kind, model)
        for model in ("serial", "threads", "asyncio", "processes-forkserver")
        for name, kind in (("scaled", "plain"), ("repeated", "generator"), ("scaled_later", "async"))
        if model != "asyncio" or kind == "async"
    ],
)
def test_the_code_gives_arguments_by_name(tmp_path, monkeypatch, model, name, kind):
    """The pasted code calls a function with keyword-only arguments, for inputs from a module and for JSON."""
    (tmp_path / "library.py").write_text(LIBRARY)
    target, function = parse_target(f"library:{name}", cwd=tmp_path), function_of(kind, by_name=True)
    for given, expected in ((f"library:of_{name}", [3, 4, 6]), ("", [35])):
        inputs = with_inputs(target, given) if given else with_json(target, '{"n": 7, "by": 5}')
        pasted = tmp_path / "pasted.py"
        pasted.write_text(code_for(inputs, function, model, 2) + "\nif __name__ == '__main__':\n    print(results)\n")
        done = subprocess.run(
            [sys.executable, pasted], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
        )
        assert json.loads(done.stdout) == ([[one] for one in expected] if kind == "generator" else expected)
    if kind == "plain":
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "library", raising=False)
        for inputs in (with_inputs(target, "library:of_scaled"), with_json(target, '{"n": 1, "by": 3}')):
            guard: dict[str, Any] = {}
            exec(guard_for(inputs, function, "threads", 2, 1.5), guard)
            guard["test_scaled_scales"](noted)
            assert NOTED.pop() in ([(1,), {"by": 3}], [(), {"n": 1, "by": 3}])
    code = code_for(with_pickled(target, Path("x")), function, model, 2)
    compile(code, "pasted", "exec")
    assert "(*args, **kwargs)" in code or ", *args, **kwargs)" in code


@pytest.mark.parametrize("file", ["my-script.py", "class.py"])
@pytest.mark.parametrize("model", ["serial", "threads", "processes-forkserver"])
def test_the_code_imports_a_file_whose_name_is_none_of_python(tmp_path, monkeypatch, file, model):
    """The lines `from my-script import ...` and `from class import ...` are no Python; neither are those of its inputs."""
    (tmp_path / file).write_text(LIBRARY)
    monkeypatch.syspath_prepend(tmp_path)
    target = with_inputs(parse_target(f"{file}:plain", cwd=tmp_path), f"{file}:given")
    pasted = tmp_path / "pasted.py"
    pasted.write_text(
        code_for(target, function_of("plain"), model, 2) + "\nif __name__ == '__main__':\n    print(results)\n"
    )
    done = subprocess.run(
        [sys.executable, pasted], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert json.loads(done.stdout) == [1, 2]
    guard: dict[str, Any] = {}
    exec(guard_for(target, function_of("plain"), "threads", 2, 1.5), guard)
    guard["test_plain_scales"](noted)
    assert NOTED.pop() == [(1,), {}]


@pytest.mark.parametrize("inputs", ["library:given", "library:lazily"])
def test_the_guard_measures_a_call_that_stands_for_all(tmp_path, monkeypatch, inputs):
    """The first input may be a short one, with which no pool pays; the test says which one it takes."""
    (tmp_path / "library.py").write_text(LIBRARY + "\ndef lazily(): yield from given()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "library", raising=False)
    target = with_inputs(parse_target("library:plain", cwd=tmp_path), inputs)
    text = guard_for(target, function_of("plain", typical=1), "threads", 2, 1.5)
    guard: dict[str, Any] = {}
    exec(text, guard)
    guard["test_plain_scales"](noted)
    assert NOTED.pop() == [(2,), {}]
    assert "# A call with this input, number 2, takes about as long as one does on average." in text


@pytest.mark.parametrize("by_name", [False, True])
def test_the_code_ends_where_the_inputs_do_not(tmp_path, monkeypatch, by_name):
    """The pasted code takes as many inputs as were measured: a generator may be endless."""
    (tmp_path / "library.py").write_text(LIBRARY + "\ndef endless():\n    while True:\n        yield 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "library", raising=False)
    target = with_inputs(parse_target("library:plain", cwd=tmp_path), "library:endless")
    code = code_for(target, function_of("plain", by_name=by_name, inputs=MOST_INPUTS), "threads", 2)
    assert run_pasted(tmp_path, code)["results"] == [7] * MOST_INPUTS


NOTED: list[list[Any]] = []


def noted(_function, *args, **kwargs):
    """Note the arguments of a call, as a fixture `headway` that measures nothing and finds everything to scale."""
    NOTED.append([args, kwargs])
    return SimpleNamespace(scales=lambda **_: True)


DRAINS = """
import functools
def drain(urls, *, most=9): return [urls.pop() for _ in range(min(most, len(urls)))]
def call(urls): return drain(urls)
def lists(): return [([1, 2, 3],), ([4],)]
LISTS = [([1, 2, 3],), ([4],)]
PARTIALS = [functools.partial(drain, [1, 2, 3], most=2)]
"""


@pytest.mark.parametrize(
    ("name", "given", "by_name", "drained"),
    [
        ("drain", "library:lists", False, [3, 2, 1]),
        ("drain", "library:LISTS", False, [3, 2, 1]),
        ("call", "library:LISTS", False, [3, 2, 1]),
        ("drain", "library:PARTIALS", True, [3, 2]),
        ("drain", "[[1, 2, 3]]", False, [3, 2, 1]),
        ("drain", '{"urls": [1, 2, 3], "most": 2}', True, [3, 2]),
    ],
)
def test_each_call_of_a_guard_has_its_own_arguments(tmp_path, monkeypatch, name, given, by_name, drained):
    """The guard of a function that changes its arguments measures the same work in each call, in other processes, too."""
    (tmp_path / "library.py").write_text(DRAINS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "library", raising=False)
    target = parse_target(f"library:{name}", cwd=tmp_path)
    target = with_inputs(target, given) if given.startswith("library") else with_json(target, given)
    function = function_of("plain", by_name=by_name, changes_arguments=True, makes_inputs=given == "library:lists")
    (tmp_path / "guard.py").write_text(guard_for(target, function, "threads", 2, 1.5))
    guard = runpy.run_path(str(tmp_path / "guard.py"), run_name="guard")
    called = []

    def headway(function, *args, **kwargs):
        called.extend(function(*args, **kwargs) for _ in range(3))
        return SimpleNamespace(scales=lambda **_: True)

    guard[f"test_{name}_scales"](headway)
    assert called == [drained] * 3
    send = "import guard, pickle; print(pickle.loads(pickle.dumps(guard.call))())"
    done = subprocess.run(
        [sys.executable, "-c", send], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert json.loads(done.stdout) == drained


def test_no_guard_measures_the_copies_of_arguments(tmp_path):
    """Where new arguments take long beside a call there is no guard, and the code says why."""
    target = with_json(parse_target("app:resize", cwd=tmp_path), "[[3, 1, 2]]")
    function = function_of("plain", changes_arguments=True, pickle_s=1e-4)
    told = {
        (model, workers): (
            bool(guard_for(target, function, model, workers, 1.5)),
            unguarded(target, function, model, workers),
        )
        for model, workers in (("threads", 8), ("threads", 32), ("processes-forkserver", 32), ("serial", 1))
    }
    assert told["threads", 8] == told["processes-forkserver", 32] == (True, "")
    assert told["serial", 1] == (False, "")
    assert not told["threads", 32][0]
    assert "a call changes its arguments" in told["threads", 32][1]
    compile(told["threads", 32][1], "pasted", "exec")
    assert unguarded(target, function_of("plain", pickle_s=1.0), "threads", 32) == ""


def test_no_guard_copies_arguments_that_cannot_be_pickled(tmp_path):
    """The pickle in such a guard would raise; the code says that there is no guard."""
    target = with_inputs(parse_target("app:total", cwd=tmp_path), "app:generators")
    function = function_of("plain", changes_arguments=True, unpicklable=("its arguments",))
    assert guard_for(target, function, "threads", 2, 1.5) == ""
    assert "cannot be copied" in unguarded(target, function, "threads", 2)


WAITS = """
import threading
BARRIER = threading.Barrier(40)
def meet(n, *, by=2): return BARRIER.wait(60) * 0 + n * by
def meet_whole(n): yield meet(n)
def numbers(): return list(range(40))
"""


@pytest.mark.parametrize(
    ("name", "kind", "by_name"), [("meet", "plain", False), ("meet", "plain", True), ("meet_whole", "generator", False)]
)
def test_threads_in_an_event_loop_are_as_many_as_advised(tmp_path, monkeypatch, name, kind, by_name):
    """All calls meet, in 40 threads: the loop's own executor has 32 at most."""
    (tmp_path / "library.py").write_text(WAITS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "library", raising=False)
    target = with_inputs(parse_target(f"library:{name}", cwd=tmp_path), "library:numbers")
    code = code_for(target, function_of(kind, by_name=by_name), "threads", 40)
    above, _, below = code.partition("# in an event loop")
    lines = ["    " + line.removeprefix("#").strip() for line in below.splitlines()[1:]]
    text = "\n".join(["import asyncio", above, "async def in_loop():", *lines, "    return results"])
    expected = [2 * n for n in range(40)]
    found = run_pasted(tmp_path, text)
    assert asyncio.run(found["in_loop"]()) == ([[one] for one in expected] if kind == "generator" else expected)


class Parallel:
    """The part of joblib that the code uses, as these tests do not have it: makes the calls of `delayed` one after the other."""

    def __init__(self, n_jobs):
        assert n_jobs == 4

    def __call__(self, calls):
        return [function(*args, **kwargs) for function, args, kwargs in calls]


def delayed(function):
    """Describe a call, as joblib does."""
    return lambda *args, **kwargs: (function, args, kwargs)


@pytest.mark.parametrize(
    ("name", "kind", "inputs", "expected"),
    [
        ("plain", "plain", "library:given", [1, 2]),
        ("client", "plain", "library:given", [1, 2]),
        ("address", "plain", "library:given", [1, 2]),
        ("whole", "generator", "library:given", [[1], [2]]),
        ("scaled", "plain", "library:of_scaled", [3, 4, 6]),
    ],
)
def test_the_lines_for_joblib_and_dask_run(tmp_path, monkeypatch, name, kind, inputs, expected):
    """They have their imports, and leave the results, as the code above them does."""
    (tmp_path / "library.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "library", raising=False)
    monkeypatch.setitem(sys.modules, "joblib", SimpleNamespace(Parallel=Parallel, delayed=delayed))
    by_name = inputs != "library:given"
    target = with_inputs(parse_target(f"library:{name}", cwd=tmp_path), inputs)
    code = code_for(target, function_of(kind, by_name=by_name), "processes-forkserver", 4)
    above, joblib_lines, dask_lines = re.split(r"# the same with joblib:\n|# with Dask, .*\n", code)
    above = above.rpartition("    with ")[0]  # the pool is another test's
    with LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster:
        for lines in (joblib_lines, dask_lines):
            pasted = above + "".join(f"    {line[1:].strip()}\n" for line in lines.splitlines())
            found = run_pasted(tmp_path, pasted, address=cluster)
            assert found["results"] == expected


def test_the_guard_measures_the_function_and_not_its_own_result(tmp_path):
    """A function whose name the test uses is imported under another one."""
    target = with_inputs(parse_target("library:result.doubled", cwd=tmp_path), "library:given")
    text = guard_for(target, function_of("plain"), "threads", 2, 1.5)
    compile(text, "test", "exec")
    assert "from library import result as result_\n" in text
    assert "headway(result_.doubled, *example)" in text


@pytest.mark.parametrize("kind", ["plain", "generator", "async", "async generator"])
@pytest.mark.parametrize("model", ["serial", "asyncio", "threads", "interpreters", "processes-forkserver"])
def test_code_is_python(kind, model, tmp_path):
    """The code is valid Python for each kind of function in each model."""
    if model == "asyncio" and not kind.startswith("async"):
        return
    target = parse_target("app:resize", cwd=tmp_path)
    code = code_for(target, function_of(kind), model, 4)
    compile(code, "pasted", "exec")
    assert "from app import resize" in code


@pytest.mark.parametrize("in_threads", [True, False])
def test_a_function_for_the_main_thread_gets_no_code_for_dask(in_threads, tmp_path):
    """Dask's workers run tasks in threads, where such a function fails."""
    target = parse_target("app:resize", cwd=tmp_path)
    code = code_for(target, function_of("plain"), "processes-forkserver", 4, in_threads=in_threads)

    assert ("dask" in code) is in_threads
    assert "joblib" in code


def test_the_test_that_guards_it(tmp_path):
    """The guard has the known arguments, and there is none if there is nothing to guard."""
    target = with_json(parse_target("app:resize", cwd=tmp_path), '["cat.png", 0.5]')
    text = guard_for(target, function_of("plain"), "processes-forkserver", 4, 2.6)
    compile(text, "test", "exec")
    assert "headway(resize, 'cat.png', 0.5)" in text
    assert "result.scales(processes=4, at_least=2.6)" in text
    assert guard_for(target, function_of("plain"), "serial", 1, 1.0) == ""
    assert guard_for(with_pickled(target, Path("x")), function_of("plain"), "threads", 2, 1.5) == ""


def test_numbers_that_have_no_literal_are_written_as_code(tmp_path):
    """NaN and an infinity are the names of nothing in Python, also deep in the arguments."""
    target = with_json(parse_target("app:resize", cwd=tmp_path), '[NaN, [{"most": 1e999}, -1e999], 0.5]')
    written = 'float("nan"), [{\'most\': float("inf")}, float("-inf")], 0.5'
    assert f"inputs = [({written})]" in code_for(target, function_of("plain"), "threads", 2)
    assert f"headway(resize, {written})" in guard_for(target, function_of("plain"), "threads", 2, 1.5)


@pytest.mark.parametrize(("low", "least"), [(1.01, 1.0), (1.06, 1.0), (1.17, 1.0), (1.29, 1.1), (26.64, 23.9)])
def test_the_guard_asserts_no_more_than_the_interval_supports(low, least):
    """The required speed-up is never above the lower end of the measured interval."""
    assert required_of(Interval(2 * low, low, 3 * low, "paired t")) == least <= low
    assert required_of(None) == 1.0


@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize(
    ("start_s", "said"), [(0.003, ""), (2.0, "    # Keep the pool: its start takes 2 s, a call 20 ms.\n")]
)
def test_a_pool_that_starts_slowly_is_to_be_kept(kind, start_s, said):
    """The comment on the pool does not contradict the table: a pool of threads may start sooner than a call ends."""
    target = with_inputs(parse_target("library:plain"), "library:given")
    code = code_for(target, function_of(kind), "threads", 2, start_s=start_s)
    assert f" for one in given()]\n{said}    with ThreadPoolExecutor(2) as pool:\n" in code
