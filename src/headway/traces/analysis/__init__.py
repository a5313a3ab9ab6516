"""Analyses a trace's events: holds and waits, who waited for whom, convoys, lines of code, findings.

Imports numpy and the model, and nothing else. Read the modules in this order: intervals, threads, blame, convoys,
hotspots, findings.
"""

from typing import TYPE_CHECKING

from headway.first_use import imported_on_first_use

if TYPE_CHECKING:
    from headway.traces.analysis.json_form import as_json
    from headway.traces.analysis.result import Analysis, Finding, GilSummary, WhatIf
    from headway.traces.analysis.summary import analyse

__all__ = ["Analysis", "Finding", "GilSummary", "WhatIf", "analyse", "as_json"]

_PLACES = {
    "as_json": "traces.analysis.json_form",
    **dict.fromkeys(("Analysis", "Finding", "GilSummary", "WhatIf"), "traces.analysis.result"),
    "analyse": "traces.analysis.summary",
}

# Reports of the lab need `words` and no NumPy.
__getattr__ = imported_on_first_use(__name__, _PLACES)
