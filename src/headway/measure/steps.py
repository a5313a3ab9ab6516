"""The steps of a measurement: one first call, calibration, then rounds in turns, for sync and async functions alike."""

import contextlib
import gc
import math
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from headway.agent.headway_agent import turns
from headway.errors import UsageError
from headway.measure import intervals, loops, work
from headway.measure.journal import Options
from headway.measure.measured import Measured, name_of_turns
from headway.measure.open_load import told_of_begins
from headway.measure.rounds import Lag, Round, Source, Steps, Target, Watch
from headway.measure.seen import tracing_tools

__all__ = ["Plan", "called", "measured"]

_ROUND_NS = 10_000_000
_TASK_NS = 20_000_000
"""Workers of one process take turns with the GIL, 5 ms each: a task shorter than this would never meet another."""
_LEAST_ROUNDS = 5
_ROUNDS_PER_S = 1_000
"""The most rounds for each second that a benchmark should take: those of 10 ms for `_MOST_TIMES` as long."""
_MOST_ROUNDS = 100_000
"""The most rounds of any benchmark, which bounds its memory."""
_LOOKS = 500
"""How many looks there are, at most, while the number of rounds doubles: a look at whether they are enough goes over all."""
_GROWTH = 1.5
"""How many times as many rounds there are at a look at the precision as at the look before."""
_MOST_CALLS = 10**7
_MOST_LATENCIES = 500_000
_MOST_TIMES = 10
"""A benchmark takes at most this many times its `seconds`: for its precision, or with its set-up and tear-down."""
_LEAST_WITH_SET_UP = 36
"""Set-up and tear-down end a benchmark only after so many rounds: enough for its interval's blocks."""


@final
@dataclass(frozen=True)
class Plan:
    """One function to measure: the function, its source and its options; for an alternative, also its label and group.

    `name` is unique in its test. `called` is the name of its result, if that is another. `lag` means that the event
    loop's lag is measured in the meantime, if the function is async.
    """

    name: str
    target: Target
    options: Options
    model: str
    tasks: int
    source: Callable[[Target, Watch], Source]
    calls: int | None = None
    rounds: int | None = None
    lag: bool = False
    label: str = ""
    compared: str = ""
    called: str = ""


def called(plan: Plan) -> Steps:
    """Call a function once, with its set-up and tear-down, and return its result: the first step of measuring, too."""
    target = yield from _prepared(plan)
    try:
        with _as_wanted(plan.options):
            return (yield target.first_call())
    finally:
        plan.target.awaits = target.awaits
        yield from _cleaned(plan)


def _prepared(plan: Plan) -> Steps:
    if plan.options.setup is None:
        return plan.target
    given = yield plan.options.setup()
    if given is None:
        return plan.target
    try:
        args, kwargs = given
        return Target(plan.target.function, tuple(args), dict(kwargs), plan.target.awaits)
    except (TypeError, ValueError):
        raise UsageError(
            f"the set-up returned {given!r}", hint="return None or the arguments, as (args, kwargs)"
        ) from None


def _cleaned(plan: Plan) -> Steps:
    if plan.options.teardown is not None:
        yield plan.options.teardown()


def measured(
    wanted: Sequence[Plan], *, reference: Plan | None = None, at_turn: Callable[[], None] | None = None
) -> Steps:
    """Measure plans whose functions have been called once, in turns, and return the measurements by name.

    Args:
        wanted: The plans that take turns.
        reference: A plan that takes turns with them, and whose times are stored with their measurements.
        at_turn: Called before each turn; waits for another process's turn to end.
    """
    plans = [*wanted, reference] if reference is not None else list(wanted)
    watches = {plan.name: Watch(wanted=plan.options.trace) for plan in plans}
    tools = tracing_tools()
    with contextlib.ExitStack() as stack:
        sources = {}
        for plan in plans:
            sources[plan.name] = plan.source(plan.target, watches[plan.name])
            stack.callback(sources[plan.name].close)
        calls, lags = {}, {plan.name: Lag() for plan in plans}
        for plan in plans:
            calls[plan.name] = yield from _calibrated(plan, sources[plan.name], watches[plan.name])
        loop_s = None
        if any(plan.target.is_async for plan in plans):
            loop_s = yield loops.task_cost_s()
        gc.collect()
        rounds: dict[str, list[Round]] = {plan.name: [] for plan in plans}
        elapsed_s, looks = 0.0, _Looks()
        while not _enough(rounds, wanted, elapsed_s, looks):
            if at_turn is not None:
                at_turn()
            begun_ns = work.now_ns()
            for plan in turns.in_order(plans, len(rounds[plans[0].name])):
                lag = lags[plan.name] if plan.lag and plan.target.is_async else None
                one = yield from _round(plan, sources[plan.name], calls[plan.name], watches[plan.name], lag)
                rounds[plan.name].append(one)
            elapsed_s += (work.now_ns() - begun_ns) / 1e9
    name = name_of_turns()
    beside = rounds[reference.name] if reference is not None else []
    return {
        plan.name: _as_measured(
            rounds[plan.name],
            turns=name,
            loop_s=loop_s if plan.target.is_async else None,
            lags_s=lags[plan.name].found_s,
            note=watches[plan.name].note,
            tools=tools,
            collects=plan.options.gc and gc.isenabled(),
            reference_s=tuple(one.took_ns / one.calls / 1e9 for one in beside),
        )
        for plan in wanted
    }


@final
class _Looks:
    """The looks at whether an interval is narrow enough.

    The width of an interval varies, and a measurement that ends at the first narrow one has an interval that is
    narrower than it should be: it misses the truth two or three times too often if there is a look after each round. So
    there are few looks, and two in succession must find a narrow interval. `tests/property/test_rounds_intervals.py`
    simulates it.
    """

    def __init__(self) -> None:
        self._next, self._narrow = 0, False

    def enough(self, rounds: int, precision: float, half_width: Callable[[], float]) -> bool:
        """Return whether the interval, whose half-width is that of so many rounds, is narrow enough for good."""
        if rounds < self._next:
            return False
        before, self._narrow = self._narrow, half_width() <= precision
        self._next = math.ceil(_GROWTH * rounds)
        return before and self._narrow


def _enough(rounds: Mapping[str, list[Round]], plans: Sequence[Plan], elapsed_s: float, looks: _Looks) -> bool:
    """Return whether there are enough rounds; `elapsed_s` includes set-ups and tear-downs."""
    done = len(rounds[plans[0].name])
    wanted = plans[0].rounds or plans[0].options.rounds
    if wanted is not None:
        return done >= wanted
    most = min(_MOST_ROUNDS, math.ceil(_ROUNDS_PER_S * max(1.0, plans[0].options.seconds)))
    if done < most and done % max(1, done // _LOOKS):
        return False
    took_s = sum(one.took_ns for plan in plans for one in rounds[plan.name]) / 1e9
    latencies = max(sum(len(one.latencies_ns) for one in rounds[plan.name]) for plan in plans)
    usual_s = sum(plan.options.seconds for plan in plans)
    if done >= most or (done >= _LEAST_ROUNDS and latencies >= _MOST_LATENCIES):
        return True
    if done >= _LEAST_WITH_SET_UP and elapsed_s >= _MOST_TIMES * usual_s:
        return True
    if done < _LEAST_ROUNDS or took_s < usual_s:
        return False
    precision = plans[0].options.precision
    if precision is None or took_s >= _MOST_TIMES * usual_s:
        return True
    return looks.enough(done, precision, lambda: _widest([rounds[plan.name] for plan in plans]))


def _widest(rounds: Sequence[Sequence[Round]]) -> float:
    """Return the half-width of the interval of one plan, or the largest of the ratios to the first of several plans."""
    values = [[one.took_ns / one.calls for one in of_plan] for of_plan in rounds]
    return max(_half_width(one, values[0] if len(values) > 1 else None) for one in values[len(values) > 1 :])


def _half_width(values: Sequence[float], baseline: Sequence[float] | None) -> float:
    """Return the half-width of the interval of a level, or of the ratio to `baseline`, which took turns with it."""
    found = intervals.level(values) if baseline is None else intervals.ratio_in_turns([(values, baseline)])
    return found.half_width


def _calibrated(plan: Plan, source: Source, watch: Watch) -> Steps:
    """Return the number of calls that make a round; the calls that find it out also warm the function up.

    One call may be slow once: it loads something, or another program has the core. Plans that take turns would have
    rounds of different lengths then, and short rounds cost more per call, or are preempted less often. So a round must
    be long enough twice.
    """
    fixed = plan.calls or plan.options.calls
    if fixed is not None or plan.options.setup is not None:
        return fixed or 1
    target_ns = _ROUND_NS if plan.tasks == 1 or plan.target.is_async else _TASK_NS * plan.tasks
    calls, before_ns = 1, 0
    if plan.model not in {"serial", "loop"}:
        # A worker's first call may take longer than all others: it opens a connection, or imports a module.
        yield from _round(plan, source, calls, watch, None)
    while True:
        one = yield from _round(plan, source, calls, watch, None)
        # The time that no call takes is a wait for a worker that begins late, and not a task's length.
        took_ns = min(one.took_ns, sum(one.latencies_ns) or one.took_ns)
        if took_ns >= target_ns and not before_ns:
            before_ns = took_ns
            continue
        took_ns, before_ns = min(took_ns, before_ns or took_ns), 0
        if took_ns >= target_ns or calls >= _MOST_CALLS:
            return calls
        wanted = math.ceil(calls * 1.1 * target_ns / max(took_ns, 1))
        calls = min(_MOST_CALLS, 10 * calls, max(calls + 1, wanted))


def _round(plan: Plan, source: Source, calls: int, watch: Watch, lag: Lag | None) -> Steps:
    target = yield from _prepared(plan)
    try:
        if target is not plan.target:
            source = plan.source(target, watch)
        with _as_wanted(plan.options):
            before_ns = time.process_time_ns()
            done = source.once(calls)
            one = yield (done if lag is None or isinstance(done, Round) else _lagging(done, lag))
            one = replace(one, cpu_ns=time.process_time_ns() - before_ns)
    finally:
        if target is not plan.target:
            source.close()
        yield from _cleaned(plan)
    if plan.target.is_async:
        # If the function never waits, the loop's other tasks have had no turn.
        yield loops.pause()
    return one


@contextlib.contextmanager
def _as_wanted(options: Options) -> Iterator[None]:
    """Set the switch interval and the garbage collector as the options say, for the block."""
    before, collects = sys.getswitchinterval(), gc.isenabled()
    if options.switch_interval_s is not None:
        sys.setswitchinterval(options.switch_interval_s)
    if not options.gc:
        gc.disable()
    try:
        yield
    finally:
        if options.switch_interval_s is not None:
            sys.setswitchinterval(before)
        if collects and not options.gc:
            gc.enable()


async def _lagging(round_of: Awaitable[Round], lag: Lag) -> Round:
    """Await a round, and measure the loop's lag in the meantime."""
    lag.restart()

    async def main() -> Round:
        try:
            return await round_of
        finally:
            lag.stop()

    done: Round = (await loops.gather([main, lag.watch]))[0]
    return done


def _as_measured(rounds: list[Round], *, lags_s: list[float], reference_s: tuple[float, ...], **told: Any) -> Measured:
    took_s = sum(one.took_ns for one in rounds) / 1e9
    is_open = bool(rounds[0].stretches_s)
    if not is_open:
        values = [max(1, one.took_ns) / one.calls / 1e9 for one in rounds]
    elif len(rounds) == 1:
        values = list(rounds[0].stretches_s)
        # The reference had one round beside all of them.
        reference_s *= len(values)
    else:
        # Only whole rounds take turns: the stretches of one round have no neighbours in the other benchmark.
        values = [statistics.median(one.latencies_ns) / 1e9 for one in rounds]
    watched = [one for one in rounds if one.held is not None and one.waited is not None]
    return Measured(
        values_s=tuple(values),
        calls=rounds[0].calls,
        reference_s=reference_s,
        latencies_s=tuple(latency / 1e9 for one in rounds for latency in one.latencies_ns),
        lags_s=tuple(lags_s),
        held=tuple(one.held for one in watched if one.held is not None),
        waited=tuple(one.waited for one in watched if one.waited is not None),
        rate_per_s=sum(one.calls for one in rounds) / took_s if is_open else None,
        late=told_of_begins([one.begins for one in rounds if one.begins is not None]),
        computed=sum(one.cpu_ns for one in rounds) / 1e9 / max(took_s, 1e-9),
        **told,
    )
