"""The end of a trace's report: what would help most, and where nothing is said."""

import json
from dataclasses import replace

import pytest
from made_runs import ALONE, SLEEPERS, traced
from told_traces import convoy

from headway.cli import report_what_if
from headway.cli.main import main
from headway.sim import calibration, machine, whatif
from headway.traces.analysis import analyse
from headway.traces.writer import write

LINE = "most helpful change: --policy fair: sleeper * "


@pytest.fixture
def path(tmp_path):
    """Return the path of a trace that a policy would help."""
    return written(tmp_path, traced(SLEEPERS))


def written(folder, trace):
    path = folder / "app.hwt"
    write(trace, path, short_holds=True)
    return path


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    """Give the report room for a path of any length in a line."""
    monkeypatch.setenv("COLUMNS", "1000")


def reported(path, capsys, *more):
    assert main(["report", str(path), *more]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_the_last_line_is_what_would_help_most(path, capsys):
    """With the figures of `headway whatif`, from preset costs where no others are kept, and how to see more."""
    out = reported(path, capsys)

    assert LINE in out
    assert out.endswith(f"(preset costs); more: `headway whatif {path}`")
    main(["whatif", str(path), "--calibration", "preset", "--policy", "fair", "--json"])
    sleeper = json.loads(capsys.readouterr().out)["roles"][0]
    assert f"-> {sleeper['turns_per_s']['value']:,.0f}/s" in out[out.index(LINE) :]


def test_findings_say_what_their_advice_would_give(path, capsys):
    """A convoy's: a policy and a switch interval, each with its figures, and nothing that is outside the model."""
    out = reported(path, capsys)

    assert "predicted: `headway run`, policy fair: sleeper * " in out
    assert "predicted: `sys.setswitchinterval(0.0005)`: sleeper * " in out
    assert "--processes" not in out
    assert "--no-gil" not in out


def test_json_has_it(path, capsys):
    """The change, what it gives, what it is worth and where its costs are from; the findings have theirs."""
    process = json.loads(reported(path, capsys, "--json"))["processes"][0]

    assert process["what_if"].items() >= {"change": "--policy fair", "costs": "preset"}.items()
    assert process["what_if"]["worth"] > whatif.WORTH
    assert process["what_if"]["gives"] in process["what_if"]["line"]
    convoys = [one for one in process["findings"] if one["kind"] == "convoy"]
    assert len(convoys[0]["predicted"]) == 2


def test_the_page_has_it(path, tmp_path, capsys):
    """In the data of the process's view."""
    reported(path, capsys, "--html", str(tmp_path / "app.html"))

    assert LINE in (tmp_path / "app.html").read_text()


def test_kept_costs_are_taken_and_none_are_measured(path, capsys, monkeypatch):
    """Those of this machine are not called preset ones; a calibration is never made for a report."""
    monkeypatch.setattr(calibration, "load_fit", lambda: calibration.PRESET)
    monkeypatch.setattr(calibration, "measure", lambda *_, **__: pytest.fail("it measures"))
    out = reported(path, capsys)

    assert LINE in out
    assert "preset costs" not in out


def test_costs_of_another_machine_are_not_kept_ones(monkeypatch):
    """A calibration of another machine, or an old one, is as none."""
    monkeypatch.setattr(calibration, "load", lambda: calibration.PRESET)

    assert machine.kept().name == machine.PRESET


@pytest.mark.parametrize("part", [("--since", "0.1"), ("--until", "0.9"), ("--thread", "burner")])
def test_of_a_part_nothing_is_predicted(path, capsys, part):
    """A change is one of the whole program, for all its time."""
    assert "most helpful change" not in reported(path, capsys, *part)


def told(trace):
    """Return what is predicted for a trace's report."""
    return report_what_if.with_predictions([trace], [analyse(trace)], "app.hwt")[0].what_if


def test_a_program_that_the_gil_does_not_keep_needs_no_help():
    """Nobody waits in it."""
    assert told(traced(ALONE)) is None


def test_a_trace_that_is_too_short_tells_nothing():
    """It has a convoy of twenty waits, and too few turns to tell how they would be."""
    trace = traced(SLEEPERS)
    events = trace.events[:12]
    short = replace(trace, events=events, end_ns=int(events["time_ns"][-1]))

    assert told(short) is None
    assert whatif.remedies(short, machine.load(machine.PRESET), cores=2, most_s=60) == []


def test_a_program_without_a_gil_tells_nothing():
    """There are no GILs in its trace."""
    trace = convoy()
    process = replace(trace.process, free_threaded=True, gil_enabled=False)

    assert told(replace(trace, process=process, gils=(), events=trace.events[:0])) is None


def test_nothing_is_said_of_what_is_outside_the_model(monkeypatch):
    """Neither of a program of which something is not in the model, nor of a change."""
    model_of = whatif.model_of
    monkeypatch.setattr(
        whatif, "model_of", lambda *words, **cores: replace(model_of(*words, **cores), outside=("a reason",))
    )

    assert told(traced(SLEEPERS)) is None


def test_nothing_is_said_where_nothing_helps(monkeypatch):
    """A change that is worth next to nothing is none."""
    monkeypatch.setattr(whatif, "_worth", lambda _: whatif.WORTH)

    assert told(traced(SLEEPERS)) is None


def test_a_report_does_not_wait_for_it(monkeypatch):
    """Neither for runs that take too long, nor for a trace that is too long to learn from."""
    assert whatif.remedies(traced(SLEEPERS), machine.load(machine.PRESET), cores=2, most_s=60)
    assert not whatif.remedies(traced(SLEEPERS), machine.load(machine.PRESET), cores=2, most_s=0)
    monkeypatch.setattr(whatif, "_REPORT_EVENTS", 10)
    monkeypatch.setattr(whatif, "model_of", lambda *_, **__: pytest.fail("it learns"))
    assert not whatif.remedies(traced(SLEEPERS), machine.load(machine.PRESET), cores=2, most_s=60)


def test_a_prediction_that_fails_leaves_the_report(path, capsys, monkeypatch):
    """Whatever is wrong with it."""

    def fail(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr(whatif, "remedies", fail)

    assert "most helpful change" not in reported(path, capsys)
