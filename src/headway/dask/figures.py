"""What the workers of a cluster say of themselves, and what went on between two such sayings. Values only."""

from dataclasses import dataclass
from typing import Any, Final, final

from headway.dask.tasks import OTHER

__all__ = ["METRIC", "Looks", "TaskFigures", "WorkerFigures"]

METRIC: Final = "headway"
"""What a worker's figures are called among its metrics."""


@final
@dataclass(frozen=True)
class TaskFigures:
    """What the tasks of one key prefix did since the plugin began.

    Attributes:
        prefix: Of their keys.
        count: Tasks that ended.
        run_s, hold_s, wait_s: How long they ran, held the GIL and waited for it, in all.
        longest_hold_s, longest_wait_s: The longest single one.
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
    """What one worker did between two looks; or, at the first one, since the plugin began, with shares unknown.

    Attributes:
        address, name, pid: Which.
        is_told: It has the plugin.
        policy: Of its GIL; "": CPython's own.
        interval_s: Between the looks; 0: this is the first.
        loop_wait_share: Share of the time that the event loop's thread waited for the GIL; None: not known.
        held_share: Share of the time that somebody held the GIL; None: not known.
        knocked_share: gilknocker's contention metric of Dask's own monitor; None: the worker has none.
        loop_interval_s: How long the worker's loop takes from tick to tick (Dask's own; 0.02 is none late).
        stalls: By cause, how many there were since the plugin began, and their seconds.
        last_stall: What was said of the last one.
        tasks: By prefix, those that held the GIL longest first, since the plugin began.
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
    stalls: dict[str, tuple[int, float]]
    last_stall: str
    tasks: tuple[TaskFigures, ...]

    @property
    def stall_count(self) -> int:
        """How many stalls there were."""
        return sum(count for count, _ in self.stalls.values())

    @property
    def worst_task(self) -> TaskFigures | None:
        """Those with the longest single hold: the ones that starve a loop."""
        named = [one for one in self.tasks if one.prefix != OTHER] or list(self.tasks)
        return max(named, key=lambda one: one.longest_hold_s, default=None)


def _told_at(worker: dict[str, Any]) -> object:
    return (worker.get("metrics", {}).get(METRIC) or {}).get("time_s")


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


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
        before = {}  # it is another process
    interval_s = float(ours["time_s"] - before["time_s"]) if before and ours else 0.0
    loop_wait_share = held_share = None
    if interval_s > 0:
        roles, then = ours["roles"], before["roles"]

        def more(role: str, which: int) -> float:
            return max(0.0, float(roles.get(role, (0, 0))[which] - then.get(role, (0, 0))[which]))

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
        stalls={cause: (int(count), float(sum_s)) for cause, (count, sum_s) in ours.get("stalls", {}).items()},
        last_stall=str(ours.get("last_stall", "")),
        tasks=_tasks(ours.get("tasks", {})),
    )


@final
class Looks:
    """Looks at a cluster, one after the other. A worker's figures come with its heartbeats, each some seconds."""

    def __init__(self, workers: dict[str, Any]) -> None:
        """Look for the first time.

        Args:
            workers: The scheduler's (Client.scheduler_info()["workers"]).
        """
        self._last = workers
        self._before: dict[str, dict[str, Any]] = {}

    def look(self, workers: dict[str, Any]) -> list[WorkerFigures]:
        """Return what each worker did between its last two heartbeats, those whose loops waited longest first."""
        found = []
        for address, one in workers.items():
            last = self._last.get(address)
            if last is not None and _told_at(last) != _told_at(one):
                self._before[address] = last
            found.append(_worker(address, one, self._before.get(address)))
        self._before = {address: one for address, one in self._before.items() if address in workers}
        self._last = workers
        return sorted(found, key=lambda one: (-(one.loop_wait_share or 0.0), -one.stall_count, one.name))
