"""What was predicted of a cell before it was measured: figures with their range, when, and what they rest on."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self, final

__all__ = ["Prediction", "Span"]


@final
@dataclass(frozen=True)
class Span:
    """A predicted figure: the median over seeds, the least and the greatest, in its metric's unit."""

    median: float
    low: float
    high: float


@final
@dataclass(frozen=True)
class Prediction:
    """What was predicted of a cell.

    Attributes:
        key: The cell's.
        figures: Metric -> what it was predicted to be; a metric of which too little happens in a launch is left out.
        version: Headway's.
        calibration: What the machine's operations cost, as `headway calibrate` keeps it, with the time of its taking.
        rests_on: What else it was made from, by name: the cell that was measured for it, and what was taken from that.
        written_at: When the store got it, UTC, ISO 8601 with microseconds; "" before that.
    """

    key: str
    figures: Mapping[str, Span]
    version: str
    calibration: Mapping[str, Any] = field(repr=False)
    rests_on: Mapping[str, Any] = field(default_factory=dict)
    written_at: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return all but the key and the time, which the store keeps in columns of their own, as JSON values."""
        return {
            "figures": {metric: asdict(span) for metric, span in self.figures.items()},
            "version": self.version,
            "calibration": dict(self.calibration),
            "rests_on": dict(self.rests_on),
        }

    @classmethod
    def from_json(cls, key: str, written_at: str, values: Mapping[str, Any]) -> Self:
        """Return what `to_json` gave.

        Raises:
            TypeError, ValueError, KeyError, AttributeError: It is no prediction.
        """
        return cls(
            key=key,
            figures={str(metric): _span(span) for metric, span in values["figures"].items()},
            version=str(values["version"]),
            calibration=dict(values["calibration"]),
            rests_on=dict(values["rests_on"]),
            written_at=written_at,
        )


def _span(values: Mapping[str, Any]) -> Span:
    found = Span(*(float(values[name]) for name in ("median", "low", "high")))
    if not (0 <= found.low <= found.median <= found.high < math.inf):
        raise ValueError(f"{found} is no range around a median")
    return found
