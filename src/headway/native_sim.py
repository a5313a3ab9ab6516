"""The simulator of the shared library (native/include/headway/simulate.h): what it is told, as plain values, and a run.

`Spec` and what it is made of have the names and the meaning of the C structs; everything that is computed from a
scenario stands in them before a machine is made, so that it can be looked at without one.
"""

import ctypes
import errno
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import TracebackType
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from headway.errors import NativeError, ScenarioError
from headway.native import library_path

__all__ = [
    "COSTS",
    "EVENT_DTYPE",
    "MAX_OPTIONS",
    "OF_DIST",
    "Client",
    "Gil",
    "GilResult",
    "Op",
    "OpKind",
    "Role",
    "RoleResult",
    "Simulation",
    "Spec",
    "c_structs",
]

COSTS = (
    "switch",
    "preempt_other",
    "wake_idle",
    "wake_idle_long",
    "timer_interrupt",
    "timer_late",
    "timer_late_idle",
    "timer_arm",
    "timer_slack",
    "tick_interrupt",
    "futex_check",
    "futex_sleep",
    "futex_sleep_timed",
    "futex_woken",
    "futex_woken_timed",
    "futex_wake",
    "futex_wake_end",
    "futex_wake_idle",
    "futex_wake_none",
    "send",
    "send_end",
    "send_idle",
    "receive_ready",
    "receive_sleep",
    "receive_woken",
    "lock",
    "cache_line",
    "check",
    "pending",
    "cold_send",
    "cold_receive",
    "cold_futex_wake",
    "cold_pending",
    "cold_python",
    "cold_python_next",
)
"""What an operation of the machine costs: the names of `enum hw_sim_cost`, in its order."""

MAX_OPTIONS = 8
"""HW_POLICY_MAX_OPTIONS."""

OF_DIST = 1
"""HW_SIM_OF_DIST: `index` of an operation names a distribution."""

_PROBLEM_BYTES = 256


class OpKind(IntEnum):
    """What a thread does next: `enum hw_sim_op_kind`."""

    HOLD = 0
    CALL = 1
    COMPUTE = 2
    RUN = 3
    SLEEP = 4
    BLOCK = 5
    RECEIVE = 6
    REPLY = 7
    TAKE = 8
    POST = 9
    BEGIN = 10
    DONE = 11
    LOOP = 12
    END = 13
    EXIT = 14


@final
@dataclass(frozen=True)
class Op:
    """A step of a program: `struct hw_sim_op`."""

    kind: OpKind
    value: int = 0
    """Nanoseconds, or how often a loop repeats."""
    index: int = 0
    """Of a port, a semaphore or (OF_DIST) a distribution."""
    where: int = 0
    flags: int = 0


@final
@dataclass(frozen=True)
class Role:
    """Threads with one program: `struct hw_sim_role`."""

    ops: tuple[Op, ...]
    gil: int
    threads: int = 1
    repeats: bool = True
    cores: int = 0
    """A bit for each; 0: all."""
    priority: int = 0
    urgent: bool = False
    port_step: int = 0
    start_at: int = 0
    begin_ns: int = 0
    stagger_ns: int = 0


@final
@dataclass(frozen=True)
class Gil:
    """A process's GIL: `struct hw_sim_gil`."""

    policy: int = 0
    """The address of a `struct hw_policy`; 0: stock CPython."""
    options: tuple[int, ...] = ()
    spin_ns: int = 0
    yields: bool = False
    enabled: bool = True
    interval_ns: int = 5_000_000
    slow_down: float = 0.0


@final
@dataclass(frozen=True)
class Client:
    """A client of a server: `struct hw_sim_client`."""

    connections: int
    port: int
    port_step: int = 0
    think: int = -1
    rate_per_s: float = 0.0
    cores: int = 0
    work_ns: int = 0


@final
@dataclass(frozen=True)
class Spec:
    """A machine and what runs on it: `struct hw_sim_spec`."""

    seed: int
    end_ns: int
    warm_ns: int
    costs: tuple[tuple[float, ...], ...]
    """Quantiles in ns, in the order of COSTS."""
    tick_ns: int
    slice_ns: int
    migration_ns: int
    core_count: int
    gils: tuple[Gil, ...] = ()
    roles: tuple[Role, ...] = ()
    clients: tuple[Client, ...] = ()
    port_count: int = 0
    semaphores: tuple[int, ...] = ()
    dists: tuple[tuple[float, ...], ...] = ()
    max_events: int = 0


@final
@dataclass(frozen=True)
class RoleResult:
    """What a role's threads, or a client's connections, did since the warm-up: `struct hw_sim_role_result`."""

    done: int
    held_ns: int
    waited_ns: int
    cpu_ns: int
    computed_ns: int
    waits: int
    worst_wait_ns: int


@final
@dataclass(frozen=True)
class GilResult:
    """What happened at a GIL since the warm-up: `struct hw_sim_gil_result`."""

    held_ns: int
    acquires: int
    forced: int
    requests: int


class _Dist(ctypes.Structure):
    _fields_ = (
        ("quantiles", ctypes.POINTER(ctypes.c_double)),
        ("count", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
    )


class _Op(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_uint16),
        ("flags", ctypes.c_uint16),
        ("index", ctypes.c_uint32),
        ("where", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("value", ctypes.c_int64),
    )


class _Role(ctypes.Structure):
    _fields_ = (
        ("ops", ctypes.POINTER(_Op)),
        ("op_count", ctypes.c_int32),
        ("repeats", ctypes.c_int32),
        ("threads", ctypes.c_int32),
        ("gil", ctypes.c_int32),
        ("cores", ctypes.c_uint64),
        ("priority", ctypes.c_int32),
        ("urgent", ctypes.c_int32),
        ("port_step", ctypes.c_int32),
        ("start_at", ctypes.c_int32),
        ("begin_ns", ctypes.c_int64),
        ("stagger_ns", ctypes.c_int64),
    )


class _Gil(ctypes.Structure):
    _fields_ = (
        ("policy", ctypes.c_void_p),
        ("options", ctypes.c_int64 * MAX_OPTIONS),
        ("spin_ns", ctypes.c_int64),
        ("yields", ctypes.c_int32),
        ("enabled", ctypes.c_int32),
        ("interval_ns", ctypes.c_int64),
        ("slow_down", ctypes.c_double),
    )


class _Client(ctypes.Structure):
    _fields_ = (
        ("connections", ctypes.c_int32),
        ("port", ctypes.c_int32),
        ("port_step", ctypes.c_int32),
        ("think", ctypes.c_int32),
        ("rate_per_s", ctypes.c_double),
        ("cores", ctypes.c_uint64),
        ("work_ns", ctypes.c_int64),
    )


class _Spec(ctypes.Structure):
    _fields_ = (
        ("seed", ctypes.c_uint64),
        ("end_ns", ctypes.c_int64),
        ("warm_ns", ctypes.c_int64),
        ("costs", ctypes.POINTER(_Dist)),
        ("tick_ns", ctypes.c_int64),
        ("slice_ns", ctypes.c_int64),
        ("migration_ns", ctypes.c_int64),
        ("core_count", ctypes.c_int32),
        ("gil_count", ctypes.c_int32),
        ("role_count", ctypes.c_int32),
        ("client_count", ctypes.c_int32),
        ("port_count", ctypes.c_int32),
        ("semaphore_count", ctypes.c_int32),
        ("dist_count", ctypes.c_int32),
        ("gils", ctypes.POINTER(_Gil)),
        ("roles", ctypes.POINTER(_Role)),
        ("clients", ctypes.POINTER(_Client)),
        ("semaphores", ctypes.POINTER(ctypes.c_int32)),
        ("dists", ctypes.POINTER(_Dist)),
        ("max_events", ctypes.c_int64),
    )


class _RoleResult(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_int64)
        for name in ("done", "held_ns", "waited_ns", "cpu_ns", "computed_ns", "waits", "worst_wait_ns")
    )


class _GilResult(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_int64) for name in ("held_ns", "acquires", "forced", "requests"))


EVENT_DTYPE = np.dtype(
    [
        ("time_ns", "<i8"),
        ("value", "<u4"),
        ("thread", "<u4"),
        ("kind", "u1"),
        ("gil", "u1"),
        ("flags", "<u2"),
        ("reserved", "<u4"),
    ]
)
"""`struct hw_sim_event`: an event of a run; kinds and flags are those of a trace, `value` is the operation's `where`."""


def c_structs() -> dict[str, type[ctypes.Structure]]:
    """Return the structs as ctypes has them, by the name of the C struct without `hw_sim_`, to hold against the header."""
    return {
        "dist": _Dist,
        "op": _Op,
        "role": _Role,
        "gil": _Gil,
        "client": _Client,
        "spec": _Spec,
        "role_result": _RoleResult,
        "gil_result": _GilResult,
    }


def _dists(values: Sequence[tuple[float, ...]]) -> Any:
    array = (_Dist * max(1, len(values)))()
    for one, quantiles in zip(array, values, strict=False):
        one.quantiles = (ctypes.c_double * len(quantiles))(*quantiles)
        one.count = len(quantiles)
    return array


def _role(role: Role) -> _Role:
    ops = (_Op * max(1, len(role.ops)))()
    for to, op in zip(ops, role.ops, strict=False):
        to.kind, to.flags, to.index, to.where, to.value = op.kind, op.flags, op.index, op.where, op.value
    return _Role(
        ops=ops,
        op_count=len(role.ops),
        repeats=role.repeats,
        threads=role.threads,
        gil=role.gil,
        cores=role.cores,
        priority=role.priority,
        urgent=role.urgent,
        port_step=role.port_step,
        start_at=role.start_at,
        begin_ns=role.begin_ns,
        stagger_ns=role.stagger_ns,
    )


def _gil(gil: Gil) -> _Gil:
    return _Gil(
        policy=gil.policy or None,
        options=(ctypes.c_int64 * MAX_OPTIONS)(*gil.options),
        spin_ns=gil.spin_ns,
        yields=gil.yields,
        enabled=gil.enabled,
        interval_ns=gil.interval_ns,
        slow_down=gil.slow_down,
    )


def _client(client: Client) -> _Client:
    return _Client(
        connections=client.connections,
        port=client.port,
        port_step=client.port_step,
        think=client.think,
        rate_per_s=client.rate_per_s,
        cores=client.cores,
        work_ns=client.work_ns,
    )


def _in_c(spec: Spec) -> _Spec:
    """Return the specification as C has it. ctypes keeps alive what its pointers were given."""
    return _Spec(
        seed=spec.seed,
        end_ns=spec.end_ns,
        warm_ns=spec.warm_ns,
        costs=_dists(spec.costs),
        tick_ns=spec.tick_ns,
        slice_ns=spec.slice_ns,
        migration_ns=spec.migration_ns,
        core_count=spec.core_count,
        gil_count=len(spec.gils),
        role_count=len(spec.roles),
        client_count=len(spec.clients),
        port_count=spec.port_count,
        semaphore_count=len(spec.semaphores),
        dist_count=len(spec.dists),
        gils=(_Gil * max(1, len(spec.gils)))(*map(_gil, spec.gils)),
        roles=(_Role * max(1, len(spec.roles)))(*map(_role, spec.roles)),
        clients=(_Client * max(1, len(spec.clients)))(*map(_client, spec.clients)),
        semaphores=(ctypes.c_int32 * max(1, len(spec.semaphores)))(*spec.semaphores),
        dists=_dists(spec.dists),
        max_events=spec.max_events,
    )


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(library_path()))
    try:
        library.hw_sim_new.restype = ctypes.c_void_p
    except AttributeError:
        raise NativeError(
            f"the native library {library_path()} has no simulator", hint="build it again: `make native`"
        ) from None
    library.hw_sim_new.argtypes = [ctypes.POINTER(_Spec), ctypes.c_char_p, ctypes.c_int]
    library.hw_sim_run.restype = ctypes.c_int
    library.hw_sim_run.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    library.hw_sim_role_result.restype = None
    library.hw_sim_role_result.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(_RoleResult)]
    library.hw_sim_gil_result.restype = None
    library.hw_sim_gil_result.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(_GilResult)]
    library.hw_sim_latencies.restype = ctypes.c_void_p
    library.hw_sim_latencies.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int64)]
    library.hw_sim_events.restype = ctypes.c_void_p
    library.hw_sim_events.argtypes = [
        ctypes.c_void_p,
        ctypes.POINTER(ctypes.c_int64),
        ctypes.POINTER(ctypes.c_int64),
    ]
    library.hw_sim_steps.restype = ctypes.c_int64
    library.hw_sim_steps.argtypes = [ctypes.c_void_p]
    library.hw_sim_free.restype = None
    library.hw_sim_free.argtypes = [ctypes.c_void_p]
    return library


def _copied(address: int | None, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a copy of an array of the library's."""
    if not address or not count:
        return np.zeros(0, dtype=dtype)
    return np.frombuffer(ctypes.string_at(address, count * dtype.itemsize), dtype=dtype)


_FLOAT = np.dtype("<f4")

_WHY = {
    errno.EDEADLK: (
        "every thread waits for another one",
        "see who posts, puts, unlocks or replies, and in which order",
    ),
    errno.ENOMEM: ("there is no memory left", "simulate a shorter time, or fewer threads"),
    errno.EPROTO: ("a program errs", "a `reply` needs a `receive` before it"),
}


@final
class Simulation:
    """A machine in virtual time. A context manager: the machine is freed at its end."""

    def __init__(self, spec: Spec) -> None:
        """Make it.

        Raises:
            ScenarioError: The library says that the specification makes no sense.
            NativeError: The library is missing, does not fit, or has no simulator.
        """
        self._library = _library()
        problem = ctypes.create_string_buffer(_PROBLEM_BYTES)
        self._pointer = self._library.hw_sim_new(ctypes.byref(_in_c(spec)), problem, _PROBLEM_BYTES)
        if not self._pointer:
            raise ScenarioError(f"this cannot be simulated: {problem.value.decode(errors='replace')}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pointer, self._pointer = self._pointer, None
        if pointer:
            self._library.hw_sim_free(pointer)

    def run(self, until_ns: int) -> None:
        """Let time pass until then. Raises ScenarioError where nothing can happen any more, or a program errs."""
        error = -self._library.hw_sim_run(self._pointer, until_ns)
        if error:
            why, hint = _WHY.get(error, (f"error {error}", ""))
            raise ScenarioError(f"the simulation stopped before {until_ns / 1e9:g} s: {why}", hint=hint)

    def role_result(self, index: int) -> RoleResult:
        """Return what a role did; clients come after the roles."""
        result = _RoleResult()
        self._library.hw_sim_role_result(self._pointer, index, ctypes.byref(result))
        return RoleResult(**{name: getattr(result, name) for name, *_ in _RoleResult._fields_})

    def gil_result(self, index: int) -> GilResult:
        """Return what happened at a GIL."""
        result = _GilResult()
        self._library.hw_sim_gil_result(self._pointer, index, ctypes.byref(result))
        return GilResult(**{name: getattr(result, name) for name, *_ in _GilResult._fields_})

    def latencies_ns(self, index: int) -> NDArray[np.float32]:
        """Return how long each piece of a role's, or a client's, work took, in the order in which they were done."""
        count = ctypes.c_int64()
        address = self._library.hw_sim_latencies(self._pointer, index, ctypes.byref(count))
        return _copied(address, count.value, _FLOAT)

    def events(self) -> tuple[NDArray[np.void], int]:
        """Return the events of the trace (EVENT_DTYPE), and how many later ones were dropped."""
        count, dropped = ctypes.c_int64(), ctypes.c_int64()
        address = self._library.hw_sim_events(self._pointer, ctypes.byref(count), ctypes.byref(dropped))
        return _copied(address, count.value, EVENT_DTYPE), dropped.value

    def steps(self) -> int:
        """Return how many steps the machine has made."""
        return int(self._library.hw_sim_steps(self._pointer))
