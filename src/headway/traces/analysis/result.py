"""What an analysis gives: plain values, for reports to show and programs to read."""

from dataclasses import dataclass
from typing import Literal, final

from headway.traces.analysis.blame import Blame
from headway.traces.analysis.contention import Contention
from headway.traces.analysis.convoys import Convoy
from headway.traces.analysis.hotspots import Behind, LongHold, Place
from headway.traces.analysis.threads import Distribution, ThreadSummary
from headway.traces.analysis.utilisation import Timeline
from headway.traces.model import Frame, Loss, Process

__all__ = ["Analysis", "Finding", "GilSummary", "Weight", "WhatIf"]

Weight = Literal["problem", "fine", "note"]
"""A finding is a problem with a cost; that all is well; or something to know when reading the rest."""


@final
@dataclass(frozen=True)
class Finding:
    """One thing that the trace tells.

    Attributes:
        kind: Which rule found it, in one word.
        weight: If it is a problem.
        fact: What was measured, with numbers.
        cause: Why; "" where the trace does not tell.
        advice: What to try; "" where the evidence does not carry any.
        cost_ns: What it cost, in time that threads waited; 0 where that is not its point.
        gil: Index of the GIL that it is about; None: all, or none.
        threads: Labels of the threads, or roles of the pools, that it is about.
        frame: The line that it is about.
        predicted: What some of the advice would give this program, in words; () where nobody has predicted that.
    """

    kind: str
    weight: Weight
    fact: str
    cause: str = ""
    advice: str = ""
    cost_ns: int = 0
    gil: int | None = None
    threads: tuple[str, ...] = ()
    frame: Frame | None = None
    predicted: tuple[str, ...] = ()


@final
@dataclass(frozen=True)
class WhatIf:
    """The change that would help a program most, as somebody has predicted it.

    Attributes:
        change: In the words of `headway whatif`.
        gives: What it would do, in words.
        worth: The higher, the better.
        costs: Where the machine's costs are from.
        line: All of it in a line, with how to see more.
    """

    change: str
    gives: str
    worth: float
    costs: str
    line: str


@final
@dataclass(frozen=True, eq=False)
class GilSummary:
    """One GIL.

    Attributes:
        index: In `Trace.gils`.
        main: It is the main interpreter's.
        name: What to call it: `the GIL`, or where there are several `the main GIL`, `GIL 1`.
        threads: How many threads held it or waited for it.
        wall_ns: How long it was there, within the window.
        holds: The times that it was held; the total is how long it was in use.
        waits: The times that threads waited for it.
        forced: Holds that ended because another thread had asked.
        off_core_ns: How long holders were not running on a core, of the holds of which that is known.
        handovers: Waits that ended in the GIL.
        handover_ns: How long it stood free before these, while the thread that then got it waited already.
        nobody_ns: How long threads waited while nobody held it, all their times together.
        blame: Who waited while whom held.
        timeline: Its use over time; None where no time passed.
        convoys: Those that cost most first.
    """

    index: int
    main: bool
    name: str
    threads: int
    wall_ns: int
    holds: Distribution
    waits: Distribution
    forced: int
    off_core_ns: int
    handovers: int
    handover_ns: int
    nobody_ns: int
    blame: Blame
    timeline: Timeline | None
    convoys: tuple[Convoy, ...]


@final
@dataclass(frozen=True, eq=False)
class Analysis:
    """What one process's trace tells, in a window of time.

    Attributes:
        process: Who was traced.
        trace_start_ns: When tracing began: window and timelines are in the trace's own times.
        trace_end_ns: When it ended.
        start_ns: When the window begins.
        end_ns: When it ends.
        events: How many the trace has, also outside the window.
        interval_ns: The switch interval that was in force longest.
        labels: What to call each thread, by index.
        threads: Those that held or waited, longest first.
        roles: The same with the threads of a pool as one; () where there is no pool.
        gils: Those that were held or waited for, the busiest first.
        held: Where the GIL was held, most time first.
        waited: Where threads waited for it, most time first.
        longest: The longest single holds.
        behind: The functions that threads waited for most: of what holds ran, and of where they ended.
        contention: Waits for locks, on a build without a GIL.
        loss: What the trace does not have.
        unpaired: Events whose other end was lost.
        findings: Problems, the costliest first; then the rest.
        what_if: What would help most; None where nobody has predicted that. An analysis itself predicts nothing.
    """

    process: Process
    trace_start_ns: int
    trace_end_ns: int
    start_ns: int
    end_ns: int
    events: int
    interval_ns: int
    labels: tuple[str, ...]
    threads: tuple[ThreadSummary, ...]
    roles: tuple[ThreadSummary, ...]
    gils: tuple[GilSummary, ...]
    held: tuple[Place, ...]
    waited: tuple[Place, ...]
    longest: tuple[LongHold, ...]
    behind: tuple[Behind, ...]
    contention: Contention
    loss: Loss
    unpaired: int
    findings: tuple[Finding, ...] = ()
    what_if: WhatIf | None = None

    @property
    def wall_ns(self) -> int:
        """How long the window is."""
        return self.end_ns - self.start_ns

    @property
    def windowed(self) -> bool:
        """The window is not the whole trace."""
        return (self.start_ns, self.end_ns) != (self.trace_start_ns, self.trace_end_ns)

    @property
    def wait_ns(self) -> int:
        """How long threads waited for a GIL, all their times together."""
        return sum(gil.waits.total_ns for gil in self.gils)
