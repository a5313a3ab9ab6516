"""Predictions: the costs that they use, changes that cannot be replayed, and runs that are cut."""

import datetime as dt
import io
import json
import math
import os
import re
import shlex
from dataclasses import replace
from unittest.mock import Mock

import pytest
from made_turns import trace_of, turn
from rich.console import Console

from headway.cli import whatif_view
from headway.cli.main import main, parser
from headway.errors import ScenarioError
from headway.host.machine import this_machine
from headway.sim import calibration, ranking, whatif
from headway.sim.machine import from_json, kept, load
from headway.sim.replay import change
from headway.sim.replay.change import NOTHING, Change, Shorten
from headway.sim.replay.learn import learn
from headway.sim.replay.measured import Measured
from headway.sim.replay.window import overview_of, window
from headway.sim.whatif import Prediction, RolePrediction, Span, predict
from headway.traces.model import Frame, Kind

COSTS = load("preset")


def model_of():
    """Return the model of a trace of half a second, in which two threads take turns of 10 us."""
    rows = [row for n in range(100) for row in turn(n * 5_000, n % 2, holds_us=10, stack=1 + n % 2)]
    return learn(trace_of(rows), COSTS)


# ---------------------------------------------------------------------------- costs without a GIL
def measured(**interpreters):
    """Return the preset's costs, with other slow-downs."""
    values = calibration.PRESET.to_json()
    values["interpreters"] = {name: {"loop_ns": 50.0, "slow_down": one} for name, one in interpreters.items()}
    return values


def test_a_calibration_file_has_the_slow_down_of_the_one_that_is_kept(tmp_path):
    """The same calibration gives the same costs from a file and from the cache."""
    path = tmp_path / "c.json"
    path.write_text(json.dumps(calibration.PRESET.to_json()), encoding="utf-8")
    assert load(str(path)).slow_down == COSTS.slow_down == 0.1


@pytest.mark.parametrize(
    ("costs", "slow_down", "told"),
    [
        (from_json(measured(a=0.25), "file"), 0.25, "without a GIL comes from the calibration"),
        (from_json(measured(a=None), "file"), 0.1, "no free-threaded interpreter was measured: .* 10% longer"),
        (from_json(measured(), "file"), 0.1, "no free-threaded interpreter was measured"),
    ],
    ids=["measured", "a GIL only", "no interpreter"],
)
def test_a_prediction_without_a_gil_says_where_its_slow_down_comes_from(costs, slow_down, told):
    """A slow-down that was not measured is the preset's, and the prediction says so."""
    assert costs.known_slow_down == slow_down
    (found,) = predict(model_of(), [Change(gil=False)], costs, cores=2, seeds=1)
    assert any(re.search(told, one) for one in found.outside)


@pytest.mark.parametrize(
    ("loops_ns", "told"),
    [
        ({"3.13": 20.0, "3.13t": 38.0, "3.14": 19.0}, "a loop takes 1.9 times as long there"),
        ({"3.12": 20.0, "3.13t": 38.0}, "`headway lab single-thread` measures that"),
        ({}, "`headway lab single-thread` measures that"),
    ],
)
def test_a_prediction_without_a_gil_says_that_the_build_is_slower(loops_ns, told):
    """The figures do not have that: a program that was to be 2.0 times as fast was 1.3 to 1.5 times as fast."""
    interpreters = {name: {"loop_ns": loop_ns, "slow_down": None} for name, loop_ns in loops_ns.items()}
    costs = from_json(calibration.PRESET.to_json() | {"interpreters": interpreters}, "file")
    with_a_gil, without = predict(model_of(), [Change(), Change(gil=False)], costs, cores=2, seeds=1)

    assert any("runs the code of one thread more slowly" in one and one.endswith(told) for one in without.outside)
    assert not any("more slowly" in one for one in with_a_gil.outside)


@pytest.mark.parametrize(
    "interpreters", [[], {"3.13t": 1}, {"3.13t": {"slow_down": -1}}, {"3.13t": {"slow_down": "a"}}]
)
def test_a_calibration_file_with_no_slow_down(interpreters):
    """A file that was edited gives an error that names the value."""
    with pytest.raises(ScenarioError, match=r"interpreters.* of the calibration file is .*, expected"):
        from_json(measured() | {"interpreters": interpreters}, "file")


def test_a_prediction_says_whose_costs_it_uses(tmp_path, monkeypatch):
    """A trace that was copied needs the costs of its own machine, and does not name that, so a line says whose they are."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    here = replace(
        calibration.PRESET,
        machine=calibration._facts(this_machine()),
        taken_at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    )
    calibration.save(here)
    path = tmp_path / "other.json"
    path.write_text(json.dumps(here.to_json()), encoding="utf-8")

    def told(costs):
        (found,) = predict(model_of(), [NOTHING], costs, cores=2, seeds=1)
        return found.rests_on[0]

    of_here = f"the costs are this machine's of {here.taken_at[:10]}: a trace from another machine needs that one's (--calibration)"
    assert told(load()) == told(kept()) == of_here
    assert told(load("preset")) == "the costs are the preset's, which were measured on another machine"
    assert told(load(str(path))) == "the costs are those of other.json"


# ---------------------------------------------------------------------------- processes
def computing(threads):
    """Return a model with this many CPU-bound threads: the model of two, whose second role is given more threads."""
    rows = [row for n in range(100) for row in turn(n * 5_000, n % 2, holds_us=4_000 if n % 2 else 10, stack=1 + n % 2)]
    model = learn(trace_of(rows), COSTS)
    (cpu,) = (one for one in model.actors if one.role == "other")
    return replace(model, actors=(model.actors[0], *[cpu] * threads))


def test_more_threads_than_there_can_be_gils_do_not_become_processes():
    """A ranking leaves the change out, and the change itself is refused with the number."""
    model = computing(255)
    with pytest.raises(ScenarioError, match="turns 255 threads into processes, expected 254 at most"):
        predict(model, [Change(processes=True)], COSTS, cores=2, seeds=1)
    assert Change(processes=True) not in ranking._candidates(model)
    assert Change(processes=True) in ranking._candidates(computing(254))


@pytest.mark.parametrize("forced", [True, False])
def test_a_thread_that_is_preempted_is_cpu_bound_whatever_else_it_calls(forced):
    """A thread of which most time is in preempted holds becomes a process, even if its libraries yield very often."""
    rows = []
    for n in range(100):
        rows += turn(n * 10_000, 0, holds_us=10, stack=1)
        rows += [(n * 10_000 + 100, 1, Kind.ACQUIRE, 0), (n * 10_000 + 4_100, 1, Kind.RELEASE, 2, forced)]
        rows += [row for m in range(20) for row in turn(n * 10_000 + 5_000 + m * 200, 1, holds_us=20, stack=2)]
    found = change.becoming_processes(learn(trace_of(rows), COSTS), Change(processes=True))

    assert found == ({"other": 1} if forced else {})


@pytest.mark.parametrize("change", [Change(processes=True), Change(processes=True, threads=(("main", 3),))])
def test_no_thread_becomes_a_process_where_none_is_cpu_bound(change):
    """The change is refused: its prediction would be that of the unchanged program."""
    with pytest.raises(ScenarioError, match="no role is CPU-bound"):
        predict(model_of(), [change], COSTS, cores=2, seeds=1)


def test_a_source_that_was_edited_during_the_run_tells_no_calls(tmp_path):
    """The program ran the source that was there when it began, and a line says that the model does without it."""
    source = tmp_path / "app.py"
    source.write_text("time.sleep(0.5)\n")
    frames = (Frame("", 0, "?"), Frame(str(source), 1, "one"), Frame("app.py", 2, "two"))
    rows = [row for n in range(100) for row in turn(n * 5_000, n % 2, holds_us=10, stack=1 + n % 2)]
    start_ns = 1_700_000_000 * 10**9
    for since_start_ns, is_told in ((-1, False), (200_000_000, True)):
        os.utime(source, ns=(start_ns + since_start_ns,) * 2)
        model = learn(trace_of(rows, frames=frames, start_realtime_ns=start_ns), COSTS)
        text = "app.py was edited after the program began, so its lines do not identify its calls"
        assert any(one.text.endswith(text) for one in model.rests_on) == is_told


# ---------------------------------------------------------------------------- runs that are cut
def test_a_run_is_not_cut_before_it_has_figures():
    """A run of too many steps ends after the warm-up, and has rates."""
    (found,) = predict(model_of(), [Change(policy="fair")], COSTS, cores=2, seeds=1, most_steps=1)
    assert all(one.turns_per_s is not None and one.turns_per_s.value > 0 for one in found.roles)


def test_a_thread_that_begins_late_has_its_turns():
    """The whole window is replayed, so a thread that begins after some seconds has as many turns as in the trace."""
    rows = [row for n in range(1000) for row in turn(n * 5_000, 0, holds_us=10, stack=1)]
    rows += [row for n in range(600, 1000) for row in turn(n * 5_000 + 2_000, 1, holds_us=10, stack=2)]
    (found,) = predict(learn(trace_of(rows, until_ns=5_000_000_000), COSTS), [NOTHING], COSTS, cores=2, seeds=1)
    assert {one.role: round(one.identity["turns_per_s"], 1) for one in found.roles} == {"main": 1.0, "other": 1.0}


def late_and_convoyed(until_us=4_000_000):
    """Return the trace of a thread that waits for a CPU-bound one at each call, and of a third that begins at 60 %."""
    rows = [(0, 0, Kind.ACQUIRE, 0)]
    late_us = 0.6 * until_us
    for at in range(0, until_us - 12_000, 5_155):
        rows += [(at + 100, 1, Kind.WAIT, 2), (at + 5_101, 1, Kind.REQUEST, 0), (at + 5_103, 0, Kind.RELEASE, 1, True)]
        rows += [(at + 5_103, 0, Kind.WAIT, 1), (at + 5_110, 1, Kind.ACQUIRE, 0), (at + 5_130, 1, Kind.RELEASE, 2)]
        if at >= late_us:
            rows += [
                (at + 4_050, 2, Kind.WAIT, 1),
                (at + 5_131, 2, Kind.ACQUIRE, 0),
                (at + 5_151, 2, Kind.RELEASE, 1),
            ]
            late_us += 20_000
        rows.append((at + 5_155, 0, Kind.ACQUIRE, 0))
    return trace_of(rows, names=("burner", "stat", "late"), until_ns=until_us * 1_000, core_count=2)


def shortened(filename, *, forced=True, every=1):
    """Return the lines whose shortening is tried of a thread that is preempted at a line, or yields there, in some turns."""
    rows = [(500_000, 0, Kind.ACQUIRE, 0), (501_000, 0, Kind.RELEASE, 1, True)]
    for nth, at in enumerate(range(0, 400_000, 4_000)):
        if nth % every == 0:
            rows += [(at, 0, Kind.ACQUIRE, 0), (at + 1_000, 0, Kind.RELEASE, 1, forced)]
        rows += turn(at + 1_000, 0, waits_us=10, holds_us=50, stack=2)
    frames = (Frame("", 0, "?"), Frame(filename, 1, "burn"), Frame(filename, 2, "stat"))
    model = learn(trace_of(rows, frames=frames), COSTS)
    return [one.line for change in ranking._candidates(model) for one in change.shorten]


@pytest.mark.parametrize(("line", "lines"), [("total += work(1)", [1]), ("with guard_lock:", [])])
def test_a_line_that_takes_a_lock_is_not_to_be_shortened(tmp_path, line, lines):
    """The line of a hold is that of its end: at a lock, other lines ran in it."""
    source = tmp_path / "app.py"
    source.write_text(f"{line}\n")
    os.utime(source, (0, 0))

    assert shortened(str(source)) == lines


def test_a_line_at_which_a_thread_is_hardly_ever_preempted_is_not_to_be_shortened():
    """A thread that releases the GIL by itself at a line is preempted there by chance."""
    assert shortened("app.py", forced=False) == []


@pytest.mark.parametrize(("every", "lines"), [(4, [1]), (20, [])])
def test_a_line_with_few_preempted_holds_is_not_to_be_shortened(every, lines):
    """Fewer than ten preempted holds tell little of a line; of a hundred turns, each fourth or twentieth has one."""
    assert shortened("app.py", every=every) == lines


def test_a_ranking_without_any_figure_says_so():
    """After a deadlock that followed a few turns there is nothing to predict from, and no list of changes without a figure."""
    measured = Measured(
        turns=9, turns_per_s=2.0, p50_ns=None, p99_ns=None, run_share=0.01, held_share=0.01, turns_error=0.1
    )
    role = RolePrediction("teller", measured, Span(2.0, 1.0, 3.0), None, None, Span(0.01, 0.01, 0.02), {})
    ranked = [ranking.Ranked(Prediction(Change(policy="fair"), (role,), (), ()), 0.0, (), ())]

    assert str(whatif_view.ranking(ranked, "few.hwt")) == (
        "the trace has too little to predict from: no thread has 10 turns, or runs for 5 % of the time"
    )


@pytest.mark.parametrize(
    ("worths", "heading"),
    [
        ((0.5, 0.4), "changes that would help, best first"),
        ((0.5, 0.0, 0.0), "1 of 3 changes would help, best first"),
        ((0.0, -0.5), "no change is predicted to help; the least harmful first"),
    ],
)
def test_the_heading_of_a_ranking_counts_the_changes_that_help(worths, heading):
    """The list has changes without a gain, too, which its heading does not promise anything of."""
    measured = Measured(
        turns=90, turns_per_s=20.0, p50_ns=None, p99_ns=None, run_share=0.1, held_share=0.1, turns_error=0.1
    )
    role = RolePrediction("teller", measured, Span(20.0, 10.0, 30.0), None, None, Span(0.1, 0.1, 0.2), {})
    prediction = Prediction(Change(policy="fair"), (role,), (), ())
    text = io.StringIO()
    ranked = [ranking.Ranked(prediction, worth, (), ()) for worth in worths]
    Console(file=text, width=100).print(whatif_view.ranking(ranked, "app.hwt"))

    assert text.getvalue().splitlines()[0] == heading


def test_a_thread_that_begins_late_has_turns_in_a_run_that_is_cut():
    """A change that makes turns quicker is replayed for less time, in which each thread lives for the same share of it."""
    model = learn(late_and_convoyed(), COSTS)
    (found,) = predict(model, [Change(policy="fair")], COSTS, cores=2, seeds=1, most_steps=300_000)
    late = next(one for one in found.roles if one.role == "late")

    assert late.turns_per_s is not None
    assert late.turns_per_s.low < late.measured.turns_per_s < late.turns_per_s.high
    assert abs(late.identity["turns_per_s"] - 1) < 0.5
    assert not any("starves" in one for one in found.outside)
    assert not any("is replayed" in one or "are replayed" in one for one in found.rests_on)


def test_a_role_with_too_few_turns_in_a_run_that_is_cut_has_no_figure():
    """The prediction says so, and does not say that the role starves."""
    model = learn(late_and_convoyed(), COSTS)
    (found,) = predict(model, [Change(policy="fair")], COSTS, cores=2, seeds=1, most_steps=10_000)
    late = next(one for one in found.roles if one.role == "late")

    assert late.turns_per_s is None
    assert not any("starves" in one for one in found.outside)
    assert any(one.endswith("are replayed, which is too little for the turns of late") for one in found.rests_on)


def test_the_best_change_is_found_beside_a_thread_that_begins_late():
    """A report ranks the change that makes most turns quicker first, although its runs are cut before the thread began."""
    found = ranking.remedies(late_and_convoyed(), COSTS, cores=2, most_s=math.inf)
    assert [one.prediction.change for one in found] == [Change(policy="fair"), Change(interval_ns=500_000)]


def test_a_start_that_computes_in_one_thread_is_left_out():
    """Seconds at the start in which hardly any thread releases the GIL are not replayed."""
    rows = turn(0, 0, holds_us=1_990_000, stack=1)
    rows += [row for n in range(400, 1000) for row in turn(n * 5_000, 1, holds_us=10, stack=2)]
    trace = trace_of(rows, until_ns=5_000_000_000)
    since_ns, _ = window(trace, overview_of(trace))
    assert since_ns == 2_000_000_000


# ---------------------------------------------------------------------------- ranking
def test_a_pool_is_judged_by_what_it_computes():
    """A few turns a second of threads that compute tell less than their time: a change that doubles that is a gain."""
    measured = Measured(
        turns=20, turns_per_s=5.0, p50_ns=None, p99_ns=None, run_share=0.4, held_share=0.4, turns_error=0.1
    )
    role = RolePrediction("pool *", measured, Span(4.5, 4.0, 5.0), None, None, Span(0.8, 0.7, 0.9), {})
    assert ranking._worth(Prediction(Change(), (role,), (), ())) == pytest.approx(0.693, abs=0.001)


def test_a_replay_that_computes_far_more_than_the_trace_is_outside():
    """Other programs may have taken the cores of a CPU-bound thread while the trace was recorded."""
    measured = Measured(
        turns=4, turns_per_s=0.5, p50_ns=None, p99_ns=None, run_share=0.4, held_share=0.4, turns_error=0.1
    )
    for factor, told in (
        (1.4, []),
        (2.5, ["replayed without a change, cpu computes 2.50 of what it did in the trace: "]),
    ):
        role = RolePrediction("cpu", measured, None, None, None, None, {"run_share": factor})
        found = [one for one in whatif._limits(model_of(), Change(), [role], COSTS) if "computes" in one]
        assert [one.rpartition(": ")[0] + ": " for one in found] == told


@pytest.mark.parametrize("turns_per_s", [None, Span(0.5, 0.4, 0.6)], ids=["never", "every two seconds"])
def test_what_a_thread_that_seldom_yields_loses_counts(turns_per_s):
    """A CPU-bound role that computes half as much is a loss, whether or not it yields now and then."""
    measured = Measured(
        turns=4, turns_per_s=0.5, p50_ns=None, p99_ns=None, run_share=0.8, held_share=0.8, turns_error=0.1
    )
    role = RolePrediction("cpu", measured, turns_per_s, None, None, Span(0.4, 0.3, 0.5), {})
    assert ranking._worth(Prediction(Change(), (role,), (), ())) == pytest.approx(-0.693, abs=0.001)


@pytest.mark.parametrize(
    ("change", "run_share", "worth"),
    [
        (Change(), 0.98, 0.0),
        (Change(), 1.0, 0.0),
        (Change(), 0.49, -0.693),
        (Change(gil=False), 0.98, -2.303),
    ],
)
def test_fewer_turns_that_compute_as_much_are_no_loss(change, run_share, worth):
    """A CPU-bound role that is preempted less has fewer and longer turns; without a GIL, its time tells nothing."""
    measured = Measured(
        turns=900, turns_per_s=300.0, p50_ns=None, p99_ns=None, run_share=0.98, held_share=0.98, turns_error=0.1
    )
    shares = Span(run_share, run_share, run_share)
    role = RolePrediction("worker-*", measured, Span(30.0, 20.0, 40.0), None, None, shares, {})
    assert ranking._worth(Prediction(change, (role,), (), ())) == pytest.approx(worth, abs=0.001)


@pytest.mark.parametrize(("p99_ns", "worth"), [(450_000, 0.0), (4_500_000, 0.347)])
def test_a_p99_that_gets_shorter_by_microseconds_is_no_gain(p99_ns, worth):
    """Half of a p99 below a millisecond is within the errors of predictions, and no reason for a change."""
    measured = Measured(
        turns=400, turns_per_s=168.0, p50_ns=30e3, p99_ns=p99_ns, run_share=0.01, held_share=0.01, turns_error=0.1
    )
    p99 = Span(p99_ns / 2, p99_ns / 3, 0.9 * p99_ns)
    role = RolePrediction("reader", measured, Span(168.0, 160.0, 170.0), None, p99, None, {})
    assert ranking._worth(Prediction(Change(), (role,), (), ())) == pytest.approx(worth, abs=0.001)


# ---------------------------------------------------------------------------- roles that are left out
@pytest.mark.parametrize("change", [Change(without=("OTH",)), Change(threads=(("other", 0),))], ids=str)
def test_a_role_that_is_left_out_has_no_figures(change):
    """A role is left out by any words that name it, and by a number of 0 threads."""
    (found,) = predict(model_of(), [change], COSTS, cores=2, seeds=1)
    assert [one.role for one in found.roles] == ["main"]


# ---------------------------------------------------------------------------- words
def test_a_change_can_be_pasted_into_a_shell():
    """Names with spaces and quotes are read back as they were."""
    change = Change(
        policy="my policy.so",
        threads=(("worker *", 3),),
        without=("the user's",),
        shorten=(Shorten("my app.py", 42, 0.5),),
    )
    words = ["--policy", "my policy.so", "--threads", "worker *:3", "--without", "the user's"]
    assert shlex.split(str(change)) == [*words, "--shorten", "my app.py:42=0.5"]


# ---------------------------------------------------------------------------- shorter holds
def test_a_line_is_looked_for_once_and_not_for_each_thread_and_run(monkeypatch):
    """The time of a prediction does not grow with a search of all stacks for each thread and each seed."""
    search = Mock(wraps=change._stacks_with)
    monkeypatch.setattr(change, "_stacks_with", search)

    predict(model_of(), [Change(shorten=(Shorten("app.py", 1, 0.5),))], COSTS, cores=2, seeds=3)

    assert search.call_count == 1


@pytest.mark.parametrize(("preempted", "told"), [(1, True), (9, True), (10, False)])
def test_a_line_that_few_preempted_holds_show_is_outside_the_model(preempted, told):
    """A share that a few holds show, and that all others are assumed to have, is told with their number."""
    rows, at = [], 0
    samples = {95 - 9 * number for number in range(preempted)}
    for number in range(100):
        rows += turn(at, 0, holds_us=2_000, stack=2)
        if number in samples:
            rows[-1] = (at + 2_000, 0, Kind.RELEASE, 1, True)
            rows += turn(at + 2_100, 0, holds_us=10, stack=2)
        rows += turn(at + 2_500, 1, holds_us=10, stack=2)
        at += 5_000
    model = learn(trace_of(rows), COSTS)
    shorter, unchanged = predict(
        model, [Change(shorten=(Shorten("app.py", 1, 0.5),)), NOTHING], COSTS, cores=2, seeds=1
    )
    number = "1 preempted hold" if preempted == 1 else f"{preempted} preempted holds"
    text = f"how much of its time with the GIL main spends in app.py:1 is known from {number} only"

    assert (text in shorter.outside) is told
    assert text not in unchanged.outside


# ---------------------------------------------------------------------------- threads
def test_threads_that_would_not_fit_into_memory_are_refused(monkeypatch):
    """The error says how many threads are possible, and so many are."""
    model = model_of()
    length = len(model.actors[1].ops)
    monkeypatch.setattr(change, "_MOST_OPERATIONS", 3 * length + 1)
    with pytest.raises(ScenarioError, match=f"100 threads of other have {100 * length:,} operations") as caught:
        predict(model, [Change(threads=(("oth", 100),))], COSTS, cores=2, seeds=1)
    assert caught.value.hint == "about 3 threads of it are possible"
    assert predict(model, [Change(threads=(("oth", 3),))], COSTS, cores=2, seeds=1)


def test_a_role_that_begins_with_a_dash(capsys):
    """The name alone would be an option, so the error says how it is given; the words of a change are given so."""
    with pytest.raises(SystemExit):
        main(["whatif", "app.hwt", "--without", "-x"])
    assert "as in `--without=-x`" in capsys.readouterr().err
    arguments = parser("whatif").parse_args(["whatif", "app.hwt", *shlex.split(str(Change(without=("-x",))))])
    assert arguments.without == ["-x"]
