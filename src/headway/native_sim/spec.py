"""The simulator's input and output as plain values: the C structs of native/include/headway/simulate.h."""

from dataclasses import dataclass
from enum import IntEnum
from typing import final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CLOCKS",
    "COSTS",
    "GOES_ON",
    "MAX_OPTIONS",
    "OF_CLOCK",
    "OF_DIST",
    "OF_LOCK",
    "OF_PORT",
    "OP_DTYPE",
    "Client",
    "Gil",
    "GilResult",
    "Op",
    "OpKind",
    "Role",
    "RoleResult",
    "Spec",
]

COSTS = (
    "switch",
    "preempt_other",
    "wake_idle",
    "wake_idle_middle",
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
    "cold_futex_sleep",
    "cold_pending",
    "cold_python",
    "cold_python_next",
)
"""The costs of the machine's operations: the names of `enum hw_sim_cost`, in its order."""

MAX_OPTIONS = 8
"""HW_POLICY_MAX_OPTIONS."""

OF_DIST = 1
"""HW_SIM_OF_DIST: `index` of an operation is the index of a distribution."""
OF_PORT = 4
"""HW_SIM_OF_PORT: an OpKind.REPLY answers the oldest request of port `index`, whichever thread received it."""
OF_LOCK = 8
"""HW_SIM_OF_LOCK: an OpKind.POST unlocks a lock, and ends the run if the lock is not locked."""
OF_CLOCK = 16
"""HW_SIM_OF_CLOCK: an OpKind.SLEEP or BLOCK lasts until the thread's clock `index` strikes, which it does each `value`."""
CLOCKS = 4
"""HW_SIM_CLOCKS: the number of clocks of a thread."""
GOES_ON = 2
"""HW_SIM_GOES_ON: the next operation is of the same call; the thread does not acquire the GIL after an OpKind.RUN."""


class OpKind(IntEnum):
    """The kind of a thread's next operation: `enum hw_sim_op_kind`."""

    HOLD = 0
    CALL = 1
    COMPUTE = 2
    RUN = 3
    SLEEP = 4
    BLOCK = 5
    RECEIVE = 6
    REPLY = 7
    SEND = 8
    ANSWER = 9
    TAKE = 10
    POST = 11
    BEGIN = 12
    DONE = 13
    LOOP = 14
    END = 15
    EXIT = 16


@final
@dataclass(frozen=True)
class Op:
    """A step of a program: `struct hw_sim_op`."""

    kind: OpKind
    value: int = 0
    """Nanoseconds, or the number of times that a loop repeats."""
    index: int = 0
    """The index of a port, a semaphore or (OF_DIST) a distribution."""
    where: int = 0
    flags: int = 0


OP_DTYPE = np.dtype(
    [
        ("kind", "<u2"),
        ("flags", "<u2"),
        ("index", "<u4"),
        ("where", "<u4"),
        ("reserved", "<u4"),
        ("value", "<i8"),
    ]
)
"""The type of a program's steps as an array, for the many steps of a trace."""


@final
@dataclass(frozen=True)
class Role:
    """Threads with one program: `struct hw_sim_role`."""

    ops: tuple[Op, ...] | NDArray[np.void]
    gil: int
    threads: int = 1
    repeats: bool = True
    cores: int = 0
    """One bit for each core; 0: all cores."""
    priority: int = 0
    urgent: bool = False
    port_step: int = 0
    start_at: int = 0
    begin_ns: int = 0
    stagger_ns: int = 0
    turns: bool = False
    """If true, a piece of work is a turn: from when a thread wants the GIL until it yields."""
    answers: int = 0
    """1 + the index of the distribution of the time from a request until a release; 0: the machine's cost."""
    in_calls: bool = False
    """If true, that distribution is of the lengths of calls; one begins with each hold, and the next one at its end."""


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
    """A machine and the programs that run on it: `struct hw_sim_spec`."""

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
    """The work of a role's threads, or a client's connections, since the warm-up: `struct hw_sim_role_result`."""

    done: int
    held_ns: int
    waited_ns: int
    cpu_ns: int
    computed_ns: int
    ran_ns: int
    waits: int
    worst_wait_ns: int
    stuck: int = 0
    stuck_at: int = 0
    starved: int = 0


@final
@dataclass(frozen=True)
class GilResult:
    """The use of a GIL since the warm-up: `struct hw_sim_gil_result`."""

    held_ns: int
    acquires: int
    forced: int
    requests: int
