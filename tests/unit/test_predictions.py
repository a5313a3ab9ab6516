"""Predictions of cells: stored before the first launch or refused, made from anchors alone, and judged."""

import contextlib
import json
import math
import sqlite3
from dataclasses import replace

import pytest
from synthetic import make_cell, make_interpreter, make_machine, make_settings

from headway.errors import HeadwayError, StoreError
from headway.lab.design import Errors, Order, below
from headway.lab.experiments import experiment
from headway.lab.judging.foretold import errors, off, orders
from headway.lab.judging.open_claims import open_claims, telling_cells
from headway.lab.judging.verdicts import judge
from headway.lab.kept.launched import Launch
from headway.lab.kept.predictions import Prediction, Span
from headway.lab.kept.results import CellResult, read_run
from headway.lab.kept.store import Store
from headway.lab.launching.answers import Listener
from headway.lab.launching.session import Session
from headway.lab.plan import Plan, make_plan
from headway.lab.predicting.echo import Predictor, scenario_text
from headway.lab.stats import Interval
from headway.report import run_to_json
from headway.report.lab.predicted import predicted_tables
from headway.sim import calibration
from headway.sim.parse import parse

GIL = make_interpreter()
NAME = "predictions"
EXPERIMENT = experiment(NAME)
ALONE = make_cell(NAME, "server alone", GIL.id, "same", setting="0 CPU threads", params={"cpu": 0})
COUNTING = make_cell(NAME, "counting alone", GIL.id, "same", setting="1 CPU thread", params={"cpu": 1})
NONE, FAIR = (
    make_cell(NAME, series, GIL.id, "split", setting="1 CPU thread", params={"cpu": 1, "duration_s": 0.5, **more})
    for series, more in (("no policy", {}), ("fair", {"policy": "fair"}))
)
CELLS = (ALONE, COUNTING, NONE, FAIR)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "results.sqlite", create=True) as opened:
        yield opened


def begun(store, cells=CELLS):
    return store.new_run(make_settings(launches=3, interpreters=(GIL,), experiments=(NAME,)), cells)


def made(cell, median=200.0, **more):
    figures = {"requests_per_s": Span(median, 0.9 * median, 1.1 * median), **more}
    return Prediction(cell.key, figures, "1.0", {"taken_at": "2026-11-25T00:00:00+00:00"}, {"python_ns": 900.0})


def launch(**samples):
    return Launch("ok", samples={metric: [value] for metric, value in samples.items()}, wall_s=1.0)


# ---------------------------------------------------------------- the store
def test_a_prediction_comes_back_as_it_was_written_with_its_time(store):
    """A prediction comes back with its figures, its version, its calibration and what it rests on."""
    run_id = begun(store)
    store.add_prediction(run_id, made(NONE))
    store.add_launch(run_id, NONE.key, 0, launch(requests_per_s=210.0))

    (found,) = store.predictions(run_id).values()

    assert found.figures["requests_per_s"] == Span(200.0, 180.0, pytest.approx(220.0))
    assert (found.version, found.rests_on) == ("1.0", {"python_ns": 900.0})
    assert found.calibration["taken_at"] == "2026-11-25T00:00:00+00:00"
    assert found.written_at
    assert read_run(store, run_id).results[NONE.key].prediction == found
    assert read_run(store, run_id).results[FAIR.key].prediction is None


def test_a_cell_that_was_measured_first_is_refused(store):
    """A prediction after a launch is refused, even if that launch failed, because its result may have been seen."""
    run_id = begun(store)
    store.add_launch(run_id, NONE.key, 0, Launch(reason="it does"))

    with pytest.raises(StoreError, match="the cell was measured before"):
        store.add_prediction(run_id, made(NONE))
    assert store.predictions(run_id) == {}


def test_nothing_is_predicted_twice_and_nothing_that_is_not_there(store):
    """A second prediction, or one of an unknown cell, is refused, and the first one stays."""
    run_id = begun(store, CELLS[:3])
    store.add_prediction(run_id, made(NONE))

    with pytest.raises(StoreError, match="the cell already has a prediction"):
        store.add_prediction(run_id, made(NONE, 300.0))
    with pytest.raises(StoreError, match="no such cell"):
        store.add_prediction(run_id, made(FAIR))
    assert store.predictions(run_id)[NONE.key].figures["requests_per_s"].median == 200


def test_a_prediction_that_is_younger_than_a_launch_does_not_count(store):
    """A prediction that is younger than a launch does not count, whoever wrote it."""
    run_id = begun(store)
    store.add_prediction(run_id, made(NONE))
    store.add_launch(run_id, NONE.key, 0, launch(requests_per_s=210.0))
    with contextlib.closing(sqlite3.connect(store.path)) as db, db:
        db.execute("UPDATE predictions SET written_at = '2100-01-01T00:00:00.000000+00:00'")

    assert store.predictions(run_id) == {}


def test_a_store_without_predictions_is_read_and_written(store):
    """A store of an older version has no table of predictions, and reading leaves it so."""
    run_id = begun(store)
    with contextlib.closing(sqlite3.connect(store.path)) as db, db:
        db.execute("DROP TABLE predictions")

    with Store(store.path) as reading:
        assert reading.predictions(run_id) == {}
    with Store(store.path, write=True) as writing:
        writing.add_prediction(run_id, made(NONE))
        assert set(writing.predictions(run_id)) == {NONE.key}


@pytest.mark.parametrize("figure", ['{"median": 1, "low": 2, "high": 3}', '{"median": 1, "low": 0}', "3"])
def test_values_that_are_no_prediction_are_no_store_of_ours(store, figure):
    """A stored range that is not around its median is an error."""
    run_id = begun(store)
    store.add_prediction(run_id, made(NONE))
    with contextlib.closing(sqlite3.connect(store.path)) as db, db:
        text = f'{{"figures": {{"x": {figure}}}, "version": "", "calibration": {{}}, "rests_on": {{}}}}'
        db.execute("UPDATE predictions SET prediction = ?", (text,))

    with pytest.raises(StoreError):
        store.predictions(run_id)


# ---------------------------------------------------------------- a run
class Course:
    """A launcher and a predictor that record the order of their calls."""

    def __init__(self, limit=100, level=210.0):
        self.said, self.limit, self.level = [], limit, level

    def launcher(self, cells, block):
        if len(self.said) >= self.limit:
            raise KeyboardInterrupt
        self.said += [(cell.series, block) for cell in cells]
        return [launch(requests_per_s=self.level) for _ in cells]

    def predict(self, cells, anchors):
        self.said.append((tuple(cell.series for cell in cells), tuple(len(launches) for _, launches in anchors)))
        return [made(cell) for cell in cells]


def carry_out(store, run_id, course):
    plan = Plan("quick", 3, None, 1, 30.0, None, CELLS, ())
    session = Session(store, run_id, lambda _: None)
    session.carry_out(plan, course.launcher, predict=course.predict)
    session.end()


def test_anchors_are_launched_first_then_the_rest_is_predicted_then_launched(store):
    """The anchors are launched first, as planned; then the other cells are predicted, and then launched."""
    run_id, course = begun(store), Course()
    carry_out(store, run_id, course)

    assert sorted(course.said[:6]) == [
        (series, block) for series in ("counting alone", "server alone") for block in range(3)
    ]
    assert course.said[6] == (("no policy", "fair"), (3, 3))
    assert sorted(course.said[7:]) == [(series, block) for series in ("fair", "no policy") for block in range(3)]
    assert all(one.prediction for one in read_run(store, run_id).results.values() if one.cell in (NONE, FAIR))


@pytest.mark.parametrize("limit", [0, 3, 6, 7, 8, 10])
def test_a_run_that_is_cut_short_goes_on_with_what_was_predicted(store, limit):
    """A run that is cut anywhere predicts no cell twice or after a launch, and leaves none out."""
    run_id, first, second = begun(store), Course(limit), Course()
    with pytest.raises(KeyboardInterrupt):
        carry_out(store, run_id, first)
    before = store.predictions(run_id)
    carry_out(store, run_id, second)

    after = store.predictions(run_id)
    assert set(after) == {NONE.key, FAIR.key}
    assert all(after[key] == one for key, one in before.items())
    assert len([one for one in first.said + second.said if isinstance(one[0], tuple)]) == 1


def test_cells_that_were_launched_before_they_could_be_predicted_stay_without(store):
    """Cells that were launched before they could be predicted, as without a simulator, stay without a prediction."""
    run_id = begun(store)
    for cell in (ALONE, COUNTING, NONE):
        store.add_launch(run_id, cell.key, 0, launch(requests_per_s=210.0))
    carry_out(store, run_id, Course())

    assert set(store.predictions(run_id)) == {FAIR.key}


def test_anchors_come_along_whatever_placement_is_asked_for():
    """The anchors keep their place on one core, whatever placement is asked for."""
    plan = make_plan([EXPERIMENT], [GIL], make_machine(), size="quick", seed=1, placement="free")

    assert {cell.placement for cell in plan.cells if cell.label not in EXPERIMENT.anchors} == {"free"}
    assert [cell.label for cell in plan.cells if cell.placement == "same"] == list(EXPERIMENT.anchors)


# ---------------------------------------------------------------- claims
def judged(store, levels, predicted, launches=3):
    """Return a run whose cells gave these levels of requests/s, by series, in each launch."""
    run_id = begun(store)
    for cell in (NONE, FAIR):
        if cell.series in predicted:
            store.add_prediction(run_id, made(cell, predicted[cell.series]))
    for block in range(launches):
        for cell in (NONE, FAIR):
            one = launch(requests_per_s=levels[cell.series] * (1 + 0.001 * block))
            store.add_launch(run_id, cell.key, block, one)
    return read_run(store, run_id)


ERRORS = Errors(metric="requests_per_s", relation=below(1.06))
ORDER = Order(metric="requests_per_s", share=0.95)


@pytest.mark.parametrize(
    ("predicted", "outcome", "factor"),
    [
        ({"no policy": 200.0, "fair": 10_000.0}, "supported", 1.0),
        ({"no policy": 100.0, "fair": 20_000.0}, "refuted", 2.0),
        ({"no policy": 200.0}, "supported", 1.0),
        ({}, "not measured", None),
    ],
)
def test_the_median_error_is_held_against_its_bound(store, predicted, outcome, factor):
    """Twice as much and half as much are both errors of a factor of 2, and a cell without a prediction does not count."""
    run = judged(store, {"no policy": 200.0, "fair": 10_000.0}, predicted)

    (evidence,) = errors(run, EXPERIMENT, ERRORS, GIL.id)

    assert evidence.outcome == outcome
    assert set(evidence.cells) == {NONE.key, FAIR.key}
    assert f"{len(predicted)} of 2 cells" in evidence.what
    if factor:
        assert evidence.interval.value == pytest.approx(factor, rel=0.01)
        assert 1 <= evidence.interval.low <= evidence.interval.value <= evidence.interval.high


def test_one_launch_decides_nothing(store):
    """One launch has no interval, so it decides nothing."""
    run = judged(store, {"no policy": 200.0, "fair": 10_000.0}, {"no policy": 200.0, "fair": 10_000.0}, launches=1)

    assert [one.outcome for one in errors(run, EXPERIMENT, ERRORS, GIL.id)] == ["inconclusive"]


def answered(requests, samples):
    """Return a launch as the lab makes it of the agent's answers, with this many requests in all."""
    answers = [
        {"kind": "started", "started_monotonic_ns": 1, "pid": 1},
        *[{"kind": "sample", "part": 0, "metrics": {"requests_per_s": 200.0}}] * samples,
        {"kind": "end", "part": 0, "details": {"requests": requests}},
    ]
    listener = Listener(0, 1)
    listener.feed(b"".join(json.dumps(one).encode() + b"\n" for one in answers))
    assert listener.ended
    assert not listener.garbled
    (made_,) = listener.launches
    made_.status = "ok"
    return made_


def test_an_open_claim_about_errors_does_not_launch_the_anchors_again(store):
    """Anchors are telling, since predictions need them, but further launches of them change no prediction."""
    run = judged(store, {"no policy": 200.0, "fair": 1e4}, {"no policy": 200.0, "fair": 1e4}, launches=1)

    found = {one.id: one for one in open_claims(judge(run))}

    assert found["predictions/throughput-split"].cells == {NONE.key, FAIR.key}
    assert {ALONE.key, COUNTING.key} <= telling_cells(run)


@pytest.mark.parametrize(("requests", "counts"), [(1199, False), (1200, True)])
def test_launches_with_too_few_requests_tell_nothing(store, requests, counts):
    """Of four equal repetitions, one a warm-up, each must have had the least number of requests for a percentile."""
    cell = replace(NONE, variant=replace(NONE.variant, samples=3, warmups=1))
    run_id = begun(store, [cell])
    store.add_prediction(run_id, made(cell))
    store.add_launch(run_id, cell.key, 0, answered(requests, cell.variant.samples))
    result = read_run(store, run_id).results[cell.key]

    assert (off(result, "requests_per_s", least=300) is not None) == counts
    assert off(result, "requests_per_s").factor.value == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize(
    ("levels", "predicted", "outcome", "wrong"),
    [
        ({"no policy": 200.0, "fair": 9e3}, {"no policy": 100.0, "fair": 1e3}, "supported", 0),
        ({"no policy": 200.0, "fair": 9e3}, {"no policy": 1e3, "fair": 100.0}, "refuted", 1),
        ({"no policy": 200.0, "fair": 200.0}, {"no policy": 1e3, "fair": 100.0}, "inconclusive", 0),
        ({"no policy": 200.0, "fair": 9e3}, {"fair": 100.0}, "not measured", None),
    ],
)
def test_the_order_is_held_against_the_pairs_that_differ(store, levels, predicted, outcome, wrong):
    """A pair that the measurement does not tell apart decides nothing."""
    run = judged(store, levels, predicted)

    (evidence,) = orders(run, EXPERIMENT, ORDER, GIL.id)

    assert (evidence.outcome, evidence.count) == (outcome, wrong)


@pytest.mark.parametrize(
    ("told", "wrong", "outcome"),
    [(4, 0, "inconclusive"), (5, 0, "supported"), (10, 0, "supported"), (10, 1, "inconclusive"), (10, 3, "refuted")],
)
def test_a_few_pairs_that_lie_far_apart_do_not_support_the_order(store, monkeypatch, told, wrong, outcome):
    """Of ten pairs, five must be told apart to support the order, and one that is wrong does not refute 95 %."""
    cells = [
        make_cell(NAME, f"s{place}", GIL.id, "split", setting="1 CPU thread", params={"cpu": 1}) for place in range(5)
    ]
    run_id = begun(store, cells)
    for place, cell in enumerate(cells):
        store.add_prediction(run_id, made(cell, 100.0 + place))
        store.add_launch(run_id, cell.key, 0, launch(requests_per_s=100.0))
    # Which pairs differ is what the intervals of the ratios say.
    against, along = Interval(2.0, 1.9, 2.1, "welch"), Interval(0.5, 0.4, 0.6, "welch")
    same = Interval(1.0, 0.9, 1.1, "welch")
    ratios = iter([against] * wrong + [along] * (told - wrong) + [same] * (10 - told))
    monkeypatch.setattr(CellResult, "ratio_to", lambda *_: next(ratios))

    (evidence,) = orders(read_run(store, run_id), EXPERIMENT, ORDER, GIL.id)

    assert (evidence.outcome, evidence.count) == (outcome, wrong)


@pytest.mark.parametrize(
    ("levels", "predicted", "said"),
    [
        ({"no policy": 0.0, "fair": 0.0}, {"no policy": 1.0, "fair": 1.0}, "a launch measured 0, so there is no ratio"),
        ({"no policy": 200.0, "fair": 9e3}, {}, "there is no prediction to compare with"),
    ],
)
def test_launches_that_say_nothing_of_predictions_are_not_said_to_have_failed(store, levels, predicted, said):
    """The sentence of a claim tells why no prediction could be compared, where launches succeeded."""
    run = judged(store, levels, predicted)

    found = {one.claim.id: one for one in judge(run)}

    for name in ("throughput-split", "order"):
        verdict = found[f"predictions/{name}"]
        assert verdict.outcome == "not measured"
        assert said in verdict.sentence


def test_every_claim_is_judged_and_every_sentence_can_be_read(store):
    """Every claim is judged, and a claim without cells says so."""
    run = judged(store, {"no policy": 200.0, "fair": 9e3}, {"no policy": 190.0, "fair": 9e3})

    outcomes = {one.claim.id: one.outcome for one in judge(run)}

    assert outcomes["predictions/order"] == "supported"
    assert outcomes["predictions/throughput-split"] in {"supported", "at the limit"}
    assert outcomes["predictions/p99"] == "not measured"
    assert all(one.sentence for one in judge(run))


def test_reports_have_predicted_beside_measured(store):
    """Reports have the predicted beside the measured figure, as a table, and as JSON with the error."""
    run = judged(store, {"no policy": 200.0, "fair": 9e3}, {"no policy": 100.0})

    (table,) = predicted_tables(run, EXPERIMENT, list(run.results.values()))
    cells = {one["label"]: one["prediction"] for one in run_to_json(run)["cells"]}

    assert [row[1:4] for row in table.rows] == [
        ("no policy, 3.13", "100/s [90/s - 110/s]", "200/s"),
        ("fair, 3.13", "not predicted", "9,010/s"),
    ]
    assert cells["no policy, 1 CPU thread"]["off_by"]["requests_per_s"]["value"] == pytest.approx(2, rel=0.01)
    assert cells["fair, 1 CPU thread"] is None


# ---------------------------------------------------------------- the predictor
@pytest.fixture
def preset(monkeypatch):
    """Replace the measuring of costs by the preset's."""
    monkeypatch.setattr(calibration, "measure", lambda *_, **__: calibration.PRESET)


def predictor(say=lambda _: None):
    return Predictor(make_machine(), (GIL,), "quick", say)


@pytest.mark.usefixtures("preset")
def test_cells_are_predicted_from_the_anchors():
    """The predicted rate is about 190 requests/s beside one thread at 5 ms, and a multiple of that under fair.

    The predicted work is in units of that of the thread alone.
    """
    anchors = [(ALONE, [launch(requests_per_s=40_000.0)]), (COUNTING, [launch(work_per_s=50_000.0)])]

    none, fair = predictor()([NONE, FAIR], anchors)

    assert none.figures["requests_per_s"].median == pytest.approx(190, rel=0.1)
    assert fair.figures["requests_per_s"].median > 10 * none.figures["requests_per_s"].median
    assert 0.9 * 50_000 < none.figures["work_per_s"].median < 50_000
    assert "latency_p99_s" not in none.figures  # too few requests: a hundred
    assert none.calibration["taken_at"] == calibration.PRESET.taken_at
    assert none.rests_on["anchor_requests_per_s"] == pytest.approx(40_000)
    parse(none.rests_on["scenario"], name="again")


@pytest.mark.usefixtures("preset")
def test_without_the_server_alone_nothing_is_predicted():
    """Without a measurement of the server alone, no cell is predicted, and each one says so."""
    said = []

    assert predictor(said.append)([NONE], [(ALONE, [Launch(reason="it does")])]) == []
    assert said == ["nothing is predicted for no policy, 1 CPU thread, split: the server alone was not measured"]


@pytest.mark.usefixtures("preset")
def test_a_policy_that_is_not_there_cannot_be_predicted():
    """A policy that does not exist is an error, as in any other scenario."""
    cell = make_cell(NAME, "x", GIL.id, "split", params={"cpu": 1, "duration_s": 0.1, "policy": "none such"})

    with pytest.raises(HeadwayError):
        predictor()([cell], [(ALONE, [launch(requests_per_s=40_000.0)])])


def test_the_scenario_is_the_workload():
    """The scenario has the workload's threads, interval, policy and placement."""
    text = scenario_text(
        cpu=4, python_ns=1000, placement="split", cores=2, interval_s=0.0005, policy="fair", duration_s=2.0
    )

    scenario = parse(text, name="x")

    assert [(role.name, role.threads) for role in scenario.roles] == [("server", 1), ("cpu", 4)]
    assert (scenario.processes[0].switch_interval_ns, scenario.processes[0].policy) == (500_000, "fair")
    assert (scenario.placement, scenario.duration_ns) == ("split", 2_000_000_000)
    assert math.isclose(sum(one.times.numbers[0] for one in scenario.roles[0].program if one.times), 1000)
