"""The checker of models: how it reads a verifier's report, and that it knows every mutation."""

import os
import re
import subprocess
from pathlib import Path

import model_check
import pytest
from model_check import MODELS, Case, Outcome

ROOT = Path(__file__).resolve().parents[2]

REPORT = """\
(Spin Version 6.5.2 -- 6 December 2019)
State-vector 28 byte, depth reached 26, errors: 0
      175 states, stored
pan: elapsed time 0 seconds
"""
ERROR = "pan:1: assertion violated mapped (at depth 84)\nState-vector 72 byte, depth reached 94, errors: 1\n  401 states, stored\n"


def test_a_report_is_read():
    """The report gives states and depth, and names an error."""
    assert model_check.read_report(REPORT, 1.0) == Outcome(175, 26, 1.0, "", "")
    assert model_check.read_report(ERROR, 2.0) == Outcome(401, 94, 2.0, "assertion violated mapped", "")


@pytest.mark.parametrize(
    "report",
    [
        "",
        "spin: wake.pml:3, Error: syntax error",
        REPORT + "error: max search depth too small\n",
        "pan: out of memory\n" + REPORT,
        ERROR.replace("assertion violated mapped", "assertion violated - invalid array index"),
        REPORT.replace("errors: 0", "errors: 1"),
    ],
)
def test_what_is_no_verdict_counts_as_a_failure(report):
    """A report without a verdict fails models that must hold and models that must fail."""
    outcome = model_check.read_report(report, 1.0)
    assert outcome.problem
    assert not model_check.verdict(Case("wake", (), "", holds=True), outcome)[0]
    assert not model_check.verdict(Case("wake", (), "", holds=False), outcome)[0]


def test_a_verdict_must_be_the_expected_one():
    """A model that fails, and a mutation that passes, are failures."""
    held, failed = model_check.read_report(REPORT, 1.0), model_check.read_report(ERROR, 1.0)
    assert model_check.verdict(Case("wake", (), "", holds=True), held) == (True, "holds")
    assert not model_check.verdict(Case("wake", (), "", holds=True), failed)[0]
    assert not model_check.verdict(Case("wake", (), "", holds=False), held)[0]
    assert model_check.verdict(Case("wake", (), "", holds=False), failed)[0]


def test_every_mutation_and_model_is_checked():
    """Every mutation is in the table of its model, or of a model that includes the same file."""
    checked = {flag for case in model_check.cases() if not case.holds for flag in case.flags}
    written = {name for path in MODELS.glob("*.pml") for name in re.findall(r"\bMUTATION_\w+", path.read_text())}
    assert written == {flag for flag in checked if flag.startswith("MUTATION_")}
    included = {
        name for path in MODELS.glob("*.pml") for name in re.findall(r'#include "(\w+)\.pml"', path.read_text())
    }
    assert {path.stem for path in MODELS.glob("*.pml")} - included == set(model_check.HOLDS)


@pytest.mark.parametrize(("held", "status"), [(True, 0), (False, 1)])
def test_the_exit_status_says_whether_all_is_as_it_must_be(held, status, monkeypatch, capsys):
    """One unexpected result sets the exit status, and each case has its line."""

    def check(case: Case, **_: object) -> Outcome:
        return Outcome(1, 1, 0.1, "" if case.holds == (held or case.flags != ("TRACED",)) else "an error", "")

    monkeypatch.setattr(model_check, "find_spin", lambda: "/usr/bin/spin")
    monkeypatch.setattr(model_check.shutil, "which", lambda name: name)
    monkeypatch.setattr(model_check, "check", check)
    assert model_check.main(["fork"]) == status
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 1 + sum(case.model == "fork" for case in model_check.cases())
    assert f"{status} not as they must be" in captured.err


def test_without_spin_it_says_so(monkeypatch, capsys):
    """Without spin, the command fails with a hint, or succeeds with a line if that was asked for."""
    monkeypatch.setattr(model_check, "find_spin", lambda: None)
    assert model_check.main([]) == 1
    assert model_check.main(["--skip-missing"]) == 0
    assert capsys.readouterr().err.count("hint: `make spin` adds spin") == 2


@pytest.mark.parametrize(
    ("variables", "may_skip"), [({}, True), ({"CI": "true"}, False), ({"HEADWAY_TEST_STRICT": "1"}, False)]
)
def test_the_tests_go_on_without_spin_but_not_on_ci(variables, may_skip):
    """`make test` asks for all models, and does without them on a machine that cannot have spin; CI can have it."""
    left_out = {"MAKEFLAGS", "MAKELEVEL", "CI", "HEADWAY_TEST_STRICT", "HEADWAY_TEST_FULL"}
    env = {name: value for name, value in os.environ.items() if name not in left_out} | variables

    done = subprocess.run(
        ["make", "--dry-run", "step-models"], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )

    (line,) = [line for line in done.stdout.splitlines() if "model_check.py" in line]
    assert line.split()[2:] == ["--sample", *["--skip-missing"] * may_skip]


SPIN = """#!/bin/sh
cp "$3" pan.c
"""
VERIFIER = """
#include <stdio.h>
int main(void) {{
    FILE *count = fopen("{searches}", "a");
    fputs("searched", count);
    puts("State-vector 28 byte, depth reached {depth}, errors: 0");
    puts("      175 states, stored");
    {more}
}}
"""


def test_a_search_that_was_made_is_made_again_only_if_its_verifier_differs(tmp_path):
    """The report of the same source is kept, and says so; another source, --fresh and an uncertain result are searched."""
    models, searches, spin = tmp_path / "models", tmp_path / "searches", tmp_path / "spin"
    models.mkdir()
    spin.write_text(SPIN)
    spin.chmod(0o755)

    def checked(depth, more="", **options):
        text = VERIFIER.format(searches=searches, depth=depth, more=more)
        (models / "wake.pml").write_text(text)
        case = Case("wake", (), "SC", holds=True)
        outcome = model_check.check(case, str(spin), tmp_path / "kept", models=models, **options)
        return outcome.depth, outcome.kept, searches.read_text().count("searched")

    assert checked(26) == (26, False, 1)
    assert checked(26) == (26, True, 1)
    assert checked(27) == (27, False, 2)
    assert checked(26, fresh=True) == (26, False, 3)
    unclear = 'puts("error: max search depth too small");'
    assert [checked(28, unclear)[2], checked(28, unclear)[2]] == [4, 5]
