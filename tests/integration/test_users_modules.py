"""A program has modules of its own with the names of standard ones, and finds those, as it would without us."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from real_programs import LIMIT_S, SOME, bare

from headway.live.files import wait_until_finished

HEADWAY = str(Path(sys.executable).with_name("headway"))
NAMES = (
    "struct",
    "threading",
    "collections",
    "functools",
    "heapq",
    "keyword",
    "operator",
    "reprlib",
    "types",
    "weakref",
)
MODULES = "import json, sys; print(json.dumps(sorted(sys.modules)))"

pytestmark = [pytest.mark.slow, pytest.mark.matrix("interpreter")]


def run(interpreter, how, words, folder, **variables):
    """Run a program bare, by `run` or by `trace`; return its exit code, its output, and stderr without our one line."""
    python = str(interpreter.executable)
    command = {
        "bare": [python],
        "run": [HEADWAY, "run", "--python", python],
        "trace": [HEADWAY, "trace", "--no-summary", "-o", str(folder / "x.hwt"), "--python", python],
    }[how]
    done = subprocess.run(
        [*command, *words],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        cwd=folder,
        env=bare(PYTHONDONTWRITEBYTECODE="1", **variables),
    )
    said = done.stderr.splitlines()
    if how == "trace":
        assert said.pop(0).startswith("recording into ")
    return done.returncode, done.stdout, said


def modules(interpreter, how, folder):
    """Return the names of the modules that a program finds."""
    return set(json.loads(run(interpreter, how, ["-c", MODULES], folder)[1]))


def own_names(interpreter, how, folder):
    """Return standard modules that a program does not find in sys.modules at its start; `struct` is among them."""
    found = set(NAMES) - modules(interpreter, how, folder)
    wait_until_finished(folder / "x.hwt")  # else a collector without a core may make it after that
    (folder / "x.hwt").unlink(missing_ok=True)
    if "struct" not in modules(interpreter, "bare", folder):
        assert "struct" in found
        return sorted(found)
    pytest.skip("something in this interpreter's site-packages imports all of them")


@pytest.mark.parametrize("interpreter", SOME, ids=lambda one: one.id)
def test_a_scheduled_program_finds_no_further_module(interpreter, tmp_path):
    """`headway run` imports no standard module: only its own are more than without it."""
    more = modules(interpreter, "run", tmp_path) - modules(interpreter, "bare", tmp_path)

    assert {name.partition(".")[0] for name in more} == {"headway_agent"}


@pytest.mark.parametrize("how", ["run", "trace"])
@pytest.mark.parametrize("interpreter", SOME, ids=lambda one: one.id)
def test_a_module_beside_the_script_is_found(interpreter, how, tmp_path):
    """A script imports a module of its own folder, whose name is that of a standard one."""
    names = sorted(set(own_names(interpreter, "bare" if how == "run" else how, tmp_path)) - {"threading"})
    for name in names:
        (tmp_path / f"{name}.py").write_text("MINE = True\n")
    script = tmp_path / "app.py"
    # Python calls a function of `threading` at its end, and so that one is left out.
    script.write_text("".join(f"import {name}\nprint({name}.MINE)\n" for name in names))

    assert run(interpreter, how, [str(script)], tmp_path) == (0, "True\n" * len(names), [])


@pytest.mark.parametrize("how", ["run", "trace"])
@pytest.mark.parametrize("interpreter", SOME, ids=lambda one: one.id)
def test_a_module_on_the_path_does_not_run_for_us(interpreter, how, tmp_path):
    """A module on PYTHONPATH runs only if the program imports it, and is found then."""
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in own_names(interpreter, "bare", tmp_path):
        (folder / f"{name}.py").write_text("print('mine')\n")

    found = run(interpreter, how, ["-c", "print('begun'); import struct"], tmp_path, PYTHONPATH=str(folder))

    assert found == (0, "begun\nmine\n", [])
