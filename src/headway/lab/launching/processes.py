"""The launcher of a run: fresh processes, each with its libraries, servers and folders beside it."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self, final

from headway.errors import HeadwayError
from headway.host.interpreters import Interpreter
from headway.host.keeper import Keeper
from headway.host.machine import Machine
from headway.lab.beside.surroundings import Surroundings
from headway.lab.design import ONE_WORKER, Cell
from headway.lab.kept.launched import Launch
from headway.lab.launching.launch import run_launch
from headway.lab.plan import Plan

__all__ = ["Processes", "executables_of", "on_cores"]


def executables_of(chosen: Sequence[Interpreter]) -> dict[str, str]:
    """Return interpreter id -> executable; native cells run under the last interpreter that has ctypes."""
    paths = {interpreter.id: interpreter.executable for interpreter in chosen}
    with_ctypes = [interpreter for interpreter in chosen if interpreter.ctypes]
    if with_ctypes:
        paths[ONE_WORKER] = with_ctypes[-1].executable
    return paths


@contextmanager
def on_cores(cores: Sequence[int]) -> Iterator[None]:
    """Keep this process to `cores` for the block, if there are any; launches set their own."""
    before = os.sched_getaffinity(0)
    if cores:
        os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@final
class Processes:
    """Launches fresh processes with their libraries, servers and folders; a context manager around a run."""

    def __init__(
        self,
        plan: Plan,
        machine: Machine,
        executables: Mapping[str, str],
        library: Path | None,
        surroundings: Surroundings,
    ) -> None:
        self._plan, self._machine, self._executables, self._library = plan, machine, executables, library
        self._surroundings = surroundings
        self._open = ExitStack()

    def __enter__(self) -> Self:
        spare = sorted(os.sched_getaffinity(0) - set(self._machine.cores))
        with ExitStack() as opened:
            self._keeper = opened.enter_context(Keeper())
            self._neighbours = opened.enter_context(self._surroundings.opened(self._machine, self._plan.seed))
            opened.enter_context(on_cores(spare))
            self._open = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, trace)

    def __call__(self, cells: Sequence[Cell], block: int) -> list[Launch]:
        """Launch one cell for a block, or several that take turns; return a launch for each, failed ones included."""
        cell = cells[0]
        try:
            with self._neighbours.of(cell, self._keeper) as beside:
                launches = run_launch(
                    cells,
                    self._executables[cell.interpreter],
                    self._machine,
                    library=self._library,
                    limit_s=self._plan.limit_s,
                    memory_limit_bytes=self._plan.memory_limit_bytes,
                    keeper=self._keeper,
                    beside=beside,
                    seed=(self._plan.seed + block) % 2**63,
                )
        except (HeadwayError, OSError) as error:
            return [Launch(reason=f"its requirements could not be prepared: {error}") for _ in cells]
        if launches[0].status == "failed" and len(cells) > 1:
            # One cell may be at fault, so each cell is launched alone: the others then still give results. The budget
            # pays for both launches.
            alone = [self([one], block)[0] for one in cells]
            for shared, one in zip(launches, alone, strict=True):
                one.wall_s += shared.wall_s
            return alone
        if launches[0].status == "failed":
            died = self._neighbours.autopsy(cell)
            for launch in launches:
                launch.reason = f"{died}; then: {launch.reason}" if died else launch.reason
        return launches
