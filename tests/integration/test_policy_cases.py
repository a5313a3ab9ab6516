"""The bench program of the known bad cases: its output, its errors, and no figures from failed launches."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
LIMIT_S = 60

pytestmark = pytest.mark.slow


def run(*arguments):
    """Run the program."""
    command = [sys.executable, BENCH / "policy_cases.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)


def test_figures_of_each_launch_are_told():
    """Shares, an answer's time at the client and a thread's wake-ups have their launches, under none and the policy."""
    done = run("--case", "T1", "--case", "T7", "--policy", "fair", "--blocks", "1", "--seconds", "0.2", "--json")

    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert (report["blocks"], report["failures"], report["unfair"]) == (1, [], [])
    assert [case["case"] for case in report["cases"]] == ["T1", "T7", "T7"]
    for case, figure in zip(report["cases"], ("least_of_fair", "requests_per_s", "late_p99_ms"), strict=True):
        assert list(case["policies"]) == ["none", "fair"]
        for figures in case["policies"].values():
            assert len(figures[figure]["launches"]) == 1
            assert figures[figure]["value"] > 0
            assert "low" not in figures[figure]
            assert figures["compute_per_s"]["of_none"] > 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--blocks", "0"], "--blocks is 0"),
        (["--seconds", "-1"], "--seconds is -1"),
        (["--interpreter", "3.13t"], "expected one interpreter with a GIL"),
        (["--interpreter", "2.7"], "2.7"),
        (["--case", "T5"], "T5"),
    ],
)
def test_wrong_arguments_are_told(arguments, complaint):
    """Impossible arguments are refused before anything is measured."""
    done = run(*arguments)

    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_launch_that_fails_is_told(monkeypatch):
    """A process that dies, or that complains and exits normally, gives no figures, but an error with its output."""
    monkeypatch.syspath_prepend(BENCH)
    import policy_cases

    bench = policy_cases.Bench(sys.executable, 0.1, None)
    with pytest.raises(policy_cases.LaunchError, match=r"(?s)exit code 1: .*nobody"):
        bench.launch(policy_cases.Case("T0", "dies", "nobody"), "none")
    with pytest.raises(policy_cases.LaunchError, match=r"exit code 0: headway: .*is not scheduled"):
        bench.launch(policy_cases.Case("T0", "complains", "shares", {"compute": 1}), "nobody")


@pytest.mark.parametrize(
    ("least", "cpu_of_time", "blocks", "verdict"),
    [(0.7, 0.95, 6, "unfair"), (0.85, 0.95, 6, ""), (0.7, 0.6, 6, "undecided"), (0.7, 0.95, 5, "")],
)
def test_unfair_beyond_doubt(monkeypatch, least, cpu_of_time, blocks, verdict):
    """A share is too small if its whole interval is, and the threads had a core."""
    monkeypatch.syspath_prepend(BENCH)
    import policy_cases

    launches = [{"least_of_fair": least + 0.01 * i, "cpu_of_time": cpu_of_time} for i in range(blocks)]

    assert policy_cases.verdict(policy_cases.figures_of(launches, launches)) == verdict


def test_a_ratio_is_of_one_block(monkeypatch):
    """A failed launch removes its block, and no other, from the ratios to none."""
    monkeypatch.syspath_prepend(BENCH)
    import policy_cases

    bare = [{"x_per_s": 10.0}, {}, {"x_per_s": 20.0}]
    figures = policy_cases.figures_of([{}, {"x_per_s": 30.0}, {"x_per_s": 60.0}], bare)

    assert figures == {"x_per_s": {"value": 45.0, "of_none": 3.0, "launches": [30.0, 60.0]}}


@pytest.mark.parametrize("name", ["map", "reads-beside-1", "sleepers-8", "compute-2"])
def test_a_program_of_the_corpus_tells_its_figures(name):
    """A program of each kind reports its rate, cost, lateness and the work beside it."""
    command = [sys.executable, BENCH / "policy_corpus_workload.py", name, "0.1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True)

    figures = json.loads(done.stdout)
    assert all(value >= 0 for value in figures.values())
    assert ("rate" in figures) == (name != "compute-2")
    assert ("computed" in figures) == (name in {"reads-beside-1", "compute-2"})
    assert ("p99_s" in figures) == (name == "sleepers-8")
