"""When the programs of bench/ call a target missed: beyond doubt, and also if there was nothing to measure."""

import types

import advise_corpus
import doubt
import pytest
import trace_overhead

# ---- doubt ----


@pytest.mark.parametrize(
    ("count", "total", "is_more"), [(10, 200, False), (19, 200, False), (20, 200, True), (1, 1, False), (0, 0, False)]
)
def test_a_count_is_above_a_share_only_beyond_chance(count, total, is_more):
    """At a true share of 5 %, 200 sessions often have 11 to 19 cases; 20 are more than that."""
    assert doubt.is_more_often(count, total, 0.05) is is_more


@pytest.mark.parametrize(
    ("values", "is_above"),
    [([0.1] * 5 + [-0.1] * 5, False), ([1.0, 1.1, 0.9, 1.0], True), ([0.3, -0.1, 0.2], False), ([1.0], False)],
)
def test_a_mean_is_above_zero_only_beyond_doubt(values, is_above):
    """A mean above 0 counts if the values agree on it; one value alone never does."""
    assert doubt.is_above_zero(values) is is_above


# ---- trace_overhead ----


def test_a_tool_that_fails_misses_the_target_if_it_is_headway(capsys):
    """A row with a reason in place of figures is a miss of Headway, and none of another tool."""
    bare = [trace_overhead.Launch(1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0)] * 6
    interpreter = types.SimpleNamespace(name="3.13", version="3.13.0")

    def missed(tool):
        return trace_overhead.rows("echo-1", interpreter, {"bare": bare, tool: []}, [], {tool: "failed: no reply"})

    assert missed("headway") is True
    assert capsys.readouterr().out.splitlines()[-1].endswith("failed: no reply  MISSED")
    assert missed("py-spy") is False


# ---- advise_corpus ----


def judged(over_best=(1.0, 1.0, 1.0), outcome="clear"):
    """Return a function of the corpus with its verdict."""
    return {
        "function": "json.dumps", "verdict": "serial", "best": "threads", "over_best": list(over_best),
        "outcome": outcome, "spent_s": 20.0, "held": 1.0, "call_s": 0.01, "speed_up": 1.0, "exhaustive": {},
    }  # fmt: skip


def test_advice_that_fails_is_lost(capsys):
    """A function without advice counts in the total, as a loss, and stands among the first lines."""
    advise_corpus.report([judged()] * 3, {"csv.parse": "the launch hung"})

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "lost: csv.parse: failed: the launch hung"
    assert lines[1].startswith("3 of 4 verdicts within 5 % of the best")


@pytest.mark.parametrize(
    ("found", "failed", "is_missed"),
    [
        ([judged()] * 36 + [judged((1.2, 1.1, 1.3), "unsure")] * 4, 0, False),
        ([judged()] * 30 + [judged((1.2, 1.1, 1.3), "unsure")] * 4, 6, True),
        ([judged()] * 39 + [judged((1.2, 1.1, 1.3))], 0, True),
        ([], 1, False),
    ],
)
def test_the_corpus_misses_its_target_beyond_doubt(found, failed, is_missed):
    """More losses than chance makes of 5 %, or a wrong verdict that sounded sure, miss the target."""
    assert advise_corpus.report(found, {f"f{number}": "no" for number in range(failed)}) is is_missed
