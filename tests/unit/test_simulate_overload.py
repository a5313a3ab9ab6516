"""`headway simulate` says that a client sends more requests than are answered; the stand-in answers 1,000 a second."""

import json

import pytest
from fake_simulation import FakeSimulation

from headway.cli.main import main
from headway.sim import run as running

APP = """
[role.server]
program = [{receive = "r"}, {hold_us = 8}, {reply = true}]
[client.load]
port = "r"
rate_per_s = RATE
"""


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    """Replace the simulator by one whose results follow from the specification."""
    monkeypatch.setattr(running, "Simulation", FakeSimulation)


def simulate(tmp_path, rate_per_s, *words):
    """Simulate the client with this rate; return the exit status."""
    path = tmp_path / "app.toml"
    path.write_text(APP.replace("RATE", str(rate_per_s)))
    return main(["simulate", str(path), "--calibration", "preset", "--jobs", "1", *words])


@pytest.mark.parametrize(
    ("rate_per_s", "duration_s", "is_told"),
    [(0, 1, False), (1000, 1, False), (1030, 100, False), (1060, 0.5, False), (1060, 100, True), (5000, 1, True)],
    ids=["closed loop", "all", "nearly all", "by chance", "long enough to tell", "a fifth"],
)
def test_a_backlog_that_grows_is_told(tmp_path, capsys, rate_per_s, duration_s, is_told):
    """A twentieth of the requests may be under way at the end, and fewer may come by chance; the JSON tells the same."""
    how = ("--duration", str(duration_s), "--seeds", "1")

    assert simulate(tmp_path, rate_per_s, *how) == 0
    said = " ".join(capsys.readouterr().out.split())
    line = (
        f"remark: load: only 1,000 of {rate_per_s:,} requests a second are answered: the backlog grows, and its times depend on"
        " the duration"
    )
    assert (line in said) == is_told
    assert simulate(tmp_path, rate_per_s, *how, "--json") == 0
    (point,) = json.loads(capsys.readouterr().out)["points"]
    known = {"client": "load", "rate_per_s": float(rate_per_s), "done_per_s": 1000.0}
    assert point["overloads"] == ([known] if is_told else [])


def test_a_sweep_tells_its_worst_backlog(tmp_path, capsys):
    """One line for each client names the worst point, and the number of points whose backlogs grow."""
    assert simulate(tmp_path, 1, "--sweep", "load.rate_per_s=500,2000,4000", "--seeds", "1") == 0

    said = " ".join(capsys.readouterr().out.split())
    assert said.count("remark:") == 1
    assert (
        "load: only 1,000 of 4,000 requests a second are answered, at the worst of 2 such points of 3: the back" in said
    )
