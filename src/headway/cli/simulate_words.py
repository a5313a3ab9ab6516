"""Render the figures of a simulation as text; the end of a figure's name gives its unit."""

from typing import TYPE_CHECKING

from headway.report import figures as words

if TYPE_CHECKING:
    from headway.sim.summary import Spread

__all__ = ["figure", "shown"]

_CLOSE = 0.005
"""A range is left out if both ends are at most this share of the median away from it."""


def _amount(key: str, value: float) -> str:
    if key.endswith("_ms"):
        return words.seconds(value / 1e3) if value else "0 ms"
    return words.amount(value, words.unit_of(key))


def shown(key: str, spread: "Spread | None") -> str:
    """Return the median alone, or `-` if there is none."""
    return words.EMPTY if spread is None else _amount(key, spread.median)


def figure(key: str, spread: "Spread | None") -> str:
    """Return the median with its range, as `204/s [199/s - 210/s]`, or `-` if there is none."""
    if spread is None:
        return words.EMPTY
    said = _amount(key, spread.median)
    apart = max(spread.high - spread.median, spread.median - spread.low)
    if apart <= _CLOSE * abs(spread.median):
        return said
    return f"{said} [{_amount(key, spread.low)} - {_amount(key, spread.high)}]"
