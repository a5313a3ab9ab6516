"""From experiments to an ordered list of launches.

Experiments come one after another, in the plan's order, so that each can be judged as soon as it is done. One block is one
launch of every cell of an experiment. Within a block the groups of cells that are compared with each other come in random
order, and so do the cells of a group, next to each other: what slows the machine for seconds slows a whole group, and drops
out of its ratios (docs/decisions/003). The order follows from the plan and its seed alone, so a run that was killed goes on
in the same order.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

from headway.errors import UsageError
from headway.lab.design import ONE_WORKER, Cell, Experiment, Placement, Size, Variant
from headway.lab.interpreters import Interpreter
from headway.lab.machine import Machine

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
]

DEFAULT_LAUNCHES: dict[Size, int] = {"quick": 4, "standard": 5, "published": 5}
"""Launches per cell. Quick is for a first look: with four launches an interval is wide, and says so."""

LIMIT_S: dict[Size, float] = {"quick": 30.0, "standard": 300.0, "published": 1800.0}
"""A launch still running after this is killed and recorded as failed."""


@final
@dataclass(frozen=True)
class Skipped:
    """A cell that was asked for and cannot run here, with the reason."""

    experiment: str
    label: str
    interpreter: str
    reason: str


@final
@dataclass(frozen=True)
class Plan:
    """What a run will do.

    Attributes:
        size: "quick", "standard" or "published".
        launches: Launches per cell.
        seed: Decides the order, and the resampling of intervals.
        limit_s: Seconds after which a launch is killed.
        memory_limit_bytes: Address space of each process of a launch; None leaves it unlimited.
        cells: What is measured.
        skipped: What was asked for and cannot run.
    """

    size: Size
    launches: int
    seed: int
    limit_s: float
    memory_limit_bytes: int | None
    cells: tuple[Cell, ...]
    skipped: tuple[Skipped, ...]

    def order(self) -> list[tuple[int, Cell]]:
        """Return every (block, cell) in the order of launching."""
        ordered: list[tuple[int, Cell]] = []
        shuffler = random.Random(self.seed)
        groups: dict[str, dict[str, list[Cell]]] = {cell.experiment: {} for cell in self.cells}
        for cell in sorted(self.cells, key=lambda cell: cell.key):
            groups[cell.experiment].setdefault(cell.group, []).append(cell)
        for of_experiment in groups.values():
            for block in range(self.launches):
                for cells in shuffler.sample(list(of_experiment.values()), len(of_experiment)):
                    ordered.extend((block, cell) for cell in shuffler.sample(cells, len(cells)))
        return ordered


def _is_model(model: str, wanted: Sequence[str]) -> bool:
    """Whether a `--model` choice names the model: "processes" names every start method."""
    return any(model == name or model.startswith(f"{name}-") for name in wanted)


def _chosen(
    experiment: Experiment, size: Size, models: Sequence[str], placement: Placement | None
) -> list[tuple[Variant, tuple[Placement, ...]]]:
    """Return the variants that the choices leave of an experiment, with their placements.

    The baseline comes along where another variant is left: ratios need it.
    """
    placed = [
        (variant, tuple(place for place in variant.placements if placement in {None, place}))
        for variant in experiment.variants(size)
    ]
    placed = [(variant, places) for variant, places in placed if places]
    if not models:
        return placed
    if not any(_is_model(variant.model, models) for variant, _ in placed):
        return []
    return [
        (variant, places)
        for variant, places in placed
        if _is_model(variant.model, models) or variant.series == experiment.baseline
    ]


def _fitting(
    variant: Variant, allowed: tuple[Placement, ...], machine: Machine, wanted: Placement | None
) -> tuple[tuple[Placement, ...], str]:
    """Return the placements that the machine has cores for, and why not where that is none.

    On one core a client and its server share it, unless the user wants them apart.
    """
    fitting = tuple(placement for placement in allowed if placement != "split" or machine.split)
    if not fitting and variant.server and wanted is None:
        fitting = ("free",)
    return fitting, "" if fitting else "placement `split` needs two cores"


def nothing_missing(_variant: Variant, _interpreter: Interpreter | None) -> str:
    """The default of `make_plan`'s `missing`: everything that a variant needs besides its interpreter is there."""
    return ""


def _unfit(variant: Variant, interpreter: Interpreter) -> str:
    if variant.model not in interpreter.models:
        return interpreter.missing_models.get(variant.model, f"cannot run the model {variant.model}")
    return variant.unfit(interpreter)


def needed(
    experiments: Sequence[Experiment],
    interpreters: Sequence[Interpreter],
    *,
    size: Size,
    models: Sequence[str] = (),
    placement: Placement | None = None,
    narrowed: bool = False,
) -> list[tuple[Variant, Interpreter]]:
    """Return every variant of the choices, in order, with each interpreter that can run it: what must be got ready.

    Arguments as for `make_plan`. Variants in C are there with the last interpreter.
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
    models: Sequence[str] = (),
    placement: Placement | None = None,
    limit_s: float | None = None,
    memory_limit_bytes: int | None = None,
    native_missing: str = "",
    narrowed: bool = False,
    missing: Callable[[Variant, Interpreter | None], str] = nothing_missing,
) -> Plan:
    """Multiply experiments by interpreters and placements.

    Args:
        experiments: What to run.
        interpreters: Where to run it.
        machine: Where the cores are.
        size: How large.
        seed: For the order.
        launches: Per cell; None means the size's default.
        models: Only these models ("processes" means every start method); the baseline always comes along.
        placement: Only this one; experiments that do not know it are left out.
        limit_s: Seconds a launch may take; None means the size's default.
        memory_limit_bytes: Address space of a launch's processes.
        native_missing: Why the native library cannot be used, or "".
        narrowed: At quick size, give an experiment only those interpreters that its `quick_on` takes.
        missing: Says which library, server or space a variant lacks on an interpreter (None for one in C), or "".

    Raises:
        UsageError: The choices leave nothing to run.
    """
    cells: list[Cell] = []
    skipped: list[Skipped] = []
    for experiment in experiments:
        taken = _taken(experiment, interpreters, size, narrowed=narrowed)
        for variant, allowed in _chosen(experiment, size, models, placement):
            places, reason = _fitting(variant, allowed, machine, placement)
            where = (
                [(ONE_WORKER, native_missing or missing(variant, None))]
                if variant.native
                else [
                    (interpreter.id, _unfit(variant, interpreter) or missing(variant, interpreter))
                    for interpreter in taken
                ]
            )
            for interpreter_id, unfit in where:
                if reason or unfit:
                    skipped.append(Skipped(experiment.name, variant.label, interpreter_id, reason or unfit))
                    continue
                cells.extend(
                    Cell(
                        experiment=experiment.name,
                        label=variant.label,
                        workload=variant.workload,
                        model=variant.model,
                        params=dict(variant.params),
                        samples=variant.samples,
                        warmups=variant.warmups,
                        placement=place,
                        interpreter=interpreter_id,
                        group=_group(experiment, variant, place, interpreter_id),
                        paths=variant.paths,
                        series=variant.series,
                        setting=variant.setting,
                        needs=variant.needs,
                        server=variant.server,
                        space=dict(variant.space),
                        memory_bytes=variant.memory_bytes,
                    )
                    for place in places
                )
    _refuse_nothing(experiments, cells, skipped, models, placement)
    return Plan(
        size=size,
        launches=DEFAULT_LAUNCHES[size] if launches is None else launches,
        seed=seed,
        limit_s=LIMIT_S[size] if limit_s is None else limit_s,
        memory_limit_bytes=memory_limit_bytes,
        cells=tuple(cells),
        skipped=tuple(skipped),
    )


def _group(experiment: Experiment, variant: Variant, place: Placement, interpreter_id: str) -> str:
    own = interpreter_id if experiment.compares == "variants" else variant.label
    return f"{experiment.name}|{place}|{own}"


def _refuse_nothing(
    experiments: Sequence[Experiment],
    cells: Sequence[Cell],
    skipped: Sequence[Skipped],
    models: Sequence[str],
    placement: Placement | None,
) -> None:
    """Raise UsageError where the choices contradict each other."""
    if not cells:
        names = ", ".join(experiment.name for experiment in experiments)
        wish = " and ".join(
            [f"the model `{model}`" for model in models] + ([f"placement `{placement}`"] if placement else [])
        )
        why = "; ".join(sorted({one.reason for one in skipped})) or f"{names} does not run with {wish}"
        raise UsageError(
            f"nothing is left to run: {why}",
            hint="leave out `--model` or `--placement`, or name other experiments; `headway lab --explain NAME` shows what fits",
        )
    for model in models:
        if not any(_is_model(cell.model, [model]) for cell in cells):
            names = ", ".join(experiment.name for experiment in experiments)
            reasons = sorted({one.reason for one in skipped}) if placement is None else []
            raise UsageError(
                f"the model `{model}` is in none of the chosen experiments ({names})"
                + "".join(f"; {r}" for r in reasons),
                hint="`headway lab --explain NAME` lists an experiment's models",
            )


def cell_to_json(cell: Cell) -> dict[str, Any]:
    """Return a cell's attributes as JSON values."""
    return {**cell.__dict__, "params": dict(cell.params), "space": dict(cell.space)}


def cell_from_json(values: dict[str, Any]) -> Cell:
    """Return what `cell_to_json` gave, also that of an older version."""
    known = {name: value for name, value in values.items() if name in Cell.__dataclass_fields__}
    lists = {name: tuple(values.get(name, ())) for name in ("paths", "needs")}
    return Cell(**{"series": values["label"], **known, **lists})
