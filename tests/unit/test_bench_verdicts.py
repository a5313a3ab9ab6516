"""The verdicts of bench programs (losses, violations and misses), on made-up figures."""

import argparse
import dataclasses

import against
import chaos_soak
import crowd
import disk_hooks
import policy_corpus
import policy_table
import pytest
from policy_soak import Course

from headway.lab.stats import Interval


def interval(value, low, high):
    """Return an interval."""
    return Interval(value, low, high, "paired t")


# ---- against ----


def row(new, again=(1.0, 0.98, 1.02)):
    """Return a row of one figure."""
    return against.Row("3.13", "trace: echo-1", "rate", 5, interval(*again), interval(*new))


@pytest.mark.parametrize(
    ("new", "again", "expected"),
    [
        ((0.9, 0.85, 0.95), (1.0, 0.98, 1.02), True),
        ((0.9, 0.80, 1.01), (1.0, 0.98, 1.02), False),
        ((0.99, 0.985, 0.995), (1.0, 0.98, 1.02), False),
        ((1.1, 1.05, 1.15), (1.0, 0.98, 1.02), False),
    ],
)
def test_a_loss_is_below_old_beyond_doubt_and_noise(new, again, expected):
    """An interval that reaches 1, or a middle within the noise of the same build, is no loss."""
    assert row(new, again).is_loss is expected


def test_losses_stand_first():
    """A small loss comes before a wider interval with a lower middle."""
    rows = [row((1.2, 1.1, 1.3)), row((0.8, 0.5, 1.2)), row((0.95, 0.94, 0.96))]

    lines = against.table(rows).splitlines()[1:]

    assert [line.split()[-1] == "LOSS" for line in lines] == [True, False, False]
    assert "0.950 [0.940, 0.960]" in lines[0]
    assert "0.800 [0.500, 1.200]" in lines[1]


# ---- chaos_soak ----

OPTIONS = argparse.Namespace(duration=7200.0, bound=10.0)


def course(count=8, **last):
    """Return the reports of a good run, with the given changes to the last one."""
    made = Course()
    made.reports = [
        {"s": 10 * i, "anon_kib": 1000, "done": {"sums": i}, "wrong": [], "wrongs": 0, "worst_wait_s": 1.0}
        for i in range(1, count + 1)
    ]
    made.reports[-1] |= {"last": True, **last}
    return made


def missed(made, exit_code=chaos_soak.CODE):
    """Return the violations of a run."""
    return chaos_soak.course_held(made, {"exit_code": exit_code, "longest_pause_s": 2.0}, OPTIONS)


def test_a_run_in_which_all_was_well_holds():
    """A good run has no violations."""
    assert missed(course()) == []


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ({"wrongs": 1, "wrong": ["an item is 7, expected 6"]}, "1 results were wrong: an item is 7, expected 6"),
        ({"worst_wait_s": 12.5}, "the worst wait was 12.50 s, expected 12.00 s at most"),
        ({"last": False}, "its last report is missing"),
    ],
)
def test_what_the_program_found_is_a_violation(last, said):
    """Wrong results, a wait beyond our pauses and the bound, and a program that did not finish are violations."""
    assert missed(course(**last)) == [said]


def test_memory_that_grows_is_a_violation():
    """Growth of the program's own memory from the middle to the end is a violation."""
    made = course()
    for number, one in enumerate(made.reports):
        one["anon_kib"] = 1000 + 50 * number

    assert missed(made) == ["memory grew by 12.5%, expected 2% at most"]


def test_a_load_that_stood_still_for_a_minute_is_a_violation():
    """A load without progress for a minute is a violation; a shorter time is not, because the machine may be busy."""
    made = course()
    for number, one in enumerate(made.reports):
        one["done"]["waits"] = min(number + 1, 3)
    assert missed(made) == []

    for number, one in enumerate(made.reports):
        one["done"]["waits"] = min(number + 1, 2)
    assert missed(made) == ["did nothing for 60 s: waits before 80 s"]


def test_a_load_that_never_began_is_a_violation():
    """A load that never began is a violation, also in a run that is shorter than a minute."""
    made = course(4)
    for one in made.reports:
        one["done"]["waits"] = 0

    assert missed(made) == ["did nothing for 60 s: waits not once"]


def test_another_exit_code_is_a_violation():
    """An exit by a signal is a violation, too."""
    assert missed(course(), exit_code=-7) == ["it ended with -7, expected 42"]


def test_a_trace_that_is_gone_is_a_violation(tmp_path, monkeypatch):
    """A trace that is under none of its names, or cannot be read, is a violation."""
    monkeypatch.setattr(chaos_soak, "SETTLING_S", 0.0)
    assert chaos_soak.trace_held([tmp_path / "a.hwt"], {}) == ["there is no trace"]
    (tmp_path / "a.hwt").write_bytes(b"no trace")
    (said,) = chaos_soak.trace_held([tmp_path / "a.hwt"], {})
    assert said.startswith("the trace cannot be read: ")


@pytest.mark.parametrize(("text", "seconds"), [("60s", 60), ("1.5m", 90), ("2h", 7200)])
def test_durations_have_units(text, seconds):
    """A duration is in seconds, minutes or hours."""
    assert chaos_soak.seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["60", "s", "-1s", "1d"])
def test_a_duration_without_a_unit_is_refused(text):
    """The error names the duration, and says what was expected."""
    with pytest.raises(argparse.ArgumentTypeError, match="is no duration, expected one as 60s"):
        chaos_soak.seconds_of(text)


# ---- disk_hooks ----


def test_percentiles_come_from_the_histogram():
    """A percentile is the end of its bin, and none exceeds the longest."""
    found = {"bin_ns": 16, "longest_ns": 5000, "counts": {"1": 9900, "4": 98, "65535": 2}}

    assert disk_hooks.percentiles(found) == {"p50": 32, "p99": 32, "p99.99": 5000, "max": 5000}


def hooks(p9999, longest):
    """Return a launch with these hooks."""
    return disk_hooks.Launch(1000, {"p50": 100, "p99": 1000, "p99.99": p9999, "max": longest}, 1.0, {})


@pytest.mark.parametrize(
    ("memory", "slow", "expected", "is_missed"),
    [
        (hooks(20_000, 90_000), hooks(30_000, 90_000), "met", False),
        (
            hooks(60_000, 90_000),
            hooks(80_000, 90_000),
            "undecided: at p99.99 80.0 us at least, but in memory up to 60.0 us",
            False,
        ),
        (hooks(20_000, 90_000), hooks(80_000, 90_000), "MISSED: at p99.99", True),
        (hooks(20_000, 90_000), hooks(30_000, 600_000_000), "MISSED: a hook took 0.60 s", True),
    ],
)
def test_a_hook_that_waits_for_the_disk_is_a_miss(memory, slow, expected, is_missed):
    """A slow p99.99 counts only beyond that in memory; a hook as long as a write always counts."""
    said, missed = disk_hooks.verdict({disk_hooks.MEMORY: [memory], disk_hooks.SLOW: [slow]}, 0.5)

    assert said.startswith(expected)
    assert missed is is_missed


def test_launches_on_both_sides_of_the_target_are_undecided():
    """If launches are on both sides of the target, the verdict says so, and nothing of the trace in memory."""
    launches = {
        disk_hooks.MEMORY: [hooks(10_000, 90_000)],
        disk_hooks.SLOW: [hooks(40_000, 90_000), hooks(80_000, 90_000)],
    }

    assert disk_hooks.verdict(launches, 0.5) == ("undecided: at p99.99 the launches have 40.0 to 80.0 us", False)


# ---- crowd ----


def test_ratios_come_from_blocks_and_need_all_of_them():
    """A launch that did not finish leaves no ratio."""
    launch = crowd.Launch(10, 100, 1_000_000, [])
    half = dataclasses.replace(launch, rounds=50)
    launches = {"bare": [launch, launch], "traced": [half, half]}

    found = crowd.ratio(launches, "traced", "rounds")
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.5, 0.5))
    launches["traced"][1] = dataclasses.replace(launch, rounds=0)
    assert crowd.ratio(launches, "traced", "rounds") is None


# ---- policy_corpus ----

CORPUS = {one.name: one for one in policy_corpus.corpus()}


def test_the_corpus_is_broad_and_each_program_is_in_one_half():
    """The corpus has servers and other programs, unique names, and programs in both halves."""
    assert len(CORPUS) == len(policy_corpus.corpus()) > 60
    assert sum(bool(one.server) for one in CORPUS.values()) > 20
    assert {one.half for one in CORPUS.values()} == {"a", "b"}
    assert CORPUS["waitress-4-beside-4"].computing == 4
    assert CORPUS["sqlite-beside-1"].computing == 1


@pytest.mark.parametrize(
    ("program", "figure", "value", "lost", "doubtless"),
    [
        ("map", "rate", 0.96, True, True),
        ("map", "rate", 0.98, False, False),
        ("map", "cpu_s", 1.2, True, True),
        ("waitress-4", "p99_s", 1.2, True, True),
        ("waitress-4", "p99_s", 0.5, False, False),
        ("waitress-4-beside-1", "cpu_s", 1.2, False, False),
        ("waitress-4-beside-1", "computed", 0.1, False, False),
    ],
)
def test_a_loss_is_beyond_the_bounds(program, figure, value, lost, doubtless):
    """The middle decides a loss, and the whole interval a doubtless one; the CPU work beside a server is not judged."""
    blocks = [{"none": {figure: 2.0}, "fair": {figure: 2.0 * value}} for _ in range(6)]
    row = policy_corpus.judged(CORPUS[program], "fair", blocks)

    assert row["ratios"][figure].value == pytest.approx(value)
    assert (bool(row["lost"]), bool(row["doubtless"])) == (lost, doubtless)
    assert policy_corpus.judged(CORPUS[program], "fair", blocks[:5])["doubtless"] == []


def test_blocks_without_a_launch_of_none_are_left_out():
    """A block in which a launch failed gives no ratio."""
    blocks = [{"none": {"rate": 1.0}, "fair": {"rate": 2.0}}, {"fair": {"rate": 9.0}}]

    assert policy_corpus.judged(CORPUS["map"], "fair", blocks)["ratios"]["rate"].value == 2.0


# ---- policy_table ----


def test_the_guide_s_table_marks_what_is_beyond_a_bound():
    """A median beyond a bound is in italics, a whole interval beyond it in bold, and what was not measured is a dash."""
    rates = {"map": [0.5] * 8, "submit": [0.9, 0.9, 0.9, 0.9, 0.9, 1.0, 1.0, 1.0], "pipeline": [1.004] * 8}
    launches = [
        {"program": name, "side": side, "launch": launch, "rate": 100.0 * (rate if side == "fair" else 1.0)}
        for name, values in rates.items()
        for launch, rate in enumerate(values)
        for side in ("none", "fair")
    ]

    lines = policy_table.table(launches).splitlines()

    assert lines[3:] == [
        "| map | **0.50** | - | - | - | - | - | - |",
        "| submit | *0.90* | - | - | - | - | - | - |",
        "| pipeline | 1.00 | - | - | - | - | - | - |",
    ]
