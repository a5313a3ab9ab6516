"""`headway advise` on real interpreters: what it finds out about a function, which strangers it stands, what it leaves alone."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
from dataclasses import replace
from pathlib import Path

import pytest

from headway import lab
from headway.advice.asking import ask
from headway.advice.elsewhere import places
from headway.advice.examined import examine
from headway.advice.holds import Holds, look
from headway.advice.observing import observed
from headway.advice.target import parse_target, with_inputs, with_json
from headway.errors import UsageError
from headway.host.interpreters import discover, select
from headway.host.keeper import Keeper
from headway.host.machine import this_machine
from headway.native import library_path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

HEADWAY = [sys.executable, "-m", "headway"]
FOUND = discover()[0]
CORES = this_machine().cores
WITH_GIL = [one.name for one in select(FOUND) if not one.free_threaded]

APP = """
import json, os, random, re, signal, sys, threading, time, zlib
TEXT = "travellers left for platform nine " * 3000
DATA = TEXT.encode() * 4
COUNT, SEEN = 0, []
examples = [(1000,), (2000,)]

def match(): return len(re.findall(r"(\\w)\\w*\\1", TEXT))
def pack(): return len(zlib.compress(DATA))
def count(size=20000):
    total = 0
    for number in range(size):
        total += number & 3
    return total
def both(): return match(), pack()
def numbers(size=3000):
    for number in range(size):
        yield number
async def wait(seconds=0.002):
    import asyncio
    await asyncio.sleep(seconds)
    return seconds
lazy = lambda: iter_of(3)
def iter_of(size): return (number for number in range(size))
def keyed(*, size): return size
def changes():
    global COUNT
    COUNT += 1
    SEEN.append(COUNT)
    random.random()
    os.environ["HEADWAY_TEST"] = str(COUNT)
    with open("left.txt", "w") as file:
        file.write("x")
    return COUNT
def steady(): return random.Random(3).random()
def crashes(): os.kill(os.getpid(), signal.SIGSEGV)
def leaves(): sys.exit(3)
def leaves_at_once(): os._exit(7)
def raises(): raise ValueError("no platform")
def prints():
    print("x" * 100000)
    sys.stderr.write("y" * 1000)
    return 1
def starts():
    import subprocess
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
def hangs():
    while True: time.sleep(60)
def main_thread_only(): signal.signal(signal.SIGUSR1, signal.SIG_DFL)
def a_lock(): return threading.Lock()
def closes_over(factor=2):
    return factor
closure = (lambda factor: lambda: factor)(3)
"""


@pytest.fixture
def app(tmp_path, monkeypatch):
    """A folder with the functions above, which is the current one."""
    (tmp_path / "app.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return tmp_path


def interpreter(name="3.13"):
    return select(FOUND, [name])[0]


def asked(name, *, on="3.13", limit_s=30.0):
    return examine(parse_target(name), interpreter(on), CORES, limit_s=limit_s)


# ---------------------------------------------------------------- the cheap questions


@pytest.mark.parametrize("name", [one.name for one in select(FOUND)])
@pytest.mark.matrix
def test_a_function_is_examined(app, name):
    """From 3.8 to 3.15, with and without a GIL: what it is, what it takes, what it changes."""
    seen = asked("app:changes", on=name)
    assert seen.error == ""
    assert seen.function.kind == "plain"
    assert seen.function.differs
    kinds = {kind for kind, _ in seen.function.effects}
    assert {"globals", "environment", "random", "files"} <= kinds
    assert ("globals", "app.SEEN changes") in seen.function.effects
    assert asked("app:steady", on=name).function.effects == ()


@pytest.mark.parametrize(
    ("name", "kind"), [("count", "plain"), ("numbers", "generator"), ("lazy", "generator"), ("wait", "async")]
)
def test_the_kind_of_a_function(app, name, kind):
    """Plain, a generator, one that returns a generator, async."""
    assert asked(f"app:{name}").function.kind == kind


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("crashes", "killed by SIGSEGV in its first call"),
        ("leaves", "SystemExit: 3"),
        ("leaves_at_once", "exit code 7 in its first call"),
        ("raises", r"ValueError: no platform \(.*app.py:\d+\)"),
        ("starts", "leaves a process behind"),
        ("keyed", "takes arguments"),
        ("raise", "app has no raise; did you mean raises"),
        ("COUNT", "cannot be called"),
    ],
)
def test_a_stranger_is_a_clear_answer(app, name, words):
    """What crashes, leaves, raises, starts processes or takes arguments is told, with nothing of ours in its traceback."""
    seen = asked(f"app:{name}")
    assert seen.function is None
    assert re.search(words, seen.error), seen.error
    assert "strangers" not in seen.detail


def test_a_function_that_hangs_is_ended(app):
    """It is told where it hangs."""
    seen = asked("app:hangs", limit_s=3)
    assert "did not come to an end" in seen.error
    assert "app.py" in seen.detail


def test_a_module_that_is_missing_is_named(app):
    """And the function does not run."""
    (app / "needs.py").write_text("import nowhere_to_be_found\n\ndef f(): pass\n")
    seen = asked("needs:f")
    assert "ModuleNotFoundError" in seen.error
    assert seen.missing == "nowhere_to_be_found"


@pytest.mark.parametrize(
    ("name", "models", "words"),
    [
        ("closure", {"processes-forkserver", "interpreters"}, "the function cannot be pickled"),
        ("a_lock", {"processes-forkserver", "interpreters"}, "its result cannot be pickled"),
        ("main_thread_only", {"threads"}, "outside of the main thread it fails"),
    ],
)
def test_models_that_cannot_run_it_cost_no_launch(app, name, models, words):
    """Pickles and the main thread are asked about before anything is launched."""
    refusals = asked(f"app:{name}").place.refusals
    assert {one.model for one in refusals} == models
    assert all(words in one.reason for one in refusals)


def test_the_module_that_refuses_a_sub_interpreter_is_named(app):
    """Also where the package that imports it makes another error of it."""
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
    """An extension without Py_mod_gil, on 3.13t."""
    free_threaded = interpreter("3.13t")
    (app / "old.c").write_text(EXTENSION)
    include = Path(free_threaded.executable).resolve().parents[1] / "include" / "python3.13t"
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    target = app / "oldfashioned.so"
    subprocess.run([compiler, "-shared", "-fPIC", f"-I{include}", "old.c", "-o", str(target)], check=True)
    (app / "user.py").write_text("import oldfashioned\n\ndef f(): return 1\n")
    place = examine(parse_target("user:f"), free_threaded, CORES, limit_s=30).place
    assert place.switched_by == "oldfashioned"
    assert place.gil


# ---------------------------------------------------------------- who holds the GIL


@pytest.mark.parametrize("name", WITH_GIL)
@pytest.mark.matrix
def test_calls_of_c_that_let_go_of_the_gil_and_those_that_do_not(app, name):
    """Of each call of C its line, whether it lets go, and how long it kept the GIL."""
    target = parse_target("app:both")
    seen = examine(target, interpreter(name), CORES, limit_s=30)
    holds = look(target, seen.place, seen.function, CORES)
    assert isinstance(holds, Holds), holds
    assert holds.releases == "in part"
    by_call = {one.call: one for one in holds.spots}
    assert by_call["zlib.compress"].releases == "yes"
    assert by_call["re.Pattern.findall"].releases == "no"
    line = 1 + APP.splitlines().index(next(one for one in APP.splitlines() if one.startswith("def match")))
    assert by_call["re.Pattern.findall"].words.startswith(f"app.py:{line} re.Pattern.findall")
    assert holds.longest.call == "re.Pattern.findall"


def test_a_wait_holds_nothing(app):
    """A coroutine that sleeps."""
    target = parse_target("app:wait")
    seen = examine(target, interpreter(), CORES, limit_s=30)
    holds = look(target, seen.place, seen.function, CORES)
    assert holds.waits > 0.5
    assert holds.releases == "yes"


# ---------------------------------------------------------------- inputs


def test_inputs_of_a_module_as_a_list_a_generator_and_a_function(app):
    """The first 256; what is none is told."""
    (app / "data.py").write_text(
        "one = [(3,), 4]\ndef two():\n    yield from one\nthree = (number for number in range(10**9))\nnone = []\nbad = 7\n"
    )
    for name, count in (("one", 2), ("two", 2), ("three", 256)):
        target = with_inputs(parse_target("app:count"), f"data:{name}")
        assert examine(target, interpreter(), CORES, limit_s=30).function.inputs == count
    for name, words in (("none", "is empty"), ("bad", "expected a list"), ("nothing", "data has no nothing")):
        target = with_inputs(parse_target("app:count"), f"data:{name}")
        assert words in examine(target, interpreter(), CORES, limit_s=30).error


def test_arguments_as_json_by_place_and_by_name(app):
    """And what does not fit the signature is told."""
    for text in ("[5]", '{"size": 5}'):
        assert examine(with_json(parse_target("app:count"), text), interpreter(), CORES, limit_s=30).error == ""
    seen = examine(with_json(parse_target("app:count"), '{"length": 5}'), interpreter(), CORES, limit_s=30)
    assert "does not fit its signature" in seen.error


def test_arguments_are_taken_from_a_command_that_calls_it(app, monkeypatch):
    """Its own sitecustomize is run, too, and the command's output is not ours."""
    (app / "run.py").write_text("from app import count\nfor size in (10, 20, 30):\n    assert count(size=size) >= 0\n")
    other = app / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("open('was_here', 'w').close()\n")
    monkeypatch.setenv("PYTHONPATH", str(other))
    said = []
    with observed(parse_target("app:count"), f"{sys.executable} run.py", "", said.append) as target:
        seen = examine(target, interpreter(), CORES, limit_s=30)
    assert seen.function.inputs == 3
    assert (app / "was_here").exists()
    with (
        pytest.raises(UsageError, match="nothing was taken"),
        observed(parse_target("app:pack"), f"{sys.executable} run.py", "", said.append),
    ):
        pass
    with (
        pytest.raises(UsageError, match="cannot be run"),
        observed(parse_target("app:pack"), "no-such-command-here", "", said.append),
    ):
        pass


# ---------------------------------------------------------------- the whole


def advised(*words, folder, check=True):
    done = subprocess.run(
        [*HEADWAY, "advise", *words], cwd=folder, capture_output=True, text=True, timeout=250, check=False
    )
    assert not check or done.returncode == 0, done.stderr
    assert "src/headway" not in done.stderr
    return done


def test_a_function_is_advised_on(app):
    """The answer, its reasons and its launches, of a function that keeps the GIL in one call of C."""
    done = advised(
        "app:match",
        "--json",
        "--budget",
        "12",
        "--interpreter",
        "none",
        "--python",
        interpreter().executable,
        folder=app,
    )
    found = json.loads(done.stdout)
    models = {one["model"]: one for one in found["contenders"]}
    assert set(models) == {"serial", "threads", "interpreters", "processes-forkserver"}
    assert all(one["failed"] == "" and one["call_s"]["value"] > 0 for one in models.values())
    assert models["processes-forkserver"]["worker_pss_bytes"] > 1 << 20
    assert found["holds"]["releases"] == "no"
    assert "re.Pattern.findall" in found["holds"]["longest"]["call"]
    assert "from app import match" in found["code"]
    compile(found["code"], "code", "exec")
    run = lab.load_run(found["run"])
    assert {one.cell.series for one in run.of("advise app:match")} == set(models)
    assert run.header.complete


def test_text_is_readable_and_the_run_is_reported(app):
    """Without colour in a pipe; its page and its tables are there."""
    done = advised("app:count", "--budget", "5", "--interpreter", "none", "--html", "page.html", folder=app)
    assert "call after the other" in done.stdout.splitlines()[1]
    assert "To paste" in done.stdout
    assert "\x1b" not in done.stdout
    assert (app / "page.html").stat().st_size > 10_000
    report = subprocess.run([*HEADWAY, "report"], capture_output=True, text=True, check=True, timeout=60)
    assert "Which concurrency model for app:count?" in report.stdout


def test_coroutines_run_side_by_side(app):
    """What waits in a loop is advised to be gathered."""
    done = advised("app:wait", "--json", "--budget", "30", "--interpreter", "none", folder=app)
    found = json.loads(done.stdout)
    assert found["verdict"]["model"] == "asyncio"
    assert found["verdict"]["outcome"] == "faster"
    assert "asyncio.gather" in found["code"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["app"], "names no function"),
        (["app:raises", "--budget", "5"], "ValueError: no platform"),
        (["app:count", "--args", "{"], "are no JSON"),
        (["app:count", "--budget", "1"], "no number of seconds"),
        (["app:count", "--observe", ""], "no command to observe"),
        (["app:count", "--html", "no/such/folder.html"], "is not there"),
    ],
)
def test_bad_input_is_told(app, words, said):
    """Before anything long, with a hint, and nothing on stdout."""
    done = advised(*words, folder=app, check=False)
    assert done.returncode == 2
    assert said in done.stderr
    assert "hint:" in done.stderr
    assert done.stdout == ""


def _alive(mark):
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                if mark in Path(f"/proc/{entry}/cmdline").read_bytes():
                    found.append(int(entry))
    return found


def test_processes_that_a_function_leaves_are_ended(app):
    """Also those in sessions of their own."""
    mark = f"time.sleep({int(time.time() * 1000) % 10**6 + 10**6})"
    (app / "app.py").write_text(APP.replace("time.sleep(600)", mark))
    done = advised("app:starts", folder=app, check=False)
    assert "leaves a process behind" in done.stderr
    assert _alive(mark.encode()) == []


def test_ctrl_c_leaves_nothing(app):
    """No process, no traceback."""
    with subprocess.Popen(
        [*HEADWAY, "advise", "app:match", "--interpreter", "none"], cwd=app, stderr=subprocess.PIPE, text=True
    ) as process:
        for line in process.stderr:
            if "models against each other" in line:
                process.send_signal(signal.SIGINT)
                break
        process.stderr.read()
        assert process.wait(60) == 130
    deadline_s = time.monotonic() + 30
    while mine := [one for one in _alive(b"headway_agent") if _of(one, app)]:
        assert time.monotonic() < deadline_s, mine
        time.sleep(0.01)


def _of(pid, folder):
    with contextlib.suppress(OSError):
        return str(folder).encode() in Path(f"/proc/{pid}/environ").read_bytes()
    return False


def test_the_function_of_a_script_is_advised_on(app):
    """Under the guard; without it, it says what to do."""
    (app / "script.py").write_text(
        "import headway\n\ndef double(number):\n    return 2 * number\n\n"
        'if __name__ == "__main__":\n'
        "    found = headway.advise(double, [3, (4,)], budget_s=5, interpreters=[])\n"
        "    print(found.function.inputs, found.verdict.model)\n"
    )
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=app, capture_output=True, text=True, check=False, timeout=200
    )
    assert done.stdout.split() == ["2", "serial"], done.stderr
    (app / "unguarded.py").write_text("import headway\ndef f(): pass\nheadway.advise(f)\n")
    done = subprocess.run(
        [sys.executable, "unguarded.py"], cwd=app, capture_output=True, text=True, check=False, timeout=200
    )
    assert '__name__ == "__main__"' in done.stderr


def test_another_interpreter_without_the_imports_is_told_about(app):
    """Nothing is installed unless the user says so."""
    home = asked("app:count").place
    with Keeper() as keeper:
        found, refusals, notes = places(
            parse_target("app:count"),
            replace(home, distributions={"some-library": "1.0"}),
            CORES,
            wanted=["3.12"],
            install=False,
            keeper=keeper,
            say=pytest.fail,
        )
    assert (found, refusals) == ([], [])
    assert "some-library 1.0" in notes[0]
    assert "--install" in notes[0]


def test_the_agents_answers_are_of_the_stage_that_was_asked(app):
    """One question, one stage."""
    answer = ask(
        "holds",
        parse_target("app:pack"),
        interpreter().executable,
        CORES,
        limit_s=30,
        library=str(library_path()),
        kind="plain",
    )
    assert answer.ended == ""
    assert set(answer.stages) == {"holds"}
