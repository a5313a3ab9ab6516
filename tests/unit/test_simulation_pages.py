"""The pages of `headway simulate` and `headway whatif`: tables, curves and timelines, and the predicted run as a trace."""

import dataclasses
import json
import re

import numpy as np
import pytest
from made_runs import SLEEPERS, traced

from headway.cli.main import main
from headway.sim import machine
from headway.sim.replay.change import NOTHING, Change
from headway.sim.replay.learn import learn
from headway.sim.replay.trace import predicted_trace
from headway.traces.analysis import analyse
from headway.traces.analysis.intervals import recorded
from headway.traces.invariants import violations
from headway.traces.model import Executed, Kind
from headway.traces.reader import read
from headway.traces.writer import write

SWEEP = ("--sweep", "threads=0..2", "--sweep", "policy=none,fair", "--seeds", "2", "--duration", "0.3")


@pytest.fixture(scope="module")
def model():
    """Return the model of a trace."""
    return learn(traced(SLEEPERS), machine.load(machine.PRESET))


@pytest.fixture
def app(tmp_path):
    """Return the path of a trace."""
    write(traced(SLEEPERS), tmp_path / "app.hwt", short_holds=True)
    return tmp_path / "app.hwt"


def data(path):
    """Return a page's data."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.DOTALL)
    return json.loads(found[1])


def simulate(path, *words):
    assert main(["simulate", "convoy", *words, "--calibration", "preset", "--jobs", "1", "--html", str(path)]) == 0
    return data(path)


def predict(path, app, *words):
    assert main(["whatif", str(app), *words, "--calibration", "preset", "--seeds", "1", "--html", str(path)]) == 0
    return data(path)


def test_a_sweep_has_its_curves(tmp_path):
    """Each policy has a line along the numbers, and each point has its median within its range, as in the table."""
    page = simulate(tmp_path / "a.html", *SWEEP)

    assert (page["kind"], page["views"]) == ("simulation", [])
    curves = {curve["title"]: curve for curve in page["curves"]}
    assert curves.keys() == {"cpu work", "load done", "load p50", "load p99"}
    assert [curves[title]["unit"] for title in ("cpu work", "load done", "load p50")] == ["share", "per_s", "s"]
    done = curves["load done"]
    assert (done["x"], done["x_values"], done["x_numbers"]) == ("threads", ["0", "1", "2"], [0, 1, 2])
    assert [line["name"] for line in done["lines"]] == ["policy=none", "policy=fair"]
    table = page["sections"][0]["tables"][0]
    column = table["columns"].index("load done")
    for line in done["lines"]:
        for point in line["points"]:
            assert point["low"] <= point["value"] <= point["high"]
            row = [done["x_values"][point["x"]], line["name"].removeprefix("policy=")]
            assert [each[column] for each in table["rows"] if list(each[:2]) == row] == [point["shown"]]
    none, fair = done["lines"]
    assert fair["points"][2]["value"] > 20 * none["points"][2]["value"]
    assert 1e-6 < curves["load p50"]["lines"][0]["points"][0]["value"] < 1e-3


def test_a_sweep_of_names_has_curves_too(tmp_path):
    """The points of a sweep of names are in their order."""
    page = simulate(tmp_path / "a.html", *SWEEP[2:])

    curve = page["curves"][0]
    assert (curve["x_values"], curve["x_numbers"]) == (["none", "fair"], [])
    assert [[point["x"] for point in line["points"]] for line in curve["lines"]] == [[0, 1]]


def test_one_scenario_has_its_tables_and_a_timeline(tmp_path):
    """Roles are columns, because there are more figures than roles, and the timeline is that of the first seed."""
    page = simulate(tmp_path / "a.html", *SWEEP[4:])

    assert page["curves"] == []
    roles, gils = page["sections"][0]["tables"]
    assert roles["columns"] == ["", "server", "cpu", "load (client)"]
    assert [row[0] for row in roles["rows"]][:3] == ["threads", "done", "p50"]
    assert gils["columns"] == ["", "main"]
    (view,) = page["views"]
    assert {lane["label"] for lane in view["lanes"]} == {"server", "cpu"}
    assert view["span_ns"] > 3e8


def test_a_what_if_has_the_trace_above_the_predicted_run(app, tmp_path):
    """The two timelines have the same length and threads; roles have figures, intervals and what they rest on."""
    page = predict(tmp_path / "a.html", app, "--policy", "fair")

    assert page["title"] == "app (simulated), what if: --policy fair"
    real, predicted = page["views"]
    assert (real["label"], predicted["label"]) == ("in the trace", "predicted")
    assert real["span_ns"] == predicted["span_ns"]
    assert {one["label"] for one in real["lanes"]} == {one["label"] for one in predicted["lanes"]}
    table = page["sections"][0]["tables"][0]
    assert table["columns"] == ["role", "", "in the trace", "predicted", "80 % interval"]
    assert {row[0] for row in table["rows"]} == {"sleeper *", "burner"}
    assert [kind for kind, _ in page["notes"]] == ["rests on", "rests on", "note"]
    assert page["notes"][1][1].endswith("as the hand-offs in the trace show")


def test_what_is_outside_the_model_is_on_the_page(app, tmp_path):
    """Without a GIL no thread waits, so the page has the trace's timeline alone, and the reason."""
    page = predict(tmp_path / "a.html", app, "--no-gil")

    assert [view["label"] for view in page["views"]] == ["in the trace"]
    assert [kind for kind, _ in page["notes"]][:3] == ["rests on", "rests on", "outside the model"]
    assert page["notes"][-1][1].endswith("the predicted run has no timeline")


def test_the_predicted_run_is_written_as_a_trace(app, tmp_path, capsys):
    """A report opens the predicted trace, with the names and lines of the original."""
    path = tmp_path / "fair.hwt"
    assert main(["whatif", str(app), "--policy", "fair", "--calibration", "preset", "--trace", str(path)]) == 0

    trace = read(path)
    assert violations(trace) == []
    assert trace.process.program == "app (simulated) (predicted: --policy fair)"
    assert main(["report", str(path)]) == 0
    assert " burner  " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--html", "{}/a.html"), "`--html` needs one change, and none is given"),
        (("--trace", "{}/a.hwt"), "`--trace` needs one change, and none is given"),
        (("--policy", "fair", "--html", "{}/no/a.html"), "the folder {}/no is not there"),
        (("--policy", "fair", "--html", "{}/there.html"), "{}/there.html is there already"),
        (("--policy", "fair", "--trace", "{}/a.trace"), "a.trace is not the name of a trace"),
        (("--policy", "fair", "--trace", "{}/app.hwt", "--force"), "{}/app.hwt is the trace itself"),
        (("--no-gil", "--trace", "{}/a.hwt"), "`--trace` needs a GIL, and this change removes it"),
        (("--policy", "fair", "--open"), "`--open` opens the page that `--html` writes"),
    ],
)
def test_what_cannot_be_written_is_told_before_the_work(app, tmp_path, capsys, monkeypatch, words, said):
    """A file that cannot be written is an error before anything is learned."""
    (tmp_path / "there.html").touch()
    monkeypatch.setattr("headway.sim.replay.learn.learn", lambda *_: pytest.fail("it works"))

    assert main(["whatif", str(app), *(word.format(tmp_path) for word in words)]) == 2
    assert said.format(tmp_path) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("whatif", "{}/app.hwt", "--policy", "fiar"), "did you mean `fair`?"),
        (("whatif", "{}/app.hwt", "--policy", "fair", "--option", "latency=1"), "has no option 'latency'"),
        (("whatif", "{}/app.hwt", "--without", "nobody"), "'nobody' is not a role"),
        (("whatif", "{}/app.hwt", "--shorten", "nowhere.py:1=0.5"), "nowhere.py:1"),
        (("simulate", "convoy", "--sweep", "nothing=1..3"), "nothing"),
        (("simulate", "convoy", "--option", "latency_us=1"), "the option latency_us needs a policy"),
        (("simulate", "convoy", "--policy", "fiar"), "did you mean `fair`?"),
        (("simulate", "convoy", "--policy", "fair", "--option", "latency=1"), "has no option 'latency'"),
    ],
    ids=lambda words: " ".join(words[1:]) if isinstance(words, tuple) else "",
)
def test_a_wrong_argument_is_told_before_the_machine_is_measured(app, tmp_path, capsys, monkeypatch, words, said):
    """The costs of a machine take half a minute, if they are not kept."""
    monkeypatch.setattr("headway.sim.calibration.load", lambda *_: None)
    monkeypatch.setattr("headway.sim.calibration.load_or_measure", lambda *_: pytest.fail("it measures"))

    assert main([word.format(tmp_path) for word in words]) == 2
    assert said in capsys.readouterr().err


def test_a_switch_interval_has_the_forms_of_every_time(app, capsys):
    """Commands take the same forms of a time."""
    words = ["--calibration", "preset", "--seeds", "1", "--json"]

    assert main(["whatif", str(app), "--switch-interval", "500us", *words]) == 0
    assert json.loads(capsys.readouterr().out)["change"] == "--switch-interval 0.0005"


def test_a_page_that_is_there_is_replaced_by_force_only(app, tmp_path):
    """A simulation's page is replaced only by force, too."""
    path = tmp_path / "a.html"
    path.write_text("x")

    assert main(["simulate", "convoy", "--html", str(path)]) == 2
    assert path.read_text() == "x"
    assert simulate(path, *SWEEP[4:], "--force")["kind"] == "simulation"


@pytest.mark.parametrize(
    "change",
    [NOTHING, Change(policy="fair"), Change(processes=True), Change(threads=(("sleeper", 5),)), Change(cores=1)],
    ids=str,
)
def test_a_predicted_trace_keeps_what_traces_keep(model, change):
    """The predicted events keep the invariants; a further thread is named after the one whose operations it has."""
    trace = predicted_trace(model, change, machine.load(machine.PRESET), cores=2, length_ns=500_000_000)

    assert violations(trace) == []
    assert trace.end_ns - trace.start_ns == 500_000_000
    names = [thread.name for thread in trace.threads]
    assert len(set(names)) == len(names) == (6 if change.threads else 3)
    assert not change.threads or names[:4] == ["sleeper 0", "sleeper 1", "sleeper 0 (2)", "sleeper 1 (2)"]
    assert analyse(trace).gils


def test_each_gil_of_a_predicted_trace_has_its_switch_interval(model):
    """Processes are GILs of one trace, whose events tell the interval of all but the first."""
    change = Change(processes=True, interval_ns=1_000_000)
    trace = predicted_trace(model, change, machine.load(machine.PRESET), cores=2, length_ns=500_000_000)
    gils = analyse(trace).gils

    assert violations(trace) == []
    assert len(gils) > 1
    assert {gil.interval_ns for gil in gils} == {1_000_000}


def test_a_predicted_trace_tells_nothing_of_the_end_of_the_recorded_process():
    """A policy that ended, an exec and a file that grows are of the recorded run, and so is a sub-interpreter."""
    real = traced(SLEEPERS)
    odd = {"policy_ended_ns": 5, "growing": True, "has_subinterpreters": True, "executed": Executed.RECORDED}
    real = dataclasses.replace(real, process=dataclasses.replace(real.process, **odd))
    costs = machine.load(machine.PRESET)
    process = predicted_trace(learn(real, costs), Change(policy="fair"), costs, cores=2, length_ns=50_000_000).process

    assert process.simulated
    assert (process.policy, process.policy_ended_ns) == ("fair", None)
    assert not process.growing
    assert not process.has_subinterpreters
    assert process.executed is Executed.NOTHING


def test_a_hold_that_never_ends_is_where_the_traces_were_interrupted(model):
    """The thread that computes is seen at its line."""
    trace = predicted_trace(model, NOTHING, machine.load(machine.PRESET), cores=2, length_ns=300_000_000)
    holds = recorded(trace).holds
    burner = next(index for index, thread in enumerate(trace.threads) if thread.name == "burner")
    stacks = holds.stack[(holds.thread == burner) & ~holds.open]

    assert {trace.frames[trace.stack_frame[stack]].function for stack in stacks} == {"burner: compute"}


def test_a_predicted_trace_ends_where_its_events_have_no_room(model):
    """Dropped events are counted, and nothing is claimed of the time after them."""
    whole = predicted_trace(model, NOTHING, machine.load(machine.PRESET), cores=2, length_ns=500_000_000)
    trace = predicted_trace(
        model, NOTHING, machine.load(machine.PRESET), cores=2, length_ns=500_000_000, max_events=100
    )

    assert len(trace.events) == 100
    assert trace.loss.dropped_events > 0
    assert trace.end_ns == trace.events["time_ns"][-1] < whole.end_ns
    assert np.array_equal(trace.events["kind"], whole.events["kind"][:100])
    assert Kind.RELEASE in trace.events["kind"]
