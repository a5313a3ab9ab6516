"""Runs of several machines together: on how many a claim holds, and where their figures differ.

The machine is a factor, not noise: launches of different machines are never averaged. Each machine's own launches give
its verdict. Two machines differ if the intervals of the deciding figure do not overlap.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from headway.lab.judging.evidence import Evidence, Outcome
from headway.lab.judging.figures import ratio
from headway.lab.judging.verdicts import DECIDED, by_claim, judge, speaking
from headway.lab.kept.results import Run

__all__ = ["OnMachine", "OverMachines", "over_machines"]


@final
@dataclass(frozen=True)
class OnMachine:
    """The verdict of one machine's run on a claim.

    Attributes:
        host: The machine's name.
        outcome: The verdict's outcome.
        deciding: The evidence that the verdict follows from; None means that nothing was measured.
    """

    host: str
    outcome: Outcome
    deciding: Evidence | None


@final
@dataclass(frozen=True)
class OverMachines:
    """The verdicts of all machines on a claim.

    Attributes:
        claim: The claim's id.
        experiment: The experiment's name.
        text: The claim's text.
        machines: Each machine's verdict.
    """

    claim: str
    experiment: str
    text: str
    machines: tuple[OnMachine, ...]

    @property
    def sentence(self) -> str:
        """The number of machines on which the claim holds, as "holds on 3 of 4 machines"."""
        held = sum(one.outcome == "supported" for one in self.machines)
        refuted = sum(one.outcome == "refuted" for one in self.machines)
        decided = sum(one.outcome in DECIDED for one in self.machines)
        count = len(self.machines)
        if not decided:
            return f"decided on none of {count} machines"
        words = f"holds on {held} of {count} machines"
        if refuted:
            words += f", does not on {refuted}"
        open_ones = count - decided
        return words + (f", open on {open_ones}" if open_ones else "")

    @property
    def differences(self) -> tuple[tuple[OnMachine, OnMachine], ...]:
        """Pairs of machines whose intervals of the same figure do not overlap."""
        return tuple(
            (one, other)
            for one, other in itertools.combinations(self.machines, 2)
            if one.deciding is not None
            and other.deciding is not None
            and one.deciding.what == other.deciding.what
            and one.deciding.interval is not None
            and other.deciding.interval is not None
            and (
                one.deciding.interval.high < other.deciding.interval.low
                or other.deciding.interval.high < one.deciding.interval.low
            )
        )

    @property
    def effect(self) -> str:
        """The largest difference between machines, as a sentence; "" means that none differ."""
        pairs = self.differences
        if not pairs:
            return ""

        def apart(pair: tuple[OnMachine, OnMachine]) -> float:
            values = sorted(one.deciding.interval.value for one in pair if one.deciding and one.deciding.interval)
            return values[-1] / values[0] if values[0] > 0 else float("inf")

        one, other = max(pairs, key=apart)
        assert one.deciding is not None
        assert other.deciding is not None
        assert one.deciding.interval is not None
        assert other.deciding.interval is not None
        return (
            f"machines differ in {one.deciding.what}: {one.host} {ratio(one.deciding.interval)}, "
            f"{other.host} {ratio(other.deciding.interval)}"
        )


def over_machines(runs: Sequence[Run]) -> list[OverMachines]:
    """Return several machines' verdicts on each claim of the same experiments, in the order of the first run."""
    found: dict[str, list[tuple[str, OnMachine]]] = {}
    texts: dict[str, tuple[str, str]] = {}
    for run in runs:
        for name, group in by_claim(judge(run)).items():
            verdict = speaking(group)
            texts.setdefault(name, (verdict.experiment, verdict.claim.text))
            host = run.settings.host or run.id
            found.setdefault(name, []).append((host, OnMachine(host, verdict.outcome, verdict.deciding)))
    return [
        OverMachines(name, *texts[name], tuple(one for _, one in sorted(machines, key=lambda pair: pair[0])))
        for name, machines in found.items()
    ]
