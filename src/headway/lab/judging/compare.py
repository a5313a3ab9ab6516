"""Two runs side by side: a ratio with its interval for every cell that both have."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Literal, final

from headway.errors import StoreError
from headway.lab import stats
from headway.lab.design import ONE_WORKER
from headway.lab.kept.results import CellResult, Run
from headway.printable import printable

__all__ = ["SAME", "Difference", "compare", "interpreters_of_both", "not_compared"]

SAME = 0.1
"""A change within this share is none."""


@final
@dataclass(frozen=True)
class Difference:
    """One cell in two runs.

    Attributes:
        before, after: The cell's results.
        metric: The metric that is compared.
        ratio: After over before, with its interval; None where a run has no launches or values of 0.
        outcome: "less", "more", "no difference" (the interval contains 1 and lies within `SAME` of it), "inconclusive" (it
            contains 1 and is wider), "one launch" (a side has no more, so the ratio has no interval) or "not comparable".
    """

    before: CellResult
    after: CellResult
    metric: str
    ratio: stats.Interval | None
    outcome: Literal["less", "more", "no difference", "inconclusive", "one launch", "not comparable"]


def _difference(before: CellResult, after: CellResult, metric: str) -> Difference:
    olds, news = before.values(metric), after.values(metric)
    if not olds or not news or min(*olds, *news) <= 0:
        return Difference(before, after, metric, None, "not comparable")
    ratio = stats.ratio_interval(news, olds)
    if math.isinf(ratio.high):
        return Difference(before, after, metric, ratio, "one launch")
    if ratio.high < 1:
        return Difference(before, after, metric, ratio, "less")
    if ratio.low > 1:
        return Difference(before, after, metric, ratio, "more")
    same = ratio.low > 1 / (1 + SAME) and ratio.high < 1 + SAME
    return Difference(before, after, metric, ratio, "no difference" if same else "inconclusive")


def not_compared(before: Run, after: Run) -> str:
    """Return the names of the experiments that both runs have and this Headway does not have; "" without any."""
    return ", ".join(f"`{printable(name)}`" for name in before.unknown if name in after.unknown)


def interpreters_of_both(before: Run, after: Run) -> dict[str, str]:
    """Return the ids of the interpreters that both runs have, that in `before` -> that in `after`.

    An id stands for itself. Others match by their short names, if each run has only one interpreter of that name: the patch
    versions may differ.
    """
    found = {one: one for one in (*before.interpreters, ONE_WORKER) if one in after.interpreters or one == ONE_WORKER}
    short = [Counter(one.name for one in run.interpreters.values()) for run in (before, after)]
    news = {one.name: key for key, one in after.interpreters.items()}
    for key, one in before.interpreters.items():
        if short[0][one.name] == short[1][one.name] == 1:
            found.setdefault(key, news[one.name])
    return found


def compare(before: Run, after: Run) -> list[Difference]:
    """Compare every cell that both runs have, in the order of `before`; see `interpreters_of_both`.

    The launches of two runs were not interleaved, so a change on the machine between the runs is in every ratio. Cells
    whose parameters differ (another size) are not the same cell.

    Experiments that this Headway does not have are left out (`not_compared`).

    Raises:
        StoreError: The runs have no cell in common, or only cells that are left out.
    """
    both = interpreters_of_both(before, after)
    differences = []
    for old in before.results.values():
        cell = old.cell
        new = after.find(cell.experiment, cell.label, both.get(cell.interpreter, ""), cell.placement)
        if (
            new is None
            or old.cell.experiment in before.unknown
            or (old.cell.variant.workload, old.cell.variant.params)
            != (
                new.cell.variant.workload,
                new.cell.variant.params,
            )
        ):
            continue
        differences.append(_difference(old, new, before.experiment(old.cell.experiment).metric))
    if not differences and (skipped := not_compared(before, after)):
        raise StoreError(
            f"the runs {before.id} and {after.id} can be compared in {skipped} alone, and this Headway has no such experiment",
            hint="use the Headway that measured them",
        )
    if not differences:
        raise StoreError(
            f"the runs {before.id} and {after.id} have no cell in common",
            hint="compare runs of the same size, with an experiment and an interpreter in common; `headway runs` lists them",
        )
    return differences
