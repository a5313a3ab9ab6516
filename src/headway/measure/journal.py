"""How a test's benchmarks are measured, and what they gave: options, and the test's journal."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

from headway.errors import UsageError
from headway.measure import loops
from headway.measure.measured import Measured
from headway.measure.result import Result

__all__ = ["Entry", "Journal", "Options", "numbered"]


def numbered(wanted: str, is_taken: Callable[[str], bool]) -> str:
    """Return a name as it is wanted, or with the least number from 2 with which it is not taken: "test (2)"."""
    name, place = wanted, 2
    while is_taken(name):
        name, place = f"{wanted} ({place})", place + 1
    return name


@final
@dataclass(frozen=True, kw_only=True)
class Options:
    """How a benchmark is measured.

    Attributes:
        seconds: How long its rounds take together, about; five rounds at least.
        rounds: Exactly so many instead.
        calls: Calls per round (and task); calibrated to 10 ms a round where it is None, 1 where there is a set-up.
        setup: Called before each round, untimed; async for async functions, if wanted. Arguments that it returns, as a
            tuple of `(args, kwargs)`, take the place of the function's.
        teardown: Called after each round, untimed.
        trace: Look at who holds the GIL and who waits for it.
        name: What to call the benchmark; "" for the test's name.
        group: What it stands beside in tables; "" for the test's file.
        loop: For async functions in tests that are not: "asyncio", "uvloop" or "trio".
        switch_interval_s: CPython's switch interval while it is measured; None leaves it.
        gc: Whether the garbage collector may run while a round is timed.
        precision: Go on until the interval is that narrow (0.01: 1 % on either side), up to ten times as long; None for `seconds`.
    """

    seconds: float = 0.5
    rounds: int | None = None
    calls: int | None = None
    setup: Callable[[], Any] | None = None
    teardown: Callable[[], Any] | None = None
    trace: bool = False
    name: str = ""
    group: str = ""
    loop: str = "asyncio"
    switch_interval_s: float | None = None
    gc: bool = True
    precision: float | None = None

    def changed(self, changes: Mapping[str, Any]) -> "Options":
        """Return these with some changed.

        Raises:
            UsageError: There is no such option, or it cannot have that value.
        """
        known = {one.name for one in dataclasses.fields(self)}
        for name in changes:
            if name not in known:
                raise UsageError(f"no option is called {name!r}", hint=f"there are {', '.join(sorted(known))}")
        options = dataclasses.replace(self, **changes)
        for name in ("seconds", "rounds", "calls", "switch_interval_s", "precision"):
            value = getattr(options, name)
            if value is not None and not (isinstance(value, int | float) and 0 < value < math.inf):
                raise UsageError(f"{name}={value!r} is not above 0", hint=f"{name} is a number")
            if name in {"rounds", "calls"} and value is not None and not isinstance(value, int):
                raise UsageError(f"{name}={value!r} is no count", hint=f"{name} is a whole number")
        if options.loop not in loops.LOOPS:
            raise UsageError(f"loop={options.loop!r} is none", hint=f"one of {', '.join(loops.LOOPS)}")
        return options


@final
@dataclass(frozen=True)
class Entry:
    """A result in a journal.

    Attributes:
        result: What it gave.
        group: What it stands beside.
        label: What it is called within its group.
        baseline: What the group's ratios refer to, by its label; "" for the quickest.
    """

    result: Result
    group: str
    label: str
    baseline: str = ""


@final
@dataclass
class Journal:
    """What a test's benchmarks gave, and how they are run.

    Attributes:
        test: The test's name.
        group: The group of what names none.
        why_not: Why nothing is measured; then each function is called once. "" where it is.
        launches: What launches in fresh processes gave, by the benchmark's name; None where this process measures.
        failures: Why launches failed.
        provisional: This process is one launch of several: whatever is asserted of its evidence holds.
        entries: The results so far, by name.
        pending: What async benchmarks nobody has awaited yet are called.
        plans: How each benchmark was measured, by name.
        turns: What took turns because it was asked to be compared, by both names.
        at_turn: Called before each turn (see `steps.measured`).
        reference: A function that has its turns with each benchmark; None for none.
    """

    test: str
    group: str = ""
    why_not: str = ""
    launches: Mapping[str, tuple[Measured, ...]] | None = None
    failures: tuple[str, ...] = ()
    provisional: bool = False
    entries: dict[str, Entry] = field(default_factory=dict)
    pending: list[str] = field(default_factory=list)
    plans: dict[str, Any] = field(default_factory=dict)
    turns: dict[frozenset[str], Mapping[str, Result]] = field(default_factory=dict)
    at_turn: Callable[[], None] | None = None
    reference: Callable[[], object] | None = None

    @property
    def measures(self) -> bool:
        """Whether functions are measured in this process."""
        return not self.why_not and self.launches is None

    def named(self, wanted: str) -> str:
        """Return a name that no other benchmark of the test has."""
        return numbered(wanted, lambda name: name in self.entries or name in self.pending)

    def stem(self, wanted: str) -> str:
        """Return a name for alternatives, which no others of the test have."""
        names = (*self.entries, *self.pending)
        return numbered(wanted, lambda stem: any(name.startswith(f"{stem}: ") for name in names))

    def close(self) -> None:
        """Raises UsageError where somebody forgot to await."""
        if self.pending:
            raise UsageError(
                f"{self.pending[0]}: nobody awaited the benchmark, so nothing was measured",
                hint="write `await headway(...)`: its function is async",
            )
