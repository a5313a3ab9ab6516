"""The heading of a trace, and the use of its GILs, in words: shared by the terminal and the page."""

from collections.abc import Iterator

from headway.printable import printable
from headway.traces.analysis import Analysis, GilSummary
from headway.traces.analysis.missing_words import bound
from headway.traces.analysis.words import duration, number, share_of_life, switch_interval
from headway.traces.model import Process

__all__ = ["command_line", "gil_use", "process_name", "program_name", "trace_lines"]


def process_name(process: Process) -> str:
    """Return the name of a process: its program, else its executable, and its id."""
    return f"{program_name(process)} (pid {process.pid})"


def program_name(process: Process) -> str:
    """Return the name of a process's program, in printable characters."""
    return printable(process.program or process.executable or "?")


def command_line(process: Process) -> str:
    """Return a process's command line, in printable characters; "" if it is not known."""
    return printable(" ".join(process.command))


def trace_lines(analysis: Analysis) -> Iterator[str]:
    """Yield lines on what was recorded, on the window if it is not the whole trace, and on the waiting that may be missing."""
    process = analysis.process
    build = " free-threaded" if process.free_threaded else ""
    yield (
        f"CPython {printable(process.python)}{build}, {duration(analysis.wall_ns)}, {number(analysis.events, 'event')}, "
        + ", ".join(_users(analysis))
    )
    later_ns = analysis.trace_start_ns - analysis.origin_ns
    began_ns = later_ns - analysis.cut_ns
    if began_ns > 0:
        yield f"began {duration(began_ns)} after the first process of the launch, from whose start all times here count"
    if analysis.cut_ns and later_ns:
        whence = "" if began_ns > 0 else "; all times here count from the start"
        yield f"its events before {duration(later_ns)} were overwritten by newer ones{whence}"
    if analysis.windowed:
        since_ns, until_ns = (time - analysis.origin_ns for time in (analysis.start_ns, analysis.end_ns))
        yield f"only from {duration(since_ns)} to {duration(until_ns)} after the start"
    if told := bound(analysis.missing, analysis.wall_ns):
        yield told


def _users(analysis: Analysis) -> Iterator[str]:
    process = analysis.process
    if analysis.gils:
        yield f"{number(len(analysis.threads), 'thread')} at {number(len(analysis.gils), 'GIL')}"
    elif process.gil_enabled:
        yield "no use of the GIL" if analysis.events or analysis.loss.whole else "no event could be read"
    else:
        yield f"{number(analysis.contention.threads, 'thread')} that waited, no GIL used"
        return
    yield f"switch interval {switch_interval(analysis.interval_ns)}"
    if process.policy:
        ended_ns = process.policy_ended_ns
        until = (
            "" if ended_ns is None else f" until {duration(analysis.trace_start_ns - analysis.origin_ns + ended_ns)}"
        )
        options = printable(str(process.policy_options or ""))
        yield f"under the policy {printable(process.policy)}{f' ({options})' if options else ''}{until}"


def gil_use(analysis: Analysis, gil: GilSummary) -> str:
    """Return the share of the time in which a GIL was held, and the total time for which threads waited for it."""
    held = share_of_life(gil.holds.total_ns, gil.wall_ns, analysis.wall_ns)
    return f"held {held}, waited for {duration(gil.waits.total_ns)}"
