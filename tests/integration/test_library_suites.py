"""The tool that runs libraries' test suites bare, traced and scheduled detects when Headway changes an outcome."""

import sys
import textwrap

import library_suites
import pytest
from compared_tests import FLAKY, PROCESS, SOMETIMES_WORSE, WORSE, Outcome
from library_suites import BARE, ONCE, Job, Suite
from other_plugins import OTHER_PLUGINS

from headway.lab import discover, select

pytestmark = pytest.mark.slow

REPEATS = 1
PASSED, FAILED = Outcome("passed"), Outcome("failed")
# True if Headway's library is in this very process.
HERE = "HERE = 'libheadway' in open('/proc/self/maps').read()"


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """Return a function that makes a job of a suite with the given source, run by the current Python."""
    # No other plugin: importing them is most of the time of such a short suite.
    options = [f"-pno:{name}" for name in ("headway", "xdist", "xdist.looponfail", *OTHER_PLUGINS)]
    monkeypatch.setitem(library_suites.SUITES, "made-up", Suite("tests", tuple(options), from_source=True))

    def make(source: str, timeout_s: float = 60) -> Job:
        (tmp_path / "tests").mkdir()
        (tmp_path / "tests" / "test_cases.py").write_text(f"import os, pytest\n{HERE}\n{textwrap.dedent(source)}")
        (interpreter,) = select(discover()[0], [f"{sys.version_info[0]}.{sys.version_info[1]}"])
        return Job(interpreter, "made-up", sys.executable, tmp_path, "1.0", timeout_s, REPEATS, None)

    return make


def results(done):
    """Return the outcomes of a run, by the last part of the case's name."""
    return {case.rpartition("::")[2]: outcome.result for case, outcome in done.outcomes.items()}


def test_outcomes_are_told_case_by_case(made_up):
    """Passes, failures, skips, expected failures and errors of fixtures are told apart."""
    job = made_up(
        """
        @pytest.fixture
        def broken(): raise OSError("on purpose")
        @pytest.fixture
        def breaks_afterwards():
            yield
            raise OSError("on purpose")
        def test_passes(): pass
        def test_fails(): assert 0, "on purpose"
        def test_is_skipped(): pytest.skip("on purpose")
        @pytest.mark.xfail
        def test_fails_as_expected(): assert 0
        @pytest.mark.xfail(strict=True)
        def test_passes_unexpectedly(): pass
        def test_has_no_fixture(broken): pass
        def test_ends_badly(breaks_afterwards): pass
        """
    )

    done, is_there = library_suites.run(job, BARE, BARE)

    assert results(done) == {
        "test_passes": "passed",
        "test_fails": "failed",
        "test_is_skipped": "skipped",
        "test_fails_as_expected": "passed",
        "test_passes_unexpectedly": "failed",
        "test_has_no_fixture": "failed",
        "test_ends_badly": "failed",
        PROCESS: "passed",
    }
    assert not is_there


def test_a_crash_is_told_and_keeps_the_outcomes_before_it(made_up):
    """A case that kills the process did not end, and the cases before it keep their outcomes."""
    job = made_up("def test_a(): pass\ndef test_b(): os.kill(os.getpid(), 9)\ndef test_c(): pass")

    done, _ = library_suites.run(job, BARE, BARE)

    assert results(done) == {"test_a": "passed", "test_b": "did not end", PROCESS: "failed"}
    assert done.outcomes[PROCESS].reason == "killed by SIGKILL"


def test_a_file_that_cannot_be_imported_is_a_failure(made_up):
    """A file that cannot be collected has an outcome, and a reason."""
    job = made_up("import nothing_of_that_name")

    done, _ = library_suites.run(job, BARE, BARE)

    (outcome,) = (one for case, one in done.outcomes.items() if case.endswith("test_cases.py"))
    assert outcome.result == "failed"
    assert "nothing_of_that_name" in outcome.reason


def test_cases_that_fail_only_with_headway_are_found(made_up):
    """A case that fails with Headway is worse both ways, after as many repeats as were asked for."""
    job = made_up("def test_is_indifferent(): pass\ndef test_wants_none_of_us(): assert not HERE")

    report = library_suites.compare(job)

    assert report.errors == []
    for way in ("traced", "fair"):
        (found,) = report.worse(way)
        assert found.case.endswith("::test_wants_none_of_us")
        assert found.verdict == WORSE
        assert (len(found.plain), len(found.traced)) == (1 + REPEATS, 1 + REPEATS)
    assert report.is_bad
    assert "only with Headway: tests/test_cases.py::test_wants_none_of_us" in library_suites.table([report])


def test_cases_that_end_alike_are_no_difference(made_up):
    """Cases that pass, or fail, each way are not run again, and nothing is bad about them."""
    job = made_up("def test_passes(): pass\ndef test_fails(): assert 0")

    report = library_suites.compare(job)

    assert report.differences == {"traced": [], "fair": []}
    assert not report.is_bad
    assert "fails bare: tests/test_cases.py::test_fails" in library_suites.table([report])


def test_a_way_without_headway_in_it_is_an_error(made_up, monkeypatch):
    """Good outcomes prove nothing if Headway was not in the process, so that is an error."""
    monkeypatch.setattr(library_suites, "WAYS", {"fair": ()})
    job = made_up("def test_passes(): pass")

    report = library_suites.compare(job)

    assert report.errors == ["fair: Headway was not in the process"]
    assert report.is_bad


@pytest.mark.parametrize(
    ("bare", "other", "expected"),
    [
        ([PASSED] * 3, [FAILED] * 3, WORSE),
        ([PASSED] * 3, [FAILED, PASSED, FAILED], SOMETIMES_WORSE),
        ([PASSED] * 3, [FAILED, PASSED, PASSED], ONCE),
        ([PASSED, FAILED, PASSED], [FAILED] * 3, FLAKY),
    ],
)
def test_a_difference_counts_only_where_it_is_seen_again(bare, other, expected):
    """A difference that was seen once, or bare as well, does not count."""
    assert library_suites.judged(bare, other) == expected


def test_all_suites_are_pinned_with_hashes():
    """The lock has each library's version, and the hash of each file."""
    for name in library_suites.SUITES:
        assert library_suites.version_of(name)
        assert "--hash=sha256:" in library_suites.pinned(name)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--repeats", "0"], "--repeats is 0, expected 1 at least"),
        (["--timeout", "0"], "--timeout is 0.0, expected more than 0 s"),
        (["--suite", "flask"], "invalid choice: 'flask'"),
    ],
)
def test_wrong_options_are_named(arguments, said, capsys):
    """A wrong value is reported with what was expected, and status 2."""
    with pytest.raises(SystemExit) as ended:
        library_suites.main(arguments)

    assert ended.value.code == 2
    assert said in capsys.readouterr().err
