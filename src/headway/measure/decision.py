"""The evidence that tests assert: decisions, shares of time, and percentiles, each with its interval."""

import math
import statistics
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, NoReturn, final

from headway.errors import HeadwayError, UsageError
from headway.lab import stats
from headway.lab.design import Relation, above, below
from headway.lab.judging.evidence import TOO_MANY, Evidence, judged, launches_within
from headway.measure import intervals

__all__ = [
    "IN_SETUP",
    "Basis",
    "Decision",
    "Figure",
    "Level",
    "Share",
    "decide",
    "estimated",
    "shown",
    "unmeasured",
]

IN_SETUP = (
    "a comparison measures both again, in turns: what differs between them, such as a setting, must be in their functions "
    "or in their `setup=`"
)
"""The remedy where a test has changed something between two measurements."""

_TIMES = 100
"""A limit that needs so many times the calls is too close."""


@final
class Figure(float):
    """A figure that was not to be measured (under xdist, with `--headway-disable`): every comparison with it holds.

    Such a session runs benchmarks as plain tests, so their assertions must not fail. A negated comparison fails, as the
    figure cannot know that it is negated.
    """

    def __new__(cls) -> "Figure":
        """Return a figure that is not a number."""
        return super().__new__(cls, math.nan)

    def __lt__(self, other: object) -> bool:
        return True

    __le__ = __gt__ = __ge__ = __lt__

    def __add__(self, other: object) -> "Figure":
        return self

    __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __add__
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __add__

    def __pow__(self, other: object, modulus: None = None) -> "Figure":
        return self

    __rpow__ = __pow__

    def __abs__(self) -> "Figure":
        return self

    __neg__ = __pos__ = __abs__
    __floor__ = __ceil__ = __trunc__ = __abs__  # type: ignore[assignment]

    def __divmod__(self, other: object) -> tuple["Figure", "Figure"]:
        return self, self

    __rdivmod__ = __divmod__

    def __int__(self) -> NoReturn:
        raise UsageError(
            "the figure was not to be measured in this session, so there is no whole number of it",
            hint="compare the figure itself, or its `round`, which passes here: `round(figure) < 10`",
        )

    def __float__(self) -> NoReturn:
        raise UsageError(
            "the figure was not to be measured in this session, so there is no plain number of it",
            hint="compare the figure itself, which passes here: `figure < 0.05`",
        )

    def __round__(self, digits: object = None) -> "Figure":  # type: ignore[override]
        return self

    def __repr__(self) -> str:
        return "<not measured>"


@final
@dataclass(frozen=True)
class Basis:
    """The basis of a piece of evidence.

    Attributes:
        count: The number of values: launches, or blocks of rounds of one launch.
        of_launches: The values are launches.
        why_not: Why there are no values.
        apart: The values could not take turns, in any session: a comparison that cannot hold, nor be refuted.
        provisional: Every assertion holds for now (see `Decision`).
        moved: Why the values say nothing: the functions changed between two measurements of them; "" if they did not.
        of_open_load: The values are of an open load, whose calls follow from its rate and its time.
        late: That many calls of an open load began late, which is in their latencies; "" if they did not.
        times_the_calls: How many times as many calls would bound a percentile; 1 if the calls suffice.
    """

    count: int
    of_launches: bool = False
    why_not: str = ""
    provisional: bool = False
    of_open_load: bool = False
    apart: bool = False
    moved: str = ""
    late: str = ""
    times_the_calls: float = 1.0


@final
class Decision:
    """Whether a relation holds, with its evidence: true if it does. An assertion that fails prints the decision.

    The decision is also true if nothing was to be measured (under xdist, with `--headway-disable`): nothing speaks
    against it.

    A decision may be awaited: if it is about async functions that were measured one after the other, it then measures
    them in turns.
    """

    def __init__(
        self,
        evidence: Evidence,
        basis: Basis,
        *,
        measure: Callable[[], Awaitable["Decision"]] | None = None,
        within_mood: bool = False,
    ) -> None:
        self.evidence = evidence
        self._basis = basis
        self._measure = measure
        self._within_mood = within_mood

    @property
    def outcome(self) -> str:
        """One of "supported", "refuted", "at the limit", "inconclusive", "not measured"."""
        return self.evidence.outcome

    def __bool__(self) -> bool:
        """Whether it holds.

        Raises:
            UsageError: The two took no turns, and this decision measures nothing; or they changed before their turns.
                `assert not` would pass.
        """
        if self._basis.provisional:
            return True
        if self._measure is not None:
            raise UsageError(
                f"{self.evidence.what} is not decided: both were measured one after the other, not in turns",
                hint="await the comparison, which then measures them in turns: `assert await new.faster_than(old)`; "
                "or use `headway.compare`",
            )
        if self._basis.apart:
            raise UsageError(
                f"{self.evidence.what} is not decided: {self._basis.why_not}",
                hint="compare them in one test: `headway.compare`",
            )
        if self._basis.moved:
            raise UsageError(f"{self.evidence.what} is not decided: {self._basis.moved}", hint=IN_SETUP)
        return self.outcome == "supported"

    def __await__(self) -> Generator[Any, None, "Decision"]:
        if self._measure is None:
            yield from ()
            return self
        return (yield from self._measure().__await__())

    def __repr__(self) -> str:
        one = self.evidence
        if self._measure is not None:
            return f"<not decided: {one.what}: both were measured one after the other, not in turns; `assert await` the decision, or use `headway.compare`>"
        if one.interval is None:
            return f"<{one.what}: not measured{f', {self._basis.why_not}' if self._basis.why_not else ''}>"
        found = f"{one.what} is {shown(one.interval)}, expected {one.relation}"
        if not self._basis.of_launches:
            found += " (of rounds within one launch)"
        late = f"; {self._basis.late}" if self._basis.late else ""
        if one.outcome != "inconclusive":
            return f"<{one.outcome}: {found}{late}>"
        return f"<undecided: {found}; {self._more()}{late}>"

    def _more(self) -> str:
        """Return a text on what would decide it."""
        wanted, count, is_open = self.evidence.launches_to_decide, self._basis.count, self._basis.of_open_load
        if self._basis.moved:
            return self._basis.moved
        if self._basis.of_launches and count < 2:
            return "only one launch is left, the others failed, and it bounds nothing"
        interval = self.evidence.interval
        of_order = interval is not None and interval.method == intervals.ORDER
        # An open load has as many rounds as it has, whatever the options say.
        longer = "`seconds=` of `headway.open`" if is_open else "`seconds=`"
        if count < 2 and is_open and not of_order:
            return (
                "one round bounds nothing, and an open load has no more; `--headway-launches 5` has one in each process"
            )
        if count < 2 and not is_open:
            return f"one round bounds nothing; more of them would (`rounds=`, {longer})"
        if interval is not None and of_order and not (interval.low > 0 and interval.high < math.inf):
            times = math.ceil(10 * self._basis.times_the_calls) / 10
            how = f"about {times:g} times as many" if times > 1 else "more of them"
            return f"too few calls or bursts to bound it; {how} would ({longer}{'' if is_open else ', `rounds=`'})"
        if self._within_mood:
            return f"the limit is within the {intervals.MOOD:.0%} by which a session's level may be off"
        things = "launches" if self._basis.of_launches else "calls" if of_order or is_open else "rounds"
        if wanted is None or wanted >= _most(interval, self._basis):
            launches = "" if self._basis.of_launches else "; `--headway-launches 5` measures in fresh processes"
            return f"too close to the limit for a reasonable number of {things}{launches}"
        if self._basis.of_launches:
            more = wanted - count
            return f"about {more} more launch{'es' * (more > 1)} would decide (`--headway-launches {wanted}`)"
        times = math.ceil(10 * wanted / count) / 10
        return f"about {times:g} times as many {things} would decide ({longer}), or `--headway-launches 5`"


def decide(
    what: str, relation: Relation, interval: stats.Interval | None, basis: Basis, *, mood: bool = False
) -> Decision:
    """Return whether `relation` holds of the thing that has this interval.

    With `mood`, it must hold with room for the level of a session (`intervals.MOOD`).
    """
    most = _most(interval, basis)
    if basis.moved:
        found = judged(what, relation, interval, basis.count, most=most)
        return Decision(replace(found, outcome="inconclusive", launches_to_decide=None), basis)
    if interval is None or not mood:
        return Decision(judged(what, relation, interval, basis.count, most=most), basis)
    evidence = judged(what, relation, intervals.with_mood(interval), basis.count)
    if evidence.outcome != "inconclusive" or not relation.limits:
        return Decision(evidence, basis)
    # More launches make the interval narrower, but not the room beside it.
    distance = min(abs(math.log(interval.value / limit)) for limit in relation.limits) - math.log1p(intervals.MOOD)
    wanted = launches_within(distance, interval, basis.count, most) if distance > 0 else None
    return Decision(replace(evidence, launches_to_decide=wanted), basis, within_mood=distance <= 0)


def _most(interval: stats.Interval | None, basis: Basis) -> int:
    """Return the number of values from which on an estimate of those that would decide is too many."""
    if interval is not None and interval.method == intervals.ORDER and not basis.of_launches:
        return max(TOO_MANY, _TIMES * basis.count)  # its values are calls
    return TOO_MANY


def shown(interval: stats.Interval) -> str:
    """Return a value with its interval, with as many digits as are needed to tell the bounds apart."""
    for digits in range(3, 7):
        low, value, high = (f"{one:.{digits}g}" for one in (interval.low, interval.value, interval.high))
        if len({low, value, high}) == 3 or interval.low == interval.high:
            break
    return f"{value} [{low}-{'?' if math.isinf(interval.high) else high}]"


def unmeasured(what: str, basis: Basis) -> Figure:
    """Return the figure of a thing without values.

    Raises:
        HeadwayError: It should have been measured. The error has the reason why it was not.
    """
    if basis.provisional:
        return Figure()
    raise HeadwayError(f"{what} was not measured{f': {basis.why_not}' if basis.why_not else ''}")


def estimated(what: str, interval: stats.Interval | None, basis: Basis) -> stats.Interval:
    """Return the interval of a thing; without one, an interval of figures that pass every limit.

    Raises:
        HeadwayError: It should have been measured. The error has the reason why it was not.
    """
    if interval is not None:
        return interval
    none = unmeasured(what, basis)
    return stats.Interval(none, none, none, "not measured")


def _described(what: str, interval: stats.Interval | None, basis: Basis, unit: str = "") -> str:
    return f"<{what}: {f'{shown(interval)}{unit}' if interval else f'not measured, {basis.why_not}'}>"


@final
@dataclass(frozen=True, eq=False)
class Share:
    """A share of time from 0 to 1 with its interval; `share < 0.05` gives a `Decision`.

    Attributes:
        what: The name of the thing that the share is of.
        values: One value per launch, or per block of rounds of a single launch; () if the share was not measured.
        basis: The kind and number of the values.
        single_rounds: Each value is of one round, as there are too few rounds for blocks.
    """

    what: str
    values: tuple[float, ...]
    basis: Basis
    single_rounds: bool = False

    @property
    def value(self) -> float:
        """The mean. Raises HeadwayError if the share was not measured and should have been."""
        return statistics.fmean(self.values) if self.values else unmeasured(self.what, self.basis)

    @property
    def interval(self) -> stats.Interval:
        """The mean with Student's interval, within 0 and 1. Raises HeadwayError as `value` does.

        Within one launch, the interval is wider if successive blocks are alike (`intervals.reach`).
        """
        return estimated(self.what, self._measured, self.basis)

    @property
    def _measured(self) -> stats.Interval | None:
        if not self.values:
            return None
        if len(self.values) < 2:
            return stats.Interval(self.value, 0.0, math.inf, "one launch")
        if self.basis.of_launches:
            reach = stats.half_width_factor(len(self.values)) * statistics.stdev(self.values)
        else:
            reach = intervals.reach(self.values, single_rounds=self.single_rounds)
        return stats.Interval(self.value, max(0.0, self.value - reach), min(1.0, self.value + reach), "student")

    def __lt__(self, limit: float) -> Decision:
        return self._held_against(Relation(low=-1.0, high=limit))

    def __gt__(self, limit: float) -> Decision:
        return self._held_against(above(limit))

    # A bound that is exactly the limit satisfies these two: relations exclude their ends.
    def __le__(self, limit: float) -> Decision:
        return self._held_against(Relation(low=-1.0, high=math.nextafter(limit, math.inf)), f"at most {limit:.3g}")

    def __ge__(self, limit: float) -> Decision:
        return self._held_against(Relation(low=math.nextafter(limit, -math.inf)), f"at least {limit:.3g}")

    def _held_against(self, relation: Relation, told: str = "") -> Decision:
        found = decide(self.what, relation, self._measured, self.basis)
        return Decision(replace(found.evidence, relation=told), self.basis) if told else found

    def __float__(self) -> float:
        """Return the mean as a plain number.

        Raises:
            HeadwayError: The share was not measured. A plain number would fail each limit.
        """
        if not self.values and self.basis.provisional:
            raise UsageError(
                f"{self.what} was not to be measured in this session, so there is no plain number of it",
                hint="compare the share itself, or its `value`, which passes here: `share < 0.05`",
            )
        return float(self.value)

    def __repr__(self) -> str:
        return _described(self.what, self._measured, self.basis)


@final
@dataclass(frozen=True, eq=False)
class Level:
    """A time in seconds with its interval, such as a percentile; `level.below(0.01)` gives a `Decision`.

    Attributes:
        what: The name of the thing that takes the time.
        measured: The time with its interval; None if it was not measured.
        basis: The basis of the interval.
    """

    what: str
    measured: stats.Interval | None
    basis: Basis

    @property
    def interval(self) -> stats.Interval:
        """The time with its interval. Raises HeadwayError if it was not measured and should have been."""
        return estimated(self.what, self.measured, self.basis)

    @property
    def value_s(self) -> float:
        """The estimate. Raises HeadwayError as `interval` does."""
        return self.interval.value

    def below(self, limit_s: float) -> Decision:
        """Return whether the time is below `limit_s` seconds, with room for the level of a session (`intervals.MOOD`)."""
        return self._held_against(below(limit_s))

    def above(self, limit_s: float) -> Decision:
        """Return whether the time is above `limit_s` seconds, with the same room."""
        return self._held_against(above(limit_s))

    def _held_against(self, relation: Relation) -> Decision:
        return decide(f"{self.what}, in seconds,", relation, self.measured, self.basis, mood=True)

    def __repr__(self) -> str:
        return _described(self.what, self.measured, self.basis, " s")
