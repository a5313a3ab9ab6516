"""Stored sessions to compare with, and a ratio whose interval allows for differences between processes and sessions.

A session's own rounds say nothing about the next session: each process has a layout of its own, and the machine's clock
and neighbours change. A session that stores or compares therefore measures each benchmark in several fresh processes,
in turns with a reference workload. In units of the reference's time a slower machine cancels out for what the benchmark
computes. Its waiting takes as long on any machine. The CPU time of the process tells the least part that it
computes, so the interval of a ratio spans all parts from there on. The launches show how much processes differ. The
rest of the difference between sessions is assumed to be `DRIFT`; if there are several stored sessions, it is estimated
from them.
"""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from headway.errors import UsageError
from headway.lab import stats
from headway.measure import intervals
from headway.measure.journal import Entry
from headway.measure.measured import Measured
from headway.measure.result import Result

__all__ = ["DRIFT", "PROCESS", "Known", "Stored", "limit_of", "reference", "sessions_of", "summary", "why_unreadable"]

DRIFT = 0.01
"""Standard deviation (of logs) of a benchmark's level in units of its reference, between sessions, apart from
processes."""

PROCESS = 0.025
"""Standard deviation (of logs) between processes, used if no session has two launches."""

_TELLING = 4
"""The number of stored sessions from which the difference between sessions is estimated."""

_KNOWN_DEGREES = 30
"""Degrees of freedom of an assumed deviation."""


def reference() -> int:
    """Do a mixture of typical Python work: add, compare, look up, call, make objects."""
    table: dict[int, int] = {}
    total = 0
    for number in range(300):
        table[number & 31] = total
        total += len((number, total)) if number % 3 else table.get(number & 15, 0) & 255
    return total


def _have_reference(launches: Sequence[Measured]) -> bool:
    return bool(launches) and all(one.in_reference for one in launches)


def _in_reference(one: Measured) -> float:
    """Return the log of a launch's time in units of its reference."""
    return math.log(stats.launch_value(one.in_reference))


def _as_computed(one: Measured, usual_s: float) -> float:
    """Return the log of a launch's time on a machine on which the reference takes `usual_s`.

    The part of this launch's time in which the process had a core scales with the reference, the rest does not.
    """
    computed = min(1.0, one.computed or 0.0)
    both = zip(one.values_s, one.in_reference, strict=True)
    return math.log(stats.launch_value([computed * units * usual_s + (1 - computed) * value for value, units in both]))


@final
@dataclass(frozen=True)
class Known:
    """A benchmark in stored sessions.

    Attributes:
        sessions: The launches of each session.
    """

    sessions: tuple[tuple[Measured, ...], ...]

    def ratio(self, now: Result) -> stats.Interval | None:
        """Return the time now over the stored time; its interval allows for differences of processes and sessions.

        The interval holds the ratio if all of the time is computed, and that if only the process's CPU time is. The
        estimate is the one of both that claims the smaller difference. Returns None if one side has no reference.
        """
        before = [one for one in self.sessions if _have_reference(one)]
        if not before or not _have_reference(now.launches):
            return None
        sides = [now.launches, *before]
        usual_s = statistics.median(stats.launch_value(one.reference_s) for side in sides for one in side)
        both = [
            _ratio([[level_of(one) for one in side] for side in sides])
            for level_of in (_in_reference, lambda one: _as_computed(one, usual_s))
        ]
        value = min((one.value for one in both), key=lambda one: abs(math.log(one)))
        return stats.Interval(value, min(one.low for one in both), max(one.high for one in both), "sessions")


def _ratio(sides: Sequence[Sequence[float]]) -> stats.Interval:
    """Return the ratio of this session to the stored ones, given the logs of their launches' times, this one's first."""
    current, *before = sides
    means = [statistics.fmean(one) for one in before]
    middle = statistics.fmean(current) - statistics.fmean(means)
    of_process, degrees = _of_processes([current, *before])
    each = statistics.fmean(1 / len(one) for one in before)
    if len(before) >= _TELLING:
        # The stored sessions differ by processes and by time, in the same way as this session differs from them,
        # except that this session may have fewer launches.
        degrees = len(before) - 1
        variance = max(statistics.variance(means), (DRIFT / 3) ** 2) * (1 + 1 / len(before))
        variance += of_process * max(0.0, 1 / len(current) - each)
    else:
        variance = of_process * (1 / len(current) + each / len(before)) + DRIFT**2 * (1 + 1 / len(before))
    reach = stats.student_quantile(degrees) * math.sqrt(variance)
    return stats.Interval(stats.exp(middle), stats.exp(middle - reach), stats.exp(middle + reach), "sessions")


def _of_processes(sessions: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Return the variance between processes within sessions, and its degrees of freedom."""
    degrees = sum(len(one) - 1 for one in sessions)
    if not degrees:
        return PROCESS**2, _KNOWN_DEGREES
    return sum(statistics.variance(one) * (len(one) - 1) for one in sessions if len(one) > 1) / degrees, degrees


@final
@dataclass(frozen=True)
class Stored:
    """Sessions that were stored under one name.

    Attributes:
        name: The file's name.
        known: The benchmarks, by key; by group and label those that an earlier version stored without keys.
        pythons: The sessions' versions of Python, without the patch level.
        cpus: The models of the CPUs that they ran on.
    """

    name: str
    known: Mapping[str | tuple[str, str], Known]
    pythons: frozenset[str] = frozenset()
    cpus: frozenset[str] = frozenset()

    @property
    def keys(self) -> frozenset[str]:
        """The keys of the benchmarks; an earlier version stored none."""
        return frozenset(one for one in self.known if isinstance(one, str))

    def apart(self, python: str, cpu: str) -> list[str]:
        """Return a warning for each of the Python version and the CPU that differs from those of a stored session."""
        found = []
        for what, here, stored, why in (
            ("Python", _minor(python), self.pythons, "each ratio includes what the other version changes"),
            ("CPU", cpu, self.cpus, "each interval is wider for code that waits"),
        ):
            others = sorted(stored - {here})
            if others:
                found.append(f"! {self.name} was measured with another {what} ({', '.join(others)}; now {here}): {why}")
        return found

    def ratio(self, now: Entry) -> stats.Interval | None:
        """Return a benchmark's time per call over that in the stored sessions; None if that is not known."""
        return self._known(now).ratio(now.result)

    def has(self, now: Entry) -> bool:
        """Tell whether a stored session measured a benchmark beside the reference."""
        return any(map(_have_reference, self._known(now).sessions))

    def _known(self, now: Entry) -> Known:
        names: tuple[str | tuple[str, str], ...] = (now.key, (now.group, now.label))
        sessions = [one for name in names if name in self.known for one in self.known[name].sessions]
        return Known(tuple(sessions))

    @classmethod
    def from_json(cls, name: str, values: Mapping[str, Any]) -> "Stored":
        """Return the sessions of a stored file, or the single session of a file that `--headway-json` wrote.

        Raises:
            AttributeError, KeyError, TypeError, ValueError: The file was not written by Headway.
        """
        known: dict[str | tuple[str, str], Known] = {}
        pythons, cpus = set(), set()
        for session in sessions_of(values):
            python, cpu = session.get("python"), session.get("machine", {}).get("cpu")
            if isinstance(python, str):
                pythons.add(_minor(python))
            if isinstance(cpu, str):
                cpus.add(cpu)
            # A test that ran again, as with pytest-rerunfailures, is no second session: its last result counts.
            last: dict[str | tuple[str, str], tuple[Measured, ...]] = {}
            for group, results in session["groups"].items():
                for one in results:
                    launches = tuple(Measured.from_json(launch) for launch in one["launches"])
                    key = one.get("key", "")
                    for text in (one["label"], one["model"], key):
                        if not isinstance(text, str):
                            raise ValueError(f"{text!r} is not a name")  # noqa: TRY004  (as of any other value)
                    if not isinstance(one["tasks"], int) or one["tasks"] < 1:
                        raise ValueError(f"{one['tasks']!r} tasks")
                    last[key or (group, one["label"])] = launches
            for name_there, launches in last.items():
                before = known.get(name_there)
                earlier = before.sessions if before is not None else ()
                known[name_there] = Known((*earlier, launches))
        return cls(name, known, frozenset(pythons), frozenset(cpus))


def _minor(python: str) -> str:
    return ".".join(python.split(".")[:2])


def sessions_of(values: Mapping[str, Any]) -> list[Any]:
    """Return the sessions of a stored file, or the single one of a file from `--headway-json` or an earlier version."""
    found: list[Any] = values.get("sessions", [values])
    return found


def why_unreadable(path: Path, error: Exception) -> str:
    """Return in words why a file's sessions cannot be read, given the error of its reading or of `Stored.from_json`."""
    if isinstance(error, OSError):
        return f"{path} cannot be read: {error.strerror}"
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        why = f"it is cut off or damaged: {error}"
    elif isinstance(error, KeyError):
        why = f"it has no {error}"
    elif isinstance(error, ValueError):
        why = str(error)
    else:
        why = "its values have another form"
    return f"{path} holds no results of Headway: {why}"


def summary(one: Measured) -> dict[str, Any]:
    """Return the stored summary of a launch: medians of blocks, a few values instead of thousands."""
    # The blocks are of ratios and of levels; their quotient is the block's reference time.
    levels, ratios = intervals.blocks(one.values_s), intervals.blocks(one.in_reference)
    return {
        **one.to_json(),
        "values_s": levels,
        "reference_s": stats.neighbour_ratios(levels, ratios) if ratios else [],
        "latencies_s": [],
        "lags_s": [],
        "held": intervals.blocks(one.held),
        "waited": intervals.blocks(one.waited),
    }


def limit_of(text: str) -> float:
    """Return the factor of a limit such as `5%`. Raises UsageError if the text is no limit."""
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        percent = math.nan
    if not 0 <= percent < math.inf or not text.endswith("%"):
        raise UsageError(
            f"{text!r} is not a limit",
            hint="write a percentage: --headway-compare-fail 5% fails if a benchmark takes 5 % longer",
        )
    return 1 + percent / 100
