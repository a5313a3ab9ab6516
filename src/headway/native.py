"""The controller's only door to the shared library: where it is, and whether it fits.

The C limits run inside launches, where the agent binds the functions it needs; this module finds the file and checks
its ABI once, so that a plan knows before it starts whether the native cells can run.

One file: it is the only one that knows how functions of the library are called from Python.
"""

import ctypes
import functools
import os
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from headway.errors import NativeError, SchedulingError

__all__ = [
    "ABI_VERSION",
    "CALIBRATION_CALLS",
    "CALIBRATION_PAIRS",
    "CALIBRATION_WAYS",
    "CHUNK_BYTES",
    "HOME_LOOP",
    "HOME_NONE",
    "HOME_POOL",
    "CalibrationFacts",
    "CalibrationPlan",
    "Collection",
    "CollectionState",
    "Laps",
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
    "headers_path",
    "library_path",
    "policies",
    "wait_for_threads",
]

ABI_VERSION = 11
"""HW_ABI_VERSION of native/include/headway/version.h that this package was written for."""

CHUNK_BYTES = 16384
"""What a traced process's memory and its file are counted in (native/trace/format.h)."""

_NAME = "libheadway.so"


def _candidates() -> list[Path]:
    named = os.environ.get("HEADWAY_NATIVE")
    if named:
        return [Path(named)]
    # Beside the package in a wheel; in site-packages when the package itself is an editable checkout.
    return [
        Path(__file__).resolve().parent / "lib" / _NAME,
        Path(sysconfig.get_path("platlib")) / "headway" / "lib" / _NAME,
    ]


def headers_path() -> Path:
    """Return the folder with the public C headers of the library. Raises NativeError."""
    folder = library_path().parent.parent / "include"
    if not (folder / "headway" / "policy.h").is_file():
        raise NativeError(
            f"the headers are not in {folder}", hint="build them again: `make native`, or reinstall headway"
        )
    return folder


def library_path() -> Path:
    """Return the path of a shared library with our ABI.

    `HEADWAY_NATIVE` names another file than the installed one.

    Raises:
        NativeError: No library is there, or it does not load, or its ABI version is another.
    """
    candidates = _candidates()
    for path in candidates:
        if not path.is_file():
            continue
        try:
            found: int = ctypes.CDLL(str(path)).hw_abi_version()
        except (OSError, AttributeError) as error:
            raise NativeError(
                f"the native library {path} does not load: {error}",
                hint="build it again: `make native`, or reinstall headway with a C compiler present",
            ) from error
        if found != ABI_VERSION:
            raise NativeError(
                f"the native library {path} has ABI version {found}, expected {ABI_VERSION}",
                hint="build it again: `make native`, or reinstall headway",
            )
        return path
    raise NativeError(
        f"the native library was not found (looked for {', '.join(map(str, candidates))})",
        hint="headway was installed without a C compiler; install one and reinstall, or continue without the native cells",
    )


@dataclass(frozen=True)
class PolicyOption:
    """An option of a policy for the GIL; its unit stands in its name."""

    name: str
    least: int
    most: int
    preset: int
    about: str


@dataclass(frozen=True)
class Policy:
    """A policy for the GIL (native/policy)."""

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
    """What struct hw_policy begins with."""

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
        found.append(PolicyOption(one.name.decode(), one.least, one.most, one.preset, one.about.decode()))
    return tuple(found)


def _text(text: bytes | None) -> str:
    """Return a text that a policy of a user's may leave out."""
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
    """Return the policies that are built in, the default one first, and the options that each of them has besides.

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
    """Find a policy by its name, or load the library at a path (with a slash in it).

    Returns the address of its `struct hw_policy`, which stays, and what it is.

    Raises:
        SchedulingError: There is none.
        NativeError: The library is missing or does not fit.
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
    )


@dataclass(frozen=True, slots=True)
class CollectionState:
    """What a collection did up to now."""

    ended: bool
    """The session is over, and all of it is in the file."""
    chunks: int
    """Of CHUNK_BYTES each, in the file."""
    dropped_events: int
    lost_children: int
    """Children of the process that are not recorded, as they could not reach the collector."""
    error: int
    """The errno of the last write that failed, or 0."""
    closed: int
    """Chunks of memory that were complete in this pass, and given back."""
    overwritten_until_ns: int
    """Of the events that made room, when the last one was (CLOCK_MONOTONIC); 0: none did."""


HOME_NONE, HOME_LOOP, HOME_POOL = 1, 2, 3
"""HW_HOME_* of native/include/headway/collect.h."""
_HOMES, _LAP_BUCKETS, _LAP_LOOPS = 4, 40, 32
_MOST_FRESH = 1024


class _Laps(ctypes.Structure):
    _fields_ = (
        ("late", ctypes.c_uint64 * _HOMES),
        ("lengths", ctypes.c_uint64 * _LAP_BUCKETS),
        ("lengths_ns", ctypes.c_uint64),
        ("open", ctypes.c_uint32 * _HOMES),
        ("loop_count", ctypes.c_uint32),
        ("loops", ctypes.c_uint32 * _LAP_LOOPS),
    )


class _Look(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_int64) for name in ("hold_ns", "wait_ns", "still_ns", "away_ns"))


class Wakes(Enum):
    """Why `wait_for_threads` has ended: HW_WAIT_* of native/include/headway/collect.h."""

    OVER = 0
    READY = 1
    THREAD = 2


@dataclass(frozen=True, slots=True)
class Worth:
    """From which lengths on, in ns, a thread is worth a look from outside.

    Attributes:
        hold_ns: It holds a GIL.
        wait_ns: It waits for one.
        still_ns: It has an event loop, and does something that is not its poll.
        away_ns: It has let the GIL go; worth two looks or so, as it goes over that length.
    """

    hold_ns: int
    wait_ns: int
    still_ns: int
    away_ns: int


def wait_for_threads(
    collections: Sequence["Collection"], worth: Worth, *, tick_ns: int, until_ns: int, descriptor: int
) -> Wakes:
    """Wait until a time, looking at the threads of watched processes every so often, without Python.

    Args:
        collections: Of these processes; each has `watch` on.
        worth: Which threads end the wait.
        tick_ns: How often they are looked at.
        until_ns: time.monotonic_ns() when the wait is over.
        descriptor: Something to read there ends the wait, too, and so does a signal.
    """
    pointers = (ctypes.c_void_p * len(collections))(*(one.pointer for one in collections))
    look = _Look(worth.hold_ns, worth.wait_ns, worth.still_ns, worth.away_ns)
    found = _collecting().hw_collect_wait(pointers, len(collections), look, tick_ns, until_ns, descriptor)
    return Wakes(found)


@dataclass(frozen=True, slots=True)
class Laps:
    """What threads did from leaving the place where they wait until they were back there."""

    late_loops: int
    """Event loops' laps that took too long and are over, ever."""
    late_pools: int
    open_loops: int
    """Those that take too long already, and go on."""
    open_pools: int
    lengths: tuple[int, ...]
    """[i] counts event loops' laps with bit length i in ns, ever."""
    lengths_ns: int
    """Of all of these."""
    loops: tuple[int, ...]
    """Serials of threads with an event loop, some of them where there are many."""


@functools.cache
def _collecting() -> ctypes.CDLL:
    library = ctypes.CDLL(str(library_path()), use_errno=True)
    library.hw_collect_open.restype = ctypes.c_void_p
    library.hw_collect_open.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_char_p]
    library.hw_collect_family.restype = ctypes.c_uint64
    library.hw_collect_family.argtypes = [ctypes.c_void_p]
    library.hw_collect_limit.restype = None
    library.hw_collect_limit.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    library.hw_collect_share.restype = None
    library.hw_collect_share.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
    library.hw_collect_pass.restype = None
    library.hw_collect_pass.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(_State)]
    library.hw_collect_watch.restype = ctypes.c_int
    library.hw_collect_watch.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64)]
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


class Collection:
    """What a process records, being copied from its memory into a file (native/include/headway/collect.h)."""

    def __init__(self, memory: int, file: int, path: Path | None = None) -> None:
        """Map the memory.

        Args:
            memory: The descriptor that the process sent; it stays the caller's.
            file: The descriptor of the file; it stays the caller's, open as long as the collection.
            path: Of the file, which the process is told; None: of a memory that is not collected as it fills.

        Raises:
            OSError: The memory is none of ours (EPROTO), or there is no room.
            NativeError: The library is missing or does not fit.
        """
        self._library = _collecting()
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
        """Which launch the process says it belongs to."""
        return int(self._library.hw_collect_family(self._pointer))

    def limit(self, chunks: int) -> None:
        """Let the file have so many chunks; the oldest events make room."""
        self._library.hw_collect_limit(self._pointer, chunks)

    def share(self, chunks: int) -> None:
        """Let the process have so many chunks of memory."""
        self._library.hw_collect_share(self._pointer, chunks)

    def copy(self, *, last: bool = False) -> CollectionState:
        """Copy what is new; `last`: the process is gone."""
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
        )

    def watch(self, *, loop_ns: int, pool_ns: int) -> None:
        """Have laps told: those of event loops and of pools' threads are late from so long on. Raises MemoryError."""
        least = (ctypes.c_int64 * _HOMES)()
        least[HOME_LOOP], least[HOME_POOL] = loop_ns, pool_ns
        if self._library.hw_collect_watch(self._pointer, least):
            raise MemoryError

    def fresh(self) -> list[int]:
        """Return stacks at which threads have let the main GIL go by themselves, in the file's numbers, each once."""
        stacks = (ctypes.c_uint32 * _MOST_FRESH)()
        return list(stacks[: self._library.hw_collect_fresh(self._pointer, stacks, _MOST_FRESH)])

    def settle(self, stack: int, home: int) -> None:
        """Say what such a stack is: HOME_NONE, HOME_LOOP or HOME_POOL."""
        self._library.hw_collect_settle(self._pointer, stack, home)

    def laps(self, now_ns: int) -> Laps:
        """Return what the laps were up to the last pass."""
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

    def hurry(self) -> None:
        """Have the next pass copy all that there is, also what threads are still writing to."""
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
    """Where a measurement of the calibration runs, and how long."""

    core: int
    """Of the thread that measures."""
    other: int | None
    """Of the one that it measures against; None: there is no second core."""
    count: int
    """Samples to take, at least 1."""
    limit_s: float
    """No sample but the first begins after so long."""


@dataclass(frozen=True, slots=True)
class CalibrationFacts:
    """What the kernel says of itself."""

    timer_slack_ns: int
    slice_ns: int
    tick_ns: int
    slice_is_told: bool
    """The kernel told its slice; else it is what Linux sets by default."""
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
    """Time one of CALIBRATION_CALLS, made by one thread alone.

    Returns:
        Samples in ns, with the time of reading the clock in them.

    Raises:
        OSError: The kernel refused, or the process may not use the core (EINVAL).
        NativeError: The library is missing or does not fit.
    """
    samples = (ctypes.c_double * plan.count)()
    kind = CALIBRATION_CALLS.index(call)
    return samples[: _made(_calibrating().hw_calibrate_call(_plan(plan), kind, samples))]


def calibrate_pair(plan: CalibrationPlan, pair: str) -> list[float]:
    """Time one of CALIBRATION_PAIRS: two threads that take turns. As `calibrate_call`; ENODEV without a second core."""
    samples = (ctypes.c_double * plan.count)()
    kind = CALIBRATION_PAIRS.index(pair)
    return samples[: _made(_calibrating().hw_calibrate_pair(_plan(plan), kind, samples))]


def calibrate_wake(plan: CalibrationPlan, way: str, *, busy: bool, gap_s: float) -> tuple[list[float], list[float]]:
    """Wake a thread on the other core, each time `gap_s` after the last. As `calibrate_pair`.

    Args:
        plan: Where and how long.
        way: One of CALIBRATION_WAYS.
        busy: A third thread computes on that core.
        gap_s: Below a second.

    Returns:
        How long it took until the thread ran, and how long the call that wakes took, in ns.
    """
    latencies, calls = (ctypes.c_double * plan.count)(), (ctypes.c_double * plan.count)()
    kind = CALIBRATION_WAYS.index(way)
    answer = _calibrating().hw_calibrate_wake(_plan(plan), kind, int(busy), int(gap_s * 1e9), latencies, calls)
    made = _made(answer)
    return latencies[:made], calls[:made]


def calibrate_timer(plan: CalibrationPlan, *, busy: bool, sleep_s: float) -> list[float]:
    """Sleep until a time-out: how late the thread is back, slack included, in ns. As `calibrate_call`.

    Args:
        plan: Where and how long.
        busy: Another thread computes on the same core.
        sleep_s: Below a second.
    """
    late = (ctypes.c_double * plan.count)()
    answer = _calibrating().hw_calibrate_timer(_plan(plan), int(busy), int(sleep_s * 1e9), late)
    return late[: _made(answer)]


def calibrate_interrupt(plan: CalibrationPlan) -> list[float]:
    """Let timers go off under a thread that computes: what each takes, in ns. As `calibrate_call`."""
    samples = (ctypes.c_double * plan.count)()
    return samples[: _made(_calibrating().hw_calibrate_interrupt(_plan(plan), samples))]


def calibrate_gaps(plan: CalibrationPlan, *, least_ns: int) -> list[tuple[int, float, bool]]:
    """Note where a thread that reads the clock is interrupted for `least_ns` or more. As `calibrate_call`, or nothing.

    Returns:
        When each interruption began (CLOCK_MONOTONIC, ns), how long it was in ns, and whether it was a tick's.
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
