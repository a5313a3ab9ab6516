"""The suite itself never hangs, and does not depend on signals that its caller ignores."""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[1]


def run_pytest(*arguments, folder, **options):
    """Run pytest with the suite's own settings; it finds our conftest, our tests and the modules in `folder` by their names."""
    path = (TESTS, TESTS / "integration", TESTS.parent / "tools", folder)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-c", TESTS.parent / "pyproject.toml", "-p", "no:cacheprovider", *arguments],
        cwd=TESTS.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


def ignore():
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def test_the_tests_have_signals_that_their_start_had_ignored(tmp_path):
    """Programs that tests start end by each signal, and have their handlers, even if `nohup make test &` ignores SIGINT and SIGHUP."""
    (tmp_path / "test_made_up.py").write_text(
        "import pytest, signal, subprocess\n"
        "from test_interrupts import test_ctrl_c_while_a_process_is_started\n"
        "@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP])\n"
        "def test_ends(number):\n"
        "    with subprocess.Popen(['sleep', '1000']) as child:\n"
        "        child.send_signal(number)\n"
        "        assert child.wait(20) == -number\n"
    )
    done = run_pytest("-p", "conftest", tmp_path, folder=tmp_path, preexec_fn=ignore)

    assert done.returncode == 0, done.stdout
    assert "7 passed" in done.stdout


HOW = ("threading.Event().wait()", "child.wait()", "assert False")


def test_a_test_that_hangs_fails_and_leaves_no_child(tmp_path):
    """Each test has a limit that shows where it was, and its children are ended, also after a failed assertion."""
    for place, how in enumerate(HOW):
        (tmp_path / f"test_made_up_{place}.py").write_text(
            "import pathlib, subprocess, threading\n"
            "def test_hangs():\n"
            "    with subprocess.Popen(['sleep', '1000']) as child:\n"
            f"        pathlib.Path({str(tmp_path / how)!r}).write_text(str(child.pid))\n"
            f"        {how}\n"
        )
    done = run_pytest("-p", "conftest", "--timeout", "2", "-rN", tmp_path, folder=tmp_path)

    assert done.returncode == 1, done.stdout
    parts = re.split("^_+ test_hangs _+$", done.stdout, flags=re.MULTILINE)[1:]
    assert len(parts) == len(HOW)
    for how, part in zip(HOW, parts, strict=True):
        assert how in part
        assert ("Timeout" in part) == (how != "assert False")
        assert not Path(f"/proc/{(tmp_path / how).read_text()}").exists()


def test_every_test_has_a_limit(request):
    """Every test has the limit of the settings, unless a mark sets another."""
    assert 0 < float(request.config.getini("timeout")) <= 180
    assert float(request.config.getini("faulthandler_timeout")) > float(request.config.getini("timeout"))


LISTS = """
import json, pathlib, pytest

@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items):
    full = [item.name for item in items]
    yield
    pathlib.Path(__file__).with_suffix(".json").write_text(json.dumps([full, [item.name for item in items]]))
"""


def test_a_sample_has_each_test_once_and_all_interpreters(tmp_path):
    """`--matrix sample` takes one of the tests that differ only in the interpreter, and uses all interpreters in turn."""
    full, sample = collected(tmp_path)

    assert len(sample) < len(full)
    rest = Counter(name for name, _ in sample)
    assert rest == Counter({name: 1 for name, _ in full})
    assert {interpreter for _, interpreter in sample} == {interpreter for _, interpreter in full}


def collected(folder):
    """Return the tests of the behaviours' table, and those of a sample, as (name without the interpreter, interpreter)."""
    (folder / "lists.py").write_text(LISTS)
    behaviours = Path(__file__).with_name("test_behaviours.py")
    done = run_pytest("-p", "lists", "--collect-only", "--matrix", "sample", behaviours, folder=folder)
    assert done.returncode == 0, done.stdout
    for names in json.loads((folder / "lists.json").read_text()):
        found = [name.partition("[")[2] for name in names if name.startswith("test_a_program_behaves_as_it_would[")]
        assert found
        yield [(one.partition("-")[2], one.partition("-")[0]) for one in found]
