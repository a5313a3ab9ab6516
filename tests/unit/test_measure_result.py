"""The assertions about a benchmark, and the messages of those that fail."""

import json
import math
import statistics
from dataclasses import replace

import pytest

from headway.errors import HeadwayError, UsageError
from headway.lab import stats
from headway.measure.measured import Measured, percentile
from headway.measure.result import Comparison, Result

STEADY = (1.0, 1.01, 0.99, 1.0, 1.02)


def result(name, *launches, factor=1.0, **changes):
    measured = tuple(
        Measured(values_s=tuple(value * factor for value in values), calls=10, turns=f"launch {place}")
        for place, values in enumerate(launches)
    )
    return Result(name=name, model="serial", launches=measured, **changes)


def launched(name, factor, spread=0.01, **changes):
    """Return a result of five launches of three rounds."""
    return result(name, *[[factor * (1 + spread * place)] * 3 for place in (0, 1, -1, 0.5, -0.5)], **changes)


def test_one_launch_counts_by_rounds_and_several_by_their_medians():
    """The launch is the unit as soon as there are two."""
    assert result("a", STEADY).values_s == STEADY
    assert result("a", STEADY, [2.0, 3.0, 4.0]).values_s == (1.0, 3.0)
    assert result("a", STEADY).per_call_s == pytest.approx(1.004, abs=0.001)
    assert result("a", STEADY).throughput_per_s == pytest.approx(1 / 1.004, abs=0.001)


def test_what_is_faster_beyond_doubt_holds():
    """A ratio that is faster beyond doubt holds; another one does not, and gives its figure."""
    slow, fast = launched("slow", 2.0), launched("fast", 1.0)

    assert fast.faster_than(slow, by=1.5)
    decision = slow.faster_than(fast)
    assert not decision
    assert decision.outcome == "refuted"
    assert repr(decision).startswith("<refuted: time of slow / fast is 2 [")
    assert "expected below 1" in repr(decision)


def test_what_is_undecided_says_how_many_launches_it_would_take():
    """An undecided ratio is false, because there is no evidence yet, and says how many launches it needs."""
    one = result("one", [1.0], [1.2], [0.9], [1.1], [1.0])
    other = result("other", [1.1], [1.0], [1.2], [1.0], [1.1])

    decision = one.faster_than(other)
    assert not decision
    assert decision.outcome == "inconclusive"
    assert repr(decision).startswith("<undecided: time of one / other is 0.9")
    assert "more launches would decide (`--headway-launches " in repr(decision)


def test_within_one_launch_it_says_so():
    """Rounds of one process are not launches, and the message says so."""
    decision = result("one", (1.0, 2.0, 0.5)).faster_than(result("other", (1.1, 1.9, 0.6)))

    assert "of rounds within one launch" in repr(decision)
    assert "times as many rounds would decide (`seconds=`), or `--headway-launches 5`" in repr(decision)


def test_what_was_not_measured_holds():
    """An assertion on what was not measured holds, as with `--headway-disable`."""
    one = Result(name="one", model="serial", why_not="`--headway-disable`", provisional=True)

    assert one.faster_than(launched("other", 1.0))
    assert one.gil_wait_share < 0.5
    assert one.scales(threads=4, at_least=2)
    assert repr(one.faster_than(one)) == "<time of one / one: not measured, `--headway-disable`>"
    assert math.isnan(one.per_call_s)
    assert 1 < one.interval.low <= one.interval.high < 1e-9
    assert one.interval.half_width < 0.01
    assert statistics.median(one.values_s) < 1e-9
    assert one.ratio_to(launched("other", 1.0)).value < 0.5 < launched("other", 1.0).ratio_to(one).low
    assert Comparison({"a": one, "b": one}).ratio("a", "b").high < 0.5
    assert one.loop_lag_s < 1e-9
    assert one.basis.count == 0


@pytest.mark.parametrize("of", [round, math.floor, math.ceil, math.trunc, abs, lambda one: divmod(one, 7)[1]])
def test_whole_parts_of_what_was_not_measured_hold(of):
    """A figure that was not to be measured passes also after it is rounded."""
    figure = Result(name="one", model="serial", provisional=True).throughput_per_s

    assert of(figure) > 10
    assert of(figure) < 10


def test_what_was_not_measured_has_no_plain_number():
    """No plain number passes every limit, so a conversion to one is an error that says what to write."""
    one = Result(name="one", model="serial", why_not="`--headway-disable`", provisional=True)

    with pytest.raises(UsageError, match="no whole number") as error:
        int(one.throughput_per_s)
    assert "`round(figure) < 10`" in error.value.hint
    with pytest.raises(UsageError, match="no plain number") as error:
        float(one.per_call_s)
    assert "`figure < 0.05`" in error.value.hint
    with pytest.raises(UsageError, match="no plain number") as error:
        float(one.gil_wait_share)
    assert "`share < 0.05`" in error.value.hint


def test_figures_of_shares_and_percentiles_that_were_not_measured_pass():
    """A comparison with the bare figure or the interval of a share or a percentile holds, too."""
    one = Result(name="one", model="serial", why_not="`--headway-disable`", provisional=True)

    assert one.gil_wait_share.value < 0.05
    assert one.percentile(0.99).value_s <= 0.01
    assert one.percentile(0.99).interval.high < 0.01 < one.gil_wait_share.interval.low


def test_what_no_launch_measured_does_not_hold():
    """An assertion on what no launch measured, although it should have, does not hold."""
    one = Result(name="one", model="serial", why_not="no launch measured it")

    assert not one.faster_than(launched("other", 1.0))
    assert not one.gil_wait_share < 0.5
    figures = (
        lambda: one.per_call_s,
        lambda: one.throughput_per_s,
        lambda: one.interval,
        lambda: one.values_s,
        lambda: one.loop_lag_s,
        lambda: one.percentile_s(0.99),
        lambda: one.percentile(0.99).interval,
        lambda: one.gil_wait_share.value,
        lambda: float(one.gil_wait_share),
        lambda: launched("other", 1.0).ratio_to(one),
    )
    for figure in figures:
        with pytest.raises(HeadwayError, match="was not measured: no launch measured it"):
            figure()


def test_a_share_that_could_not_be_measured_says_why():
    """Without the native library, the figure of a share is an error with the reason, and no number that fails."""
    launch = Measured(values_s=STEADY, calls=1, note="there is no native library")
    share = Result(name="one", model="serial", launches=(launch,), traced=True).gil_wait_share

    assert (share < 0.5).outcome == "not measured"
    for figure in (lambda: share.value, lambda: share.interval, lambda: float(share)):
        with pytest.raises(HeadwayError, match="time waited for the GIL was not measured: there is no native library"):
            figure()


def test_the_lag_of_a_loop_is_an_error_where_none_was_measured():
    """The lag is measured under load only, and the error says so."""
    with pytest.raises(UsageError, match="one: no lag of an event loop was measured") as error:
        _ = result("one", STEADY).loop_lag_s
    assert "`headway.concurrent`" in error.value.hint


def test_no_faster_and_less_than():
    """The opposite relation and a limit in seconds work."""
    slow, fast = launched("slow", 2.0), launched("fast", 1.0)

    assert slow.no_faster_than(fast)
    assert not fast.no_faster_than(slow, by=1.5)
    assert fast.takes_less_than(1.5)
    assert not slow.takes_less_than(1.5)


def test_an_estimate_for_a_limit_in_seconds_leaves_the_room_of_a_session():
    """More launches narrow the interval and not the room beside it, so within the room no number is promised."""
    near = launched("near", 9.5e-3, spread=0.02).takes_less_than(0.010)
    far = launched("far", 8.9e-3, spread=0.04).takes_less_than(0.010)

    assert near.outcome == far.outcome == "inconclusive"
    assert repr(near).endswith("; the limit is within the 10% by which a session's level may be off>")
    # So many launches do decide it: 8.9 ms with this half-width ends below 10 ms / 1.1.
    needed = far.evidence.launches_to_decide
    assert 5 < needed < 30
    values = [value for one in launched("far", 8.9e-3, spread=0.04).launches for value in one.values_s[:1]]
    half = statistics.stdev(map(math.log, values))
    reach = math.exp(half * stats.half_width_factor(needed))
    assert statistics.geometric_mean(values) * reach < 0.010 / 1.1


def test_an_undecided_percentile_of_many_calls_says_how_many_more_would_decide():
    """Order statistics count calls, of which there are more than launches ever are."""
    calls = tuple(1 + 7919 * place % 2000 / 2000 for place in range(2000))
    one = Result(name="one", model="serial", launches=(Measured(values_s=(1.0,), calls=1, latencies_s=calls),))
    decision = one.percentile(0.99).below(1.99 * 1.102)

    assert decision.outcome == "inconclusive"
    assert "times as many calls would decide (`seconds=`)" in repr(decision)


def test_an_undecided_open_load_says_what_helps():
    """Options of rounds have no effect on an open load: a longer load has more calls, and more launches more rounds."""

    def load(calls):
        launch = Measured(
            values_s=tuple(1 + 0.2 * place for place in range(5)),
            calls=calls,
            latencies_s=tuple(1 + 777 * place % calls / calls for place in range(calls)),
            rate_per_s=100.0,
            held=(0.5,),
            waited=(0.5,),
        )
        return Result(name="one", model="threads", launches=(launch,), traced=True)

    few, many = load(20), load(2000)
    share, percentile_of_few = few.gil_wait_share < 0.6, few.percentile(0.99).below(9)
    nearly = (many.percentile(0.99).below(1.99 * 1.102), many.takes_less_than(1.7))

    assert "; one round bounds nothing, and an open load has no more; `--headway-launches 5` has one" in repr(share)
    # It needs 368 independent calls; six blocks of calls know little of bursts.
    assert repr(percentile_of_few).endswith("about 33.3 times as many would (`seconds=` of `headway.open`)>")
    for decision in nearly:
        assert "times as many calls would decide (`seconds=` of `headway.open`), or" in repr(decision)


def test_of_many_rounds_neighbours_are_put_together():
    """Many rounds are combined into a dozen medians, which one long round does not change."""
    values = [1 + (place % 7) / 100 for place in range(1234)]
    values[600] = 1000.0
    one = result("one", values)

    assert len(one.values_s) == 12
    assert max(one.values_s) < 1.05
    assert result("few", values[:11]).values_s == tuple(values[:11])


def test_a_launch_of_several_does_not_decide():
    """One launch of several does not decide, because there are others."""
    assert launched("slow", 2.0, provisional=True).faster_than(launched("fast", 1.0))


def test_a_launch_that_is_left_of_several_bounds_nothing():
    """If all launches but one failed, its rounds are no proof: no interval has a bound, and nothing is decided."""
    launch = Measured(
        values_s=STEADY * 8, calls=1, turns="one", beside="one", waited=(0.1,) * 40, latencies_s=(1.0,) * 1000
    )
    left = Result(name="left", model="serial", launches=(launch,), traced=True, failed=("exit code 3",) * 4)
    slow = replace(launch, values_s=tuple(2 * one for one in launch.values_s))
    other = replace(left, name="other", launches=(slow,), failed=())

    for decision in (left.faster_than(other), other.no_faster_than(left), left.takes_less_than(9)):
        assert decision.outcome == "inconclusive"
        assert "only one launch is left" in repr(decision)
    assert (left.gil_wait_share < 0.9).outcome == "inconclusive"
    assert left.percentile(0.5).below(9).outcome == left.percentile(0.999).below(9).outcome == "inconclusive"
    assert left.values_s == (1.0,)
    ratio, basis = other.ratio_beside(left)
    assert (ratio.value, ratio.low, ratio.high) == (2.0, 0.0, math.inf)
    assert (basis.count, basis.of_launches) == (1, True)


def test_a_pair_that_is_left_of_several_bounds_nothing():
    """If launches of both trees failed in turn, one pair may be left of many launches."""
    here = launched("it", 1.0)
    pair = replace(here.launches[0], beside="pair")
    there = replace(here, launches=(pair, *here.launches[1:]))
    ratio, basis = replace(here, launches=(*here.launches[:4], pair)).ratio_beside(there)

    assert (ratio.low, ratio.high, basis.of_launches) == (0.0, math.inf, True)


def test_rounds_that_one_of_two_ran_alone_are_not_counted():
    """A ratio rests on the rounds that both have, so it is not said to rest on more."""
    long, short = (Measured(values_s=(1.0,) * rounds, calls=1, beside="pair") for rounds in (24, 5))
    here, there = (Result(name="it", model="serial", launches=(one,)) for one in (long, short))

    assert here.ratio_beside(there)[1].count == there.ratio_beside(here)[1].count == 5


def test_a_share_is_held_against_its_limit():
    """A share has Student's interval of the mean, over rounds or launches, within 0 and 1."""
    launch = Measured(values_s=STEADY, calls=1, held=(0.5,) * 5, waited=(0.1, 0.12, 0.11, 0.1, 0.09))
    one = Result(name="one", model="threads", launches=(launch,), traced=True)

    assert one.gil_wait_share < 0.2
    assert not one.gil_wait_share < 0.05
    assert one.gil_wait_share > 0.05
    assert one.gil_wait_share <= 0.2
    assert one.gil_wait_share >= 0.05
    assert repr(one.gil_wait_share >= 0.3).endswith("expected at least 0.3 (of rounds within one launch)>")
    assert (one.gil_wait_share < 0.104).outcome == "inconclusive"
    assert float(one.gil_wait_share) == pytest.approx(0.104)
    assert "one: time waited for the GIL: 0.104 [" in repr(one.gil_wait_share)
    several = replace(one, launches=(launch, replace(launch, waited=(0.2,) * 5), launch))
    assert several.gil_wait_share.values == pytest.approx((0.104, 0.2, 0.104))


def test_a_share_of_nought_is_below_every_limit():
    """A share of 0, where no thread ever waited, is below every limit."""
    launch = Measured(values_s=STEADY, calls=1, held=(1.0,) * 5, waited=(0.0,) * 5)

    one = Result(name="one", model="serial", launches=(launch,), traced=True)
    assert one.gil_wait_share < 0.01


def test_a_share_that_is_its_limit_is_at_most_and_at_least_that():
    """A share of exactly 0 is at most 0, and one of exactly 1 at least 1; neither is below or above it."""
    launch = Measured(values_s=STEADY, calls=1, held=(1.0,) * 5, waited=(0.0,) * 5)
    one = Result(name="one", model="serial", launches=(launch,), traced=True)

    assert one.gil_wait_share <= 0
    assert one.gil_hold_share >= 1
    assert (one.gil_wait_share < 0).outcome == (one.gil_hold_share > 1).outcome == "refuted"
    assert repr(one.gil_hold_share <= 0).startswith("<refuted: one: time held the GIL is 1 [1-1], expected at most 0 ")


@pytest.mark.parametrize("failed", [(), ("exit code 3",)])
def test_a_share_of_nought_of_one_round_decides_nothing(failed):
    """One round, as of an open load, or one launch that is left bounds a share of 0 as little as any other."""
    launch = Measured(values_s=(1.0,), calls=1, held=(1.0,), waited=(0.0,))
    share = Result(name="one", model="serial", launches=(launch,), traced=True, failed=failed).gil_wait_share

    for decision in (share < 0.01, share > 0.01):
        assert decision.outcome == "inconclusive"
        assert "bounds nothing" in repr(decision)


def test_a_share_that_drifts_within_one_launch_is_not_known_from_its_many_rounds():
    """Rounds of one launch are no replicates for a share either: a drift of the share widens its interval."""
    drifting = tuple(0.05 + 0.1 * place / 240 + 0.001 * (place % 3) for place in range(240))
    launch = Measured(values_s=(1.0,) * 240, calls=1, held=drifting, waited=drifting)
    share = Result(name="one", model="serial", launches=(launch,), traced=True).gil_wait_share

    assert share.basis.count == len(share.values) == 12
    assert float(share) == pytest.approx(statistics.fmean(drifting))
    # Student's over 240 rounds is 0.097 to 0.105, and over 12 blocks 0.082 to 0.120.
    assert share.interval.low < 0.08
    assert share.interval.high > 0.122


def test_what_was_not_asked_for_is_an_error():
    """A figure that was not asked for is an error, whose hint says how to ask for it."""
    one = result("one", STEADY)

    with pytest.raises(UsageError, match="the GIL was not traced") as error:
        _ = one.gil_wait_share
    assert "trace=True" in error.value.hint
    with pytest.raises(UsageError, match="no percentiles"):
        one.percentile_s(0.99)
    with pytest.raises(UsageError, match="by=0"):
        one.faster_than(one, by=0)
    with pytest.raises(UsageError, match="one kind of worker"):
        one.scales(at_least=2)
    with pytest.raises(UsageError, match="threads=0 is not a count"):
        one.scales(threads=0, at_least=2)
    for compare in (one.faster_than, one.no_faster_than, one.ratio_to):
        with pytest.raises(UsageError, match="5 is not the result of a benchmark"):
            compare(5)
    with pytest.raises(UsageError, match="does not scale"):
        one.scales(threads=2, at_least=2)


def test_percentiles_are_values_that_were_measured():
    """A percentile is the smallest measured value that enough values do not exceed."""
    values = [float(value) for value in range(1, 101)]

    assert [percentile(values, share) for share in (0.5, 0.99, 1.0)] == [50, 99, 100]
    assert percentile([7.0], 0.01) == 7
    assert math.isnan(percentile([], 0.5))
    launches = tuple(
        Measured(values_s=(1.0,), calls=1, latencies_s=(low, high)) for low, high in ((1, 2), (3, 4), (5, 6))
    )
    assert Result(name="one", model="serial", launches=launches).percentile_s(0.99) == 6


def test_a_comparison_is_a_mapping():
    """A comparison maps the given names to results."""
    found = Comparison({"slow": launched("slow", 2.0), "fast": launched("fast", 1.0)})

    assert list(found) == ["slow", "fast"]
    assert len(found) == 2
    assert found.fastest is found["fast"]
    assert found.ratio("slow", "fast").value == pytest.approx(2)


def test_what_a_launch_measured_survives_its_file():
    """A launch's measurement comes back from its file unchanged."""
    one = Measured(
        values_s=STEADY,
        calls=3,
        latencies_s=(0.1,),
        lags_s=(0.2,),
        loop_s=1e-5,
        held=(0.5,),
        waited=(0.1,),
        note="x",
        collects=False,
    )

    assert Measured.from_json(json.loads(json.dumps(one.to_json()))) == one
