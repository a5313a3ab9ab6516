"""The things that a benchmark takes account of: tools that trace every line, and Headway's frames in tracebacks."""

import os
import sys
from pathlib import Path
from types import TracebackType

from headway.measure.work import GENERATED

__all__ = ["tracing_tools", "users_call", "without_ours"]

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


_OURS = f"{Path(__file__).parents[1]}{os.sep}"


def _is_ours(file: str) -> bool:
    return file.startswith(_OURS) or file == GENERATED


def without_ours(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of Headway and of its generated code; the user's frames are left."""
    if traceback is None:
        return None
    rest = without_ours(traceback.tb_next)
    if _is_ours(traceback.tb_frame.f_code.co_filename):
        return rest
    return TracebackType(rest, traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)


def users_call() -> TracebackType:
    """Return a traceback of the line that has called Headway, for an error that is raised later."""
    frame = sys._getframe()  # noqa: SLF001  (there is no other way to a caller's position)
    while _is_ours(frame.f_code.co_filename) and frame.f_back is not None:
        frame = frame.f_back
    return TracebackType(None, frame, frame.f_lasti, frame.f_lineno)
