"""Predictions from a trace that was recorded under a policy: the replay without a change has that policy and its options."""

from dataclasses import replace

import pytest
from made_traces import made_process
from made_turns import trace_of, turn

from headway.errors import ScenarioError
from headway.native import Policy, PolicyOption, policies
from headway.sim import ranking
from headway.sim.machine import load
from headway.sim.replay import scheduled
from headway.sim.replay.change import NOTHING, Change, policy_of, specify
from headway.sim.replay.learn import learn
from headway.sim.replay.trace import predicted_trace
from headway.sim.scenario import STOCK
from headway.sim.whatif import predict
from headway.traces.policy_options import PolicyOptions

COSTS = load("preset")
FAIR = next(one for one in policies()[0] if one.name == "fair")
ENGINE = policies()[1]


def options(**changed):
    """Return the options of `fair` and of the engine as a trace has them, with some that are not at their presets."""
    presets = {one.name: one.preset for one in (*FAIR.options, *ENGINE) if one.name not in changed}
    return PolicyOptions(tuple(changed.items()), tuple(presets.items()))


def model_of(policy, **changes):
    """Return the model of a trace of half a second, in which two threads take turns of 10 us under a policy."""
    rows = [row for n in range(100) for row in turn(n * 5_000, n % 2, holds_us=10, stack=1 + n % 2)]
    trace = trace_of(rows)
    return learn(replace(trace, process=replace(trace.process, policy=policy, **changes)), COSTS)


def had(model, change=NOTHING):
    """Return the policy's own options with a change, by name."""
    return dict(zip((one.name for one in FAIR.options), policy_of(model, change)[1].options, strict=True))


def policies_tried(model):
    return {one.policy for one in ranking._candidates(model)} - {None}


def test_a_trace_that_a_policy_scheduled():
    """The model begins with that policy, so that no policy and another one are candidates."""
    assert policies_tried(model_of("")) == {"fair"}
    assert policies_tried(model_of("fair")) == {STOCK}
    assert policies_tried(model_of("priority")) == {STOCK, "fair"}
    model = model_of("fair", policy_options=options())
    assert not model.outside
    assert not [one for one in model.rests_on if "fair" in one.text]
    assert [gil.policy != 0 for gil in specify(model, NOTHING, COSTS, 1, 10**9, cores=2)[0].gils] == [True]
    assert [gil.policy for gil in specify(model, Change(policy=STOCK), COSTS, 1, 10**9, cores=2)[0].gils] == [0]


def test_the_options_of_the_trace_stay_unless_a_change_sets_them():
    """A change that names the same policy keeps them, too; one that names another policy has that one's presets."""
    model = model_of("fair", policy_options=options(compute_percent=90))
    (line,) = (
        one for one in model.rests_on if "the policy fair had compute_percent=90 while the trace was" in one.text
    )

    assert line.of_gil
    assert not model.outside
    assert had(model)["compute_percent"] == had(model, Change(policy="fair"))["compute_percent"] == 90
    changed = had(model, Change(options=(("latency_us", 9000),)))
    assert (changed["compute_percent"], changed["latency_us"]) == (90, 9000)
    assert had(model, Change(policy="fair", options=(("compute_percent", 20),)))["compute_percent"] == 20
    assert policy_of(model, Change(policy="priority"))[1] == policy_of(model_of(""), Change(policy="priority"))[1]


def test_the_engines_options_of_the_trace_stay_as_far_as_they_are_simulated():
    """The watchdog is not missed in a replay; what the operating system did for an option is, and a line says so."""
    model = model_of("fair", policy_options=options(**{"spin_us": 7, "yield": 0, "watchdog_ms": 0, "os_slice_us": 100}))

    chosen = policy_of(model, NOTHING)[1]
    assert (chosen.spin_ns, chosen.yields) == (7_000, False)
    (line,) = model.outside
    assert line.startswith(
        "the option os_slice_us=100, with which the trace was recorded, concerns the operating system"
    )


def test_options_of_an_older_trace_are_not_known():
    """The model begins with the usual ones, and a line says that this may be wrong."""
    model = model_of("fair")

    (line,) = model.outside
    assert line.startswith(
        "the trace does not tell the options of the policy fair: the model begins with the usual ones"
    )
    assert had(model) == {one.name: one.preset for one in FAIR.options}


def test_options_that_this_version_lacks_are_told():
    """Another version may have had an option, or a value, that this one has not: the rest is replayed."""
    model = model_of("fair", policy_options=options(compute_percent=900, latency_us=9000, gone=1))

    assert model.outside == ("the policy fair of this version has no compute_percent=900 and gone=1, as in the trace",)
    assert had(model)["latency_us"] == 9000


def test_a_preset_of_another_version_is_replayed():
    """The program ran under that value, whichever preset it was then."""
    recorded = PolicyOptions((), (("compute_percent", 30), ("latency_us", 42000)))

    assert had(model_of("fair", policy_options=recorded))["compute_percent"] == 30


def test_a_predicted_trace_has_the_options():
    """A trace of the predicted run can be replayed in turn."""
    model = model_of("fair", policy_options=options(compute_percent=90))
    made = predicted_trace(model, Change(options=(("latency_us", 9000),)), COSTS, cores=2, length_ns=10**8)

    assert dict(made.process.policy_options.changed) == {"compute_percent": 90, "latency_us": 9000}
    assert predicted_trace(model, Change(policy=STOCK), COSTS, cores=2, length_ns=10**8).process.policy_options is None


def test_a_trace_that_a_users_own_policy_scheduled_is_refused():
    """Its name does not tell where it is, and a replay under another policy would be of another program."""
    with pytest.raises(ScenarioError, match="under the policy mine, which does not come with Headway") as caught:
        model_of("mine", policy_options=options())
    assert "name its library, as in `--policy ./mine.so" in caught.value.hint


def test_a_users_own_policy_is_that_of_the_trace_if_its_name_is(monkeypatch):
    """The library that a user names is the policy of the replay, with the options of the trace."""
    mine = Policy("mine", "", "", "", (PolicyOption("turn_us", 1, 9, 5, ""),))
    monkeypatch.setattr(scheduled, "find", lambda path: (1, mine))
    process = made_process(policy="mine", policy_options=PolicyOptions((("turn_us", 7),), ()))

    found = scheduled.scheduled(process, "./mine.so")
    assert (found.policy, found.options, found.outside) == ("./mine.so", (("turn_us", 7),), ())
    with pytest.raises(ScenarioError, match="under the policy other"):
        scheduled.scheduled(replace(process, policy="other"), "./mine.so")


def test_a_policy_with_the_options_of_the_trace_changes_nothing():
    """The prediction of a change that names the policy of the trace is the trace's own figures."""
    model = model_of("fair", policy_options=options(compute_percent=90))
    (found,) = predict(model, [Change(policy="fair")], COSTS, cores=2, seeds=1)

    assert all(one.turns_per_s.value == pytest.approx(one.measured.turns_per_s, rel=0.01) for one in found.roles)
