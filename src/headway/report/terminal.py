"""A run for the terminal, through rich: readable at 80 columns and without colour."""

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from headway.lab import stats
from headway.lab.compare import Difference
from headway.lab.design import ONE_WORKER, Experiment
from headway.lab.evidence import Evidence
from headway.lab.experiments import experiment
from headway.lab.published import sources
from headway.lab.results import Run
from headway.lab.verdicts import ORDER, Verdict, by_claim, judge
from headway.report.tables import Table, amount, costs_table, experiment_tables, ratio, seconds

__all__ = ["render_comparison", "render_run", "render_table"]

_STYLES = {"supported": "green", "refuted": "red", "inconclusive": "yellow", "not measured": "dim"}


def render_table(table: Table) -> RenderableType:
    """Return a table with its caption below."""
    shown = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1), show_edge=False)
    for position, column in enumerate(table.columns):
        # The last column may be a path: broken over lines it can still be read, cut off it cannot.
        last = position == len(table.columns) - 1
        shown.add_column(column, justify="left" if position == 0 else "right", overflow="fold" if last else "ellipsis")
    for row in table.rows:
        shown.add_row(*(Text(cell) for cell in row))
    return Group(shown, Text(table.caption, style="dim"))


def _heading(text: str) -> Text:
    return Text(f"\n{text}", style="bold")


def _header(run: Run) -> Iterator[RenderableType]:
    machine, settings = run.machine, run.header.settings
    yield Text(f"Run {run.id}", style="bold")
    yield Text(
        f"{machine.cpu}, {len(machine.cores)} cores ({machine.physical_cores} physical), Linux {machine.kernel}, {machine.system}"
    )
    yield Text("CPython " + ", ".join(f"{run.names[key]} ({one.version})" for key, one in run.interpreters.items()))
    state = "" if run.header.complete else f", INCOMPLETE: {run.header.done} of {run.header.planned} launches"
    yield Text(
        f"size {settings['size']}, {settings['launches']} launches a cell, in shuffled blocks, seed {run.seed}{state}"
    )
    for check in run.doctor:
        if check.status == "warning":
            yield Text(f"! {check.name}: {check.fact}", style="yellow")


def _notes(run: Run, experiment: Experiment) -> Iterator[str]:
    """What a reader of the table should know beyond it: two modes, outliers, warm-up, busy cores, a GIL that came back."""
    two_modes, courses, outliers_found = [], Counter[str](), stats.Outliers(0, 0)
    for result in run.of(experiment.name):
        values = result.values(experiment.metric)
        where = f"{result.cell.label} on {run.names[result.cell.interpreter]}, {result.cell.placement}"
        modes = stats.bimodal(values) if experiment.unit == "s" else None
        if modes:
            two_modes.append(f"{where}: {seconds(modes[0])} and {seconds(modes[1])}")
        for samples in result.samples(experiment.metric):
            found = stats.outliers(samples)
            outliers_found = stats.Outliers(outliers_found.mild + found.mild, outliers_found.severe + found.severe)
        courses.update(result.steady_states(experiment.metric))
        interpreter = run.interpreters.get(result.cell.interpreter)
        if interpreter is not None and not interpreter.gil_enabled and result.gil_came_back():
            yield f"an import switched the GIL back on: {where}"
    if two_modes:
        yield "! two modes among launches, so a mean misleads: " + "; ".join(two_modes)
    if outliers_found.mild or outliers_found.severe:
        yield f"outlying samples within launches, kept: {outliers_found.mild} mild, {outliers_found.severe} severe"
    courses.pop("too few samples", None)
    yield from _spreads(run, experiment)
    if courses:
        yield "course of samples within launches: " + ", ".join(
            f"{name} {count}" for name, count in courses.most_common()
        )
    yield from _busy(run, experiment)


def _spreads(run: Run, experiment: Experiment) -> Iterator[str]:
    """The spread of single values, for metrics with many of them a sample: 5th, 50th and 95th percentile."""
    together: dict[str, list[float]] = {}
    for result in run.of(experiment.name):
        for samples in result.samples(experiment.metric):
            if len(samples) > 10 * result.cell.samples:
                together.setdefault(f"{result.cell.label} {result.cell.placement}", []).extend(samples)
    if together:
        parts = []
        for name, values in together.items():
            cuts = statistics.quantiles(values, n=20)
            parts.append(f"{name} {seconds(cuts[0])}, {seconds(statistics.median(values))}, {seconds(cuts[-1])}")
        yield "spread of single values over all interpreters (5 %, 50 %, 95 %): " + "; ".join(parts)


def _busy(run: Run, experiment: Experiment) -> Iterator[str]:
    """Busy cores and context switches per variant, over interpreters: a range each."""
    cores: dict[str, list[float]] = {}
    switches: dict[str, list[float]] = {}
    for result in run.of(experiment.name):
        utilisation = result.mean_utilisation()
        if utilisation and result.cell.interpreter != ONE_WORKER:
            cores.setdefault(result.cell.label, []).append(sum(utilisation.values()))
        rate = result.mean_switches_per_s()
        if utilisation and rate:
            switches.setdefault(result.cell.label, []).append(sum(rate))
    if cores:
        parts = [
            f"{label} {_range(values, '.1f')} ({_range(switches[label], ',.0f')}/s)"
            for label, values in cores.items()
            if label in switches
        ]
        yield "busy cores (and context switches): " + ", ".join(parts)


def _range(values: Sequence[float], form: str) -> str:
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"


def _experiment(run: Run, experiment: Experiment) -> Iterator[RenderableType]:
    yield _heading(f"{experiment.name}: {experiment.question}")
    for table in experiment_tables(run, experiment):
        yield Padding(render_table(table), (0, 0, 0, 2))
    yield Padding(Text(f"In the figure: {experiment.included}", style="dim"), (0, 0, 0, 2))
    for note in _notes(run, experiment):
        yield Padding(Text(note), (0, 0, 0, 2))


def _measured(run: Run, verdict: Verdict) -> str:
    """`3.13 1.02 [0.98, 1.07]`: the deciding figure of a verdict."""
    name = run.names.get(verdict.interpreter, "")
    one = verdict.deciding
    return f"{name} {_figure(one)}".strip() if one is not None else name


def _figure(one: Evidence) -> str:
    if one.interval is not None:
        return ratio(one.interval)
    return f"{one.count:,.0f}" if one.count is not None else "-"


def _claim(run: Run, verdicts: Sequence[Verdict]) -> Iterator[RenderableType]:
    first = verdicts[0]
    published = ", ".join(dict.fromkeys(f"{value:.2f} ({source})" for source, value in first.published()))
    beside = f"; published ratio {published}" if published else ""
    whole = _overall(verdicts)
    yield Text("")
    claim = Text(first.claim.text, style="bold") + Text(f"  [{first.claim.source}{beside}]", style="not bold dim")
    yield Padding(claim, (0, 0, 0, 2))
    if whole in verdicts and whole.interpreter == "all":
        yield Padding(_verdict_lines(whole.outcome, f"over all: {_measured(run, whole)}", whole.sentence), (0, 0, 0, 4))
    singles = [verdict for verdict in verdicts if verdict.interpreter != "all"]
    for outcome in ORDER:
        group = [verdict for verdict in singles if verdict.outcome == outcome]
        if not group:
            continue
        figures = ", ".join(filter(None, (_measured(run, verdict) for verdict in group)))
        # Below a verdict over all, single interpreters need no sentence unless they say something else.
        sentence = (
            "" if whole.interpreter == "all" and outcome in (whole.outcome, "inconclusive") else group[0].sentence
        )
        yield Padding(_verdict_lines(outcome, figures, sentence), (0, 0, 0, 4))


def _verdict_lines(outcome: str, figures: str, sentence: str) -> RenderableType:
    grid = RichTable.grid(padding=(0, 1))
    grid.add_column(width=12)
    grid.add_column()
    grid.add_row(Text(outcome, style=_STYLES[outcome]), Text(figures))
    if sentence:
        grid.add_row("", Text(sentence, style="dim"))
    return grid


def _overall(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict that speaks for a claim: over all interpreters, else the least favourable single one."""
    for verdict in verdicts:
        if verdict.interpreter == "all":
            return verdict
    for outcome in ("refuted", "inconclusive", "supported", "not measured"):
        for verdict in verdicts:
            if verdict.outcome == outcome:
                return verdict
    return verdicts[0]


def _verdicts(run: Run, verdicts: Sequence[Verdict]) -> Iterator[RenderableType]:
    counts = Counter(_overall(group).outcome for group in by_claim(verdicts).values())
    claims = by_claim(verdicts)
    summary = ", ".join(f"{counts[outcome]} {outcome}" for outcome in ORDER if counts[outcome])
    yield _heading(f"Verdicts on this machine: {len(claims)} claims ({summary})")
    yield Text(
        "  ratio [95 % interval], or a count over all samples; by interpreter where there are several", style="dim"
    )
    if not run.header.complete:
        yield Text(f"  ! INCOMPLETE: {run.header.done} of {run.header.planned} launches", style="yellow")
    for check in run.doctor:
        if check.status == "warning" and check.name in {"load", "steal", "cpu-quota"}:
            yield Text(
                f"  ! {check.name} when the run began: {check.fact}; intervals cannot tell its share", style="yellow"
            )
    for group in claims.values():
        yield from _claim(run, group)
    yield from _sources(verdicts)


def _sources(verdicts: Sequence[Verdict]) -> Iterator[RenderableType]:
    """What the letters behind claims stand for."""
    letters = {match for verdict in verdicts for match in re.findall(r"\b([A-Z])\d*\b", verdict.claim.source)}
    shown = [f"  {letter}: {text}" for letter, text in sources().items() if letter in letters]
    if shown:
        yield _heading("Sources")
        yield Text("\n".join(shown), style="dim")


def _failures(run: Run) -> Iterator[RenderableType]:
    if run.failures:
        yield _heading(f"Failed launches: {len(run.failures)}")
        failures = Counter(f"{one.key.replace('|', ', ')}: {one.launch.reason}" for one in run.failures)
        for failure, count in failures.most_common(20):
            yield Text(f"  {count} x {failure}", style="red")
        yield Text("  their stderr is in `headway report --json`", style="dim")
    if run.skipped:
        reasons = Counter(one.reason for one in run.skipped)
        yield _heading(f"Not run here: {len(run.skipped)} cells")
        for reason, count in reasons.most_common():
            where = sorted(
                {run.names.get(one.interpreter, one.interpreter) for one in run.skipped if one.reason == reason}
            )
            yield Text(f"  {count} x {reason} ({', '.join(where)})", style="dim")


def render_run(run: Run, *, tables: bool = True) -> RenderableType:
    """Return a whole run for the terminal: machine, tables, costs kept apart, verdicts, failures.

    Args:
        run: The run.
        tables: False leaves out everything but the verdicts and failures.
    """
    parts: list[RenderableType] = list(_header(run))
    if tables:
        for experiment in run.experiments():
            parts.extend(_experiment(run, experiment))
        costs = costs_table(run)
        if costs is not None:
            parts.append(_heading("Start-up and pickling"))
            parts.append(Padding(render_table(costs), (0, 0, 0, 2)))
    parts.extend(_verdicts(run, judge(run)))
    parts.extend(_failures(run))
    return Group(*parts)


def render_comparison(before: Run, after: Run, differences: Iterable[Difference]) -> RenderableType:
    """Return two runs side by side: one row per cell in common."""
    rows = []
    for one in differences:
        cell = one.before.cell
        unit = experiment(cell.experiment).unit
        old, new = one.before.level(one.metric), one.after.level(one.metric)
        rows.append(
            (
                f"{cell.experiment}: {cell.label}",
                before.names.get(cell.interpreter, cell.interpreter),
                cell.placement,
                amount(old.value, unit) if old else "-",
                amount(new.value, unit) if new else "-",
                ratio(one.ratio) if one.ratio else "-",
                one.outcome,
            )
        )
    counts = Counter(row[-1] for row in rows)
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
    ):
        if old != new:
            yield f"{name} differed: {old}, then {new}"
    for name in sorted(set(before.names.values()) & set(after.names.values())):
        versions = [
            next((one.version for key, one in run.interpreters.items() if run.names[key] == name), "")
            for run in (before, after)
        ]
        if versions[0] != versions[1]:
            yield f"CPython {name} differed: {versions[0]}, then {versions[1]}"
