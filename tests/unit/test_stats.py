"""Statistics over launches."""

import math
import random

import pytest

from headway.lab import stats
from headway.measure.intervals import binomial_quantile


@pytest.fixture(scope="module")
def reference():
    """Return scipy.stats, which takes seconds to load: not when the tests are collected."""
    from scipy import stats as scipy_stats

    return scipy_stats


def noisy(level, spread, count, seed):
    source = random.Random(seed)
    return [level * math.exp(source.gauss(0, spread)) for _ in range(count)]


def test_few_launches_give_welch_on_logs(reference):
    """An interval of fewer than ten launches is scipy's Welch interval of the log means."""
    top, bottom = noisy(2, 0.1, 5, 1), noisy(1, 0.2, 6, 2)

    found = stats.ratio_interval(top, bottom)

    expected = reference.ttest_ind([math.log(x) for x in top], [math.log(x) for x in bottom], equal_var=False)
    interval = expected.confidence_interval(0.95)
    assert found.method == "welch"
    assert found.low == pytest.approx(math.exp(interval.low))
    assert found.high == pytest.approx(math.exp(interval.high))


def test_pairs_give_students_t_on_log_ratios(reference):
    """Paired launches give scipy's one-sample t interval of the log ratios."""
    pairs = list(zip(noisy(2, 0.3, 5, 3), noisy(1, 0.3, 5, 4), strict=True))

    found = stats.paired_ratio_interval(pairs)

    logs = [math.log(top / bottom) for top, bottom in pairs]
    interval = reference.ttest_1samp(logs, 0).confidence_interval(0.95)
    assert found.method == "paired t"
    assert (found.low, found.high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)))


def test_pairing_takes_out_what_slows_both():
    """A block that slows both sides equally leaves the paired ratio exact and the unpaired one wide."""
    drift = [1.0, 3.0, 1.5, 2.5]
    pairs = [(2 * slow, 1 * slow) for slow in drift]

    paired = stats.paired_ratio_interval(pairs)
    unpaired = stats.ratio_interval([top for top, _ in pairs], [bottom for _, bottom in pairs])

    assert (paired.low, paired.high) == pytest.approx((2, 2))
    assert unpaired.low < 1 < unpaired.high


@pytest.mark.parametrize("count", [3, 12, 28])
def test_intervals_cover_the_truth_as_often_as_they_say(count):
    """About 1,900 of 2,000 paired intervals hold the true ratio, with few launches and with many."""
    hits = 0
    for seed in range(2000):
        found = stats.paired_ratio_interval(
            list(zip(noisy(2, 0.1, count, seed), noisy(1, 0.1, count, 10_000 + seed), strict=True))
        )
        hits += found.low <= 2 <= found.high

    assert 1870 <= hits <= 1930


def test_a_higher_confidence_gives_a_wider_interval_around_the_same_value():
    """The interval of one look among many holds that of a single look."""
    pairs = list(zip(noisy(2, 0.1, 4, 1), noisy(1, 0.1, 4, 2), strict=True))

    once, again = stats.paired_ratio_interval(pairs), stats.paired_ratio_interval(pairs, confidence=0.9935)

    assert again.low < once.low < once.value == again.value < once.high < again.high
    assert (once.confidence, again.confidence) == (0.95, 0.9935)


def test_one_launch_has_no_interval():
    """One launch a side gives the ratio and bounds that rule nothing out."""
    found = stats.ratio_interval([2.0], [1.0])

    assert (found.value, found.low, found.high, found.method) == (2.0, 0.0, math.inf, "one launch")
    assert math.isinf(found.half_width)


def test_equal_values_give_a_point():
    """An interval without any spread is the value itself, by every method."""
    assert stats.ratio_interval([2.0] * 3, [1.0] * 3).half_width == 0
    assert stats.paired_ratio_interval([(2.0, 1.0)] * 12).half_width == 0


@pytest.mark.parametrize(("top", "bottom"), [([], [1.0]), ([1.0], []), ([0.0], [1.0]), ([1.0, -1.0], [1.0, 1.0])])
def test_values_without_a_logarithm_are_refused(top, bottom):
    """An empty side, zero and negative values raise ValueError."""
    with pytest.raises(ValueError, match="interval"):
        stats.ratio_interval(top, bottom)


def test_two_modes_are_flagged():
    """Launches that fall into two groups far apart are bimodal, with the groups' centres."""
    assert stats.bimodal([130, 18_000, 131, 17_500, 129]) == pytest.approx((130, 17_748), rel=0.01)


@pytest.mark.parametrize(
    "values",
    [[1.0, 1.1, 0.9, 1.05, 0.95], [1.0, 1.0, 1.0, 1.0, 5.0], [1.0, 5.0], [1.0, 1.2, 1.0, 1.2, 1.0], [0.0] * 6],
    ids=["one group", "one outlier", "too few", "too close", "noughts"],
)
def test_one_mode_is_not_flagged(values):
    """One group, a single outlier, too few launches and near groups are not bimodal."""
    assert stats.bimodal(values) is None


def test_outliers_are_counted_by_tukeys_fences():
    """Mild outliers lie beyond 1.5 interquartile ranges, and severe ones beyond 3."""
    values = [10, 10, 11, 11, 12, 12, 13, 13, 16.5, 40]

    assert stats.outliers(values) == stats.Outliers(mild=1, severe=1)
    assert stats.outliers([1, 2, 100]) == stats.Outliers(0, 0)


def course(*levels, noise=0.002, each=20):
    source = random.Random(1)
    return [level * (1 + source.gauss(0, noise)) for level in levels for _ in range(each)]


@pytest.mark.parametrize(
    ("samples", "name"),
    [
        (course(1.0), "flat"),
        (course(2.0, 1.0), "warm-up"),
        (course(1.0, 1.5), "slowdown"),
        ([*course(1.0), 2.0, 2.0, 2.0, 2.0], "no steady state"),
        (course(1.0, 1.3, 1.0), "no steady state"),
        ([*course(1.0), 9.0, *course(1.0), 7.0, *course(1.0)], "flat"),
        ([1.0, 1.0, 1.0, 1.001] * 20, "flat"),
        ([0.0] * 20, "flat"),
        ([1.0] * 9, "too few samples"),
        ([1.0] * 30, "flat"),
        (course(1.0, 1.005), "flat"),
    ],
)
def test_the_course_of_samples_is_named(samples, name):
    """Warm-up, slowdown, flat and unsteady courses are told apart."""
    assert stats.steady_state(samples) == name


@pytest.mark.parametrize("share", [0.001, 0.5, 0.9, 0.99, 0.999])
@pytest.mark.parametrize("probability", [0.025, 0.975])
def test_the_binomial_quantile_is_that_of_scipy_stats(reference, probability, share):
    """The quantile that needs no `scipy.stats` is the same number."""
    for count in (1, 2, 3, 10, 99, 100, 1_000, 40_000):
        assert binomial_quantile(probability, count, share) == int(reference.binom.ppf(probability, count, share))
