"""Tells of the time for which threads held a GIL without a core: what Python code needs besides the GIL."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headway.traces.analysis.words import duration, number, share

if TYPE_CHECKING:
    from headway.traces.analysis.result import Analysis, GilSummary

__all__ = ["LACKING", "MORE_CORES", "lacks_cores", "needed_cores", "without_cores"]

LACKING = 0.2
"""A share of holds, or of the wall time: threads that lack a core for longer would gain most from one."""
MORE_CORES = "give the process more cores, or check what else runs on them (`headway doctor`, a container's CPU quota)"
"""The advice for threads that have no core when they need one."""
_LEAST_NS = 100_000_000
"""A program's start reads modules from the disk for a moment, which is no lack of cores."""


def lacks_cores(gil: "GilSummary") -> bool:
    """Tell whether the holders of a GIL had no core for much of their holds. Then no other remedy has its full effect."""
    return gil.off_core_ns >= LACKING * gil.holds.total_ns > 0


def needed_cores(analysis: "Analysis", gil: "GilSummary") -> bool:
    """Tell whether the holders of a GIL had no core for much of the whole time, whether or not threads waited for the GIL."""
    return gil.off_core_ns >= max(_LEAST_NS, LACKING * analysis.wall_ns)


def without_cores(analyses: "Sequence[Analysis]") -> str:
    """Return one line on the cores that the processes of a launch wanted and did not get; "" if they had most of them."""
    gils = [(one, gil) for one in analyses for gil in one.gils]
    lacking = {id(one) for one, gil in gils if needed_cores(one, gil)}
    held_ns = sum(gil.holds.total_ns for _, gil in gils)
    off_core_ns = sum(gil.off_core_ns for _, gil in gils)
    if len(analyses) < 2 or not lacking or off_core_ns < LACKING * held_ns:
        return ""
    cores = max(one.process.core_count for one in analyses)
    had = f" ({number(cores, 'core')})" if cores else ""
    return (
        f"{len(lacking):,} of {len(analyses):,} processes needed cores that they did not get{had}: together they held their GILs"
        f" for {duration(held_ns)}, and for {duration(off_core_ns)} of that, {share(off_core_ns, held_ns)}, without a core"
    )
