"""The counters of a process's threads at one moment, and the rates between two such moments.

The module only holds values: headway.live.watch reads them from a process. Counters are read while they are written, so
one counter may be newer than another by one hand-off of the GIL; no difference is ever negative. A thread that released
the GIL on request counts as away until it asks again: its wait is counted then, from the release on. So the first such
wait of an interval may have begun before it.

Waits are kept as a histogram with a bucket for each power of two in nanoseconds. A percentile of it is therefore off by
less than a factor of two, and lies in the same bucket as the true one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headway.live.header import Header
from headway.live.slots import SLOT_BYTES, ThreadCounters, serial_of, thread_counters

__all__ = [
    "EndedRates",
    "GilRates",
    "Rates",
    "Snapshot",
    "ThreadRates",
    "decode",
    "difference",
    "percentile",
]

_BUCKET_MASK = 0xFFFFFFFF  # buckets are 32-bit counters, which wrap around


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All counters of one process at one moment."""

    time_ns: int
    """The time of the snapshot (CLOCK_MONOTONIC)."""
    start_ns: int
    """The start of the recording; another value means another recording, with other serials."""
    thread_count: int
    """The number of serials given so far."""
    threads: tuple[ThreadCounters, ...]
    """The living threads."""
    exited: tuple[ThreadCounters, ...]
    """Ended threads whose counters no later thread has overwritten: if there are few threads, or they ended late."""
    has_gil: bool
    """False if free-threaded, with the GIL off."""
    began_ns: Mapping[int, int] = field(default_factory=dict)
    """When living threads began, by serial, as `headway.live.beginnings` tells it; without those that nobody asked for.

    A thread has no counters before its first event, which is late in its life after an attach, or without a GIL.
    """


@dataclass(frozen=True, slots=True)
class ThreadRates:
    """The rates of one living thread between two snapshots."""

    now: ThreadCounters
    hold_share: float
    """The share of the wall time in which the thread held the GIL, from 0 to 1."""
    wait_share: float
    holds_per_s: float
    waits_per_s: float
    """Ended waits per second."""
    forced_per_s: float
    wait_p50_ns: float | None
    """The median of ended waits; None if there were none. All percentiles are off by less than a factor of two."""
    wait_p90_ns: float | None
    wait_p99_ns: float | None
    worst_wait_ns: int
    """The longest wait, one in progress included: exact if the thread's longest ever, else its bucket's upper end."""


@dataclass(frozen=True, slots=True)
class GilRates:
    """The use of one GIL between two snapshots.

    A thread counts for the GIL that it acquired last. The use by threads that exited is missing if another thread has
    reused their slot since.
    """

    index: int
    utilisation: float
    """The share of the wall time in which the GIL was held, from 0 to 1."""
    handovers_per_s: float
    holder: ThreadCounters | None
    """The GIL's holder at the second snapshot."""


@dataclass(frozen=True, slots=True)
class EndedRates:
    """The rates of all threads that ended between two snapshots, including those that began after the first one."""

    count: int
    """The number of threads that ended."""
    known: int
    """The number of threads in the other fields: later threads may have overwritten the counters of the rest."""
    hold_share: float
    """The share of the wall time; above 1 if the threads held several GILs."""
    wait_share: float
    """The share of the wall time; above 1 if several threads waited at a time."""
    waits_per_s: float
    forced_per_s: float
    worst_wait_ns: int


@dataclass(frozen=True, slots=True)
class Rates:
    """The rates between two snapshots of one process."""

    time_ns: int
    """The time of the second snapshot."""
    wall_ns: int
    threads: tuple[ThreadRates, ...]
    """The living threads; the thread with the longest holds and waits comes first."""
    gils: tuple[GilRates, ...]
    came: tuple[ThreadCounters, ...]
    """Living threads that began after the first snapshot; not those that it lacks because they had had no event yet."""
    went: tuple[ThreadCounters, ...]
    """Threads of the first snapshot that no longer live."""
    ended: EndedRates
    """The threads in `went`, and threads that came and went between the snapshots."""


def decode(header: Header, slots: bytes, time_ns: int) -> Snapshot:
    """Return the snapshot that whole slots, read after `time_ns`, contain."""
    rows = [thread_counters(slots, at, time_ns) for at in range(0, len(slots), SLOT_BYTES) if serial_of(slots, at)]
    return Snapshot(
        time_ns=time_ns,
        start_ns=header.start_ns,
        thread_count=header.thread_count,
        threads=tuple(one for one in rows if one.state != "exited"),
        exited=tuple(one for one in rows if one.state == "exited"),
        has_gil=header.has_gil,
    )


def percentile(buckets: Sequence[int], share: float, longest_ns: float | None = None) -> float | None:
    """Return a percentile of waits, which are taken as evenly spread within a bucket; None without waits.

    Args:
        buckets: Counts as in `ThreadCounters.wait_buckets`.
        share: The share of the waits that are below the percentile, from 0 to 1.
        longest_ns: The length of the longest wait, if known.
    """
    total = sum(buckets)
    if not total:
        return None
    rank = share * total
    below = 0
    found = 0.0
    for index, count in enumerate(buckets):
        if count and below + count >= rank:
            low, high = (2.0 ** (index - 1), 2.0**index) if index else (0.0, 1.0)
            found = low + (high - low) * max(0.0, rank - below) / count
            break
        below += count
    return found if longest_ns is None else min(found, longest_ns)


def _bucket_differences(new: ThreadCounters, old: ThreadCounters | None) -> tuple[int, ...]:
    if old is None:
        return new.wait_buckets
    return tuple((b - a) & _BUCKET_MASK for a, b in zip(old.wait_buckets, new.wait_buckets, strict=True))


def _worst_wait(new: ThreadCounters, old: ThreadCounters | None, buckets: Sequence[int]) -> int:
    ended = 0
    if old is None or new.worst_wait_ns > old.worst_wait_ns:
        ended = new.worst_wait_ns
    else:
        highest = max((index for index, count in enumerate(buckets) if count), default=-1)
        if highest >= 0:
            last = highest == len(buckets) - 1
            ended = new.worst_wait_ns if last else min(2**highest, new.worst_wait_ns)
    return max(ended, new.state_ns if new.state == "waiting" else 0)


def _rates(new: ThreadCounters, old: ThreadCounters | None, wall_ns: int) -> ThreadRates:
    buckets = _bucket_differences(new, old)
    worst = _worst_wait(new, old, buckets)

    def gone_up(name: str) -> int:
        return max(0, int(getattr(new, name)) - (int(getattr(old, name)) if old is not None else 0))

    p50, p90, p99 = (percentile(buckets, share, worst) for share in (0.5, 0.9, 0.99))
    return ThreadRates(
        now=new,
        hold_share=min(1.0, gone_up("hold_ns") / wall_ns),
        wait_share=min(1.0, gone_up("wait_ns") / wall_ns),
        holds_per_s=gone_up("holds") * 1e9 / wall_ns,
        waits_per_s=gone_up("waits") * 1e9 / wall_ns,
        forced_per_s=gone_up("forced") * 1e9 / wall_ns,
        wait_p50_ns=p50,
        wait_p90_ns=p90,
        wait_p99_ns=p99,
        worst_wait_ns=worst,
    )


def _by_serial(threads: Iterable[ThreadCounters]) -> dict[int, ThreadCounters]:
    return {one.serial: one for one in threads}


def difference(old: Snapshot, new: Snapshot) -> Rates:
    """Return the rates between two snapshots of one recording, the earlier first.

    Raises:
        ValueError: The snapshots are of two recordings.
    """
    if old.start_ns != new.start_ns:
        raise ValueError("the snapshots are of different recordings, and cannot be compared")
    wall_ns = max(1, new.time_ns - old.time_ns)
    before = _by_serial((*old.threads, *old.exited))
    alive = [_rates(one, before.get(one.serial), wall_ns) for one in new.threads]
    there, then = _by_serial(new.threads), _by_serial(old.threads)
    # Counters of a thread that ended before the first snapshot stand until a later thread overwrites them.
    over = [
        _rates(one, then.get(one.serial), wall_ns)
        for one in new.exited
        if one.serial in then or (one.serial not in before and one.serial > old.thread_count)
    ]
    gils = []
    for index in sorted({one.now.gil for one in alive if one.now.holds}):
        mine = [one for one in (*alive, *over) if one.now.gil == index]
        holding = [one.now for one in mine if one.now.state == "holding"]
        gils.append(
            GilRates(
                index=index,
                utilisation=min(1.0, sum(one.hold_share for one in mine)),
                handovers_per_s=sum(one.holds_per_s for one in mine),
                # Of two holders, one was read before its release, one after its acquire: the later one holds the GIL.
                holder=min(holding, key=lambda one: one.state_ns, default=None),
            )
        )
    return Rates(
        time_ns=new.time_ns,
        wall_ns=wall_ns,
        threads=tuple(sorted(alive, key=lambda one: (-one.hold_share - one.wait_share, one.now.serial))),
        gils=tuple(gils) if new.has_gil else (),
        came=tuple(
            one
            for serial, one in there.items()
            if serial not in then and new.began_ns.get(serial, new.time_ns) > old.time_ns
        ),
        went=tuple(one for serial, one in then.items() if serial not in there),
        ended=_ended(over, len(then) + new.thread_count - old.thread_count - len(there)),
    )


def _ended(known: Sequence[ThreadRates], count: int) -> EndedRates:
    return EndedRates(
        count=max(count, len(known)),
        known=len(known),
        hold_share=sum(one.hold_share for one in known),
        wait_share=sum(one.wait_share for one in known),
        waits_per_s=sum(one.waits_per_s for one in known),
        forced_per_s=sum(one.forced_per_s for one in known),
        worst_wait_ns=max((one.worst_wait_ns for one in known), default=0),
    )
