"""The options of a policy in a trace: in its file, in the report's heading, and in JSON."""

import pytest
from made_traces import MS
from told_traces import convoy

from headway.report.trace.heading import trace_lines
from headway.traces.analysis import analyse, as_json
from headway.traces.policy_options import PolicyOptions
from headway.traces.reader import read
from headway.traces.writer import write

BOTH = PolicyOptions((("compute_percent", 90), ("low", -1)), (("yield", 1),))


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", None),
        (";", PolicyOptions()),
        ("compute_percent=90 low=-1;yield=1", BOTH),
        (";yield=1", PolicyOptions((), (("yield", 1),))),
        ("a=b=3;", PolicyOptions((("a=b", 3),), ())),
        ("compute_percent=90", None),
        ("compute_percent;", None),
        ("=3;", None),
        ("a=;", None),
    ],
)
def test_a_text_that_is_no_list_of_options_tells_nothing(text, options):
    """Without its semicolon the text is not known to be whole; a name of a user's own policy may make it unreadable."""
    assert PolicyOptions.parse(text) == options


@pytest.mark.parametrize("options", [None, PolicyOptions(), BOTH])
def test_a_file_keeps_the_options(tmp_path, options):
    """The reader returns those that were written."""
    trace = convoy(policy="fair", policy_options=options)

    assert read(write(trace, tmp_path / "x.hwt")).process.policy_options == options


def test_options_that_do_not_fit_are_not_written(tmp_path):
    """A part of them would be taken for all."""
    many = PolicyOptions((("n" * 600, 1),), ())

    trace = convoy(policy="fair", policy_options=many)
    assert read(write(trace, tmp_path / "x.hwt")).process.policy_options is None


@pytest.mark.parametrize(
    ("options", "told"),
    [(None, "fair"), (PolicyOptions(), "fair"), (BOTH, "fair (compute_percent=90, low=-1)")],
)
def test_the_heading_tells_the_options_that_differ(options, told):
    """Those at their presets are not told, and neither are those that are not known."""
    trace = convoy(policy="fair", policy_options=options, policy_ended_ns=30 * MS)

    assert next(trace_lines(analyse(trace))).endswith(f"under the policy {told} until 30 ms")


def test_json_has_the_options():
    """Null tells that there was no policy, or that its options are not known."""
    found = as_json(analyse(convoy(policy="fair", policy_options=BOTH)))["process"]["policy_options"]

    assert found == {"changed": {"compute_percent": 90, "low": -1}, "presets": {"yield": 1}}
    assert as_json(analyse(convoy()))["process"]["policy_options"] is None
