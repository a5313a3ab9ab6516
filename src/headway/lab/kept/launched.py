"""The results of one launch, as a value."""

from dataclasses import dataclass, field
from typing import Any, final

from headway.lab.kept.typed import is_typed

__all__ = ["Launch", "checked_facts"]

_FACTS: dict[str, Any] = {
    "timed_s": float,
    "utilisation": dict[str, float],
    "course": list[dict[str, Any]],
    "own_busy_s": float,
    "voluntary_switches": float,
    "involuntary_switches": float,
}
"""Facts that figures are computed from -> their types."""
_STRETCH: dict[str, Any] = {"phase": str, "until_s": float, "busy_s": float}
"""The same for a stretch of the course."""


def checked_facts(values: Any) -> dict[str, Any]:
    """Return the facts of a stored launch.

    Raises:
        TypeError, ValueError, KeyError: The values are no facts.
    """
    facts = dict(values)
    stretches = facts.get("course", ())
    wrong = [name for name in _FACTS.keys() & facts.keys() if not is_typed(facts[name], _FACTS[name])]
    if wrong or not all(is_typed(one[name], hint) for one in stretches for name, hint in _STRETCH.items()):
        raise TypeError(f"{(wrong or ['course'])[0]} is not a launch's")
    return facts


@final
@dataclass
class Launch:
    """The results of one launch for one of its cells.

    Attributes:
        status: "ok" or "failed".
        reason: Why the launch failed, in one line; "" otherwise.
        samples: Metric -> values in order of measurement. Set-up metrics are among them, with one value each.
        facts: Facts that the agent reported: `gil_enabled`, `version`, `affinity`, `switch_interval_s`, `timed_s`,
            `utilisation` (core -> share), `course` (stretches with `phase`, `until_s`, `busy_s`), `own_busy_s` (the CPU
            time of the launch's own processes in its timed part), `voluntary_switches`, `involuntary_switches`,
            `max_rss_bytes`. Launches that took turns in one process also have `turns`, their number, and `shared`,
            which identifies the process.
        stderr: The last 64 KiB of the process's standard error.
        wall_s: Seconds from before the start of the process to after its end, divided by the number of cells that share
            the process.
    """

    status: str = "failed"
    reason: str = ""
    samples: dict[str, list[float]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    stderr: str = ""
    wall_s: float = 0.0
