"""A run with launches of an experiment that this Headway does not have: nothing of it is left out in silence."""

import json

import pytest
from synthetic import make_cell, make_interpreter, make_settings

from headway.cli.main import main
from headway.lab.design import Experiment
from headway.lab.kept.launched import Launch
from headway.lab.kept.results import load_run
from headway.lab.kept.store import Store
from headway.lab.launching import as_begun, runner
from headway.lab.launching.runner import resume
from headway.report.html import lab_page
from headway.report.lab.machines import render_machines

GIL = make_interpreter()
SAID = "3 launches of `counting` are not shown: this Headway has no such experiment"


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Return the path of a store for runs, which is also the user's own."""
    monkeypatch.setenv("HEADWAY_STORE", str(tmp_path / "results.sqlite"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "results.sqlite"


def stored(store, *experiments, complete=True):
    """Store a run of serial tasks in some experiments, with three launches of each, or two of three."""
    with Store(store, create=True) as results:
        cells = [make_cell(name, "serial", GIL.id) for name in experiments]
        settings = make_settings(interpreters=(GIL,), experiments=experiments, launches=3)
        run_id = results.new_run(settings, cells)
        for cell in cells:
            for block in range(3 if complete else 2):
                results.add_launch(run_id, cell.key, block, Launch("ok", samples={"work_s": [1.0 + block / 100]}))
        if complete:
            results.end_run(run_id)


@pytest.mark.parametrize("names", [["counting"], ["cpu-bound", "counting"]])
@pytest.mark.parametrize("options", [[], ["--verdicts"]])
def test_the_report_says_what_it_does_not_show(store, capsys, options, names):
    """The report names the experiment that it lacks, with its launches, alone and beside one that it has."""
    stored(store, *names)

    assert main(["report", *options]) == 0
    shown = capsys.readouterr().out
    assert SAID in shown
    assert ("cpu-bound" in shown) == (len(names) == 2)


def test_the_last_screen_and_the_page_say_so(store, capsys):
    """The short report, the page, and the report over machines have the same words."""
    stored(store, "counting")
    run = load_run()

    assert main(["lab", "--resume", "last", "--html", str(store.with_name("page.html"))]) == 0
    assert SAID in capsys.readouterr().out
    assert SAID in lab_page(run).counts.doubts
    assert SAID in str([getattr(part, "plain", "") for part in render_machines([run], []).renderables])


def test_json_names_what_it_does_not_judge(store, capsys):
    """The JSON has the cells, and says that their experiment is unknown; a known one is not among those."""
    stored(store, "cpu-bound", "counting")

    assert main(["report", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["unknown_experiments"] == [{"experiment": "counting", "launches": 3}]
    assert {cell["experiment"] for cell in value["cells"]} == {"cpu-bound", "counting"}


def test_a_suite_for_pyperf_is_not_short_in_silence(store, capsys, tmp_path):
    """The suite lacks the launches, and a message says so."""
    stored(store, "cpu-bound", "counting")

    assert main(["report", "--pyperf", str(tmp_path / "suite.json")]) == 0
    assert SAID in capsys.readouterr().err


def test_two_runs_are_compared_in_what_is_known(store, capsys):
    """A comparison leaves the experiment out and says so, in the table and as JSON."""
    stored(store, "cpu-bound", "counting")

    assert main(["compare", "last", "last"]) == 0
    assert "`counting` is not compared: this Headway has no such experiment" in capsys.readouterr().out
    assert main(["compare", "last", "last", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["unknown_experiments"] == ["counting"]
    assert [cell["cell"].split("|")[0] for cell in value["cells"]] == ["cpu-bound"]


def test_two_runs_with_nothing_else_are_not_compared(store, capsys):
    """The error names the experiment as what this Headway lacks, and not as a word typed wrongly."""
    stored(store, "counting")

    assert main(["compare", "last", "last"]) == 4
    said = capsys.readouterr().err
    assert "`counting` alone, and this Headway has no such experiment" in said
    assert "did you mean" not in said


def test_such_a_run_is_not_resumed(store, capsys, monkeypatch):
    """An incomplete run is refused before anything of it is prepared, as its claims cannot be judged."""
    stored(store, "cpu-bound", "counting", complete=False)
    monkeypatch.setattr(runner, "prepare", lambda *_, **__: pytest.fail("it is prepared"))
    monkeypatch.setattr(runner.interpreters, "probe", lambda _: pytest.fail("an interpreter is started"))

    assert main(["lab", "--resume", "last"]) == 2
    assert "the run has launches of `counting`, and this Headway has no such experiment" in capsys.readouterr().err


def test_a_run_is_whole_for_the_headway_that_has_the_experiment(store, monkeypatch, capsys):
    """With the experiment, nothing is said, and the run would be resumed."""
    stored(store, "counting", complete=False)
    one = Experiment(
        name="counting", question="Why?", method="-", included="-", baseline="serial", variants=lambda _: []
    )
    monkeypatch.setattr("headway.lab.kept.results.experiments", lambda: (one,))
    monkeypatch.setattr(as_begun, "experiments", lambda: (one,))

    assert main(["report"]) == 0
    assert "no such experiment" not in capsys.readouterr().out
    with pytest.raises(Exception, match="the run began with Headway 0"):
        resume("last")
