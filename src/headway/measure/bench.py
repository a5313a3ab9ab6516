"""What a test calls: `headway(function, *args)` and its loads. One set of steps for plain and async functions.

A benchmark is calibrated (how many calls make a round), then run in rounds; alternatives take turns, forth
and back. What is measured goes into the test's journal, from which the session makes tables and files.
"""

import contextlib
import gc
import math
import sys
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, final

from headway.agent.headway_agent import turns
from headway.errors import UsageError
from headway.measure import loops
from headway.measure.journal import Entry, Journal, Options
from headway.measure.result import Comparison, Measured, Result
from headway.measure.rounds import (
    WORKERS,
    Batches,
    Lag,
    Load,
    Open,
    Round,
    Source,
    Steps,
    Target,
    Watch,
    await_steps,
    run_steps,
)

__all__ = ["Bench"]

_ROUND_NS = 10_000_000
_TASK_NS = 20_000_000
"""Workers of one process take turns with the GIL, 5 ms each: a task that is shorter would never meet another."""
_LEAST_ROUNDS = 5
_MOST_ROUNDS = 1_000
_MOST_CALLS = 10**7
_MOST_LATENCIES = 500_000


@final
@dataclass(frozen=True)
class _Plan:
    """One alternative: what is called, and by what; where it is one of several that are compared, which, and of what."""

    name: str
    target: Target
    model: str
    tasks: int
    source: Callable[[Target, Watch], Source]
    calls: int | None = None
    rounds: int | None = None
    lag: bool = False
    label: str = ""
    compared: str = ""


@final
class _Pending:
    """An async benchmark that waits to be awaited."""

    def __init__(self, journal: Journal, names: list[str], main: Callable[[], Awaitable[Any]]) -> None:
        self._journal, self._names, self._main = journal, names, main
        journal.pending.extend(names)

    def __await__(self) -> Generator[Any, None, Any]:
        for name in self._names:
            if name in self._journal.pending:
                self._journal.pending.remove(name)
        return self._main().__await__()

    def __bool__(self) -> bool:
        raise UsageError("nobody awaited the benchmark", hint="write `await headway(...)`: its function is async")


@final
class Bench:
    """The fixture `headway` of one test."""

    def __init__(self, journal: Journal, options: Options | None = None) -> None:
        self._journal = journal
        self._options = options or Options()

    def options(self, **changes: Any) -> "Bench":
        """Return a bench with other options (see `Options`), of the same test.

        Raises:
            UsageError: There is no such option, or it cannot have that value.
        """
        return Bench(self._journal, self._options.changed(changes))

    def __call__(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Time a function, call after call, and return its `Result`; to be awaited where the function is async.

        Raises:
            UsageError: It is no function, or a coroutine would never be awaited.
        """
        return self._one(Target(function, args, kwargs), "", 1, Batches)

    def serial(self, function: Callable[..., Any], /, calls: int, *args: Any, **kwargs: Any) -> Any:
        """Time a load of so many calls one after the other, each by itself."""
        target = Target(function, args, kwargs)
        source = self._load(1, "serial")
        return self._one(target, "", 1, source, calls=calls)

    def concurrent(
        self, function: Callable[..., Any], /, *args: Any, tasks: int = 16, model: str = "", **kwargs: Any
    ) -> Any:
        """Time a load of so many tasks at once, each call by itself.

        Args:
            function: What each task calls. Async functions run as tasks of the loop.
            args: Its arguments.
            tasks: How many at once.
            model: For plain functions "threads" (where none is given), "processes" or "interpreters".
            kwargs: More arguments.

        Raises:
            UsageError: There is no such model, or it is not for this function.
        """
        target = Target(function, args, kwargs)
        _check_count("tasks", tasks)
        if target.is_async:
            if model not in {"", loops.running() or self._options.loop}:
                raise UsageError(
                    f"{target.name} is async: it cannot run under the model {model!r} here",
                    hint="leave `model` out: async functions are tasks of the loop that runs",
                )
            return self._one(target, "", tasks, self._load(tasks, "loop"), lag=True)
        model = model or "threads"
        chosen = WORKERS.get(model, model)
        if chosen not in _POOLS:
            raise UsageError(f"no model is called {model!r}", hint=f"one of {', '.join([*WORKERS, *_POOLS[1:]])}")
        return self._one(target, chosen, tasks, self._load(tasks, chosen))

    def open(
        self,
        function: Callable[..., Any],
        /,
        *args: Any,
        rate: float,
        seconds: float = 1.0,
        workers: int = 64,
        **kwargs: Any,
    ) -> Any:
        """Time an open load: calls begin at their times, whether or not others have ended; latency counts from those times.

        Args:
            function: What is called.
            args: Its arguments.
            rate: Calls per second.
            seconds: For how long.
            workers: Threads that call plain functions; where all are busy, calls wait, and that counts.
            kwargs: More arguments.
        """
        target = Target(function, args, kwargs)
        for name, value in (("rate", rate), ("seconds", seconds)):
            if not 0 < value < math.inf:
                raise UsageError(f"{name}={value!r} is not above 0", hint="headway.open(function, rate=100, seconds=1)")
        _check_count("workers", workers)

        def source(one: Target, watch: Watch) -> Source:
            return Open(one, rate, workers, watch)

        model = "" if target.is_async else "threads"
        calls = max(1, round(rate * seconds))
        return self._one(target, model, 1, source, calls=calls, rounds=1, lag=target.is_async)

    def compare(self, alternatives: Mapping[str, Callable[..., Any]], /, *args: Any, **kwargs: Any) -> Any:
        """Time alternatives in turns, with the same arguments, and return a `Comparison`; to be awaited where one is async.

        Raises:
            UsageError: There are not two at least.
        """
        if len(alternatives) < 2:
            raise UsageError("there is nothing to compare", hint='headway.compare({"one": f, "other": g})')
        stem = self._journal.stem(self._options.name or self._journal.test)
        plans = []
        for name, function in alternatives.items():
            target = Target(function, args, kwargs)
            target.check()
            full = self._journal.named(f"{stem}: {name}")
            plans.append(_Plan(full, target, _model("", target), 1, Batches, label=name, compared=stem))

        def finish(results: Mapping[str, Result]) -> Comparison:
            return Comparison(dict(zip(alternatives, results.values(), strict=True)))

        return self._go(plans, finish)

    def _load(self, tasks: int, model: str) -> Callable[[Target, Watch], Source]:
        return lambda target, watch: Load(target, tasks, model, watch)

    def _one(
        self,
        target: Target,
        model: str,
        tasks: int,
        source: Callable[[Target, Watch], Source],
        *,
        calls: int | None = None,
        rounds: int | None = None,
        lag: bool = False,
    ) -> Any:
        target.check()
        if calls is not None:
            _check_count("calls", calls)
        name = self._journal.named(self._options.name or self._journal.test)
        plan = _Plan(name, target, _model(model, target), tasks, source, calls, rounds, lag)
        return self._go([plan], lambda results: results[name])

    def _go(self, plans: list[_Plan], finish: Callable[[Mapping[str, Result]], Any]) -> Any:
        """Run the steps now, or return what is to be awaited."""

        def steps() -> Steps:
            return self._steps(plans, finish)

        if not any(plan.target.is_async for plan in plans):
            return run_steps(steps())
        if loops.running():
            return _Pending(self._journal, [plan.name for plan in plans], lambda: await_steps(steps()))
        return loops.run(lambda: await_steps(steps()), self._options.loop)

    def _steps(self, plans: list[_Plan], finish: Callable[[Mapping[str, Result]], Any]) -> Steps:
        library = loops.running()
        found: Mapping[str, tuple[Measured, ...]] = {}
        note = self._journal.why_not
        if self._journal.measures:
            with _switch_interval(self._options.switch_interval_s):
                measured = yield from self._measured(plans)
            found = {name: (one,) for name, one in measured.items()}
        else:
            for plan in plans:
                yield from self._called(plan)
            if self._journal.launches is not None:
                found, note = self._journal.launches, "no launch measured it"
        results = {}
        for plan in plans:
            launches = found.get(plan.name, ())
            result = Result(
                name=plan.name,
                model=library or "asyncio" if plan.model == "loop" else plan.model,
                tasks=plan.tasks,
                launches=launches,
                why_not="" if launches else note,
                traced=self._options.trace,
                failed=self._journal.failures,
                provisional=self._journal.provisional or bool(self._journal.why_not),
                _scaled=None if plan.target.is_async else self._scaler(plan),
            )
            results[plan.name] = result
            group = self._options.group or self._journal.group
            if plan.compared:
                entry = Entry(result, f"{group}: {plan.compared}", plan.label, plans[0].label)
            else:
                entry = Entry(result, group, plan.name)
            self._journal.entries[plan.name] = entry
        return finish(results)

    def _scaler(self, plan: _Plan) -> Callable[[str, int], tuple[Result, Result]]:
        """Return what measures a plan's function with one worker and with several, in turns."""

        def scaled(kind: str, count: int) -> tuple[Result, Result]:
            _check_count(kind, count)
            model = WORKERS[kind]
            stems = (f"{plan.name}: 1 of {kind}", f"{plan.name}: {count} {kind}")
            plans = [
                _Plan(self._journal.named(stem), plan.target, model, tasks, self._load(tasks, model))
                for stem, tasks in zip(stems, (1, count), strict=True)
            ]
            one, many = self._go(plans, lambda results: tuple(results.values()))
            return one, many

        return scaled

    def _called(self, plan: _Plan) -> Steps:
        """Call a function once, with its set-up and tear-down: also the first step of measuring it."""
        target = yield from self._prepared(plan.target)
        try:
            yield target.call()
        finally:
            yield from self._cleaned()

    def _prepared(self, target: Target) -> Steps:
        if self._options.setup is None:
            return target
        given = yield self._options.setup()
        if given is None:
            return target
        try:
            args, kwargs = given
            return Target(target.function, tuple(args), dict(kwargs))
        except (TypeError, ValueError):
            raise UsageError(
                f"the set-up returned {given!r}", hint="a set-up returns None or the arguments, as (args, kwargs)"
            ) from None

    def _cleaned(self) -> Steps:
        if self._options.teardown is not None:
            yield self._options.teardown()

    def _measured(self, plans: list[_Plan]) -> Steps:
        options = self._options
        watch = Watch(wanted=options.trace)
        for plan in plans:
            yield from self._called(plan)
        with contextlib.ExitStack() as stack:
            sources = {}
            for plan in plans:
                sources[plan.name] = plan.source(plan.target, watch)
                stack.callback(sources[plan.name].close)
            calls, lags = {}, {plan.name: Lag() for plan in plans}
            for plan in plans:
                calls[plan.name] = yield from self._calibrated(plan, sources[plan.name], watch)
            loop_s = None
            if any(plan.target.is_async for plan in plans):
                loop_s = yield loops.task_cost_s()
            gc.collect()
            rounds: dict[str, list[Round]] = {plan.name: [] for plan in plans}
            while not self._enough(rounds, plans):
                for plan in turns.in_order(plans, len(rounds[plans[0].name])):
                    lag = lags[plan.name] if plan.lag else None
                    one = yield from self._round(plan, sources[plan.name], calls[plan.name], watch, lag)
                    rounds[plan.name].append(one)
        return {
            plan.name: _as_measured(
                rounds[plan.name], loop_s if plan.target.is_async else None, lags[plan.name].found_s, watch.note
            )
            for plan in plans
        }

    def _enough(self, rounds: Mapping[str, list[Round]], plans: list[_Plan]) -> bool:
        done = len(rounds[plans[0].name])
        wanted = plans[0].rounds or self._options.rounds
        if wanted is not None:
            return done >= wanted
        took_s = sum(one.took_ns for these in rounds.values() for one in these) / 1e9
        latencies = max(sum(len(one.latencies_ns) for one in these) for these in rounds.values())
        enough = took_s >= self._options.seconds * len(plans) or latencies >= _MOST_LATENCIES
        return done >= _MOST_ROUNDS or (done >= _LEAST_ROUNDS and enough)

    def _calibrated(self, plan: _Plan, source: Source, watch: Watch) -> Steps:
        """Find how many calls make a round; what is run for that warms the function up."""
        fixed = plan.calls or self._options.calls
        if fixed is not None or self._options.setup is not None:
            return fixed or 1
        target_ns = _ROUND_NS if plan.tasks == 1 or plan.target.is_async else _TASK_NS * plan.tasks
        calls = 1
        while True:
            one = yield from self._round(plan, source, calls, watch, None)
            if one.took_ns >= target_ns or calls >= _MOST_CALLS:
                return calls
            wanted = math.ceil(calls * 1.1 * target_ns / max(one.took_ns, 1))
            calls = min(_MOST_CALLS, 10 * calls, max(calls + 1, wanted))

    def _round(self, plan: _Plan, source: Source, calls: int, watch: Watch, lag: Lag | None) -> Steps:
        target = yield from self._prepared(plan.target)
        try:
            if target is not plan.target:
                source = plan.source(target, watch)
            done = source.once(calls)
            one = yield (done if lag is None or isinstance(done, Round) else _lagging(done, lag))
        finally:
            if target is not plan.target:
                source.close()
            yield from self._cleaned()
        if plan.target.is_async:
            # The loop's other tasks have had no turn if the function never waits.
            yield loops.pause()
        return one


_POOLS = ("threads", "processes-spawn", "processes-forkserver", "interpreters")


def _model(model: str, target: Target) -> str:
    return model or ("loop" if target.is_async else "serial")


def _check_count(name: str, value: int) -> None:
    if not isinstance(value, int) or value < 1:
        raise UsageError(f"{name}={value!r} is no count", hint=f"{name} is a whole number from 1")


@contextlib.contextmanager
def _switch_interval(seconds: float | None) -> Iterator[None]:
    before = sys.getswitchinterval()
    if seconds is not None:
        sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


async def _lagging(round_of: Awaitable[Round], lag: Lag) -> Round:
    """Await a round, with an eye on the loop."""
    lag.restart()

    async def main() -> Round:
        try:
            return await round_of
        finally:
            lag.stop()

    done: Round = (await loops.gather([main, lag.watch]))[0]
    return done


def _as_measured(rounds: list[Round], loop_s: float | None, lags_s: list[float], note: str) -> Measured:
    stretches = [one for each in rounds for one in each.stretches_s]
    took_s = sum(one.took_ns for one in rounds) / 1e9
    values = stretches or [max(1, one.took_ns) / one.calls / 1e9 for one in rounds]
    watched = [one for one in rounds if one.held is not None and one.waited is not None]
    return Measured(
        values_s=tuple(values),
        calls=rounds[0].calls,
        latencies_s=tuple(latency / 1e9 for one in rounds for latency in one.latencies_ns),
        lags_s=tuple(lags_s),
        loop_s=loop_s,
        held=tuple(one.held for one in watched if one.held is not None),
        waited=tuple(one.waited for one in watched if one.waited is not None),
        note=note,
        rate_per_s=sum(one.calls for one in rounds) / took_s if stretches else None,
    )
