"""What a run launches next: every experiment's first look, then more where a claim is open and time is left.

Pure: it is told what launches took and which claims are open, and reads no clock. The same stored launches so give the same
agenda again, and a run that was cut short goes on where it was.

With a budget an experiment has its first look: `sequential.FIRST_LOOK` launches of each cell that a claim is about, and one of each other
cell. Then cells of its open claims get further launches at once, one block at a time, for half as long again, unless the first looks
of the others would need that time. When all experiments have had theirs, what is left goes to the open claims that are expected to
need least; a claim whose expected need is more than what is left gets none. What no claim can use goes to the other cells.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import final

from headway.lab.design import Cell, Size
from headway.lab.judging.open_claims import UNSURE, OpenClaim
from headway.lab.plan import Plan
from headway.lab.sequential import MOST_LAUNCHES

__all__ = ["Agenda", "Finished", "Step"]

_AT_ONCE = 0.5
"""So much of the time of its first look an experiment may take for its open claims before the others have theirs."""

_GUESSED_S: dict[Size, float] = {"quick": 0.2, "standard": 3.0, "published": 15.0}
_GUESSES = 200
"""What a launch takes, as long as few cells have been launched: the guess counts as much as so many of them."""


@final
@dataclass(frozen=True)
class Step:
    """One launch: of a cell, or of several that take turns in it."""

    block: int
    cells: tuple[Cell, ...]


@final
@dataclass(frozen=True)
class Finished:
    """An experiment has had its launches, for now: what is known of it can be told, or what is new since it was told last."""

    experiment: str


@final
class Agenda:
    """The steps of a plan, one after another.

    Args:
        plan: The plan.
        open_claims: Returns the open claims of an experiment by the launches so far. Not called without a budget.
        telling: Keys of the cells that a claim or a finding is about. The others are figures in tables.
    """

    def __init__(self, plan: Plan, open_claims: Callable[[str], Sequence[OpenClaim]], telling: Collection[str]) -> None:
        self._plan = plan
        self._open_claims = open_claims
        self._telling = telling
        self._cells = {cell.key: cell for cell in plan.cells}
        self._blocks = dict.fromkeys(plan.experiments, 0)
        self._open: dict[str, list[OpenClaim]] = {}
        self._took_s: dict[str, list[float]] = {}
        self.spent_s = 0.0

    def tell(self, cell: Cell, wall_s: float) -> None:
        """Say what a launch took."""
        self._took_s.setdefault(cell.key, []).append(wall_s)
        self.spent_s += wall_s

    def expected_s(self, cells: Sequence[Cell]) -> float:
        """Return what a launch of each of these cells is expected to take; of cells never launched, a guess and what others took."""
        means = {key: sum(took) / len(took) for key, took in self._took_s.items()}
        guessed_s = _GUESSED_S[self._plan.size] * _GUESSES
        overall = (sum(means.values()) + guessed_s) / (len(means) + _GUESSES)
        return sum(means.get(cell.key, overall) for cell in cells)

    def first_launches(self, cell: Cell) -> int:
        """Return how many launches a cell gets whatever they say."""
        return self._plan.launches if self._plan.budget_s is None or cell.key in self._telling else 1

    def first_looks_s(self, cells: Sequence[Cell]) -> float:
        """Return what the launches that these cells get whatever they say are expected to take."""
        several = [cell for cell in cells if self.first_launches(cell) > 1]
        return self.expected_s(cells) + self.expected_s(several) * (self._plan.launches - 1)

    def first_look(self, experiment: str) -> Iterator[Step | Finished]:
        """Yield the launches that every cell of one experiment gets, and then that it has had them."""
        yield from self._first_blocks(experiment)
        yield Finished(experiment)

    def steps(self) -> Iterator[Step | Finished]:
        """Yield launches, and experiments that have had theirs; each launch is to be told before the next is asked for."""
        plan = self._plan
        for place, experiment in enumerate(plan.experiments):
            if self._left_s() <= 0:
                return
            begun_s = self.spent_s
            yield from self._first_blocks(experiment)
            if plan.budget_s is not None:
                self._ask(experiment)
                to_come = [cell for name in plan.experiments[place + 1 :] for cell in plan.of(name)]
                first_looks_s = self.first_looks_s(to_come)
                until_s = self.spent_s + _AT_ONCE * (self.spent_s - begun_s)
                while steps := self._more([experiment], min(until_s - self.spent_s, self._left_s() - first_looks_s)):
                    yield from steps
                    self._ask(experiment)
            yield Finished(experiment)
        while steps := self._more(plan.experiments, self._left_s()):
            yield from steps
            experiment = steps[0].cells[0].experiment
            self._ask(experiment)
            yield Finished(experiment)
        if plan.budget_s is not None:
            for experiment in plan.experiments:
                yield from self._rest(experiment)

    def _first_blocks(self, experiment: str) -> Iterator[Step]:
        for number in range(self._plan.launches):
            yield from self._block(
                experiment, [cell for cell in self._plan.of(experiment) if number < self.first_launches(cell)]
            )

    def _rest(self, experiment: str) -> Iterator[Step]:
        """Yield more launches of the cells that no claim is about, as far as there is time."""
        for number in range(1, self._plan.launches):
            cells = [cell for cell in self._plan.of(experiment) if self.first_launches(cell) <= number]
            if cells and self.expected_s(cells) <= self._left_s():
                yield from self._block(experiment, cells)

    def _left_s(self) -> float:
        return float("inf") if self._plan.budget_s is None else self._plan.budget_s - self.spent_s

    def _ask(self, experiment: str) -> None:
        self._open[experiment] = list(self._open_claims(experiment))

    def _block(self, experiment: str, cells: Sequence[Cell]) -> list[Step]:
        if not cells:
            return []
        number = self._blocks[experiment]
        self._blocks[experiment] += 1
        return [Step(number, together) for together in self._plan.block(cells, number)]

    def _more(self, experiments: Sequence[str], left_s: float) -> list[Step]:
        """Return a block for the open claim that is expected to need least, and for those of its experiment that need as little.

        Nothing where none can be expected to be decided in the time that is left.
        """
        if self._plan.budget_s is None:
            return []
        costs = []
        for experiment in experiments:
            for claim in self._open.get(experiment, ()):
                block_s = self.expected_s([self._cells[key] for key in claim.cells])
                need = claim.need if claim.launches >= UNSURE else min(claim.need, 1)
                # Launches that fail are no launches of a claim's: they end, too.
                tried = min(len(self._took_s.get(key, ())) for key in claim.cells)
                if need and tried < MOST_LAUNCHES and need * block_s <= left_s:
                    costs.append((claim.need * block_s, experiment, claim))
        if not costs:
            return []
        _, experiment, cheapest = min(costs, key=lambda one: one[0])
        together = [one for _, name, one in costs if name == experiment and one.need <= 2 * cheapest.need]
        cells = [self._cells[key] for key in frozenset().union(*(one.cells for one in together))]
        if self.expected_s(cells) > left_s:
            cells = [self._cells[key] for key in cheapest.cells]
        return self._block(experiment, cells)
