"""An experiment is one new file: the one of docs/contributing/where-do-i-change.md, verbatim."""

import importlib
import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from headway import lab
from headway.report import experiment_tables, render_experiment
from headway.report.html import lab_page

pytestmark = pytest.mark.slow

# The name `headway.lab.experiments` is bound to the function.
experiments = importlib.import_module("headway.lab.experiments")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "contributing" / "where-do-i-change.md"


def test_the_walkthroughs_experiment_runs_and_is_shown(tmp_path, monkeypatch):
    """The new experiment is measured, judged and shown, in the terminal and on the page, and no other file names it."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "a_new_one.py").write_text(code, encoding="utf-8")
    monkeypatch.setattr(experiments, "__path__", [*experiments.__path__, str(tmp_path)])
    declared = experiments._declared_here()
    monkeypatch.setattr(experiments, "_all", lambda: declared)

    run = lab.run(lab.Request(experiments=["counting"], interpreters=["3.13"], launches=3))

    assert not run.failures
    (verdict,) = lab.judge(run)
    assert verdict.outcome != "not measured"
    one = run.experiment("counting")
    (table,) = experiment_tables(run, one)
    assert [row[0] for row in table.rows] == ["2 tasks", "4 tasks", "8 tasks"]
    (shown,) = lab_page(run).experiments
    assert shown.tables == (table,)
    assert [plot.x for plot in shown.plots if plot.kind == "lines"] == ["tasks"]
    console = Console(file=io.StringIO(), width=120)
    console.print(render_experiment(run, one))
    assert "threads do not make four tasks quicker" in console.file.getvalue()  # type: ignore[attr-defined]
