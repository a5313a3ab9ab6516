"""`headway calibrate` on this machine, in as short a time as possible."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headway.sim.calibration import Calibration, load
from headway.sim.costs import ABOUT

pytestmark = pytest.mark.slow

HEADWAY = Path(sys.executable).with_name("headway")


def test_this_machine_is_measured(tmp_path):
    """Every cost is there, all measured here if the machine has two cores, and the calibration can be read again."""
    path = tmp_path / "c.json"

    done = subprocess.run(
        [HEADWAY, "calibrate", "--seconds", "1", "--json", "-o", path],
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )

    assert done.returncode == 0, done.stderr
    made = Calibration.from_json(json.loads(done.stdout))
    assert load(path) == made
    assert "round 3 of 3" in done.stderr
    assert made.machine["cores"] == len(os.sched_getaffinity(0))
    assert made.interpreters
    if len(os.sched_getaffinity(0)) > 1:
        # A tick may be missed in so short a time; all other costs are there.
        assert set(ABOUT) - set(made.spread) <= {"tick_interrupt"}
