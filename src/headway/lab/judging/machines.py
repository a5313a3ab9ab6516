"""What the runs of several machines say together: a claim holds on so many of them, and where their figures differ.

The machine is a factor, not noise: launches of different machines are never put into one mean. Each machine's own launches
decide there; two machines differ where the intervals of the figure that decides do not overlap.
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
    """What one machine's run says of a claim.

    Attributes:
        host: The machine.
        outcome: Its verdict.
        deciding: What that follows from; None: nothing was measured.
    """

    host: str
    outcome: Outcome
    deciding: Evidence | None


@final
@dataclass(frozen=True)
class OverMachines:
    """What all machines say of a claim.

    Attributes:
        claim: Its id.
        experiment: The experiment's name.
        text: What it claims.
        machines: Each machine's verdict.
    """

    claim: str
    experiment: str
    text: str
    machines: tuple[OnMachine, ...]

    @property
    def sentence(self) -> str:
        """Say on how many machines it holds: "holds on 3 of 4 machines"."""
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
        """Say where machines differ most; "": none do."""
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
    """Return what runs of the same experiments on several machines say of each claim, in the order of the first run."""
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
