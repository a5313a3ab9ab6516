"""The planner: from experiments to an ordered list of launches.

Experiments run one after another, in the plan's order, so that each can be judged as soon as it is done. A block has at
most one launch of each cell of an experiment; the agenda (`lab.launching.agenda`) chooses the cells. A cell is telling
if a claim or a sweep is about it. The other cells are only figures in tables.

A group is the cells that are compared with each other: at one placement, all variants on one interpreter, or, in an
experiment that compares interpreters, one variant on all of them. Within a block, the groups come in random order. The
cells of a group stand next to each other, in random order, too: a slow period of some seconds then slows a whole group,
and cancels out of its ratios (docs/decisions/003). The order of a block depends on its number and the seed alone, so a
run that was killed continues in the same order.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, final

from headway.errors import UsageError
from headway.host.interpreters import Interpreter
from headway.host.machine import Machine
from headway.lab.design import ONE_WORKER, Cell, Experiment, Placement, Size, Variant
from headway.lab.sequential import FIRST_LOOK

__all__ = [
    "DEFAULT_LAUNCHES",
    "LIMIT_S",
    "Plan",
    "Skipped",
    "cell_from_json",
    "cell_to_json",
    "make_plan",
    "needed",
    "nothing_missing",
    "refuse_nothing",
]

DEFAULT_LAUNCHES: dict[Size, int] = {"quick": FIRST_LOOK, "standard": 5, "published": 5}
"""Launches of each cell in a run without a budget. With a budget, each telling cell has `sequential.FIRST_LOOK`
launches before the first look."""

LIMIT_S: dict[Size, float] = {"quick": 30.0, "standard": 300.0, "published": 1800.0}
"""Seconds for each cell of a launch, after which a launch that still runs is killed and recorded as failed."""


@final
@dataclass(frozen=True)
class Skipped:
    """A requested cell that cannot run on this machine, with the reason."""

    experiment: str
    label: str
    interpreter: str
    reason: str


@final
@dataclass(frozen=True)
class Plan:
    """The launches of a run, before they are launched.

    Attributes:
        size: "quick", "standard" or "published".
        launches: Without a budget, launches of each cell. With a budget, launches of each telling cell before the first
            look; the other cells have one.
        budget_s: The time for all launches; None where every cell has `launches`. A first look that has begun runs to
            its end.
        seed: The seed of the order.
        limit_s: Seconds for each cell of a launch, after which the launch is killed.
        memory_limit_bytes: The limit of the address space of each process of a launch; None means no limit.
        cells: The cells that are measured.
        skipped: Requested cells that cannot run.
    """

    size: Size
    launches: int
    budget_s: float | None
    seed: int
    limit_s: float
    memory_limit_bytes: int | None
    cells: tuple[Cell, ...]
    skipped: tuple[Skipped, ...]

    @property
    def experiments(self) -> tuple[str, ...]:
        """The names of the experiments, in the order in which they are launched."""
        return tuple(dict.fromkeys(cell.experiment for cell in self.cells))

    def of(self, experiment: str) -> list[Cell]:
        """Return an experiment's cells."""
        return [cell for cell in self.cells if cell.experiment == experiment]

    def block(self, cells: Iterable[Cell], number: int) -> list[tuple[Cell, ...]]:
        """Return the launches of block `number` for cells of one experiment, in order.

        Cells that take turns share a launch.
        """
        groups: dict[str, list[Cell]] = {}
        for cell in sorted(cells, key=lambda cell: cell.key):
            groups.setdefault(cell.group, []).append(cell)
        experiment = next(iter(groups.values()))[0].experiment if groups else ""
        # Each block has its own generator, so that its order does not depend on earlier launches.
        shuffler = random.Random(f"{self.seed}|{experiment}|{number}")
        launches: list[tuple[Cell, ...]] = []
        for group in shuffler.sample(list(groups.values()), len(groups)):
            shuffled = shuffler.sample(group, len(group))
            # These share a process, so a group with turns must be of one interpreter.
            together = tuple(cell for cell in shuffled if cell.turns)
            launches += [together] if together else []
            launches += [(cell,) for cell in shuffled if not cell.turns]
        return launches

    def order(self) -> list[tuple[int, Cell]]:
        """Return every (block, cell) of the launches of a run without a budget, in the order of launching."""
        return [
            (number, cell)
            for experiment in self.experiments
            for number in range(self.launches)
            for cells in self.block(self.of(experiment), number)
            for cell in cells
        ]


def _is_model(model: str, wanted: Sequence[str]) -> bool:
    """Whether one of the `--model` choices names the model; "processes" names every start method."""
    return any(model == name or model.startswith(f"{name}-") for name in wanted)


def _chosen(
    experiment: Experiment, size: Size, models: Sequence[str], placement: Placement | None
) -> list[tuple[Variant, tuple[Placement, ...]]]:
    """Return the variants of an experiment that the user's choices leave, with their placements.

    The baseline stays if any other variant stays, because ratios need it. Anchors stay for the same reason, each at its
    own placements.
    """
    placed = [
        (variant, tuple(place for place in variant.placements if placement in {None, place}))
        for variant in experiment.variants(size)
        if variant.label not in experiment.anchors
    ]
    placed = [(variant, places) for variant, places in placed if places]
    anchors = [one for one in experiment.variants(size) if one.label in experiment.anchors]
    placed = [(one, one.placements) for one in anchors if placed] + placed
    if not models:
        return placed
    if not any(_is_model(variant.model, models) for variant, _ in placed):
        return []
    return [
        (variant, places)
        for variant, places in placed
        if _is_model(variant.model, models) or variant.series == experiment.baseline
    ]


_ONE_CORE = "placement `split` needs two cores"


def _fitting(
    variant: Variant, allowed: tuple[Placement, ...], machine: Machine, wanted: Placement | None
) -> tuple[tuple[Placement, ...], str]:
    """Return the placements that the machine has enough cores for, and, if there are none, the reason.

    On one core a client and its server share the core, unless the user has asked for a placement.
    """
    fitting = tuple(placement for placement in allowed if placement != "split" or machine.split)
    if not fitting and variant.server and wanted is None:
        fitting = ("free",)
    return fitting, "" if fitting else _ONE_CORE


def nothing_missing(_variant: Variant, _interpreter: Interpreter | None) -> str:
    """Return "": a variant lacks nothing besides its interpreter. The default of `make_plan`'s `missing`."""
    return ""


def _unfit(variant: Variant, interpreter: Interpreter) -> str:
    if variant.model not in interpreter.models:
        return interpreter.missing_models.get(variant.model, f"cannot run the model {variant.model}")
    if variant.loads_library and not interpreter.ctypes:
        return "it cannot import ctypes, which loads Headway's native library"
    # A unit of CPU-bound work is named after the module that it needs, if it needs one.
    return interpreter.missing_modules.get(variant.params.get("unit", ""), "") or variant.unfit(interpreter)


def needed(
    experiments: Sequence[Experiment],
    interpreters: Sequence[Interpreter],
    *,
    size: Size,
    models: Sequence[str] = (),
    placement: Placement | None = None,
    narrowed: bool = False,
) -> list[tuple[Variant, Interpreter]]:
    """Return each chosen variant, in order, with each interpreter that can run it, so that its needs can be prepared.

    The arguments are those of `make_plan`. Variants in C are paired with the last interpreter.
    """
    pairs = []
    for experiment in experiments:
        taken = _taken(experiment, interpreters, size, narrowed=narrowed)
        for variant, _ in _chosen(experiment, size, models, placement):
            where = interpreters[-1:] if variant.native else taken
            pairs += [(variant, one) for one in where if not _unfit(variant, one)]
    return pairs


def _taken(
    experiment: Experiment, interpreters: Sequence[Interpreter], size: Size, *, narrowed: bool
) -> Sequence[Interpreter]:
    return experiment.quick_on(interpreters) if narrowed and size == "quick" else interpreters


def make_plan(
    experiments: Sequence[Experiment],
    interpreters: Sequence[Interpreter],
    machine: Machine,
    *,
    size: Size,
    seed: int,
    launches: int | None = None,
    budget_s: float | None = None,
    models: Sequence[str] = (),
    placement: Placement | None = None,
    limit_s: float | None = None,
    memory_limit_bytes: int | None = None,
    native_missing: str = "",
    narrowed: bool = False,
    missing: Callable[[Variant, Interpreter | None], str] = nothing_missing,
) -> Plan:
    """Multiply experiments by interpreters and placements into a plan, which may be empty (see `refuse_nothing`).

    Args:
        experiments: The experiments to run.
        interpreters: The interpreters to run them on.
        machine: The machine, with its cores.
        size: The size of the workloads.
        seed: The seed of the order.
        launches: Launches per cell; None means the size's default, or, with a budget, `sequential.FIRST_LOOK` launches
            before the first look.
        budget_s: The time for all launches; None means that every cell has `launches`.
        models: Only these models ("processes" means every start method); the baseline is always included.
        placement: Only this placement; experiments that do not have it are left out.
        limit_s: The most seconds that a launch may take for each of its cells; None means the size's default.
        memory_limit_bytes: The limit of the address space of a launch's processes.
        native_missing: The reason why the native library cannot be used, or "".
        narrowed: At quick size, give an experiment only the interpreters that its `quick_on` selects.
        missing: A function that names the library, server or space that a variant lacks on an interpreter (None for a
            variant in C), or returns "".
    """
    cells: list[Cell] = []
    skipped: list[Skipped] = []
    with_gil = {one.id for one in interpreters if not one.free_threaded}
    for experiment in experiments:
        taken = _taken(experiment, interpreters, size, narrowed=narrowed)
        for variant, allowed in _chosen(experiment, size, models, placement):
            places, reason = _fitting(variant, allowed, machine, placement)
            no_library = native_missing if variant.loads_library else ""
            where = (
                [(ONE_WORKER, no_library or missing(variant, None))]
                if variant.native
                else [
                    (interpreter.id, _unfit(variant, interpreter) or no_library or missing(variant, interpreter))
                    for interpreter in taken
                ]
            )
            for interpreter_id, unfit in where:
                if reason or unfit:
                    skipped.append(Skipped(experiment.name, variant.label, interpreter_id, reason or unfit))
                    continue
                cells += [
                    Cell(
                        experiment.name,
                        variant,
                        place,
                        interpreter_id,
                        _group(experiment, variant, place, interpreter_id),
                        experiment.turns and interpreter_id in with_gil and _needs_nothing(variant),
                    )
                    for place in places
                ]
    return Plan(
        size=size,
        launches=launches or (DEFAULT_LAUNCHES[size] if budget_s is None else FIRST_LOOK),
        budget_s=budget_s,
        seed=seed,
        limit_s=LIMIT_S[size] if limit_s is None else limit_s,
        memory_limit_bytes=memory_limit_bytes,
        cells=tuple(cells),
        skipped=tuple(skipped),
    )


def _needs_nothing(variant: Variant) -> bool:
    """Whether a launch of the variant needs nothing beside it: no library, server, files, paths or C."""
    return not (variant.native or variant.server or variant.needs or variant.space or variant.paths)


def _group(experiment: Experiment, variant: Variant, place: Placement, interpreter_id: str) -> str:
    own = interpreter_id if experiment.compares == "variants" else variant.label
    return f"{experiment.name}|{place}|{own}"


def refuse_nothing(
    plan: Plan, experiments: Sequence[Experiment], models: Sequence[str], placement: Placement | None
) -> None:
    """Raise UsageError if the choices leave no cell of any experiment, or if a chosen model is in no cell."""
    names = ", ".join(experiment.name for experiment in experiments)
    if not plan.cells:
        wish = " and ".join(
            [f"the model `{model}`" for model in models] + ([f"placement `{placement}`"] if placement else [])
        )
        reasons = sorted({one.reason for one in plan.skipped})
        given = " or ".join(["`--model`"] * bool(models) + ["`--placement`"] * bool(placement))
        ways = [f"leave out {given}"] * bool(given) + ["use two cores"] * (_ONE_CORE in reasons)
        raise UsageError(
            f"no cell is left to run: {'; '.join(reasons) or f'{names} does not run with {wish}'}",
            hint=f"{', '.join([*ways, 'or name other experiments' if ways else 'name other experiments'])}; "
            "`headway lab --explain NAME` shows what fits",
        )
    for model in models:
        if not any(_is_model(cell.variant.model, [model]) for cell in plan.cells):
            reasons = sorted({one.reason for one in plan.skipped}) if placement is None else []
            raise UsageError(
                f"none of the chosen experiments ({names}) has the model `{model}`"
                + "".join(f"; {r}" for r in reasons),
                hint="`headway lab --explain NAME` lists an experiment's models",
            )


def fits_machine(
    experiments: Sequence[Experiment],
    machine: Machine,
    *,
    size: Size,
    models: Sequence[str],
    placement: Placement | None,
) -> bool:
    """Tell whether the choices leave cells, and some of each chosen model, if an interpreter can run all variants."""
    left = [
        variant.model
        for experiment in experiments
        for variant, allowed in _chosen(experiment, size, models, placement)
        if _fitting(variant, allowed, machine, placement)[0]
    ]
    return bool(left) and all(any(_is_model(model, [name]) for model in left) for name in models)


_KEPT = tuple(one.name for one in fields(Variant) if one.name != "unfit")


def cell_to_json(cell: Cell) -> dict[str, Any]:
    """Return a cell as JSON values."""
    variant = {name: getattr(cell.variant, name) for name in _KEPT}
    variant |= {"params": dict(cell.variant.params), "space": dict(cell.variant.space)}
    return {
        "experiment": cell.experiment,
        "variant": variant,
        "placement": cell.placement,
        "interpreter": cell.interpreter,
        "group": cell.group,
        "turns": cell.turns,
    }


def cell_from_json(values: Mapping[str, Any]) -> Cell:
    """Return the cell that `cell_to_json` wrote, also in an older version.

    An older version kept the variant's values beside the cell's own.
    """
    variant = values.get("variant", values)
    known = {name: variant[name] for name in _KEPT if name in variant}
    if isinstance(known.get("setting"), str):  # Written by an older version.
        known["setting"] = known["setting"].split(", ") if known["setting"] else ()
    known |= {name: tuple(known.get(name, ())) for name in ("paths", "needs", "placements", "setting")}
    if "series" not in known:  # Written by the oldest version, which had only a label.
        known["series"] = variant["label"]
    if "variant" not in values:
        known |= {"placements": (values["placement"],), "native": values["interpreter"] == ONE_WORKER}
    return Cell(
        values["experiment"],
        Variant(**known),
        values["placement"],
        values["interpreter"],
        values["group"],
        bool(values.get("turns", False)),
    )
