"""Figures as text, each with the unit that its metric's name ends in, and the table that holds them."""

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, final

from headway.lab import stats
from headway.lab.judging.figures import UNCERTAIN, number, ratio, tells_nothing

if TYPE_CHECKING:
    # Not for the report of a trace, which has neither.
    from headway.lab.design import Experiment
    from headway.lab.kept.results import CellResult

__all__ = [
    "EMPTY",
    "UNCERTAIN",
    "WIDE",
    "Table",
    "Unit",
    "amount",
    "interval_ends",
    "interval_to_json",
    "level",
    "metric_words",
    "number",
    "ratio",
    "seconds",
    "shown_level",
    "tells_nothing",
    "unit_of",
    "unit_of_experiment",
]

EMPTY = "-"

Unit = Literal["s", "per_s", "bytes", "bytes_per_s", "share", "count"]

_ENDINGS: tuple[tuple[str, Unit], ...] = (
    ("_bytes_per_s", "bytes_per_s"),
    ("_per_s", "per_s"),
    ("_bytes", "bytes"),
    ("_share", "share"),
    ("_s", "s"),
)
"""The longest ending comes first, because a rate's name ends in `_s`, too."""


@final
@dataclass(frozen=True)
class Table:
    """A table to show.

    Attributes:
        caption: A text on the table's figures; further lines are notes.
        columns: Headings; the first is that of the row names.
        rows: Cells of text, as many per row as there are columns.
        names: The number of columns, from the left, that name a row. A table with names that is too wide for its
            terminal may be turned, or split into tables that each have the names; 0 means that it stays as it is.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    names: int = 0


def seconds(value_s: float) -> str:
    """Return a time in the unit that fits it: `12.3 ms`, `12,345 s`."""
    for factor, unit in ((1e9, "ns"), (1e6, "us"), (1e3, "ms")):
        if float(f"{abs(value_s) * factor:.3g}") < 1000:  # a value that rounds to 1,000 us is shown as 1 ms
            return f"{value_s * factor:.3g} {unit}"
    return f"{value_s:.3g} s" if abs(value_s) < 999.5 else f"{value_s:,.0f} s"


def unit_of(metric: str) -> Unit:
    """Return a metric's unit from the ending of its name; a count has none."""
    return next((unit for ending, unit in _ENDINGS if f"_{metric}".endswith(ending)), "count")


def unit_of_experiment(experiment: "Experiment") -> Unit:
    """Return the unit of an experiment's own metric."""
    unit = unit_of(experiment.metric)
    if unit == "count" and experiment.unit in {"s", "per_s"}:
        return "s" if experiment.unit == "s" else "per_s"
    return unit


def amount(value: float, unit: str) -> str:
    """Return a value with its unit: `12.3 ms`, `38,600/s`, `927 MB/s`, `64 KiB`, `23 %`, or a count `80,700`."""
    if unit == "s":
        return seconds(value)
    if unit == "per_s":
        return f"{_three_digits(value)}/s"
    if unit == "bytes_per_s":
        return f"{_scaled(value, 1000, ('B', 'kB', 'MB', 'GB'))}/s"
    if unit == "bytes":
        return _scaled(value, 1024, ("B", "KiB", "MiB", "GiB"))
    if unit == "share":
        return f"{_three_digits(value * 100)} %"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def _three_digits(value: float) -> str:
    """Return a number rounded to three digits, written out: `38,600`."""
    if value < 999.5:
        return f"{value:.3g}"
    return f"{float(f'{value:.3g}'):,.0f}"


def _scaled(value: float, step: int, units: tuple[str, ...]) -> str:
    for unit in units[:-1]:
        # A value that rounds to 1,000 kB is shown as 1 MB.
        if max(value, float(f"{value:.3g}")) < step:
            return f"{_three_digits(value)} {unit}"
        value /= step
    return f"{_three_digits(value)} {units[-1]}"


def interval_ends(interval: stats.Interval | None) -> tuple[float | None, float | None]:
    """Return the ends of an interval; None, None without an interval, or for a single launch."""
    if interval is None or math.isinf(interval.high):
        return None, None
    return interval.low, interval.high


def interval_to_json(interval: stats.Interval | None, **told: str) -> dict[str, float | str | None] | None:
    """Return an interval as JSON values, with further facts from `told`; None if there is no interval."""
    if interval is None:
        return None
    return {
        "value": interval.value,
        "low": interval.low,
        # JSON has no infinity.
        "high": None if math.isinf(interval.high) else interval.high,
        "confidence": interval.confidence,
        **told,
    }


WIDE = 0.3
"""The relative half-width from which on a figure is shown with its interval."""


def level(interval: stats.Interval, unit: str) -> str:
    """Return a level with its half-width, `38,600/s ±3%`, or with its interval if that is wide.

    A single launch has neither.
    """
    if math.isinf(interval.half_width):
        return amount(interval.value, unit)
    if tells_nothing(interval):
        return f"{amount(interval.value, unit)}, {UNCERTAIN}"
    if interval.half_width > WIDE:
        # Intervals are symmetric on logs: the half-width of a wide one overstates one end and understates the other.
        return f"{amount(interval.value, unit)} [{amount(interval.low, unit)} - {amount(interval.high, unit)}]"
    percent = interval.half_width * 100
    return f"{amount(interval.value, unit)} ±{percent:.{0 if percent >= 9.95 else 1}f}%"


def shown_level(result: "CellResult | None", metric: str, unit: str, *, plain: bool = False) -> str:
    """Return a cell's level of a metric, marked if launches fall into two modes, or a text on why there is none.

    Args:
        result: The cell's results; None if the run has no such cell.
        metric: The name of the metric.
        unit: Its unit.
        plain: Leave out the half-width.
    """
    values = result.values(metric) if result is not None else []
    if result is None or not values:
        return "failed" if result is not None and result.launches and not result.ok else EMPTY
    interval = result.level(metric)
    if interval is None:
        # A value of 0 has no logarithm, and so no interval.
        return amount(statistics.fmean(values), unit)
    text = amount(interval.value, unit) if plain else level(interval, unit)
    return text + (" !" if stats.bimodal(values) else "")


def metric_words(metric: str) -> str:
    """Return a metric's name in words: `work time`, `requests per second`, `lost`."""
    unit = unit_of(metric)
    ending = next((ending for ending, of in _ENDINGS if of == unit), "")
    stem = f"_{metric}".removesuffix(ending).strip("_").replace("_", " ")
    after = {"s": "time", "per_s": "per second", "bytes": "bytes", "bytes_per_s": "bytes per second", "share": "share"}
    return " ".join(filter(None, (stem, after.get(unit, ""))))
