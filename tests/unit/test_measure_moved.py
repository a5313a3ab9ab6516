"""Benchmarks that changed between their own measurement and the turns in which they are compared."""

import asyncio
import itertools
import pickle
from dataclasses import replace

import pytest

from headway.errors import UsageError
from headway.lab.stats import Interval
from headway.measure import intervals, work
from headway.measure.bench import Bench
from headway.measure.journal import Journal, Options

OPTIONS = Options(rounds=36, calls=4)


class Paced:
    """Functions whose calls move the measurement's clock, by a time that the test sets."""

    def __init__(self):
        self.call_ns, self.by_ns, self._now_ns = 1000, itertools.cycle((-8, 0, 8)), 0

    def now_ns(self):
        return self._now_ns

    def work(self):
        self._now_ns += self.call_ns + next(self.by_ns)

    def thrice(self):
        self._now_ns += 3 * self.call_ns + next(self.by_ns)

    async def later(self):
        self.work()


@pytest.fixture
def paced(monkeypatch):
    """A `Paced` by whose clock all is measured."""
    made = Paced()
    monkeypatch.setattr(work, "now_ns", made.now_ns)
    return made


def bench():
    return Bench(Journal(test="test", group="file"), OPTIONS)


def test_what_changed_between_two_measurements_is_not_decided(paced):
    """A setting that changed between two measurements is in force for both in their turns, so these say nothing."""
    headway = bench()
    base = headway(paced.work)
    paced.call_ns = 18_000
    feature = headway(paced.work)
    decision = base.no_faster_than(feature, by=1.5)

    told = "a call of test took 1e-06 s at first, and takes 1.8e-05 s now, in turns"
    assert decision.outcome == "inconclusive"
    assert repr(decision).startswith("<undecided: time of test / test (2) is 1 [")
    assert repr(decision).endswith(f"; {told}>")
    for use in (decision.__bool__, feature.faster_than(base).__bool__, lambda: base.ratio_to(feature)):
        with pytest.raises(UsageError, match=r"a call of test took 1e-06 s at first, and takes 1.8e-05 s now") as error:
            use()
        assert "in their functions or in their `setup=`" in error.value.hint


def test_a_launch_of_several_goes_on(paced):
    """Within a launch the assertion holds for now, so that the whole test is measured."""
    headway = bench()
    base = replace(headway(paced.work), provisional=True)
    paced.call_ns = 18_000
    feature = replace(headway(paced.work), provisional=True)

    assert base.no_faster_than(feature, by=1.5)
    assert base.ratio_to(feature).value == pytest.approx(1, rel=0.01)


def test_async_ones_that_changed_are_not_decided(paced):
    """The same is true where the comparison is awaited."""

    async def test():
        headway = bench()
        base = await headway(paced.later)
        paced.call_ns = 18_000
        decision = await base.no_faster_than(await headway(paced.later), by=1.5)
        with pytest.raises(UsageError, match="at first, and takes"):
            bool(decision)

    asyncio.run(test())


def test_a_change_of_both_or_in_the_set_up_is_decided(paced):
    """A change that leaves the ratio as it was, such as a slower machine, and one in the set-up are no reason."""
    headway = bench()
    one, three = headway(paced.work), headway(paced.thrice)
    paced.call_ns = 5000
    assert one.faster_than(three, by=2.5)

    slow = headway.options(setup=lambda: setattr(paced, "call_ns", 9000))(paced.work)
    fast = headway.options(setup=lambda: setattr(paced, "call_ns", 500))(paced.work)
    assert fast.faster_than(slow, by=15)


def interval(bounds, kind):
    """Return an interval around the middle of its bounds."""
    low, high = bounds
    return Interval((low + high) / 2, low, high, kind)


@pytest.mark.parametrize(
    ("before", "now", "far"),
    [
        # (Bounds of the first, of the second, of the ratio in turns.)
        (((9, 11), (9, 11)), (0.9, 1.1), False),
        (((9, 11), (9, 11)), (2.1, 2.2), True),
        (((9, 11), (9, 11)), (0.45, 0.47), True),
        (((9, 11), (9, 11)), (1.9, 2.5), False),
        (((0, float("inf")), (9, 11)), (50, 51), False),
        (((9, 11), (0, float("inf"))), (0.01, 0.02), False),
        (((90, 110), (9, 11)), (0.9, 1.1), True),
    ],
)
def test_only_a_ratio_far_from_that_of_the_levels_is_another_one(before, now, far):
    """The intervals must be apart by the factor 1.5 and 10 %; a level that nothing bounds tells nothing."""
    one, other = (interval(bounds, "levels") for bounds in before)
    assert intervals.far_apart((one, other), interval(now, "turns")) is far


def test_a_result_goes_to_another_process_as_its_figures(paced):
    """A pickled result has its figures and the returned value; only its own test can compare it with others."""
    headway = bench()
    result = headway(paced.work)
    there = pickle.loads(pickle.dumps(result))

    assert (there.interval, there.name, there.returned) == (result.interval, "test", None)
    with pytest.raises(UsageError, match="separate tests or sessions"):
        bool(there.faster_than(headway(paced.thrice)))
    assert result.faster_than(headway(paced.thrice), by=2)
