"""Turns results into readable forms: tables (plain data), text for the terminal, JSON, pyperf files and pages.

The package may import `headway.lab` except `lab.launching` and `lab.beside`, and never `headway.native`. Nothing here
measures, or prints by itself.
"""

from typing import TYPE_CHECKING

from headway.first_use import imported_on_first_use

if TYPE_CHECKING:
    from headway.report.figures import Table, seconds
    from headway.report.lab.brief import render_decided, render_end, render_experiment
    from headway.report.lab.comparison import render_comparison
    from headway.report.lab.export import comparison_to_json, run_to_json, run_to_pyperf
    from headway.report.lab.machines import machines_to_json, render_machines
    from headway.report.lab.published_tables import published_tables
    from headway.report.lab.tables import costs_table, experiment_tables
    from headway.report.lab.terminal import render_run
    from headway.report.layout import render_table

__all__ = [
    "Table",
    "comparison_to_json",
    "costs_table",
    "experiment_tables",
    "machines_to_json",
    "published_tables",
    "render_comparison",
    "render_decided",
    "render_end",
    "render_experiment",
    "render_machines",
    "render_run",
    "render_table",
    "run_to_json",
    "run_to_pyperf",
    "seconds",
]

_PLACES = {
    **dict.fromkeys(("render_decided", "render_end", "render_experiment"), "report.lab.brief"),
    "render_comparison": "report.lab.comparison",
    **dict.fromkeys(("comparison_to_json", "run_to_json", "run_to_pyperf"), "report.lab.export"),
    **dict.fromkeys(("machines_to_json", "render_machines"), "report.lab.machines"),
    "published_tables": "report.lab.published_tables",
    **dict.fromkeys(("Table", "seconds"), "report.figures"),
    **dict.fromkeys(("costs_table", "experiment_tables"), "report.lab.tables"),
    "render_run": "report.lab.terminal",
    "render_table": "report.layout",
}

# The report of a trace needs nothing of the lab's reports.
__getattr__ = imported_on_first_use(__name__, _PLACES)
