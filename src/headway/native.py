"""Call the shared library's functions from Python.

One file: no other module of the controller knows how these functions are called from Python. The workloads in C run
inside launches, where the agent binds the functions that they need.
"""

import ctypes
import functools
import os
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from headway.agent.headway_agent.library import ABI_VERSION
from headway.errors import SchedulingError
from headway.library import library_path

__all__ = [
    "ABI_VERSION",
    "CALIBRATION_CALLS",
    "CALIBRATION_PAIRS",
    "CALIBRATION_WAYS",
    "CHUNK_BYTES",
    "HOME_LOOP",
    "HOME_NONE",
    "HOME_OUTSIDE",
    "HOME_POOL",
    "HOME_REQUEST",
    "CalibrationFacts",
    "CalibrationPlan",
    "Collection",
    "CollectionState",
    "KeptMemory",
    "Laps",
    "LateLap",
    "Policy",
    "PolicyOption",
    "Wakes",
    "Worth",
    "calibrate_call",
    "calibrate_gaps",
    "calibrate_interrupt",
    "calibrate_pair",
    "calibrate_timer",
    "calibrate_wake",
    "calibration_facts",
    "find_policy",
    "policies",
    "wait_for_threads",
]

CHUNK_BYTES = 16384
"""The size of a chunk, the unit of a traced process's memory and of its file (native/trace/format.h)."""


@dataclass(frozen=True)
class PolicyOption:
    """An option of a policy for the GIL.

    Attributes:
        name: The name, which ends with the unit.
        least, most: The bounds of its values.
        preset: The value if none is given.
        about: What it changes.
    """

    name: str
    least: int
    most: int
    preset: int
    about: str


@dataclass(frozen=True)
class Policy:
    """A policy for the GIL (native/policy).

    Attributes:
        name: The name, as `--policy` takes it.
        about: What it does.
        good_for, bad_at: The programs that it helps, and those that it does not.
        options: Its own options.
    """

    name: str
    about: str
    good_for: str
    bad_at: str
    options: tuple[PolicyOption, ...]


class _Option(ctypes.Structure):
    """struct hw_policy_option of native/include/headway/policy.h."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("least", ctypes.c_int64),
        ("most", ctypes.c_int64),
        ("preset", ctypes.c_int64),
        ("about", ctypes.c_char_p),
    )


class _Policy(ctypes.Structure):
    """The first fields of struct hw_policy."""

    _fields_ = (
        ("abi", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
        ("about", ctypes.c_char_p),
        ("good_for", ctypes.c_char_p),
        ("bad_at", ctypes.c_char_p),
        ("options", ctypes.POINTER(_Option)),
    )


def _options(first: "ctypes._Pointer[_Option]") -> tuple[PolicyOption, ...]:
    found: list[PolicyOption] = []
    while (one := first[len(found)]).name is not None:
        found.append(PolicyOption(one.name.decode(), one.least, one.most, one.preset, _text(one.about)))
    return tuple(found)


def _text(text: bytes | None) -> str:
    """Decode a text that a user's own policy may leave out; return "" for one that is missing."""
    return "" if text is None else text.decode(errors="replace")


def _described(one: _Policy) -> Policy:
    return Policy(
        name=_text(one.name),
        about=_text(one.about),
        good_for=_text(one.good_for),
        bad_at=_text(one.bad_at),
        options=_options(one.options) if one.options else (),
    )


@functools.cache
def policies() -> tuple[tuple[Policy, ...], tuple[PolicyOption, ...]]:
    """Return the built-in policies, the default one first, and the options that every policy has besides its own.

    Raises:
        NativeError: The library is missing or does not fit.
    """
    library = ctypes.CDLL(str(library_path()))
    library.hw_policy_at.restype = ctypes.POINTER(_Policy)
    library.hw_policy_engine_options.restype = ctypes.POINTER(_Option)
    found: list[Policy] = []
    while pointer := library.hw_policy_at(len(found)):
        found.append(_described(pointer.contents))
    return tuple(found), _options(library.hw_policy_engine_options())


def find_policy(name: str) -> tuple[int, Policy]:
    """Find a policy by its name; load the library if the name is a path (it has a slash).

    Returns the address of the policy's `struct hw_policy`, which stays valid, and the policy's description.

    Raises:
        SchedulingError: There is no such policy.
        NativeError: Headway's library is missing or does not fit.
    """
    library = ctypes.CDLL(str(library_path()))
    library.hw_policy_find.restype = ctypes.POINTER(_Policy)
    library.hw_policy_find.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int]
    problem = ctypes.create_string_buffer(256)
    pointer = library.hw_policy_find(os.fsencode(name), problem, len(problem))
    if not pointer:
        raise SchedulingError(
            problem.value.decode(errors="replace") or f"there is no policy {name!r}",
            hint="`headway policies` lists the built-in policies; name your own policy by a path with a slash",
        )
    return ctypes.addressof(pointer.contents), _described(pointer.contents)


class _State(ctypes.Structure):
    """struct hw_collect_state of native/include/headway/collect.h."""

    _fields_ = (
        ("pid", ctypes.c_int32),
        ("ended", ctypes.c_int32),
        ("chunks", ctypes.c_int64),
        ("dropped_events", ctypes.c_int64),
        ("lost_children", ctypes.c_int64),
        ("error", ctypes.c_int32),
        ("closed", ctypes.c_int32),
        ("overwritten_until_ns", ctypes.c_int64),
        ("lost_meta", ctypes.c_int64),
    )


@dataclass(frozen=True, slots=True)
class CollectionState:
    """The state of a collection after its last pass."""

    ended: bool
    """True if the session is over and all of it is in the file."""
    chunks: int
    """The number of chunks in the file, of CHUNK_BYTES each."""
    dropped_events: int
    lost_children: int
    """The number of the process's children that are not recorded, because they could not reach the collector."""
    error: int
    """The errno of the last write that failed, or 0."""
    closed: int
    """The number of chunks of memory that were complete in this pass and were given back."""
    overwritten_until_ns: int
    """The time of the latest event that was overwritten to make room (CLOCK_MONOTONIC); 0 if none was."""
    lost_meta: int
    """The number of chunks of names, code and stacks for which the file had no room."""


HOME_NONE, HOME_LOOP, HOME_POOL, HOME_OUTSIDE, HOME_REQUEST = 1, 2, 3, 4, 5
"""HW_HOME_* of native/include/headway/collect.h."""
_HOMES, _LAP_BUCKETS, _LAP_LOOPS, _LAP_LAST, _LAP_UNDER_WAY = 4, 40, 32, 32, 128
_MOST_FRESH = 1024


class _Lap(ctypes.Structure):
    _fields_ = (
        ("serial", ctypes.c_uint32),
        ("home", ctypes.c_uint32),
        ("begun_ns", ctypes.c_int64),
        ("ended_ns", ctypes.c_int64),
        ("away_since_ns", ctypes.c_int64),
        ("away_until_ns", ctypes.c_int64),
        ("away_stack", ctypes.c_uint32),
        ("unused", ctypes.c_uint32),
    )


class _Laps(ctypes.Structure):
    _fields_ = (
        ("late", ctypes.c_uint64 * _HOMES),
        ("lengths", ctypes.c_uint64 * _LAP_BUCKETS),
        ("lengths_ns", ctypes.c_uint64),
        ("open", ctypes.c_uint32 * _HOMES),
        ("loop_count", ctypes.c_uint32),
        ("loops", ctypes.c_uint32 * _LAP_LOOPS),
        ("under_way_count", ctypes.c_uint32),
        ("under_way", _Lap * _LAP_UNDER_WAY),
        ("last", _Lap * _LAP_LAST * _HOMES),
    )


class _Look(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_int64) for name in ("hold_ns", "wait_ns", "still_ns", "away_ns"))


class Wakes(Enum):
    """The reason why `wait_for_threads` returned: HW_WAIT_* of native/include/headway/collect.h."""

    OVER = 0
    READY = 1
    THREAD = 2


@dataclass(frozen=True, slots=True)
class Worth:
    """The lengths, in ns, from which on a thread is worth a look from outside.

    Attributes:
        hold_ns: The length of a hold of a GIL.
        wait_ns: The length of a wait for a GIL.
        still_ns: How long a thread with an event loop has been doing something other than its poll.
        away_ns: How long ago the thread released the GIL; about two looks are taken when it passes this length.
    """

    hold_ns: int
    wait_ns: int
    still_ns: int
    away_ns: int


def wait_for_threads(
    collections: Sequence["Collection"], worth: Worth, *, tick_ns: int, until_ns: int, descriptor: int
) -> Wakes:
    """Wait until a given time, and look at the threads of watched processes at each tick, without running Python.

    Args:
        collections: The collections of the processes; `watch` must have been called on each.
        worth: The thresholds from which on a thread ends the wait.
        tick_ns: The time between two looks at the threads.
        until_ns: The time when the wait ends, as time.monotonic_ns() counts.
        descriptor: The wait also ends when this descriptor is readable, and when a signal arrives.
    """
    pointers = (ctypes.c_void_p * len(collections))(*(one.pointer for one in collections))
    look = _Look(worth.hold_ns, worth.wait_ns, worth.still_ns, worth.away_ns)
    found = _collecting().hw_collect_wait(pointers, len(collections), look, tick_ns, until_ns, descriptor)
    return Wakes(found)


@dataclass(frozen=True, slots=True)
class Laps:
    """The laps of threads. A lap is the time from when a thread leaves its waiting place until it returns there."""

    late_loops: int
    """The number of event loops' laps, since the watch began, that took too long and are over."""
    late_pools: int
    open_loops: int
    """The number of event loops' laps that take too long already and still go on."""
    open_pools: int
    lengths: tuple[int, ...]
    """Item i is the number of event loops' laps, since the watch began, whose length in ns has bit length i."""
    lengths_ns: int
    """The sum of the lengths of all laps counted in `lengths`."""
    loops: tuple[int, ...]
    """Serials of the threads that have an event loop; only some of them if there are many."""


@dataclass(frozen=True, slots=True)
class LateLap:
    """A lap that took too long. A thread is away while it neither has nor wants the GIL."""

    serial: int
    """The serial of its thread."""
    home: int
    """HOME_LOOP or HOME_POOL: where it began."""
    begun_ns: int
    ended_ns: int
    """0: it goes on."""
    away_since_ns: int
    """The begin of the longest time in the lap in which the thread was away; 0: there is none."""
    away_until_ns: int
    """0: the thread still is."""
    away_stack: int
    """The id in the file of the stack at which it yielded the GIL then."""


class _Kept(ctypes.Structure):
    """struct hw_trace_kept of native/include/headway/trace.h."""

    _fields_ = (("page", ctypes.c_void_p), ("bytes", ctypes.c_uint64), ("session", ctypes.c_uint64))


@functools.cache
def _collecting() -> ctypes.CDLL:
    library = ctypes.CDLL(str(library_path()), use_errno=True)
    library.hw_collect_open.restype = ctypes.c_void_p
    library.hw_collect_open.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_char_p]
    library.hw_collect_open_kept.restype = ctypes.c_void_p
    library.hw_collect_open_kept.argtypes = [ctypes.POINTER(_Kept), ctypes.c_int]
    library.hw_trace_keep.argtypes = [ctypes.POINTER(_Kept)]
    library.hw_trace_let_go.restype = None
    library.hw_trace_let_go.argtypes = [ctypes.POINTER(_Kept)]
    library.hw_trace_in_memory.restype = ctypes.c_uint64
    library.hw_collect_family.restype = ctypes.c_uint64
    library.hw_collect_family.argtypes = [ctypes.c_void_p]
    library.hw_collect_began.restype = None
    library.hw_collect_began.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    library.hw_collect_lived.restype = None
    library.hw_collect_lived.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    library.hw_collect_limit.restype = None
    library.hw_collect_limit.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    library.hw_collect_limit_meta.restype = None
    library.hw_collect_limit_meta.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    library.hw_collect_beat.restype = None
    library.hw_collect_beat.argtypes = [ctypes.c_void_p]
    library.hw_collect_share.restype = None
    library.hw_collect_share.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
    library.hw_collect_pass.restype = None
    library.hw_collect_pass.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(_State)]
    library.hw_collect_watch.restype = ctypes.c_int
    library.hw_collect_watch.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64)]
    library.hw_collect_fills.restype = ctypes.c_int
    library.hw_collect_fills.argtypes = [ctypes.c_void_p]
    library.hw_collect_fresh.restype = ctypes.c_int
    library.hw_collect_fresh.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint32), ctypes.c_int]
    library.hw_collect_settle.restype = None
    library.hw_collect_settle.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int]
    library.hw_collect_laps.restype = None
    library.hw_collect_laps.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(_Laps)]
    library.hw_collect_wait.restype = ctypes.c_int
    library.hw_collect_wait.argtypes = [
        ctypes.POINTER(ctypes.c_void_p),
        ctypes.c_int,
        ctypes.POINTER(_Look),
        ctypes.c_int64,
        ctypes.c_int64,
        ctypes.c_int,
    ]
    library.hw_collect_hurry.restype = None
    library.hw_collect_hurry.argtypes = [ctypes.c_void_p]
    library.hw_collect_close.restype = None
    library.hw_collect_close.argtypes = [ctypes.c_void_p]
    return library


class KeptMemory:
    """The memory of this process's present recording, which has no collector; kept also after the recording's end.

    The memory is mapped. A descriptor would be the program's to close, and its number might be another file's by then.
    """

    def __init__(self) -> None:
        """Keep the memory as long as this object is there.

        Raises:
            OSError: There is no such recording (ESRCH), or the memory cannot be mapped.
            NativeError: The library is missing or does not fit.
        """
        self._library, self._kept = _collecting(), _Kept()
        pointer = ctypes.byref(self._kept)
        failed = self._library.hw_trace_keep(pointer)
        if failed:
            raise OSError(-failed, os.strerror(-failed))
        weakref.finalize(self, self._library.hw_trace_let_go, pointer).atexit = False

    @property
    def is_present(self) -> bool:
        """Whether the recording goes on."""
        return bool(self._library.hw_trace_in_memory() == self._kept.session)

    @property
    def as_parameter(self) -> "ctypes._CArgObject":
        """A pointer to struct hw_trace_kept."""
        return ctypes.byref(self._kept)


class Collection:
    """Copies what a process records from the process's memory to a file (native/include/headway/collect.h)."""

    def __init__(self, memory: int | KeptMemory, file: int, path: Path | None = None) -> None:
        """Map the memory.

        Args:
            memory: The descriptor that the process sent, which the caller keeps and closes; or this process's own memory,
                which is not collected while it fills.
            file: The descriptor of the file; the caller keeps it, and must keep it open as long as the collection.
            path: The path of the file, which the process is told; None: the memory is not collected while it fills.

        Raises:
            OSError: The memory does not come from Headway's recorder (EPROTO), or there is not enough memory.
            NativeError: The library is missing or does not fit.
        """
        self._library = _collecting()
        if isinstance(memory, KeptMemory):
            self._pointer = self._library.hw_collect_open_kept(memory.as_parameter, file)
        else:
            self._pointer = self._library.hw_collect_open(memory, file, None if path is None else os.fsencode(path))
        if not self._pointer:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    @property
    def pointer(self) -> int:
        """The address of struct hw_collection."""
        return int(self._pointer)

    @property
    def family(self) -> int:
        """The id of the launch that the process says it belongs to."""
        return int(self._library.hw_collect_family(self._pointer))

    def began(self, realtime_ns: int) -> None:
        """Tell when the process began, in CLOCK_REALTIME; 0: that is not known. The file has it from the next copy on."""
        self._library.hw_collect_began(self._pointer, realtime_ns)

    def lived(self, until_ns: int) -> None:
        """Tell a time at which the process still ran the program that it records. The file has it from the next copy on."""
        self._library.hw_collect_lived(self._pointer, until_ns)

    def limit(self, chunks: int) -> None:
        """Limit the file to a number of chunks; beyond it, new events replace the oldest ones."""
        self._library.hw_collect_limit(self._pointer, chunks)

    def limit_meta(self, chunks: int) -> None:
        """Limit names, code and stacks to a number of chunks of their own; they then leave events their room."""
        self._library.hw_collect_limit_meta(self._pointer, chunks)

    def share(self, chunks: int) -> None:
        """Limit the process to a number of chunks of memory."""
        self._library.hw_collect_share(self._pointer, chunks)

    def beat(self) -> None:
        """Give the process a sign of life; without further ones it stops recording (headway.live.upkeep)."""
        self._library.hw_collect_beat(self._pointer)

    def copy(self, *, last: bool = False) -> CollectionState:
        """Copy what is new to the file; `last` says that the process is gone."""
        state = _State()
        self._library.hw_collect_pass(self._pointer, int(last), ctypes.byref(state))
        return CollectionState(
            ended=bool(state.ended),
            chunks=state.chunks,
            dropped_events=state.dropped_events,
            lost_children=state.lost_children,
            error=state.error,
            closed=state.closed,
            overwritten_until_ns=state.overwritten_until_ns,
            lost_meta=state.lost_meta,
        )

    def watch(self, *, loop_ns: int, pool_ns: int) -> None:
        """Begin to measure laps; those of at least `loop_ns` and `pool_ns` count as late. Raises MemoryError."""
        least = (ctypes.c_int64 * _HOMES)()
        least[HOME_LOOP], least[HOME_POOL] = loop_ns, pool_ns
        if self._library.hw_collect_watch(self._pointer, least):
            raise MemoryError

    def fresh(self) -> list[int]:
        """Return the stacks, by their ids in the file, at which threads yielded the main GIL; each stack only once."""
        stacks = (ctypes.c_uint32 * _MOST_FRESH)()
        return list(stacks[: self._library.hw_collect_fresh(self._pointer, stacks, _MOST_FRESH)])

    def settle(self, stack: int, home: int) -> None:
        """Set the kind of a stack that `fresh` returned: HOME_NONE, HOME_LOOP or HOME_POOL."""
        self._library.hw_collect_settle(self._pointer, stack, home)

    def fills(self) -> bool:
        """Tell whether the process has taken much of its memory since the last copy, so that a copy is due."""
        return bool(self._library.hw_collect_fills(self._pointer))

    def laps(self, now_ns: int) -> Laps:
        """Return the laps up to the last pass."""
        told = _Laps()
        self._library.hw_collect_laps(self._pointer, now_ns, ctypes.byref(told))
        return Laps(
            late_loops=told.late[HOME_LOOP],
            late_pools=told.late[HOME_POOL],
            open_loops=told.open[HOME_LOOP],
            open_pools=told.open[HOME_POOL],
            lengths=tuple(told.lengths),
            lengths_ns=told.lengths_ns,
            loops=tuple(told.loops[: told.loop_count]),
        )

    def late_laps(self, now_ns: int) -> list[LateLap]:
        """Return the newest laps of event loops and of pools' threads that took too long, and those under way."""
        told = _Laps()
        self._library.hw_collect_laps(self._pointer, now_ns, ctypes.byref(told))
        ended = (one for home in (HOME_LOOP, HOME_POOL) for one in told.last[home])
        return [
            LateLap(*(getattr(one, name) for name in LateLap.__dataclass_fields__))
            for one in (*ended, *told.under_way[: told.under_way_count])
            if one.serial
        ]

    def hurry(self) -> None:
        """Make the next pass copy everything, including the chunks that threads are still writing to."""
        self._library.hw_collect_hurry(self._pointer)

    def close(self) -> None:
        """Unmap the memory."""
        pointer, self._pointer = self._pointer, None
        if pointer:
            self._library.hw_collect_close(pointer)


CALIBRATION_CALLS = (
    "clock",
    "futex_check",
    "futex_wake_none",
    "yield",
    "lock",
    "timer_set_near",
    "timer_cancel_near",
    "timer_set_far",
    "timer_cancel_far",
    "send",
    "receive",
    "receive_none",
)
"""enum hw_calibrate_call of native/include/headway/calibrate.h, in its order."""

CALIBRATION_PAIRS = ("yield", "futex", "futex_timed", "futex_cold", "cache_line")
"""enum hw_calibrate_pair, in its order."""

CALIBRATION_WAYS = ("futex", "socket")
"""enum hw_calibrate_way, in its order."""


@dataclass(frozen=True, slots=True)
class CalibrationPlan:
    """The cores on which a measurement of the calibration runs, and its length."""

    core: int
    """The core of the thread that measures."""
    other: int | None
    """The core of the thread that it measures against; None: there is no second core."""
    count: int
    """The number of samples to take, at least 1."""
    limit_s: float
    """The time after which no further sample begins; the first sample is taken in any case."""


@dataclass(frozen=True, slots=True)
class CalibrationFacts:
    """Properties that the kernel reports about itself."""

    timer_slack_ns: int
    slice_ns: int
    tick_ns: int
    slice_is_told: bool
    """True if the kernel reported its slice; otherwise `slice_ns` is Linux's default."""
    cores: int


class _Plan(ctypes.Structure):
    """struct hw_calibrate_plan of native/include/headway/calibrate.h."""

    _fields_ = (
        ("core", ctypes.c_int32),
        ("other", ctypes.c_int32),
        ("count", ctypes.c_int64),
        ("limit_ns", ctypes.c_int64),
    )


class _Facts(ctypes.Structure):
    """struct hw_calibrate_facts."""

    _fields_ = (
        ("timer_slack_ns", ctypes.c_int64),
        ("slice_ns", ctypes.c_int64),
        ("tick_ns", ctypes.c_int64),
        ("slice_is_told", ctypes.c_int32),
        ("cores", ctypes.c_int32),
    )


@functools.cache
def _calibrating() -> ctypes.CDLL:
    library = ctypes.CDLL(str(library_path()))
    plan, times = ctypes.POINTER(_Plan), ctypes.POINTER(ctypes.c_double)
    starts, marks = ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_int32)
    for name, arguments in (
        ("call", [plan, ctypes.c_int, times]),
        ("pair", [plan, ctypes.c_int, times]),
        ("wake", [plan, ctypes.c_int, ctypes.c_int, ctypes.c_int64, times, times]),
        ("timer", [plan, ctypes.c_int, ctypes.c_int64, times]),
        ("interrupt", [plan, times]),
        ("gaps", [plan, ctypes.c_int64, starts, times, marks]),
    ):
        function = getattr(library, f"hw_calibrate_{name}")
        function.restype = ctypes.c_int64
        function.argtypes = arguments
    library.hw_calibrate_facts.argtypes = [ctypes.POINTER(_Facts)]
    return library


def _plan(plan: CalibrationPlan) -> _Plan:
    other = -1 if plan.other is None else plan.other
    return _Plan(core=plan.core, other=other, count=plan.count, limit_ns=int(plan.limit_s * 1e9))


def _made(answer: int) -> int:
    if answer < 0:
        raise OSError(-answer, os.strerror(-answer))
    return answer


def calibrate_call(plan: CalibrationPlan, call: str) -> list[float]:
    """Time one of CALIBRATION_CALLS in a single thread.

    Returns:
        The samples in ns. Each includes the time of reading the clock.

    Raises:
        OSError: The kernel refused, or the process may not use the core (EINVAL).
        NativeError: The library is missing or does not fit.
    """
    samples = (ctypes.c_double * plan.count)()
    kind = CALIBRATION_CALLS.index(call)
    return samples[: _made(_calibrating().hw_calibrate_call(_plan(plan), kind, samples))]


def calibrate_pair(plan: CalibrationPlan, pair: str) -> list[float]:
    """Time one of CALIBRATION_PAIRS, in which two threads take turns.

    Returns and raises as `calibrate_call` does; also raises OSError (ENODEV) if there is no second core.
    """
    samples = (ctypes.c_double * plan.count)()
    kind = CALIBRATION_PAIRS.index(pair)
    return samples[: _made(_calibrating().hw_calibrate_pair(_plan(plan), kind, samples))]


def calibrate_wake(plan: CalibrationPlan, way: str, *, busy: bool, gap_s: float) -> tuple[list[float], list[float]]:
    """Wake a thread on the other core again and again, each time `gap_s` after the last.

    Raises as `calibrate_pair` does.

    Args:
        plan: The cores and the length of the measurement.
        way: One of CALIBRATION_WAYS.
        busy: If true, a third thread computes on the other core.
        gap_s: The time between two wake-ups; below one second.

    Returns:
        Two lists in ns: the times until the woken thread ran, and the durations of the calls that woke it.
    """
    latencies, calls = (ctypes.c_double * plan.count)(), (ctypes.c_double * plan.count)()
    kind = CALIBRATION_WAYS.index(way)
    answer = _calibrating().hw_calibrate_wake(_plan(plan), kind, int(busy), int(gap_s * 1e9), latencies, calls)
    made = _made(answer)
    return latencies[:made], calls[:made]


def calibrate_timer(plan: CalibrationPlan, *, busy: bool, sleep_s: float) -> list[float]:
    """Sleep until a time-out, and measure how late the thread is back, in ns; the lateness includes the timer slack.

    Raises as `calibrate_call` does.

    Args:
        plan: The cores and the length of the measurement.
        busy: If true, another thread computes on the same core.
        sleep_s: The length of each sleep; below one second.
    """
    late = (ctypes.c_double * plan.count)()
    answer = _calibrating().hw_calibrate_timer(_plan(plan), int(busy), int(sleep_s * 1e9), late)
    return late[: _made(answer)]


def calibrate_interrupt(plan: CalibrationPlan) -> list[float]:
    """Let timers expire under a thread that computes, and measure how many ns each takes from it.

    Raises as `calibrate_call` does.
    """
    samples = (ctypes.c_double * plan.count)()
    return samples[: _made(_calibrating().hw_calibrate_interrupt(_plan(plan), samples))]


def calibrate_gaps(plan: CalibrationPlan, *, least_ns: int) -> list[tuple[int, float, bool]]:
    """Record each time that a thread which reads the clock is interrupted for `least_ns` or more.

    Raises as `calibrate_call` does; returns an empty list if there was no such interruption.

    Returns:
        For each interruption, its begin (CLOCK_MONOTONIC, ns), its length in ns, and whether a timer tick caused it.
    """
    starts, lengths = (ctypes.c_int64 * plan.count)(), (ctypes.c_double * plan.count)()
    at_tick = (ctypes.c_int32 * plan.count)()
    made = _made(_calibrating().hw_calibrate_gaps(_plan(plan), least_ns, starts, lengths, at_tick))
    return list(zip(starts[:made], lengths[:made], map(bool, at_tick[:made]), strict=True))


def calibration_facts() -> CalibrationFacts:
    """Ask the kernel for its timer slack and slice. Raises OSError or NativeError."""
    facts = _Facts()
    _made(_calibrating().hw_calibrate_facts(facts))
    return CalibrationFacts(facts.timer_slack_ns, facts.slice_ns, facts.tick_ns, bool(facts.slice_is_told), facts.cores)
