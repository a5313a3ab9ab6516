"""What a run says, computed once: verdicts and findings. The terminal, JSON and the page only put it into a form."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from headway.lab.judging.findings import Finding, findings
from headway.lab.judging.verdicts import DECIDED, Verdict, by_claim, judge, speaking
from headway.lab.kept.results import Run

__all__ = ["Assessed", "assess"]


@final
@dataclass(frozen=True)
class Assessed:
    """A run with what it says.

    Attributes:
        run: The run.
        verdicts: Of every claim of its experiments, by claim and interpreter.
    """

    run: Run
    verdicts: tuple[Verdict, ...]

    @functools.cached_property
    def claims(self) -> Mapping[str, list[Verdict]]:
        """The verdicts by claim."""
        return by_claim(self.verdicts)

    @functools.cached_property
    def outcomes(self) -> Mapping[str, Verdict]:
        """By claim the verdict that speaks for it."""
        return {name: speaking(group) for name, group in self.claims.items()}

    @property
    def decided(self) -> int:
        """How many claims are decided."""
        return sum(one.outcome in DECIDED for one in self.outcomes.values())

    @functools.cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What the run tells, by experiment."""
        return tuple(findings(self.run, self.verdicts))


def assess(run: Run) -> Assessed:
    """Return what a run says; of the same run object always the same."""
    found = run.memo.get("assessed")
    if not isinstance(found, Assessed):
        found = run.memo["assessed"] = Assessed(run, tuple(judge(run)))
    return found
