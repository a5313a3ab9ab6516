"""The agenda: which launch comes next in a run.

The agenda reads no clock and no store: the session tells it how long launches took, and it asks a function of the
session which claims are open. The same stored launches therefore give the same steps, and a run that was cut short
continues where it stopped.

A run with a budget spends it in this order:

1. First looks. An experiment has its first look: `sequential.FIRST_LOOK` launches of each telling cell (`lab.plan`),
   and one launch of each other cell.
2. Further launches at once. The cells of the experiment's open claims get more launches, one block at a time, for up to
   half of the time that the first look took. The time that the first looks of the later experiments need is kept back.
3. Open claims of all experiments, when every experiment has had its first look. The claim that is expected to need the
   least time goes first. From `UNSURE` launches on, a claim's need can be estimated. The claim gets a block only if the
   time left is enough for the whole need, and the need is no more than `MOST_LAUNCHES` in all. Before that, it gets a
   block if there is time for one.
4. The cells that are not telling, in the time that is left.

A failed launch uses up its cell's place in the block, and is not repeated.
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
"""The most time that an experiment may spend on its open claims at once, as a share of its first look's time."""

_GUESSED_S: dict[Size, float] = {"quick": 0.2, "standard": 3.0, "published": 15.0}
_GUESSES = 200
"""The guessed time of a launch. The guess has the weight of 200 measured cells."""


@final
@dataclass(frozen=True)
class Step:
    """One launch, of one cell or of several that take turns in it."""

    block: int
    cells: tuple[Cell, ...]


@final
@dataclass(frozen=True)
class Finished:
    """An experiment has had its launches for now.

    The results of the experiment can be reported, or what has changed since they were last reported.
    """

    experiment: str


@final
class Agenda:
    """The steps of a plan, one after another.

    Args:
        plan: The plan.
        open_claims: A function that returns the open claims of an experiment, from the launches so far. It is not
            called without a budget.
        telling: Keys of the telling cells.
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
        """Tell the agenda how long a launch took."""
        self._took_s.setdefault(cell.key, []).append(wall_s)
        self.spent_s += wall_s

    def expected_s(self, cells: Sequence[Cell]) -> float:
        """Return the expected time of one launch of each of these cells.

        A cell that was never launched is expected to take the mean of a guess and of the times of other cells.
        """
        means = {key: sum(took) / len(took) for key, took in self._took_s.items()}
        guessed_s = _GUESSED_S[self._plan.size] * _GUESSES
        overall = (sum(means.values()) + guessed_s) / (len(means) + _GUESSES)
        return sum(means.get(cell.key, overall) for cell in cells)

    def first_launches(self, cell: Cell) -> int:
        """Return the number of launches that a cell gets regardless of their results."""
        return self._plan.launches if self._plan.budget_s is None or cell.key in self._telling else 1

    def first_looks_s(self, cells: Sequence[Cell]) -> float:
        """Return the expected time of the launches that these cells get regardless of their results."""
        several = [cell for cell in cells if self.first_launches(cell) > 1]
        return self.expected_s(cells) + self.expected_s(several) * (self._plan.launches - 1)

    def first_look(self, experiment: str) -> Iterator[Step | Finished]:
        """Yield the launches that the cells of one experiment get regardless of results, then a `Finished`."""
        yield from self._first_blocks(experiment)
        yield Finished(experiment)

    def steps(self) -> Iterator[Step | Finished]:
        """Yield the steps of the plan; the caller must `tell` each launch's time before it asks for the next step.

        A `Finished` follows whenever an experiment has had its launches for now.
        """
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
        """Yield more launches of the cells that are not telling, as far as there is time."""
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
        """Return a block for the open claim that is expected to need the least time.

        The block also covers open claims of the same experiment that need at most twice as many launches, if there is
        time for them. Returns an empty list if no claim can be expected to be decided in the time that is left. For a
        claim with fewer than `UNSURE` launches, time for one block is enough.
        """
        if self._plan.budget_s is None:
            return []
        costs = []
        for experiment in experiments:
            for claim in self._open.get(experiment, ()):
                block_s = self.expected_s([self._cells[key] for key in claim.cells])
                need = claim.need if claim.launches >= UNSURE else min(claim.need, 1)
                # Failed launches do not count as a claim's launches, but they do count here, so that the loop ends.
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
