"""The result of a benchmark, and the assertions on it: evidence with its interval, never a bare number."""

import functools
import math
import statistics
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, final

from headway.errors import UsageError
from headway.lab import stats
from headway.lab.design import Relation, above, below
from headway.lab.judging.evidence import Evidence
from headway.measure import intervals
from headway.measure.decision import (
    IN_SETUP,
    Basis,
    Decision,
    Figure,
    Level,
    Share,
    decide,
    estimated,
    shown,
    unmeasured,
)
from headway.measure.measured import Measured, percentile

__all__ = ["Again", "Comparison", "Figure", "Result"]


class Again(Protocol):
    """Measures two of a test's benchmarks once more, in turns."""

    def can(self, other: str) -> bool:
        """Whether the other benchmark, by its name, belongs to the same test and may take turns with this one."""
        ...

    def must_wait(self, other: str) -> bool:
        """Whether the measurement must be awaited: a function is async, and its loop runs."""
        ...

    def measure(self, other: str) -> "Comparison":
        """Measure both now and return them, this one first; must be awaited if `must_wait`."""
        ...


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Result:
    """One benchmark, over all its launches.

    Attributes:
        name: The benchmark's name.
        model: The way in which its calls ran: "serial", "asyncio", "trio", "threads", "processes-spawn",
            "interpreters".
        tasks: The number of tasks at once.
        launches: The measurements of each process; () if nothing was measured.
        why_not: Why nothing was measured.
        traced: The measurement of the GIL was asked for.
        failed: The reasons of failed launches, one line each.
        provisional: Nothing was to be measured, or this process is one launch of several and does not know the others:
            every assertion holds for now.
        returned: The value that the function returned at its first call, before anything was timed; for a load, the
            value of a single call of its function.
    """

    name: str
    model: str
    tasks: int = 1
    launches: tuple[Measured, ...] = ()
    why_not: str = ""
    traced: bool = False
    failed: tuple[str, ...] = ()
    provisional: bool = False
    returned: Any = None
    _scaled: Callable[[str, int], tuple["Result", "Result"]] | None = None
    _again: Again | None = None

    def __repr__(self) -> str:
        how = self.model if self.tasks == 1 else f"{self.tasks} x {self.model}"
        if self._interval is None:
            return f"<{self.name}, {how}: not measured, {self.why_not}>"
        return f"<{self.name}, {how}: {shown(self._interval)} s>"

    def __await__(self) -> Generator[Any, None, "Result"]:
        """Return this result; it may be awaited, so that an async test need not know whether a function is async."""
        yield from ()
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what measures it again: that leads to the whole test, and cannot be pickled."""
        return {**vars(self), "_scaled": None, "_again": None}

    @property
    def bare(self) -> "Result":
        """The result without its function, arguments and first value, which else would live as long as the session."""
        return replace(self, returned=None, _scaled=None, _again=None)

    @property
    def measured(self) -> bool:
        """Whether there are any measurements."""
        return bool(self.launches)

    @property
    def of_launches(self) -> bool:
        """Whether launches are the values of its intervals, and not rounds.

        If other launches failed, this holds for a single one, too: its rounds say nothing about another process.
        """
        return len(self.launches) > 1 or bool(self.failed)

    @functools.cached_property
    def _values_s(self) -> tuple[float, ...]:
        if self.launches and not self.of_launches:
            return tuple(intervals.blocks(self.launches[0].values_s))
        return tuple(stats.launch_value(one.values_s) for one in self.launches)

    @property
    def values_s(self) -> tuple[float, ...]:
        """Seconds per call: one median per launch; without `of_launches`, the medians of blocks of rounds.

        If nothing was to be measured, one figure that passes every limit.

        Raises:
            HeadwayError: Nothing was measured, and should have been.
        """
        return self._values_s or (self._unmeasured(),)

    @property
    def basis(self) -> Basis:
        """The basis of its interval."""
        return self._basis(len(self._values_s))

    def _basis(self, count: int) -> Basis:
        is_open = any(one.rate_per_s is not None for one in self.launches)
        late = next((one.late for one in self.launches if one.late), "")
        return Basis(count, self.of_launches, self.why_not, self.provisional, is_open, late=late)

    @functools.cached_property
    def _interval(self) -> stats.Interval | None:
        if self.launches and not self.of_launches:
            return intervals.level(self.launches[0].values_s)
        return stats.level_interval(self._values_s) if self.launches else None

    @property
    def interval(self) -> stats.Interval:
        """Seconds per call with the interval over launches, or over a single launch's rounds.

        A single launch that is left of several bounds nothing. If nothing was to be measured, the bounds are figures
        that pass every limit.

        Raises:
            HeadwayError: Nothing was measured, and should have been.
        """
        return estimated(self.name, self._interval, self.basis)

    def _unmeasured(self) -> Figure:
        return unmeasured(self.name, self.basis)

    @property
    def per_call_s(self) -> float:
        """Seconds per call. Raises HeadwayError as `interval` does."""
        return self.interval.value

    @property
    def throughput_per_s(self) -> float:
        """Calls per second, of all tasks together; of an open load, the calls that ended."""
        rates = [one.rate_per_s for one in self.launches if one.rate_per_s is not None]
        return statistics.median(rates) if rates else 1 / self.per_call_s

    def percentile_s(self, share: float) -> float:
        """Return a percentile of all calls' latencies in seconds.

        Raises:
            HeadwayError: As `percentile` does, and as `interval` does.
        """
        by_launch = self._latencies(share)
        return percentile([value for one in by_launch for value in one], share) if by_launch else self._unmeasured()

    def percentile(self, share: float) -> Level:
        """Return a percentile of the calls' latencies with its interval, as in `percentile(0.99).below(0.01)`.

        The value is the percentile of all calls. The interval is that of order statistics, wider if slow calls come in
        bursts; over launches it also spans Student's on logs. Too few calls or bursts have no bound.

        Raises:
            UsageError: The calls were not timed one by one, or `share` is no share.
        """
        by_launch = self._latencies(share)
        interval: stats.Interval | None = None
        basis = self._basis(0)
        if by_launch:
            interval, times = intervals.percentile_of_calls(by_launch, share, of_launches=self.of_launches)
            basis = replace(self._basis(len(by_launch if self.of_launches else by_launch[0])), times_the_calls=times)
        return Level(f"the {100 * share:g}th percentile of {self.name}", interval, basis)

    def _latencies(self, share: float) -> list[Sequence[float]]:
        if not 0 < share < 1:
            raise UsageError(
                f"{share!r} is not a share of calls", hint="write a share: percentile(0.99) is the 99th percentile"
            )
        if self.launches and not self.launches[0].latencies_s:
            raise UsageError(
                f"{self.name}: calls in batches have no percentiles",
                hint="`headway.serial`, `headway.concurrent` and `headway.open` time each call",
            )
        return [one.latencies_s for one in self.launches]

    @property
    def loop_lag_s(self) -> float:
        """The 99th percentile of the event loop's lag under load, in seconds.

        Raises:
            HeadwayError: No lag was measured: it is measured under load, of async functions.
        """
        if not self.measured:
            return self._unmeasured()
        if self.lag_or_none_s is None:
            raise UsageError(
                f"{self.name}: no lag of an event loop was measured",
                hint="`headway.concurrent` and `headway.open` measure it, for async functions",
            )
        return self.lag_or_none_s

    @property
    def lag_or_none_s(self) -> float | None:
        """The same; None if no lag was measured."""
        values = [percentile(one.lags_s, 0.99) for one in self.launches if one.lags_s]
        return statistics.median(values) if values else None

    @property
    def gil_wait_share(self) -> Share:
        """The share of its threads' time in which they waited for the GIL. Raises UsageError if not asked for."""
        return self._share("waited", "time waited for the GIL")

    @property
    def gil_hold_share(self) -> Share:
        """The share of its threads' time in which they held the GIL. Raises UsageError if not asked for."""
        return self._share("held", "time held the GIL")

    def _share(self, which: Literal["held", "waited"], words: str) -> Share:
        if self.measured and not self.traced:
            raise UsageError(
                f"{self.name}: the GIL was not traced",
                hint="switch it on with `@pytest.mark.headway(trace=True)` or `--headway-trace`",
            )
        by_launch = [getattr(one, which) for one in self.launches if getattr(one, which)]
        notes = [one.note for one in self.launches if one.note]
        why_not = self.why_not or next(iter(notes), "only threads of this process can be traced")
        # A share is a mean: a block of rounds has the mean of theirs, not the median.
        of_blocks = intervals.blocks(by_launch[0], statistics.fmean) if by_launch else ()
        values = tuple(statistics.fmean(one) for one in by_launch) if self.of_launches else tuple(of_blocks)
        single = not self.of_launches and bool(by_launch) and len(values) == len(by_launch[0])
        return Share(f"{self.name}: {words}", values, replace(self._basis(len(values)), why_not=why_not), single)

    def ratio_to(self, other: "Result") -> stats.Interval:
        """Return this one's time per call over the other's, with its interval.

        The ratio is of neighbours in time. If the two were measured one after the other, they are measured once more
        now, in turns. If nothing was to be measured, the ratio's bounds are figures that pass every limit.

        Raises:
            HeadwayError: One of them was not measured, and should have been.
            UsageError: They took no turns, and cannot take them now: they are async functions whose loop runs (`await
                result.faster_than(other)` measures them in turns), or results of two tests. Or they have changed since
                they were measured one after the other.
        """
        found = self.ratio_with_basis(other)
        if found is not None and found[1].moved and not self.provisional:
            raise UsageError(f"no ratio: {found[1].moved}", hint=IN_SETUP)
        if found is not None:
            return found[0]
        what = f"time of {self.name} / {other.name}"
        for one in (self, other):
            if not one.measured or one.provisional:
                return estimated(what, None, one.basis)
        if self._again is None or not self._again.can(other.name):
            raise UsageError(f"no ratio: {_APART}", hint="compare them in one test: `headway.compare`")
        if not self._again.must_wait(other.name):
            return estimated(what, None, Basis(0, why_not=_NO_TURNS))
        raise UsageError(
            f"no ratio: {self.name} and {other.name} were measured one after the other, not in turns",
            hint="`await result.faster_than(other)` measures them in turns, and so does `headway.compare`",
        )

    def ratio_measured(self, other: "Result") -> stats.Interval | None:
        """Return the ratio to another result from turns that they have taken, and measure nothing; None without turns."""
        found = self._ratio(other, lambda one: one.turns)
        return found[0] if found is not None else None

    def ratio_with_basis(self, other: "Result") -> tuple[stats.Interval, Basis] | None:
        """Return the ratio to another result and its basis; None if no ratio can be given (see `ratio_to`).

        Raises:
            UsageError: `other` is no result.
        """
        _check_result(other)
        found = self._ratio(other, lambda one: one.turns)
        if found is not None:
            return found
        if self._again is None or not self.measured or not other.measured:
            return None
        if not self._again.can(other.name) or self._again.must_wait(other.name):
            return None
        return self._in_turns(other, *self._again.measure(other.name).values())

    def _in_turns(self, other: "Result", mine: "Result", others: "Result") -> tuple[stats.Interval, Basis] | None:
        """Return the ratio and its basis, given both results from the turns that followed; None if nothing was measured.

        A setting that a test changes between two measurements is the same for both in their turns.
        """
        found = mine.ratio_with_basis(others) if mine.launches and others.launches else None
        # The latency of an open load depends on its length, which turns share out.
        if found is None or found[1].of_open_load or not intervals.far_apart((self.interval, other.interval), found[0]):
            return found
        ratio, basis = found
        moved = max(zip((self, other), (mine, others), strict=True), key=lambda both: _moved_by(*both))
        return ratio, replace(basis, moved=_told_of(*moved))

    def ratio_beside(self, other: "Result") -> tuple[stats.Interval, Basis] | None:
        """Return the ratio to the same benchmark's result in another tree and its basis; None if no launches took turns."""
        return self._ratio(other, lambda one: one.beside)

    def _ratio(self, other: "Result", turns_of: Callable[[Measured], str]) -> tuple[stats.Interval, Basis] | None:
        theirs = {turns_of(one): one for one in other.launches if turns_of(one)}
        both = [(one, theirs[turns_of(one)]) for one in self.launches if turns_of(one) in theirs]
        if not both:
            return None
        # Rounds that one of them ran alone come last.
        rounds = [min(len(one.values_s), len(two.values_s)) for one, two in both]
        of_launches = self.of_launches or other.of_launches
        ratio = intervals.ratio_in_turns(
            [(one.values_s[:n], two.values_s[:n]) for (one, two), n in zip(both, rounds, strict=True)],
            of_launches=of_launches,
        )
        count = len(both) if of_launches else len(intervals.blocks(both[0][0].values_s[: rounds[0]]))
        is_open = self.basis.of_open_load or other.basis.of_open_load
        return ratio, Basis(count, of_launches, provisional=self.provisional, of_open_load=is_open)

    def faster_than(self, other: "Result", by: float = 1.0) -> Decision:
        """Return whether this one takes less than 1/`by` of the other's time per call."""
        return self.compared_with(other, by, below)

    def no_faster_than(self, other: "Result", by: float = 1.0) -> Decision:
        """Return whether this one takes more than 1/`by` of the other's time per call."""
        return self.compared_with(other, by, above)

    def compared_with(self, other: "Result", by: float, relation: Callable[[float], Relation]) -> Decision:
        """Return whether a relation to 1/`by` holds for the ratio to another result; `below` and `above` are relations.

        Raises:
            UsageError: `by` is no factor, or `other` is no result.
        """
        _check_result(other)
        if not 0 < by < math.inf:
            raise UsageError(
                f"by={by!r} is not a factor", hint="give a factor: faster_than(other, by=1.2) expects 1.2 times as fast"
            )
        what, wanted = f"time of {self.name} / {other.name}", relation(1 / by)
        provisional = self.provisional or other.provisional
        found = self.ratio_with_basis(other)
        if found is not None:
            return decide(what, wanted, found[0], replace(found[1], provisional=provisional))
        why_not = self.why_not or other.why_not
        if why_not or not self.measured or not other.measured:
            return decide(what, wanted, None, Basis(0, why_not=why_not, provisional=provisional))
        again = self._again
        nothing = Evidence("not measured", what, None, str(wanted), None, 0)
        if again is None or not again.can(other.name):
            return Decision(nothing, Basis(0, why_not=_APART, provisional=provisional, apart=True))
        if not again.must_wait(other.name):
            return Decision(nothing, Basis(0, why_not=_NO_TURNS, provisional=provisional))

        async def measured() -> Decision:
            found = self._in_turns(other, *(await again.measure(other.name)).values())
            if found is None:
                return Decision(nothing, Basis(0, why_not=_NO_TURNS, provisional=provisional))
            return decide(what, wanted, found[0], replace(found[1], provisional=provisional))

        return Decision(nothing, Basis(0, provisional=provisional), measure=measured)

    def takes_less_than(self, limit_s: float) -> Decision:
        """Return whether a call takes less than `limit_s` seconds.

        The interval is that of `interval`, widened by the possible change of the level between sessions
        (`intervals.MOOD`).
        """
        return decide(f"time of {self.name}, in seconds,", below(limit_s), self._interval, self.basis, mood=True)

    def scales(
        self,
        *,
        at_least: float,
        threads: int | None = None,
        processes: int | None = None,
        interpreters: int | None = None,
    ) -> Decision:
        """Measure now, and return whether workers do at least `at_least` times one worker's work in the same time.

        Raises:
            UsageError: Not exactly one kind of worker is given, its number is none, or the function is async.
        """
        asked = {"threads": threads, "processes": processes, "interpreters": interpreters}
        kinds = [(kind, count) for kind, count in asked.items() if count is not None]
        if len(kinds) != 1:
            raise UsageError("scales() needs exactly one kind of worker", hint="scales(threads=4, at_least=2.5)")
        ((kind, count),) = kinds
        if not isinstance(count, int) or count < 1:
            raise UsageError(f"{kind}={count!r} is not a count", hint=f"{kind} is a whole number from 1")
        what = f"work of {count} {kind} / one"
        if self._scaled is None:
            if self.measured:
                raise UsageError(f"{self.name} does not scale over {kind}", hint="scales() is for plain functions")
            return decide(what, above(at_least), None, self.basis)
        serial, parallel = self._scaled(kind, count)
        found = serial.ratio_with_basis(parallel)
        if found is None:
            return decide(what, above(at_least), None, serial.basis)
        ratio, basis = found
        return decide(what, above(at_least), ratio, replace(basis, provisional=self.provisional))


def _check_result(given: object) -> None:
    """Raise UsageError if that is no result; an async benchmark that was not awaited is none yet."""
    if not isinstance(given, Result):
        raise UsageError(
            f"{given!r} is not the result of a benchmark",
            hint="compare with another result of this test; a limit in seconds is `takes_less_than(0.05)`",
        )


def _moved_by(before: Result, now: Result) -> float:
    return abs(math.log(now.per_call_s / before.per_call_s))


def _told_of(before: Result, now: Result) -> str:
    took, takes = (f"{one.per_call_s:.3g} s" for one in (before, now))
    return f"a call of {before.name} took {took} at first, and takes {takes} now, in turns"


_NO_TURNS = (
    "no launch measured both in turns (within a launch every comparison holds, so one after an `or` is not reached)"
)
_APART = "both were measured in separate tests or sessions, not in turns"


@final
class Comparison(Mapping[Any, Result]):
    """Alternatives that were measured in turns, by the keys that they were given with, such as names or numbers."""

    def __init__(self, results: Mapping[Any, Result]) -> None:
        self._results: dict[Any, Result] = dict(results)

    def __getitem__(self, key: Any) -> Result:
        return self._results[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    def __await__(self) -> Generator[Any, None, "Comparison"]:
        """Return this comparison; it may be awaited, as a result may."""
        yield from ()
        return self

    def ratio(self, top: Any, bottom: Any) -> stats.Interval:
        """Return the time of one over the other's, with its interval (see `Result.ratio_to`).

        Raises:
            HeadwayError: One of them was not measured, and should have been.
            KeyError: There is no such alternative.
        """
        return self[top].ratio_to(self[bottom])

    @property
    def fastest(self) -> Result:
        """The result with the least time per call; the first one if nothing was measured."""
        return min(self._results.values(), key=lambda one: one.per_call_s if one.measured else 0.0)
