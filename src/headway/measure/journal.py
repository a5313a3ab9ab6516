"""The options of a test's benchmarks, and the journal of their results."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, final

from headway.errors import UsageError
from headway.measure import loops
from headway.measure.measured import Measured
from headway.measure.result import Result

__all__ = ["Entry", "Journal", "Options", "entered", "numbered"]


def numbered(wanted: str, is_taken: Callable[[str], bool]) -> str:
    """Return the wanted name, or, if it is taken, the name with the least free number from 2: "test (2)"."""
    name, place = wanted, 2
    while is_taken(name):
        name, place = f"{wanted} ({place})", place + 1
    return name


@final
@dataclass(frozen=True, kw_only=True)
class Options:
    """The way in which a benchmark is measured.

    Attributes:
        seconds: About how long all rounds take together; there are at least five rounds. Set-up and tear-down do not
            count, except that with them it is ten times as long at most once there are 36 rounds. It is shorter if
            there are 1,000 rounds for each second (1,000 at least, 100,000 at most), or 500,000 calls timed one by one.
        rounds: The exact number of rounds, instead of `seconds`.
        calls: Calls per round (and task). None means calibrated to 10 ms a round, or 1 if there is a set-up.
        setup: A function that is called before each round, untimed; it may be async for async functions. If it returns
            arguments, as a tuple `(args, kwargs)`, these replace the function's.
        teardown: A function that is called after each round, untimed.
        trace: Measure how long threads hold the GIL and wait for it.
        name: The benchmark's name; "" means the test's name.
        group: The group of benchmarks in tables; "" means the test's file.
        loop: The loop for async functions in tests that are not async: "asyncio" (also if it is ""), "uvloop" or
            "trio". In an async test it must be the test's loop.
        switch_interval_s: CPython's switch interval during the measurement; None leaves it unchanged.
        gc: Whether the garbage collector may run while a round is timed.
        precision: Continue until two looks find the interval that narrow (0.01: 1 % on either side), for up to ten
            times as long; None means `seconds`.
    """

    seconds: float = 0.5
    rounds: int | None = None
    calls: int | None = None
    setup: Callable[[], Any] | None = None
    teardown: Callable[[], Any] | None = None
    trace: bool = False
    name: str = ""
    group: str = ""
    loop: str = ""
    switch_interval_s: float | None = None
    gc: bool = True
    precision: float | None = None

    def changed(self, changes: Mapping[str, Any]) -> "Options":
        """Return these options with changes.

        Raises:
            UsageError: There is no such option, or it cannot have that value.
        """
        known = {one.name for one in dataclasses.fields(self)}
        for name in changes:
            if name not in known:
                raise UsageError(f"no option is called {name!r}", hint=f"the options are {', '.join(sorted(known))}")
        options = dataclasses.replace(self, **changes)
        for name in ("seconds", "rounds", "calls", "switch_interval_s", "precision"):
            value = getattr(options, name)
            if value is not None and not (isinstance(value, int | float) and 0 < value < math.inf):
                raise UsageError(f"{name}={value!r} is not above 0", hint=f"{name} is a number")
            if name in {"rounds", "calls"} and value is not None and not isinstance(value, int):
                raise UsageError(f"{name}={value!r} is not a count", hint=f"{name} is a whole number")
        for name in ("name", "group"):
            if not isinstance(value := getattr(options, name), str):
                raise UsageError(f"{name}={value!r} is not a text", hint=f'{name}="parse"')
        if options.loop not in {"", *loops.LOOPS}:
            raise UsageError(f"loop={options.loop!r} is not a loop", hint=f"one of {', '.join(loops.LOOPS)}")
        return options


@final
@dataclass(frozen=True)
class Entry:
    """A result in a journal.

    Attributes:
        result: The result.
        group: The group of benchmarks that it belongs to.
        label: Its name within the group.
        baseline: The label that the group's ratios refer to; "" means the fastest.
        key: The benchmark's test and its name there, by which it is found in another session; "" if not known.
    """

    result: Result
    group: str
    label: str
    baseline: str = ""
    key: str = ""


def entered(session: list[Entry], test: Sequence[Entry]) -> list[Entry]:
    """Add a test's entries to those of a session, and return them with the names that they have there.

    A label that its group has already gets a number. So does the group of a comparison, if another test has a group of
    that name: ratios are of alternatives that took turns. A test that runs again, as with pytest-rerunfailures, replaces
    its earlier results.
    """
    places = {before.key: place for place, before in enumerate(session)}
    others = {before.group for before in session}
    groups = {own.group: session[places[own.key]].group for own in test if own.baseline and own.key in places}
    found = []
    for own in test:
        if own.baseline and own.group not in groups:
            groups[own.group] = numbered(own.group, others.__contains__)
            others.add(groups[own.group])
        group = groups[own.group] if own.baseline else own.group
        place = places.get(own.key)
        if place is None:
            labels = {before.label for before in session if before.group == group}
            found.append(dataclasses.replace(own, group=group, label=numbered(own.label, labels.__contains__)))
            session.append(found[-1])
        else:
            found.append(dataclasses.replace(own, group=group, label=session[place].label))
            session[place] = found[-1]
    return found


@final
@dataclass
class Journal:
    """The results of a test's benchmarks, and the way in which they are run.

    Attributes:
        test: The test's name.
        group: The group of benchmarks that name none.
        why_not: Why nothing is measured (each function is then called once); "" if benchmarks are measured.
        launches: The results of launches in fresh processes, by the benchmark's name; None if this process measures.
        failures: The reasons of failed launches.
        missing: Why a benchmark is missing from launches that measured others, by its name.
        broken: Why the test failed in its first launch, if it failed in every launch; "" otherwise.
        provisional: This process is one launch of several, so every assertion about its evidence holds for now.
        entries: The results so far, by name.
        pending: The async benchmarks that have not been awaited yet: a traceback of each call, by name.
        plans: How each benchmark was measured, by name.
        turns: The results of benchmarks that took turns because a test compares them, by both names.
        at_turn: Called before each turn (see `steps.measured`).
        reference: A function that takes turns with each benchmark; None means none.
    """

    test: str
    group: str = ""
    why_not: str = ""
    launches: Mapping[str, tuple[Measured, ...]] | None = None
    failures: tuple[str, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    broken: str = ""
    provisional: bool = False
    entries: dict[str, Entry] = field(default_factory=dict)
    pending: dict[str, TracebackType] = field(default_factory=dict)
    plans: dict[str, Any] = field(default_factory=dict)
    turns: dict[frozenset[str], Mapping[str, Result]] = field(default_factory=dict)
    at_turn: Callable[[], None] | None = None
    reference: Callable[[], object] | None = None

    @property
    def measures(self) -> bool:
        """Whether functions are measured in this process."""
        return not self.why_not and self.launches is None

    def keyed(self) -> list[Entry]:
        """Return the results with their keys, without the test's objects (see `Result.bare`).

        Labels may be those of other tests, too, and get numbers in tables.
        """
        test = f"{self.group}::{self.test}"
        return [
            dataclasses.replace(entry, result=entry.result.bare, key=f"{test}: {name}")
            for name, entry in self.entries.items()
        ]

    def named(self, wanted: str) -> str:
        """Return a name that no other benchmark of the test has."""
        return numbered(wanted, lambda name: name in self.entries or name in self.pending)

    def stem(self, wanted: str) -> str:
        """Return a name for a group of alternatives that no other group of the test has."""
        names = (*self.entries, *self.pending)
        return numbered(wanted, lambda stem: any(name.startswith(f"{stem}: ") for name in names))

    def close(self) -> None:
        """Let go of the test's objects, and raise UsageError if a benchmark was never awaited.

        Results lead to the journal and the journal to results, so large arguments would wait for a garbage collection.
        """
        for one in (self.entries, self.plans, self.turns):
            one.clear()
        for name, call in self.pending.items():
            raise UsageError(
                f"{name}: the benchmark was not awaited, so nothing was measured",
                hint="write `await headway(...)`: its function is async",
            ).with_traceback(call)
