"""Real pytest runs with the plugin: every kind of test, on every CPython from 3.11, beside other plugins."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyperf
import pytest
from drawn_tables import headings
from plugin_environment import ROOT, plugin_python
from plugin_suites import EVERY_KIND, FORGOTTEN, TWO, tables

from headway.host.interpreters import discover, select
from headway.lab.kept.results import load_run
from headway.report.html import lab_page

# The first test of an interpreter makes its environment.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

FOUND = {one.name: one for one in select(discover()[0], ["all"])}
OTHERS = (
    "3.12",
    "3.13",
    # Beside a program that computes, 3.13t takes some 50 ms for each class whose metaclass is not `type`, and there are
    # hundreds of them (docs/concepts/measuring.md).
    pytest.param("3.13t", marks=pytest.mark.times),
    "3.14",
    "3.15",
)
SCOPES = ("function", "class", "module", "package", "session")

NUMBER = r"[\d.]+(?:e[-+]\d+)?"


@pytest.mark.matrix("scope")
@pytest.mark.parametrize("scope", SCOPES)
def test_every_kind_of_test_with_asyncio_of_each_scope(beside_plugins, scope):
    """The loop is the runner's own, whatever its scope, and failures and skips are unchanged."""
    beside_plugins.makepyfile(EVERY_KIND.replace("SCOPE", scope))
    result = beside_plugins.runpytest_subprocess("-q")

    result.assert_outcomes(passed=9, skipped=2, failed=1)
    text = tables(result)
    for name in ("test_plain", "test_asyncio", "test_loads", "test_anyio[asyncio]", "test_anyio[trio]", "test_failing"):
        assert name in text
    assert "test_skipped" not in text


@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", OTHERS)
def test_every_kind_of_test_on_other_interpreters(beside_plugins, name):
    """Every kind of test also runs in sub-interpreters from 3.12 on, and on a build without a GIL."""
    beside_plugins.makepyfile(EVERY_KIND.replace("SCOPE", "function"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    python = plugin_python(FOUND[name])
    command = [python, "-m", "pytest", "-q", "-p", "headway.pytest_plugin", "-p", "no:cacheprovider"]
    done = subprocess.run(
        command, cwd=beside_plugins.path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )

    assert re.search(r"1 failed, 10 passed, 1 skipped", done.stdout), done.stdout + done.stderr
    assert "test_anyio[trio]" in done.stdout


def test_what_nobody_awaits_is_an_error_and_no_figure(beside_plugins):
    """A coroutine function, a function that makes coroutines, and a coroutine are errors if they are not awaited."""
    beside_plugins.makepyfile(FORGOTTEN)
    result = beside_plugins.runpytest_subprocess("-q", "-W", "ignore")

    result.assert_outcomes(passed=1, failed=3, errors=2)
    result.stdout.fnmatch_lines(["*the benchmark was not awaited, so nothing was measured*"])
    result.stdout.fnmatch_lines(["*returns a coroutine that is not awaited*"])
    result.stdout.fnmatch_lines(["*the argument is a coroutine, which can be awaited only once*"])
    assert "time per" not in result.stdout.str()


def test_an_assertion_that_fails_prints_its_evidence(quick):
    """A failed assertion prints its intervals, and what was expected."""
    suite = TWO.replace("one.name != other.name", "one.faster_than(other)")
    # with only 3, the interval may be so wide that it decides nothing
    quick.makepyfile(suite.replace("rounds=3", "rounds=20"))
    result = quick.runpytest_subprocess("-q")

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.re_match_lines(
        [rf".*assert <refuted: time of slow / fast is {NUMBER} \[{NUMBER}-{NUMBER}\], expected below 1.*"]
    )


def test_launches_are_fresh_processes_and_the_units(quick):
    """Each benchmark runs in several processes of its own, and the assertions concern all of them."""
    seen = "print(len(one.launches), len(other.launches), file=open('seen', 'a')) is None"
    evident = f"{seen} and other.faster_than(one, by=1.5)"
    suite = TWO.replace("one.name != other.name", evident).replace("rounds=3", "rounds=20")
    quick.makepyfile(suite.replace("import pytest", "import os, pytest\nprint(os.getpid(), file=open('pids', 'a'))"))
    result = quick.runpytest_subprocess("-q", "--headway-launches", "3", "--headway-json", "out.json")

    result.assert_outcomes(passed=2)
    pids = set((quick.path / "pids").read_text().split())
    assert len(pids) == 2 * 3 + 1
    assert (quick.path / "seen").read_text().splitlines() == ["1 1", "1 1", "1 1", "3 3"]
    results, in_turns = json.loads((quick.path / "out.json").read_text())["groups"].values()
    assert {one["name"]: len(one["launches"]) for one in results} == {"slow": 3, "fast": 3, "third": 3}
    assert {one["label"]: len(one["launches"]) for one in in_turns} == {"slow": 3, "fast": 3}
    assert {one["call_s"]["of"] for one in (*results, *in_turns)} == {"launches"}
    result.stdout.fnmatch_lines(["headway: launch 6 of 6: *"])
    assert "of rounds within this process" not in tables(result)


SAME_NAMES = """
import os, pytest

@pytest.mark.headway(rounds=ROUNDS, calls=1)
class TestPlaces:
    @pytest.mark.parametrize("place", PLACES)
    def test_place(self, headway, place):
        print(__name__, place, os.getpid(), file=open("seen", "a"))
        headway(int)
"""


def in_file_of_arguments(folder, monkeypatch):
    (folder / "args.txt").write_text("tests\n")
    return ("@args.txt",)


def in_configuration(folder, monkeypatch):
    (folder / "pytest.ini").write_text("[pytest]\naddopts = tests\n")
    return ()


def in_environment(folder, monkeypatch):
    monkeypatch.setenv("PYTEST_ADDOPTS", f"{os.environ['PYTEST_ADDOPTS']} tests")
    return ()


def by_a_plugin(folder, monkeypatch):
    (folder / "conftest.py").write_text("def pytest_configure(config):\n    config.args[:] = ['tests']\n")
    return ("tests/test_one.py",)


@pytest.mark.parametrize(
    ("folder_given", "places"),
    [(in_file_of_arguments, 1), (in_configuration, 1), (in_environment, 1), (by_a_plugin, 2)],
)
def test_a_launch_runs_its_own_test_alone(quick, monkeypatch, folder_given, places):
    """A test has its own numbers, not those of a namesake, wherever the names of files and folders come from."""
    (quick.path / "tests").mkdir()
    for name, rounds in (("one", 3), ("other", 4)):
        suite = SAME_NAMES.replace("ROUNDS", str(rounds)).replace("PLACES", str(["b::c", "a"][:places]))
        (quick.path / "tests" / f"test_{name}.py").write_text(suite)
    given = folder_given(quick.path, monkeypatch)
    result = quick.runpytest_subprocess("-q", *given, "--headway-launches", "2", "--headway-json", "out.json")

    result.assert_outcomes(passed=2 * places)
    groups = json.loads((quick.path / "out.json").read_text())["groups"]
    rounds = {
        name: [[len(launch["values_s"]) for launch in one["launches"]] for one in group]
        for name, group in groups.items()
    }
    assert rounds == {"tests/test_one.py": [[3, 3]] * places, "tests/test_other.py": [[4, 4]] * places}
    seen = [line.rpartition(" ") for line in (quick.path / "seen").read_text().splitlines()]
    # Each test runs in its two launches, and in the session; the session alone runs several.
    assert sorted(Counter(test for test, _, _ in seen).values()) == [3] * 2 * places
    assert sorted(Counter(process for _, _, process in seen).values()) == [*[1] * 4 * places, 2 * places]


RENAMES = """
import pytest

class Renamed(pytest.Function):
    @property
    def nodeid(self):
        return super().nodeid.replace("::test_", "::the ")

def pytest_collection_modifyitems(items):
    items.reverse()
    for item in items:
        item.__class__ = Renamed
"""


def test_tests_that_a_plugin_renames_are_launched(quick):
    """A plugin may change the names of tests after their collection, and their order."""
    quick.makeconftest(RENAMES)
    quick.makepyfile(TWO)
    result = quick.runpytest_subprocess("-q", "--headway-launches", "2", "--headway-json", "out.json")

    result.assert_outcomes(passed=2)
    (group,) = json.loads((quick.path / "out.json").read_text())["groups"].values()
    assert {one["label"]: len(one["launches"]) for one in group} == {"slow": 2, "fast": 2, "third": 2}


def test_a_launch_that_fails_is_told(quick):
    """A launch that fails is reported, and the others count."""
    quick.makepyfile(
        TWO.replace(
            "def test_third(headway):",
            "def test_third(headway):\n    import os\n    os.path.exists('once') or (open('once', 'w'), os._exit(3))",
        )
    )
    result = quick.runpytest_subprocess("-q", "--headway-launches", "3", "--headway-json", "out.json")

    result.assert_outcomes(passed=2)
    (results,) = json.loads((quick.path / "out.json").read_text())["groups"].values()
    (third,) = [one for one in results if one["name"] == "third"]
    assert (len(third["launches"]), len(third["failed"])) == (2, 1)
    assert "! third: " in tables(result)


def test_disabled_it_calls_once(quick):
    """A disabled plugin calls each function once, and asserts nothing of what was not measured."""
    quick.makepyfile(TWO.replace("one.name != other.name", "one.faster_than(other)"))
    result = quick.runpytest_subprocess("-q", "--headway-disable")

    result.assert_outcomes(passed=2)
    assert "3 not measured: `--headway-disable`" in tables(result)


def test_under_xdist_it_refuses_to_time_and_says_so(quick):
    """The plugin does not time under xdist, because other workers share the machine; with `-n 0` it does."""
    quick.makepyfile(TWO)
    spread = quick.runpytest_subprocess("-q", "-n", "2")
    spread.assert_outcomes(passed=2)
    assert "2 not measured: under xdist other workers share the machine (`-n 0` measures)" in tables(spread)

    alone = quick.runpytest_subprocess("-q", "-n", "0")
    alone.assert_outcomes(passed=2)
    assert "time per call" in headings(tables(alone))


@pytest.mark.parametrize("how", [("--headway-disable",), ("-k", "nobody"), ("-n", "2")])
def test_files_that_are_not_written_are_told(quick, how):
    """Where nothing is measured, the next job that compares would find no file: the session says so."""
    quick.makepyfile(TWO)
    result = quick.runpytest_subprocess("-q", "--headway-save", "base", "--headway-json", "out.json", *how)

    result.stdout.fnmatch_lines(["*--headway-json and --headway-save: nothing was measured, so nothing is written*"])
    assert not (quick.path / "out.json").exists()


def test_without_the_plugin_there_is_no_fixture(quick):
    """The option `-p no:headway` removes the fixture."""
    quick.makepyfile(TWO)
    result = quick.runpytest_subprocess("-q", "-p", "no:headway", "-W", "ignore")

    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*fixture 'headway' not found*"])


def test_a_session_without_benchmarks_pays_nothing(quick):
    """A session without benchmarks imports neither numpy nor our other modules."""
    quick.makepyfile(
        "import sys\ndef test_imports():\n    assert not {'numpy', 'headway.measure', 'headway.lab'} & set(sys.modules)"
    )
    result = quick.runpytest_subprocess("-q", "-p", "no:benchmark")

    result.assert_outcomes(passed=1)
    assert "Headway" not in result.stdout.str()


def test_it_lives_beside_pytest_benchmark(beside_plugins):
    """Headway and pytest-benchmark each have a fixture, and one test can use both."""
    beside_plugins.makepyfile(
        TWO
        + "\n\ndef test_both(benchmark, headway):\n    benchmark(fast)\n    headway.options(rounds=2, calls=2)(fast)\n"
    )
    result = beside_plugins.runpytest_subprocess("-q")

    result.assert_outcomes(passed=3)
    assert "Name (time in" in result.stdout.str()
    assert "test_both" in tables(result)


def test_a_benchmark_is_named_as_its_test(quick):
    """The benchmark of a parametrized test of a class has the class, and the parameters as they are."""
    quick.makepyfile(
        """
        import pytest

        class TestThing:
            @pytest.mark.parametrize("what", ["a::b"])
            def test_one(self, headway, what):
                headway.options(rounds=5, calls=1)(len, what)
        """
    )
    result = quick.runpytest_subprocess("-q")
    result.stdout.fnmatch_lines(["TestThing.test_one[[]a::b[]] *"])


def test_only_benchmarks_or_none(quick):
    """Tests are selected or left out by their fixture."""
    quick.makepyfile(TWO + "\n\ndef test_plain():\n    pass\n")
    only = quick.runpytest_subprocess("-q", "--headway-only")
    only.assert_outcomes(passed=2, deselected=1)
    skip = quick.runpytest_subprocess("-q", "--headway-skip")
    skip.assert_outcomes(passed=1, deselected=2)


def test_a_failure_shows_the_users_lines(quick):
    """The traceback has only the user's lines, for a failing function, a failed assertion and a senseless call."""
    quick.makepyfile(
        """
        def fail():
            raise ZeroDivisionError("users")

        def test_one(headway):
            headway(fail)

        async def later():
            raise ZeroDivisionError("users")

        def test_two(headway):
            headway(later)

        def test_three(headway):
            headway(7)
        """
    )
    result = quick.runpytest_subprocess("-q", "--tb=short")

    result.assert_outcomes(failed=3)
    frames = re.findall(r"^(\S+):\d+: in (\w+)", result.stdout.str(), re.MULTILINE)
    assert [function for file, function in frames if "asyncio" not in file] == [
        "test_one",
        "fail",
        "test_two",
        "later",
        "test_three",
    ]


def test_a_function_may_raise_what_ends_a_generator(beside_plugins):
    """StopIteration from a function is its own error, and from a user's generator it is Python's RuntimeError."""
    beside_plugins.makepyfile(
        """
        import pytest

        def generator():
            yield next(iter(()))

        def test_at_once(headway):
            with pytest.raises(StopIteration):
                headway(next, iter(()))

        def test_later(headway):
            with pytest.raises(StopIteration):
                headway(next, iter((1, 2)))

        async def test_awaited(headway):
            with pytest.raises(StopIteration):
                headway(next, iter((1, 2)))

        def test_users_generator(headway):
            with pytest.raises(RuntimeError):
                headway(list, generator())
        """
    )
    beside_plugins.runpytest_subprocess("-q", "-o", "asyncio_mode=auto").assert_outcomes(passed=4)


def test_coverage_is_told(quick):
    """Coverage is reported, because it makes times several times longer."""
    quick.makepyfile(TWO)
    (quick.path / "conftest.py").write_text(
        "import sys\n\ndef pytest_runtest_call():\n    sys.settrace(lambda *_: None)\n"
    )
    result = quick.runpytest_subprocess("-q")

    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["! conftest traced every line meanwhile, *"])


@pytest.mark.parametrize("options", [["-n", "2"], ["--headway-disable"], ["--collect-only"]])
def test_nothing_is_held_against_a_session_that_measures_nothing(quick, options):
    """No assertion fails because of a figure that was not measured."""
    quick.makepyfile(
        """
        def nothing():
            pass

        def test_figures(headway):
            one = headway.serial(nothing, 100)
            assert one.percentile_s(0.99) < 1 and one.per_call_s < 1 and one.throughput_per_s > 1
            assert one.percentile(0.99).below(1) and one.loop_lag_s < 1
            assert one.gil_wait_share < 0.5 and headway(nothing).faster_than(one)
        """
    )
    result = quick.runpytest_subprocess("-q", *options)
    assert result.ret == 0, result.stdout.str()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--headway-launches", "0"], "*--headway-launches 0: expected a whole number of at least 1*"),
        (["--headway-compare-fail", "5%"], "*--headway-compare-fail needs a comparison, and none is given; add *"),
        (["--headway-against", "HEAD", "--headway-compare-fail", "5"], "*'5' is not a limit*"),
        (["--headway-against", "HEAD", "--headway-compare", "x"], "*exclude each other*"),
        (["--headway-columns", "time,colour"], "*--headway-columns colour: expected one of model, time,*"),
        (["--headway-sort", "size"], "*--headway-sort size: expected one of time, name, given*"),
        (["--headway-unit", "h"], "*--headway-unit h: expected one of s, ms, us, ns*"),
        (
            ["--headway-json", "nowhere/x.json"],
            "*--headway-json nowhere/x.json: nowhere does not exist; create it first*",
        ),
    ],
)
def test_bad_options_are_refused_before_anything_runs(quick, options, message):
    """Bad options give pytest's own exit code for bad usage."""
    quick.makepyfile(TWO)
    result = quick.runpytest_subprocess("-q", *options)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_pyperf_and_pytest_benchmark_read_what_it_writes(quick):
    """Pyperf loads the suite, and pytest-benchmark compares two of our files."""
    quick.makepyfile(TWO)
    for place in (1, 2):
        options = [f"--headway-pyperf=p{place}.json", f"--headway-benchmark-json={place:04}_ours.json"]
        quick.runpytest_subprocess("-q", *options).assert_outcomes(passed=2)

    suite = pyperf.BenchmarkSuite.load(str(quick.path / "p1.json"))
    assert sorted(name.partition(": ")[2] for name in suite.get_benchmark_names()) == ["fast", "slow", "third"]
    command = [str(Path(sys.executable).with_name("pytest-benchmark")), "compare", "0001_ours.json", "0002_ours.json"]
    done = subprocess.run(command, cwd=quick.path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "slow (0001_ours)" in done.stdout


def test_the_store_has_the_run_and_the_report_shows_it(quick):
    """`headway report` and its page show the run like any other."""
    quick.makepyfile(TWO)
    result = quick.runpytest_subprocess("-q", "--headway-launches", "2")
    (run_id,) = re.findall(r"stored as (\S+):", tables(result))
    run = load_run(run_id, store=quick.path / "results.sqlite")

    assert run.header.complete
    (declared,) = run.experiments()
    assert [one.cell.setting for one in run.of(declared.name)] == ["slow", "fast", "third"]
    page = lab_page(run)
    assert [cell.setting for cell in page.experiments[0].cells] == ["slow", "fast", "third"]
    command = [sys.executable, "-m", "headway"]
    shown = subprocess.run([*command, "report", run_id], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "benchmarks of pytest, 2 launches of each" in shown
    assert "third" in shown
    # Its assertions are the tests' own: the report has no claims to speak of.
    assert "Verdicts on this machine: no claims" in shown
    assert not re.search("each claim|the verdicts above", shown)
    assert page.counts.summary == "no claims"
    assert not any("claim" in line for line in page.legend)
    compared = subprocess.run(
        [*command, "compare", run_id, run_id], capture_output=True, text=True, timeout=60, check=True
    )
    assert "! both sides are the same run" in compared.stdout
    # Two launches of microseconds may spread more than 10 %: their ratio of 1 is inconclusive then.
    verdicts = re.findall(r"(\d+) (?:inconclusive|no difference)", compared.stdout.splitlines()[0])
    assert sum(map(int, verdicts)) == 3
    resumed = subprocess.run(
        [*command, "lab", "--resume", run_id], capture_output=True, text=True, timeout=60, check=False
    )
    assert (resumed.returncode, "contains benchmarks of pytest" in resumed.stderr) == (2, True)


@pytest.mark.times
def test_the_gil_is_looked_at_where_that_is_wanted(quick):
    """Threads that compute wait for the GIL, and one thread alone does not."""
    quick.makepyfile(
        """
        import pytest

        def work():
            return sum(i * i for i in range(2_000))

        @pytest.mark.headway(trace=True, seconds=1)
        def test_gil(headway):
            alone = headway.serial(work, 200)
            four = headway.concurrent(work, tasks=4)
            assert alone.gil_wait_share < 0.3
            assert four.gil_wait_share > 0.2
            assert four.gil_hold_share < 0.6
            opened = headway.open(work, rate=100, seconds=0.2)
            assert 0 < float(opened.gil_hold_share) <= 1

            async def step():
                work()

            assert 0 < float(headway.open(step, rate=100, seconds=0.2).gil_hold_share) <= 1
        """
    )
    result = quick.runpytest_subprocess("-q")

    result.assert_outcomes(passed=1)
    assert "waited" in tables(result)
