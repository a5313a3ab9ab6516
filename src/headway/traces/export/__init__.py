"""Writes traces in the formats of other programs. Each format is a function that writes a launch's traces to one file.

A file appears under its name only when it is complete. A format's module is imported when the format is used.
Imports the model and the analysis of traces.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from headway.errors import UsageError
from headway.traces.model import Trace

__all__ = ["FORMATS"]

_Export = Callable[[Sequence[Trace], Path], None]


def _export(module: str, function: str = "write") -> _Export:
    def write(traces: Sequence[Trace], path: Path) -> None:
        if not traces:
            raise UsageError("there is no trace to export", hint="name at least one trace")
        write_them: _Export = getattr(import_module(f"headway.traces.export.{module}"), function)
        write_them(traces, path)

    return write


FORMATS: dict[str, _Export] = {
    "perfetto": _export("perfetto"),
    "gecko": _export("gecko"),
    "collapsed-hold": _export("collapsed", "write_holds"),
    "collapsed-wait": _export("collapsed", "write_waits"),
    "parquet": _export("parquet"),
}
"""Formats for ui.perfetto.dev, profiler.firefox.com, flame graphs of the time held and waited, and data frames."""
