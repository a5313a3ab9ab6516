"""The answers of a launch's process, checked: a workload, which may be a user's own, can give anything."""

import json
import math
import reprlib
from typing import Any, final

from headway.lab.kept.launched import Launch
from headway.printable import printable

__all__ = ["Listener"]


def _shown(value: object) -> str:
    return printable(reprlib.repr(value))


class _RefusedError(Exception):
    """An answer with values of the workload that are no results. The text is the reason, in one line."""


def _number(value: object) -> float:
    """Return a finite number as a float, as the store keeps it. Raises ValueError, OverflowError."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError
    return float(value)


def _checked(method: str, metrics: object) -> dict[str, list[float]]:
    """Return the values of each metric that a method of the workload gave. Raises _RefusedError."""
    if not isinstance(metrics, dict):
        raise _RefusedError(f"the workload's {method} gave {_shown(metrics)}, expected a dict of metrics")
    checked: dict[str, list[float]] = {}
    for metric, value in metrics.items():
        if not metric.isprintable():
            raise _RefusedError(f"the workload's {method} gave a metric called {metric!a}, expected a printable name")
        # A list without values would be a metric that the launch seems to lack.
        for one in value if isinstance(value, list) and value else [value]:
            try:
                checked.setdefault(metric, []).append(_number(one))
            except (ValueError, OverflowError):
                raise _RefusedError(
                    f"the workload's {method} gave {_shown(one)} for {metric}, expected a finite number"
                ) from None
    return checked


def _check_details(details: object) -> None:
    """Raise _RefusedError for details that JSON, and so our reports, cannot hold."""
    if not isinstance(details, dict):
        raise _RefusedError(f"the workload's close() gave {_shown(details)}, expected a dict or None")
    try:
        json.dumps(details, allow_nan=False)
    except ValueError:
        raise _RefusedError(
            "the workload's close() gave details with a number that is not finite, expected only finite ones"
        ) from None


@final
class Listener:
    """Sorts the agent's answers into launches, one for each cell.

    Attributes:
        launches: The launches, which hold only checked values.
        garbled: The answers are not those of the agent.
        refused: The reason, in one line, why what a workload gave is no result; "" if all is well.
    """

    def __init__(self, begun_monotonic_ns: int, cells: int) -> None:
        self.launches = [Launch() for _ in range(cells)]
        self.garbled = False
        self.refused = ""
        self._ended = 0
        self._begun_monotonic_ns = begun_monotonic_ns
        self._partial = b""

    @property
    def ended(self) -> bool:
        """Whether every cell has reached its end."""
        return self._ended == len(self.launches)

    def feed(self, data: bytes) -> None:
        """Take the next bytes that the agent wrote."""
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            try:
                self._take(json.loads(line))
            except _RefusedError as error:
                self.refused = self.refused or str(error)
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
                # Another writer has used the agent's descriptor, so no answer that came over it can be trusted.
                self.garbled = True

    def _take(self, answer: dict[str, Any]) -> None:
        kind = answer.pop("kind")
        if kind == "started":
            start_s = (answer["started_monotonic_ns"] - self._begun_monotonic_ns) / 1e9
            for one in self.launches:
                one.samples["interpreter_start_s"] = [start_s]
                if len(self.launches) > 1:
                    one.facts["shared"] = f"{answer['pid']}, {answer['started_monotonic_ns']}"
            return
        launch = self.launches[answer.pop("part")]
        if kind in {"setup", "sample"}:
            method = "open()" if kind == "setup" else "sample()"
            for metric, values in _checked(method, answer["metrics"]).items():
                launch.samples.setdefault(metric, []).extend(values)
            return
        self._ended += kind == "end"
        _check_details(answer.get("details", {}))
        launch.facts.update(answer)
