"""Predictions that were made before a cell was measured: figures with their range, the time, and the basis."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self, final

__all__ = ["Prediction", "Span"]


@final
@dataclass(frozen=True)
class Span:
    """A predicted figure: the median over seeds, the least and the greatest value, in the metric's unit."""

    median: float
    low: float
    high: float


@final
@dataclass(frozen=True)
class Prediction:
    """The predictions for one cell.

    Attributes:
        key: The cell's key.
        figures: Metric -> its predicted figure. A metric is left out if a launch has too few events for it.
        version: Headway's version.
        calibration: The costs of the machine's operations, as `headway calibrate` keeps them, with the time of
            measurement.
        rests_on: The other inputs of the prediction, by name: the scenario, the figures of the anchors, a value derived
            from them, and the number of seeds.
        written_at: The time when the store received the prediction, UTC, ISO 8601 with microseconds; "" before that.
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
        """Return the prediction that `to_json` wrote.

        Raises:
            TypeError, ValueError, KeyError, AttributeError: The values are no prediction.
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
