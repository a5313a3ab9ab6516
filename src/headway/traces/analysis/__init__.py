"""Analyses a trace's events: holds and waits, who waited for whom, convoys, lines of code, findings.

Imports numpy and the model, and nothing else. Read the modules in this order: intervals, threads, blame, convoys,
hotspots, findings.
"""

from headway.traces.analysis.json_form import as_json
from headway.traces.analysis.result import Analysis, Finding, GilSummary, WhatIf
from headway.traces.analysis.summary import analyse

__all__ = ["Analysis", "Finding", "GilSummary", "WhatIf", "analyse", "as_json"]
