"""CPython's own tests pass under tracing as without it, and the tool that checks this detects when they do not."""

import dataclasses
import textwrap
import zipfile
from pathlib import Path

import cpython_tests
import pytest
from compared_tests import BETTER, FLAKY, PROCESS, SOMETIMES_WORSE, WORSE, Outcome
from cpython_tests import SHORT, VERSIONS, Job
from waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

PASSED, SKIPPED, FAILED = Outcome("passed"), Outcome("skipped"), Outcome("failed")


@pytest.mark.matrix("version")
@pytest.mark.parametrize("version", VERSIONS)
def test_cpythons_own_short_tests_end_under_tracing_as_without_it(version, tmp_path):
    """Every case of CPython's short thread tests has the same outcome traced as plain."""
    (interpreter,) = cpython_tests.interpreters_for([version])
    jobs = list(cpython_tests.jobs_for(interpreter, SHORT, timeout_s=120, logs=tmp_path))

    reports = cpython_tests.compare_all(jobs, at_once=2)

    assert len(reports) >= 6
    assert not any(report.is_bad for report in reports), cpython_tests.table(reports)


@pytest.fixture
def made_up(tmp_path):
    """Return a function that makes a job of a test module with the given source."""

    def make(source: str, timeout_s: float = 60) -> Job:
        package = tmp_path / "tests" / "test_made_up"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "test_cases.py").write_text("import os, subprocess, sys, time, unittest\n" + textwrap.dedent(source))
        (interpreter,) = cpython_tests.interpreters_for(["3.13"])
        return Job(interpreter, "test_made_up", package.parent, "nowhere", timeout_s, None)

    return make


def results(done):
    """Return the outcomes of a run, by the last part of the case's name."""
    return {case.rpartition(".")[2]: outcome.result for case, outcome in done.outcomes.items()}


def test_outcomes_are_told_case_by_case(made_up):
    """Passes, failures, skips, expected failures and failing subtests are told apart, and the process itself passes."""
    job = made_up(
        """
        class Cases(unittest.TestCase):
            def test_passes(self): pass
            def test_fails(self): self.fail("on purpose")
            def test_raises(self): raise OSError
            def test_is_skipped(self): self.skipTest("on purpose")
            @unittest.expectedFailure
            def test_fails_as_expected(self): self.fail("on purpose")
            @unittest.expectedFailure
            def test_passes_unexpectedly(self): pass
            def test_has_an_id(self): self.id = 7
            def test_fails_in_part(self):
                for number in range(3):
                    with self.subTest(number=number): self.assertNotEqual(number, 1)
        """
    )

    done = cpython_tests.run(job, "plain")

    assert results(done) == {
        "test_passes": "passed",
        "test_fails": "failed",
        "test_raises": "failed",
        "test_is_skipped": "skipped",
        "test_fails_as_expected": "passed",
        "test_passes_unexpectedly": "failed",
        "test_has_an_id": "passed",
        "test_fails_in_part": "failed",
        PROCESS: "passed",
    }
    assert done.trace_files == 0


def test_a_crash_is_told_and_keeps_the_outcomes_before_it(made_up):
    """A case that kills the process did not end, and the cases before it keep their outcomes."""
    job = made_up(
        """
        class Cases(unittest.TestCase):
            def test_a_passes(self): pass
            def test_b_dies(self): os.kill(os.getpid(), 9)
            def test_c_is_never_reached(self): pass
        """
    )

    done = cpython_tests.run(job, "plain")

    assert results(done) == {"test_a_passes": "passed", "test_b_dies": "did not end", PROCESS: "failed"}
    assert done.outcomes[PROCESS].reason == "killed by SIGKILL"


def test_a_hang_ends_in_time_and_nothing_stays_alive(made_up, tmp_path):
    """A run that hangs is ended at its timeout, with its children, also one in a session of its own."""
    pids = tmp_path / "pids"
    job = made_up(
        f"""
        class Cases(unittest.TestCase):
            def test_hangs(self):
                for options in ({{}}, {{"start_new_session": True}}):
                    child = subprocess.Popen(["/bin/sleep", "600"], **options)
                    with open({str(pids)!r}, "a") as file: print(child.pid, file=file)
                time.sleep(600)
        """,
        timeout_s=20,
    )

    done = cpython_tests.run(job, "plain")

    assert results(done) == {"test_hangs": "did not end", PROCESS: "failed"}
    assert done.outcomes[PROCESS].reason == "did not end within 20 s"
    children = pids.read_text().split()
    assert len(children) == 2
    wait_for(lambda: not any(map(is_alive, children)))


def is_alive(pid):
    """Return whether the process is alive; a dead one may still wait for its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_module_that_is_skipped_is_no_failure(made_up):
    """A module that is skipped as a whole counts as skipped, and is the same both ways."""
    job = made_up("raise unittest.SkipTest('on purpose')")

    done = cpython_tests.run(job, "plain")

    assert results(done) == {PROCESS: "skipped"}


def test_cases_that_fail_only_under_tracing_are_found(made_up):
    """A case that fails in every traced run is worse, one that passes only there is better; both are run three times."""
    job = made_up(
        """
        TRACED = "HEADWAY_TRACE_DOOR" in os.environ
        class Cases(unittest.TestCase):
            def test_is_indifferent(self): pass
            def test_fails_anyway(self): self.fail("on purpose")
            def test_wants_no_tracing(self): self.assertFalse(TRACED)
            def test_wants_tracing(self): self.assertTrue(TRACED)
        """
    )

    (report,) = cpython_tests.compare(job)

    found = {one.case.rpartition(".")[2]: one for one in report.differences}
    assert {case: one.verdict for case, one in found.items()} == {
        "test_wants_no_tracing": WORSE,
        "test_wants_tracing": BETTER,
    }
    assert [len(one.plain) for one in found.values()] == [len(one.traced) for one in found.values()] == [3, 3]
    assert report.is_bad
    assert report.traced.trace_files == 1
    assert "only with Headway: test_made_up.test_cases.Cases.test_wants_no_tracing" in cpython_tests.table([report])


def test_each_policy_is_held_against_one_plain_run(made_up, tmp_path):
    """A case that fails under one policy is worse only in that policy's report, and all share one plain run."""
    job = made_up(
        """
        class Cases(unittest.TestCase):
            def test_wants_another_policy(self): self.assertNotEqual(os.environ.get("HEADWAY_POLICY"), "bfs")
        """
    )

    reports = cpython_tests.compare(dataclasses.replace(job, policies=("none", "fair", "bfs"), logs=tmp_path))

    assert [(report.policy, report.is_bad) for report in reports] == [("none", False), ("fair", False), ("bfs", True)]
    assert all(report.plain is reports[0].plain for report in reports)
    plain = list(tmp_path.glob("*-plain*.txt"))
    assert len(plain) == 1 + cpython_tests.RERUNS  # cases that differ are run again both ways


def test_cases_that_end_alike_are_no_difference(made_up):
    """Cases that pass, or fail, both ways are not run again, and nothing is bad about them."""
    job = made_up(
        """
        class Cases(unittest.TestCase):
            def test_passes(self): pass
            def test_fails(self): self.fail("on purpose")
        """
    )

    (report,) = cpython_tests.compare(job)

    assert report.differences == []
    assert not report.is_bad


def test_a_run_that_was_not_traced_is_an_error(made_up, monkeypatch):
    """A traced run without a trace is an error, because its good outcomes prove nothing."""
    monkeypatch.setattr(
        cpython_tests, "traced_environment", lambda folder, _variables, _policy: cpython_tests.plain_environment(folder)
    )
    job = made_up("class Cases(unittest.TestCase):\n    def test_passes(self): pass")

    (report,) = cpython_tests.compare(job)

    assert report.error.startswith("was not traced")
    assert report.is_bad


@pytest.mark.parametrize(
    ("plain", "traced", "expected"),
    [
        ([PASSED] * 3, [FAILED] * 3, WORSE),
        ([PASSED] * 3, [SKIPPED] * 3, WORSE),
        ([SKIPPED] * 3, [FAILED] * 3, WORSE),
        ([PASSED] * 3, [Outcome("did not end"), cpython_tests.ABSENT, FAILED], WORSE),
        ([FAILED] * 3, [PASSED] * 3, BETTER),
        ([PASSED] * 3, [FAILED, PASSED, PASSED], SOMETIMES_WORSE),
        ([PASSED, FAILED, PASSED], [FAILED] * 3, FLAKY),
        ([FAILED, PASSED, PASSED], [PASSED] * 3, FLAKY),
        ([FAILED] * 3, [PASSED, FAILED, FAILED], FLAKY),
    ],
)
def test_verdicts_come_from_all_runs(plain, traced, expected):
    """The verdict tells apart always worse, sometimes worse, and also worse without tracing."""
    assert cpython_tests.verdict(plain, traced) == expected


def test_a_sometimes_worse_case_is_bad_and_a_flaky_one_is_not():
    """Unsteadiness that no plain run shows is attributed to tracing, and other unsteadiness is not."""
    report = cpython_tests.Report("3.13.0", "test_made_up")
    one = cpython_tests.Difference("x", SOMETIMES_WORSE, (PASSED,), (FAILED,))

    assert dataclasses.replace(report, differences=[one]).is_bad
    assert not dataclasses.replace(report, differences=[dataclasses.replace(one, verdict=FLAKY)]).is_bad


def test_the_environment_holds_nothing_of_the_users(tmp_path, monkeypatch):
    """A plain run has no variable of ours, and a traced one only those that tracing needs."""
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    monkeypatch.setenv("SOMETHING", "else")

    plain = cpython_tests.plain_environment(tmp_path)
    traced = cpython_tests.traced_environment(tmp_path, {"HEADWAY_TRACE_DOOR": "/x"})

    assert set(plain) == {"PATH", "HOME", "TMPDIR", "LANG", "TERM"}
    added = set(traced) - set(plain)
    assert all(name == "PYTHONPATH" or name.startswith("HEADWAY_") for name in added)
    assert zipfile.ZipFile(traced["PYTHONPATH"]).namelist() == ["bring.py", "sitecustomize.py", "start.py"]


def test_an_absent_policy_is_named(capsys):
    """A policy that does not exist is reported before anything is run."""
    assert cpython_tests.main(["--policy", "none", "nonesuch"]) == 2
    assert capsys.readouterr().err.startswith("error: there is no policy 'nonesuch'\nhint: the policies are ")


def test_an_absent_interpreter_is_named():
    """An interpreter that is missing is reported, with a hint."""
    with pytest.raises(LookupError, match=r"no CPython 9\.9"):
        cpython_tests.interpreters_for(["9.9"])
