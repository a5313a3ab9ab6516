"""What a page is made of: the one declaration of its data, for Python that writes it and for TypeScript that reads it.

`tools/web_types.py` makes web/src/schema.ts from the dataclasses here, and a test holds the two against each other. Names
are the same on both sides. Texts are finished texts, the same as the terminal shows; numbers are for drawing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, final

from headway.lab.kept.results import Stretch
from headway.report.figures import Table, Unit
from headway.report.lab.claimed import Claimed, Counted, Outcome
from headway.report.lab.comparison import Compared, Ratio

__all__ = [
    "Cell",
    "Claimed",
    "Column",
    "Compared",
    "Counted",
    "Curve",
    "CurveLine",
    "CurvePoint",
    "Finding",
    "FlameFrame",
    "Gil",
    "Interpreter",
    "LabExperiment",
    "LabPage",
    "Lane",
    "Mark",
    "Measure",
    "Outcome",
    "Page",
    "Plot",
    "Ratio",
    "Section",
    "SimulationPage",
    "Stretch",
    "Table",
    "TraceFinding",
    "TracePage",
    "TraceView",
]


@final
@dataclass(frozen=True)
class Interpreter:
    """An interpreter that a run measured."""

    id: str
    name: str
    version: str
    free_threaded: bool


@final
@dataclass(frozen=True)
class Finding:
    """What a run tells, with its evidence and the advice that follows."""

    experiment: str
    claim: str
    text: str
    evidence: str
    advice: str


@final
@dataclass(frozen=True)
class Measure:
    """A metric of a cell.

    Attributes:
        values: One per launch.
        level: Geometric mean over launches; None where a value is 0 or below.
        low, high: Its interval; None where there is none.
        shown: The level as tables show it.
    """

    values: tuple[float, ...]
    level: float | None
    low: float | None
    high: float | None
    shown: str


@final
@dataclass(frozen=True)
class Cell:
    """One cell of an experiment, for plots.

    Attributes:
        line: Which line of a plot over `x` it is a point of.
        interpreter: The id of an `Interpreter`, or "native".
        x: The value of the parameter that the experiment sweeps; None where it sweeps none.
        y: That of the second one.
        metrics: Those that some plot shows.
        cores: Busy share by core during the timed part.
        course: How many cores were busy in each stretch of the launches; () where that is not known.
        samples: All samples of the experiment's metric, for a histogram; () where there is none.
    """

    series: str
    setting: str
    model: str
    line: str
    placement: str
    interpreter: str
    x: float | None
    y: float | None
    metrics: Mapping[str, Measure]
    cores: Mapping[str, float]
    course: tuple[Stretch, ...]
    samples: tuple[float, ...]


@final
@dataclass(frozen=True)
class Plot:
    """A way to draw some of an experiment's cells.

    Attributes:
        kind: "dots": launches by cell; "histogram": samples by cell; "lines": over a swept parameter; "heat": over two; "percentiles": latency by
            percentile; "cores": busy share of each core.
        title: What it shows.
        metrics: What of each cell; for "percentiles" from the lowest to the highest.
        unit: Of the metrics.
        better: "less", "more", or "" where neither is.
        x: What `Cell.x` is; "" where it is not used.
        y: What `Cell.y` is.
        x_unit, y_unit: Their units.
        ideal: A line of "lines" for work that is divided without loss: "divided" (a time falls with x up to the number
            of cores), "multiplied" (a rate grows), or "".
    """

    kind: Literal["dots", "histogram", "lines", "heat", "percentiles", "cores"]
    title: str
    metrics: tuple[str, ...]
    unit: Unit
    better: Literal["less", "more", ""]
    x: str
    y: str
    x_unit: Unit
    y_unit: Unit
    ideal: Literal["divided", "multiplied", ""]


@final
@dataclass(frozen=True)
class LabExperiment:
    """One experiment of a run: what it asks, what was measured, what was published, and its claims."""

    name: str
    question: str
    method: str
    included: str
    tables: tuple[Table, ...]
    notes: tuple[str, ...]
    published: tuple[Table, ...]
    claims: tuple[Claimed, ...]
    baseline: str
    plots: tuple[Plot, ...]
    cells: tuple[Cell, ...]


@final
@dataclass(frozen=True)
class LabPage:
    """A run of the lab.

    Attributes:
        cores: How many the machine has.
        compared: The run beside an earlier one; None where it stands alone.
    """

    kind: Literal["lab"]
    title: str
    version: str
    heading: tuple[str, ...]
    legend: tuple[str, ...]
    warnings: tuple[str, ...]
    cores: int
    interpreters: tuple[Interpreter, ...]
    counts: Counted
    findings: tuple[Finding, ...]
    experiments: tuple[LabExperiment, ...]
    costs: Table | None
    sources: tuple[tuple[str, str], ...]
    failures: tuple[str, ...]
    left_out: tuple[str, ...]
    compared: Compared | None


@final
@dataclass(frozen=True)
class Lane:
    """A thread at one GIL, or at the locks of a build without one.

    Attributes:
        label: The thread, as reports call it.
        gil: Index in `TraceView.gils`; -1 where its waits are for locks.
        start_ns: When the thread was first seen, from the start of the view.
        end_ns: When it was last seen.
        first_hold, holds: Which rows of the view's columns of holds are its own: contiguous, by time, never overlapping.
        first_wait, waits: The same of waits.
        summary: How long it held and waited, in words.
    """

    label: str
    gil: int
    start_ns: int
    end_ns: int
    first_hold: int
    holds: int
    first_wait: int
    waits: int
    summary: str


@final
@dataclass(frozen=True)
class Gil:
    """One GIL, with how it was used in words."""

    name: str
    summary: str


@final
@dataclass(frozen=True)
class TraceFinding:
    """One thing that a trace tells: a problem, that all is well, or something to know."""

    weight: Literal["problem", "fine", "note"]
    fact: str
    cause: str
    advice: str
    predicted: tuple[str, ...]


@final
@dataclass(frozen=True)
class Mark:
    """Something to look at: one of the longest holds, or of the waits in a convoy.

    Attributes:
        lane: Index in `TraceView.lanes`.
        at_ns, until_ns: From the start of the view.
    """

    kind: Literal["hold", "convoy"]
    text: str
    lane: int
    at_ns: int
    until_ns: int


@final
@dataclass(frozen=True)
class Section:
    """A heading with tables."""

    title: str
    tables: tuple[Table, ...]


@final
@dataclass(frozen=True)
class FlameFrame:
    """A distinct frame: its function, its file and line in short, and the file's whole path."""

    function: str
    place: str
    file: str


@final
@dataclass(frozen=True)
class Column:
    """A column of unsigned numbers in a block.

    Attributes:
        name: "hold_gap", "hold_length", "hold_stack", "hold_forced" (rows by lane, then by time; a gap is counted from
            the end before it in its lane), "wait_gap", "wait_length", "wait_stack"; "stack_parent", "stack_frame",
            "stack_held", "stack_waited" (by stack; 0 is the unknown one); "bin_held", "bin_waited" (by lane, then by
            time: the share of each bin, in 65,535ths). Times are in nanoseconds.
        rows: How many numbers.
        width: Bytes of each: 1, 2, 4 or 8. The block has first the lowest byte of all rows, then the next, and so on.
    """

    name: str
    rows: int
    width: int


@final
@dataclass(frozen=True)
class TraceView:
    """One process of a trace.

    Attributes:
        title: The process.
        label: What to call its launch beside others: "before", say; "" alone.
        lines: What more to say of it.
        begin_ns: When the window begins, from the start of the trace; all other times are from there.
        span_ns: How long it is.
        bins: Stretches of equal length of which the columns tell the shares held and waited; 0: every hold and wait is
            there. Else only the longest are.
        block: The name of the block that has its columns.
        columns: What is in the block, in order.
        frames: By index; 0 is the unknown one.
        what_if: What would help most, in a line; "" where that is not known.
    """

    title: str
    label: str
    lines: tuple[str, ...]
    begin_ns: int
    span_ns: int
    bins: int
    block: str
    columns: tuple[Column, ...]
    gils: tuple[Gil, ...]
    lanes: tuple[Lane, ...]
    marks: tuple[Mark, ...]
    findings: tuple[TraceFinding, ...]
    sections: tuple[Section, ...]
    frames: tuple[FlameFrame, ...]
    what_if: str


@final
@dataclass(frozen=True)
class TracePage:
    """The processes of a trace, or of two side by side."""

    kind: Literal["trace"]
    title: str
    version: str
    views: tuple[TraceView, ...]


@final
@dataclass(frozen=True)
class CurvePoint:
    """A point of a curve.

    Attributes:
        x: Index in `Curve.x_values`.
        value: The median over the seeds; None where too few tell.
        low, high: The range of the seeds.
        shown: All of it as tables show it.
    """

    x: int
    value: float | None
    low: float | None
    high: float | None
    shown: str


@final
@dataclass(frozen=True)
class CurveLine:
    """One line of a curve: the points with one combination of the other parameters."""

    name: str
    points: tuple[CurvePoint, ...]


@final
@dataclass(frozen=True)
class Curve:
    """A figure over a swept parameter.

    Attributes:
        title: What it is.
        unit: Of its values.
        x: The parameter.
        x_values: Its values, in their order.
        x_numbers: The same as numbers; () where they are none.
    """

    title: str
    unit: Unit
    x: str
    x_values: tuple[str, ...]
    x_numbers: tuple[float, ...]
    lines: tuple[CurveLine, ...]


@final
@dataclass(frozen=True)
class SimulationPage:
    """What was simulated: a scenario, a sweep, or a traced program with a change.

    Attributes:
        lines: What it is of.
        notes: What it rests on, and why it may be wrong; (its kind, the words).
        curves: Of a sweep.
        views: Timelines of runs that were simulated, or of a trace above the run that is predicted.
    """

    kind: Literal["simulation"]
    title: str
    version: str
    lines: tuple[str, ...]
    sections: tuple[Section, ...]
    notes: tuple[tuple[Literal["rests on", "outside the model", "note"], str], ...]
    curves: tuple[Curve, ...]
    views: tuple[TraceView, ...]


Page = LabPage | TracePage | SimulationPage
