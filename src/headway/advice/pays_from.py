"""Measures what a verdict needs besides the race: the sizes from which pools pay, and an event loop's lag."""

import math
from collections.abc import Mapping, Sequence

from headway.advice import break_even
from headway.advice.examined import Function, Place
from headway.advice.holds import ALWAYS, Holds
from headway.advice.measured import level
from headway.advice.models import POOLS, Sizes, around_s, words
from headway.advice.racing import METRIC
from headway.advice.session import Session
from headway.advice.values import BreakEven, Lag
from headway.lab import stats
from headway.lab.design import Cell, Variant
from headway.lab.kept.launched import Launch
from headway.lab.kept.results import CellResult
from headway.measure.measured import percentile

__all__ = ["break_evens", "lags"]

_STAND_IN = "headway_agent.strangers.stand_in:StandIn"
_LAG_LAUNCHES = 2
_LEAST_S = 1.0
"""The least limit of a launch, in seconds."""
_PAYS_UNTIL, _LAGS_UNTIL = 0.85, 0.95
"""The shares of the budget up to which a further pool, or a further way to run beside a loop, is measured."""


def break_evens(
    session: Session,
    home: Place,
    function: Function,
    seen: Holds | None,
    sizes: Sizes,
    results: Mapping[str, CellResult],
    cells: Sequence[Cell],
    budget_s: float,
) -> list[BreakEven]:
    """Return the sizes from which each pool of the user's interpreter pays."""
    parts = break_even.parts_of(seen, function)
    name = f"{session.name}: break-even"
    found = []
    here = [cell for cell in cells if cell.interpreter == home.interpreter.id]
    pools = [cell for cell in here if cell.series in POOLS]
    gathered = next((results[cell.key] for cell in here if cell.series == "asyncio"), None)
    # The quickest pools come first, because the time may not be enough for all.
    for cell in sorted(pools, key=lambda cell: level(results[cell.key])):
        model, workers = cell.series, sizes.workers[cell.series]
        size, why = None, ""
        if model == "threads" and home.gil and seen is None:
            found.append(BreakEven(model, why="not known, because the use of the GIL is not known"))
            continue
        if model == "threads" and home.gil and parts["shares"]["held"] > ALWAYS:
            # A gain that launches show is then noise, and no number of tasks follows from it.
            why = "the function holds the GIL all the time, so threads take turns for tasks of any size"
            found.append(BreakEven(model, why=why))
            continue
        if gathered is not None and _is_faster(gathered, results[cell.key]):
            why = "not measured, because asyncio is faster and needs no pool"
        elif session.spent_s > _PAYS_UNTIL * budget_s:
            why = "not measured, because the time was up"
        else:
            session.say(f"searching the task size from which {words(model, workers)} pay")

            def variant(sizes_s: Sequence[float], model: str = model, workers: int = workers) -> Variant:
                return session.variant(
                    home,
                    function,
                    model,
                    series=model,
                    workers=workers,
                    workload=_STAND_IN,
                    params={"sizes_s": list(sizes_s), **parts},
                    samples=2,
                    warmups=1,
                )

            def launch(variant: Variant, block: int) -> Launch:
                cell = Cell(name, variant, "free", home.interpreter.id, name)
                launch = session.launch(cell, block, _left_s(session, budget_s))
                if launch.status == "ok":
                    at_s = break_even.crossing(variant.params["sizes_s"], launch.samples)
                    launch.samples |= {break_even.METRIC: [at_s]} if at_s is not None else {}
                session.keep(cell, block, launch)
                return launch

            ratio = results[cell.key].ratio_to(results[cells[0].key], METRIC)
            size, why = break_even.find_size(
                words(model, workers),
                variant,
                function,
                launch,
                measured=ratio.value if ratio is not None else None,
                time_left=lambda: session.spent_s < _PAYS_UNTIL * budget_s,
            )
        tasks, no_tasks = break_even.find_tasks(results[cell.key], results[cells[0].key])
        found.append(BreakEven(model, size, tasks, why or no_tasks))
    return found


def _is_faster(one: CellResult, other: CellResult) -> bool:
    ratio = one.ratio_to(other, METRIC)
    return ratio is not None and ratio.high < 1


def _left_s(session: Session, budget_s: float) -> float:
    """Return the limit of a launch: a stand-in of long tasks may take far longer than the function itself."""
    return max(_LEAST_S, budget_s - session.spent_s)


def _beside_a_loop(function: Function, sizes: Sizes, model: str) -> int:
    """Return the number of calls beside which an event loop's lag is measured: those of a sample, or more if these are short."""
    call_s = function.call_s + around_s(function, model)
    return max(min(sizes.tasks, sizes.calls[model]), min(2000, math.ceil(0.3 / call_s)))


def lags(
    session: Session, home: Place, function: Function, sizes: Sizes, budget_s: float
) -> tuple[list[Lag], list[str]]:
    """Return an event loop's lag while the calls run beside it, and a sentence for each way that was left out."""
    name = f"{session.name}: event loop"
    ways = {
        "asyncio-threads": ("asyncio.to_thread", "threads"),
        "asyncio-processes": ("a process pool", "processes-forkserver"),
    }
    if function.kind.startswith("async"):
        ways = {"asyncio": ("its own coroutines", "asyncio")}
    found, left_out = [], []
    for model, (said, kind) in ways.items():
        if home.why_not(kind):
            continue
        if session.spent_s > _LAGS_UNTIL * budget_s:
            left_out.append(
                f"the lag of an event loop beside the calls, with {said}, was not measured: the time was up"
            )
            continue
        session.say(f"measuring the delay of an event loop with {said}")
        variant = session.variant(
            home,
            function,
            model,
            series=model,
            workers=sizes.workers[kind],
            params={"tasks": _beside_a_loop(function, sizes, kind), "lag": True},
            samples=1,
            warmups=0,
        )
        cell = Cell(name, variant, "free", home.interpreter.id, name)
        values = []
        for block in range(_LAG_LAUNCHES):
            launch = session.launch(cell, block, _left_s(session, budget_s))
            if launch.status == "ok":
                p99_s = percentile(launch.samples["loop_lag_s"], 0.99)
                launch.samples["loop_lag_p99_s"] = [p99_s]
                values.append(max(p99_s, 1e-9))
            session.keep(cell, block, launch)
        if values:
            found.append(Lag(said, stats.level_interval(values)))
    return found, left_out
