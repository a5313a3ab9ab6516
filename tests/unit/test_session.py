"""A run of a plan with a fake launcher: what is stored, reported, resumed and decided."""

import math
import random
from dataclasses import replace

import pytest
from synthetic import make_cell, make_interpreter, make_settings

from headway.lab.judging.assessed import assess
from headway.lab.kept.launched import Launch
from headway.lab.kept.results import read_run
from headway.lab.kept.store import Store
from headway.lab.launching import runner
from headway.lab.launching.session import Session
from headway.lab.plan import Plan
from headway.lab.sequential import FIRST_LOOK
from headway.report.lab.claimed import counted, legend

GIL = make_interpreter()
SERIAL, THREADS, ASYNCIO = (
    make_cell("cpu-bound", label, GIL.id, model=label) for label in ("serial", "threads", "asyncio")
)


class Paper:
    """A fake launcher: launches take a second each, and each value follows from cell and block."""

    def __init__(self, levels, spread=0.02, fails=(), limit=10_000):
        self.levels, self.spread, self.fails, self.limit = levels, spread, fails, limit
        self.launched = []

    def __call__(self, cells, block):
        return [self.one(cell, block) for cell in cells]

    def one(self, cell, block):
        if len(self.launched) == self.limit:
            raise KeyboardInterrupt
        self.launched.append((cell.key, block))
        if cell.label in self.fails:
            return Launch(reason="it does", wall_s=1.0)
        noise = random.Random(f"{cell.key} {block}").gauss(0, self.spread)
        return Launch("ok", samples={"work_s": [self.levels[cell.label] * math.exp(noise)]}, wall_s=1.0)


def plan(budget_s, cells=(SERIAL, THREADS, ASYNCIO)):
    return Plan("quick", FIRST_LOOK, budget_s, 1, 30.0, None, cells, ())


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "results.sqlite", create=True) as opened:
        yield opened


def carry_out(store, run_id, of_plan, launcher, report, **more):
    session = Session(store, run_id, report)
    session.carry_out(of_plan, launcher, **more)
    session.end()


def begun(store, budget_s, cells=(SERIAL, THREADS, ASYNCIO)):
    settings = make_settings(launches=FIRST_LOOK, budget_s=budget_s, interpreters=(GIL,), experiments=("cpu-bound",))
    return store.new_run(settings, cells)


def ran(store, launcher, budget_s=200.0):
    run_id, told = begun(store, budget_s), []
    carry_out(store, run_id, plan(budget_s), launcher, told.append)
    return read_run(store, run_id), told


def outcomes(run):
    return {name: one.outcome for name, one in assess(run).outcomes.items() if one.evidence}


def test_a_clear_difference_takes_the_first_look_only(store):
    """Clear differences take three launches of each cell: threads twice as slow, asyncio equal with little spread."""
    run, told = ran(store, Paper({"serial": 1.0, "threads": 2.0, "asyncio": 1.0}, spread=0.001))

    assert [len(one.launches) for one in run.results.values()] == [FIRST_LOOK] * 3
    assert outcomes(run)["cpu-bound/threads-not-faster"] == "supported"
    assert outcomes(run)["cpu-bound/asyncio-equal"] == "supported"
    assert run.header.complete
    assert told[-1].done == 9


def test_an_open_claim_gets_more_until_it_is_decided(store):
    """An open claim gets more launches until it is decided, and the cells of decided claims get none of them."""
    run, _ = ran(store, Paper({"serial": 1.0, "threads": 3.0, "asyncio": 1.02}, spread=0.03))

    had = {key.split("|")[1]: len(one.launches) for key, one in run.results.items()}
    assert had["threads"] == FIRST_LOOK
    assert had["asyncio"] == had["serial"] > FIRST_LOOK
    assert outcomes(run)["cpu-bound/asyncio-equal"] == "supported"


def test_an_experiment_is_told_with_what_is_known_of_it(store):
    """An experiment is reported after its launches, with all of them in the results."""
    run, told = ran(store, Paper({"serial": 1.0, "threads": 2.0, "asyncio": 1.0}, spread=0.001))

    (finished,) = [one for one in told if one.finished]
    assert finished.finished == "cpu-bound"
    assert sum(len(one.launches) for one in finished.results.results.values()) == 9
    assert outcomes(finished.results) == outcomes(run)


def test_launches_that_fail_are_stored_and_end(store):
    """A cell that always fails leaves its claim unmeasured, and the run goes on."""
    run, told = ran(store, Paper({"serial": 1.0, "threads": 2.0, "asyncio": 1.0}, spread=0.001, fails={"asyncio"}))

    assert told[-1].failed == len(run.failures) == FIRST_LOOK
    assert outcomes(run)["cpu-bound/asyncio-equal"] == "not measured"
    assert outcomes(run)["cpu-bound/threads-not-faster"] == "supported"


def test_a_resumed_run_counts_the_failures_before_the_cut(store):
    """Failed launches so far are those of the whole run."""
    run_id = begun(store, 200.0)
    levels = {"serial": 1.0, "threads": 2.0, "asyncio": 1.0}
    told = []
    with pytest.raises(KeyboardInterrupt):
        carry_out(store, run_id, plan(200.0), Paper(levels, spread=0.001, fails={"asyncio"}, limit=7), told.append)
    before = told[-1].failed
    again = []
    carry_out(store, run_id, plan(200.0), Paper(levels, spread=0.001), again.append)

    assert again[0].failed == before > 0


@pytest.mark.parametrize("limit", [0, 1, 5, 9, 11])
def test_a_run_that_is_cut_short_goes_on_to_the_same_end(store, limit):
    """A run that is cut anywhere launches nothing twice, and ends as it would have without the cut."""
    levels = {"serial": 1.0, "threads": 3.0, "asyncio": 1.02}
    whole, _ = ran(store, Paper(levels, spread=0.03))
    run_id = begun(store, 200.0)
    first, second = Paper(levels, spread=0.03, limit=limit), Paper(levels, spread=0.03)
    with pytest.raises(KeyboardInterrupt):
        carry_out(store, run_id, plan(200.0), first, lambda _: None)
    assert not store.find_run(run_id).complete
    carry_out(store, run_id, plan(200.0), second, lambda _: None)

    assert not set(first.launched) & set(second.launched)
    again = read_run(store, run_id)
    assert again.header.complete
    assert [(key, one.by_block("work_s")) for key, one in again.results.items()] == [
        (key, one.by_block("work_s")) for key, one in whole.results.items()
    ]


def test_a_complete_run_is_only_read_by_a_resume(store, tmp_path, monkeypatch):
    """A complete run with a budget is neither prepared nor launched again, whatever today's claims would ask for."""
    run, _ = ran(store, Paper({"serial": 1.0, "threads": 2.0, "asyncio": 1.0}))
    monkeypatch.setattr(runner, "ready_again", lambda *_, **__: pytest.fail("it is prepared again"))
    said = []
    again = runner.resume(run.id, store_path=tmp_path / "results.sqlite", say=said.append)

    assert said == [f"nothing to do: the run {run.id} is complete"]
    assert again.header == run.header
    assert again.results.keys() == run.results.keys()


def test_intervals_of_a_run_that_looks_again_are_wider(store):
    """A look among many covers 99.11 %, and a fixed number of launches 95 %."""
    run, _ = ran(store, Paper({"serial": 1.0, "threads": 2.0, "asyncio": 1.0}))
    fixed, _ = ran(store, Paper({"serial": 1.0, "threads": 2.0, "asyncio": 1.0}), budget_s=None)

    one, other = (found.results[THREADS.key].ratio_to(found.results[SERIAL.key], "work_s") for found in (run, fixed))
    assert (one.confidence, other.confidence) == (0.9911, 0.95)
    assert one.half_width > other.half_width


def test_the_first_look_of_an_experiment_leaves_its_claims_open(store):
    """The first look takes three launches of each cell, and the rest of the run goes on from there."""
    launcher = Paper({"serial": 1.0, "threads": 3.0, "asyncio": 1.02}, spread=0.03)
    run_id, told = begun(store, 200.0), []
    session = Session(store, run_id, told.append)

    session.carry_out(plan(200.0), launcher, first_look_of="cpu-bound")
    assert len(launcher.launched) == 9
    session.carry_out(plan(200.0), launcher)

    assert len(launcher.launched) > 9
    first, second = [one.news for one in told if one.finished]
    assert first is None
    assert "cpu-bound/asyncio-equal" in second


def ran_twice(store, launcher, interpreters, cells):
    """Run the first look of the first experiment, then a plan of these cells on these interpreters.

    Returns the run's id, what was reported, and what the first plan launched.
    """
    run_id, told = begun(store, 200.0), []
    session = Session(store, run_id, told.append)
    session.carry_out(plan(200.0), launcher, first_look_of="cpu-bound")
    first = list(launcher.launched)
    store.change_run(run_id, replace(store.find_run(run_id).settings, interpreters=interpreters), cells)
    session.carry_out(plan(200.0, cells), launcher)
    session.end()
    return run_id, told, first


def test_an_interpreter_that_comes_later_is_measured_like_the_others(store):
    """A later plan with more cells launches only those, and reports only what is new."""
    late = make_interpreter("3.14.0")
    more = [make_cell("cpu-bound", one.label, late.id, model=one.label) for one in (SERIAL, THREADS, ASYNCIO)]
    launcher = Paper({"serial": 1.0, "threads": 2.0, "asyncio": 1.0}, spread=0.001)
    run_id, told, first = ran_twice(store, launcher, (GIL, late), (SERIAL, THREADS, ASYNCIO, *more))

    assert len(first) == 9
    assert {key for key, _ in launcher.launched[9:]} == {one.key for one in more}
    run = read_run(store, run_id)
    assert [len(one.launches) for one in run.results.values()] == [FIRST_LOOK] * 6
    assert [one.news for one in told if one.finished] == [None]


def test_what_a_second_plan_has_not_got_goes_with_its_launches(store):
    """A newer interpreter that replaces the first look's leaves only its own cells in the run, live and read back."""
    late = make_interpreter("3.14.0")
    newer = [make_cell("cpu-bound", one.label, late.id, model=one.label) for one in (SERIAL, THREADS, ASYNCIO)]
    launcher = Paper({"serial": 1.0, "threads": 2.0, "asyncio": 1.02}, spread=0.03)
    run_id, told, _ = ran_twice(store, launcher, (late,), tuple(newer))

    run = read_run(store, run_id)
    assert {one.cell.interpreter for one in run.results.values()} == {late.id}
    assert outcomes(run) == outcomes([one for one in told if one.finished][-1].results)


def test_a_budget_that_ends_early_is_told(store):
    """A run whose budget ends early is complete, and names the experiments that were never begun."""
    other = make_cell("sleep", "serial", GIL.id)
    settings = make_settings(launches=FIRST_LOOK, budget_s=1.0, interpreters=(GIL,), experiments=("cpu-bound", "sleep"))
    run_id = store.new_run(settings, (SERIAL, other))
    carry_out(store, run_id, plan(1.0, (SERIAL, other)), Paper({"serial": 1.0}), lambda _: None)

    run = read_run(store, run_id)
    assert run.header.complete
    assert counted(run, assess(run).verdicts).doubts == (
        "the time was up before sleep began; a longer `--budget` helps",
    )


def test_the_report_says_when_a_run_gives_claims_no_more_launches(store):
    """A run with a budget leaves claims undecided that would need too many launches, and its report says so."""
    run, _ = ran(store, Paper({"serial": 1.0, "threads": 2.0, "asyncio": 1.0}))

    (said,) = [line for line in legend(run) if line.startswith("the run checked")]
    assert "gave no more launches to those that were decided or expected to need too many" in said
    assert "each interval is one of 99.11%" in said
    assert "all checks of one comparison together decide for a given side in 5 %" in said
