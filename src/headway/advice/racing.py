"""Races models against each other: launches in blocks, each stored before the next, until the best model is known.

Each block is a launch of every model that is still in the race, in an order that is drawn. From the lab's first look
on, each further block asks again (`lab.sequential`). A model is out if its interval lies beyond the best one's by the
margin that counts. The race ends if no other model of the user's interpreter might still be better, or if the time is
up.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

from headway.lab.design import Cell
from headway.lab.kept.headers import StoredLaunch
from headway.lab.kept.launched import Launch
from headway.lab.kept.results import CellResult
from headway.lab.kept.store import Store
from headway.lab.plan import Plan
from headway.lab.sequential import FIRST_LOOK, MOST_LAUNCHES, confidence_of

__all__ = ["MARGIN", "METRIC", "Race"]

METRIC = "call_s"

MARGIN = 0.05
"""Models that differ by less than this share make no difference for a user."""

_FAR_BEHIND = 4.0
"""A model that takes this many times as long as the best one gets no launch after the second, if that is certain.

It also gets none if the time is too short for it: the time is worth more for models that are close.
"""

_HOPELESS = 1.5
"""A model that takes this many times as long as the best gets no launch after the first look, whatever its interval."""


@final
@dataclass
class Race:
    """One race.

    Attributes:
        cells: All models, on all interpreters; ratios refer to the first one.
        plan: Draws the order of each block.
        launcher: Launches a cell.
        store, run_id: The store and the run that keep the launches.
        home: The id of the user's own interpreter, whose models decide when the race ends.
        left_s: Returns the time that is left; its argument tells whether the first look is over.
        tell: Called before each block with the block's number, from 1, and its number of launches.
    """

    cells: Sequence[Cell]
    plan: Plan
    launcher: Callable[[Cell, int], Launch]
    store: Store
    run_id: str
    home: str
    left_s: Callable[[bool], float]
    tell: Callable[[int, int], None]
    _launches: dict[str, list[StoredLaunch]] = field(default_factory=dict)
    _took_s: dict[str, float] = field(default_factory=dict)

    def run(self) -> dict[str, CellResult]:
        """Run the race, and return the result of each cell, by key. Raises StoreError."""
        block = 0
        running = list(self.cells)
        while block < MOST_LAUNCHES and (running := self._in_time(running, block)):
            self.tell(block + 1, len(running))
            for (cell,) in self.plan.block(running, block):
                launch = self.launcher(cell, block)
                self.store.add_launch(self.run_id, cell.key, block, launch)
                self._launches.setdefault(cell.key, []).append(StoredLaunch(cell.key, block, launch))
                self._took_s[cell.key] = launch.wall_s
            block += 1
            running = self._still_in(running, block)
        return self.results()

    def results(self) -> dict[str, CellResult]:
        """Return the result of each cell so far, by key."""
        confidence = confidence_of(sequential=True)
        return {cell.key: CellResult(cell, tuple(self._launches.get(cell.key, ())), confidence) for cell in self.cells}

    def _in_time(self, cells: Sequence[Cell], block: int) -> list[Cell]:
        """Return the cells for whose launches there is time: all, those that are not far behind, or none."""
        left_s = self.left_s(block >= FIRST_LOOK)
        for some in (cells, self._close(cells)) if block > 0 else (cells,):
            if block == 0 or sum(self._took_s.get(cell.key, 0.0) for cell in some) <= left_s:
                return list(some)
        return []

    def _still_in(self, running: Sequence[Cell], blocks: int) -> list[Cell]:
        """Return the cells that get a further launch."""
        results = self.results()
        alive = [cell for cell in running if results[cell.key].ok or blocks < 2]
        best = self._best(results, alive)
        if best is None:
            return alive if blocks < FIRST_LOOK else []
        if blocks < FIRST_LOOK:
            return [cell for cell in alive if cell is self.cells[0] or not _far_behind(results, cell, best, sure=True)]
        open_cells = [cell for cell in alive if self._open(results, cell, best)]
        if not any(cell.interpreter == self.home for cell in open_cells):
            # The best model is known, but its ratio to one call after the other may need a few more launches.
            if _settled(results, best, self.cells[0]):
                return []
            open_cells = []
        return list({cell.key: cell for cell in (self.cells[0], best, *open_cells)}.values())

    def _best(self, results: Mapping[str, CellResult], cells: Sequence[Cell]) -> Cell | None:
        """Return the quickest of these cells on the user's interpreter; None if no launch of them succeeded."""
        known = [
            (level.value, cell.key, cell)
            for cell in cells
            if cell.interpreter == self.home
            and results[cell.key].ok
            and (level := results[cell.key].level(METRIC)) is not None
        ]
        return min(known)[-1] if known else None

    def _close(self, cells: Sequence[Cell]) -> list[Cell]:
        """Return the cells without those that are far behind as far as measured."""
        results = self.results()
        best = self._best(results, cells)
        if best is None:
            return list(cells)
        return [cell for cell in cells if cell is self.cells[0] or not _far_behind(results, cell, best, sure=False)]

    @staticmethod
    def _open(results: Mapping[str, CellResult], cell: Cell, best: Cell) -> bool:
        """Tell whether a cell may still be better than the best so far by the margin, or may be as good."""
        if cell.key == best.key:
            return False
        ratio = results[cell.key].ratio_to(results[best.key], METRIC)
        if ratio is None or ratio.value > _HOPELESS:
            return False
        return not (ratio.low > 1 + MARGIN or (ratio.low > 1 / (1 + MARGIN) and ratio.high < 1 + MARGIN))


def _far_behind(results: Mapping[str, CellResult], cell: Cell, best: Cell, *, sure: bool) -> bool:
    """Tell whether a cell is far behind the best; if `sure`, only by an interval, which one launch does not have."""
    ratio = results[cell.key].ratio_to(results[best.key], METRIC)
    return ratio is not None and ratio.value > _FAR_BEHIND and (not sure or ratio.low > 1 + MARGIN)


def _settled(results: Mapping[str, CellResult], best: Cell, serial: Cell) -> bool:
    if best.key == serial.key:
        return True
    ratio = results[best.key].ratio_to(results[serial.key], METRIC)
    return ratio is None or ratio.half_width < 2 * MARGIN
