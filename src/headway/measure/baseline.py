"""Stored sessions to compare with: what a benchmark took beside a reference, and a ratio that knows how sessions drift.

A session's own rounds say nothing about the next session: the machine's clock, its neighbours and the process's layout differ. So a
session that stores or compares measures a reference workload in turns with each benchmark, and what a benchmark took is taken in units of
its reference: what makes the whole machine slower drops out. What is left differs from session to session by `DRIFT`, or by what
the stored sessions themselves say, where there are several.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from headway.errors import UsageError
from headway.lab import stats
from headway.measure import intervals
from headway.measure.measured import Measured
from headway.measure.result import Result

__all__ = ["DRIFT", "Known", "Stored", "limit_of", "reference", "summary"]

DRIFT = 0.015
"""Standard deviation (of logs) of a benchmark's level in units of its reference, from one session to the next."""

_TELLING = 4
"""So many stored sessions say themselves how they differ."""


def reference() -> int:
    """Do a little of everything that Python code does: add, compare, look up, call, make objects."""
    table: dict[int, int] = {}
    total = 0
    for number in range(300):
        table[number & 31] = total
        total += len((number, total)) if number % 3 else table.get(number & 15, 0) & 255
    return total


def _log_level(launches: Sequence[Measured]) -> float | None:
    """Return the log of what a session's benchmark took in units of its reference; None where it had none."""
    found = []
    for one in launches:
        if len(one.reference_s) != len(one.values_s):
            return None
        # Neighbours in time: what slows the machine for a moment slows both.
        ratios = [mine / theirs for mine, theirs in zip(one.values_s, one.reference_s, strict=True)]
        found.append(math.log(statistics.median(ratios)))
    return statistics.fmean(found) if found else None


@final
@dataclass(frozen=True)
class Known:
    """A benchmark in stored sessions.

    Attributes:
        model: How its calls ran.
        tasks: How many at once.
        sessions: What each session measured of it, by launch.
    """

    model: str
    tasks: int
    sessions: tuple[tuple[Measured, ...], ...]

    def ratio(self, now: Result) -> stats.Interval | None:
        """Return what it takes now over what it took, with an interval that holds the drift between sessions.

        None where one of them has no reference.
        """
        current = _log_level(now.launches)
        before = [_log_level(one) for one in self.sessions]
        known = [one for one in before if one is not None]
        if current is None or not known:
            return None
        count = len(known)
        drift = DRIFT if count < _TELLING else max(statistics.stdev(known), DRIFT / 3)
        # Of a drift that was not measured here but is known from many sessions, as of one from thirty.
        factor = stats.half_width_factor(count if count >= _TELLING else 30) * math.sqrt(
            count if count >= _TELLING else 30
        )
        reach = factor * drift * math.sqrt(1 + 1 / count)
        middle = current - statistics.fmean(known)
        return stats.Interval(_exp(middle), _exp(middle - reach), _exp(middle + reach), "sessions")


def _exp(log: float) -> float:
    """Return e to this power; infinity beyond what a float holds: a stored file may say anything."""
    return math.exp(log) if log < _LARGEST_LOG else math.inf


_LARGEST_LOG = 709.0


@final
@dataclass(frozen=True)
class Stored:
    """Sessions that were stored under one name.

    Attributes:
        name: Of the file.
        known: By group and label.
    """

    name: str
    known: Mapping[tuple[str, str], Known]

    def ratio(self, group: str, label: str, now: Result) -> stats.Interval | None:
        """Return a benchmark's time per call over what it was in the stored sessions; None where that is not known."""
        found = self.known.get((group, label))
        return found.ratio(now) if found is not None else None

    @classmethod
    def from_json(cls, name: str, values: Mapping[str, Any]) -> "Stored":
        """Return the sessions of a stored file, or the one of a file that `--headway-json` wrote.

        Raises:
            AttributeError, KeyError, TypeError, ValueError: It is none of ours.
        """
        known: dict[tuple[str, str], Known] = {}
        for session in values.get("sessions", [values]):
            for group, results in session["groups"].items():
                for one in results:
                    launches = tuple(Measured.from_json(launch) for launch in one["launches"])
                    if not isinstance(one["label"], str) or not isinstance(one["model"], str):
                        raise ValueError(f"{one['label']!r} is no name")  # noqa: TRY004  (as of any other value)
                    if not isinstance(one["tasks"], int) or one["tasks"] < 1:
                        raise ValueError(f"{one['tasks']!r} tasks")
                    before = known.get((group, one["label"]))
                    earlier = before.sessions if before is not None else ()
                    known[group, one["label"]] = Known(one["model"], one["tasks"], (*earlier, launches))
        return cls(name, known)


def summary(one: Measured) -> dict[str, Any]:
    """Return what is stored of a launch: medians of blocks, a few values where it had thousands."""
    values = one.to_json()
    pairs = list(zip(one.values_s, one.reference_s, strict=True)) if len(one.reference_s) == len(one.values_s) else []
    # Blocks of ratios and of levels: their quotient is the block's reference.
    levels = intervals.blocks(one.values_s)
    ratios = intervals.blocks([mine / theirs for mine, theirs in pairs]) if pairs else []
    return {
        **values,
        "values_s": levels,
        "reference_s": [level / ratio for level, ratio in zip(levels, ratios, strict=True)] if ratios else [],
        "latencies_s": [],
        "lags_s": [],
        "held": intervals.blocks(one.held) if one.held else [],
        "waited": intervals.blocks(one.waited) if one.waited else [],
    }


def limit_of(text: str) -> float:
    """Return the factor of a limit such as `5%`. Raises UsageError where it is none."""
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        percent = math.nan
    if not 0 <= percent < math.inf or not text.endswith("%"):
        raise UsageError(
            f"{text!r} is no limit", hint="--headway-compare-fail 5% fails where a benchmark takes 5 % longer"
        )
    return 1 + percent / 100
