"""The result of an analysis: plain values, for reports to show and programs to read."""

from dataclasses import dataclass
from typing import Literal, final

from headway.traces.analysis.asleep import Asleep
from headway.traces.analysis.blame import Blame
from headway.traces.analysis.contention import Contention, ParkPlace
from headway.traces.analysis.convoys import Convoy
from headway.traces.analysis.elsewhere import Elsewhere
from headway.traces.analysis.full_pools import FullPool
from headway.traces.analysis.handed import Handed
from headway.traces.analysis.hotspots import Behind, LongHold, Place
from headway.traces.analysis.missing import Missing
from headway.traces.analysis.stops import Stopper
from headway.traces.analysis.threads import Distribution, ThreadSummary
from headway.traces.analysis.turns import Turns
from headway.traces.analysis.unread import UnreadLine
from headway.traces.analysis.unseen import LateLoop, UnseenWait
from headway.traces.analysis.utilisation import Timeline
from headway.traces.frames import Unreleased
from headway.traces.model import Frame, Loss, Process, Silent

__all__ = ["Analysis", "Finding", "GilSummary", "Weight", "WhatIf"]

Weight = Literal["problem", "fine", "note"]
"""The weight of a finding: a problem with a cost; a statement that all is well; or a note for reading the rest."""


@final
@dataclass(frozen=True)
class Finding:
    """One fact that the trace shows.

    Attributes:
        kind: The rule that found it, in one word.
        weight: Whether it is a problem.
        fact: The measurement, with numbers.
        cause: The reason; "" if the trace does not tell it.
        advice: The change to try; "" if there is no evidence for one.
        cost_ns: The time that threads waited because of it; 0 if the finding is not about waiting.
        gil: The index of the GIL that it is about; None: all, or none.
        threads: Labels of the threads, or roles of the pools, that it is about.
        frame: The line that it is about.
        predicted: Predictions, in words, of the effect of some of the advice on this program; () if there are none.
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
    """The change that would help a program most, according to a prediction.

    Attributes:
        change: The change in the words of `headway whatif`.
        gives: The effect of the change, in words.
        worth: The worth of the change; the higher, the better.
        costs: The source of the machine's costs.
        line: All of it in one line, with the way to see more.
    """

    change: str
    gives: str
    worth: float
    costs: str
    line: str


@final
@dataclass(frozen=True, eq=False)
class GilSummary:
    """The holds, waits and convoys of one GIL.

    Attributes:
        index: The index in `Trace.gils`.
        main: It is the main interpreter's GIL.
        name: The text that names it: `the GIL`, or if there are several, `the main GIL`, `GIL 1`.
        threads: The number of threads that held it or waited for it.
        by_thread: The holds and waits of each of these threads at this GIL, longest first.
        by_role: The same with each pool of threads as one; () if there is no pool.
        wall_ns: How long it existed within the window.
        interval_ns: Its switch interval, the one that was in force for the longest time.
        holds: The lengths of its holds; their total is how long it was in use.
        waits: The lengths of the waits for it.
        forced: The number of holds that were preempted.
        off_core_ns: How long its holders did not run on a core, in the holds for which that is known.
        handovers: The number of waits that ended with an acquire.
        handover_ns: How long it stood free before these acquires while the thread that acquired it next already waited.
        handed: The holds that ended with these hand-overs.
        nobody_ns: The sum of the times for which threads waited while no thread held it.
        blame: Who waited while whom held.
        blame_by_role: The same with each pool as one, by the indices of `by_role`; None if there is no pool.
        timeline: Its use over time; None if no time passed.
        timeline_by_role: The same with each pool as one, by the indices of `by_role`; None if there is no pool.
        convoys: Its convoys, the costliest first.
        asleep: The line at which threads slept with it; None if there is none.
    """

    index: int
    main: bool
    name: str
    threads: int
    by_thread: tuple[ThreadSummary, ...]
    by_role: tuple[ThreadSummary, ...]
    wall_ns: int
    interval_ns: int
    holds: Distribution
    waits: Distribution
    forced: int
    off_core_ns: int
    handovers: int
    handover_ns: int
    handed: Handed
    nobody_ns: int
    blame: Blame
    blame_by_role: Blame | None
    timeline: Timeline | None
    timeline_by_role: Timeline | None
    convoys: tuple[Convoy, ...]
    asleep: Asleep | None


@final
@dataclass(frozen=True, eq=False)
class Analysis:
    """The analysis of one process's trace, in a window of time.

    Attributes:
        process: The process that was traced.
        origin_ns: The time from which reports count: the begin of tracing in the first process of the launch.
        trace_start_ns: The begin of the trace. The window and the timelines are in the trace's own times.
        cut_ns: How long tracing had gone on by then: earlier events were overwritten. 0: the trace has its begin.
        trace_end_ns: The end of tracing.
        start_ns: The begin of the window.
        end_ns: The end of the window.
        events: The number of events in the window.
        interval_ns: The main GIL's switch interval, the one that was in force for the longest time.
        labels: The label of each thread, by index.
        threads: The threads that held or waited, longest first.
        roles: The same with each pool of threads as one; () if there is no pool.
        gils: The GILs that were held or waited for, the busiest first.
        held: The places where the GIL was held, most time first.
        waited: The places where threads waited for it, most time first.
        longest: The longest single holds.
        behind: The functions for which threads waited most: one by what holds ran, one by where holds ended.
        contention: Waits for locks, on a free-threaded build.
        turns: The lines at which threads take turns without the GIL, most blocked time first.
        lock_waits: With a GIL: the lines that take a lock of the program, and how long threads were blocked there.
        unseen_waits: With a GIL: the lines at which threads spent much of their time, and what they awaited is not known.
        unread_lines: With a GIL: the lines at which threads were, and that may take a lock, because they cannot be read.
        late_loops: With a GIL: the event loops that made no progress for too long.
        silent: With a GIL: the threads that neither held nor wanted it in all of the trace.
        standstill: Those of them that wait for a lock which another one has, with the index of that one.
        unreleased: The threads that kept a sub-interpreter's own GIL since before `headway attach`, and have no event of it.
        full_pools: The pools of which each thread waits for a result when the recording ends.
        loss: The data that is missing from the trace.
        missing: The most waiting that is missing from the trace, in the window.
        unpaired: The number of events whose other end was lost.
        by_imports: Imports of extension modules held a GIL that is not among `gils`, because it was off otherwise.
        stoppers: On a free-threaded build: the lines that stopped the world, those with most stopped time first.
        watched: The recording is one that `headway watch` wrote: it has the system's account of threads, and collections.
        elsewhere: With a GIL: the lines at which threads were longest without it, idle or not, most time first.
        findings: Problems, the costliest first, but the one with the guilty function before those without a line, unless what
            lacks is cores; then the rest. A note that costs far more than each problem is before them.
        what_if: The change that would help most; None if there is no prediction. An analysis itself predicts nothing.
    """

    process: Process
    origin_ns: int
    trace_start_ns: int
    cut_ns: int
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
    turns: tuple[Turns, ...]
    lock_waits: tuple[ParkPlace, ...]
    unseen_waits: tuple[UnseenWait, ...]
    unread_lines: tuple[UnreadLine, ...]
    late_loops: tuple[LateLoop, ...]
    silent: tuple[Silent, ...]
    standstill: dict[int, int]
    unreleased: tuple[Unreleased, ...]
    full_pools: tuple[FullPool, ...]
    loss: Loss
    missing: Missing
    unpaired: int
    by_imports: bool = False
    stoppers: tuple[Stopper, ...] = ()
    watched: bool = False
    elsewhere: tuple[Elsewhere, ...] = ()
    findings: tuple[Finding, ...] = ()
    what_if: WhatIf | None = None

    @property
    def wall_ns(self) -> int:
        """The length of the window."""
        return self.end_ns - self.start_ns

    @property
    def windowed(self) -> bool:
        """True if the window is not the whole trace."""
        return (self.start_ns, self.end_ns) != (self.trace_start_ns, self.trace_end_ns)

    @property
    def wait_ns(self) -> int:
        """The sum of the times for which threads waited for a GIL."""
        return sum(gil.waits.total_ns for gil in self.gils)
