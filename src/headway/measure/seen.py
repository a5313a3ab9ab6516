"""The things that a benchmark takes account of: tools that trace every line, and Headway's frames in tracebacks."""

import os
import re
import sys
from pathlib import Path
from types import TracebackType

from headway.measure.work import GENERATED

__all__ = ["hide_ours", "tracing_tools", "users_call"]

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


def hide_ours(error: BaseException) -> None:
    """Remove the frames of Headway and of its generated code from the tracebacks of an error; the user's frames are left.

    The errors that led to it, those of an exception group, and the text of a traceback in a worker process or in a
    sub-interpreter are included.
    """
    seen: dict[int, BaseException] = {}
    rest: list[BaseException | None] = [error]
    while rest:
        one = rest.pop()
        if one is None or id(one) in seen:
            continue
        seen[id(one)] = one
        one.__traceback__ = _without_ours(one.__traceback__)
        # A worker's error arrives with a cause that has the text: a process's in `tb` (multiprocessing and
        # concurrent.futures), that of a sub-interpreter of 3.14 and later in `excinfo.errdisplay`.
        own = vars(one)
        for place, name in ((own, "tb"), (getattr(own.get("excinfo"), "__dict__", {}), "errdisplay")):
            if isinstance(text := place.get(name), str):
                place[name] = _ENTRY.sub(_kept, text)
        rest += [one.__cause__, one.__context__, *(one.exceptions if isinstance(one, BaseExceptionGroup) else ())]


def _without_ours(traceback: TracebackType | None) -> TracebackType | None:
    entries = []
    # No recursion: a RecursionError has as many entries as there may be frames.
    while traceback is not None:
        if not _is_ours(traceback.tb_frame.f_code.co_filename):
            entries.append(traceback)
        traceback = traceback.tb_next
    rest: TracebackType | None = None
    for one in reversed(entries):
        rest = TracebackType(rest, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return rest


_ENTRY = re.compile(
    r"""^(?P<margin>[ |]*)[ ]{2}File[ ]"(?P<file>[^"\n]*)",[ ]line[ ]\d+.*\n  # the margin is that of an exception group
        (?:(?P=margin)[ ]{4}.*\n)*  # its source lines""",
    re.MULTILINE | re.VERBOSE,
)
"""An entry of a printed traceback."""


def _kept(entry: re.Match[str]) -> str:
    return "" if _is_ours(entry["file"]) else entry[0]


def users_call() -> TracebackType:
    """Return a traceback of the line that has called Headway, for an error that is raised later."""
    frame = sys._getframe()  # noqa: SLF001  (there is no other way to a caller's position)
    while _is_ours(frame.f_code.co_filename) and frame.f_back is not None:
        frame = frame.f_back
    return TracebackType(None, frame, frame.f_lasti, frame.f_lineno)
