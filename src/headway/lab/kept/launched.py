"""The results of one launch, as a value."""

from dataclasses import dataclass, field
from typing import Any, final

__all__ = ["Launch"]


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
