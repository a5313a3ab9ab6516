"""A run in short, for the user who waits for it: each experiment when it is done, and one screen at the end.

`report.lab.terminal` has the whole report. Here an experiment is its question, the figures that answer it in a line or
two, and a line for each claim. The last screen has the counts, five findings, and the places of the page and the
report.
"""

import itertools
import math
import statistics
import textwrap
from collections.abc import Callable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from headway.lab.design import ONE_WORKER, Experiment
from headway.lab.judging.assessed import assess
from headway.lab.judging.evidence import TOO_MANY, Evidence
from headway.lab.judging.findings import Finding, figure
from headway.lab.judging.open_claims import OpenClaim, open_claims
from headway.lab.judging.verdicts import Verdict, judge, speaking
from headway.lab.judging.verdicts import by_claim as grouped
from headway.lab.kept.results import CellResult, Run
from headway.lab.stats import Interval
from headway.report.figures import UNCERTAIN, WIDE, amount, metric_words, number, tells_nothing, unit_of_experiment
from headway.report.lab.claimed import counted
from headway.report.lab.claims import STYLES, no_findings
from headway.report.layout import bold
from headway.traces.analysis import words

__all__ = ["render_decided", "render_end", "render_experiment"]

_ROWS = 2
_MANY_CLAIMS = 2
_COLUMNS = 7
_FINDINGS = 5
_OPEN_NAMED = 12
_WIDTH = 116
_UNKNOWN = "?"


def render_experiment(run: Run, experiment: Experiment, *, goes_on: bool = False) -> RenderableType:
    """Return an experiment in short: its question, the figures that answer it, its claims with their verdicts.

    If the run goes on with open claims, those are only counted: each has its line once it is decided.
    """
    parts: list[RenderableType] = [Text(f"{experiment.name}: {experiment.question}", style="bold")]
    # In an experiment with many claims, the claims tell as much as a second line of figures would.
    rows = 1 if len(experiment.claims) > _MANY_CLAIMS else _ROWS
    parts += (Text(f"  {_cut(line)}", style="dim") for line in itertools.islice(figures(run, experiment), rows))
    claims = grouped(judge(run, [experiment])).values()
    decided = [group for group in claims if not (goes_on and speaking(group).outcome == "inconclusive")]
    parts += (_claim(run, group) for group in decided)
    if len(decided) < len(claims):
        count = len(claims) - len(decided)
        parts.append(
            Text(f"  {'open':<12}  {words.number(count, 'claim')}; further launches follow while there is time")
        )
    return Group(*parts)


def _shown(told: Evidence) -> str:
    """Return the deciding figure; an interval that says nothing yet is replaced by a remark."""
    if told.interval is not None and tells_nothing(told.interval):
        return f"{number(told.interval.value)}, {UNCERTAIN}"
    return figure(told)


def render_decided(run: Run, experiment: Experiment, claims: frozenset[str]) -> RenderableType:
    """Return claims of an experiment that further launches have decided."""
    verdicts = grouped(judge(run, [experiment]))
    return Group(*(_claim(run, verdicts[name], f"{experiment.name}: ") for name in sorted(claims)))


def _claim(run: Run, verdicts: Sequence[Verdict], before: str = "") -> RenderableType:
    whole = speaking(verdicts)
    told = whole.deciding
    shown = f": {_shown(told)}" if told is not None and whole.outcome != "not measured" else ""
    name = run.names.get(whole.interpreter, "")
    where = f" on {name}" if shown and name and len(verdicts) > 1 else ""
    text = textwrap.shorten(f"{before}{verdicts[0].claim.text}", _WIDTH - 16 - len(shown + where), placeholder=" ...")
    return Text("  ") + Text(f"{whole.outcome:<12}  ", style=STYLES[whole.outcome]) + Text(f"{text}{shown}{where}")


def figures(run: Run, experiment: Experiment) -> Iterator[str]:
    """Yield lines with the figures that answer an experiment's question, the most telling first.

    The figures are those of the newest interpreter with a GIL and the newest without. If settings are swept, there is a
    line for each series instead, on the former interpreter. The whole report has the intervals.
    """
    results = [one for one in run.of(experiment.name) if one.values(experiment.metric)]
    python = [one for one in results if one.cell.interpreter != ONE_WORKER]
    if not results:
        yield "no launch succeeded"
        return
    if not python:
        python = results
    placement = python[0].cell.placement
    here = [one for one in python if one.cell.placement == placement]
    where = f", {placement}" if len({one.cell.placement for one in python}) > 1 else ""
    measured = [key for key in [*run.interpreters, ONE_WORKER] if any(one.cell.interpreter == key for one in here)]
    if experiment.compares == "interpreters":
        yield from _line(run, experiment, here, f"{metric_words(experiment.metric)}{where}", _interpreter_of(run))
        return
    with_gil = [key for key in measured if key in run.interpreters and not run.interpreters[key].free_threaded]
    without = [key for key in measured if key not in with_gil]
    shown = [*with_gil[-1:], *without[-1:]]
    settings = list(dict.fromkeys(one.cell.setting for one in here))
    if len(settings) == 1:
        for key in shown:
            row = [one for one in here if one.cell.interpreter == key]
            yield from _line(
                run, experiment, row, f"{run.names[key]}, {metric_words(experiment.metric)}{where}", _series
            )
        return
    row = [one for one in here if one.cell.interpreter == shown[0]]
    series = sorted(dict.fromkeys(one.cell.series for one in row), key=lambda one: one == experiment.baseline)
    if experiment.shows == "levels":
        series = list(dict.fromkeys(one.cell.series for one in row))
    for name in series:
        of_series = [one for one in row if one.cell.series == name]
        yield from _line(run, experiment, of_series, f"{name} on {run.names[shown[0]]}{where}", _setting)


def _series(one: CellResult) -> str:
    return one.cell.series


def _setting(one: CellResult) -> str:
    return one.cell.setting


def _interpreter_of(run: Run) -> Callable[[CellResult], str]:
    return lambda one: run.names[one.cell.interpreter]


def _line(
    run: Run, experiment: Experiment, row: Sequence[CellResult], head: str, name: Callable[[CellResult], str]
) -> Iterator[str]:
    """Yield a line with the figures of some cells; none if no cell has more than one launch."""
    shown = [f"{name(one)} {_figure(run, experiment, one, row)}" for one in row]
    known = [one for one in shown if not one.endswith(_UNKNOWN)]
    left_out = f", {len(known) - _COLUMNS} more" if len(known) > _COLUMNS else ""
    unknown = f"; {len(row) - len(known)} with one launch" if len(known) < len(row) else ""
    if known:
        yield f"{head}: {'; '.join(known[:_COLUMNS])}{left_out}{unknown}"


def _figure(run: Run, experiment: Experiment, one: CellResult, row: Sequence[CellResult]) -> str:
    """Return a cell's level, or its ratio to the baseline if the experiment shows ratios."""
    unit = unit_of_experiment(experiment)
    if experiment.compares == "interpreters":
        base: CellResult | None = row[0]
    elif experiment.shows == "ratios" and unit != "count":
        cell = one.cell
        baselines = [other for other in run.of(experiment.name) if other.cell.series == experiment.baseline]
        same = [
            other
            for other in baselines
            if (other.cell.setting, other.cell.placement, other.cell.interpreter)
            == (cell.setting, cell.placement, cell.interpreter)
        ]
        base = next(iter(same), None)
    else:
        base = None
    ratio = one.ratio_to(base, experiment.metric) if base is not None and base is not one else None
    if ratio is not None:
        return f"x {_ratio(ratio)}"
    level = one.level(experiment.metric)
    value = level.value if level is not None else statistics.fmean(one.values(experiment.metric))
    return amount(value, unit)


def _ratio(ratio: Interval) -> str:
    """Return a ratio; with its interval if that is wide, and without a figure if one launch gave it."""
    if math.isinf(ratio.half_width):
        return _UNKNOWN
    if tells_nothing(ratio):
        return f"{number(ratio.value)}, {UNCERTAIN}"
    if ratio.half_width <= WIDE:
        return number(ratio.value)
    return f"{number(ratio.value)} [{number(ratio.low)}-{number(ratio.high)}]"


def _cut(line: str) -> str:
    return textwrap.shorten(line, _WIDTH, placeholder=" ...")


def render_end(run: Run, where: Sequence[str]) -> RenderableType:
    """Return the last screen: decided claims, findings, open claims, and the places of the rest.

    Args:
        run: The run.
        where: Lines that say where the page and the whole report are.
    """
    assessed = assess(run)
    counts = counted(run, assessed.verdicts)
    share = f", {assessed.decided / len(assessed.outcomes):.0%} of them decided" if assessed.outcomes else ""
    parts: list[RenderableType] = [bold(f"Verdicts on this machine: {counts.summary}{share}")]
    parts += (Text(_cut(f"  ! {doubt}"), style="yellow") for doubt in counts.doubts)
    parts += _failed(run)
    parts += _open(assessed.verdicts)
    parts.append(bold("Findings on this machine"))
    told = telling(assessed.findings)
    parts += (_finding(place, one) for place, one in enumerate(told, 1))
    if not told:
        parts.append(no_findings(assessed.verdicts))
    parts.append(Text(""))
    parts += map(Text, where)
    return Group(*parts)


def _failed(run: Run) -> Iterator[RenderableType]:
    if run.failures:
        failed = words.number(len(run.failures), "launch", "launches")
        yield Text(f"  ! {failed} failed, see the report", style="red")
    if run.settings.skipped:
        yield Text(f"  {len(run.settings.skipped)} cells could not run here, the report has the reasons", style="dim")


def _open(verdicts: Sequence[Verdict]) -> Iterator[RenderableType]:
    """Yield the open claims, and about how many launches would decide them."""
    found = open_claims(verdicts)
    if not found:
        return
    said = [f"{one.id} ({_many(one)})" for one in found[:_OPEN_NAMED]]
    more = f", {len(found) - _OPEN_NAMED} more" if len(found) > _OPEN_NAMED else ""
    yield Text(
        f"  open claims, with the approximate launches of each cell that would decide: {', '.join(said)}{more}",
        style="yellow",
    )


def _many(one: OpenClaim) -> str:
    launches = one.to_decide
    if launches is None:
        return "one launch tells no number" if one.launches == 1 else "not seen yet"
    return f"{launches} launches" if launches < TOO_MANY else "too many"


def telling(found: Sequence[Finding]) -> list[Finding]:
    """Return the findings that matter most: those with advice first, one of each experiment before a second of any.

    Findings that are about no claim fill the places that are left.
    """
    others = [one for one in found if not one.advice and not one.claim]
    advised = [one for one in found if one.advice] + [one for one in found if one.claim and not one.advice]
    first = {one.experiment: one for one in reversed(advised)}
    chosen = [one for one in advised if first[one.experiment] is one][:_FINDINGS]
    chosen += [one for one in advised if one not in chosen][: _FINDINGS - len(chosen)]
    return [*chosen, *others[: _FINDINGS - len(chosen)]]


def _finding(place: int, one: Finding) -> RenderableType:
    grid = RichTable.grid(padding=(0, 1))
    grid.add_row(f"  {place}.", Text(one.text))
    grid.add_row("", Text(_cut(one.evidence), style="dim"))
    if one.advice:
        grid.add_row("", Text(f"-> {one.advice}", style="green"))
    return grid
