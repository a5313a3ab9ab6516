"""Benchmarks of a test session: the tables at its end, and the formats of other tools."""

import contextlib
import datetime as dt
import fcntl
import json
import math
import os
import platform
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, final

from headway.errors import UsageError
from headway.host.machine import this_machine
from headway.host.repository import commit_info
from headway.lab import stats
from headway.measure.baseline import Stored, sessions_of, summary, why_unreadable
from headway.measure.journal import Entry
from headway.measure.result import Result
from headway.report.figures import EMPTY, WIDE, Table, amount, interval_to_json, level, ratio

__all__ = [
    "COLUMNS",
    "ORDERS",
    "UNITS",
    "Earlier",
    "Shown",
    "benchmark_tables",
    "dump",
    "regressions",
    "results_to_json",
    "session_to_json",
    "store_session",
    "to_pyperf",
    "to_pytest_benchmark",
]

Groups = Mapping[str, Sequence[Entry]]

COLUMNS = ("model", "time", "ratio", "rate", "p50", "p99", "lag", "loop", "held", "waited", "before", "counts")
"""The columns of a table, in this order."""
ORDERS = ("time", "name", "given")
"""The orders of rows: fastest first, by name, or as they were measured."""
UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
"""The units of times."""


class Earlier(Protocol):
    """The results that this session is compared with: stored sessions, or another revision."""

    @property
    def name(self) -> str:
        """The name of the earlier results."""
        ...

    def ratio(self, now: Entry) -> stats.Interval | None:
        """Return a benchmark's time per call over the earlier one; None if that is not known."""
        ...

    def has(self, now: Entry) -> bool:
        """Tell whether there are earlier results of a benchmark that it could be compared with."""
        ...


@final
@dataclass(frozen=True)
class Shown:
    """The way in which tables are shown.

    Attributes:
        columns: Names from `COLUMNS`; () means all that have a figure.
        order: One of `ORDERS`.
        unit: The unit of times, one of `UNITS`; "" means the unit that fits each time.
    """

    columns: tuple[str, ...] = ()
    order: str = "time"
    unit: str = ""


def benchmark_tables(groups: Groups, earlier: Earlier | None = None, how: Shown | None = None) -> list[Table]:
    """Return a table for each group.

    Args:
        groups: Results by group.
        earlier: The results that they are compared with.
        how: The way in which they are shown.
    """
    return [_table(group, entries, earlier, how or Shown()) for group, entries in groups.items() if entries]


def _table(group: str, entries: Sequence[Entry], earlier: Earlier | None, how: Shown) -> Table:
    ordered = list(entries)
    if how.order == "time":
        ordered.sort(key=lambda one: one.result.per_call_s if one.result.measured else math.inf)
    elif how.order == "name":
        ordered.sort(key=lambda one: one.label)
    base = _base(entries)
    columns: dict[str, tuple[str, Callable[[Entry], str]]] = {
        "model": ("model", lambda one: _model(one.result)),
        "time": ("time per call", lambda one: _time(one.result.interval, how.unit) if one.result.measured else EMPTY),
        "ratio": (f"ratio to {base.label if base else ''}", lambda one: _ratio(one, base)),
        "rate": ("calls/s", lambda one: _rate(one.result)),
        "p50": ("p50", lambda one: _percentile(one.result, 0.5, how.unit)),
        "p99": ("p99", lambda one: _percentile(one.result, 0.99, how.unit)),
        "lag": ("loop lag p99", lambda one: _lag(one.result, how.unit)),
        "loop": ("loop per task", lambda one: _loop(one.result, how.unit)),
        "held": ("GIL held", lambda one: _share(one.result, "gil_hold_share")),
        "waited": ("GIL waited for", lambda one: _share(one.result, "gil_wait_share")),
        "before": (f"ratio to {earlier.name if earlier else ''}", lambda one: _before(one, earlier)),
        "counts": ("launches/ rounds/ calls", lambda one: _counts(one.result)),
    }
    chosen = [columns[name] for name in COLUMNS if not how.columns or name in how.columns]
    cells = [[show(one) for _, show in chosen] for one in ordered]
    kept = [place for place in range(len(chosen)) if any(row[place] not in {EMPTY, ""} for row in cells)]
    return Table(
        "\n".join([f"{group} [95 % interval]", *_notes(ordered)]),
        ("benchmark", *(chosen[place][0] for place in kept)),
        tuple((one.label, *(row[place] for place in kept)) for one, row in zip(ordered, cells, strict=True)),
        1,
    )


def _base(entries: Sequence[Entry]) -> Entry | None:
    """Return the benchmark of a group that ratios refer to; only benchmarks that took turns have a ratio."""
    return next((one for one in entries if one.label == one.baseline), None)


def _notes(entries: Sequence[Entry]) -> Iterator[str]:
    for one in entries:
        yield from (f"! {one.label}: {why}" for why in dict.fromkeys(one.result.failed))
    yield from (f"! {one.label}: not measured, {one.result.why_not}" for one in entries if not one.result.measured)
    launches = [launch for one in entries for launch in one.result.launches]
    yield from (f"! the GIL was not traced: {note}" for note in sorted({one.note for one in launches if one.note}))
    for one in entries:
        late = next((launch.late for launch in one.result.launches if launch.late), "")
        if late:
            yield f"! {one.label}: {late}"
    tools = sorted({one.tools for one in launches if one.tools})
    yield from (f"! {one} traced every line meanwhile, so Python code takes several times as long" for one in tools)


def regressions(groups: Groups, earlier: Earlier, limit: float) -> tuple[list[str], int]:
    """Return a line for each benchmark that fails the comparison, and the number of compared benchmarks.

    A benchmark fails if the ratio's whole interval is above 1 and the ratio itself is above `limit`, or if it has
    earlier results and no ratio to them, as when all or all but one of its launches crash now. A new benchmark does not
    fail.
    """
    found, compared = [], 0
    for group, entries in groups.items():
        for one in entries:
            interval = earlier.ratio(one) if one.result.measured else None
            # One launch, or one pair of launches, that is left of several compares nothing.
            alone = interval is not None and (len(one.result.launches) < 2 or math.isinf(interval.high))
            if interval is None or (one.result.failed and alone):
                if earlier.has(one):
                    why = "; ".join(dict.fromkeys(one.result.failed)) or "no launch measured both"
                    found.append(f"{group}: {one.label} could not be compared with {earlier.name}: {why}")
                continue
            compared += 1
            if interval.low > 1 and interval.value > limit:
                found.append(
                    f"{group}: {one.label} takes {ratio(interval)} of {earlier.name}'s time; the limit is {limit:g}"
                )
    return found, compared


def _in_unit(value_s: float, unit: str) -> str:
    if not unit:
        return amount(value_s, "s")
    value = value_s * UNITS[unit]
    return f"{value:,.0f} {unit}" if abs(value) >= 999.95 else f"{value:.4g} {unit}"


def _time(interval: stats.Interval, unit: str) -> str:
    """Return a time with its half-width, or with its interval if that is wide."""
    text = level(interval, "s")
    if not unit:
        return text
    value = _in_unit(interval.value, unit)
    if WIDE < interval.half_width < math.inf:
        return f"{value} [{_in_unit(interval.low, unit)} - {_in_unit(interval.high, unit)}]"
    _, mark, width = text.partition("±")
    return value + (f" {mark}{width}" if mark else "")


def _ratio(one: Entry, base: Entry | None) -> str:
    if base is None or not one.baseline:
        return EMPTY
    if one is base:
        return "1"
    # The tests are over: a function cannot be called again.
    found = one.result.ratio_measured(base.result)
    return ratio(found) if found else EMPTY


def _before(one: Entry, earlier: Earlier | None) -> str:
    found = earlier.ratio(one) if earlier is not None and one.result.measured else None
    return ratio(found) if found else EMPTY


def _model(one: Result) -> str:
    return one.model if one.tasks == 1 else f"{one.model} x {one.tasks}"


def _rate(one: Result) -> str:
    """Return the calls per second of a load; for a plain benchmark this would repeat the time per call."""
    loaded = one.measured and one.launches[0].latencies_s
    return amount(one.throughput_per_s, "per_s") if loaded else EMPTY


def _percentile(one: Result, share: float, unit: str) -> str:
    if not one.measured or not one.launches[0].latencies_s:
        return EMPTY
    return _in_unit(one.percentile_s(share), unit)


def _loop(one: Result, unit: str) -> str:
    values = [launch.loop_s for launch in one.launches if launch.loop_s is not None]
    return _in_unit(statistics.median(values), unit) if values else EMPTY


def _lag(one: Result, unit: str) -> str:
    return EMPTY if one.lag_or_none_s is None else _in_unit(one.lag_or_none_s, unit)


def _share(one: Result, name: str) -> str:
    share = getattr(one, name) if one.traced and one.measured else None
    return amount(share.value, "share") if share is not None and share.values else EMPTY


def _counts(one: Result) -> str:
    if not one.measured:
        return EMPTY
    rounds = statistics.median(len(launch.values_s) for launch in one.launches)
    return f"{len(one.launches)}/ {rounds:.0f}/ {one.launches[0].calls}"


def results_to_json(groups: Groups, folder: Path, earlier: Earlier | None = None) -> dict[str, Any]:
    """Return all measurements as JSON values, with intervals; times are in seconds.

    Args:
        groups: Results by group.
        folder: The test suite's folder, for the facts about its commit.
        earlier: The results that they are compared with.
    """
    return {
        "headway": 2,
        "machine": this_machine().to_json(),
        "python": platform.python_version(),
        "at": _now(),
        "commit_info": commit_info(folder),
        "groups": {
            group: [
                {
                    **_result(entry, earlier),
                    **_compared(entry, _base(entries)),
                    "percentiles_s": _percentiles(entry.result),
                }
                for entry in entries
            ]
            for group, entries in groups.items()
        },
    }


def session_to_json(groups: Groups, folder: Path) -> dict[str, Any]:
    """Return the stored form of a session for later comparisons: no latencies, and a few medians of rounds."""
    values = results_to_json(groups, folder)
    stored = {
        group: [
            {**_result(entry), "launches": [summary(one) for one in entry.result.launches]}
            for entry in entries
            if entry.result.measured
        ]
        for group, entries in groups.items()
    }
    return {**values, "groups": stored}


def store_session(path: Path, session: Mapping[str, Any], *, add: bool) -> None:
    """Write a session to a file of stored sessions, after those that it has, or instead of them.

    A full disk, a kill or another session that writes at the same time costs no stored session.

    Raises:
        OSError: The file cannot be read or written; it is as before.
        UsageError: The file holds no sessions any more; it is as before.
    """
    path.parent.mkdir(exist_ok=True)
    kept = Path(os.path.realpath(path))  # Path.resolve() fails on a link that loops
    with _only_writer(kept.parent):
        before = _sessions_in(kept) if add and kept.exists() else []
        new = kept.with_name(f"{kept.name}.new")
        try:
            new.write_bytes(dump({"headway": 2, "sessions": [*before, session]}))
            new.replace(kept)
        finally:
            new.unlink(missing_ok=True)


@contextlib.contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    """Hold the lock on a folder for the block; a file system without locks has none."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _sessions_in(path: Path) -> list[Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        Stored.from_json(path.stem, values)
        return sessions_of(values)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = why_unreadable(path, error)
        raise UsageError(f"nothing is added: {why}", hint="delete the file, and store the sessions again") from None


def _result(entry: Entry, earlier: Earlier | None = None) -> dict[str, Any]:
    one = entry.result
    before = earlier.ratio(entry) if earlier is not None and one.measured else None
    return {
        "label": entry.label,
        "key": entry.key,
        "name": one.name,
        "model": one.model,
        "tasks": one.tasks,
        "traced": one.traced,
        "call_s": interval_to_json(
            one.interval if one.measured else None, of="launches" if one.of_launches else "rounds of one launch"
        ),
        "ratio_to_before": interval_to_json(before, to=earlier.name if earlier is not None else ""),
        "launches": [launch.to_json() for launch in one.launches],
        "failed": list(one.failed),
        "why_not": one.why_not,
    }


def _compared(entry: Entry, base: Entry | None) -> dict[str, Any]:
    """Return the benchmark that took turns with this one, "" without one, and the ratio to it."""
    found = entry.result.ratio_measured(base.result) if base is not None and entry is not base else None
    return {"baseline": entry.baseline, "ratio_to_baseline": interval_to_json(found)}


def _percentiles(one: Result) -> dict[str, Any]:
    """Return the percentiles of the table with their intervals; {} if calls were not timed one by one."""
    if not one.measured or not one.launches[0].latencies_s:
        return {}
    return {str(share): interval_to_json(one.percentile(share).interval) for share in (0.5, 0.99)}


def to_pyperf(groups: Groups) -> dict[str, Any]:
    """Return a pyperf suite (format 1.0), which pyperf 2.10 loads.

    Each benchmark is a benchmark of the suite, each launch a run of it, with seconds per call as values.
    """
    benchmarks = [
        {
            "metadata": {
                "name": f"{group}: {entry.label}",
                "unit": "second",
                "loops": one.launches[0].calls,
                "python_version": platform.python_version(),
                "hw_model": one.model,
                "hw_tasks": one.tasks,
            },
            "runs": [{"metadata": {"date": _now()}, "values": list(launch.values_s)} for launch in one.launches],
        }
        for group, entries in groups.items()
        for entry in entries
        for one in [entry.result]
        if one.measured
    ]
    return {"version": "1.0", "benchmarks": benchmarks}


def to_pytest_benchmark(groups: Groups, folder: Path) -> dict[str, Any]:
    """Return the format of pytest-benchmark 5's `--benchmark-json`: seconds per call by round, over all launches."""
    machine = this_machine()
    return {
        "machine_info": {
            "node": platform.node(),
            "processor": platform.processor(),
            "machine": platform.machine(),
            "python_implementation": platform.python_implementation(),
            "python_version": platform.python_version(),
            "release": platform.release(),
            "system": platform.system(),
            "cpu": {"brand_raw": machine.cpu, "count": len(machine.cores)},
        },
        "commit_info": commit_info(folder),
        "benchmarks": [
            _for_pytest_benchmark(group, entry)
            for group, entries in groups.items()
            for entry in entries
            if entry.result.measured
        ],
        "datetime": _now(),
        "version": "5.0.0",
    }


def _for_pytest_benchmark(group: str, entry: Entry) -> dict[str, Any]:
    one = entry.result
    data = [value for launch in one.launches for value in launch.values_s]
    first, median, third = statistics.quantiles(data, n=4, method="inclusive") if len(data) > 1 else [data[0]] * 3
    spread = statistics.stdev(data) if len(data) > 1 else 0.0
    mean = statistics.fmean(data)
    found = stats.outliers(data)
    return {
        "group": group,
        "name": entry.label,
        "fullname": f"{group}::{entry.label}",
        "params": None,
        "param": None,
        "extra_info": {"model": one.model, "tasks": one.tasks},
        "options": {
            "timer": "perf_counter",
            "disable_gc": not any(launch.collects for launch in one.launches),
            "warmup": True,
        },
        "stats": {
            "min": min(data),
            "max": max(data),
            "mean": mean,
            "stddev": spread,
            "rounds": len(data),
            "median": median,
            "iqr": third - first,
            "q1": first,
            "q3": third,
            "iqr_outliers": found.mild + found.severe,
            "stddev_outliers": sum(abs(value - mean) > spread for value in data),
            "outliers": f"{sum(abs(value - mean) > spread for value in data)};{found.mild + found.severe}",
            "ld15iqr": min(value for value in data if value >= first - 1.5 * (third - first)),
            "hd15iqr": max(value for value in data if value <= third + 1.5 * (third - first)),
            "ops": 1 / mean,
            "total": sum(data),
            "iterations": one.launches[0].calls,
            "data": data,
        },
    }


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def dump(values: Mapping[str, Any]) -> bytes:
    """Return JSON as it is written to files."""
    return (json.dumps(values, indent=1, allow_nan=False) + "\n").encode()
