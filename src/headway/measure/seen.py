"""The things that a benchmark takes account of: tools that trace every line, and Headway's frames in tracebacks."""

import sys
from pathlib import Path
from types import TracebackType

__all__ = ["tracing_tools", "without_ours"]

_TOOLS = 6
"""The number of tools of sys.monitoring (CPython, Python/instrumentation.c)."""


def tracing_tools() -> str:
    """Return the tools that trace every line or call of this thread now, such as coverage; "" if there are none."""
    found = [
        # A tracer in C, such as coverage's, has no module of its own, but its type has one.
        (getattr(look, "__module__", None) or type(look).__module__).partition(".")[0]
        for look in (sys.gettrace(), sys.getprofile())
        if look is not None
    ]
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is not None:
        found += [name for tool in range(_TOOLS) if (name := monitoring.get_tool(tool)) and monitoring.get_events(tool)]
    return ", ".join(dict.fromkeys(found))


_OURS = str(Path(__file__).parent)


def without_ours(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of this package; the user's frames are left."""
    if traceback is None:
        return None
    rest = without_ours(traceback.tb_next)
    if traceback.tb_frame.f_code.co_filename.startswith(_OURS):
        return rest
    return TracebackType(rest, traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)
