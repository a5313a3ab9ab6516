"""The vocabulary of an experiment: variants, cells and claims. The module only declares; nothing in it measures.

An experiment declares *variants* for a size: a workload, run through a model, with parameters. The planner multiplies
the variants by interpreters and placements into *cells*. A claim compares cells of one experiment by a ratio, or looks
at a level, a count or the quality of predictions.
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
"""The interpreter id of cells in C, which run no Python in the timed part and so belong to no interpreter. A run has
such a cell once, with as many launches as other cells."""


def _always(_interpreter: Interpreter) -> str:
    return ""


def _all_of_them(found: Sequence[Interpreter]) -> Sequence[Interpreter]:
    return found


def with_a_gil(interpreter: Interpreter) -> str:
    """Return why an interpreter cannot run a variant that needs a GIL, or ""; a function for `Variant.unfit`."""
    return "" if interpreter.gil_enabled else "it is about the GIL, which this interpreter does not have"


def both_kinds(found: Sequence[Interpreter]) -> Sequence[Interpreter]:
    """Return the newest interpreter with a GIL and the newest without, where there are any; `found` is in order."""
    with_gil = [one for one in found if not one.free_threaded]
    without = [one for one in found if one.free_threaded]
    return [one for one in found if one in with_gil[-1:] + without[-1:]]


def newest_with_gil(found: Sequence[Interpreter]) -> Sequence[Interpreter]:
    """Return the newest interpreter with a GIL, or the newest of all if none has a GIL."""
    return [one for one in found if not one.free_threaded][-1:] or found[-1:]


def ends(found: Sequence[Interpreter]) -> Sequence[Interpreter]:
    """Return the oldest and the newest interpreter with a GIL, and the newest without, where there are any."""
    chosen = {one.id for one in (*both_kinds(found), *oldest_and_free_threaded(found))}
    return [one for one in found if one.id in chosen]


def oldest_and_free_threaded(found: Sequence[Interpreter]) -> Sequence[Interpreter]:
    """Return the oldest interpreter with a GIL and the newest without, where there are any."""
    with_gil = [one for one in found if not one.free_threaded]
    without = [one for one in found if one.free_threaded]
    return [one for one in found if one in with_gil[:1] + without[-1:]]


@final
@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to run an experiment's work, on no particular interpreter yet.

    Attributes:
        series: The name of the thing that is compared, mostly a model. A series is a column of tables.
        setting: The parts that compared variants have in common, such as a size and a file system. A setting is a row
            of tables; () where the experiment has only one.
        workload: The name of a workload of the agent, or "module:class", which is found through `paths`.
        model: The name of a model of the agent, such as "threads".
        params: JSON values for the workload.
        samples: Timed repetitions within a launch.
        warmups: Repetitions before the timed ones; their times are not kept.
        placements: The placements at which the variant runs. It runs at each of them unless the user chooses one.
        native: The variant runs in C: a run has one cell of it, instead of one for each interpreter.
        unfit: A function that returns why an interpreter cannot run the variant, or "". The model's own requirements
            are checked in addition.
        paths: Folders to put before the measured interpreter's `sys.path`.
        needs: Libraries that the workload imports, as `lab.beside.environments` knows them: "redis", or "aiofile/uring"
            for a library that must offer a certain feature.
        server: The server that the lab runs beside the launch: "http", "redis" or "".
        space: Volume ("disk", "tmpfs", "second"; see `lab.beside.volumes`) -> the most bytes of files that the variant
            writes there.
        memory_bytes: Memory that the variant uses, given where it is much.
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
        """The variant's name within the experiment; claims use it."""
        return ", ".join(self.coordinates)

    @property
    def loads_library(self) -> bool:
        """Whether a launch loads Headway's native library: for a workload in C, the load client or a policy."""
        return self.native or self.workload == "convoy" or bool(self.params.get("policy"))

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The series and the parts of the setting, which place the variant in tables and plots."""
        return (self.series, *self.setting)


@final
@dataclass(frozen=True)
class Cell:
    """A variant of an experiment, on one interpreter, at one placement: what a launch measures.

    Attributes:
        experiment: The experiment's name.
        variant: The variant.
        placement: The name of the placement of the cell's parts on cores.
        interpreter: An interpreter's id, or `ONE_WORKER`.
        group: Cells of one group are compared with each other, so their launches stand next to each other in every
            block.
        turns: The cell shares its launch with the other cells of its group in the same block: they take turns in one
            process.
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
        """The name of the thing that is compared; a column of tables."""
        return self.variant.series

    @property
    def setting(self) -> str:
        """The parts that compared cells have in common, as text."""
        return ", ".join(self.variant.setting)

    @property
    def native(self) -> bool:
        """Whether the cell runs in C, and so belongs to no interpreter."""
        return self.interpreter == ONE_WORKER

    @property
    def key(self) -> str:
        """The cell's name in a store: unique within a run."""
        return f"{self.experiment}|{self.label}|{self.placement}|{self.interpreter}"


@final
@dataclass(frozen=True)
class Relation:
    """The range in which a ratio should lie: above `low` and below `high`."""

    low: float = 0.0
    high: float = math.inf

    def __str__(self) -> str:
        if math.isinf(self.high):
            return f"above {self.low:.3g}"
        return f"{self.low:.3g} to {self.high:.3g}" if self.low > 0 else f"below {self.high:.3g}"

    @property
    def limits(self) -> tuple[float, ...]:
        """The thresholds that are set: those that are neither 0 nor infinite."""
        return tuple(limit for limit in (self.low, self.high) if 0 < limit < math.inf)

    def contains(self, low: float, high: float) -> bool:
        """Whether the whole interval from `low` to `high` lies within the relation."""
        return self.low < low and high < self.high

    def excludes(self, low: float, high: float) -> bool:
        """Whether the whole interval from `low` to `high` lies outside the relation."""
        return high <= self.low or low >= self.high


def below(limit: float) -> Relation:
    """Return the relation "the ratio is below `limit`"."""
    return Relation(high=limit)


def above(limit: float) -> Relation:
    """Return the relation "the ratio is above `limit`"."""
    return Relation(low=limit)


def between(low: float, high: float) -> Relation:
    """Return the relation "the ratio lies between `low` and `high`"."""
    return Relation(low, high)


@final
@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A ratio of two cells of one interpreter, and the range in which it should lie.

    Attributes:
        top, bottom: Labels of the variants.
        relation: The range in which the ratio should lie.
        metric: The metric that is compared; "" means the experiment's own.
        placement: The placement that is compared; "" means every measured one, each compared by itself.
        bottom_placement: The placement of the bottom, where the claim compares placements; "" means the same as the
            top's.
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
    """A metric of one cell that is already a ratio, such as a share of a bound, and the range in which it should lie.

    Attributes:
        label: The variant's label.
        relation: The range in which the level should lie.
        metric: The name of the metric.
        placement: The placement that is judged; "" means every measured one, each by itself.
    """

    label: str
    relation: Relation
    metric: str
    placement: str = ""


@final
@dataclass(frozen=True, kw_only=True)
class Count:
    """A sum over all samples of some variants on one interpreter, and whether it should be zero.

    Attributes:
        labels: The variants' labels.
        metric: The metric to add up.
        expect: "none" (0 in every sample) or "some" (more than 0 in at least one sample).
        less: A number to subtract from every sample before `expect` is applied.
    """

    labels: tuple[str, ...]
    metric: str
    expect: Literal["none", "some"]
    less: float = 0


@final
@dataclass(frozen=True, kw_only=True)
class Errors:
    """The median error of an interpreter's predictions, as a factor of 1 or more, and the range in which it should lie.

    Attributes:
        metric: The predicted metric.
        relation: The range in which the factor should lie.
        placement: The placement that is judged; "" means all measured ones, together.
        least: Launches that answered fewer requests than this are not judged: they say nothing about the metric.
        labels: The variants' labels; () means all that are predicted.
    """

    metric: str
    relation: Relation
    placement: str = ""
    least: int = 0
    labels: tuple[str, ...] = ()


@final
@dataclass(frozen=True, kw_only=True)
class Order:
    """Whether predictions put the series of each setting in the same order as measurement does.

    Attributes:
        metric: The metric that gives the order.
        share: The share, of the pairs that measurement tells apart, that predictions should put in the right order.
        labels: The variants' labels; () means all that are predicted.
    """

    metric: str
    share: float
    labels: tuple[str, ...] = ()


@final
@dataclass(frozen=True)
class Published:
    """A ratio of two published values: of `source` in published.toml, `top` over `bottom`.

    Attributes:
        source: The key of the source.
        top, bottom: Keys of the source's values. If `bottom` is "", the value of `top` is itself a ratio. A key
            "ROW/COLUMN" such as "0.005/cpu_1" names a value of a table; ROW is the first value of the row.
        setting: Words that the result's setting contains, where one source has several results.
        bottom_setting: The same for `bottom`, where it belongs to another result.
        bottom_source: The source of `bottom`, where it is another one.
        scale: A factor for the ratio. For example, "requests/s at 5 ms" times 0.005 s is a share of the bound.
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
    """A published statement, in a form that the lab can test with its own figures.

    Attributes:
        id: A unique id, "experiment/words".
        text: The claim in one line.
        evidence: A function that returns the comparisons, levels, counts, errors or orders for a machine. All must
            hold.
        source: The origin of the claim: keys of published.toml, or a document.
        published: The author's figures as ratios, for display beside the lab's.
        says: The finding in plain words where the claim is supported, for the end of a report; "" where it is no news.
            "{ratio}" stands for the deciding figure with its interval, "{inverse}" for its inverse.
        denies: The finding in plain words where the claim is refuted.
        advice: The recommended action, given only where the claim is supported.
        where: The interpreters that the claim is about.
        scope: How the claim is judged. "each": for each interpreter by itself. "any": one interpreter that shows it is
            enough. "native": for the limits in C. "pair": the comparisons name their interpreters.
        why: The mechanism in one sentence, for the reader of a verdict.
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
    """One question, the way to answer it, and the published claims about the answer.

    Attributes:
        name: The name in published.toml and on the command line.
        question: The question in one sentence.
        method: The work that is run and timed, for `--explain`.
        included: The parts of the work that are in the figure, and those that are shown apart; stands under every
            table.
        metric: The metric that tables and claims are about.
        unit: "s" (a time, less is better), "per_s" (a rate, more is better), or the metric's own.
        baseline: The series that the table's ratios refer to, within a setting.
        variants: A function that returns the variants for a size.
        claims: The claims about the experiment.
        sources: Keys of published.toml.
        compares: The things that ratios compare, and that therefore run next to each other: "variants" of one
            interpreter, or "interpreters" on one variant.
        shows: The content of tables: "ratios" to the baseline, "levels" of the metric itself, or "counts", the mean of
            a count by variant and interpreter.
        out_of: For counts: a function that returns the largest possible count for a variant's parameters. None: the
            table shows no largest count.
        parts: Metrics that the experiment's own is computed from, shown as ratios beside it where interpreters are
            compared.
        besides: Further metrics, each with its words, that get a table of levels of their own. Several metrics in one
            string, with spaces between, stand together in the table's cells.
        sweep: The parameter whose growth may reverse the order of the series ("size_bytes"); the report then says where
            the order reverses. "" where there is none.
        divides: The parameter of the ideal line in plots ("threads"): ideally a time falls with it, or a rate rises
            with it, in proportion. "" where there is none.
        turns: The variants need no process of their own: those of a group take turns within a launch, in alternating
            order. A slow moment of the machine then mostly cancels out of each launch's ratios. There are no turns on
            free-threaded interpreters, where code without threads takes a different time once threads have been
            started. Nor are there turns for variants with a server, files, libraries or C.
        quick_on: A function that selects, from the found interpreters, those for a run of quick size; not used where
            the user names interpreters.
        said: Conclusions in sentences, where a run says them itself.
        anchors: Labels of variants that are measured first. The figures of the other cells are then predicted from the
            anchors' figures and from the costs of the machine's operations. Each prediction is stored before the first
            launch of its cell. () where nothing is predicted.
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
    """An experiment that a run declares itself, such as a file of benchmarks.

    The attributes mean the same as those of an `Experiment`.
    """

    name: str
    question: str
    method: str
    included: str
    metric: str
    baseline: str
    besides: tuple[tuple[str, str], ...] = ()
    said: tuple[str, ...] = ()
