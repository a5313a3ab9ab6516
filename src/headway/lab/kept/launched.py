"""What one launch gave, as a value."""

from dataclasses import dataclass, field
from typing import Any, final

__all__ = ["Launch"]


@final
@dataclass
class Launch:
    """What one launch gave.

    Attributes:
        status: "ok" or "failed".
        reason: Why it failed, in one line; "" otherwise.
        samples: Metric -> values in order of measurement; set-up metrics are among them with one value.
        facts: What the agent told: `gil_enabled`, `version`, `affinity`, `switch_interval_s`, `timed_s`,
            `utilisation` (core -> share), `course` (stretches with `phase`, `until_s`, `busy_s`), `voluntary_switches`,
            `involuntary_switches`, `max_rss_bytes`. Of launches that took turns in one process also `turns`, how many there
            were, and `shared`, which names the process.
        stderr: The last 64 KiB of the process's standard error.
        wall_s: From before the start to after the end.
    """

    status: str = "failed"
    reason: str = ""
    samples: dict[str, list[float]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    stderr: str = ""
    wall_s: float = 0.0
