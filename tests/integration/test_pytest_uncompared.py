"""Sessions whose benchmarks are not compared: skipped in this tree, or run in a process that is forked for each test."""

import subprocess

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SKIPS = """
import pytest, product

@pytest.mark.headway(rounds=8, calls=3)
def test_work(headway):
    if not hasattr(product, "work"):
        pytest.skip("this tree has none")
    headway(product.work)
"""


@pytest.fixture
def lost(quick):
    """A suite whose revision `main` has a function that this tree has lost; the test that measures it is skipped now."""
    quick.makepyfile(product="def work():\n    pass\n", test_lost=SKIPS)
    quick.makeini("[pytest]\npythonpath = .\n")
    for command in (("init", "-q", "-b", "main", "."), ("add", "."), ("commit", "-qm", "all")):
        subprocess.run(
            ["git", "-c", "user.name=me", "-c", "user.email=me@localhost", *command], cwd=quick.path, check=True
        )
    return quick


def test_a_benchmark_that_this_tree_skips_is_told_and_is_no_comparison(lost):
    """A gate that compares nothing fails, and names what the other tree has measured; without a limit nothing fails."""
    (lost.path / "product.py").write_text("")
    once = ("-q", "--headway-launches", "1", "--headway-against", "main")
    gate = lost.runpytest_subprocess(*once, "--headway-compare-fail", "5%")

    gate.assert_outcomes(skipped=1)
    assert gate.ret == pytest.ExitCode.TESTS_FAILED
    gate.stdout.fnmatch_lines(
        [
            "*! in main, and not in this session: test_lost.py::test_work",
            "*--headway-compare-fail: nothing could be compared with main",
        ]
    )
    lost.makepyfile(test_kept="def test_kept(headway):\n    headway.options(rounds=8, calls=3)(int)\n")
    other = lost.runpytest_subprocess(*once, "--headway-compare-fail", "100000%")
    assert other.ret == pytest.ExitCode.OK
    other.stdout.fnmatch_lines(["! in main, and not in this session: test_lost.py::test_work"])


@pytest.mark.parametrize("how", ["the test", "the file"])
def test_a_gate_whose_benchmarks_were_removed_compares_nothing(quick, how):
    """It fails, and names them; a session that leaves them out on purpose passes."""
    once = ("-q", "--headway-launches", "1")
    gate = (*once, "--headway-compare", "base", "--headway-compare-fail", "5%")
    quick.makepyfile(
        test_plain="def test_plain():\n    pass\n", test_gone="def test_work(headway):\n    headway(int)\n"
    )
    quick.runpytest_subprocess(*once, "--headway-save", "base").assert_outcomes(passed=2)
    for left_out in (("test_plain.py",), ("-k", "plain"), ("test_plain.py::test_plain",)):
        assert quick.runpytest_subprocess(*gate, *left_out).ret == pytest.ExitCode.OK
    if how == "the file":
        (quick.path / "test_gone.py").unlink()
    else:
        (quick.path / "test_gone.py").write_text("def test_other():\n    pass\n")
    found = quick.runpytest_subprocess(*gate)

    assert found.ret == pytest.ExitCode.TESTS_FAILED
    found.stdout.fnmatch_lines(
        [
            "*! in base, and not in this session: test_gone.py::test_work",
            "*--headway-compare-fail: nothing could be compared with base",
        ]
    )


def test_a_skipped_benchmark_of_stored_sessions_is_no_comparison(lost):
    """A gate fails without launches, too, if all benchmarks are skipped."""
    once = ("-q", "--headway-launches", "1")
    lost.runpytest_subprocess(*once, "--headway-save", "base").assert_outcomes(passed=1)
    (lost.path / "product.py").write_text("")
    gate = lost.runpytest_subprocess(*once, "--headway-compare", "base", "--headway-compare-fail", "5%")

    gate.assert_outcomes(skipped=1)
    assert gate.ret == pytest.ExitCode.TESTS_FAILED
    gate.stdout.fnmatch_lines(["*--headway-compare-fail: nothing could be compared with base"])


FORKS = """
import marshal, os, pytest
from _pytest.runner import runtestprotocol

def pytest_addoption(parser):
    parser.addoption("--forked", action="store_true")

def pytest_configure(config):
    config.addinivalue_line("markers", "forked: as of pytest-forked")

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    if not item.config.getoption("forked") and not item.get_closest_marker("forked"):
        return None
    hook, (end, begin) = item.config.hook, os.pipe()
    if os.fork() == 0:
        made = [hook.pytest_report_to_serializable(config=item.config, report=one)
                for one in runtestprotocol(item, log=False, nextitem=nextitem)]
        os.write(begin, marshal.dumps(made))
        os._exit(0)
    os.close(begin)
    with open(end, "rb") as reports:
        for one in marshal.loads(reports.read()):
            report = hook.pytest_report_from_serializable(config=item.config, data=one)
            item.ihook.pytest_runtest_logreport(report=report)
    os.wait()
    return True
"""

TWO = """
import pytest

pytestmark = pytest.mark.headway(rounds=8, calls=3)

def test_usual(headway):
    headway(int)

MARK
def test_marked(headway):
    assert headway(int).takes_less_than(60)
"""

TOLD = "{} not measured: a process that is forked for its test (`--forked`) takes the results with it"


def test_tests_in_processes_of_their_own_are_not_measured(quick):
    """Results that would end with a fork are told to be missing, and no gate passes without them."""
    quick.makeconftest(FORKS)
    quick.makepyfile(TWO.replace("MARK", ""))
    quick.runpytest_subprocess("-q", "--headway-launches", "1", "--headway-save", "base").assert_outcomes(passed=2)
    compare = ("-q", "--headway-compare", "base", "--headway-compare-fail", "1000000%")
    forked = quick.runpytest_subprocess(*compare, "--forked")

    forked.assert_outcomes(passed=2)
    assert forked.ret == pytest.ExitCode.TESTS_FAILED
    forked.stdout.fnmatch_lines([TOLD.format(2), "*--headway-compare-fail: nothing could be compared with base"])
    forked.stdout.no_fnmatch_line("*headway: launch *")
    quick.makepyfile(TWO.replace("MARK", "@pytest.mark.forked"))
    marked = quick.runpytest_subprocess(*compare, "--headway-launches", "2")
    marked.assert_outcomes(passed=2)
    assert marked.ret == pytest.ExitCode.TESTS_FAILED
    marked.stdout.fnmatch_lines([TOLD.format(1), "test_usual * 2/ 8/ 3"])
    marked.stdout.fnmatch_lines(["--headway-compare-fail: not compared: *.py::test_marked"])
