"""The result of a simulated run: the work of each role and client with its times, and the use of each GIL."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from headway.native_sim import GilResult, RoleResult

__all__ = [
    "LEAST",
    "THE_GIL",
    "GilOutcome",
    "Outcome",
    "PartOutcome",
    "Stuck",
    "gil_outcome",
    "part_outcome",
    "percentile",
]

LEAST = {"p50_ms": 1, "p90_ms": 30, "p99_ms": 300, "max_ms": 1}
"""The least number of pieces of work for each percentile; with fewer, the percentile depends mostly on chance."""

_POINTS = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "max_ms": 1.0}
_MS_NS = 1e6


@final
@dataclass(frozen=True)
class PartOutcome:
    """The work of all of a role's threads, or of a client's connections, in the counted time.

    Attributes:
        name: The name of the role or client.
        client: True for a client.
        threads: The number of threads, or of connections.
        done: The number of pieces of work done.
        done_per_s: The same per second.
        p50_ms: The median time of a piece of work; None if there are too few (LEAST).
        p90_ms: The 90th percentile of the times.
        p99_ms: The 99th percentile of the times.
        max_ms: The longest time.
        cpu_share: CPU time as a share of elapsed time; 2.0 means two cores all the time.
        work_share: Time spent in the program's own steps (hold, call, run, compute), as a share of elapsed time.
        held_share: Time that the threads held the GIL, as a share of elapsed time.
        waited_share: Time that the threads waited for the GIL, as a share of all threads' time.
        waits_per_s: The number of waits for the GIL per second.
        worst_wait_ms: The longest wait for the GIL.
    """

    name: str
    client: bool
    threads: int
    done: int
    done_per_s: float
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    cpu_share: float
    work_share: float
    held_share: float
    waited_share: float
    waits_per_s: float
    worst_wait_ms: float


@final
@dataclass(frozen=True)
class GilOutcome:
    """The use of a GIL in the counted time.

    Attributes:
        name: The name of its process.
        held_share: The time that the GIL was held, as a share of elapsed time.
        acquires_per_s: The number of acquires per second.
        forced_per_s: The number of preemptions per second.
        requests_per_s: The number of requests per second.
    """

    name: str
    held_share: float
    acquires_per_s: float
    forced_per_s: float
    requests_per_s: float


THE_GIL = "the GIL"
"""In `Stuck.waits_for`: the threads starve. What they would have done is in no figure of the result."""


@final
@dataclass(frozen=True)
class Stuck:
    """Threads of a role that have not gone on since the first half of the counted time.

    Attributes:
        role: The name of the role.
        threads: The number of these threads.
        waits_for: The lock, queue or semaphore that one of them waits for, such as `lock a`; or THE_GIL.
    """

    role: str
    threads: int
    waits_for: str


@final
@dataclass(frozen=True)
class Outcome:
    """The result of one run.

    Attributes:
        seed: Its seed.
        elapsed_s: The time that is counted, in virtual seconds.
        ended: Whether all threads ended; the time until then is counted.
        steps: The number of steps of the simulator.
        parts: Roles, then clients.
        gils: The GILs, in the order of the processes.
        stuck: The roles with threads that may wait for ever.
        stood_s: The virtual time, from the start on, after which all threads that are left wait for ever; None: there is none.
    """

    seed: int
    elapsed_s: float
    steps: int
    parts: tuple[PartOutcome, ...]
    gils: tuple[GilOutcome, ...]
    ended: bool = False
    stuck: tuple[Stuck, ...] = ()
    stood_s: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values. The same scenario, costs and seed give the same values."""
        return asdict(self)


def part_outcome(
    name: str,
    *,
    client: bool,
    threads: int,
    results: Sequence[RoleResult],
    latencies_ns: NDArray[np.float32],
    elapsed_ns: int,
) -> PartOutcome:
    """Return the outcome of a role or client from the results of its parts, one for each process that it is in."""

    def total(field: str) -> int:
        return sum(getattr(one, field) for one in results)

    elapsed_s = elapsed_ns / 1e9
    ordered_ms = np.sort(latencies_ns).astype(np.float64) / _MS_NS
    points = {key: percentile(ordered_ms, point, LEAST[key]) for key, point in _POINTS.items()}
    return PartOutcome(
        name=name,
        client=client,
        threads=threads,
        done=total("done"),
        done_per_s=total("done") / elapsed_s,
        **points,
        cpu_share=total("cpu_ns") / elapsed_ns,
        work_share=total("computed_ns") / elapsed_ns,
        held_share=total("held_ns") / elapsed_ns,
        waited_share=total("waited_ns") / (elapsed_ns * max(1, threads)),
        waits_per_s=total("waits") / elapsed_s,
        worst_wait_ms=max((one.worst_wait_ns for one in results), default=0) / _MS_NS,
    )


def percentile(ordered: NDArray[Any], point: float, least: int) -> float | None:
    """Return a percentile of ordered values by nearest rank, `point` above 0 and up to 1; None below `least` values."""
    return float(ordered[math.ceil(point * len(ordered)) - 1]) if len(ordered) >= least else None


def gil_outcome(name: str, result: GilResult, elapsed_ns: int) -> GilOutcome:
    """Return the outcome of a GIL."""
    elapsed_s = elapsed_ns / 1e9
    return GilOutcome(
        name=name,
        held_share=result.held_ns / elapsed_ns,
        acquires_per_s=result.acquires / elapsed_s,
        forced_per_s=result.forced / elapsed_s,
        requests_per_s=result.requests / elapsed_s,
    )
