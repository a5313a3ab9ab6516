"""The suites in examples/ pass as a user runs them, and show their ratios."""

import json
import subprocess
import sys

import pytest
from drawn_tables import headings
from plugin_environment import ROOT

pytestmark = pytest.mark.slow


def run(*options):
    """Run the examples as a user does."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "examples",
        "--headway-no-store",
        "-p",
        "no:cacheprovider",
        *options,
    ]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def test_every_alternative_can_be_called():
    """Each alternative runs once; the times in the article do not hold on every machine."""
    done = run("--headway-disable")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "21 not measured: `--headway-disable`" in done.stdout


@pytest.mark.times  # the example asserts a ratio, which six rounds beside other tests may leave undecided
def test_sleeps_are_measured_and_overlap(tmp_path):
    """Each alternative that sleeps has a figure and a ratio to the first, and the ratio that the example asserts holds."""
    found = tmp_path / "found.json"
    done = run("-k", "sleeps", f"--headway-json={found}")

    assert done.returncode == 0, done.stdout + done.stderr
    (results,) = json.loads(found.read_text())["groups"].values()
    assert {one["label"] for one in results} == {"serial", "asyncio", "asyncio, in turn"}
    assert all(one["call_s"]["value"] > 0 for one in results)
    assert "ratio to serial" in headings(done.stdout)
