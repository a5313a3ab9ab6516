"""The assessment of a run, computed once: verdicts and findings. The terminal, JSON and the page only format it."""

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
    """A run with its verdicts and findings.

    Attributes:
        run: The run.
        verdicts: The verdicts on every claim of the run's experiments, by claim and interpreter.
    """

    run: Run
    verdicts: tuple[Verdict, ...]

    @functools.cached_property
    def claims(self) -> Mapping[str, list[Verdict]]:
        """The verdicts by claim."""
        return by_claim(self.verdicts)

    @functools.cached_property
    def outcomes(self) -> Mapping[str, Verdict]:
        """The verdict that speaks for each claim."""
        return {name: speaking(group) for name, group in self.claims.items()}

    @property
    def decided(self) -> int:
        """The number of decided claims."""
        return sum(one.outcome in DECIDED for one in self.outcomes.values())

    @functools.cached_property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of the run, by experiment."""
        return tuple(findings(self.run, self.verdicts))


def assess(run: Run) -> Assessed:
    """Return the assessment of a run; the same object for the same run object."""
    found = run.memo.get("assessed")
    if not isinstance(found, Assessed):
        found = run.memo["assessed"] = Assessed(run, tuple(judge(run)))
    return found
