"""Stores of older versions stay readable: one that 96f3bc4 made, kept as SQL."""

import contextlib
import io
import json
import sqlite3
from pathlib import Path

import pytest
from rich.console import Console

from headway import lab
from headway.lab.kept.results import load_run
from headway.report import render_comparison, render_run, run_to_json
from headway.report.html import lab_page, render_page

SQL = Path(__file__).parents[1] / "data" / "run_of_96f3bc4.sql"


@pytest.fixture
def old(tmp_path):
    """The path of a store as it was."""
    path = tmp_path / "old.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(SQL.read_text(encoding="utf-8"))
    return path


EXPECTED = (0.33518762684942094, 0.33372482004073883, 0.33665684553888336)
"""Value and interval of a gather over serial sleeps, over both interpreters, as 96f3bc4 reported them."""


def text_of(rendered):
    console = Console(file=io.StringIO(), width=120)
    console.print(rendered)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_its_run_is_read_with_its_figures(old):
    """Settings, cells and intervals as 96f3bc4 gave them; a fixed number of launches has 95 % intervals."""
    run = load_run(store=old)

    assert run.header.complete
    assert (run.settings.launches, run.settings.budget_s, run.settings.size) == (3, None, "quick")
    assert {one.cell.variant.workload for one in run.results.values()} == {"sleep"}
    (gather,) = [one for one in lab.judge(run) if (one.claim.id, one.interpreter) == ("sleep/gather-is-longest", "all")]
    interval = gather.deciding.interval
    assert gather.outcome == "supported"
    assert interval.confidence == 0.95
    assert (interval.value, interval.low, interval.high) == pytest.approx(EXPECTED, rel=1e-9)


def test_it_is_reported_exported_and_compared(old):
    """In the terminal, as JSON and as a page; with itself it has no difference."""
    run, again = load_run(store=old), load_run("last", store=old)

    assert "a gather takes as long as the longest sleep" in text_of(render_run(run))
    assert json.loads(json.dumps(run_to_json(run), allow_nan=False))["settings"]["launches"] == 3
    assert "sleep" in render_page(lab_page(run))
    differences = lab.compare(run, again)
    assert {one.outcome for one in differences} == {"no difference"}
    assert "no difference" in text_of(render_comparison(run, again, differences))
