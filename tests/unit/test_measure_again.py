"""Two benchmarks that are compared take turns; those that cannot take turns are not compared."""

import asyncio
import functools
import gc
import itertools
from dataclasses import replace

import pytest

from headway.errors import HeadwayError, UsageError
from headway.measure import steps
from headway.measure.bench import Bench
from headway.measure.journal import Journal, Options
from headway.report.benchmarks import to_pytest_benchmark

QUICK = Options(seconds=0.01)


@pytest.fixture(autouse=True, scope="module")
def _nothing_to_collect():
    """Take what the test session holds out of the garbage collections that each benchmark begins with."""
    gc.freeze()
    yield
    gc.unfreeze()


class Noted:
    """Functions that record their calls."""

    def __init__(self):
        self.seen = []

    def one(self):
        self.seen.append("1")

    def two(self):
        self.seen.append("2")

    async def later_one(self):
        self.seen.append("1")

    async def later_two(self):
        self.seen.append("2")


def bench(journal=None, **options):
    return Bench(journal or Journal(test="test", group="file"), QUICK.changed(options))


def test_two_calls_one_after_the_other_take_turns_when_they_are_compared():
    """Two calls are measured apart at first, and in turns when they are compared."""
    noted, journal = Noted(), Journal(test="test", group="file")
    headway = bench(journal, rounds=6, calls=1)
    one, two = headway(noted.one), headway(noted.two)
    apart = "".join(noted.seen)
    decision = two.faster_than(one)

    assert apart == "1" * 7 + "2" * 7
    # Each is called once before anything is timed, and the one that ratios refer to comes first.
    assert "".join(noted.seen)[14:] == "12" + "122112211221"
    assert decision.evidence.interval is not None
    assert decision.evidence.what == "time of test (2) / test"
    assert [entry.group for entry in journal.entries.values()][2:] == ["file: test (2) / test"] * 2


def test_they_take_turns_once():
    """Two benchmarks take turns once, whichever way and how often they are compared."""
    noted = Noted()
    headway = bench(rounds=5, calls=1)
    one, two = headway(noted.one), headway(noted.two)
    there = two.ratio_to(one)
    calls = len(noted.seen)
    back = one.ratio_to(two)

    assert len(noted.seen) == calls
    assert back.value == pytest.approx(1 / there.value)
    assert two.no_faster_than(one).evidence.interval == there


def test_open_loads_take_turns_with_one_value_for_each_turn():
    """Open loads take turns in parts when they are compared, and the ratio has one value for each part."""
    noted, journal = Noted(), Journal(test="test", group="file")
    headway = bench(journal)
    one = headway.open(noted.one, rate=5000, seconds=0.01)
    two = headway.open(noted.two, rate=5000, seconds=0.01)
    apart = len(noted.seen)
    decision = two.faster_than(one)

    turns = [(name, len(list(calls))) for name, calls in itertools.groupby(noted.seen[apart + 2 :])]
    # A load's 50 calls are shared out over ten turns, in alternating order.
    assert turns == [("1", 5), *[("2", 10), ("1", 10)] * 4, ("2", 10), ("1", 5)]
    assert [len(one.launches[0].values_s) for one in journal.turns.popitem()[1].values()] == [10, 10]
    assert "of rounds within one launch" in repr(decision)


@pytest.mark.parametrize("load_first", [True, False])
def test_an_open_load_and_other_calls_take_turns(load_first):
    """An open load and plain calls have equally many rounds when they are compared, whichever comes first."""
    noted, journal = Noted(), Journal(test="test", group="file")
    headway = bench(journal, calls=3)
    calls = None if load_first else headway(noted.two)
    load = headway.open(noted.one, rate=5000, seconds=0.004)
    load.ratio_to(calls or headway(noted.two))

    assert [len(one.launches[0].values_s) for one in journal.turns.popitem()[1].values()] == [10, 10]


def test_each_is_measured_again_with_its_own_set_up():
    """Each benchmark is measured again with its own set-up, not with the other one's."""
    seen = []
    headway = bench(rounds=5)
    one = headway.options(setup=lambda: ((["one"],), {}))(seen.extend)
    two = headway.options(setup=lambda: ((["two"],), {}))(seen.extend)
    seen.clear()
    two.ratio_to(one)

    assert seen.count("one") == seen.count("two") == 6


def test_alternatives_of_a_comparison_are_not_measured_again():
    """Alternatives of a comparison are not measured again, because they took turns."""
    noted = Noted()
    found = bench(rounds=5, calls=1).compare({"a": noted.one, "b": noted.two})
    calls = len(noted.seen)

    assert found["a"].ratio_to(found["b"]) is not None
    assert len(noted.seen) == calls


def test_async_ones_take_turns_where_the_decision_is_awaited():
    """Async benchmarks take turns if the decision is awaited; otherwise it is an error that says what to write."""

    async def test():
        noted = Noted()
        headway = bench(rounds=5, calls=1)
        one, two = await headway(noted.later_one), await headway(noted.later_two)
        decision = two.faster_than(one)
        calls = len(noted.seen)
        with pytest.raises(UsageError, match="one after the other, not in turns") as error:
            bool(decision)
        assert "`assert await new.faster_than(old)`" in error.value.hint
        assert decision.outcome == "not measured"
        assert "one after the other, not in turns; `assert await` the decision" in repr(decision)
        with pytest.raises(UsageError, match="one after the other, not in turns"):
            two.ratio_to(one)
        told = await decision
        assert len(noted.seen) == calls + 2 * 6
        assert told.evidence.interval is not None
        assert two.ratio_to(one) == told.evidence.interval
        assert two.no_faster_than(one).evidence.interval is not None
        assert await two.faster_than(one) is not decision
        assert len(noted.seen) == calls + 2 * 6

    asyncio.run(test())


def test_async_ones_of_a_plain_test_take_turns_at_once():
    """Async benchmarks of a plain test take turns at once, because no running loop would have to wait."""
    noted = Noted()
    headway = bench(rounds=5, calls=1)
    one, two = headway(noted.later_one), headway(noted.later_two)

    assert two.ratio_to(one) is not None


def test_loads_take_turns():
    """Two loads with a number of tasks each take turns, too."""
    headway = bench(rounds=5, calls=2)
    noted = Noted()
    one, two = headway.concurrent(noted.one, tasks=3), headway.concurrent(noted.two, tasks=3)
    decision = two.faster_than(one)
    found = headway.compare_concurrent({"a": noted.one, "b": noted.two}, tasks=3)

    assert decision.evidence.interval is not None
    assert [one.tasks for one in found.values()] == [3, 3]
    assert found["b"].ratio_to(found["a"]) is not None
    assert found["a"].launches[0].latencies_s


def test_results_of_two_tests_cannot_be_compared():
    """Results of two tests are not compared, as no interval of one sequence bounds the drift between two: an error."""
    noted = Noted()
    one, two = (bench(rounds=5, calls=1)(noted.one) for _ in range(2))

    decision = two.faster_than(one)
    assert "both were measured in separate tests or sessions, not in turns" in repr(decision)
    for use in (decision.__bool__, lambda: two.ratio_to(one)):
        with pytest.raises(UsageError, match="separate tests or sessions, not in turns") as error:
            use()
        assert "compare them in one test" in error.value.hint


def test_turns_that_no_launch_measured_decide_nothing():
    """Launches may have measured two benchmarks, and have ended before the turns: neither an error of the test nor a claim."""
    launch = bench(rounds=5, calls=1)(int).launches
    journal = Journal(test="test", launches={"one": launch, "two": launch})
    noted = Noted()
    one, two = (bench(journal, name=name)(work) for name, work in (("one", noted.one), ("two", noted.two)))
    one, two = (replace(each, launches=(replace(*launch, turns=each.name),)) for each in (one, two))

    assert not two.faster_than(one)
    assert "not measured, no launch measured both in turns" in repr(two.faster_than(one))
    with pytest.raises(HeadwayError, match="no launch measured both in turns"):
        two.ratio_to(one)


def test_a_plain_function_that_gives_an_awaitable_is_awaited():
    """A plain function that returns an awaitable, as clients' methods do, is awaited."""

    async def test():
        noted = Noted()

        def get():
            return noted.later_one()

        headway = bench(rounds=5, calls=1)
        result = await headway(get)
        assert (result.model, result.measured) == ("asyncio", True)
        assert len(noted.seen) == 6
        many = await headway.concurrent(get, tasks=3)
        assert many.model == "asyncio"
        assert len(many.launches[0].latencies_s) == 15

    asyncio.run(test())


def test_an_async_generator_is_refused():
    """An async generator is refused, because the figure would be that of creating it."""

    async def count():
        yield 1

    with pytest.raises(UsageError, match="count is an async generator"):
        bench()(count)


def test_a_plain_generator_is_refused():
    """A plain generator is refused for the same reason."""

    def count():
        yield 1

    with pytest.raises(UsageError, match="count is a generator"):
        bench()(count)


def _numbers():
    yield 1


async def _numbers_later():
    yield 1


@functools.wraps(list)
def _decorated():
    return _numbers()


class _Iterable:
    def __call__(self):
        yield 1


async def _awaited():
    return _numbers_later()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda: _numbers(), "<lambda> returns a generator"),  # noqa: PLW0108  (a function that returns one)
        (_decorated, "list returns a generator"),
        (_Iterable(), "_Iterable returns a generator"),
        (lambda: (one for one in range(3)), "<lambda> returns a generator"),
        (lambda: _numbers_later(), "<lambda> returns an async generator"),  # noqa: PLW0108
        (_awaited, "_awaited returns an async generator"),
        (lambda: map(str, range(3)), r"<lambda> returns an iterator \(`map`\)"),
        (lambda: zip(range(3), range(3), strict=True), r"<lambda> returns an iterator \(`zip`\)"),
    ],
)
def test_a_function_that_returns_a_generator_is_refused(function, message):
    """The creation of a generator is not measured either if a function of another kind creates it."""
    for measure in (bench(), bench().concurrent):
        with pytest.raises(UsageError, match=message):
            measure(function)


def test_a_function_may_return_another_iterator():
    """A file or a list's iterator may be the result of a function's whole work."""
    assert bench(rounds=3)(lambda: iter([1, 2])).measured


def test_what_the_function_returned_is_kept():
    """The value of the first call, which is the test's, is kept."""
    numbers = itertools.count()

    async def later():
        return next(numbers)

    assert bench(rounds=5)(lambda: next(numbers)).returned == 0
    assert isinstance(bench(rounds=5)(later).returned, int)
    assert Bench(Journal(test="test", why_not="`--headway-disable`"))(lambda: 7).returned == 7


def test_the_collector_can_be_off_while_a_round_is_timed():
    """The garbage collector is off while a round is timed, and on again after it."""
    seen = set()
    bench(rounds=5, gc=False)(lambda: seen.add(gc.isenabled()))

    assert seen == {False}
    assert gc.isenabled()


def test_pytest_benchmark_is_told_whether_the_collector_was_off(tmp_path):
    """The file for pytest-benchmark's tools says that the collector was off, by the option or by the program itself."""
    journal = Journal(test="test", group="file")
    headway = bench(journal, rounds=5)
    headway(print)
    headway.options(gc=False)(print)
    gc.disable()
    try:
        headway(print)
    finally:
        gc.enable()

    found = to_pytest_benchmark({"file": list(journal.entries.values())}, tmp_path)["benchmarks"]
    assert [one["options"]["disable_gc"] for one in found] == [False, True, True]


@pytest.mark.times
def test_a_benchmark_goes_on_until_it_is_precise():
    """A benchmark goes on until it is precise, up to ten times as long; without need it ends soon after its time.

    The first look is then, and the second one, which must be narrow too, comes after half as many rounds more.
    """
    often = bench(seconds=0.05, precision=1e-9)(lambda: None)
    soon = bench(seconds=0.05, precision=100.0)(lambda: None)
    (often,), (soon,) = often.launches, soon.launches

    assert sum(often.values_s) * often.calls > 0.4
    before_time = int(len(soon.values_s) / steps._GROWTH) - 1
    assert before_time < steps._LEAST_ROUNDS or sum(soon.values_s[:before_time]) * soon.calls < 0.05
