"""The fixture that a test calls: `headway(function, *args)` and its loads, with the same steps for sync and async.

A benchmark is calibrated (to find how many calls make a round), then run in rounds. Alternatives take turns, in
alternating order. Two benchmarks that were measured one after the other are measured again, in turns, if a test
compares them. The results go into the test's journal, from which the session makes tables and files.
"""

import math
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import replace
from typing import Any, final

from headway.errors import HeadwayError, UsageError
from headway.measure import loops, steps
from headway.measure.drive import await_steps, begin_steps, run_steps
from headway.measure.journal import Entry, Journal, Options
from headway.measure.measured import Measured
from headway.measure.open_load import Open
from headway.measure.result import Comparison, Result
from headway.measure.rounds import (
    WORKERS,
    Batches,
    Load,
    Source,
    Steps,
    Target,
    Watch,
    refuse_inside,
)
from headway.measure.seen import users_call
from headway.measure.steps import Plan

__all__ = ["Bench"]


@final
class _Pending:
    """An async benchmark that is not awaited yet."""

    def __init__(self, journal: Journal, names: list[str], main: Callable[[], Awaitable[Any]]) -> None:
        self._journal, self._names, self._main = journal, names, main
        journal.pending.update(dict.fromkeys(names, users_call()))

    def __await__(self) -> Generator[Any, None, Any]:
        for name in self._names:
            self._journal.pending.pop(name, None)
        return self._main().__await__()

    def __bool__(self) -> bool:
        raise UsageError("the benchmark was not awaited", hint="write `await headway(...)`: its function is async")


@final
class _Again:
    """Measures a benchmark once more, in turns with another one of its test (see `result.Again`)."""

    def __init__(self, bench: "Bench", plan: Plan) -> None:
        self._bench, self._plan = bench, plan

    def can(self, other: str) -> bool:
        return other in self._bench.journal.plans and other != self._plan.name

    def must_wait(self, other: str) -> bool:
        if self._known(other) is not None:
            return False
        targets = (self._plan.target, self._bench.journal.plans[other].target)
        return loops.running() is not None and any(target.is_async for target in targets)

    def measure(self, other: str) -> Comparison:
        found = self._known(other)
        return found if found is not None else self._bench.go(*self._plans(other))

    def _known(self, other: str) -> Comparison | None:
        found = self._bench.journal.turns.get(frozenset((self._plan.name, other)))
        return Comparison({name: found[name] for name in (self._plan.name, other)}) if found is not None else None

    def _plans(self, other: str) -> tuple[list[Plan], Callable[[Mapping[str, Result]], Comparison]]:
        journal = self._bench.journal
        stem = journal.stem(f"{self._plan.name} / {other}")
        both = [self._plan, journal.plans[other]]
        if any(one.rounds is not None for one in both):
            both = [_in_parts(one) for one in both]
        plans = [
            replace(one, name=journal.named(f"{stem}: {one.name}"), called=one.name, label=one.name, compared=stem)
            for one in both
        ]

        def finish(results: Mapping[str, Result]) -> Comparison:
            found = {plan.label: results[plan.name] for plan in plans}
            journal.turns[frozenset(found)] = found
            return Comparison(found)

        # The one that ratios refer to comes first.
        return plans[::-1], finish


@final
class Bench:
    """The fixture `headway` of one test.

    Async functions must be awaited: `await headway(fetch)`. A `Result` may be awaited, too, so the return type is
    `Result` in both cases.
    """

    def __init__(self, journal: Journal, options: Options | None = None) -> None:
        self.journal = journal
        self._options = options or Options()

    def options(self, **changes: Any) -> "Bench":
        """Return a bench of the same test with other options (see `Options`).

        Raises:
            UsageError: There is no such option, or it cannot have that value.
        """
        return Bench(self.journal, self._options.changed(changes))

    def __call__(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Result:
        """Time a function, call after call, and return its `Result`; must be awaited if the function is async.

        Raises:
            UsageError: The argument is no function, or a coroutine would never be awaited.
        """
        return self._one(Target(function, args, kwargs), "", 1, Batches)

    def serial(self, function: Callable[..., Any], /, calls: int, *args: Any, **kwargs: Any) -> Result:
        """Time a load of `calls` calls one after the other, each by itself."""
        target = Target(function, args, kwargs)
        return self._one(target, "", 1, _load(1, "serial"), calls=calls)

    def concurrent(
        self, function: Callable[..., Any], /, *args: Any, tasks: int = 16, model: str = "", **kwargs: Any
    ) -> Result:
        """Time a load of `tasks` tasks at once, each call by itself.

        Args:
            function: The function that each task calls. Async functions run as tasks of the loop.
            args: Its arguments.
            tasks: The number of tasks at once.
            model: For plain functions "threads" (the default), "processes" or "interpreters".
            kwargs: More arguments.

        Raises:
            UsageError: There is no such model, or it does not fit this function.
        """
        target = Target(function, args, kwargs)
        target.check()
        chosen = self._chosen(target, tasks, model)
        return self._one(target, chosen, tasks, _load(tasks, chosen), lag=True)

    def _chosen(self, target: Target, tasks: int, model: str) -> str:
        """Return the model of a load of several tasks."""
        _check_count("tasks", tasks)
        if target.is_async:
            if model not in {"", loops.running() or self._options.loop or loops.LOOPS[0]}:
                raise UsageError(
                    f"{target.name} is async, so it cannot run under the model {model!r} here",
                    hint="leave out `model`: async functions are tasks of the running loop",
                )
            return "loop"
        model = model or "threads"
        chosen = WORKERS.get(model, model)
        if chosen not in _POOLS:
            raise UsageError(
                f"no model is called {model!r}", hint=f"one of {', '.join(dict.fromkeys((*WORKERS, *_POOLS)))}"
            )
        return chosen

    def open(
        self,
        function: Callable[..., Any],
        /,
        *args: Any,
        rate: float,
        seconds: float = 1.0,
        workers: int = 64,
        **kwargs: Any,
    ) -> Result:
        """Time an open load: calls begin at fixed times, regardless of others; latency counts from those times.

        Args:
            function: The function that is called.
            args: Its arguments.
            rate: Calls per second.
            seconds: The duration of the load.
            workers: Threads that call plain functions. If all are busy, a call waits, and the wait counts as latency.
            kwargs: More arguments.
        """
        target = Target(function, args, kwargs)
        target.check()
        for name, value in (("rate", rate), ("seconds", seconds)):
            if not 0 < value < math.inf:
                raise UsageError(f"{name}={value!r} is not above 0", hint="headway.open(function, rate=100, seconds=1)")
        _check_count("workers", workers)

        def source(one: Target, watch: Watch) -> Source:
            return Open(one, rate, workers, watch)

        model = "" if target.is_async else "threads"
        calls = max(1, round(rate * seconds))
        return self._one(target, model, 1, source, calls=calls, rounds=1, lag=True)

    def compare(self, alternatives: Mapping[Any, Callable[..., Any]], /, *args: Any, **kwargs: Any) -> Comparison:
        """Time alternatives in turns, with the same arguments, and return a `Comparison`.

        The caller must await it if one of the alternatives is async.

        Raises:
            UsageError: There are fewer than two alternatives.
        """
        return self._compared(alternatives, args, kwargs, lambda target: (_model("", target), 1, Batches), lag=False)

    def compare_concurrent(
        self,
        alternatives: Mapping[Any, Callable[..., Any]],
        /,
        *args: Any,
        tasks: int = 16,
        model: str = "",
        **kwargs: Any,
    ) -> Comparison:
        """Time alternatives under load, in turns: each with `tasks` tasks at once, as `concurrent` does.

        Raises:
            UsageError: There are fewer than two alternatives, or the model does not fit one of them.
        """

        def load(target: Target) -> tuple[str, int, Callable[[Target, Watch], Source]]:
            chosen = self._chosen(target, tasks, "" if target.is_async else model)
            return chosen, tasks, _load(tasks, chosen)

        return self._compared(alternatives, args, kwargs, load, lag=True)

    def _compared(
        self,
        alternatives: Mapping[Any, Callable[..., Any]],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        how: Callable[[Target], tuple[str, int, Callable[[Target, Watch], Source]]],
        *,
        lag: bool,
    ) -> Comparison:
        if len(alternatives) < 2:
            raise UsageError(
                f"{len(alternatives)} function{'s' * (len(alternatives) != 1)} given to compare, expected two or more",
                hint='headway.compare({"one": f, "other": g})',
            )
        # A key may be a number or a member of an enumeration.
        names = [str(key) for key in alternatives]
        if len(set(names)) < len(names):
            raise UsageError(
                f"two of the alternatives {', '.join(map(repr, alternatives))} have the same name",
                hint='headway.compare({"one": f, "other": g})',
            )
        stem = self.journal.stem(self._options.name or self.journal.test)
        plans = []
        for name, function in zip(names, alternatives.values(), strict=True):
            target = Target(function, args, kwargs)
            target.check()
            full = self.journal.named(f"{stem}: {name}")
            plans.append(Plan(full, target, self._options, *how(target), lag=lag, label=name, compared=stem))

        def finish(results: Mapping[str, Result]) -> Comparison:
            return Comparison(dict(zip(alternatives, results.values(), strict=True)))

        found: Comparison = self.go(plans, finish)
        return found

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
    ) -> Result:
        target.check()
        if calls is not None:
            _check_count("calls", calls)
        name = self.journal.named(self._options.name or self.journal.test)
        plan = Plan(name, target, self._options, _model(model, target), tasks, source, calls, rounds, lag)
        result: Result = self.go([plan], lambda results: results[name])
        return result

    def go(self, plans: list[Plan], finish: Callable[[Mapping[str, Result]], Any]) -> Any:
        """Measure plans in turns now, and return `finish` of their results, or an awaitable of it."""
        refuse_inside()
        names = [plan.name for plan in plans]
        begun = self._steps(plans, finish)
        if any(plan.target.is_async for plan in plans):
            if loops.running():
                return _Pending(self.journal, names, lambda: await_steps(begun))
            return loops.run(lambda: await_steps(begun), self._options.loop)
        if not loops.running():
            return run_steps(begun)
        done, given = begin_steps(begun)
        # A plain function may return an awaitable.
        return given if done else _Pending(self.journal, names, lambda: await_steps(begun, given))

    def _steps(self, plans: list[Plan], finish: Callable[[Mapping[str, Result]], Any]) -> Steps:
        library, journal = loops.running(), self.journal
        found: Mapping[str, tuple[Measured, ...]] = {}
        note = journal.why_not
        returned = {}
        for plan in plans:
            returned[plan.name] = yield from steps.called(plan)
            _check_loop(plan)
        if journal.measures:
            beside = None
            if journal.reference is not None:
                beside = Plan("", Target(journal.reference), Options(), "serial", 1, Batches)
            measured = yield from steps.measured(plans, reference=beside, at_turn=journal.at_turn)
            found = {name: (one,) for name, one in measured.items()}
        elif journal.launches is not None:
            found, note = journal.launches, "no launch measured it"
        results = {}
        for plan in plans:
            launches = found.get(plan.name, ())
            model = "loop" if plan.target.awaits else plan.model
            results[plan.name] = Result(
                name=plan.called or plan.name,
                model=library or "asyncio" if model == "loop" else model,
                tasks=plan.tasks,
                launches=launches,
                why_not="" if launches else note,
                traced=plan.options.trace,
                failed=(*journal.failures, *filter(None, [journal.missing.get(plan.name)])),
                provisional=journal.provisional or bool(journal.why_not),
                returned=returned[plan.name],
                _scaled=None if plan.target.is_async else self._scaler(plan),
                _again=_Again(self, plan),
            )
            journal.plans[plan.name] = plan
            group = plan.options.group or journal.group
            if plan.compared:
                entry = Entry(results[plan.name], f"{group}: {plan.compared}", plan.label, plans[0].label)
            else:
                entry = Entry(results[plan.name], group, plan.name)
            journal.entries[plan.name] = entry
        unmeasured = [plan.name for plan in plans if not found.get(plan.name)]
        if unmeasured and journal.broken:
            raise HeadwayError(
                f"{unmeasured[0]} is not measured, as the test failed in every launch; in the first one: {journal.broken}",
                hint="run the test without launches and comparisons to see the whole error",
            )
        return finish(results)

    def _scaler(self, plan: Plan) -> Callable[[str, int], tuple[Result, Result]]:
        """Return a function that measures a plan's function with one worker and with several, in turns."""

        def scaled(kind: str, count: int) -> tuple[Result, Result]:
            model = WORKERS[kind]
            stems = (f"{plan.name}: 1 {_ONE[kind]}", f"{plan.name}: {count} {kind}")
            plans = [
                Plan(self.journal.named(stem), plan.target, plan.options, model, tasks, _load(tasks, model))
                for stem, tasks in zip(stems, (1, count), strict=True)
            ]
            one, many = self.go(plans, lambda results: tuple(results.values()))
            return one, many

        return scaled


_ONE = {"threads": "thread", "processes": "process", "interpreters": "interpreter"}
"""The kinds of workers, as one worker is called."""

_POOLS = ("threads", "processes-spawn", "processes-forkserver", "interpreters")


_PARTS = 10
"""The number of rounds in which an open load takes turns: too few for blocks, so each is one value of the ratio."""


def _in_parts(plan: Plan) -> Plan:
    """Return a plan that takes turns with an open load; an open load's calls are shared out over the rounds."""
    if plan.rounds != 1 or plan.calls is None:
        return replace(plan, rounds=_PARTS)
    return replace(plan, rounds=_PARTS, calls=math.ceil(plan.calls / _PARTS))


def _load(tasks: int, model: str) -> Callable[[Target, Watch], Source]:
    return lambda target, watch: Load(target, tasks, "loop" if target.awaits else model, watch)


def _model(model: str, target: Target) -> str:
    return model or ("loop" if target.is_async else "serial")


def _check_loop(plan: Plan) -> None:
    """Raise UsageError if a function is awaited in a loop that is not the one that its options name."""
    loop = plan.options.loop
    if loop and plan.target.is_async and not loops.runs_in(loop):
        raise UsageError(
            f"loop={loop!r} is for tests that are not async, and {plan.target.name} is awaited in the loop of its test",
            hint=f"make the test a plain function, or let the test itself run in {loop} and leave out `loop`",
        )


def _check_count(name: str, value: int) -> None:
    if not isinstance(value, int) or value < 1:
        raise UsageError(f"{name}={value!r} is not a count", hint=f"{name} is a whole number from 1")
