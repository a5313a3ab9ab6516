"""The vocabulary of an experiment: variants, cells, claims. Declarations only; nothing here measures.

An experiment declares *variants* (a workload through a model with parameters) for a size; the planner multiplies them
by interpreters and placements into *cells*. A claim compares cells of one experiment by a ratio, or looks at a count.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, final

from headway.host.interpreters import Interpreter
from headway.host.machine import Machine

__all__ = [
    "ONE_WORKER",
    "PLACEMENTS",
    "SIZES",
    "Cell",
    "Claim",
    "Comparison",
    "Count",
    "Declared",
    "Errors",
    "Experiment",
    "Level",
    "Order",
    "Placement",
    "Published",
    "Relation",
    "Size",
    "Variant",
    "above",
    "below",
    "between",
    "both_kinds",
    "ends",
    "newest_with_gil",
    "oldest_and_free_threaded",
    "over_serial",
    "with_a_gil",
]

Size = Literal["quick", "standard", "published"]
SIZES: tuple[Size, ...] = ("quick", "standard", "published")

Placement = Literal["free", "split", "same"]
PLACEMENTS: tuple[Placement, ...] = ("free", "split", "same")

ONE_WORKER = "native"
"""The interpreter id of cells that run no Python in the timed part: the C limits, measured once per run."""


def _always(_interpreter: Interpreter) -> str:
    return ""


def _all_of_them(found: Sequence[Interpreter]) -> Sequence[Interpreter]:
    return found


def with_a_gil(interpreter: Interpreter) -> str:
    """For `Variant.unfit`: only interpreters with a GIL."""
    return "" if interpreter.gil_enabled else "it is about the GIL, which this interpreter has not got"


def both_kinds(found: Sequence[Interpreter]) -> Sequence[Interpreter]:
    """Return the newest interpreter with a GIL and the newest without, of those there are; `found` is in order."""
    with_gil = [one for one in found if not one.free_threaded]
    without = [one for one in found if one.free_threaded]
    return [one for one in found if one in with_gil[-1:] + without[-1:]]


def newest_with_gil(found: Sequence[Interpreter]) -> Sequence[Interpreter]:
    """Return the newest interpreter with a GIL; where all are without, the newest of those."""
    return [one for one in found if not one.free_threaded][-1:] or found[-1:]


def ends(found: Sequence[Interpreter]) -> Sequence[Interpreter]:
    """Return the oldest and the newest interpreter with a GIL, and the newest without, of those there are."""
    chosen = {one.id for one in (*both_kinds(found), *oldest_and_free_threaded(found))}
    return [one for one in found if one.id in chosen]


def oldest_and_free_threaded(found: Sequence[Interpreter]) -> Sequence[Interpreter]:
    """Return the oldest interpreter with a GIL and the newest without, of those there are."""
    with_gil = [one for one in found if not one.free_threaded]
    without = [one for one in found if one.free_threaded]
    return [one for one in found if one in with_gil[:1] + without[-1:]]


@final
@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to run an experiment's work, before it meets an interpreter.

    Attributes:
        series: What is compared: a model, mostly. A column of tables.
        setting: What is the same for the variants that are compared, in parts: a size, a file system. A row of tables; ()
            where the experiment has only one.
        workload: A workload of the agent, or "module:class" found through `paths`.
        model: A model of the agent.
        params: JSON values for the workload.
        samples: Timed repetitions within a launch.
        warmups: Repetitions before those, not kept.
        placements: Where it runs, at each of them unless the user chooses one.
        native: Runs in C, once per run instead of once per interpreter.
        unfit: Says why an interpreter cannot run it, or "". The model's own needs are checked besides.
        paths: Folders to put before the measured interpreter's `sys.path`.
        needs: Libraries that the workload imports, as `lab.beside.environments` knows them: "redis", or "aiofile/uring" for one
            that must offer something.
        server: A server that the lab runs beside it: "http", "redis" or "".
        space: Volume -> bytes of files that it writes there at most ("disk", "tmpfs", "second"; see `lab.beside.volumes`).
        memory_bytes: What it takes of memory, where that is much.
    """

    series: str
    workload: str
    model: str
    params: Mapping[str, Any] = field(default_factory=dict)
    samples: int = 3
    warmups: int = 1
    placements: tuple[Placement, ...] = ("free",)
    native: bool = False
    unfit: Callable[[Interpreter], str] = field(default=_always, compare=False)
    paths: tuple[str, ...] = ()
    setting: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    server: str = ""
    space: Mapping[str, int] = field(default_factory=dict)
    memory_bytes: int = 0

    @property
    def label(self) -> str:
        """Names it within the experiment; claims use it."""
        return ", ".join(self.coordinates)

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The series and the parts of the setting: where the variant stands in tables and plots."""
        return (self.series, *self.setting)


@final
@dataclass(frozen=True)
class Cell:
    """What one launch measures: an experiment's variant on one interpreter at one placement.

    Attributes:
        experiment: Its name.
        variant: The variant.
        placement: Where its parts run.
        interpreter: An interpreter's id, or `ONE_WORKER`.
        group: Cells of one group are compared with each other, so their launches stand next to each other in every block.
        turns: It shares its launches with those of its group that a block has: they take turns in one process.
    """

    experiment: str
    variant: Variant
    placement: Placement
    interpreter: str
    group: str
    turns: bool = False

    @property
    def label(self) -> str:
        """The variant's name within the experiment."""
        return self.variant.label

    @property
    def series(self) -> str:
        """What is compared."""
        return self.variant.series

    @property
    def setting(self) -> str:
        """What is the same for the cells that are compared, in words."""
        return ", ".join(self.variant.setting)

    @property
    def native(self) -> bool:
        """Runs in C, once per run."""
        return self.interpreter == ONE_WORKER

    @property
    def key(self) -> str:
        """The cell's name in a store: unique within a run."""
        return f"{self.experiment}|{self.label}|{self.placement}|{self.interpreter}"


@final
@dataclass(frozen=True)
class Relation:
    """What a ratio should be: above `low` and below `high`."""

    low: float = 0.0
    high: float = math.inf

    def __str__(self) -> str:
        if math.isinf(self.high):
            return f"above {self.low:.3g}"
        return f"{self.low:.3g} to {self.high:.3g}" if self.low > 0 else f"below {self.high:.3g}"

    @property
    def limits(self) -> tuple[float, ...]:
        """The thresholds that there are."""
        return tuple(limit for limit in (self.low, self.high) if 0 < limit < math.inf)

    def contains(self, low: float, high: float) -> bool:
        """Whether the whole interval from `low` to `high` is as it should be."""
        return self.low < low and high < self.high

    def excludes(self, low: float, high: float) -> bool:
        """Whether none of the interval is."""
        return high <= self.low or low >= self.high


def below(limit: float) -> Relation:
    """The ratio is below `limit`."""
    return Relation(high=limit)


def above(limit: float) -> Relation:
    """The ratio is above `limit`."""
    return Relation(low=limit)


def between(low: float, high: float) -> Relation:
    """The ratio lies from `low` to `high`."""
    return Relation(low, high)


@final
@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A ratio of two cells of one interpreter, and what it should be.

    Attributes:
        top, bottom: Labels of the variants.
        relation: What the ratio should be.
        metric: Which metric; "" means the experiment's own.
        placement: Which placement; "" means every one that was measured, each compared by itself.
        bottom_placement: Which placement of the bottom, where the claim compares placements; "" means the same.
        top_interpreter, bottom_interpreter: Short names, where the claim compares interpreters; "" means the same.
    """

    top: str
    bottom: str
    relation: Relation
    metric: str = ""
    placement: str = ""
    bottom_placement: str = ""
    top_interpreter: str = ""
    bottom_interpreter: str = ""


def over_serial(series: str, setting: str, relation: Relation) -> Comparison:
    """Return the comparison of a series with the series "serial" in the same setting."""
    return Comparison(top=f"{series}, {setting}", bottom=f"serial, {setting}", relation=relation)


@final
@dataclass(frozen=True, kw_only=True)
class Level:
    """What a metric of one cell should be by itself, where the metric is a ratio already: a share of a bound, say.

    Attributes:
        label: The variant.
        relation: What the level should be.
        metric: Which metric.
        placement: Which placement; "" means every one that was measured, each by itself.
    """

    label: str
    relation: Relation
    metric: str
    placement: str = ""


@final
@dataclass(frozen=True, kw_only=True)
class Count:
    """A sum over all samples of some variants on one interpreter, and whether it should be nought.

    Attributes:
        labels: The variants.
        metric: The metric to add up.
        expect: "none" (0 in every sample) or "some" (more than 0 in any).
        less: Taken off every sample first, so that `expect` reads against it.
    """

    labels: tuple[str, ...]
    metric: str
    expect: Literal["none", "some"]
    less: float = 0


@final
@dataclass(frozen=True, kw_only=True)
class Errors:
    """The median, over the predicted cells of an interpreter, of what a prediction is off by, as a factor of 1 or more.

    Attributes:
        metric: Of which metric.
        relation: What the factor should be.
        placement: At which placement; "" means all that were measured, together.
        least: Launches in which fewer requests were answered tell nothing of the metric.
        labels: The variants; () means all that are predicted.
    """

    metric: str
    relation: Relation
    placement: str = ""
    least: int = 0
    labels: tuple[str, ...] = ()


@final
@dataclass(frozen=True, kw_only=True)
class Order:
    """Whether predictions put the series of each setting in the order in which measurement puts them.

    Attributes:
        metric: By which metric.
        share: So much of the pairs that measurement tells apart should be in the right order.
        labels: The variants; () means all that are predicted.
    """

    metric: str
    share: float
    labels: tuple[str, ...] = ()


@final
@dataclass(frozen=True)
class Published:
    """A ratio of two published values: of `source` in published.toml, `top` over `bottom`.

    Attributes:
        source: Which result.
        top, bottom: Keys of its values; without `bottom` the value of `top` is a ratio itself. "0.005/cpu_1" names a
            value of a table: what the row begins with, then the key.
        setting: Words that the result's setting contains, where one source has several results.
        bottom_setting: The same for `bottom`, where that is of another result.
        bottom_source: The source of `bottom`, where that is another.
        scale: Multiplies the ratio: "requests/s at 5 ms" times 0.005 s is a share of the bound.
    """

    source: str
    top: str
    bottom: str = ""
    setting: str = ""
    bottom_setting: str = ""
    bottom_source: str = ""
    scale: float = 1.0


@final
@dataclass(frozen=True, kw_only=True)
class Claim:
    """What an author said, as something the lab can hold against its own figures.

    Attributes:
        id: Unique, "experiment/words".
        text: The claim in one line.
        evidence: Comparisons or counts for a machine; all must hold.
        source: Who says so: keys of published.toml, or a document.
        published: The author's figures as ratios, beside ours.
        says: The finding in plain words where the claim is supported, for the end of a report; "" where it is no news.
            "{ratio}" stands for the deciding figure with its interval, "{inverse}" for its inverse.
        denies: The same where it is refuted.
        advice: What to do about it, given only where the claim is supported.
        where: Which interpreters it speaks of.
        scope: "each" interpreter by itself; "any": one interpreter that shows it is enough; "native": the C limits;
            "pair": the comparisons name their interpreters.
        why: The mechanism, one sentence, for the reader of a verdict.
    """

    id: str
    text: str
    evidence: Callable[[Machine], Sequence[Comparison | Count | Level | Errors | Order]]
    source: str
    published: tuple[Published, ...] = ()
    says: str = ""
    denies: str = ""
    advice: str = ""
    where: Literal["gil", "free-threaded", "all"] = "all"
    scope: Literal["each", "any", "native", "pair"] = "each"
    why: str = ""


@final
@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One question, how it is answered, and what was said about it.

    Attributes:
        name: As in published.toml and on the command line.
        question: In one sentence.
        method: What is run and timed, for `--explain`.
        included: What is in the figure and what is shown apart; stands under every table.
        metric: The metric that tables and claims are about.
        unit: "s" (a time, less is better), "per_s" (a rate, more is better), or the metric's own.
        baseline: The series that the table's ratios refer to, within a setting.
        variants: The variants for a size.
        claims: What was said.
        sources: Keys of published.toml.
        compares: What its ratios compare, and so what runs next to each other: "variants" of one interpreter, or
            "interpreters" on one variant.
        shows: What its tables have: "ratios" to the baseline, "levels" of the metric itself, or "counts": the mean of a count by
            variant and interpreter.
        out_of: For counts: how many there could be, by a variant's parameters; None where that is not told.
        parts: Metrics that the experiment's own is made of, shown as ratios beside it where interpreters are compared.
        besides: Further metrics, each with its words, that get a table of levels of their own; several metrics in one
            string, with spaces between, stand together in its cells.
        sweep: The parameter whose growth may turn the order of the series ("size_bytes"); the report then says where it
            turns. "" where there is none.
        divides: The parameter over which a fixed amount of work is divided, or that a rate grows with ("threads"): plots
            then show what would be ideal. "" where there is none.
        turns: Its variants need no process of their own: those of a group take turns within a launch, forth and back, so that
            what slows the machine for a moment drops out of each launch's ratios. Not on free-threaded interpreters, where
            threads that were once started change what code without threads takes, and not for variants with a server,
            files, libraries or C.
        quick_on: Which of the interpreters found a run of quick size takes, unless the user names some.
        said: What was made of it, in sentences, where a run says so itself.
        anchors: Labels of variants that are measured first. Of the others each cell's figures are then predicted from those
            and from what the machine's operations cost, and stored, before its first launch; () where nothing is predicted.
    """

    name: str
    question: str
    method: str
    included: str
    baseline: str
    variants: Callable[[Size], Sequence[Variant]]
    claims: tuple[Claim, ...] = ()
    sources: tuple[str, ...] = ()
    metric: str = "work_s"
    unit: str = "s"
    compares: Literal["variants", "interpreters"] = "variants"
    shows: Literal["ratios", "levels", "counts"] = "ratios"
    out_of: Callable[[Mapping[str, Any]], float] | None = None
    parts: tuple[str, ...] = ()
    besides: tuple[tuple[str, str], ...] = ()
    sweep: str = ""
    divides: str = ""
    turns: bool = False
    quick_on: Callable[[Sequence[Interpreter]], Sequence[Interpreter]] = _all_of_them
    anchors: tuple[str, ...] = ()
    said: tuple[str, ...] = ()


@final
@dataclass(frozen=True, kw_only=True)
class Declared:
    """An experiment that a run declares itself, as a file of benchmarks; its attributes are those of an `Experiment`."""

    name: str
    question: str
    method: str
    included: str
    metric: str
    baseline: str
    besides: tuple[tuple[str, str], ...] = ()
    said: tuple[str, ...] = ()
