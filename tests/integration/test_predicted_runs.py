"""The experiment `predictions` with launches of real servers: predicted before they are launched, and resumed."""

import contextlib
import sqlite3

import pytest

from headway import lab
from headway.lab.experiments import predictions as declared
from headway.sim import calibration

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def short(monkeypatch):
    """Set launches of a twentieth of a second, and fixed costs."""
    monkeypatch.setitem(declared._DURATION_S, "quick", 0.05)
    monkeypatch.setattr(calibration, "measure", lambda *_, **__: calibration.PRESET)


def request(path):
    return lab.Request(experiments=["predictions"], placement="split", launches=1, seed=1, store=path)


def order(path):
    """Return the times of a run's predictions and launches by cell, in the order of the launches."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        return db.execute(
            "SELECT c.key, p.written_at, l.started_at FROM cells c LEFT JOIN predictions p ON p.cell = c.id"
            " LEFT JOIN launches l ON l.cell = c.id ORDER BY l.id"
        ).fetchall()


@pytest.mark.usefixtures("short")
def test_every_cell_but_the_anchors_is_predicted_before_it_is_launched(tmp_path):
    """The anchors come first, and each prediction is written no later than the second of its cell's launch."""
    path = tmp_path / "results.sqlite"
    run = lab.run(request(path))

    rows = order(path)
    assert not run.failures
    assert ["alone" in key for key, _, _ in rows] == [True] * 2 + [False] * (len(rows) - 2)
    assert [written is None for _, written, _ in rows] == [True] * 2 + [False] * (len(rows) - 2)
    assert all(written[:19] <= started[:19] for _, written, started in rows[2:])
    assert {one.claim.id for one in lab.judge(run)} == {claim.id for claim in lab.experiment("predictions").claims}


@pytest.mark.usefixtures("short")
def test_a_run_that_was_interrupted_keeps_its_predictions(tmp_path):
    """A resume keeps the predictions, and launches every cell."""
    path = tmp_path / "results.sqlite"

    def interrupt(progress):
        if progress.done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab.run(request(path), report=interrupt)
    before = {key: written for key, written, _ in order(path)}
    run = lab.resume(store_path=path)

    assert {key: written for key, written, _ in order(path)} == before
    assert all(one.launches for one in run.results.values())
    assert sum(one.prediction is not None for one in run.results.values()) == len(run.results) - 2
