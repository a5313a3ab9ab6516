"""The suites in examples/ pass as a user runs them, and show their ratios."""

import json
import subprocess
import sys

import pytest
from plugin_environment import ROOT

pytestmark = pytest.mark.slow


def test_is_asyncio_worth_it(tmp_path):
    """What the article said holds here, and each alternative has a figure."""
    found = tmp_path / "found.json"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "examples",
        f"--headway-json={found}",
        "--headway-no-store",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    groups = json.loads(found.read_text())["groups"]
    assert len(groups) == 10
    assert all(one["call_s"]["value"] > 0 for results in groups.values() for one in results)
    assert "ratio to serial" in done.stdout
