"""Open claims, whose outcome is inconclusive, and the cells whose launches may decide them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from headway.lab.judging.evidence import Evidence, launches_needed
from headway.lab.judging.verdicts import Verdict, by_claim, judge, speaking
from headway.lab.kept.results import Run
from headway.lab.sequential import MOST_LAUNCHES

__all__ = ["UNSURE", "OpenClaim", "open_claims", "telling_cells"]

UNSURE = 6
"""With fewer launches than this, an open claim's need cannot be estimated. The claim gets a block anyway."""


@final
@dataclass(frozen=True)
class OpenClaim:
    """A claim whose outcome is inconclusive.

    Attributes:
        id: The claim's id.
        cells: Keys of the cells whose launches may decide the claim.
        launches: Blocks that these cells have had.
        to_decide: About how many launches the claim needs in all; None where no estimate is possible.
    """

    id: str
    cells: frozenset[str]
    launches: int
    to_decide: int | None

    @property
    def need(self) -> int:
        """How many more launches of each cell the claim is expected to need; 0 means that it gets no more."""
        most = MOST_LAUNCHES - self.launches
        if most <= 0 or (self.to_decide is not None and self.to_decide > MOST_LAUNCHES and self.launches >= UNSURE):
            return 0
        return max(1, min(most, (self.to_decide or MOST_LAUNCHES) - self.launches))


def open_claims(verdicts: Iterable[Verdict]) -> list[OpenClaim]:
    """Return the inconclusive claims, each with the cells whose launches may decide it."""
    found = []
    for name, group in by_claim(verdicts).items():
        whole = speaking(group)
        if whole.outcome != "inconclusive":
            continue
        # If no mean speaks for the claim, every undecided interpreter keeps it open. (One that refutes it decides it.)
        telling = [whole] if whole.interpreter in {"all", "any"} else group
        pieces = [one for verdict in telling for one in verdict.evidence if _is_open(verdict, one)]
        if pieces:
            found.append(
                OpenClaim(
                    name,
                    frozenset(key for one in pieces for key in one.cells),
                    min(one.launches for one in pieces),
                    launches_needed(pieces),
                )
            )
    return found


def telling_cells(run: Run) -> frozenset[str]:
    """Return the keys of the telling cells, which a claim or a sweep is about, launched or not."""
    claimed = {key for verdict in judge(run) for one in verdict.evidence for key in (*one.cells, *one.rests_on)}
    swept = {one.name for one in run.experiments() if one.sweep}
    return frozenset(claimed | {key for key, result in run.results.items() if result.cell.experiment in swept})


def _is_open(verdict: Verdict, one: Evidence) -> bool:
    """Whether more launches for a piece of evidence may change an open verdict.

    In a claim of scope "any", an event that no interpreter has shown may still appear.
    """
    return one.outcome == "inconclusive" or (verdict.interpreter == "any" and one.outcome != "not measured")
