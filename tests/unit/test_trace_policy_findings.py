"""The findings of traces under a policy: they do not advise what was on, nor blame what was off."""

from made_traces import MS
from told_traces import convoy, told

from headway.report.trace.heading import trace_lines
from headway.traces.analysis import analyse


def test_a_convoy_under_a_policy():
    """Neither the policy that was on nor a shorter switch interval is advised, and the cause does not name the interval."""
    one = told(convoy(policy="fair"))["convoy"]

    assert "as late as the policy fair or the cores let it after each return of reader" in one.cause
    assert "headway run" not in one.advice
    assert "setswitchinterval" not in one.advice


def test_a_convoy_under_a_policy_that_was_removed():
    """The cause does not blame a policy for the time after its end, and the heading tells that time."""
    analysis = analyse(convoy(policy="negkey", policy_ended_ns=30 * MS))

    (one,) = [each for each in analysis.findings if each.kind == "convoy"]
    assert "the cores let it (one switch interval after 30 ms, when the policy ended) after each return of" in one.cause
    assert next(trace_lines(analysis)).endswith("under the policy negkey until 30 ms")
