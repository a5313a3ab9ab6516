"""Rankings of changes where the replay without a change is far from the trace: nothing is promised of them."""

import io
import math
from dataclasses import replace

import numpy as np
import pytest
from made_turns import MS, trace_of, turn
from rich.console import Console

from headway.cli import whatif_view
from headway.sim import ranking
from headway.sim.machine import load
from headway.sim.replay.change import Change, Shorten
from headway.sim.replay.learn import learn
from headway.sim.replay.measured import Measured
from headway.sim.whatif import Prediction, RolePrediction, Span
from headway.traces.model import Frame, Kind

COSTS = load("preset")


def role_of(factor, *, turns=900, run_share=0.01, computing=1.0, after=20.0):
    """Return a role of 20 turns a second, whose replay without a change has `factor` times as many.

    Args:
        factor: The turns of the replay without a change, over those of the trace.
        turns: The turns in the trace.
        run_share: The time with the GIL in the trace, as a share.
        computing: The time with the GIL of the replay without a change, over that of the trace.
        after: The turns a second that are predicted.
    """
    measured = Measured(
        turns, 20.0, p50_ns=None, p99_ns=None, run_share=run_share, held_share=run_share, turns_error=0.1
    )
    rates, runs = Span(after, after, after), Span(run_share, run_share, run_share)
    identity = {"turns_per_s": factor, "run_share": computing}
    return RolePrediction("sync", measured, rates, None, None, runs, identity)


@pytest.mark.parametrize(("factor", "worth"), [(1.45, 0.0), (0.7, 0.0), (1.2, 0.3), (1.33, 0.3)])
def test_a_gain_within_the_error_of_the_replay_is_none(factor, worth):
    """A replay with 1.45 of the turns cannot tell a third more of them; one that is near the trace, or nearer, can."""
    role = role_of(factor, after=20.0 * math.exp(0.3))
    assert ranking._worth(Prediction(Change(), (role,), (), ())) == pytest.approx(worth)


@pytest.mark.parametrize(
    ("turns", "p99_ms", "helps"),
    [
        (Span(30.0, 15.0, 60.0), Span(50, 45, 55), False),
        (Span(30.0, 21.0, 60.0), Span(50, 45, 55), True),
        (Span(20.0, 15.0, 25.0), Span(30, 17, 51), False),
        (Span(20.0, 15.0, 25.0), Span(30, 17, 49), True),
    ],
    ids=["turns, no change", "turns", "p99, no change", "p99"],
)
def test_a_gain_whose_interval_has_the_figure_of_the_trace_is_none(turns, p99_ms, helps):
    """A prediction that may as well be no change at all does not help; 20 turns a second and a p99 of 50 ms were traced."""
    measured = Measured(900, 20.0, p50_ns=None, p99_ns=50e6, run_share=0.01, held_share=0.01, turns_error=0.1)
    p99 = Span(*(1e6 * one for one in (p99_ms.value, p99_ms.low, p99_ms.high)))
    role = RolePrediction("sync", measured, turns, None, p99, None, {})
    assert (ranking._worth(Prediction(Change(), (role,), (), ())) > ranking.WORTH) == helps


@pytest.mark.parametrize(("loses", "helps"), [(12.0, True), (9.0, False)])
def test_a_change_by_which_a_role_loses_as_much_as_any_gains_does_not_help(loses, helps):
    """Three roles with twice the turns each do not make good that one has less than half of its own."""
    roles = [replace(role_of(1.0, after=40.0), role=f"role {n}") for n in "abc"]
    worth = ranking._worth(Prediction(Change(), (*roles, role_of(1.0, after=loses)), (), ()))
    assert (worth > ranking.WORTH) == helps
    assert worth > -ranking.WORTH


@pytest.mark.parametrize(
    ("role", "told"),
    [
        (role_of(20.19), ["sync has 20.19 of the turns"]),
        (role_of(0.4), ["sync has 0.40 of the turns"]),
        (role_of(1.9), []),
        (role_of(20.0, turns=60, run_share=0.0005), []),
        (role_of(20.0, turns=60, run_share=0.2), ["sync has 20.00 of the turns"]),
        (role_of(20.0, run_share=0.8), []),
        (role_of(1.0, run_share=0.8, computing=0.3), ["sync has 0.30 of the computing"]),
    ],
    ids=["more", "fewer", "near", "few turns", "few turns that take long", "computes", "computes less"],
)
def test_a_replay_that_misses_the_program_gives_no_ranking(role, told):
    """A role with a tenth of the turns, or of the time, must be near the trace: no effect is promised otherwise."""
    other = replace(role_of(1.0, turns=1200), role="other")
    ranked = [ranking.Ranked(Prediction(Change(policy="fair"), (role, other), (), ()), 0.5, (), ())]
    assert list(ranking.missed(ranked)) == [f"replayed without a change, {one} in the trace" for one in told]

    text = io.StringIO()
    Console(file=text, width=140).print(whatif_view.ranking(ranked, "app.hwt"))
    said = text.getvalue()
    assert said.startswith("no ranking: " if told else "changes that would help")
    assert ("headway report app.hwt" in said) == bool(told)
    assert ("one request may take many turns" in said) != bool(told)


def test_no_ranking_tells_all_that_may_be_the_reason():
    """The reasons that hold for every change are told, too, and what the model rests on, each once."""
    far = "replayed without a change, sync has 20.00 of the turns in the trace, so the model lacks something"
    busy = "threads held the GIL without running on a core for 70 % of the time"
    prediction = Prediction(Change(policy="fair"), (role_of(20.0),), ("other programs want 2 cores",), (busy, far))
    text = io.StringIO()
    Console(file=text, width=140).print(
        whatif_view.ranking([ranking.Ranked(prediction, 0.5, (), prediction.outside)], "app.hwt")
    )
    said = text.getvalue()
    assert said.startswith("no ranking: ")
    assert f"outside the model: {busy}\n" in said
    assert "rests on: other programs want 2 cores\n" in said
    assert said.count("sync has 20.00") == 1


def test_no_ranking_unites_what_the_changes_rest_on_and_tells_each_role_once():
    """Not every assumption matters for every change; a role that computes may have both its turns and its time told."""
    computing = role_of(1.0, run_share=0.8, computing=0.3)
    other = replace(role_of(1.0, turns=1200), role="sync too")
    outside = (
        "replayed without a change, sync computes 0.30 of what it did in the trace: the model lacks something",
        "replayed without a change, sync has 20.00 of the turns in the trace, so the model lacks something",
        "replayed without a change, sync too has 1.40 of the turns in the trace, so the model lacks something",
    )
    ranked = [
        ranking.Ranked(Prediction(change, (computing, other), rests_on, outside), 0.5, (), outside)
        for change, rests_on in ((Change(gil=False), ("a", "b")), (Change(policy="fair"), ("b", "the GIL's")))
    ]
    text = io.StringIO()
    Console(file=text, width=140).print(whatif_view.ranking(ranked, "app.hwt"))
    said = text.getvalue()
    assert [line for line in said.splitlines() if line.startswith("rests on: ")] == [
        f"rests on: {one}" for one in ("a", "b", "the GIL's")
    ]
    assert said.count(" sync has ") + said.count(" sync computes ") == 1
    assert said.count("sync too has 1.40") == 1


def test_no_change_misses_nothing():
    """Where there is no change to try, there is no replay that could be far from the trace."""
    assert ranking.missed([]) == ()


# ---------------------------------------------------------------------------- lines
def waiting_behind(*, forced, every=1):
    """Return the model of a thread that holds the GIL for 3 ms at a time, while another one waits; one line ends each hold.

    Two functions call that line in turn. With `forced`, a hold is preempted there, and another line ends it. There are 200
    rounds, and such a hold in one of `every` of these.
    """
    rows = []
    for nth, at in enumerate(range(0, 1_000_000, 5_000)):
        if nth % every:
            rows += turn(at, 0, holds_us=5, stack=6)
            continue
        rows += [(at, 0, Kind.ACQUIRE, 0), (at + 500, 1, Kind.WAIT, 5)]
        rows += [(at + 3_000, 0, Kind.RELEASE, 3 + nth // every % 2, forced), (at + 3_000, 1, Kind.ACQUIRE, 0)]
        rows += [(at + 3_020, 1, Kind.RELEASE, 5)]
        rows += turn(at + 3_100, 0, holds_us=5, stack=6) if forced else []
    functions = [Frame("app.py", line, f"step_{line}") for line in (10, 20)]
    call = Frame("/venv/lib/python3.11/site-packages/engine.py", 7, "Engine.run")
    frames = (Frame("", 0, "?"), *functions, call, Frame("app.py", 30, "tick"), Frame("app.py", 40, "rest"))
    trace = trace_of(rows, frames=frames, until_ns=1_000 * MS)
    stack_parent, stack_frame = np.array([0, 0, 0, 1, 2, 0, 0]), np.array([0, 1, 2, 3, 3, 4, 5])
    return learn(replace(trace, stack_parent=stack_parent, stack_frame=stack_frame), COSTS)


def test_holds_that_threads_wait_for_but_that_show_no_line_are_named():
    """A ranking does not shorten holds that end by themselves: it names them, and the command that does."""
    model = waiting_behind(forced=False)
    assert not any(one.shorten for one in ranking._candidates(model))

    (told,) = ranking.untried(model, "my app.hwt")

    assert told.startswith("50 % of all waiting for the GIL happened in holds that ended in `step_")
    assert told.endswith("headway whatif 'my app.hwt' --shorten /venv/lib/python3.11/site-packages/engine.py:7=0.5")
    text = io.StringIO()
    ranked = [ranking.Ranked(Prediction(Change(policy="fair"), (role_of(1.0),), (), ()), 0.5, (), ())]
    Console(file=text, width=400).print(whatif_view.ranking(ranked, "my app.hwt", [told]))
    assert f"not tried: {told}\n" in text.getvalue()


def test_a_line_is_one_line_whoever_calls_it():
    """The preempted holds of two callers, fewer than ten of each, count together; then nothing is left out."""
    model = waiting_behind(forced=True, every=10)
    tried = [one for change in ranking._candidates(model) for one in change.shorten]
    assert tried == [Shorten("/venv/lib/python3.11/site-packages/engine.py", 7, 0.5)]
    assert ranking.untried(model, "app.hwt") == ()
