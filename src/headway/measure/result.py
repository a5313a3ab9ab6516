"""What a benchmark gave, and what may be asserted of it: evidence with its interval, never a bare number."""

import functools
import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, final

from headway.errors import UsageError
from headway.lab import stats
from headway.lab.design import Relation, above, below
from headway.lab.judging.evidence import TOO_MANY, Evidence, judged

__all__ = ["Comparison", "Decision", "Measured", "Result", "Share", "percentile"]


@final
@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one process measured of one benchmark.

    Attributes:
        values_s: By round, the time per call: the round's time over its calls, however many ran at once. For an open
            load, the median latency of each of its stretches.
        calls: How many calls a round has.
        latencies_s: How long each call took, for loads; from when it should have begun, for an open one.
        lags_s: By how much the event loop was late, looked at every few milliseconds while there was load.
        loop_s: What the loop takes for a task that does nothing; `None` without a loop. It is in no other figure.
        held, waited: By round, the share of its threads' time in which they held the GIL and waited for it; () where
            that was not asked for.
        note: What else there is to know.
        rate_per_s: For an open load: how many calls a second came to their end.
    """

    values_s: tuple[float, ...]
    calls: int
    latencies_s: tuple[float, ...] = ()
    lags_s: tuple[float, ...] = ()
    loop_s: float | None = None
    held: tuple[float, ...] = ()
    waited: tuple[float, ...] = ()
    note: str = ""
    rate_per_s: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Measured":
        """Return what `to_json` gave. Raises TypeError for other keys, ValueError for values that are none of ours."""
        found: dict[str, Any] = {key: tuple(one) if isinstance(one, list) else one for key, one in values.items()}
        result = cls(**found)
        series = (result.values_s, result.latencies_s, result.lags_s, result.held, result.waited)
        single = [one for one in (result.loop_s, result.rate_per_s) if one is not None]
        if not all(isinstance(one, tuple) for one in series) or not result.values_s:
            raise ValueError("a launch has no list of values")
        for value in (*single, *(value for one in series for value in one)):
            if not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise ValueError(f"{value!r} is no time, rate or share")
        if not isinstance(result.calls, int) or result.calls < 1 or not isinstance(result.note, str):
            raise ValueError(f"a launch of {result.calls!r} calls")
        return result


@final
class Decision:
    """Whether something holds, with its evidence: true where it does. An assertion that fails prints it.

    Where nothing was to be measured (under xdist, with `--headway-disable`) it is true, too: there is nothing against it.
    """

    def __init__(self, evidence: Evidence, why: str = "", *, provisional: bool = False) -> None:
        self.evidence = evidence
        self._why = why
        self._provisional = provisional

    @property
    def outcome(self) -> str:
        """One of "supported", "refuted", "inconclusive", "not measured"."""
        return self.evidence.outcome

    def __bool__(self) -> bool:
        return self._provisional or self.outcome == "supported"

    def __repr__(self) -> str:
        one = self.evidence
        if one.interval is None:
            return f"<{one.what}: not measured{f', {self._why}' if self._why else ''}>"
        found = f"{one.what} is {_shown(one.interval)}, wanted {one.relation}"
        if one.outcome != "inconclusive":
            return f"<{one.outcome}: {found}{self._units()}>"
        return f"<undecided: {found}{self._units()}; {self._more()}>"

    def _units(self) -> str:
        return f" ({self._why})" if self._why else ""

    def _more(self) -> str:
        one = self.evidence
        if self._why:
            return "`--headway-launches 5` measures in fresh processes"
        if one.launches_to_decide is None or one.launches_to_decide >= TOO_MANY:
            return "too near the limit for any sensible number of launches"
        return f"about {one.launches_to_decide - one.launches} more launches would tell (`--headway-launches {one.launches_to_decide}`)"


def _shown(interval: stats.Interval) -> str:
    high = "?" if math.isinf(interval.high) else f"{interval.high:.3g}"
    return f"{interval.value:.3g} [{interval.low:.3g}-{high}]"


_ONE_LAUNCH = "of rounds within one launch"


@final
@dataclass(frozen=True, eq=False)
class Share:
    """A share of time from 0 to 1 with its interval; `share < 0.05` gives a `Decision`.

    Attributes:
        what: Of what.
        values: One per launch, or per round of a single launch; () where it was not measured.
        why_not: Why it was not.
        single: They are rounds of one launch.
        provisional: What is asserted of it holds (see `Result`).
    """

    what: str
    values: tuple[float, ...]
    why_not: str = ""
    single: bool = True
    provisional: bool = False

    @property
    def value(self) -> float:
        """The mean; not a number where it was not measured."""
        return statistics.fmean(self.values) if self.values else math.nan

    @property
    def interval(self) -> stats.Interval | None:
        """The mean with Student's interval, within 0 and 1; None where it was not measured."""
        if not self.values:
            return None
        if len(self.values) < 2:
            return stats.Interval(self.value, 0.0, math.inf, "one launch")
        reach = stats.half_width_factor(len(self.values)) * statistics.stdev(self.values)
        return stats.Interval(self.value, max(0.0, self.value - reach), min(1.0, self.value + reach), "student")

    def _decide(self, relation: Relation) -> Decision:
        evidence = judged(self.what, relation, self.interval, len(self.values))
        why = (_ONE_LAUNCH if self.single else "") if self.values else self.why_not
        return Decision(evidence, why, provisional=self.provisional)

    def __lt__(self, limit: float) -> Decision:
        return self._decide(Relation(low=-1.0, high=limit))

    def __gt__(self, limit: float) -> Decision:
        return self._decide(above(limit))

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        interval = self.interval
        return f"<{self.what}: {_shown(interval) if interval else f'not measured, {self.why_not}'}>"


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Result:
    """One benchmark, over all its launches.

    Attributes:
        name: What it is called.
        model: How its calls ran: "serial", "asyncio", "trio", "threads", "processes-spawn", "interpreters".
        tasks: How many at once.
        launches: What each process measured; () where nothing was.
        why_not: Why nothing was.
        traced: The GIL was asked for.
        failed: Why launches failed, one line each.
        provisional: Nothing was to be measured, or it is one launch of several, and the others are not known here: what is
            asserted of it holds.
    """

    name: str
    model: str
    tasks: int = 1
    launches: tuple[Measured, ...] = ()
    why_not: str = ""
    traced: bool = False
    failed: tuple[str, ...] = ()
    provisional: bool = False
    _scaled: Callable[[str, int], tuple["Result", "Result"]] | None = None

    def __repr__(self) -> str:
        how = self.model if self.tasks == 1 else f"{self.tasks} x {self.model}"
        interval = self.interval
        if interval is None:
            return f"<{self.name}, {how}: not measured, {self.why_not}>"
        return f"<{self.name}, {how}: {_shown(interval)} s>"

    def __await__(self) -> Any:
        """A result may be awaited, so that an async test need not know whether a function is async."""
        yield from ()
        return self

    @property
    def measured(self) -> bool:
        """Whether there is anything."""
        return bool(self.launches)

    @functools.cached_property
    def values_s(self) -> tuple[float, ...]:
        """Seconds per call: one value per launch (the median of its rounds); of a single launch each round's.

        More than a hundred rounds are put together, neighbours with neighbours, as the means of a hundred.
        """
        if len(self.launches) == 1:
            return _blocks(self.launches[0].values_s)
        return tuple(stats.launch_value(one.values_s) for one in self.launches)

    @functools.cached_property
    def interval(self) -> stats.Interval | None:
        """Seconds per call with the interval over launches; over rounds for a single launch; None without any."""
        return stats.level_interval(self.values_s) if self.launches else None

    @property
    def per_call_s(self) -> float:
        """Seconds per call; not a number where it was not measured."""
        interval = self.interval
        return interval.value if interval else math.nan

    @property
    def throughput_per_s(self) -> float:
        """Calls per second, of all tasks together; of an open load those that came to their end."""
        rates = [one.rate_per_s for one in self.launches if one.rate_per_s is not None]
        return statistics.median(rates) if rates else 1 / self.per_call_s

    def percentile_s(self, share: float) -> float:
        """Return a percentile of the calls' latencies, in seconds, as the median over launches.

        Raises:
            UsageError: Its calls were not timed one by one.
        """
        if self.launches and not self.launches[0].latencies_s:
            raise UsageError(
                f"{self.name}: calls in batches have no percentiles",
                hint="`headway.serial`, `headway.concurrent` and `headway.open` time each call",
            )
        values = [percentile(one.latencies_s, share) for one in self.launches]
        return statistics.median(values) if values else math.nan

    @property
    def loop_lag_s(self) -> float:
        """The 99th percentile of the event loop's lag under load, in seconds; not a number where there is none."""
        values = [percentile(one.lags_s, 0.99) for one in self.launches if one.lags_s]
        return statistics.median(values) if values else math.nan

    @property
    def gil_wait_share(self) -> Share:
        """The share of its threads' time in which they waited for the GIL. Raises UsageError where it was not asked for."""
        return self._share("waited", "time waited for the GIL")

    @property
    def gil_hold_share(self) -> Share:
        """The share of its threads' time in which they held the GIL. Raises UsageError where it was not asked for."""
        return self._share("held", "time held the GIL")

    def _share(self, which: Literal["held", "waited"], words: str) -> Share:
        if self.measured and not self.traced:
            raise UsageError(
                f"{self.name}: the GIL was not looked at",
                hint="ask for it with `@pytest.mark.headway(trace=True)` or `--headway-trace`",
            )
        by_launch = [getattr(one, which) for one in self.launches if getattr(one, which)]
        notes = [one.note for one in self.launches if one.note]
        why_not = self.why_not or next(iter(notes), "only threads of this process can be looked at")
        if len(self.launches) == 1:
            values = by_launch[0] if by_launch else ()
            return Share(f"{self.name}: {words}", values, why_not, provisional=self.provisional)
        values = tuple(statistics.fmean(one) for one in by_launch)
        return Share(f"{self.name}: {words}", values, why_not, single=False, provisional=self.provisional)

    def ratio_to(self, other: "Result") -> stats.Interval | None:
        """Return this one's time per call over the other's, with its interval; None where one was not measured.

        Launch by launch where both have as many, or round by round where both were measured in one process in turns.
        """
        mine, others = self.values_s, other.values_s
        if not mine or not others:
            return None
        if len(mine) == len(others) and len(mine) > 1:
            return stats.paired_ratio_interval(list(zip(mine, others, strict=True)))
        return stats.ratio_interval(mine, others)

    def faster_than(self, other: "Result", by: float = 1.0) -> Decision:
        """Return whether this one takes less than 1/`by` of the other's time per call."""
        return self._against(other, by, below)

    def no_faster_than(self, other: "Result", by: float = 1.0) -> Decision:
        """Return whether this one takes more than 1/`by` of the other's time per call."""
        return self._against(other, by, above)

    def _against(self, other: "Result", by: float, relation: Callable[[float], Relation]) -> Decision:
        if by <= 0:
            raise UsageError(f"by={by!r} is no factor", hint="faster_than(other, by=1.2) wants 1.2 times as fast")
        launches = min(len(self.values_s), len(other.values_s))
        evidence = judged(f"time of {self.name} / {other.name}", relation(1 / by), self.ratio_to(other), launches)
        return Decision(evidence, self.why_not or _units(self, other), provisional=self.provisional)

    def takes_less_than(self, limit_s: float) -> Decision:
        """Return whether a call takes less than so many seconds."""
        evidence = judged(f"time of {self.name}, in seconds,", below(limit_s), self.interval, len(self.values_s))
        return Decision(evidence, self.why_not or _units(self, self), provisional=self.provisional)

    def scales(self, *, at_least: float, threads: int = 0, processes: int = 0, interpreters: int = 0) -> Decision:
        """Return whether so many workers do at least `at_least` times the work of one in the same time: measured now.

        Raises:
            UsageError: Not exactly one kind of worker, or the function is async.
        """
        asked = {"threads": threads, "processes": processes, "interpreters": interpreters}
        kinds = [(kind, count) for kind, count in asked.items() if count]
        if len(kinds) != 1:
            raise UsageError("scales() wants one kind of worker", hint="scales(threads=4, at_least=2.5)")
        ((kind, count),) = kinds
        if self._scaled is None:
            if self.measured:
                raise UsageError(f"{self.name} does not scale over {kind}", hint="it is for plain functions")
            nothing = Evidence("not measured", self.name, None, "", None, 0)
            return Decision(nothing, self.why_not, provisional=self.provisional)
        serial, parallel = self._scaled(kind, count)
        ratio = serial.ratio_to(parallel)
        evidence = judged(
            f"work of {count} {kind} / one", above(at_least), ratio, min(len(serial.values_s), len(parallel.values_s))
        )
        return Decision(evidence, serial.why_not or _units(serial, parallel), provisional=self.provisional)


_BLOCKS = 100


def _blocks(values: tuple[float, ...]) -> tuple[float, ...]:
    """Return no more than a hundred values: neighbours are alike, and a bootstrap over thousands fills the memory."""
    if len(values) <= _BLOCKS:
        return values
    edges = [place * len(values) // _BLOCKS for place in range(_BLOCKS + 1)]
    return tuple(statistics.fmean(values[begin:end]) for begin, end in itertools.pairwise(edges))


def _units(one: Result, other: Result) -> str:
    return _ONE_LAUNCH if len(one.launches) < 2 or len(other.launches) < 2 else ""


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that a share of the values, from 0 to 1, does not exceed; not a number for none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan


@final
class Comparison(Mapping[str, Result]):
    """Alternatives that were measured in turns, by name."""

    def __init__(self, results: Mapping[str, Result]) -> None:
        self._results = dict(results)

    def __getitem__(self, name: str) -> Result:
        return self._results[name]

    def __iter__(self) -> Any:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    def __await__(self) -> Any:
        """As a result may be."""
        yield from ()
        return self

    def ratio(self, top: str, bottom: str) -> stats.Interval | None:
        """Return the time of one over the other's, with its interval; None where nothing was measured. Raises KeyError."""
        return self[top].ratio_to(self[bottom])

    @property
    def fastest(self) -> Result:
        """The one with the least time per call; the first where nothing was measured."""
        return min(self._results.values(), key=lambda one: one.per_call_s if one.measured else 0.0)
