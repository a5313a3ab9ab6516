"""GIL events as data: the trace file, its reader, the analysis of the events, and exports.

A live recording and a simulation give the same `Trace` (model.py), so analysis, report and exports need not know which
of the two made it. Imports numpy, and of headway only `errors`.
"""

__all__: list[str] = []
