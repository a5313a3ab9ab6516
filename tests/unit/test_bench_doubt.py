"""When the programs of bench/ call a target missed: beyond doubt, and also if there was nothing to measure."""

import types

import advise_corpus
import doubt
import model_overhead
import pytest
import trace_overhead
import watch_overhead

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


# ---- watch_overhead ----


def pairs(rate, late=1.0, cores=0.01, count=3):
    """Return the pairs of a launch in which watching changes the figures by these factors."""
    off = {"rate": 1000.0, "late": 0.01}
    on = {"rate": 1000.0 * rate, "late": 0.01 * late, "watcher_cores": cores}
    return [{"off": off, "on": on, "off again": on}] * count


def test_a_launch_counts_once_however_many_pairs_it_has():
    """The interval is that of the launches: pairs of one process are not independent."""
    launches = [pairs(one, count=40) for one in (0.90, 0.95, 1.0, 1.0, 1.05, 1.10)]

    assert watch_overhead.ratio(launches, "on", "rate") == pytest.approx((1.0, 0.90, 1.10))


@pytest.mark.parametrize(
    ("service", "rate", "is_missed"),
    [("waitress", 0.98, True), ("waitress", 0.995, False), ("echo", 0.98, False), ("echo", 0.96, True)],
)
def test_watching_misses_its_target_where_every_launch_does(capsys, service, rate, is_missed):
    """A server may lose 1 % of its requests and the echo server 3 %; "off again" is never judged."""
    launches = [pairs(rate)] * 6

    assert watch_overhead.print_speed({service: {"off again": launches, "on": launches}}) is is_missed
    assert ("MISSED" in capsys.readouterr().out) is is_missed


@pytest.mark.parametrize(("more", "is_missed"), [(4000, False), (6000, True)])
def test_memory_misses_its_target_where_every_launch_does(more, is_missed):
    """The least of the watched launches must have 5 MB more than the most of the others."""
    off = [{"kib": 30_000 + one, "watcher_kib": 0} for one in (0, 100)]
    on = [{"kib": one["kib"] + more, "watcher_kib": 17_000} for one in off]

    assert watch_overhead.print_memory({"waitress": {"off": off, "on": on}}) is is_missed


# ---- model_overhead ----


def test_the_bare_call_is_the_median_of_all_launches(monkeypatch):
    """Each launch counts for the seconds of the bare call, not the last one alone."""
    bare_s = iter([0.001, 0.002, 0.009])

    def launched(*_, **__):
        value = next(bare_s)
        return [types.SimpleNamespace(status="ok", samples={"through_s": [2 * value], "bare_s": [value]})]

    monkeypatch.setattr(model_overhead, "run_launch", launched)
    interpreter = types.SimpleNamespace(id="3.13.0", executable="/usr/bin/python3")

    ratio, told_s = model_overhead.measure(interpreter, "serial", 3)

    assert (ratio.value, told_s) == pytest.approx((2.0, 0.002))
