"""The state that the steps of an advice share: the run in the store, its cells, and the way to make a launch."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, final

from headway import __version__
from headway.advice import break_even
from headway.advice.examined import CALL_LIMIT_S, Function, Place, Refusal
from headway.advice.models import Sizes, contenders
from headway.advice.racing import METRIC
from headway.advice.request import AdviceRequest
from headway.advice.shared import compared
from headway.host.doctor import examine
from headway.host.keeper import Keeper
from headway.host.machine import Machine, split_off_runner, this_machine
from headway.lab.design import Cell, Declared, Variant
from headway.lab.kept.launched import Launch
from headway.lab.kept.settings import ADVICE, Settings
from headway.lab.kept.store import Store
from headway.lab.launching.launch import run_launch
from headway.lab.plan import Skipped
from headway.lab.sequential import FIRST_LOOK

__all__ = ["Say", "Session"]

Say = Callable[[str], None]

CALLS = "headway_agent.strangers.workload:Calls"


@final
class Session:
    """The state that the steps share: the machine, the store, the time, and the way to make and keep a launch.

    Attributes:
        request: The request for advice.
        machine: The machine; its cores are those of the launches.
        seed: The seed of the order of launches.
        load: The machine's load when the session began, in running threads.
        run_id: The run in the store; "" before `open_run`.
        limit_s: The time after which a launch is killed, in s.
    """

    def __init__(self, request: AdviceRequest, keeper: Keeper, store: Store, say: Say) -> None:
        self.request, self.keeper, self.store, self.say = request, keeper, store, say
        self._begun_s = time.monotonic()
        self.machine: Machine = this_machine(split_off_runner(this_machine().cores)[0])
        self.seed = int.from_bytes(os.urandom(4)) if request.seed is None else request.seed
        self.load = os.getloadavg()[0]
        self.run_id = ""
        self._settings: Settings | None = None
        self.limit_s = CALL_LIMIT_S
        self._executables: dict[str, str] = {}

    @property
    def spent_s(self) -> float:
        """The time since the session began."""
        return time.monotonic() - self._begun_s

    def launch(self, cell: Cell, block: int, limit_s: float | None = None) -> Launch:
        """Launch a cell; kill it after `limit_s`, or after the session's limit, which may be sooner."""
        (launch,) = run_launch(
            [cell],
            self._executables[cell.interpreter],
            self.machine,
            limit_s=self.limit_s if limit_s is None else min(limit_s, self.limit_s),
            keeper=self.keeper,
            seed=(self.seed + block) % 2**63,
        )
        return launch

    def keep(self, cell: Cell, block: int, launch: Launch) -> None:
        """Store the result of a launch. Raises StoreError."""
        if block == 0:
            self.store.add_cell(self.run_id, cell)
        self.store.add_launch(self.run_id, cell.key, block, launch)

    @property
    def name(self) -> str:
        """The name of the experiment in the store."""
        return f"advise {self.request.target.words}"

    def variant(self, place: Place, function: Function, model: str, **more: Any) -> Variant:
        """Return a variant of the function on an interpreter; `more` has attributes of a `Variant`, and its workers."""
        params = {
            "target": self.request.target.job(),
            "kind": function.kind,
            "workers": more.pop("workers"),
            "fresh": function.changes_arguments,
            **more.pop("params", {}),
        }
        return Variant(
            model=model, params=params, paths=(*self.request.target.paths, *place.paths), **{"workload": CALLS, **more}
        )

    def cells(self, home: Place, others: Sequence[Place], function: Function, sizes: Sizes) -> list[Cell]:
        """Return the cells of the race: all models at home, one call after the other first, and some elsewhere."""
        name, cells = self.name, []
        for place in (home, *others):
            self._executables[place.interpreter.id] = place.interpreter.executable
            for model in contenders(function, place):
                if place is not home and model not in {"serial", "threads", "asyncio"}:
                    continue
                variant = self.variant(
                    place,
                    function,
                    model,
                    series=model,
                    workers=sizes.workers[model],
                    params={
                        "tasks": sizes.tasks,
                        "calls": sizes.calls[model],
                        "call_s": function.call_s,
                        "cold": sizes.cold,
                        "compared": compared(function, model, sizes.tasks),
                    },
                    samples=sizes.samples,
                    warmups=sizes.warmups,
                )
                cells.append(Cell(name, variant, "free", place.interpreter.id, name))
        return cells

    def open_run(self, home: Place, others: Sequence[Place], refusals: Sequence[Refusal], budget_s: float) -> None:
        """Begin the run in the store. Raises StoreError."""
        name = self.name
        lag, pays = f"{name}: event loop", f"{name}: break-even"
        settings = Settings(
            version=__version__,
            size=ADVICE,
            launches=FIRST_LOOK,
            budget_s=budget_s,
            seed=self.seed,
            limit_s=self.limit_s,
            memory_limit_bytes=None,
            experiments=(name, pays, lag),
            machine=self.machine,
            doctor=tuple(examine()),
            interpreters=(home.interpreter, *(one.interpreter for one in others)),
            skipped=tuple(Skipped(name, one.model, one.interpreter, one.reason) for one in refusals),
            declared=(
                Declared(
                    name=name,
                    question=f"Which concurrency model for {self.request.target.words}?",
                    method="Each model makes the same calls, in fresh processes, with a pool that is started and warm; long ones as often as its workers need.",
                    included="From the first submit to the last result, over the calls; the pool's start and pickling are shown separately.",
                    metric=METRIC,
                    baseline="serial",
                ),
                Declared(
                    name=pays,
                    question="From which task size on does a pool pay?",
                    method="Tasks with the function's arguments and result compute for a given time, serially and in the pool.",
                    included="The serial time of a task for which the pool takes as long, in each launch, from the stand-in alone.",
                    metric=break_even.METRIC,
                    baseline="",
                ),
                Declared(
                    name=lag,
                    question="How late is an event loop beside the calls?",
                    method="A coroutine sleeps 2 ms at a time while the calls run in executors of its loop.",
                    included="The 99th percentile of the delay after the end of each sleep.",
                    metric="loop_lag_p99_s",
                    baseline="",
                ),
            ),
        )
        self._settings = settings
        self.run_id = self.store.new_run(settings, [])

    def end_run(self, said: Sequence[str]) -> None:
        """Store the conclusion of the run, and that it is over. Raises StoreError."""
        assert self._settings is not None
        race, *others = self._settings.declared
        self.store.set_settings(
            self.run_id, replace(self._settings, declared=(replace(race, said=tuple(said)), *others))
        )
        self.store.end_run(self.run_id)
