"""Two runs side by side: as plain data, and for the terminal."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import final

from rich.console import Group, RenderableType
from rich.text import Text

from headway.host.interpreters import Interpreter
from headway.lab.judging.compare import SAME, Difference, interpreters_of_both, not_compared
from headway.lab.kept.results import Run
from headway.printable import printable
from headway.report.figures import Table, Unit, amount, interval_ends, ratio, unit_of_experiment
from headway.report.layout import render_table

__all__ = ["Compared", "Ratio", "changed_between", "compared", "render_comparison"]


_WORDS = {
    ("more", True): "slower",
    ("less", True): "faster",
    ("more", False): "more",
    ("less", False): "fewer",
}
"""(Outcome, whether the metric is a time) -> the word for it."""


@final
@dataclass(frozen=True)
class Ratio:
    """One cell of two runs.

    Attributes:
        experiment: The experiment's name.
        cell: The cell's label, interpreter and placement.
        value, low, high: After over before, with its 95 % interval; None if there is none.
        verdict: The outcome in a word: `slower`, `no difference`, ...
        better: The change is an improvement; None means no difference that is shown, or that neither direction is better.
    """

    experiment: str
    cell: str
    value: float | None
    low: float | None
    high: float | None
    verdict: str
    better: bool | None


@final
@dataclass(frozen=True)
class Compared:
    """Two runs side by side.

    Attributes:
        title: The runs' ids, and the number of cells by outcome.
        changed: Differences between the runs other than time.
        table: One row per cell in common.
        ratios: The same ratios for drawing.
    """

    title: str
    changed: tuple[str, ...]
    table: Table
    ratios: tuple[Ratio, ...]


def compared(before: Run, after: Run, differences: Iterable[Difference]) -> Compared:
    """Return two runs side by side: one row per cell in common."""
    rows: list[tuple[str, ...]] = []
    ratios = []
    shown = ""
    for one in differences:
        cell = one.before.cell
        if cell.experiment != shown:
            shown = cell.experiment
            rows.append((shown, *[""] * 6))
        unit = unit_of_experiment(before.experiment(cell.experiment))
        old, new = one.before.level(one.metric), one.after.level(one.metric)
        name = before.names.get(cell.interpreter, cell.interpreter)
        verdict = _WORDS.get((one.outcome, unit == "s"), one.outcome)
        rows.append(
            (
                f"  {cell.label}",
                name,
                cell.placement,
                amount(old.value, unit) if old else "-",
                amount(new.value, unit) if new else "-",
                ratio(one.ratio) if one.ratio else "-",
                verdict,
            )
        )
        ratios.append(_ratio(one, f"{cell.label}, {name}, {cell.placement}", verdict, unit))
    counts = Counter(row[-1] for row in rows if row[-1])
    table = Table(
        "after over before [95 % interval]. The two runs were not interleaved, so every ratio includes what changed on the "
        "machine between them. One in twenty cells without a difference seems to have one. No difference: the interval "
        f"contains 1, and lies within {SAME:.0%} of it; inconclusive: it contains 1, and is wider. One launch has no interval.",
        ("cell", "CPython", "placement", "before", "after", "ratio", "verdict"),
        tuple(rows),
    )
    summary = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    return Compared(
        f"{before.id} -> {after.id}: {summary}", tuple(changed_between(before, after)), table, tuple(ratios)
    )


def _ratio(one: Difference, cell: str, verdict: str, unit: Unit) -> Ratio:
    more = {"more": True, "less": False}.get(one.outcome)
    low, high = interval_ends(one.ratio)
    return Ratio(
        experiment=one.before.cell.experiment,
        cell=cell,
        value=one.ratio.value if one.ratio else None,
        low=low,
        high=high,
        verdict=verdict,
        better=None if more is None or unit not in {"s", "per_s", "bytes_per_s"} else more != (unit == "s"),
    )


def render_comparison(before: Run, after: Run, differences: Iterable[Difference]) -> RenderableType:
    """Return two runs side by side for the terminal."""
    found = compared(before, after, differences)
    changed = [Text(f"! {line}", style="yellow") for line in found.changed]
    return Group(Text(found.title, style="bold"), *changed, render_table(found.table))


def changed_between(before: Run, after: Run) -> Iterator[str]:
    """Yield a line for each difference between two runs other than time, and for what the ratios leave out."""
    if before.id == after.id:
        yield "both sides are the same run"
    if skipped := not_compared(before, after):
        yield f"{skipped} is not compared: this Headway has no such experiment"
    settings = before.settings, after.settings
    for name, old, new in (
        ("the machine", before.machine.cpu, after.machine.cpu),
        ("the cores", before.machine.cores, after.machine.cores),
        ("the kernel", before.machine.kernel, after.machine.kernel),
        ("headway", settings[0].version, settings[1].version),
        *(
            (name, *(said.redis.get(part, "") for said in settings))
            for name, part in (("the Redis server", "server"), ("the owner of the Redis server", "whose"))
        ),
    ):
        if old and new and old != new:
            yield f"{name} differed: {old}, then {new}"
    used = {name for one in before.results.values() for name in one.cell.variant.space}
    for name in sorted(used & settings[0].volumes.keys() & settings[1].volumes.keys()):
        places = [f"{said.volumes[name]['type']} at {said.volumes[name]['folder']}" for said in settings]
        if places[0] != places[1]:
            yield f"the files ({name}) differed: {printable(places[0])}, then {printable(places[1])}"
    for old, new in interpreters_of_both(before, after).items():
        if old in before.interpreters:
            yield from _changed_build(before.names[old], before.interpreters[old], after.interpreters[new])


def _changed_build(name: str, before: Interpreter, after: Interpreter) -> Iterator[str]:
    """Yield a line for each difference between two builds of one interpreter that may explain a difference of figures."""
    if before.version != after.version:
        yield f"CPython {name} differed: {before.version}, then {after.version}"
    sides = before, after
    for what, values in (
        ("the optimisations", [" and ".join(one.optimised) or "none" for one in sides]),
        ("the compiler", [one.compiler for one in sides]),
        ("the JIT", ["on" if one.jit_enabled else "off" for one in sides]),
        ("the GIL at the start", ["on" if one.gil_enabled else "off" for one in sides]),
        # Another version is always another file.
        ("the executable", [one.executable for one in sides if before.version == after.version]),
    ):
        if len(set(values)) > 1:
            yield f"{what} of CPython {name} differed: {printable(values[0])}, then {printable(values[1])}"
