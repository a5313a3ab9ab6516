"""The calls of functions: how often, with which set-up, and which calls are refused."""

import asyncio
import functools
import gc
import itertools
import sys
import time
import types

import pytest

from headway.errors import UsageError
from headway.measure import loops, steps, work
from headway.measure.bench import Bench
from headway.measure.journal import Journal, Options

QUICK = Options(seconds=0.01)


@pytest.fixture(autouse=True, scope="module")
def _nothing_to_collect():
    """Take what the test session holds out of the garbage collections that each benchmark begins with."""
    gc.freeze()
    yield
    gc.unfreeze()


def bench(**options):
    return Bench(Journal(test="test"), QUICK.changed(options))


def add(a, b=1):
    return a + b


async def nothing():
    """Do nothing, without waiting."""


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), ((1, 2), {}), ((), {"a": 1, "class_": 2}), ((1,), {"b": 2}), ((), {"not a name": 1, "class": 2})],
)
def test_a_batch_calls_with_the_arguments_given(args, kwargs):
    """The arguments are written out in the loop, or unpacked if they cannot be."""
    seen = []
    made = work.timer(lambda *args, **kwargs: seen.append((args, kwargs)), args, kwargs)

    assert made(3) > 0
    assert seen == [(args, kwargs)] * 3


def test_a_batch_of_awaits_awaits_each():
    """Each await of a batch is awaited, one after the other."""
    seen = []

    async def one(value):
        await asyncio.sleep(0)
        seen.append(value)

    assert asyncio.run(work.async_timer(one, (7,), {})(4)) > 0
    assert seen == [7] * 4


@pytest.mark.times
def test_rounds_are_calibrated():
    """Rounds of long calls have few calls, and rounds of short ones many."""
    long = bench(rounds=2)(time.sleep, 0.02).launches[0]
    # A batch that was interrupted while it was timed reduces their number.
    short = max((bench(rounds=2)(add, 1).launches[0] for _ in range(3)), key=lambda one: one.calls)

    assert long.calls == 1
    assert short.calls > 1000
    assert all(value >= 0.02 for value in long.values_s)


@pytest.mark.times
@pytest.mark.parametrize("slow", [2, 3, 12])
def test_one_slow_call_does_not_make_the_rounds_short(slow):
    """A call that loads something makes one round long, not each: rounds of fewer calls than others' cost more per call."""
    seen = []

    def loads_once(function):
        seen.append(function)
        if len(seen) == slow:
            time.sleep(0.05)

    assert bench(rounds=2)(loads_once, add).launches[0].calls > 100


def test_one_round_bounds_nothing():
    """The reason why one round decides nothing is their number, and not that the limit is close."""
    decision = bench(rounds=1)(add, 1).takes_less_than(1)

    assert "one round bounds nothing" in repr(decision)


def test_a_fixed_number_of_rounds_and_calls():
    """A fixed number of rounds and calls comes in addition to the first call, which is the test's."""
    calls = []
    result = bench(rounds=4, calls=5)(calls.append, 1)

    assert (len(calls), len(result.launches[0].values_s), result.launches[0].calls) == (1 + 4 * 5, 4, 5)


def test_set_up_and_tear_down_are_around_each_round():
    """Set-up and tear-down enclose each round, and the set-up's result replaces the arguments."""
    seen = []

    def prepare():
        seen.append("set-up")
        return ([len(seen)],), {}

    bench(rounds=2, setup=prepare, teardown=lambda: seen.append("tear-down"))(lambda one: seen.append(("call", one[0])))
    assert seen == [
        "set-up",
        ("call", 1),
        "tear-down",
        "set-up",
        ("call", 4),
        "tear-down",
        "set-up",
        ("call", 7),
        "tear-down",
    ]


def test_async_set_up_is_awaited_in_the_functions_loop():
    """An async set-up is awaited in the function's loop in each round."""
    loops = []

    async def note():
        loops.append(asyncio.get_running_loop())

    bench(rounds=2, setup=note, teardown=note)(nothing)
    assert len(loops) == 6
    assert len(set(loops)) == 1


def test_the_tear_down_comes_also_after_an_error():
    """The tear-down runs after an error, too, and the error is raised."""
    seen = []

    def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        bench(teardown=lambda: seen.append(1))(fail)
    assert seen == [1]


def test_an_async_tear_down_is_awaited_after_an_error():
    """An async tear-down is awaited in the function's loop after an error, and the switch interval is restored."""
    seen, before = [], sys.getswitchinterval()

    async def fail():
        raise ZeroDivisionError

    async def clean():
        await asyncio.sleep(0)
        seen.append(1)

    with pytest.raises(ZeroDivisionError):
        bench(teardown=clean, switch_interval_s=0.001)(fail)
    assert seen == [1]
    assert sys.getswitchinterval() == before


def test_alternatives_of_the_same_test_have_groups_of_their_own():
    """A test that compares twice has two comparisons."""
    journal = Journal(test="test", group="file")
    for value in (1, 2):
        Bench(journal, QUICK).compare({"a": add, "b": add}, value)

    assert {entry.group for entry in journal.entries.values()} == {"file: test", "file: test (2)"}


def test_the_set_ups_time_is_not_the_functions():
    """The time of the set-up, and of the loop's start, is not the function's."""
    begun_s, ended_s = [], []

    def setup():
        begun_s.append(time.perf_counter())
        time.sleep(0.01)
        ended_s.append(time.perf_counter())

    (found,) = bench(rounds=9, setup=setup)(add, 1).launches
    # A set-up and its round end before the next set-up begins. The first set-up is that of a call before the rounds.
    until_s = [*begun_s[2:], time.perf_counter()]
    for value_s, after_s, before_s in zip(found.values_s, ended_s[1:], until_s, strict=True):
        assert value_s * found.calls <= before_s - after_s


def test_alternatives_take_turns():
    """Every alternative runs in each round, in an order that changes."""
    seen = []
    found = bench(rounds=6, calls=1).compare({"a": lambda: seen.append("a"), "b": lambda: seen.append("b")})

    rounds = ["".join(seen[place : place + 2]) for place in range(4, len(seen), 2)]
    assert {"".join(sorted(one)) for one in rounds} == {"ab"}
    assert len(set(rounds)) == 2
    assert [one.name for one in found.values()] == ["test: a", "test: b"]


def test_plain_and_async_alternatives_are_compared_in_one_loop():
    """Plain and async alternatives are compared in one loop."""

    async def test():
        return await bench(rounds=3).compare({"plain": add, "async": awaits}, 1)

    async def awaits(value):
        return value

    found = asyncio.run(test())
    assert [one.model for one in found.values()] == ["serial", "asyncio"]


def test_each_call_of_a_load_is_timed():
    """Each call of each task is timed."""
    serial = bench(rounds=2).serial(add, 5, 1)
    threads = bench(rounds=2, calls=3).concurrent(add, 1, tasks=4)

    assert len(serial.launches[0].latencies_s) == 2 * 5
    assert len(threads.launches[0].latencies_s) == 2 * 3 * 4
    assert threads.model == "threads"


@pytest.mark.times
def test_tasks_of_a_loop_overlap():
    """Eight naps at once take as long as one, and the loop's lag is measured meanwhile."""
    at_once = [0]

    async def nap():
        at_once.append(at_once[-1] + 1)
        await asyncio.sleep(0.02)
        at_once.append(at_once[-1] - 1)

    result = bench(rounds=2).concurrent(nap, tasks=8)
    assert max(at_once) == 8
    assert result.per_call_s < result.percentile_s(0.5)  # they are equal if one nap begins after the other
    assert result.percentile_s(0.5) >= 0.02
    assert result.launches[0].lags_s
    assert bench(rounds=2).concurrent(nap, tasks=1).launches[0].lags_s


def test_a_long_set_up_ends_the_rounds(monkeypatch):
    """A set-up of a second, or a tear-down, does not run before each of a thousand short rounds."""
    clock_s, set_up = [0.0], []

    def setup():
        clock_s[0] += 0.5
        set_up.append(1)

    def teardown():
        clock_s[0] += 0.5

    monkeypatch.setattr(steps, "work", types.SimpleNamespace(now_ns=lambda: int(1e9 * clock_s[0])))
    short = bench(seconds=1.0, setup=setup, teardown=teardown)(add, 1)
    assert len(short.launches[0].values_s) == 36
    assert len(set_up) == 37  # with the first call
    assert len(bench(rounds=40, setup=setup)(add, 1).launches[0].values_s) == 40


def test_an_open_load_counts_from_when_a_call_should_begin():
    """One worker that takes 10 ms for a call every 5 ms makes each call wait longer than the one before."""
    result = bench().open(time.sleep, 0.01, rate=200, seconds=0.1, workers=1)
    latencies = result.launches[0].latencies_s

    assert len(latencies) == 20
    # A call ends at least 10 ms after the one before, and should have begun 5 ms after it.
    assert all(later - earlier > 0.0049 for earlier, later in itertools.pairwise(latencies))
    assert latencies[-1] > 0.08


@pytest.mark.times
def test_an_async_open_load_begins_at_its_times():
    """Calls begin at their times, however long each takes: one ends only after two more have begun."""
    begun = []

    async def nap():
        begun.append(asyncio.Event())
        if len(begun) == 8:
            begun[5].set()
        await (begun[5].wait() if len(begun) == 6 else asyncio.sleep(0.03))

    result = bench().open(nap, rate=100, seconds=0.1)
    latencies_s = result.launches[0].latencies_s
    assert len(latencies_s) == 10
    assert min(latencies_s) > 0.019
    assert result.percentile_s(0.5) >= 0.03
    assert result.throughput_per_s < 110


@pytest.mark.parametrize("loop", ["asyncio", "uvloop", "trio"])
def test_no_call_of_an_open_load_begins_too_early(loop):
    """A call that takes no time has a latency all the same: none begins before its time."""
    result = bench(loop=loop).open(nothing, rate=730, seconds=0.3)

    assert min(result.launches[0].latencies_s) > 0
    assert result.interval is not None


@pytest.mark.parametrize("loop", ["asyncio", "uvloop", "trio"])
def test_a_plain_test_has_the_loop_that_it_names(loop):
    """A plain test runs in the loop that it names."""
    seen = []

    async def look():
        seen.append("trio" if "trio" in sys.modules and loop == "trio" else type(asyncio.get_running_loop()).__module__)

    result = bench(loop=loop, rounds=1)(look)
    assert seen[0].partition(".")[0] == {"asyncio": "asyncio"}.get(loop, loop)
    assert result.model == ("trio" if loop == "trio" else "asyncio")


def test_the_switch_interval_is_put_back():
    """The switch interval holds only while something is measured."""
    before, seen = sys.getswitchinterval(), set()
    bench(switch_interval_s=0.001, rounds=1)(lambda: seen.add(sys.getswitchinterval()))

    assert [pytest.approx(0.001)] == list(seen)
    assert sys.getswitchinterval() == before


@pytest.mark.times
def test_workers_scale_or_do_not():
    """Sleeping threads scale, and the figures are in the journal."""
    journal = Journal(test="test")
    result = Bench(journal, QUICK.changed({"rounds": 6, "calls": 1}))(time.sleep, 0.05)

    assert result.scales(threads=4, at_least=1.5)
    assert not result.scales(threads=2, at_least=2.5)
    assert list(journal.entries)[:3] == ["test", "test: 1 thread", "test: 4 threads"]


def test_nothing_is_measured_where_that_is_not_wanted():
    """The function is called once, as the test would do, if nothing is to be measured."""
    calls = []
    result = Bench(Journal(test="test", why_not="`--headway-disable`"))(calls.append, 1)

    assert calls == [1]
    assert not result.measured


class Awaitable:
    """An object that may be awaited, and is no coroutine."""

    def __await__(self):
        yield from ()


def measuring(bench):
    """Return an async function that measures another one."""

    async def outer():
        await bench(nothing)

    return outer


def call_of_a_coroutine():
    return nothing()


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda one: one(call_of_a_coroutine), "returns a coroutine that is not awaited"),
        (lambda one: one(lambda: nothing() or None), "returns a coroutine that is not awaited"),
        (lambda one: one(functools.partial(call_of_a_coroutine)), "returns a coroutine that is not awaited"),
        (lambda one: one(Awaitable), r"returns an awaitable \(Awaitable\) that is not awaited"),
        (lambda one: one(nothing()), "the argument is a coroutine"),
        (lambda one: one(lambda: one(add, 1)), "<lambda> is measured, and calls `headway` itself"),
        (lambda one: one(lambda: one.serial(add, 3, 1) and None), "<lambda> is measured, and calls `headway` itself"),
        (lambda one: one(measuring(one)), "outer is measured, and calls `headway` itself"),
        (lambda one: one.concurrent(measuring(one)), "outer is measured, and calls `headway` itself"),
        (lambda one: one(7), "7 is not a function"),
        (lambda one: one.options(second=1), "no option is called 'second'"),
        (lambda one: one.options(seconds=0), "seconds=0 is not above 0"),
        (lambda one: one.options(rounds=1.5), "rounds=1.5 is not a count"),
        (lambda one: one.concurrent(nothing, model="trio"), "cannot run under the model 'trio'"),
        (lambda one: one.options(loop="twisted"), "loop='twisted' is not a loop"),
        (lambda one: one.options(setup=nothing)(add, 1), "a set-up or tear-down is async"),
        (lambda one: one.options(setup=lambda: 7)(add, 1), "the set-up returned 7"),
        (lambda one: one.compare({"one": add}, 1), "1 function given to compare, expected two or more"),
        (lambda one: one.compare({1: add, "1": add}, 1), "two of the alternatives 1, '1' have the same name"),
        (lambda one: one.options(name=7), "name=7 is not a text"),
        (lambda one: one.options(group=None), "group=None is not a text"),
        (lambda one: one.concurrent(add, 1, model="fibres"), "no model is called 'fibres'"),
        (lambda one: one.concurrent(add, 1, tasks=0), "tasks=0 is not a count"),
        (lambda one: one.concurrent(nothing, model="threads"), "cannot run under the model 'threads'"),
        (lambda one: one.concurrent(lambda: 1, tasks=2, model="processes"), "cannot go to another process"),
        (lambda one: one.open(add, 1, rate=0), "rate=0 is not above 0"),
    ],
)
def test_what_makes_no_sense_is_refused(act, message):
    """Senseless calls are refused with a hint, before there is a figure."""
    with pytest.raises(UsageError, match=message) as error:
        act(bench())
    assert error.value.hint


@pytest.mark.parametrize("loop", ["trio", "uvloop"])
def test_a_loop_that_the_test_does_not_run_in_is_refused(loop):
    """In an async test, a loop that is not the test's own is an error, also for a function that makes coroutines."""

    async def test(function, **options):
        return await bench(**options)(function)

    for function in (nothing, call_of_a_coroutine):
        with pytest.raises(UsageError, match=f"loop='{loop}' is for tests that are not async") as error:
            asyncio.run(test(function, loop=loop))
        assert error.value.hint
    assert asyncio.run(test(add, loop=loop, setup=lambda: ((1,), {}))).model == "serial"
    assert asyncio.run(test(nothing, loop="asyncio")).measured


def test_a_loop_that_the_test_runs_in_may_be_named():
    """A loop of uvloop is its own and asyncio's, and trio's is trio's alone."""
    found = {}

    async def look():
        return [one for one in loops.LOOPS if loops.runs_in(one)]

    for loop in ("asyncio", "trio", "uvloop"):
        if loop == "uvloop":
            pytest.importorskip(loop)
        found[loop] = loops.run(look, loop)
    assert found == {"asyncio": ["asyncio"], "trio": ["trio"], "uvloop": ["asyncio", "uvloop"]}


def test_models_are_listed_once():
    """The hint for an unknown model has each model that there is once."""
    with pytest.raises(UsageError) as error:
        bench().concurrent(add, 1, model="fibres")
    assert error.value.hint == ("one of threads, processes, interpreters, processes-spawn, processes-forkserver")


def test_what_nobody_awaits_is_an_error():
    """A benchmark that is never awaited is an error, at the test's end and where its figure is used."""
    journal = Journal(test="test")

    async def test():
        return Bench(journal, QUICK)(nothing)

    pending = asyncio.run(test())
    with pytest.raises(UsageError, match="the benchmark was not awaited"):
        bool(pending)
    with pytest.raises(UsageError, match="test: the benchmark was not awaited") as error:
        journal.close()
    # The innermost frame is that of the call.
    assert error.traceback[-1].statement.lines == ["        return Bench(journal, QUICK)(nothing)"]
