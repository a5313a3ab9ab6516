"""`headway advise --observe`: which calls a command's observation takes, and that the command runs as without it."""

import contextlib
import os
import pickle
import re
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from advised_app import CORES, interpreter
from real_programs import LIMIT_S
from waiting import wait_for

from headway.advice.examined import examine
from headway.advice.observing import observed
from headway.advice.refused import refuse
from headway.advice.target import parse_target
from headway.cli.main import main
from headway.errors import UsageError
from headway.lab.launching.lock import only_lab

APP = """
def count(size):
    return size
def named(job):
    return job.name
def fib(number):
    return number if number < 2 else fib(number - 1) + fib(number - 2)
def tree(depth):
    yield depth
    if depth:
        yield from tree(depth - 1)
async def crawl(depth):
    import asyncio
    await asyncio.sleep(0)
    if depth:
        await crawl(depth - 1)
        await asyncio.gather(crawl(depth - 1), asyncio.ensure_future(crawl(0)))
async def stream(depth):
    yield depth
    if depth:
        async for one in stream(depth - 1):
            yield one
"""


@pytest.fixture
def app(tmp_path, monkeypatch):
    """Return the folder with the functions, which is the working directory."""
    (tmp_path / "app.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return tmp_path


def taken(name: str, command: str, python: str = "", *, module: str = "app") -> list[tuple]:
    """Return the positional arguments of the calls that are taken from a command."""
    target = parse_target(f"{module}:{name}")
    with observed(target, command, python, print) as given:
        return [pickle.loads(one)[0] for one in pickles(given.inputs["path"])]


def pickles(path: str) -> Iterator[bytes]:
    """Yield the pickles of the calls in a file."""
    with open(path, "rb") as file:
        while file.peek(1):
            yield pickle.load(file)


def test_a_command_of_the_current_folder_does_not_hide_the_real_one(app, monkeypatch):
    """With a bare name of a Python, the current folder is not put on the command's PATH."""
    real = app / "bin"
    real.mkdir()
    for folder, size in ((app, 1), (real, 2)):
        (folder / "mytests").write_text(f"#!/bin/sh\nexec {sys.executable} -c 'import app; app.count({size})'\n")
        (folder / "mytests").chmod(0o755)
    python = Path(sys.executable)
    monkeypatch.setenv("PATH", os.pathsep.join([str(real), str(python.parent), os.environ["PATH"]]))
    assert taken("count", "mytests", python.name) == [(2,)]


@pytest.mark.parametrize(
    ("name", "work"),
    [
        ("fib", "app.fib(7), app.fib(8)"),
        ("tree", "[(one, list(app.tree(3))) for one in app.tree(8) if one == 7], list(app.tree(8))"),
        ("crawl", "asyncio.run(both(app.crawl(7), app.crawl(8)))"),
        ("stream", "asyncio.run(both(used(app.stream(7)), used(app.stream(8))))"),
    ],
)
def test_calls_of_a_recursive_function_by_itself_are_not_taken(app, name, work):
    """Only the outermost calls are taken, also of generators and coroutines that run side by side."""
    (app / "run.py").write_text(
        "import asyncio, app\nasync def both(*some): await asyncio.gather(*some)\n"
        f"async def used(some): [one async for one in some]\n{work}\n"
    )
    expected = [(8,), (3,), (8,)] if name == "tree" else [(7,), (8,)]
    assert taken(name, f"{sys.executable} run.py") == expected


SERVES = """
import app, pathlib, signal, sys, time
def stop(*_):
    if {patient}:
        time.sleep(1)
        pathlib.Path("stopped").touch()
        sys.exit()
signal.signal(signal.SIGINT, stop)
app.count(5)
pathlib.Path("serving").touch()
while True: time.sleep(0.1)
"""
OBSERVES = """
import functools, sys
from headway.advice.observing import observed
from headway.advice.target import parse_target
from headway.errors import UsageError
with observed(parse_target("app:count"), sys.executable + " serves.py", "", functools.partial(print, flush=True)):
    print("taken")
"""


@pytest.mark.parametrize("patient", [True, False])
def test_ctrl_c_ends_the_command_as_without_us(app, patient):
    """A command has all the time to end after Ctrl-C, and its calls are used; a second Ctrl-C kills it."""
    (app / "serves.py").write_text(SERVES.format(patient=patient))
    observer = subprocess.Popen(
        [sys.executable, "-c", OBSERVES], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        wait_for(lambda: (app / "serving").exists() or observer.poll() is not None)
        os.killpg(observer.pid, signal.SIGINT)
        if not patient:
            while "Ctrl-C again kills it" not in (line := observer.stdout.readline()):
                assert line
            assert observer.poll() is None
            os.kill(observer.pid, signal.SIGINT)
        said = observer.communicate(timeout=LIMIT_S)[0]
    finally:
        if observer.poll() is None:
            os.killpg(observer.pid, signal.SIGKILL)
            observer.wait()
    assert (app / "stopped").exists() == patient
    assert ("taken" in said) == patient
    assert (observer.returncode == 0) == patient
    with pytest.raises(ProcessLookupError):
        os.killpg(observer.pid, 0)


JOB = "class Job:\n    def __init__(self, name): self.name = name\n"


def test_a_call_that_cannot_be_loaded_is_left_out(app):
    """A class of the program's main module cannot be found, and the other calls are used; without any it is told."""
    (app / "jobs.py").write_text(JOB)
    (app / "main.py").write_text(f"import app, jobs\n{JOB}app.named(Job(1))\napp.named(jobs.Job(2))\n")
    with observed(parse_target("app:named"), f"{sys.executable} main.py", "", print) as target:
        seen = examine(target, interpreter(), CORES, limit_s=30)
    assert seen.function.inputs == 1
    assert seen.lost == ("UnpicklingError: Job is in the program's own main module",)
    (app / "main.py").write_text(f"import app\n{JOB}app.named(Job(1))\n")
    with observed(parse_target("app:named"), f"{sys.executable} main.py", "", print) as target:
        seen = examine(target, interpreter(), CORES, limit_s=30)
        assert "none of the 1 calls can be loaded" in seen.error
        assert "into a module" in refuse(seen, target).hint


def test_arguments_are_found_on_the_path_of_the_command(app):
    """A class of a test's own module is found in the folder that the command put on its import path."""
    tests = app / "tests"
    tests.mkdir()
    (tests / "helpers.py").write_text(JOB)
    (tests / "run.py").write_text("import sys\nsys.path.append('.')\nimport app, helpers\napp.named(helpers.Job(1))\n")
    with observed(parse_target("app:named"), f"{sys.executable} tests/run.py", "", print) as target:
        assert str(tests) in target.also
        assert examine(target, interpreter("3.12"), CORES, limit_s=30).error == ""


def test_classes_of_the_script_that_asks_are_found(app):
    """A class of the script that has the function and calls `headway.advise()` belongs to the function's module."""
    (app / "script.py").write_text(
        f"{JOB}def work(job): return job.name\n"
        "if __name__ == '__main__':\n    import headway\n"
        "    headway.advise(work, [Job(1)], budget_s=5, interpreters=[], say=print)\n    print('advised')\n"
    )
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.endswith("advised\n"), done.stderr


def test_other_modules_of_the_same_loader_are_not_observed(app):
    """A zip archive has one loader for all its modules: only calls of the function that was named are taken, once."""
    with zipfile.ZipFile(app / "app.zip", "w") as archive:
        archive.writestr("zipped.py", "def count(size): pass\n")
        archive.writestr("other.py", "def count(size): pass\n")
    (app / "run.py").write_text(
        "import importlib, sys\nsys.path.insert(0, 'app.zip')\nimport zipped, other\n"
        "importlib.reload(zipped)\nother.count(1)\nzipped.count(2)\n"
    )
    assert taken("count", f"{sys.executable} run.py", module="zipped") == [(2,)]


@pytest.mark.parametrize("name", ["half", "half_later"])
def test_calls_that_raise_are_left_out_and_counted(app, name):
    """A test may expect an exception; a measured call must return, and has the arguments of before the call."""
    (app / "halves.py").write_text(
        "import asyncio\ndef half(values):\n    if not values: raise ValueError(values)\n    values.pop()\n"
        "async def half_later(values): half(values)\n"
    )
    (app / "run.py").write_text(
        f"import asyncio\nfrom halves import {name}\ndef call(values):\n    try:\n        done = {name}(values)\n"
        "        if done is not None: asyncio.run(done)\n    except ValueError: pass\n"
        "for values in ([1, 2], [], [3], []): call(values)\n"
    )
    said = []
    with observed(parse_target(f"halves:{name}"), f"{sys.executable} run.py", "", said.append) as target:
        seen = examine(target, interpreter(), CORES, limit_s=LIMIT_S)
    assert seen.error == ""
    assert seen.function.inputs == 2
    assert seen.function.changes_arguments
    assert said[1:] == ["2 calls that raised are left out"]


ENDS = {
    "sys.exit(3)": "1 call that raised is left out",
    "raise KeyboardInterrupt": "1 call that raised is left out",
    "os._exit(4)": "the command ended before a call of main of ends returned (exit code 4)",
}


@pytest.mark.parametrize("end", ENDS)
def test_a_call_that_ends_the_program_is_told(app, end):
    """The command does call the function, though no call of it returns."""
    (app / "ends.py").write_text(f"import os, sys\ndef main(): {end}\n")
    (app / "run.py").write_text("import ends\nends.main()\n")
    with pytest.raises(UsageError, match=re.escape(ENDS[end])) as told:
        taken("main", f"{sys.executable} run.py", module="ends")
    assert "returns a result" in told.value.hint


def test_calls_that_have_not_returned_are_bounded_and_cancelled_ones_counted(app):
    """A thousand coroutines begin before one ends; each has arguments of 1 MB, and one is cancelled."""
    (app / "later.py").write_text(
        "import asyncio\nasync def work(data, number):\n    await asyncio.sleep(0.2 if number else 60)\n"
    )
    (app / "run.py").write_text(
        "import asyncio, later\nasync def all():\n"
        "    one = asyncio.ensure_future(later.work(DATA, 0))\n"
        "    await asyncio.gather(*(later.work(DATA, number) for number in range(1, 1000)))\n"
        "    one.cancel()\n    await asyncio.gather(one, return_exceptions=True)\nDATA = bytes(1 << 20)\nasyncio.run(all())\n"
        # Not ru_maxrss: that is at least what the process had which started this one.
        "(most,) = (one.split()[1] for one in open('/proc/self/status') if one.startswith('VmHWM:'))\n"
        "print(int(most) // 1024, file=open('mib', 'w'))\n"
    )
    said = []
    with observed(parse_target("later:work"), f"{sys.executable} run.py", "", said.append) as target:
        count = sum(1 for _ in pickles(target.inputs["path"]))
    assert count == 63
    assert said[1:] == ["1 call that raised is left out"]
    assert int((app / "mib").read_text()) < 400


def test_a_command_whose_calls_all_raise_gives_no_inputs(app):
    """The error tells why there are none."""
    (app / "run.py").write_text("from app import named\ntry:\n    named(1)\nexcept AttributeError:\n    pass\n")
    with (
        pytest.raises(UsageError, match="1 call that raised is left out") as told,
        observed(parse_target("app:named"), f"{sys.executable} run.py", "", print),
    ):
        pass
    assert "returns a result" in told.value.hint


KEPT = """
import functools, inspect
TABLE = {}
def listed(function):
    TABLE[function.__name__] = function
    return function
def closed(least):
    @listed
    def work(size, *, by=2):
        return max(size * by, least)
    return work
work = closed(1)
@listed
def count(size, by=2): return size * by
@listed
async def wait(size): return size
@listed
def numbers(size): yield size
class View:
    act = staticmethod(count)
class Base:
    def run(self, size):
        return size
    @staticmethod
    def fixed(size): return size
class Child(Base): pass
class Other(Base): pass
run = Child().run
"""


@pytest.mark.parametrize("python", ["3.8", "3.10", "3.11", "3.12", "3.13", "3.14", "3.13t", "3.15"])
@pytest.mark.matrix("python")
def test_a_function_that_others_have_kept_is_observed_everywhere(app, monkeypatch, python):
    """A decorator's table, a class, and a bound method that were made during the import have the function itself.

    Of an inherited method, calls with objects of the class that was named are taken.
    """
    (app / "kept.py").write_text(KEPT)
    monkeypatch.syspath_prepend(app)  # the objects of methods are loaded here
    work = (
        "import asyncio, inspect, kept; from kept import *; t = TABLE; assert t['work'] is work; assert work(3) == 6; "
        "assert t['work'](4, by=3) == 12; assert View.act(5, 3) == 15; assert count(6) == 12; "
        "assert asyncio.run(t['wait'](7)) == 7; assert list(t['numbers'](8)) == [8]; Other().run(1); run(9); Child().run(10); "
        "Child.fixed(11); assert list(inspect.signature(work).parameters) == ['size', 'by']; "
        "assert inspect.iscoroutinefunction(wait); assert pickle.loads(pickle.dumps(count)) is count"
    )
    (app / "run.py").write_text("import pickle\n" + work.replace("; ", "\n"))
    command = f"{interpreter(python).executable} run.py"
    found = {
        name: taken(name, command, module="kept")
        for name in ("work", "count", "wait", "numbers", "Child.run", "Child.fixed")
    }
    assert {name: [one[-1] for one in each] for name, each in found.items() if name != "count"} == {
        "work": [3, 4],
        "wait": [7],
        "numbers": [8],
        "Child.run": [9, 10],
        "Child.fixed": [11],
    }
    assert found["count"] == [(5, 3), (6,)]
    sys.modules.pop("kept", None)


@pytest.mark.parametrize("what", ["store", "lock"])
def test_nothing_is_observed_if_nothing_can_be_measured_afterwards(app, monkeypatch, capsys, what):
    """The command may take long: a store that cannot be written, or another measurement, is told before it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(app))
    words = ["advise", "app:count", "--observe", f'{sys.executable} -c \'open("ran", "w")\'', "--interpreter", "none"]
    with only_lab() if what == "lock" else contextlib.nullcontext():
        code = main([*words, "--store", str(app if what == "store" else app / "x.sqlite")])

    assert code != 0
    assert ("is a folder" if what == "store" else "is measuring") in capsys.readouterr().err
    assert not (app / "ran").exists()
