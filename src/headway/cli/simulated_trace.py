"""The option `--trace FILE.hwt` of commands that simulate: check the file before the work, and write it afterwards."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli import console
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.traces.model import Trace

__all__ = ["check_trace", "write_trace"]


def check_trace(path: Path | None) -> None:
    """Check that a file that can be written has the name of a trace. Raises UsageError."""
    if path is not None and path.suffix != ".hwt":
        raise UsageError(
            f"{path.name} is not the name of a trace, expected NAME.hwt", hint="choose a name that ends with .hwt"
        )


def write_trace(trace: "Trace", path: Path, *, what: str) -> None:
    """Write a simulated run's events to `path`; say where `what` is, and if the trace ends early. Raises HeadwayError."""
    from headway.traces.writer import write

    write(trace, path, short_holds=True)
    console.say(f"{what} is in {path}; look at it with `headway report {shlex.quote(str(path))}`")
    if trace.loss.dropped_events:
        console.say(f"the trace ends early: {trace.loss.dropped_events:,} later events had no room")
