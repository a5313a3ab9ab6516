"""GIL events as data: the trace file, its reader, what follows from the events, and exports.

A live recording and a simulation give the same `Trace` (model.py), so analysis, report and exports do not care which.
Imports numpy and nothing of headway but `errors`.
"""

__all__: list[str] = []
