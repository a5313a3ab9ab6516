"""Two runs side by side, for the terminal."""

from collections import Counter
from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from headway.lab.compare import Difference
from headway.lab.experiments import experiment
from headway.lab.results import Run
from headway.report.figures import Table, amount, ratio, unit_of_experiment
from headway.report.layout import render_table

__all__ = ["render_comparison"]


_WORDS = {
    ("more", True): "slower",
    ("less", True): "faster",
    ("more", False): "more",
    ("less", False): "fewer",
}
"""Outcome, and whether the metric is a time -> the word for it."""


def render_comparison(before: Run, after: Run, differences: Iterable[Difference]) -> RenderableType:
    """Return two runs side by side: one row per cell in common."""
    rows: list[tuple[str, ...]] = []
    shown = ""
    for one in differences:
        cell = one.before.cell
        if cell.experiment != shown:
            shown = cell.experiment
            rows.append((shown, *[""] * 6))
        unit = unit_of_experiment(experiment(cell.experiment))
        old, new = one.before.level(one.metric), one.after.level(one.metric)
        rows.append(
            (
                f"  {cell.label}",
                before.names.get(cell.interpreter, cell.interpreter),
                cell.placement,
                amount(old.value, unit) if old else "-",
                amount(new.value, unit) if new else "-",
                ratio(one.ratio) if one.ratio else "-",
                _WORDS.get((one.outcome, unit == "s"), one.outcome),
            )
        )
    counts = Counter(row[-1] for row in rows if row[-1])
    table = Table(
        "after over before [95 % interval]. The two runs were not interleaved: what changed on the machine between "
        "them is in every ratio. Of many cells without a difference, one in twenty seems to have one.",
        ("cell", "CPython", "placement", "before", "after", "ratio", "verdict"),
        tuple(rows),
    )
    summary = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    heading = Text(f"{before.id} -> {after.id}: {summary}", style="bold")
    changed = [Text(f"! {line}", style="yellow") for line in _changed(before, after)]
    return Group(heading, *changed, render_table(table))


def _changed(before: Run, after: Run) -> Iterator[str]:
    """What else differs between two runs than time."""
    settings = before.header.settings, after.header.settings
    for name, old, new in (
        ("the machine", before.machine.cpu, after.machine.cpu),
        ("the cores", before.machine.cores, after.machine.cores),
        ("the kernel", before.machine.kernel, after.machine.kernel),
        ("headway", settings[0]["version"], settings[1]["version"]),
        *(
            (name, *(said.get(key, {}).get(part, "") for said in settings))
            for name, key, part in (("the Redis server", "redis", "server"), ("whose Redis it was", "redis", "whose"))
        ),
    ):
        if old and new and old != new:
            yield f"{name} differed: {old}, then {new}"
    for name in sorted(set(before.names.values()) & set(after.names.values())):
        versions = [
            next((one.version for key, one in run.interpreters.items() if run.names[key] == name), "")
            for run in (before, after)
        ]
        if versions[0] != versions[1]:
            yield f"CPython {name} differed: {versions[0]}, then {versions[1]}"
