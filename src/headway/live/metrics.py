"""The GIL of this process as metrics: for Prometheus (the extra `prometheus`) and OpenTelemetry (the extra `otel`).

    prometheus_client.REGISTRY.register(headway.live.metrics.GilCollector())
    headway.live.metrics.instrument()

The first scrape starts the counting where this process is not recorded already. Threads are grouped by role, so that a
pool of any size is one series: `ThreadPoolExecutor-0_3` counts for `ThreadPoolExecutor-0`.

Counters never go back, though threads end: each scrape adds what every thread has done since the one before. Missing is
what a thread did between the last scrape and its end, where another thread has taken its place in the counters since
(places of threads that ended are taken first), or where the recording ended in between. After fork() the child's
counters begin at 0.
"""

import os
import re
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from headway.errors import RecordingError
from headway.live.counters import Snapshot, ThreadCounters
from headway.live.recording import gil_times
from headway.live.watch import Watch, WatchEndedError
from headway.traces import format as fmt

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
    from prometheus_client import Metric
    from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

__all__ = ["OTHER", "GilCollector", "RoleTotals", "instrument", "normalised"]

OTHER = "other"
"""The role of threads whose own would be one too many."""

_MAX_ROLES = 20
_BOUNDS = range(10, 31, 2)  # of the histogram, as powers of two in nanoseconds: 1 us to 1.07 s
_BUCKET_MASK = 0xFFFFFFFF
_ATTEMPTS = 3  # at a recording that is just being replaced by another


def normalised(name: str) -> str:
    """Return the role that a thread's name stands for: the name without what numbers the thread.

    `ThreadPoolExecutor-0_3` is `ThreadPoolExecutor-0`, `Thread-7 (worker)` is `worker`, `asyncio_4` is `asyncio`,
    `Dummy-3` is `Dummy`, `worker-12` is `worker`; other names stay.
    """
    target = re.fullmatch(r"Thread-\d+ \((.+)\)", name)
    if target:
        return target[1]
    pooled = re.fullmatch(r"(.+?)_\d+", name)
    if pooled:
        return pooled[1]
    numbered = re.fullmatch(r"(.+?)[- #]?\d+", name)
    return numbered[1] if numbered else name


@dataclass
class RoleTotals:
    """What all threads of one role have done; nothing of it ever goes down."""

    hold_ns: int = 0
    wait_ns: int = 0
    """With the waits in progress."""
    voluntary: int = 0
    """Releases that nobody had asked for."""
    forced: int = 0
    ended_wait_ns: int = 0
    """Of the waits in `wait_buckets`."""
    wait_buckets: list[int] = field(default_factory=lambda: [0] * fmt.WAIT_BUCKETS)


@dataclass
class _Seen:
    """The most that was ever seen of one thread's counters."""

    hold_ns: int = 0
    wait_ns: int = 0
    voluntary: int = 0
    forced: int = 0
    ended_wait_ns: int = 0
    wait_buckets: tuple[int, ...] = (0,) * fmt.WAIT_BUCKETS


_SUMS = ("hold_ns", "wait_ns", "voluntary", "forced", "ended_wait_ns")


def _of(thread: ThreadCounters) -> dict[str, int]:
    releases = thread.holds - (thread.state == "holding")
    return {
        "hold_ns": thread.hold_ns,
        "wait_ns": thread.wait_ns,
        "voluntary": releases - thread.forced,
        "forced": thread.forced,
        "ended_wait_ns": thread.wait_ns - (thread.state_ns if thread.state == "waiting" else 0),
    }


class _Roles:
    """Adds up snapshots of one process by role."""

    def __init__(self, role: Callable[[str], str], max_roles: int) -> None:
        self._role = role
        self._max_roles = max_roles
        self._recording = -1
        self._seen: dict[int, _Seen] = {}
        self.totals: dict[str, RoleTotals] = {}

    def add(self, snapshot: Snapshot) -> None:
        """Add what each thread has done since the last snapshot."""
        if snapshot.start_ns != self._recording:
            self._recording = snapshot.start_ns
            self._seen = {}
        there = (*snapshot.exited, *snapshot.threads)
        for thread in there:
            self._add(thread)
        serials = {thread.serial for thread in there}
        self._seen = {serial: seen for serial, seen in self._seen.items() if serial in serials}

    def _add(self, thread: ThreadCounters) -> None:
        seen = self._seen.setdefault(thread.serial, _Seen())
        totals = self._totals_of(thread.name)
        for name, value in _of(thread).items():
            more = value - getattr(seen, name)
            if more > 0:
                setattr(totals, name, getattr(totals, name) + more)
                setattr(seen, name, value)
        for index, (old, new) in enumerate(zip(seen.wait_buckets, thread.wait_buckets, strict=True)):
            totals.wait_buckets[index] += (new - old) & _BUCKET_MASK
        seen.wait_buckets = thread.wait_buckets

    def _totals_of(self, name: str) -> RoleTotals:
        role = self._role(name)
        if role not in self.totals and len(self.totals) >= self._max_roles - (OTHER not in self.totals):
            role = OTHER
        return self.totals.setdefault(role, RoleTotals())


class _Counting:
    """The totals of this process, brought up to date on demand. Any thread may ask."""

    _all: ClassVar[weakref.WeakSet["_Counting"]] = weakref.WeakSet()

    def __init__(self, role: Callable[[str], str] | None, max_roles: int) -> None:
        if max_roles < 1:
            raise ValueError(f"max_roles is {max_roles}, expected at least 1")
        self._role = role or normalised
        self._max_roles = max_roles
        self._reset()
        self._all.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()  # protects the other two
        self._watch: Watch | None = None
        self._roles = _Roles(self._role, self._max_roles)

    @classmethod
    def after_fork(cls) -> None:
        """In the child, where no other thread is left to give a lock back: begin anew."""
        for one in list(cls._all):
            one._reset()  # noqa: SLF001 its own class

    def totals(self) -> dict[str, RoleTotals]:
        """Return the totals by role, as of now.

        Raises:
            RecordingError: This interpreter cannot be recorded.
            NativeError: The native library is missing or does not fit.
        """
        with self._lock:
            for attempt in range(1, _ATTEMPTS + 1):
                gil_times()  # starts the counting if it is not on
                try:
                    if self._watch is None:
                        self._watch = Watch(os.getpid())
                    self._roles.add(self._watch.snapshot())
                    break
                except RecordingError as error:
                    if self._watch is not None:
                        self._watch.close()
                        self._watch = None
                    if attempt == _ATTEMPTS and not isinstance(error, WatchEndedError):
                        raise
            return {role: replace(one, wait_buckets=list(one.wait_buckets)) for role, one in self._roles.totals.items()}


os.register_at_fork(after_in_child=_Counting.after_fork)


class GilCollector:
    """A collector for prometheus_client: `REGISTRY.register(GilCollector())`."""

    def __init__(self, role: Callable[[str], str] | None = None, *, max_roles: int = _MAX_ROLES) -> None:
        """Prepare; nothing is counted before the first scrape.

        Args:
            role: Gives a thread's role by its name; else `normalised`.
            max_roles: How many roles there may be at most, the last of which is `other`.
        """
        self._counting = _Counting(role, max_roles)

    def describe(self) -> Iterable["Metric"]:
        """Return the metrics without samples, so that registering starts no counting."""
        return _families()

    def collect(self) -> Iterator["Metric"]:
        """Return the metrics as of now.

        Raises:
            RecordingError: This interpreter cannot be recorded.
            NativeError: The native library is missing or does not fit.
        """
        hold, wait, handovers, waits = families = _families()
        for role, totals in self._counting.totals().items():
            hold.add_metric([role], totals.hold_ns / 1e9)
            wait.add_metric([role], totals.wait_ns / 1e9)
            handovers.add_metric([role, "voluntary"], totals.voluntary)
            handovers.add_metric([role, "forced"], totals.forced)
            waits.add_metric([role], _cumulative(totals.wait_buckets), sum_value=totals.ended_wait_ns / 1e9)
        yield from families


def _families() -> "tuple[CounterMetricFamily, CounterMetricFamily, CounterMetricFamily, HistogramMetricFamily]":
    from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

    return (
        CounterMetricFamily("python_gil_hold_seconds", "Time that threads held the GIL.", labels=["role"]),
        CounterMetricFamily("python_gil_wait_seconds", "Time that threads waited for the GIL.", labels=["role"]),
        CounterMetricFamily(
            "python_gil_handovers", "Releases of the GIL, by own will or on request.", labels=["role", "kind"]
        ),
        HistogramMetricFamily(
            "python_gil_wait_duration_seconds", "Single waits for the GIL that ended.", labels=["role"]
        ),
    )


def _cumulative(buckets: list[int]) -> list[tuple[str, float]]:
    """Return cumulative counts by upper bound in seconds; a bucket's waits are below its bound, not at it."""
    found = [(repr(2**power / 1e9), float(sum(buckets[: power + 1]))) for power in _BOUNDS]
    return [*found, ("+Inf", float(sum(buckets)))]


def instrument(
    meter_provider: "MeterProvider | None" = None,
    *,
    role: Callable[[str], str] | None = None,
    max_roles: int = _MAX_ROLES,
) -> None:
    """Make the instruments of OpenTelemetry: cpython.gil.hold.time, cpython.gil.wait.time, cpython.gil.handovers.

    All are counters with the attribute `role`, the last one also with `kind`, voluntary or forced. There is no
    histogram of waits: OpenTelemetry has none that is observed.

    Args:
        meter_provider: Else the global one.
        role: Gives a thread's role by its name; else `normalised`.
        max_roles: How many roles there may be at most, the last of which is `other`.
    """
    from opentelemetry.metrics import Observation, get_meter

    from headway import __version__

    counting = _Counting(role, max_roles)

    def holds(_: "CallbackOptions") -> Iterable["Observation"]:
        return [Observation(one.hold_ns / 1e9, {"role": name}) for name, one in counting.totals().items()]

    def waits(_: "CallbackOptions") -> Iterable["Observation"]:
        return [Observation(one.wait_ns / 1e9, {"role": name}) for name, one in counting.totals().items()]

    def handovers(_: "CallbackOptions") -> Iterable["Observation"]:
        totals = counting.totals().items()
        return [
            Observation(getattr(one, kind), {"role": name, "kind": kind})
            for name, one in totals
            for kind in ("voluntary", "forced")
        ]

    meter = get_meter("headway", __version__, meter_provider)
    meter.create_observable_counter("cpython.gil.hold.time", [holds], "s", "Time that threads held the GIL.")
    meter.create_observable_counter("cpython.gil.wait.time", [waits], "s", "Time that threads waited for the GIL.")
    meter.create_observable_counter(
        "cpython.gil.handovers", [handovers], "{handover}", "Releases of the GIL, by own will or on request."
    )
