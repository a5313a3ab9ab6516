"""The figures that a cluster's workers report, and the differences between two reports. The module has values only."""

from dataclasses import dataclass
from typing import Any, Final, final

__all__ = ["METRIC", "Looks", "TaskFigures", "WorkerFigures"]

METRIC: Final = "headway"
"""The name of Headway's figures among a worker's metrics."""


@final
@dataclass(frozen=True)
class TaskFigures:
    """The figures of all tasks with one key prefix since the plugin began.

    Attributes:
        prefix: The prefix of the tasks' keys.
        count: The number of tasks that ended.
        run_s, hold_s, wait_s: The total time that they ran, held the GIL and waited for it.
        longest_hold_s, longest_wait_s: The longest single hold and wait.
    """

    prefix: str
    count: int
    run_s: float
    hold_s: float
    wait_s: float
    longest_hold_s: float
    longest_wait_s: float


@final
@dataclass(frozen=True)
class WorkerFigures:
    """The figures of one worker between two looks. At the first look they cover the time since the plugin began.

    Attributes:
        address, name, pid: The worker's identity.
        is_told: Whether the worker has the plugin.
        policy: The policy of the worker's GIL; "": CPython's own behaviour.
        interval_s: The time between the looks; 0 at the first look, when shares are unknown.
        loop_wait_share: The share of the time in which the event loop's thread waited for the GIL; None: unknown.
        held_share: The share of the time in which any thread held the GIL; None: unknown.
        knocked_share: gilknocker's contention metric of Dask's own monitor: the share of its samples' time in which it waited
            for the GIL; None: the worker has none.
        loop_interval_s: The time from tick to tick of the worker's loop (Dask's own metric; 0.02 means no delay).
        stalls: The number of stalls since the plugin began, and their seconds, by cause; None: unknown, as the plugin does
            not watch the worker, or another process watches it.
        last_stall: The message about the last stall.
        tasks: The tasks' figures by prefix since the plugin began; those that held the GIL longest come first.
    """

    address: str
    name: str
    pid: int
    is_told: bool
    policy: str
    interval_s: float
    loop_wait_share: float | None
    held_share: float | None
    knocked_share: float | None
    loop_interval_s: float | None
    stalls: dict[str, tuple[int, float]] | None
    last_stall: str
    tasks: tuple[TaskFigures, ...]

    @property
    def stall_count(self) -> int | None:
        """The number of stalls; None: unknown."""
        return None if self.stalls is None else sum(count for count, _ in self.stalls.values())

    @property
    def worst_task(self) -> TaskFigures | None:
        """The tasks with the longest single hold, which starve a loop."""
        return max(self.tasks, key=lambda one: one.longest_hold_s, default=None)


def _told_at(worker: dict[str, Any]) -> object:
    return (worker.get("metrics", {}).get(METRIC) or {}).get("time_s")


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _stalls(told: dict[str, Any] | None) -> dict[str, tuple[int, float]] | None:
    return None if told is None else {cause: (int(count), float(sum_s)) for cause, (count, sum_s) in told.items()}


def _tasks(told: dict[str, Any]) -> tuple[TaskFigures, ...]:
    found = [
        TaskFigures(
            prefix=prefix,
            count=int(one["count"]),
            run_s=float(one["run_s"]),
            hold_s=float(one["hold_s"]),
            wait_s=float(one["wait_s"]),
            longest_hold_s=float(one["longest_hold_s"]),
            longest_wait_s=float(one["longest_wait_s"]),
        )
        for prefix, one in told.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.hold_s, one.prefix)))


def _worker(address: str, new: dict[str, Any], old: dict[str, Any] | None) -> WorkerFigures:
    metrics = new.get("metrics", {})
    ours = metrics.get(METRIC) or {}
    before = ((old or {}).get("metrics", {}).get(METRIC) or {}) if old is not None else {}
    if before.get("pid") != ours.get("pid"):
        before = {}  # the worker is another process now
    # A process of another machine that is at this address now has another clock, and may have the same id.
    interval_s = max(0.0, float(ours["time_s"] - before["time_s"])) if before and ours else 0.0
    loop_wait_share = held_share = None
    if interval_s > 0:
        roles, then = ours["roles"], before["roles"]

        def more(role: str, which: int) -> float:
            return max(0.0, float(roles.get(role, (0, 0))[which] - then.get(role, (0, 0))[which]))

        if ours["loop"] in roles:
            loop_wait_share = min(1.0, more(ours["loop"], 1) / interval_s)
        held_share = min(1.0, sum(more(role, 0) for role in roles) / interval_s)
    return WorkerFigures(
        address=address,
        name=str(new.get("name", address)),
        pid=int(ours.get("pid", 0)),
        is_told=bool(ours),
        policy=str(ours.get("policy", "")),
        interval_s=interval_s,
        loop_wait_share=loop_wait_share,
        held_share=held_share,
        knocked_share=_number(metrics.get("gil_contention")),
        loop_interval_s=_number(metrics.get("event_loop_interval")),
        stalls=_stalls(ours.get("stalls")),
        last_stall=str(ours.get("last_stall", "")),
        tasks=_tasks(ours.get("tasks", {})),
    )


@final
class Looks:
    """Repeated looks at a cluster. A worker's figures come with its heartbeats, some seconds apart."""

    def __init__(self, workers: dict[str, Any]) -> None:
        """Look for the first time.

        Args:
            workers: The scheduler's description of its workers (Client.scheduler_info()["workers"]).
        """
        self._last = workers
        self._before: dict[str, dict[str, Any]] = {}

    def look(self, workers: dict[str, Any]) -> list[WorkerFigures]:
        """Return each worker's figures between its last two heartbeats; the longest waits of a loop come first."""
        found = []
        for address, one in workers.items():
            last = self._last.get(address)
            if last is not None and _told_at(last) != _told_at(one):
                self._before[address] = last
            found.append(_worker(address, one, self._before.get(address)))
        self._before = {address: one for address, one in self._before.items() if address in workers}
        self._last = workers
        return sorted(found, key=lambda one: (-(one.loop_wait_share or 0.0), -(one.stall_count or 0), one.name))
