"""Real launches on real interpreters: every workload through every model."""

import zlib

import pytest
from lone_launches import alone, changed

from headway.host.interpreters import discover, select
from headway.host.keeper import Keeper
from headway.host.machine import this_machine
from headway.lab.beside.surroundings import prepare
from headway.lab.experiments import experiments
from headway.lab.plan import make_plan, needed

FOUND = select(discover()[0], ["all"])
BY_NAME = {interpreter.name: interpreter for interpreter in reversed(FOUND)}

pytestmark = pytest.mark.slow


def one_of_each_kind(cells):
    """Leave out slow cells that differ from an earlier one only in sizes and counts."""
    cheap = {"cpu-bound", "countdown", "sigma", "sha256", "race", "refcount", "sleep", "context-switch"}
    kinds = {}
    for cell in cells:
        own = (
            cell.key
            if cell.experiment in cheap
            else (cell.variant.workload, cell.variant.model, cell.variant.needs, cell.variant.params.get("unit"))
        )
        kinds.setdefault(
            (
                own,
                cell.variant.params.get("transport"),
                cell.variant.params.get("via"),
                cell.variant.params.get("sums"),
            ),
            cell,
        )
    return kinds.values()


_MOST = {
    "n": 8_000,
    "size_bytes": 1 << 16,
    "messages": 50,
    "k": 500,
    "duration_s": 0.05,
    "requests": 2,
    "period_s": 0.01,
    "queries": 2,
    "writes": 10,
    "reads": 10,
    "commands": 160,
    "files": 6,
    "rounds": 20,
    "pairs": 10_000,
}
"""The most that a parameter is where all that counts is that the launch gives its metric."""


def small(cell, **changes):
    """Return the cell with one sample of little work."""
    params = {name: min(value, _MOST[name]) if name in _MOST else value for name, value in cell.variant.params.items()}
    return changed(cell, params=params, samples=1, **changes)


def metrics_of(cell):
    """Return the metrics of which a cell must give one; an anchor's may differ from its experiment's first."""
    experiment = next(one for one in experiments() if one.name == cell.experiment)
    further = " ".join(names for names, _ in experiment.besides) if cell.variant.label in experiment.anchors else ""
    return [experiment.metric, *further.split()]


@pytest.mark.parametrize("interpreter", BY_NAME.values(), ids=[one.id for one in BY_NAME.values()])
def test_every_variant_runs_on_every_interpreter(interpreter, request):
    """Every kind of variant gives its metric, or is skipped with a reason, on every interpreter.

    Without `--full` an interpreter has a tenth of the kinds, another tenth than the next nine.
    """
    every = request.config.getoption("--matrix") == "full"
    part = list(BY_NAME.values()).index(interpreter) % 10
    machine = this_machine()
    surroundings = prepare(needed(experiments(), [interpreter], size="quick"))
    plan = make_plan(
        experiments(), [interpreter], machine, size="quick", seed=1, launches=1, missing=surroundings.missing
    )
    problems = []
    with Keeper() as keeper, surroundings.opened(machine, 1) as neighbours:
        launches = [
            (cell, alone(small(cell, warmups=0), interpreter, machine, keeper, neighbours))
            for cell in one_of_each_kind(plan.cells)
            if cell.interpreter != "native"
            and (every or zlib.crc32(f"{cell.experiment} {cell.variant.label}".encode()) % 10 == part)
        ]
    assert launches
    for cell, done in launches:
        if done.status != "ok" or not any(done.samples.get(one) for one in metrics_of(cell)):
            problems.append(f"{cell.key}: {done.reason}\n{done.stderr}")
        elif done.samples["interpreter_start_s"][0] <= 0 or not {"utilisation", "course"} <= done.facts.keys():
            problems.append(f"{cell.key}: facts are missing: {done.facts}")
        # hiredis does not declare that it works without the GIL, so a free-threaded interpreter switches it on: a known
        # finding.
        elif done.facts["gil_enabled"] != interpreter.gil_enabled and "hiredis" not in cell.variant.needs:
            problems.append(f"{cell.key}: the GIL changed")

    assert problems == []
    assert all(skipped.reason for skipped in plan.skipped)


def test_the_c_limits_run():
    """Every native variant gives its metric."""
    machine = this_machine()
    surroundings = prepare(needed(experiments(), [FOUND[-1]], size="quick"))
    plan = make_plan(
        experiments(), [FOUND[-1]], machine, size="quick", seed=1, launches=1, missing=surroundings.missing
    )
    cells = [cell for cell in plan.cells if cell.interpreter == "native"]

    with Keeper() as keeper, surroundings.opened(machine, 1) as neighbours:
        results = {cell.key: alone(small(cell), FOUND[-1], machine, keeper, neighbours) for cell in cells}

    assert len(results) >= 20
    assert {key: one.stderr for key, one in results.items() if one.status != "ok"} == {}
