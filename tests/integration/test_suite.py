"""The suite itself never hangs, and does not depend on signals that its caller ignores."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[1]


def run_pytest(*arguments, **options):
    """Run pytest with the suite's own settings, in an environment that also loads its conftest for tests elsewhere."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-c", TESTS.parent / "pyproject.toml", "-p", "no:cacheprovider", *arguments],
        cwd=TESTS.parent,
        env={**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS.parent / 'tools'}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


def ignore():
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def test_the_tests_have_signals_that_their_start_had_ignored():
    """Programs that tests start have the default signals, even if `nohup make test &` ignores SIGINT and SIGHUP."""
    done = run_pytest(TESTS / "integration" / "test_interrupts.py", "-k", "started", preexec_fn=ignore)

    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


def test_children_of_the_tests_have_no_ignored_signals(tmp_path):
    """A child of a test is ended by each signal, whatever the caller ignored."""
    (tmp_path / "test_made_up.py").write_text(
        "import pytest, signal, subprocess\n"
        "@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP])\n"
        "def test_ends(number):\n"
        "    with subprocess.Popen(['sleep', '1000']) as child:\n"
        "        child.send_signal(number)\n"
        "        assert child.wait(20) == -number\n"
    )
    done = run_pytest("-p", "conftest", tmp_path, preexec_fn=ignore)

    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout


@pytest.mark.parametrize("how", ["threading.Event().wait()", "child.wait()", "assert False"])
def test_a_test_that_hangs_fails_and_leaves_no_child(tmp_path, how):
    """Each test has a limit that shows where it was, and its children are ended, also after a failed assertion."""
    (tmp_path / "test_made_up.py").write_text(
        "import pathlib, subprocess, threading\n"
        "def test_hangs():\n"
        "    with subprocess.Popen(['sleep', '1000']) as child:\n"
        f"        pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(child.pid))\n"
        f"        {how}\n"
    )
    done = run_pytest("-p", "conftest", "--timeout", "2", tmp_path)

    assert done.returncode == 1, done.stdout
    assert how in done.stdout
    assert ("Timeout" in done.stdout) == (how != "assert False")
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()


def test_every_test_has_a_limit(request):
    """Every test has the limit of the settings, unless a mark sets another."""
    assert 0 < float(request.config.getini("timeout")) <= 180
    assert float(request.config.getini("faulthandler_timeout")) > float(request.config.getini("timeout"))


def test_a_sample_has_each_test_once_and_all_interpreters():
    """`--matrix sample` takes one of the tests that differ only in the interpreter, and uses all interpreters in turn."""
    full, sample = (collected("--matrix", matrix) for matrix in ("full", "sample"))

    rest = Counter(name for name, _ in sample)
    assert rest == Counter({name: 1 for name, _ in full})
    assert {interpreter for _, interpreter in sample} == {interpreter for _, interpreter in full}


def collected(*options):
    """Return the tests of the behaviours' table as (name without the interpreter, interpreter)."""
    name = "test_a_program_behaves_as_it_would"
    done = run_pytest("--collect-only", "-q", *options, Path(__file__).with_name("test_behaviours.py"))
    found = [line.partition(name + "[")[2] for line in done.stdout.splitlines() if f"::{name}[" in line]
    assert found
    return [(one.partition("-")[2], one.partition("-")[0]) for one in found]
