"""Summarises several seeds of one scenario: the median of each figure, and its range."""

import dataclasses
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from headway.sim.result import GilOutcome, Outcome, PartOutcome

__all__ = ["Spread", "Summary", "summarise"]


@final
@dataclass(frozen=True)
class Spread:
    """The median and range of a figure over the seeds."""

    median: float
    low: float
    high: float


_NO_FIGURES = ("name", "client", "threads")
"""The fields that are the same for every seed."""

Figures = dict[str, Spread | None]
"""The figures by the names of PartOutcome or GilOutcome; None if a seed lacks the figure."""


@final
@dataclass(frozen=True)
class Summary:
    """A scenario under some seeds.

    Attributes:
        seeds: The seeds.
        parts: The figures by the name of a role or client.
        gils: The figures by the name of the GIL's process.
        outcomes: The outcome of each seed.
    """

    seeds: tuple[int, ...]
    parts: dict[str, Figures]
    gils: dict[str, Figures]
    outcomes: tuple[Outcome, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON values. The same scenario, costs and seeds give the same values."""

        def plain(figures: Figures) -> dict[str, Any]:
            return {key: None if spread is None else dataclasses.asdict(spread) for key, spread in figures.items()}

        return {
            "seeds": list(self.seeds),
            "parts": {name: plain(figures) for name, figures in self.parts.items()},
            "gils": {name: plain(figures) for name, figures in self.gils.items()},
            "outcomes": [one.to_json() for one in self.outcomes],
        }


def summarise(outcomes: Sequence[Outcome]) -> Summary:
    """Return the summary of one scenario's runs; there must be at least one."""
    first = outcomes[0]
    return Summary(
        seeds=tuple(one.seed for one in outcomes),
        parts={part.name: _figures([one.parts[place] for one in outcomes]) for place, part in enumerate(first.parts)},
        gils={gil.name: _figures([one.gils[place] for one in outcomes]) for place, gil in enumerate(first.gils)},
        outcomes=tuple(outcomes),
    )


def _figures(of_seeds: Sequence[PartOutcome] | Sequence[GilOutcome]) -> Figures:
    names = [one.name for one in dataclasses.fields(of_seeds[0]) if one.name not in _NO_FIGURES]
    return {name: _spread([getattr(one, name) for one in of_seeds]) for name in names}


def _spread(values: list[float | None]) -> Spread | None:
    """Return a figure's spread, or None if it is missing for a seed."""
    known = [float(value) for value in values if value is not None]
    if len(known) < len(values):
        return None
    return Spread(statistics.median(known), min(known), max(known))
