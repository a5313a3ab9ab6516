"""The data of a page: the one declaration for Python, which writes it, and for TypeScript, which reads it.

`tools/web_types.py` makes web/src/schema.ts from the dataclasses here, and a test compares the two. Names are the same
on both sides. Texts are final, the same as on the terminal; numbers are for drawing.
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
    """A finding of a run, with its evidence and the advice that follows."""

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
        values: One value per launch.
        level: The geometric mean over launches; None if a value is 0 or below.
        low, high: Its interval; None if there is none.
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
        line: The name of the line, in a plot over `x`, that the cell is a point of.
        interpreter: The id of an `Interpreter`, or "native".
        x: The value of the parameter that the experiment sweeps; None if it sweeps none.
        y: The value of the second swept parameter; None without one.
        metrics: The metrics that some plot shows.
        cores: The busy share of each core during the timed part.
        course: The number of busy cores in each stretch of the launches; () if that is not known.
        samples: All samples of the experiment's metric, for a histogram; () without one.
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
        kind: "dots": launches by cell; "histogram": samples by cell; "lines": over a swept parameter; "heat": over two;
            "percentiles": latency by percentile; "cores": busy share of each core.
        title: The title of the plot.
        metrics: The metrics that are drawn of each cell; for "percentiles" from the lowest to the highest.
        unit: The metrics' unit.
        better: "less", "more", or "" if neither is better.
        x: The name of the parameter in `Cell.x`; "" if it is not used.
        y: The name of the parameter in `Cell.y`; "" if it is not used.
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
    """One experiment of a run: its question, measured and published tables, and its claims."""

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
        cores: The number of the machine's cores.
        compared: The run beside an earlier one; None without one.
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
    """A thread at one GIL, or at the locks of a build without a GIL.

    Attributes:
        label: The thread's name, as in reports.
        thread: The thread; it has several lanes if it had to do with several GILs.
        gil: The index in `TraceView.gils`; -1 if its waits are for locks.
        start_ns: The time when the thread was first seen, from the start of the view.
        end_ns: The time when it was last seen.
        first_hold, holds: The first row and the number of rows that are its own in the view's columns of holds:
            contiguous, by time, never overlapping.
        first_wait, waits: The same for waits.
        held_ns, waited_ns: The times that it held and waited.
        summary: The same in words.
    """

    label: str
    thread: int
    gil: int
    start_ns: int
    end_ns: int
    first_hold: int
    holds: int
    first_wait: int
    waits: int
    held_ns: int
    waited_ns: int
    summary: str


@final
@dataclass(frozen=True)
class Gil:
    """One GIL, with its use in words."""

    name: str
    summary: str


@final
@dataclass(frozen=True)
class TraceFinding:
    """One finding of a trace: a problem, that all is well, or something to know."""

    weight: Literal["problem", "fine", "note"]
    fact: str
    cause: str
    advice: str
    predicted: tuple[str, ...]


@final
@dataclass(frozen=True)
class Mark:
    """Something to look at: one of the longest holds, of the waits in a convoy, or of the times at a lock of the program.

    Attributes:
        lane: The index in `TraceView.lanes`.
        at_ns, until_ns: Its times, from the start of the view.
    """

    kind: Literal["hold", "convoy", "lock"]
    text: str
    lane: int
    at_ns: int
    until_ns: int


@final
@dataclass(frozen=True)
class Section:
    """A heading with tables.

    Attributes:
        each: A table with a row for each thread, shown on request, if the first table has one for each pool.
    """

    title: str
    tables: tuple[Table, ...]
    each: Table | None = None


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
        name: "hold_gap", "hold_length", "hold_stack", "hold_flags" (rows by lane, then by time; a gap is counted from
            the end before it in its lane; flags are the sum of `End`), "wait_gap", "wait_length", "wait_stack",
            "wait_flags"; "stack_parent", "stack_frame", "stack_held", "stack_waited" (by stack; 0 is the unknown one);
            "bin_held", "bin_waited" (by lane, then by time: the share of each bin, in 65,535ths, at least one if
            it is not 0). Times are in nanoseconds.
        rows: The count of numbers.
        width: Bytes of each number: 1, 2, 4 or 8. The block has first the lowest byte of all rows, then the next, and
            so on.
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
        label: The name of its launch beside others, such as "before"; "" for a single launch.
        launch: A line about all processes of its launch; "" for none.
        lines: Further lines about it.
        begin_ns: The beginning of the window, from the start of the trace; all other times count from there.
        span_ns: The length of the window.
        bins: The number of stretches of equal length for which the columns have the shares held and waited; only the
            longest holds and waits are then in the columns. 0 means that every hold and wait is there.
        block: The name of the block that has its columns.
        columns: The columns in the block, in order.
        frames: Frames by index; 0 is the unknown one.
        what_if: The change that would help most, in a line; "" if that is not known.
    """

    title: str
    label: str
    launch: str
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
        x: The index in `Curve.x_values`.
        value: The median over the seeds; None if too few have a value.
        low, high: The range over the seeds.
        shown: The point's figures as tables show them.
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
        title: The name of the figure.
        unit: The unit of its values.
        x: The parameter.
        x_values: Its values, in their order.
        x_numbers: The same values as numbers; () if they are no numbers.
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
    """A simulation: of a scenario, a sweep, or a traced program with a change.

    Attributes:
        lines: Lines on the subject of the simulation.
        notes: The basis of the simulation, and reasons why it may be wrong; (kind, words).
        curves: The curves of a sweep.
        views: Timelines of simulated runs, or of a trace above the predicted run.
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
