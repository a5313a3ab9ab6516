"""Real pytest runs that compare with stored sessions, and with another revision of their own code."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from drawn_tables import headings
from plugin_suites import LOST, STOPS, TWO, tables

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_sessions_are_stored_and_compared(quick):
    """A session is stored by name in the suite's folder, and a ratio compares the times relative to the reference."""
    # One test of two benchmarks, because each test has six processes of its own by default.
    quick.makepyfile(TWO.partition("@pytest.mark.headway(rounds=3, calls=3, name=")[0])
    once = ("-q", "--headway-launches", "1")
    quick.runpytest_subprocess("-q", "--headway-save", "first").assert_outcomes(passed=1)
    quick.runpytest_subprocess(*once, "--headway-add", "first").assert_outcomes(passed=1)
    kept = quick.path / ".headway" / "first.json"
    sessions = json.loads(kept.read_text())["sessions"]
    launches = [[len(one["launches"]) for group in each["groups"].values() for one in group] for each in sessions]
    assert launches == [[6, 6], [1, 1]]
    assert kept.stat().st_size < 40_000
    again = quick.runpytest_subprocess(*once, "--headway-compare", "first", "--headway-json", "out.json")

    again.assert_outcomes(passed=1)
    assert "ratio to first" in headings(tables(again))
    (results,) = json.loads((quick.path / "out.json").read_text())["groups"].values()
    assert {one["ratio_to_before"]["to"] for one in results} == {"first"}
    old = json.loads((quick.path / "out.json").read_text())
    (quick.path / ".headway" / "old.json").write_text(json.dumps(old))
    quick.runpytest_subprocess(*once, "--headway-add", "old").assert_outcomes(passed=1)
    assert len(json.loads((quick.path / ".headway" / "old.json").read_text())["sessions"]) == 2
    missing = quick.runpytest_subprocess("-q", "--headway-compare", "second")
    assert missing.ret == pytest.ExitCode.USAGE_ERROR
    missing.stderr.fnmatch_lines(
        ["*--headway-compare second: nothing is stored under that name in *.headway; stored names are first*"]
    )


def test_a_regression_fails_the_session(quick):
    """A benchmark that takes ten times as long fails the session, and so does a session without any comparison.

    Neither is stored among the sessions that it was compared with: the next session would pass.
    """
    quick.makepyfile(TWO.replace("rounds=3", "rounds=12"))
    quick.runpytest_subprocess("-q", "--headway-launches", "1", "--headway-save", "base").assert_outcomes(passed=2)
    base = quick.path / ".headway" / "base.json"
    stored, refused = base.read_bytes(), "the session failed the comparison with base, so nothing is stored there; *"
    quick.makepyfile(TWO.replace("rounds=3", "rounds=12").replace("range(500)", "range(20_000)"))
    compared = ("-q", "--headway-launches", "1", "--headway-compare", "base", "--headway-compare-fail", "50%")
    slower = quick.runpytest_subprocess(*compared, "--headway-save", "base", "--headway-json", "out.json")

    assert slower.ret == pytest.ExitCode.TESTS_FAILED
    slower.assert_outcomes(passed=2)
    slower.stdout.re_match_lines([r".*: fast takes [\d.]+ \[.*\] of base's time; the limit is 1.5"])
    slower.stdout.fnmatch_lines([f"--headway-save: {refused}"])
    assert (base.read_bytes() == stored, (quick.path / "out.json").exists()) == (True, True)
    other = quick.runpytest_subprocess(*compared, "--headway-save", "other")
    assert (other.ret, (base.parent / "other.json").is_file()) == (pytest.ExitCode.TESTS_FAILED, True)
    quick.makepyfile(TWO.replace('name="', 'name="other ').replace('"third"', '"fourth"'))
    nothing = quick.runpytest_subprocess(*compared, "--headway-add", "base")
    assert nothing.ret == pytest.ExitCode.TESTS_FAILED
    nothing.stdout.fnmatch_lines(["--headway-compare-fail: nothing could be compared with base"])
    nothing.stdout.fnmatch_lines([f"--headway-add: {refused}"])
    assert base.read_bytes() == stored


SHARED = """
import pytest

@pytest.mark.headway(rounds=8, calls=3, name="add up")
@pytest.mark.parametrize("count", [10, 100_000])
def test_sizes(headway, count):
    headway(sum, range(count))
"""


def test_benchmarks_that_share_a_name_are_compared_by_test(quick):
    """A benchmark that shares its name with another test's is compared with itself, also if it runs alone."""
    quick.makepyfile(SHARED)
    quick.runpytest_subprocess("-q", "--headway-launches", "1", "--headway-save", "base").assert_outcomes(passed=2)
    # Times of another machine, by a factor that no busy machine reaches: the short one's are shorter, the long one's longer.
    factors = {"add up": 1e-6, "add up (2)": 1e6}
    kept = quick.path / ".headway" / "base.json"
    stored = json.loads(kept.read_text())
    (results,) = stored["sessions"][0]["groups"].values()
    for one in results:
        (launch,) = one["launches"]
        launch["values_s"] = [factors[one["label"]] * value_s for value_s in launch["values_s"]]
    kept.write_text(json.dumps(stored))
    for selection, names in (("", ["add up", "add up (2)"]), ("100000", ["add up (2)"])):
        count = len(names)
        quick.runpytest_subprocess(
            "-q", "-k", selection, "--headway-launches", "1", "--headway-compare", "base", "--headway-json", "out.json"
        ).assert_outcomes(passed=count, deselected=2 - count)
        (results,) = json.loads((quick.path / "out.json").read_text())["groups"].values()
        longer = [one["ratio_to_before"]["value"] > 1 for one in results]
        assert longer == [factors[name] < 1 for name in names]


def test_a_stopped_session_stores_nothing(quick):
    """A session that reached only a part of its benchmarks leaves the stored one as it was, and says so."""
    once = ("-q", "-x", "--headway-launches", "1")
    quick.makepyfile(STOPS.replace("STOP", "pass"))
    quick.runpytest_subprocess(*once, "--headway-save", "base").assert_outcomes(passed=2)
    kept = quick.path / ".headway" / "base.json"
    before = kept.read_bytes()
    for stop in ("assert not 1", "raise KeyboardInterrupt", "pytest.exit('enough', 0)"):
        quick.makepyfile(STOPS.replace("STOP", stop))
        for option in ("save", "add"):
            stopped = quick.runpytest_subprocess(*once, f"--headway-{option}", "base")

            assert kept.read_bytes() == before
            stopped.stdout.fnmatch_lines([f"--headway-{option}: the tests were stopped early, so nothing is stored; *"])


def test_benchmarks_that_only_the_stored_session_has_are_told(quick):
    """A test that was renamed is named at the end, but not one that this session leaves out, or of another file."""
    once = ("-q", "--headway-launches", "1")
    # One launch of some microseconds may take ten times as long on a busy machine: no such ratio fails here.
    compare = (*once, "--headway-compare", "base", "--headway-compare-fail", "1000000%", "test_lost.py")
    quick.makepyfile(test_lost=LOST, test_file_that_is_left_out=STOPS.replace("STOP", "pass"))
    quick.runpytest_subprocess(*once, "--headway-save", "base").assert_outcomes(passed=8)
    quick.makepyfile(test_lost=LOST.replace("test_other", "test_renamed").replace("test_kept", "test_new"))
    told = quick.runpytest_subprocess(*compare)
    assert told.ret == pytest.ExitCode.OK
    names = ("test_kept: first", "test_other: second")
    line = f"! in base, and not in this session: {', '.join(f'test_lost.py::{one}' for one in names)}"
    assert line in told.outlines
    for left_out in (("-k", "many"), ("test_lost.py::test_new",), ("--lf",)):
        assert "not in this session" not in quick.runpytest_subprocess(*compare, *left_out).stdout.str()
    quick.makepyfile(test_lost="def test_plain():\n    assert True\n")
    plain = quick.runpytest_subprocess(*compare, "--headway-only")
    names = ("test_kept: first", *(f"test_many[{place}]" for place in range(4)))
    line = (
        f"Headway: ! in base, and not in this session: {', '.join(f'test_lost.py::{one}' for one in names)} and 1 more"
    )
    assert line in plain.outlines


RUNS_AGAIN = """
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    # As pytest-rerunfailures does.
    runtestprotocol(item, nextitem=nextitem, log=False)
    item._initrequest()
"""


def test_a_test_that_runs_again_replaces_its_result(quick):
    """A session in which a test ran twice stores it once, under its own name, and shows it once."""
    quick.makeconftest(RUNS_AGAIN)
    quick.makepyfile(STOPS.replace("STOP", "pass"))
    result = quick.runpytest_subprocess("-q", "--headway-launches", "1", "--headway-save", "base")

    result.assert_outcomes(passed=2)
    result.stdout.no_fnmatch_line("*not stored*")
    (session,) = json.loads((quick.path / ".headway" / "base.json").read_text())["sessions"]
    assert [one["label"] for group in session["groups"].values() for one in group] == ["first", "second"]


PACKAGE = """
def work():
    return sum(range(SIZE))
"""
USES = """
from package.inner import work

def test_work(headway):
    result = headway.options(rounds=8, calls=20)(work)
    assert result.returned is not None
"""


def git(folder, *arguments):
    subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", *arguments],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip


@pytest.fixture
def repository(quick):
    """Return a repository with a package under src, and an uncommitted benchmark of it."""
    folder = quick.path / "src" / "package"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    # A difference of a thousand times: on a busy machine a launch takes up to ten times as long as its neighbours.
    (folder / "inner.py").write_text(PACKAGE.replace("SIZE", "1"))
    (quick.path / "pytest.ini").write_text("[pytest]\npythonpath = src\n")
    git(quick.path, "init", "--quiet")
    git(quick.path, "add", ".")
    git(quick.path, "commit", "--quiet", "-m", "quick")
    (folder / "inner.py").write_text(PACKAGE.replace("SIZE", "10_000"))
    (quick.path / "tests").mkdir()
    (quick.path / "tests" / "test_work.py").write_text(USES)
    return quick


def test_another_revision_takes_turns_with_this_tree(repository, monkeypatch):
    """The other revision's package runs with this tree's tests, and the worktree is gone afterwards."""
    # The launches inherit this variable.
    monkeypatch.setenv("PYTEST_ADDOPTS", f"{os.environ['PYTEST_ADDOPTS']} --headway-compare-fail 0%")
    command = ["-q", "--headway-against", "HEAD", "--headway-launches", "3", "--headway-json", "out.json"]
    result = repository.runpytest_subprocess(*command)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1)
    assert "ratio to HEAD" in headings(tables(result))
    result.stdout.fnmatch_lines(["*test_work.py: test_work takes * of HEAD's time; the limit is 1"])
    (results,) = json.loads((repository.path / "out.json").read_text())["groups"].values()
    # Ten thousand numbers are added up, instead of one.
    assert results[0]["ratio_to_before"]["value"] > 2
    assert [len(launch["values_s"]) for launch in results[0]["launches"]] == [8, 8, 8]
    listed = subprocess.run(
        ["git", "worktree", "list"], cwd=repository.path, check=True, capture_output=True, text=True
    ).stdout
    assert len(listed.splitlines()) == 1


NAMED = """
import pytest
from package.inner import work

@pytest.mark.headway(rounds=8, calls=20, name="work")
@pytest.mark.parametrize("place", [1, 2])
def test_work(headway, place):
    headway(work)
"""


def test_benchmarks_that_share_a_name_are_compared_with_another_revision(repository):
    """Each of two benchmarks that share a name has a ratio to the other revision."""
    (repository.path / "tests" / "test_work.py").write_text(NAMED)
    repository.runpytest_subprocess(
        "-q", "--headway-against", "HEAD", "--headway-launches", "1", "--headway-json", "out.json"
    ).assert_outcomes(passed=2)
    (results,) = json.loads((repository.path / "out.json").read_text())["groups"].values()
    assert [one["label"] for one in results] == ["work", "work (2)"]
    assert all(one["ratio_to_before"]["value"] > 2 for one in results)


COMPARED = """
from package.inner import work

def test_two(headway):
    one, other = headway.options(rounds=8, calls=20)(work), headway.options(rounds=8, calls=20)(lambda: (work(), work(), work()))
    assert one.ratio_to(other) is not None

def test_alternatives(headway):
    found = headway.options(rounds=8, calls=20).compare({"one": work, "three": lambda: (work(), work(), work())})
    assert found.ratio("one", "three") is not None
"""


def test_results_of_a_test_are_compared_as_without_another_revision(repository):
    """Alternatives take turns within each tree, and each of them with the other tree; both ratios are shown."""
    (repository.path / "tests" / "test_work.py").write_text(COMPARED)
    result = repository.runpytest_subprocess(
        "-q", "--headway-against", "HEAD", "--headway-launches", "2", "--headway-json", "out.json"
    )

    result.assert_outcomes(passed=2)
    groups = json.loads((repository.path / "out.json").read_text())["groups"]
    ratios = [one["ratio_to_before"]["value"] for group in groups.values() for one in group]
    assert len(ratios) == 6
    assert min(ratios) > 2
    assert not any("not measured" in line for line in result.outlines)


def test_helpers_of_the_tests_are_this_trees(repository):
    """A helper module beside the tests that changed, or is new, is the same in both processes."""
    tests = repository.path / "tests"
    (tests / "helper.py").write_text("SIZE = 1\n")
    git(repository.path, "add", ".")
    git(repository.path, "commit", "--quiet", "-m", "helper")
    (tests / "helper.py").write_text("from newer import SIZE\n")
    (tests / "newer.py").write_text("SIZE = 10_000\n")
    uses = USES.replace("(work)", "(sum, range(helper.SIZE))").replace(
        "from package.inner import work", "import helper"
    )
    note = f"import os\nprint(os.getcwd(), helper.SIZE, file=open({str(repository.path / 'seen')!r}, 'a'))\n"
    (tests / "test_work.py").write_text(uses.replace("import helper\n", f"import helper\n{note}"))
    result = repository.runpytest_subprocess(
        "-q", "--headway-against", "HEAD", "--headway-launches", "1", "--headway-json", "out.json"
    )
    result.assert_outcomes(passed=1)
    (results,) = json.loads((repository.path / "out.json").read_text())["groups"].values()
    assert results[0]["ratio_to_before"]["to"] == "HEAD"
    seen = [line.rpartition(" ") for line in (repository.path / "seen").read_text().splitlines()]
    assert {size for _, _, size in seen} == {"10000"}
    # The session and a launch are of this tree.
    assert sorted(folder == str(repository.path) for folder, _, _ in seen) == [False, True, True]


def test_a_session_may_start_in_a_folder_that_the_revision_lacks(repository):
    """A session in a folder that is new in this tree is compared as in any other."""
    new = repository.path / "tests" / "new"
    new.mkdir()
    command = [sys.executable, "-m", "pytest", "-q", "..", "--headway-against", "HEAD", "--headway-launches", "1"]
    done = subprocess.run(command, cwd=new, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, "ratio to HEAD" in headings(done.stdout)) == (0, True), done.stdout


def test_names_from_elsewhere_are_those_of_the_session(repository):
    """A file of arguments, which the revision lacks, and `addopts` name folders for the session and not for a launch."""
    (repository.path / "args.txt").write_text("tests\nmore\n--headway-launches\n1\n")
    (repository.path / "pytest.ini").write_text("[pytest]\npythonpath = src\naddopts = tests\n")
    uses = (repository.path / "tests" / "test_work.py").read_text()
    (repository.path / "more").mkdir()
    (repository.path / "more" / "test_more.py").write_text(uses.replace("rounds=8", "rounds=9"))
    result = repository.runpytest_subprocess(
        "-q", "@args.txt", "--headway-against", "HEAD", "--headway-json", "out.json"
    )

    result.assert_outcomes(passed=2)
    groups = json.loads((repository.path / "out.json").read_text())["groups"]
    rounds = {name: [len(launch["values_s"]) for launch in one["launches"]] for name, (one,) in groups.items()}
    assert rounds == {"tests/test_work.py": [8], "more/test_more.py": [9]}
    assert all(one["ratio_to_before"]["value"] > 2 for (one,) in groups.values())


def test_stored_sessions_have_each_tests_own_results(repository):
    """Sessions that are stored and compared measure each test alone, too."""
    (repository.path / "pytest.ini").write_text("[pytest]\npythonpath = src\naddopts = tests\n")
    uses = (repository.path / "tests" / "test_work.py").read_text()
    (repository.path / "tests" / "test_more.py").write_text(uses.replace("rounds=8", "rounds=9"))
    first = ("-q", "--headway-launches", "1", "--headway-save", "first")
    repository.runpytest_subprocess(*first).assert_outcomes(passed=2)
    again = ("--headway-compare", "first", "--headway-save", "second", "--headway-json", "out.json")
    repository.runpytest_subprocess("-q", "--headway-launches", "2", *again).assert_outcomes(passed=2)

    compared = json.loads((repository.path / "out.json").read_text())["groups"]
    (stored,) = json.loads((repository.path / ".headway" / "second.json").read_text())["sessions"]
    for groups in (compared, stored["groups"]):
        rounds = {name: [len(launch["values_s"]) for launch in one["launches"]] for name, (one,) in groups.items()}
        assert rounds == {"tests/test_work.py": [8, 8], "tests/test_more.py": [9, 9]}
    assert {one["ratio_to_before"]["to"] for (one,) in compared.values()} == {"first"}


def test_a_revision_that_lacks_what_is_measured_is_told(repository):
    """A revision that lacks the measured module is reported, and nothing is claimed."""
    inner = repository.path / "src" / "package" / "newer.py"
    inner.write_text(PACKAGE.replace("SIZE", "10"))
    (repository.path / "tests" / "test_work.py").write_text(USES.replace("package.inner", "package.newer"))
    result = repository.runpytest_subprocess("-q", "--headway-against", "HEAD", "--headway-launches", "1")

    result.assert_outcomes(passed=1)
    assert "ratio to HEAD" not in headings(tables(result))
    result.stdout.re_match_lines([r"! test_work: in HEAD: .*No module named 'package.newer'.*"])


def test_a_revision_that_lacks_what_is_measured_is_launched_once(repository):
    """A test that cannot be imported in the revision is launched there once, and here as often as was asked for."""
    (repository.path / "src" / "package" / "newer.py").write_text(PACKAGE.replace("SIZE", "10"))
    note = f"import os\nprint(os.getcwd(), file=open({str(repository.path / 'launched')!r}, 'a'))\n"
    uses = USES.replace("package.inner", "package.newer")
    (repository.path / "tests" / "test_work.py").write_text(note + uses)
    (repository.path / "tests" / "test_both.py").write_text(USES)
    result = repository.runpytest_subprocess(
        "-q", "--headway-against", "HEAD", "--headway-launches", "2", "--headway-json", "out.json"
    )

    result.assert_outcomes(passed=2)
    folders = (repository.path / "launched").read_text().splitlines()
    assert (len(folders), folders.count(str(repository.path))) == (1 + 2 + 1, 1 + 2)
    told = [line for line in result.outlines if "no more launches of it in the other tree: exit code " in line]
    assert len(told) == 1
    groups = json.loads((repository.path / "out.json").read_text())["groups"]
    assert [len(one["launches"]) for (one,) in groups.values()] == [2, 2]
    assert not any("ended before" in line for line in result.outlines)
    compared = {name for name, (one,) in groups.items() if one.get("ratio_to_before") is not None}
    assert compared == {"tests/test_both.py"}


def test_a_session_that_measures_nothing_fails_the_comparison(repository):
    """A session whose benchmarks are not measured, because of xdist or because each launch fails, compares nothing."""
    command = ["-q", "--headway-against", "HEAD", "--headway-compare-fail", "5%", "--headway-launches", "1"]
    spread = repository.runpytest_subprocess(*command, "-n", "1")
    assert spread.ret == pytest.ExitCode.TESTS_FAILED
    spread.stdout.fnmatch_lines(["*--headway-compare-fail: nothing could be compared with HEAD"])

    # The functions of a launch end their process.
    inner = repository.path / "src" / "package" / "inner.py"
    inner.write_text("import os, sys\n\ndef work():\n    if '--headway-launch-file' in str(sys.argv): os._exit(3)\n")
    crashed = repository.runpytest_subprocess(*command)
    assert crashed.ret == pytest.ExitCode.TESTS_FAILED
    crashed.stdout.fnmatch_lines(["! test_work: exit code 3*", "*nothing could be compared with HEAD"])


@pytest.mark.parametrize("late", [False, True])
def test_an_installed_copy_is_not_compared_with_itself(repository, late):
    """A test that imports an installed copy of the repository's package is refused, since both trees would run it."""
    (repository.path / "site-packages").mkdir()
    (repository.path / "src" / "package").rename(repository.path / "site-packages" / "package")
    git(repository.path, "checkout", "--quiet", "src")
    (repository.path / "pytest.ini").write_text("[pytest]\npythonpath = site-packages\n")
    if late:
        uses = "def work():\n    from package.inner import work\n    return work()\n"
        test = repository.path / "tests" / "test_work.py"
        test.write_text(USES.replace("from package.inner import work\n", uses))
    result = repository.runpytest_subprocess(
        "-q", "--headway-against", "HEAD", "--headway-compare-fail", "5%", "--headway-launches", "1"
    )
    said = "*package is imported from *site-packages/package, and not from *src/package, so both trees run that copy*"
    assert result.ret == (pytest.ExitCode.TESTS_FAILED if late else pytest.ExitCode.USAGE_ERROR)
    (result.stdout if late else result.stderr).fnmatch_lines([said])


def test_code_of_this_tree_is_not_taken_for_the_revisions(repository):
    """A process of the other revision in which this tree's package was imported has measured nothing."""
    # As an import hook of an editable installation does that comes before the import path.
    source = repository.path / "src"
    (repository.path / "conftest.py").write_text(f"import sys\nsys.path.insert(0, {str(source)!r})\n")
    (repository.path / "pytest.ini").write_text("[pytest]\n")
    git(repository.path, "add", "pytest.ini")
    git(repository.path, "commit", "--quiet", "-m", "no path")
    result = repository.runpytest_subprocess(
        "-q", "--headway-against", "HEAD", "--headway-compare-fail", "5%", "--headway-launches", "1"
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [f"! test_work: in HEAD: *package is this tree's own there, too: {source}/package/__init__.py*"]
    )


@pytest.mark.parametrize("revision", ["nonsense", "--all"])
def test_what_is_no_revision_is_refused(repository, revision):
    """The error says that there is no such revision, with pytest's exit code for bad usage."""
    result = repository.runpytest_subprocess("-q", f"--headway-against={revision}")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--headway-against {revision}: '{revision}' is not a revision of the repository *"])
    assert "git rev-parse" not in result.stderr.str()


def is_there(pid):
    """Tell whether a process runs; one that has ended, and that nobody has waited for, does not."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


WAITS = """
import os, pathlib, subprocess, sys, time

def test_long(headway):
    worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    pathlib.Path(__file__).parents[1].joinpath("began").write_text(f"{os.getpid()} {worker.pid} ")
    time.sleep(600)
"""


@pytest.mark.parametrize(
    "options", [("--headway-against", "HEAD"), ("--headway-launches", "2")], ids=["against", "here"]
)
def test_a_session_that_is_ended_leaves_nothing_behind(repository, options):
    """SIGTERM ends the session by that signal, and its launches, the worktree and all folders are gone."""
    (repository.path / "tests" / "test_work.py").write_text(WAITS)
    (repository.path / "tmp").mkdir()
    command = [sys.executable, "-m", "pytest", "-q", *options]
    environment = {**os.environ, "TMPDIR": str(repository.path / "tmp")}
    began = repository.path / "began"
    with subprocess.Popen(command, cwd=repository.path, env=environment, stdout=subprocess.DEVNULL) as session:
        while not (began.exists() and began.read_text().endswith(" ")):
            assert session.poll() is None
            time.sleep(0.05)
        session.terminate()

    assert session.returncode == -signal.SIGTERM
    listed = subprocess.run(
        ["git", "worktree", "list"], cwd=repository.path, check=True, capture_output=True, text=True
    )
    assert len(listed.stdout.splitlines()) == 1
    assert list((repository.path / "tmp").iterdir()) == []
    for pid in map(int, began.read_text().split()):
        while is_there(pid):  # the worker's parent is the system now, which learns of its end a little later
            time.sleep(0.05)
