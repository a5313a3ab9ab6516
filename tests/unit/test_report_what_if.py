"""The end of a trace's report: the change that would help most, and when there is none."""

import json
import re
import types
from dataclasses import replace
from pathlib import Path

import pytest
from made_runs import ALONE, SLEEPERS, traced
from made_traces import made_process, small
from told_traces import convoy

from headway.cli import report_what_if, whatif_view
from headway.cli.main import main
from headway.errors import ScenarioError
from headway.sim import calibration, machine, ranking, whatif
from headway.sim.replay import fit
from headway.sim.replay.change import Change, Shorten
from headway.sim.replay.measured import Measured
from headway.sim.whatif import Prediction, RolePrediction, Span
from headway.traces.analysis import Finding, analyse
from headway.traces.model import Frame, Kind
from headway.traces.writer import write

RULES = Path(__file__).resolve().parents[2] / "src/headway/traces/analysis"
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
    """The last line has the figures of `headway whatif`, preset costs if no others are kept, and how to see more."""
    out = reported(path, capsys)

    assert LINE in out
    assert out.endswith(f"(preset costs); more: `headway whatif {path}`")
    main(["whatif", str(path), "--calibration", "preset", "--policy", "fair", "--json"])
    sleeper = json.loads(capsys.readouterr().out)["roles"][0]
    assert f"-> {sleeper['turns_per_s']['value']:,.0f} turns/s" in out[out.index(LINE) :]


def test_a_worker_that_waits_is_named_where_its_parent_is_asked_for(tmp_path, capsys):
    """A server's parent has a small trace without waits: the report and `headway whatif` name the worker's."""
    first, worker = tmp_path / "app.hwt", tmp_path / "app.77.hwt"
    idle = small([(1, Kind.ACQUIRE, 0), (2, Kind.RELEASE, 0)], process=made_process(pid=7, family=5))
    write(idle, first)
    trace = traced(SLEEPERS)
    write(replace(trace, process=made_process(pid=77, parent_pid=7, family=5)), worker)

    assert f"more: `headway whatif {worker}`" in reported(first, capsys)
    assert main(["whatif", str(first), "--calibration", "preset"]) == 2
    assert f"note: app.hwt is the trace of one of 2 processes; the largest trace is {worker}" in capsys.readouterr().err
    main(["whatif", str(worker), "--calibration", "preset", "--policy", "fair"])
    assert "one of" not in capsys.readouterr().err


def test_findings_say_what_their_advice_would_give(path, capsys):
    """A convoy's advice has predictions of a policy and of a switch interval, and of nothing outside the model."""
    out = reported(path, capsys)

    assert "predicted: `headway run`, policy fair: sleeper * " in out
    assert "predicted: `sys.setswitchinterval(0.0005)`: sleeper * " in out
    assert "--processes" not in out
    assert "--no-gil" not in out


def test_a_shorter_hold_is_a_remedy_of_its_own_line_only(monkeypatch):
    """A finding about another line, or about none, has no prediction of it; the line's path is short."""
    monkeypatch.setattr(whatif_view, "headline", lambda prediction, about: "half")
    change = Change(shorten=(Shorten("/a/long/way/to/app.py", 7, 0.5),))
    ranked = [types.SimpleNamespace(prediction=types.SimpleNamespace(change=change))]

    def predicted(file="", line=0):
        frame = Frame(file, line, "f", 1) if file else None
        finding = Finding(kind="long-hold", weight="problem", fact="", frame=frame)
        return report_what_if._with_remedies(finding, ranked, [], "").predicted

    assert predicted("/a/long/way/to/app.py", 7) == (
        "holds that end at .../way/to/app.py:7 taking 0.5 of their present time: half",
    )
    assert predicted("/a/long/way/to/app.py", 8) == predicted("/another/app.py", 7) == predicted() == ()


def test_the_roles_of_a_finding_come_first():
    """Below a finding, its own threads come first, waiters before holders, however little a change does for them."""
    measured = Measured(
        turns=50, turns_per_s=100.0, p50_ns=None, p99_ns=None, run_share=0.1, held_share=0.1, turns_error=0.1
    )
    rates = {"python": 300.0, "main": 200.0, "other": 150.0, "etl_*": 101.0, "heartbeat": 100.0}
    roles = tuple(
        RolePrediction(name, measured, Span(rate, rate, rate), None, None, None, {}) for name, rate in rates.items()
    )
    trace = convoy(waiters=("heartbeat",))
    trace = replace(trace, threads=(replace(trace.threads[0], name="etl_0"), trace.threads[1]))
    analysis = analyse(trace)
    finding = Finding(kind="convoy", weight="problem", fact="", threads=("heartbeat", "etl_0"))
    about = report_what_if._roles(finding, trace, analysis)
    told = whatif_view.headline(Prediction(Change(), roles, (), ()), about)

    assert [one.split()[0] for one in told.split("; ")] == ["heartbeat", "etl_*", "python"]
    assert whatif_view.headline(Prediction(Change(), roles, (), ())).startswith("python 100 -> 300 turns/s; main ")


def test_json_has_it(path, capsys):
    """The JSON has the change, its gain, its worth and the source of its costs, also for the findings."""
    process = json.loads(reported(path, capsys, "--json"))["processes"][0]

    assert process["what_if"].items() >= {"change": "--policy fair", "costs": "preset"}.items()
    assert process["what_if"]["worth"] > ranking.WORTH
    assert process["what_if"]["gives"] in process["what_if"]["line"]
    convoys = [one for one in process["findings"] if one["kind"] == "convoy"]
    assert len(convoys[0]["predicted"]) == 2


def test_the_page_has_it(path, tmp_path, capsys):
    """The page has it in the data of the process's view."""
    reported(path, capsys, "--html", str(tmp_path / "app.html"))

    assert LINE in (tmp_path / "app.html").read_text()


def test_kept_costs_are_taken_and_none_are_measured(path, capsys, monkeypatch):
    """Kept costs of this machine are not called preset ones, and a report never calibrates."""
    monkeypatch.setattr(calibration, "load_fit", lambda: calibration.PRESET)
    monkeypatch.setattr(calibration, "measure", lambda *_, **__: pytest.fail("it measures"))
    out = reported(path, capsys)

    assert LINE in out
    assert "preset costs" not in out


def test_costs_of_another_machine_are_not_kept_ones(monkeypatch):
    """A calibration of another machine, or an old one, counts as none."""
    monkeypatch.setattr(calibration, "load", lambda: calibration.PRESET)

    assert machine.kept().name == machine.PRESET


@pytest.mark.parametrize("part", [("--since", "0.1"), ("--until", "0.9"), ("--thread", "burner")])
def test_of_a_part_nothing_is_predicted(path, capsys, part):
    """Nothing is predicted for a part of a trace, because a change concerns the whole program for all its time."""
    assert "most helpful change" not in reported(path, capsys, *part)


def told(trace):
    """Return the prediction for a trace's report."""
    return report_what_if.with_predictions([trace], [analyse(trace)], "app.hwt")[0].what_if


def test_a_program_that_the_gil_does_not_keep_needs_no_help():
    """A program in which no thread waits for the GIL needs no help."""
    assert told(traced(ALONE)) is None


def test_a_trace_that_is_too_short_tells_nothing():
    """A trace with a convoy of twenty waits has too few turns for a prediction."""
    trace = traced(SLEEPERS)
    events = trace.events[:12]
    short = replace(trace, events=events, end_ns=int(events["time_ns"][-1]))

    assert told(short) is None
    assert ranking.remedies(short, machine.load(machine.PRESET), cores=2, most_s=60) == []


def test_a_program_without_a_gil_tells_nothing():
    """A trace without a GIL gives no prediction."""
    trace = convoy()
    process = replace(trace.process, free_threaded=True, gil_enabled=False)

    assert told(replace(trace, process=process, gils=(), events=trace.events[:0])) is None


def test_nothing_is_said_of_what_is_outside_the_model(monkeypatch):
    """Nothing is predicted for a program, or a change, that is outside the model."""
    model_of = ranking.model_of
    monkeypatch.setattr(
        ranking, "model_of", lambda *words, **cores: replace(model_of(*words, **cores), outside=("a reason",))
    )

    assert told(traced(SLEEPERS)) is None


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_nothing_is_said_of_a_busy_machine(monkeypatch, share):
    """Where other programs had the cores for a tenth of the time with the GIL, a prediction would need a line that says so."""
    model_of = ranking.model_of
    monkeypatch.setattr(ranking, "model_of", lambda *words, **cores: replace(model_of(*words, **cores), others=0.002))
    monkeypatch.setattr(ranking, "without_a_core", lambda _: share)

    found = ranking.remedies(traced(SLEEPERS), machine.load(machine.PRESET), cores=2, most_s=60)
    assert (found == []) == (share >= 0.1)


@pytest.mark.parametrize("doubted", [True, False], ids=["outside the model", "late"])
def test_a_report_simulates_nothing_for_a_model_that_it_cannot_use(monkeypatch, doubted):
    """The fits stop as soon as it is clear that nothing will be said, or the time is over."""
    runs = []
    simulated = fit.predicted_trace

    def counted(*words, **more):
        runs.append(1)
        return simulated(*words, **more)

    monkeypatch.setattr(fit, "predicted_trace", counted)
    learn = fit.learn
    outside = ("something",) if doubted else ()
    monkeypatch.setattr(fit, "learn", lambda *words, **more: replace(learn(*words, **more), outside=outside))
    most_s = 60 if doubted else -1
    assert ranking.remedies(traced(SLEEPERS), machine.load(machine.PRESET), cores=2, most_s=most_s) == []
    assert not runs


def test_nothing_is_said_where_nothing_helps(monkeypatch):
    """A change of little worth is not mentioned."""
    monkeypatch.setattr(ranking, "_worth", lambda _: ranking.WORTH)

    assert told(traced(SLEEPERS)) is None


def test_what_is_predicted_in_time_is_kept(monkeypatch):
    """A run that takes too long, or an error, costs its own prediction and not those before it."""
    trace, costs = traced(SLEEPERS), machine.load(machine.PRESET)
    all_of_them = ranking.remedies(trace, costs, cores=2, most_s=60)
    assert len(all_of_them) > 1
    predicting = ranking.predicting
    for ends in (ranking._OutOfTimeError(), ScenarioError("it comes to a stop")):

        def first(*words, ends=ends, **options):
            yield next(predicting(*words, **options))
            raise ends

        monkeypatch.setattr(ranking, "predicting", first)
        (kept,) = ranking.remedies(trace, costs, cores=2, most_s=60)
        assert str(kept.prediction.change) == "--policy fair"


def test_a_change_whose_last_run_ends_too_late_is_kept(monkeypatch):
    """The time is over during the last run of the first change: its prediction is there, and the next one is not made."""
    over = False

    def perf_counter():
        return 100.0 if over else 0.0

    def run(*words):
        nonlocal over
        runs.append(words)
        over = len(runs) == 2 * ranking._REPORT_SEEDS
        return really(*words)

    runs, really = [], whatif._run
    monkeypatch.setattr(whatif, "_run", run)
    monkeypatch.setattr(ranking.time, "perf_counter", perf_counter)
    (kept,) = ranking.remedies(traced(SLEEPERS), machine.load(machine.PRESET), cores=2, most_s=60)
    assert str(kept.prediction.change) == "--policy fair"
    assert len(runs) == 2 * ranking._REPORT_SEEDS


def test_a_report_does_not_wait_for_it(monkeypatch):
    """A report does not wait for runs that take too long, nor for a trace that is too long to learn from."""
    assert ranking.remedies(traced(SLEEPERS), machine.load(machine.PRESET), cores=2, most_s=60)
    assert not ranking.remedies(traced(SLEEPERS), machine.load(machine.PRESET), cores=2, most_s=0)
    monkeypatch.setattr(ranking, "_REPORT_EVENTS", 10)
    monkeypatch.setattr(ranking, "model_of", lambda *_, **__: pytest.fail("it learns"))
    assert not ranking.remedies(traced(SLEEPERS), machine.load(machine.PRESET), cores=2, most_s=60)


def test_a_prediction_that_fails_leaves_the_report(path, capsys, monkeypatch):
    """A prediction that fails in any way leaves the report as it is."""

    def fail(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr(ranking, "remedies", fail)

    assert "most helpful change" not in reported(path, capsys)


def test_changes_are_about_findings_that_there_are():
    """Each kind of finding that changes are listed for is one that a rule yields."""
    rules = "".join(path.read_text(encoding="utf-8") for path in RULES.glob("*.py"))

    assert set(report_what_if._HELPS) <= set(re.findall(r'kind="([\w-]+)"', rules))
