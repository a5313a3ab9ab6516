"""Benchmarks of a test session: the table at its end, and the formats of other tools."""

import datetime as dt
import json
import math
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headway.host.machine import this_machine
from headway.lab import stats
from headway.measure.journal import Entry
from headway.measure.result import Measured, Result
from headway.report.figures import EMPTY, Table, amount, level, ratio

__all__ = ["benchmark_tables", "dump", "results_from_json", "results_to_json", "to_pyperf", "to_pytest_benchmark"]

Groups = Mapping[str, Sequence[Entry]]


def benchmark_tables(groups: Groups, before: Mapping[tuple[str, str], Result] | None = None) -> list[Table]:
    """Return a table for each group, the quickest first.

    Args:
        groups: Results by group.
        before: Earlier results by group and label, to be compared with.
    """
    return [_table(group, entries, before or {}) for group, entries in groups.items() if entries]


def _table(group: str, entries: Sequence[Entry], before: Mapping[tuple[str, str], Result]) -> Table:
    ordered = sorted(entries, key=lambda one: one.result.per_call_s if one.result.measured else math.inf)
    base = next((one for one in ordered if one.label == entries[0].baseline), ordered[0])
    first = base.result
    earlier = {id(one.result): before[group, one.label] for one in entries if (group, one.label) in before}
    columns: list[tuple[str, Callable[[Result], str]]] = [
        ("model", _model),
        ("time per call", lambda one: level(one.interval, "s") if one.interval else EMPTY),
        (f"ratio to {base.label}", lambda one: "1" if one is first else _ratio(one, first)),
        ("calls/s", _rate),
        ("p50", lambda one: _percentile(one, 0.5)),
        ("p99", lambda one: _percentile(one, 0.99)),
        ("loop lag p99", lambda one: EMPTY if math.isnan(one.loop_lag_s) else amount(one.loop_lag_s, "s")),
        ("loop per task", _loop),
        ("GIL held", lambda one: _share(one, "gil_hold_share")),
        ("GIL waited for", lambda one: _share(one, "gil_wait_share")),
        ("ratio to before", lambda one: _ratio(one, earlier[id(one)]) if id(one) in earlier else EMPTY),
        ("launches/ rounds/ calls", _counts),
    ]
    cells = [[show(one.result) for _, show in columns] for one in ordered]
    kept = [place for place in range(len(columns)) if any(row[place] not in {EMPTY, ""} for row in cells)]
    notes = [f"! {one.label}: {why}" for one in ordered for why in dict.fromkeys(one.result.failed)]
    notes += [f"! {one.label}: not measured, {one.result.why_not}" for one in ordered if not one.result.measured]
    blind = {launch.note for one in ordered for launch in one.result.launches if launch.note}
    notes += [f"! the GIL was not looked at: {note}" for note in sorted(blind)]
    return Table(
        "\n".join([f"{group} [95 % interval]", *notes]),
        ("benchmark", *(columns[place][0] for place in kept)),
        tuple((one.label, *(row[place] for place in kept)) for one, row in zip(ordered, cells, strict=True)),
        1,
    )


def _model(one: Result) -> str:
    return one.model if one.tasks == 1 else f"{one.model} x {one.tasks}"


def _ratio(one: Result, other: Result) -> str:
    found = one.ratio_to(other)
    return ratio(found) if found else EMPTY


def _rate(one: Result) -> str:
    """Of loads only: of a plain benchmark it is the time per call once more."""
    loaded = one.measured and one.launches[0].latencies_s
    return amount(one.throughput_per_s, "per_s") if loaded else EMPTY


def _percentile(one: Result, share: float) -> str:
    if not one.measured or not one.launches[0].latencies_s:
        return EMPTY
    return amount(one.percentile_s(share), "s")


def _loop(one: Result) -> str:
    values = [launch.loop_s for launch in one.launches if launch.loop_s is not None]
    return amount(statistics.median(values), "s") if values else EMPTY


def _share(one: Result, name: str) -> str:
    value = getattr(one, name).value if one.traced and one.measured else math.nan
    return EMPTY if math.isnan(value) else amount(value, "share")


def _counts(one: Result) -> str:
    if not one.measured:
        return EMPTY
    rounds = statistics.median(len(launch.values_s) for launch in one.launches)
    return f"{len(one.launches)}/ {rounds:.0f}/ {one.launches[0].calls}"


def results_to_json(groups: Groups) -> dict[str, Any]:
    """Return all that was measured as JSON values, with its intervals; times are in seconds."""
    return {
        "headway": 1,
        "machine": this_machine().to_json(),
        "python": platform.python_version(),
        "at": _now(),
        "groups": {group: [_result(entry) for entry in entries] for group, entries in groups.items()},
    }


def _result(entry: Entry) -> dict[str, Any]:
    one, interval = entry.result, entry.result.interval
    return {
        "label": entry.label,
        "name": one.name,
        "model": one.model,
        "tasks": one.tasks,
        "traced": one.traced,
        "call_s": None
        if interval is None
        else {
            "value": interval.value,
            "low": interval.low,
            "high": None if math.isinf(interval.high) else interval.high,
            "confidence": stats.CONFIDENCE,
            "of": "launches" if len(one.launches) > 1 else "rounds of one launch",
        },
        "launches": [launch.to_json() for launch in one.launches],
        "failed": list(one.failed),
        "why_not": one.why_not,
    }


def results_from_json(values: Mapping[str, Any]) -> dict[tuple[str, str], Result]:
    """Return the results of what `results_to_json` gave, by group and label.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: It is none of ours.
    """
    found = {}
    for group, results in values["groups"].items():
        for one in results:
            launches = tuple(Measured.from_json(launch) for launch in one["launches"])
            words, tasks = (one["label"], one["name"], one["model"]), one["tasks"]
            if not all(isinstance(word, str) for word in words) or not isinstance(tasks, int) or not tasks > 0:
                raise ValueError(f"{words!r} with {tasks!r} tasks")
            found[group, one["label"]] = Result(
                name=one["name"], model=one["model"], tasks=one["tasks"], launches=launches, traced=bool(one["traced"])
            )
    return found


def to_pyperf(groups: Groups) -> dict[str, Any]:
    """Return a pyperf suite (format 1.0): a benchmark each, a run per launch, seconds per call. Loads in pyperf 2.10."""
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


def to_pytest_benchmark(groups: Groups) -> dict[str, Any]:
    """Return what pytest-benchmark 5 writes with `--benchmark-json`: seconds per call by round, over all launches."""
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
        "commit_info": {},
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
        "options": {"timer": "perf_counter", "disable_gc": False, "warmup": True},
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
