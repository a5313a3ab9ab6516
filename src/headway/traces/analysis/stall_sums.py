"""Sums up many stalls: by cause, by line, by holder, over time, by process."""

import datetime as dt
import json
import math
import os
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar, final

from headway.traces.analysis.words import role

__all__ = ["Held", "StallSums", "Sum", "sum_up", "told_rows"]

_Key = TypeVar("_Key", bound=Hashable)
_MOST_BINS = 12
_LOCK = "wait for another thread"
_OR_PROCESS = "wait for another thread or process"
_DEADLOCK = "deadlock"
_MAYBE_DEADLOCK = "perhaps a deadlock"
"""The causes of a part that a row calls a blocking call for a lock: what one can do about it differs."""
_LOST = "not known (overwritten)"
"""The cause of a part whose events were overwritten: more memory for events tells it."""
_CIRCLES = {"sure": _DEADLOCK, "perhaps": _MAYBE_DEADLOCK}
_GIL, _NO_CORE = "GIL", "no core"
_BINS_S = (1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400)


@final
class Held(NamedTuple):
    """The GIL or a lock that others waited for, and the thread that had it meanwhile."""

    waited_for: str
    """ "GIL" or "lock"."""
    line: str
    """The place at which the lock was waited for; "" for the GIL."""
    thread: str
    """The name of the thread that had it; if names differ in their numbers only, with `*` for each number."""
    doing: str
    """What it did: for the GIL how it was kept, or that the thread did not run; for a lock the value of a `Doing`.

    "" if that is not known.
    """
    place: str
    """The line at which it did that; "?" if it is not known."""


@final
@dataclass
class Sum:
    """The count and time of some stalls, or of parts of them."""

    count: int = 0
    time_s: float = 0.0
    longest_s: float = 0.0
    _advised_s: dict[str, float] = field(default_factory=dict)

    def add(self, time_s: float, advice: str = "") -> None:
        """Count one more stall or part."""
        self.count += 1
        self.time_s += time_s
        self.longest_s = max(self.longest_s, time_s)
        if advice:
            self._advised_s[advice] = self._advised_s.get(advice, 0.0) + time_s

    @property
    def advice(self) -> str:
        """The advice that most of the time has; "" if none has any."""
        return max(self._advised_s, key=lambda one: self._advised_s[one], default="")

    def to_json(self) -> dict[str, Any]:
        """Return the sum as JSON values."""
        return {"count": self.count, "time_s": self.time_s, "longest_s": self.longest_s, "advice": self.advice}


@final
@dataclass
class StallSums:
    """The sums over many stalls; each sum has a name, and the sum with the longest time comes first.

    Of holders, all sums of the thread with the longest time come first.

    Attributes:
        rows: The stalls, by their beginnings, in the form of `stall_json`.
        by_cause: Sums by kind of stall and cause of a part. A stall counts once for each of its causes. Blocking calls
            that wait for another thread have a cause of their own.
        by_line: Sums by cause and place.
        by_holder: Sums of the waiting for the GIL and for locks whose holder is known.
        by_process: Sums by program, process id, host and PID namespace; "" if a row does not have the last two.
        over_time: Sums by the beginning of a time bin.
        bin_s: The length of a time bin.
    """

    rows: list[dict[str, Any]]
    by_cause: dict[tuple[str, str], Sum] = field(default_factory=dict)
    by_line: dict[tuple[str, str], Sum] = field(default_factory=dict)
    by_holder: dict[Held, Sum] = field(default_factory=dict)
    by_process: dict[tuple[str, str, str, str], Sum] = field(default_factory=dict)
    over_time: dict[str, Sum] = field(default_factory=dict)
    bin_s: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the stalls and their sums as JSON values, of the types that the stalls have; `since` is ISO 8601 in UTC.

        Each sum has `count`, `time_s`, `longest_s`, and `advice`, which is "" if there is none.

        Fields:
            stalls: The stalls, by their beginnings, as the log has them.
            by_cause: Sums by `kind` of stall and `cause` of a part. A stall counts once for each of its causes.
            by_line: Sums by `cause` and `line`.
            by_holder: Sums of the waiting for the GIL and for locks whose holder is known: `waited_for`, the `line` at which a
                lock was waited for, the holder's `thread`, what it was `doing`, and its `place`.
            by_process: Sums by `program`, `pid`, `host` and `pid_namespace`; null if the stalls do not have it.
            over_time: Sums by `since`, the beginning of a time bin.
            bin_s: The length of a time bin.
        """
        return {
            "stalls": self.rows,
            "by_cause": [
                {"kind": kind, "cause": cause, **one.to_json()} for (kind, cause), one in self.by_cause.items()
            ],
            "by_line": [{"cause": cause, "line": line, **one.to_json()} for (cause, line), one in self.by_line.items()],
            "by_holder": [held._asdict() | one.to_json() for held, one in self.by_holder.items()],
            "by_process": [
                {
                    "program": program,
                    "pid": _number(pid),
                    "host": host,
                    "pid_namespace": _number(namespace),
                    **one.to_json(),
                }
                for (program, pid, host, namespace), one in self.by_process.items()
            ],
            "over_time": [
                {"since": f"{since.replace(' ', 'T')}+00:00", **one.to_json()} for since, one in self.over_time.items()
            ],
            "bin_s": self.bin_s,
        }


def _number(text: str) -> int | None:
    """Return the number of a process or a namespace; None if the stalls do not have it."""
    return int(text) if text.isascii() and text.isdecimal() else None


def told_rows(lines: Iterable[str]) -> tuple[list[dict[str, Any]], int]:
    """Return the stalls in a log's lines, and the number of lines that make no sense, such as one that was cut off.

    A line without a character is none of them: a watcher that sees another one's line half written begins with a newline.
    """
    found = []
    bad = 0
    for line in lines:
        if line == "\n":
            continue
        try:
            row = json.loads(line)
            _check(row)
            found.append(row)
        except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError):
            bad += 1
    return found, bad


def _cause(part: dict[str, Any]) -> str:
    if part.get("lost") is True:
        return _LOST
    if part.get("lock") is not True:
        return str(part["cause"])
    if part.get("deadlock") in _CIRCLES:
        return _CIRCLES[part["deadlock"]]
    return _OR_PROCESS if part.get("may_be_process") is True else _LOCK


def _advice(row: dict[str, Any], cause: str) -> str:
    """Return the advice for the longest part of a stall that has a cause; "" if there is none."""
    parts = [part for part in row["parts"] if _cause(part) == cause and part.get("advice")]
    if parts:
        return str(max(parts, key=lambda part: float(part["time_s"]))["advice"])
    return str(row.get("advice", "")) if cause == row.get("cause") else ""  # a log of an earlier version


def _check(row: dict[str, Any]) -> None:
    """Raise ValueError, TypeError, KeyError or ArithmeticError for values that cannot be those of a stall."""
    times = [row["length_s"], *(part["time_s"] for part in row["parts"])]
    times += [one["time_s"] for part in row["parts"] for one in _holders(part)]
    if not all(isinstance(one, int | float) and math.isfinite(one) for one in times):
        raise ValueError("a time is no number")
    if dt.datetime.fromisoformat(row["began"]).tzinfo is None:
        raise ValueError("the time has no zone")
    for part in row["parts"]:
        str(part["cause"])
    hash((*_key(row), row.get("host"), row.get("pid_namespace")))


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return what tells a stall from the others of its host and PID namespace."""
    return row.get("pid"), row.get("serial"), row.get("since_ns")


def _place_of(row: dict[str, Any]) -> tuple[str, str]:
    """Return the host and the PID namespace of a stall's process; "" if the row is from a trace, which has neither."""
    return str(row.get("host", "")), str(row.get("pid_namespace", ""))


def _placed(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows; one of a trace has the host and the PID namespace of the log's row on the same stall."""
    known: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        place: dict[str, Any] = {name: row[name] for name in ("host", "pid_namespace") if name in row}
        if place and place not in known[_key(row)]:
            known[_key(row)].append(place)
    for row in rows:
        places = known[_key(row)]
        yield places[0] | row if len(places) == 1 else row


def sum_up(rows: Sequence[dict[str, Any]]) -> StallSums:
    """Return the sums of stalls. A stall that was logged while it went on, and again at its end, counts once."""
    last: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in _placed(rows):
        key = (*_key(row), *_place_of(row))
        if key not in last or last[key].get("goes_on") or not row.get("goes_on"):
            last[key] = row
    kept = sorted(last.values(), key=lambda row: str(row["began"]))
    causes: dict[tuple[str, str], Sum] = defaultdict(Sum)
    lines: dict[tuple[str, str], Sum] = defaultdict(Sum)
    holders: list[dict[Held, float]] = []
    processes: dict[tuple[str, str, str, str], Sum] = defaultdict(Sum)
    for row in kept:
        processes[str(row.get("program")), str(row.get("pid")), *_place_of(row)].add(float(row["length_s"]))
        of_causes: dict[str, float] = defaultdict(float)
        of_lines: dict[tuple[str, str], float] = defaultdict(float)
        of_holders: dict[Held, float] = defaultdict(float)
        for part in row["parts"]:
            of_causes[_cause(part)] += float(part["time_s"])
            of_lines[_cause(part), _place(part)] += float(part["time_s"])
            for held, time_s in _held(part, row.get("thread")):
                of_holders[held] += time_s
        for cause, time_s in of_causes.items():
            causes[str(row.get("kind")), cause].add(time_s, _advice(row, cause))
        for line, time_s in of_lines.items():
            lines[line].add(time_s)
        holders.append(of_holders)
    found = StallSums(kept, _ordered(causes), _ordered(lines), _by_owner(_by_role(holders)), _ordered(processes))
    _over_time(found)
    return found


def _holders(part: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the holders of a lock, each with its time. A log of an earlier version has one, which had it all the time."""
    found = part.get("holders")
    return [
        {"time_s": part["time_s"]} | one
        for one in (found if isinstance(found, list) and found else [part.get("holder")])
        if isinstance(one, dict)
    ]


def _share(part: dict[str, Any], holders: Sequence[dict[str, Any]]) -> float:
    """Return the share of the holders' times that is in a part.

    They had the lock for all of the wait, of which other parts may have some: in a stopped process, none of them did
    anything.
    """
    had_s = sum(float(one["time_s"]) for one in holders)
    return min(1.0, float(part["time_s"]) / had_s) if had_s > 0 else 1.0


def _held(part: dict[str, Any], stalled: object) -> Iterator[tuple[Held, float]]:
    """Yield the holders of the GIL or of the lock in a part, with the times; nothing if it is no such wait, or if none is known.

    `stalled` is the thread that made no progress: of a part without a core, another thread is the holder.
    """
    time_s = float(part["time_s"])
    if part.get("lock") is True:
        holders = _holders(part)
        share = _share(part, holders)
        for one in holders:
            held = Held("lock", _place(part), str(one.get("thread")), str(one.get("doing")), _place(one))
            yield held, share * float(one["time_s"])
    elif part.get("thread") is None:
        return
    elif part["cause"] == _GIL:
        yield Held(_GIL, "", str(part["thread"]), str(part.get("kept") or ""), _place(part)), time_s
    elif part["cause"] == _NO_CORE and part["thread"] != stalled:
        yield Held(_GIL, "", str(part["thread"]), "and waited for a core", "?"), time_s


def _by_role(holders: Sequence[dict[Held, float]]) -> dict[Held, Sum]:
    """Return the sums over stalls of the holders of each, with their times; the threads of a pool are one holder."""
    names: dict[str, set[str]] = defaultdict(set)
    for of_stall in holders:
        for held in of_stall:
            names[role(held.thread)].add(held.thread)
    found: dict[Held, Sum] = defaultdict(Sum)
    for of_stall in holders:
        times_s: dict[Held, float] = defaultdict(float)
        for held, time_s in of_stall.items():
            pool = role(held.thread)
            times_s[held._replace(thread=pool) if len(names[pool]) > 1 else held] += time_s
        for held, time_s in times_s.items():
            found[held].add(time_s)
    return found


def _place(part: dict[str, Any]) -> str:
    where = part.get("place")
    if isinstance(where, dict):
        # A program that was started as `./app.pyz` has the file `/srv/./app.pyz/...`: one file is one line of a table.
        file = str(where.get("file"))
        file = os.path.normpath(file) if "/" in file else file
        return f"{file}:{where.get('line')} {where.get('function')}"
    return "?"


def _by_owner(sums: dict[Held, Sum]) -> dict[Held, Sum]:
    """Return the sums in order: the thread that had the lock or the GIL for longest first, whatever it did meanwhile."""
    all_s: dict[Held, float] = defaultdict(float)
    for held, one in sums.items():
        all_s[held._replace(doing="", place="")] += one.time_s

    def rank(held: Held) -> tuple[float, Held, float]:
        owner = held._replace(doing="", place="")
        return -all_s[owner], owner, -sums[held].time_s

    return {held: sums[held] for held in sorted(sums, key=rank)}


def _ordered(sums: dict[_Key, Sum]) -> dict[_Key, Sum]:
    return dict(sorted(sums.items(), key=lambda one: -one[1].time_s))


def _over_time(found: StallSums) -> None:
    if not found.rows:
        return
    times = [dt.datetime.fromisoformat(row["began"]) for row in found.rows]
    span_s = (times[-1] - times[0]).total_seconds()
    found.bin_s = next((one for one in _BINS_S if span_s / one <= _MOST_BINS), _BINS_S[-1])
    for row, time in zip(found.rows, times, strict=True):
        begin = dt.datetime.fromtimestamp(time.timestamp() // found.bin_s * found.bin_s, dt.UTC)
        found.over_time.setdefault(begin.isoformat(sep=" ")[:19], Sum()).add(float(row["length_s"]))
