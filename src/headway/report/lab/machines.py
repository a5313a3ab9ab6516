"""The report on a cluster's runs: on how many machines each claim holds, as a table and as JSON."""

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from headway.lab.judging.figures import ratio
from headway.lab.judging.machines import OnMachine, OverMachines
from headway.lab.kept.results import Run
from headway.printable import printable
from headway.report.figures import Table, interval_ends
from headway.report.lab.claimed import not_shown
from headway.report.layout import bold, render_table

__all__ = ["machines_to_json", "render_machines"]


def _figure(one: OnMachine) -> str:
    told = one.deciding
    return one.outcome if told is None or told.interval is None else f"{one.outcome}, {ratio(told.interval)}"


def _machine(run: Run) -> tuple[str, ...]:
    machine = run.settings.machine
    return (
        printable(run.settings.host),
        run.id,
        f"{run.header.done:,}" + (f", {len(run.failures)} failed" if run.failures else ""),
        "" if run.header.complete else "incomplete",
        f"{len(machine.cores)} cores, {printable(machine.cpu)}",
    )


def render_machines(runs: Sequence[Run], claims: Sequence[OverMachines]) -> RenderableType:
    """Return the report."""
    parts: list[RenderableType] = [
        bold("Machines"),
        render_table(Table("", ("host", "run", "launches", "", "machine"), tuple(map(_machine, runs)), 1)),
    ]
    unknown = {f"  ! {printable(run.settings.host)}: {line}": None for run in runs for line in not_shown(run)}
    parts += (Text(line, style="yellow") for line in unknown)
    for name in dict.fromkeys(claim.experiment for claim in claims):
        parts.append(bold(name))
        for claim in (one for one in claims if one.experiment == name):
            parts.append(Text(f"  {claim.sentence}: {claim.text}"))
            parts += [Text(f"      {printable(one.host)}: {_figure(one)}") for one in claim.machines]
            if claim.effect:
                parts.append(Text(f"      {printable(claim.effect)}"))
    return Group(*parts)


def machines_to_json(runs: Sequence[Run], claims: Sequence[OverMachines]) -> dict[str, Any]:
    """Return the same report as JSON values.

    Fields:
        runs: The run of each machine: `host`, `run` and `complete`.
        claims: The claims: `id`, `experiment`, `text`, the sentence `over_machines`, the `effect`, and for each of the
            `machines` its outcome with the deciding figure (`what`, `value`, `low`, `high`).
    """

    def of(one: OnMachine) -> dict[str, Any]:
        told = one.deciding
        interval = None if told is None else told.interval
        low, high = interval_ends(interval)
        return {
            "host": one.host,
            "outcome": one.outcome,
            "what": None if told is None else told.what,
            "value": None if interval is None else interval.value,
            "low": low,
            "high": high,
        }

    return {
        "runs": [{"host": run.settings.host, "run": run.id, "complete": run.header.complete} for run in runs],
        "claims": [
            {
                "id": claim.claim,
                "experiment": claim.experiment,
                "text": claim.text,
                "over_machines": claim.sentence,
                "effect": claim.effect,
                "machines": [of(one) for one in claim.machines],
            }
            for claim in claims
        ],
    }
