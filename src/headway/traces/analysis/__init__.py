"""Analyses a trace's events: holds and waits, who waited for whom, convoys, lines of code, findings.

Imports numpy and the model, and nothing else. Read the modules in this order: intervals, threads, blame, convoys,
hotspots, findings.
"""

import importlib
from typing import TYPE_CHECKING

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


def __getattr__(name: str) -> object:
    # Imported on first use: reports of the lab need `words` and no NumPy.
    if name in _PLACES:
        return getattr(importlib.import_module(f"headway.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
