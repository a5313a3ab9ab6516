"""The measurements of one benchmark in one process, as a value."""

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, final

from headway.lab import stats

__all__ = ["Measured", "name_of_turns", "percentile"]

# A test may replace `uuid.uuid4` or `os.urandom` by a function that always returns the same.
_BEGIN = os.urandom(8).hex()
_getpid = os.getpid
_count = itertools.count()


def name_of_turns() -> str:
    """Return a name that no other turns have, in this process, in a fork of it or in any other."""
    return f"{_BEGIN}-{_getpid()}-{next(_count)}"


@final
@dataclass(frozen=True, kw_only=True)
class Measured:
    """The measurements of one benchmark in one process.

    Attributes:
        values_s: The time per call, by round: the round's time over its calls, however many ran at once. For an open
            load, the median latency of each of its stretches; if it took turns, of each round.
        calls: The number of calls in a round.
        turns: The name of the turns that its rounds took with others' rounds. Benchmarks with the same name have
            equally many rounds, neighbours in time. "" if the benchmark was measured alone.
        beside: The same for rounds in another process, of the same benchmark in another tree; "" without one.
        reference_s: The time of the reference workload that took turns with the benchmark (see `baseline`), by round;
            () without one.
        latencies_s: The duration of each call, for loads; for an open load, from the time when the call should have
            begun.
        lags_s: The lags of the event loop, sampled every few milliseconds under load.
        loop_s: The loop's time for a task that does nothing; `None` without a loop. No other figure includes it, except
            that each call of an async open load begins as a task.
        held, waited: The shares of its threads' time in which they held the GIL and waited for it, by round; () if that
            was not asked for.
        note: Why the GIL was not measured although it was asked for.
        tools: Tools that traced every line or call in the meantime, such as coverage: times are larger.
        rate_per_s: For an open load: the calls per second that ended.
        late: For an open load: how many of its calls began late, if they were many.
        collects: Whether the garbage collector was on during the rounds.
        computed: The CPU time of the process over the time of the rounds; `None` in files of earlier versions. It is
            less than what the benchmark computes if other processes work for it, or have the core.
    """

    values_s: tuple[float, ...]
    calls: int
    turns: str = ""
    beside: str = ""
    reference_s: tuple[float, ...] = ()
    latencies_s: tuple[float, ...] = ()
    lags_s: tuple[float, ...] = ()
    loop_s: float | None = None
    held: tuple[float, ...] = ()
    waited: tuple[float, ...] = ()
    note: str = ""
    tools: str = ""
    rate_per_s: float | None = None
    late: str = ""
    collects: bool = True
    computed: float | None = None

    @property
    def in_reference(self) -> list[float]:
        """The time per call in units of the reference, by round; [] if the benchmark did not take turns with one."""
        both = len(self.reference_s) == len(self.values_s)
        return stats.neighbour_ratios(self.values_s, self.reference_s) if both else []

    def to_json(self) -> dict[str, Any]:
        """Return the measurements as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Measured":
        """Return what `to_json` wrote.

        Raises:
            TypeError: There are other keys.
            ValueError: There are values that Headway does not write.
        """
        found: dict[str, Any] = {key: tuple(one) if isinstance(one, list) else one for key, one in values.items()}
        result = cls(**found)
        series = (result.values_s, result.reference_s, result.latencies_s, result.lags_s, result.held, result.waited)
        single = [one for one in (result.loop_s, result.rate_per_s, result.computed) if one is not None]
        if not all(isinstance(one, tuple) for one in series) or not result.values_s:
            raise ValueError("a launch has no list of values")
        for value in (*single, *(value for one in series for value in one)):
            if not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise ValueError(f"{value!r} is not a time, a rate or a share")
        if not all(value > 0 for value in (*result.values_s, *result.reference_s)):
            raise ValueError("a round took no time")
        if not isinstance(result.calls, int) or result.calls < 1:
            raise ValueError(f"a launch of {result.calls!r} calls")
        for text in (result.note, result.tools, result.late, result.turns, result.beside):
            if not isinstance(text, str):
                raise ValueError(f"{text!r} is not a text")  # noqa: TRY004  (as of any other value)
        if not isinstance(result.collects, bool):
            raise ValueError(f"{result.collects!r} is neither true nor false")  # noqa: TRY004  (as of any other value)
        return result


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that a share of the values, from 0 to 1, does not exceed; not a number for no values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan
