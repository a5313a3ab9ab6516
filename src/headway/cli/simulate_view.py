"""Render the output of `headway simulate`: the tables of one scenario, or the table and the curves of a sweep."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from headway.cli.simulate_words import figure, shown
from headway.printable import printable
from headway.report import Table, render_table
from headway.report.figures import amount, unit_of
from headway.sim.overload import overloads
from headway.sim.result import LEAST, THE_GIL
from headway.sim.scenario import ends, walk

if TYPE_CHECKING:
    from headway.report.html import schema
    from headway.sim.machine import Costs
    from headway.sim.overload import Overload
    from headway.sim.result import Stuck
    from headway.sim.scenario import Scenario
    from headway.sim.summary import Spread, Summary
    from headway.sim.sweep import Axis, Point

__all__ = ["curves", "heading", "remarks", "setting_of", "single", "single_tables", "sweep", "sweep_table"]

_COLUMNS = (
    ("done_per_s", "done"),
    ("p50_ms", "p50"),
    ("p90_ms", "p90"),
    ("p99_ms", "p99"),
    ("max_ms", "max"),
    ("work_share", "work"),
    ("cpu_share", "CPU"),
    ("held_share", "GIL held"),
    ("waited_share", "GIL waited"),
)
_GIL_COLUMNS = (
    ("held_share", "held"),
    ("acquires_per_s", "acquired"),
    ("requests_per_s", "requests"),
    ("forced_per_s", "preempted"),
)
_TIMES = ("p50_ms", "p90_ms", "p99_ms", "max_ms")
_OF_ROLES = ("work_share", "held_share", "waited_share")
"""Figures that clients do not have, because they run no Python."""
_CURVES = ("done_per_s", "p50_ms", "p99_ms", "work_share")
_BAR = 40
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LOG_FROM = 50
"""A curve has a logarithmic scale if its greatest value is at least this many times its least."""


def single(scenario: "Scenario", costs: "Costs", summary: "Summary") -> RenderableType:
    """Return the tables of one scenario."""
    parts: list[RenderableType] = []
    for table in single_tables(scenario, costs, summary):
        parts += [Text(""), render_table(table)]
    title, setting = heading(scenario), setting_of(scenario)
    return Group(Text(title, style="bold"), Text(setting, style="dim"), *parts, *_remarks([(scenario, summary)]))


def heading(scenario: "Scenario") -> str:
    """Return the name and the title of a scenario."""
    return printable(f"{scenario.name}: {scenario.title}")


def single_tables(scenario: "Scenario", costs: "Costs", summary: "Summary") -> list[Table]:
    """Return the table of a scenario's roles and clients, and the table of its GILs if it has any."""
    head = ("", "threads", *(title for _, title in _COLUMNS))
    finishing = {role.name for role in scenario.roles if any(step.word == "done" for step in walk(role.program))}
    rows = []
    for part in summary.outcomes[0].parts:
        figures = summary.parts[part.name]
        left_out: tuple[str, ...] = _OF_ROLES if part.client else ()
        if not part.client and part.name not in finishing:
            left_out = (*_TIMES, "done_per_s")  # it finishes no pieces of work, by its program
        cells = ["" if key in left_out else figure(key, figures[key]) for key, _ in _COLUMNS]
        rows.append((printable(f"{part.name} (client)" if part.client else part.name), f"{part.threads:,}", *cells))
    gils = [
        (printable(name), *(figure(key, figures[key]) for key, _ in _GIL_COLUMNS))
        for name, figures in summary.gils.items()
    ]
    gil_head = ("GIL", *(title for _, title in _GIL_COLUMNS))
    tables = [Table(_caption(costs, [summary], _TIMES), head, tuple(rows), names=1)]
    if gils:
        tables.append(
            Table("held: share of the whole time; the others: times a second", gil_head, tuple(gils), names=1)
        )
    return tables


def setting_of(scenario: "Scenario") -> str:
    """Return the setting in one line: cores and placement, and each process's GIL, policy and options."""
    said = [f"{scenario.cores} core{'s' * (scenario.cores > 1)}, {scenario.placement}"]
    for process in scenario.processes:
        name = f"{process.name}: " if len(scenario.processes) > 1 else ""
        gil = f"switch interval {process.switch_interval_ns / 1e6:g} ms" if process.gil else "no GIL"
        policy = f", policy {process.policy}" if process.policy != "none" else ""
        chosen = "".join(f", {option}={value}" for option, value in process.options)
        said.append(printable(f"{name}{gil}{policy}{chosen}"))
    return "; ".join(said)


def _caption(costs: "Costs", summaries: "Sequence[Summary]", keys: Sequence[str]) -> str:
    first = summaries[0]
    count = len(first.seeds)
    over = f"the median of {count} seeds [their range]" if count > 1 else "one seed"
    outcomes = [one for summary in summaries for one in summary.outcomes]
    # A run whose threads have all ended counts the time until then, which differs from run to run.
    times_s = sorted(one.elapsed_s for one in outcomes)
    elapsed = f"{_range(times_s)} s of virtual time after the warm-up"
    if any(one.ended for one in outcomes):
        elapsed += ", until all threads ended"
    said = [
        f"{elapsed}, {over}; costs: {printable(costs.name)}. GIL waited: share of each thread's time; other shares: of one core's time"
    ]
    for key in (one for one in ("p90_ms", "p99_ms") if one in keys):
        few = any(
            figures[key] is None and (done := figures["done_per_s"]) is not None and done.high > 0
            for summary in summaries
            for figures in summary.parts.values()
        )
        if few:
            advice = "" if all(one.ended for one in outcomes) else "; use a longer --duration"
            said.append(f"{key.removesuffix('_ms')} -: fewer than {LEAST[key]} pieces of work in a seed{advice}")
    return "\n".join(said)


def _range(ordered: Sequence[float]) -> str:
    low, high = f"{ordered[0]:.4g}", f"{ordered[-1]:.4g}"
    return low if low == high else f"{low} to {high}"


def remarks(simulated: "Sequence[tuple[Scenario, Summary]]") -> list[str]:
    """Return a line for each role of which threads may wait for ever, with the seed in which most of them do.

    If all threads of a run do so, a line before them says since when. If the time was over before threads ended that
    would end, a line says so. Another one is about clients whose backlog grows.
    """
    outcomes = [outcome for _, summary in simulated for outcome in summary.outcomes]
    worst: dict[tuple[str, bool], Stuck] = {}
    for one in (one for outcome in outcomes for one in outcome.stuck):
        key = (one.role, one.waits_for == THE_GIL)
        if key not in worst or one.threads > worst[key].threads:
            worst[key] = one
    found = []
    if stood_s := [one.stood_s for one in outcomes if one.stood_s is not None]:
        runs = f"in {len(stood_s):,} of {len(outcomes):,} runs" if len(outcomes) > 1 else "in this run"
        at = f"{min(stood_s):.4g} s after the start" + ", at the earliest" * (len(stood_s) > 1)
        found.append(f"standstill: {runs}, all threads that are left wait for ever, from {at}")
    for (role, starves), one in worst.items():
        threads = "1 thread waits" if one.threads == 1 else f"{one.threads:,} threads wait"
        since = "" if stood_s else ", and since the first half of the time,"
        text = f"{threads} at the end{since} for {one.waits_for}"
        text += "; what waits with them is in no percentile" if starves else ""
        found.append(printable(f"{role}: {text}"))
    cut_s = [
        outcome.elapsed_s
        for scenario, summary in simulated
        if ends(role for role in scenario.roles if role.threads)
        for outcome in summary.outcomes
        if not outcome.ended and outcome.stood_s is None and not outcome.stuck
    ]
    if cut_s:
        found.append(f"not all threads had ended after {_range(sorted(cut_s))} s; use a longer --duration")
    return found + _overloads(simulated)


def _overloads(simulated: "Sequence[tuple[Scenario, Summary]]") -> list[str]:
    """Return a line for each client with an open loop that is answered too slowly, with the point that is worst."""
    found: dict[str, list[Overload]] = {}
    for one in (one for scenario, summary in simulated for one in overloads(scenario, summary)):
        found.setdefault(one.client, []).append(one)
    lines = []
    for client, some in found.items():
        worst = min(some, key=lambda one: one.done_per_s / one.rate_per_s)
        which = f"the worst of {len(some):,} such points" if len(some) > 1 else "1 point"
        where = f", at {which} of {len(simulated):,}" if len(simulated) > 1 else ""
        done, came = (amount(one, "per_s").removesuffix("/s") for one in (worst.done_per_s, worst.rate_per_s))
        text = f"only {done} of {came} requests a second are answered{where}: the backlog grows, and its times depend on the duration"
        lines.append(printable(f"{client}: {text}"))
    return lines


def _remarks(simulated: "Sequence[tuple[Scenario, Summary]]") -> list[Text]:
    return [Text(f"remark: {text}") for text in remarks(simulated)]


def sweep(
    scenario: "Scenario", costs: "Costs", axes: "Sequence[Axis]", swept: "Sequence[tuple[Point, Summary]]"
) -> RenderableType:
    """Return the table and the curves of a sweep."""
    drawn = _drawn(scenario, swept)
    curves = [_curve(_title(part, key), axes, _values(swept, part, key), key) for part, key in drawn]
    table = sweep_table(scenario, costs, axes, swept)
    said = _remarks([(point.scenario, summary) for point, summary in swept])
    return Group(Text(heading(scenario), style="bold"), Text(""), render_table(table), *said, *curves)


def _title(part: str, key: str) -> str:
    return printable(f"{part} {dict(_COLUMNS)[key]}")


def _drawn(scenario: "Scenario", swept: "Sequence[tuple[Point, Summary]]") -> list[tuple[str, str]]:
    """Return (part, figure) for each column and each curve of a sweep."""
    serving = {role.name for role in scenario.roles if any(step.word == "receive" for step in walk(role.program))}
    return [
        (part, key)
        for part in swept[0][1].parts
        for key in _CURVES
        if any(_worth(summary, part, key) for _, summary in swept) and not (key == "work_share" and part in serving)
    ]


def sweep_table(
    scenario: "Scenario", costs: "Costs", axes: "Sequence[Axis]", swept: "Sequence[tuple[Point, Summary]]"
) -> Table:
    """Return the table of a sweep."""
    drawn = _drawn(scenario, swept)
    head = (*(axis.name for axis in axes), *(_title(part, key) for part, key in drawn))
    rows = [
        (*point.values, *(figure(key, summary.parts[part][key]) for part, key in drawn)) for point, summary in swept
    ]
    return Table(_caption(costs, [summary for _, summary in swept], _CURVES), head, tuple(rows), names=len(axes))


def curves(
    scenario: "Scenario", axes: "Sequence[Axis]", swept: "Sequence[tuple[Point, Summary]]"
) -> list["schema.Curve"]:
    """Return the curves of a sweep as data of a page.

    A curve runs along the axis that `_along` chooses, and has a line for each combination of the other axes' values.
    """
    from headway.report.html import schema

    along = _along(axes)
    axis = axes[along]
    others = [one.name for place, one in enumerate(axes) if place != along]
    found = []
    for part, key in _drawn(scenario, swept):
        # The summary has times in ms; a page has times in seconds.
        scale = 1e-3 if key.endswith("_ms") else 1.0
        groups: dict[str, list[schema.CurvePoint]] = {}
        for values, spread in _values(swept, part, key):
            rest = values[:along] + values[along + 1 :]
            name = printable(", ".join(map("=".join, zip(others, rest, strict=True))))
            point = schema.CurvePoint(
                x=axis.values.index(values[along]),
                value=None if spread is None else scale * spread.median,
                low=None if spread is None else scale * spread.low,
                high=None if spread is None else scale * spread.high,
                shown=figure(key, spread),
            )
            groups.setdefault(name, []).append(point)
        found.append(
            schema.Curve(
                title=_title(part, key),
                unit="s" if key.endswith("_ms") else unit_of(key),
                x=printable(axis.name),
                x_values=tuple(map(printable, axis.values)),
                x_numbers=axis.numbers or (),
                lines=tuple(schema.CurveLine(name, tuple(points)) for name, points in groups.items()),
            )
        )
    return found


def _worth(summary: "Summary", part: str, key: str) -> bool:
    """Return whether a sweep shows a part's figure: the time worked only for a part that finishes no pieces of work."""
    figures = summary.parts[part]
    done = figures["done_per_s"]
    counted = done is not None and done.high > 0
    spread = figures[key]
    if key == "work_share":
        return not counted and spread is not None and spread.high > 0
    return counted and spread is not None


def _values(
    swept: "Sequence[tuple[Point, Summary]]", part: str, key: str
) -> list[tuple[tuple[str, ...], "Spread | None"]]:
    return [(point.values, summary.parts[part][key]) for point, summary in swept]


def _along(axes: "Sequence[Axis]") -> int:
    """Return the index of the axis that curves run along: the one with the most numbers, or else the last one."""
    numbers = [len(axis.numbers or ()) for axis in axes]
    return numbers.index(max(numbers)) if any(numbers) else len(axes) - 1


def _curve(
    title: str, axes: "Sequence[Axis]", values: list[tuple[tuple[str, ...], "Spread | None"]], key: str
) -> RenderableType:
    """Return a bar for each point; bars of points that differ only on the axis of the curve stand below each other."""
    known = [spread.median for _, spread in values if spread is not None and spread.median > 0]
    most, least = max(known, default=0.0), min(known, default=0.0)
    logarithmic = least > 0 and most / least >= _LOG_FROM
    lines = [Text(f"\n{printable(title)}{', logarithmic' * logarithmic}", style="bold")]
    along = _along(axes)
    width = max(len(point[along]) for point, _ in values)
    groups: dict[tuple[str, ...], list[tuple[str, Spread | None]]] = {}
    for point, spread in values:
        groups.setdefault(point[:along] + point[along + 1 :], []).append((point[along], spread))
    others = [axis.name for place, axis in enumerate(axes) if place != along]
    for group, members in groups.items():
        if group:
            lines.append(Text(printable(" ".join(map("=".join, zip(others, group, strict=True))))))
        for value, spread in members:
            bar = _bar(_part(spread, least, most, logarithmic=logarithmic))
            label = printable(f"{axes[along].name}={value:<{width}}")
            said = f"  {' '.join(filter(None, (label, bar, shown(key, spread))))}"
            lines.append(Text(said, no_wrap=True))
    return Group(*lines)


def _part(spread: "Spread | None", least: float, most: float, *, logarithmic: bool) -> float:
    if spread is None or spread.median <= 0 or most <= 0:
        return 0.0
    if not logarithmic:
        return spread.median / most
    # The least value has a bar of 5 %, so that it is visible.
    return 0.05 + 0.95 * math.log(spread.median / least) / math.log(most / least)


def _bar(part: float) -> str:
    eighths = round(part * _BAR * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
