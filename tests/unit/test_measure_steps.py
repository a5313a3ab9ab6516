"""The number of rounds that a benchmark has."""

import pytest

from headway.measure import steps
from headway.measure.journal import Options
from headway.measure.rounds import Batches, Round, Target

ROUND = Round(10_000_000, 1)


def plan(**options):
    return steps.Plan("it", Target(len), Options(**options), "serial", 1, Batches)


def first_enough(wanted, one=ROUND, *, most=200_000):
    """Return the number of rounds after which `wanted` has enough of them."""
    rounds, looks = [], steps._Looks()
    while len(rounds) < most:
        rounds.append(one)
        if steps._enough({"it": rounds}, [wanted], 0.0, looks):
            return len(rounds)
    return None


@pytest.mark.parametrize(("seconds", "expected"), [(0.5, 50), (2, 200), (20, 2_000)])
def test_a_benchmark_takes_its_seconds(seconds, expected):
    """Rounds of 10 ms go on for as many seconds as were asked for; with many, the last look may be 0.5 % late."""
    assert expected <= first_enough(plan(seconds=seconds)) <= expected * 1.005


@pytest.mark.parametrize(("seconds", "expected"), [(0.05, 50), (1, 1_000), (2, 2_000)])
def test_precision_has_ten_times_as_long(seconds, expected, monkeypatch):
    """An interval that stays too wide ends the measurement after ten times as long, and not after 1,000 rounds."""
    monkeypatch.setattr(steps, "_half_width", lambda *_: 1.0)

    assert first_enough(plan(seconds=seconds, precision=0.001)) == expected


def test_short_rounds_end_before_their_seconds(monkeypatch):
    """Rounds of one short call each are bounded by the seconds, and in all."""
    monkeypatch.setattr(steps, "_MOST_ROUNDS", 3_000)
    short = Round(1, 1)

    assert first_enough(plan(seconds=0.5), short) == 1_000
    assert first_enough(plan(seconds=2), short) == 2_000
    assert first_enough(plan(seconds=60), short) == 3_000


def test_half_a_million_latencies_are_enough():
    """A load ends after half a million timed calls, once there are five rounds."""
    assert first_enough(plan(seconds=60), Round(10_000_000, 100_000, range(100_000))) == steps._LEAST_ROUNDS


@pytest.mark.parametrize(
    ("narrow", "expected"),
    [({50}, 500), ({50, 75}, 75), ({50, 113, 170}, 170), (set(range(60, 113)), 500), (set(range(51, 114)), 113)],
)
def test_a_precision_is_reached_if_two_looks_in_succession_say_so(narrow, expected, monkeypatch):
    """Looks come after half as many rounds more; a narrow interval at one of them, or between them, ends nothing."""
    monkeypatch.setattr(steps, "_half_width", lambda values, _: 0.0 if len(values) in narrow else 1.0)

    assert first_enough(plan(precision=0.01)) == expected
