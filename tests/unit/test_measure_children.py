"""The command of a launch: the session's own options, without those that concern the session alone."""

import argparse
import json
import subprocess
import sys
import types
from pathlib import Path

import pytest

from headway import pytest_options, pytest_plugin
from headway.errors import HeadwayError, UsageError
from headway.measure import children
from headway.measure.bench import Bench
from headway.measure.children import Launched, Launching
from headway.measure.journal import Journal
from headway.measure.measured import Measured


@pytest.mark.parametrize(
    ("arguments", "positional", "kept"),
    [
        ([], [], []),  # all options are from `addopts`
        (["tests", "-q"], ["tests"], ["-q"]),
        (["bench", "-k", "bench"], ["bench"], ["-k", "bench"]),
        ([".", "--rootdir", "."], ["."], ["--rootdir", "."]),
        (["t.py::test[a b]", "-p", "my_plugin", "-o", "x=1"], ["t.py::test[a b]"], ["-p", "my_plugin", "-o", "x=1"]),
        (["-n", "0", "-n4", "--dist", "load", "--dist=load", "-v"], [], ["-v"]),
        (["--cov", "--cov-fail-under", "80", "--cov=pkg", "-k", "foo"], [], ["-k", "foo"]),
        (["--cov", "pkg", "-q", "--cov"], [], ["-q"]),
        (["--junit-prefix", "x", "--junitxml=a.xml", "--durations", "5", "-s"], [], ["-s"]),
        (["-x", "--stepwise", "--lf", "--cache-clear", "--asyncio-mode=auto"], [], ["--asyncio-mode=auto"]),
        (["--basetemp", "tmp", "-q", "--basetemp=tmp"], [], ["-q"]),
        (
            ["--log-file", "a.log", "-q", "--log-file=a.log", "--log-file-level", "INFO"],
            [],
            ["-q", "--log-file-level", "INFO"],
        ),
        (["--alluredir", "report", "--clean-alluredir", "--pastebin", "all", "--pastebin=all", "-q"], [], ["-q"]),
        (["--durations-path", "times", "--store-durations", "--splits", "2", "-q"], [], ["--splits", "2", "-q"]),
        (["--headway-launches", "5", "--headway-trace", "-q", "--headway-json=a", "--headway-no-store"], [], ["-q"]),
    ],
)
def test_a_launch_has_the_sessions_options_and_not_its_files(arguments, positional, kept):
    """A launch has no options for the session's files, for when it stops, or for sharing its work."""
    assert children._options(arguments, positional) == kept


def test_arguments_from_files_are_those_of_the_session(tmp_path):
    """A launch has the options that a file of arguments gives, and neither the file nor the folders in it."""
    (tmp_path / "args.txt").write_text("tests\n-k\none or other\n@more.txt\n--junitxml=out.xml\n")
    (tmp_path / "more.txt").write_text("--asyncio-mode=auto\nmore tests\n")
    positional = ["tests", "more tests"]

    arguments = children.expanded(["-q", "@args.txt", "@missing"], positional, tmp_path)

    assert arguments == [
        "-q", "tests", "-k", "one or other", "--asyncio-mode=auto", "more tests", "--junitxml=out.xml", "@missing"
    ]  # fmt: skip
    assert children._options(arguments, positional) == ["-q", "-k", "one or other", "--asyncio-mode=auto", "@missing"]
    assert children.expanded(["@args.txt"], ["@args.txt"], tmp_path) == ["@args.txt"]


def test_no_option_without_a_value_takes_the_next_argument_with_it():
    """An argument after any option of ours that has no value reaches the launches."""
    flags = []

    def addoption(name, **how):
        if how.get("action") == "store_true":
            flags.append(name)

    group = types.SimpleNamespace(addoption=addoption)
    pytest_options.add_options(types.SimpleNamespace(getgroup=lambda *_: group))

    assert "--headway-stalls" in flags
    for flag in flags:
        assert children._options([flag, "-k", "one"], []) == ["-k", "one"]


def test_a_launch_has_options_by_which_other_plugins_let_it_measure(tmp_path):
    """A launch has the options that switch other plugins off, after the session's own."""
    how = Launching(
        arguments=["-q"],
        positional=[],
        folder=tmp_path,
        trace=False,
        besides=["-n", "0", "--no-cov"],
        reference=False,
        say=print,
    )
    assert how.command("test.py::test", tmp_path)[-3:] == ["-n", "0", "--no-cov"]


@pytest.mark.parametrize("caches", [True, False])
def test_a_launch_has_temporary_files_and_a_cache_of_its_own(tmp_path, caches):
    """Two processes would remove each other's files; `-p no:cacheprovider --strict-config` knows no `cache_dir`."""
    how = Launching(
        arguments=["--basetemp", "mine"],
        positional=[],
        folder=tmp_path,
        trace=False,
        besides=[],
        reference=False,
        say=print,
        beside=tmp_path,
        caches=caches,
    )
    with how.scratch("launches-") as scratch:
        command = how.command("test.py::test", Path(scratch))
        assert Path(scratch).parent == tmp_path

    assert [one for one in command if "basetemp" in one or one == "mine"] == [f"--basetemp={scratch}/tmp"]
    assert (f"cache_dir={scratch}/cache" in command) == caches


def test_launches_are_beside_the_users_temporary_files(tmp_path):
    """A user's `--basetemp` chooses the disk, so the launches' own are beside it; a folder that is missing is not made."""

    def beside(given):
        parameters = types.SimpleNamespace(dir=tmp_path)
        option = argparse.Namespace(basetemp=given)
        return pytest_options.Asked(types.SimpleNamespace(invocation_params=parameters, option=option)).beside

    assert beside(None) is beside("none/x") is None
    assert beside("x") == tmp_path
    assert beside(f"{tmp_path}/x") == tmp_path


def test_a_test_that_measures_nothing_is_launched_once(tmp_path, monkeypatch):
    """A skipped test ends well and measures nothing, each time; one that fails may measure the next time."""
    said, ran = [], []

    def run(command, _):
        test = next(one for one in command if one.startswith("/x/"))
        ran.append(test)
        return subprocess.CompletedProcess(command, 0 if test == "/x/a.py::skipped" else 1, "", "")

    monkeypatch.setattr(children, "_run", run)
    how = Launching(
        arguments=[], positional=[], folder=tmp_path, trace=False, besides=[], reference=False, say=said.append
    )
    found = {}
    children.launch_all(found, how, ["/x/a.py::skipped", "/x/a.py::failing"], 3)

    assert sorted(ran) == ["/x/a.py::failing"] * 3 + ["/x/a.py::skipped"]
    assert said[-1].startswith("launch 4 of 4: a.py::failing")
    assert found["/x/a.py::skipped"].failures == ["it measured nothing, and did not fail"]


def test_other_plugins_are_told_to_let_a_launch_measure():
    """Launches run without xdist and coverage, and with the seed of pytest-randomly, if these are there."""

    def besides(plugins, **options):
        manager = types.SimpleNamespace(hasplugin=lambda name: name in plugins)
        return pytest_options.Asked(
            types.SimpleNamespace(pluginmanager=manager, option=argparse.Namespace(**options))
        ).besides

    assert besides(()) == []
    assert besides(("logging",)) == ["--log-file=/dev/null"]
    assert besides(("xdist",)) == ["-n", "0"]
    assert besides(("pytest_cov",), randomly_seed=7) == ["--no-cov", "--randomly-seed=7"]


@pytest.mark.parametrize("name", ["json", "pyperf", "benchmark_json"])
def test_a_launch_asks_for_no_folder_of_the_sessions_files(tmp_path, name):
    """A launch has such an option from `addopts`, writes no file, and runs in a tree that may lack the folder."""

    def asked(**more):
        given = argparse.Namespace(**{f"headway_{name}": tmp_path / "none" / "out.json"}, rootdir=".", **more)
        return pytest_options.Asked(types.SimpleNamespace(option=given))

    asked(headway_launch_file=tmp_path / children.ANSWER).check()
    with pytest.raises(UsageError, match="none does not exist; create it first"):
        asked().check()


def test_a_launch_has_the_sessions_python_and_path(monkeypatch, tmp_path):
    """A launch has the session's Python flags, and the current folder on its path only if the session has it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["/elsewhere"])
    assert children._python()[0] == sys.executable
    assert children._python()[-1] == "-P"
    monkeypatch.setattr(sys, "path", ["", "/elsewhere"])
    assert "-P" not in children._python()


def test_the_reason_of_a_launchs_end_is_an_error_and_no_warning(tmp_path):
    """The reason is the last line about an error, and a warning of another plugin is none."""
    warning = "plugin.py:306: DeprecationWarning: unset\n  warnings.warn(DeprecationWarning(UNSET))\n"

    def reasons(said):
        return children.taken(tmp_path / "none", subprocess.CompletedProcess([], 3, "", said)).failures

    assert reasons(warning) == ["exit code 3"]
    assert reasons("Fatal Python error: Aborted\n" + warning) == ["exit code 3: Fatal Python error: Aborted"]


@pytest.mark.parametrize("progress", ["E   [100%]", "E                 [  5%]", "E [1/1]", "E       1.23s", "E"])
def test_the_reason_of_a_launchs_end_is_no_line_of_progress(tmp_path, progress):
    """An error in a set-up has an E in the progress under `-q`; the reason is the error itself."""
    said = f"{progress}\n==== ERRORS ====\n    def port():\nE       OSError: [Errno 98] Address already in use\n"

    assert launch(tmp_path, 1, said=said).failures == ["exit code 1: OSError: [Errno 98] Address already in use"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"test": [{"values_s": [1.0], "calls": 1, "latencies_s": [-1e-6]}]}, "-1e-06 is not a time"),
        ({"test": [{"values_s": [1.0], "calls": 1, "surprise": 1}]}, "surprise"),
        ([], "no results"),
    ],
)
def test_an_answer_that_makes_no_sense_is_a_failed_launch(tmp_path, answer, why):
    """A launch whose answer cannot be right has failed, and costs the session no other launch."""
    file = tmp_path / children.ANSWER
    file.write_text(json.dumps(answer))
    launched = children.taken(file, subprocess.CompletedProcess([], 0, "", ""))

    assert launched.measured == {}
    assert len(launched.failures) == 1
    assert why in launched.failures[0]


def launch(tmp_path, code, *names, said=""):
    """Return the results of a launch that ended with an exit code and measured benchmarks of these names."""
    file = tmp_path / children.ANSWER
    file.write_text(json.dumps({name: [{"values_s": [1.0], "calls": 1}] for name in names}))
    return children.taken(file, subprocess.CompletedProcess([], code, said, ""))


def launched_in(*launches):
    found = Launched()
    for one in launches:
        found.add(one)
    return found


def test_a_benchmark_that_launches_lack_is_told_with_its_reason(tmp_path):
    """A test that failed before a benchmark is told apart from one that did not call it; a failed launch counts once."""
    both = launch(tmp_path, 0, "first", "second")
    failed = launch(tmp_path, 1, "first", said="E       ValueError: broken\n")

    assert launched_in(both, both).missing == {}
    assert launched_in(both, failed, both).missing == {
        "second": "1 of 3 launches ended before it: exit code 1: ValueError: broken"
    }
    assert launched_in(both, launch(tmp_path, 0, "first")).missing == {
        "second": "1 of 2 launches had no benchmark of this name"
    }
    crashed = launched_in(both, launch(tmp_path, 3))
    assert (crashed.failures, crashed.missing) == (["exit code 3"], {})


def test_a_test_that_failed_in_every_launch_is_broken(tmp_path):
    """The reason is that of the first launch; a launch that passed, or measured nothing without failing, is none."""
    failed = launch(tmp_path, 1, said="E   ValueError: broken\n")

    assert launched_in(failed, launch(tmp_path, 7)).broken == "exit code 1: ValueError: broken"
    assert launched_in(Launched.failed("killed after 900 s"), failed).broken == "killed after 900 s"
    assert launched_in(failed, launch(tmp_path, 0, "first")).broken == ""
    assert launched_in(launch(tmp_path, 0)).broken == ""
    assert Launched().broken == ""


def test_a_benchmark_of_a_broken_test_is_an_error():
    """A benchmark that no launch measured fails its test if the test failed in every launch, and only then."""
    one = Measured(values_s=(1.0,), calls=1)
    journal = Journal(test="test", launches={"test": (one,)}, broken="exit code 1: ValueError: broken")
    bench = Bench(journal)

    assert bench(int).measured
    with pytest.raises(
        HeadwayError, match=r"test \(2\) is not measured, .*; in the first one: exit code 1: ValueError"
    ):
        bench(int)
    assert list(journal.entries) == ["test", "test (2)"]
    assert not Bench(Journal(test="test", launches={}))(int).measured


@pytest.mark.parametrize(("trees", "of"), [(1, ""), (2, " of each tree")])
def test_a_session_tells_how_long_its_launches_take(tmp_path, monkeypatch, trees, of):
    """The first line is by the options, and after each test's first launch the time left is by the launches so far."""
    said = []
    how = Launching(
        arguments=[],
        positional=[],
        folder=tmp_path,
        trace=False,
        besides=[],
        reference=True,
        say=said.append,
        least_s=40.0 / trees,
    )
    clock = iter([0.0, 20.0, 30.0])
    monkeypatch.setattr(children, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
    progress = children.Progress(how, 2, 2, trees=trees)
    for test in ("/x/a.py::one", "/x/a.py::two[GET /users]", "/x/a.py::two[GET /users]", "/x/a.py::one"):
        progress.launch(test)
    assert said == [
        f"4 launches{of} in fresh processes (2 of each test) take 80 s or more",
        f"launch 1 of 4{of}: a.py::one",
        f"launch 2 of 4{of}: a.py::two[GET /users]",
        f"launch 3 of 4{of}: a.py::two[GET /users]; about 20 s left",
        f"launch 4 of 4{of}: a.py::one; about 10 s left",
    ]
    assert children._about(240) == "4 min"


def test_the_time_of_a_launch_is_that_of_the_options():
    """Benchmarks with a number of rounds, and options that are wrong, have no time; the reference takes as long."""
    session = types.SimpleNamespace(option=lambda _: None, with_reference=False)

    def item(**options):
        return types.SimpleNamespace(iter_markers=lambda _: [pytest.mark.headway(**options).mark])

    found = [pytest_plugin._least_s(session, item(**one)) for one in ({}, {"seconds": 3}, {"rounds": 5}, {"no": 1})]
    assert found == [0.5, 3, 0.0, 0.0]
    session.with_reference = True
    assert pytest_plugin._least_s(session, item()) == 1.0


def test_a_launch_is_without_coverage(monkeypatch, tmp_path):
    """Coverage traces each process that a traced one starts, by variables of its environment, and slows it down."""
    for name in ("COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START", "COV_CORE_SOURCE", "COVERAGE_FILE", "OWN"):
        monkeypatch.setenv(name, "given")
    done = children._run([sys.executable, "-c", "import os; print(*os.environ)"], tmp_path)

    names = set(done.stdout.split())
    assert {"COVERAGE_FILE", "OWN"} <= names
    assert not [one for one in names if one.startswith(("COVERAGE_PROCESS", "COV_CORE"))]
