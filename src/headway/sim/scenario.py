"""Describes a simulated program: its processes, roles of threads, clients, locks and queues, and its machine.

This module has only values. `parse` makes them from a file, `parameters` changes them, and `compile` gives them to the
simulator.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, final

from headway.errors import ScenarioError
from headway.sim.times import Times

__all__ = [
    "MAIN",
    "NO_PROCESS",
    "PLACEMENTS",
    "STOCK",
    "TIMED",
    "Client",
    "Placement",
    "Process",
    "Queue",
    "Role",
    "Scenario",
    "Semaphore",
    "Step",
    "Word",
    "busy_role",
    "ends",
    "walk",
]

MAIN = "main"
"""The process of a role that does not name one."""
NO_PROCESS = "none"
"""The process name for roles whose threads need no GIL: C code, or another program."""
STOCK = "none"
"""The policy name for a GIL that is left to CPython."""

Placement = Literal["free", "split", "same"]
PLACEMENTS: tuple[Placement, ...] = ("free", "split", "same")
"""The lab's placements: anywhere; roles on core 0 and clients on core 1; everything on core 0."""

Word = Literal[
    "hold",
    "call",
    "run",
    "sleep",
    "block",
    "every",
    "compute",
    "receive",
    "reply",
    "send",
    "answer",
    "lock",
    "unlock",
    "take",
    "post",
    "put",
    "get",
    "begin",
    "done",
    "loop",
    "exit",
]
"""The word of a program's step; docs/guides/simulate.md says what each does."""

TIMED: tuple[Word, ...] = ("hold", "call", "run", "sleep", "block", "every", "answer")
"""The steps that have a duration."""

_WAITING: tuple[Word, ...] = ("sleep", "block", "every", "receive", "answer", "lock", "take", "put", "get")


@final
@dataclass(frozen=True)
class Step:
    """A step of a role's program.

    Attributes:
        word: The action of the step.
        times: Its duration; None if the word has none of its own.
        target: The port, lock, semaphore or queue; "" if the word has none.
        count: The number of times that a loop repeats its body.
        body: The steps of a loop.
        line: The step's line in its file, from 1; 0 if unknown.
    """

    word: Word
    times: Times | None = None
    target: str = ""
    count: int = 0
    body: tuple["Step", ...] = ()
    line: int = 0


@final
@dataclass(frozen=True)
class Process:
    """A process of Python, with a GIL of its own.

    Attributes:
        name: The name by which roles refer to it.
        gil: True if the GIL is on; False: free-threaded.
        switch_interval_ns: As sys.setswitchinterval() sets it.
        policy: A name that `headway policies` lists, the path of a library, or STOCK.
        options: Options of the policy and of the engine, as (name, value).
        slow_down: The share by which Python code without a GIL takes longer for each further thread that runs it; 0.1
            is a tenth.
    """

    name: str = MAIN
    gil: bool = True
    switch_interval_ns: int = 5_000_000
    policy: str = STOCK
    options: tuple[tuple[str, int], ...] = ()
    slow_down: float = 0.0


@final
@dataclass(frozen=True)
class Role:
    """Threads with one program.

    Attributes:
        name: The name of the threads in the result and the trace.
        program: The steps that each thread runs.
        threads: The number of threads. If the role serves a client with a thread for each connection, the client's
            number of connections counts instead.
        process: The name of its process, or NO_PROCESS.
        processes: If true, each thread is a process of its own, with a GIL like that of `process`.
        repeats: If true, the program begins again at its end.
        cores: The cores on which the threads may run; None: as the placement says.
        priority: As nice: -20 to 19.
        urgent: If true, the latency of the threads matters most (`headway.thread_priority(urgent=True)`).
        begin_ns: When the first thread begins.
        stagger_ns: The time from the begin of one thread to the begin of the next.
    """

    name: str
    program: tuple[Step, ...]
    threads: int = 1
    process: str = MAIN
    processes: bool = False
    repeats: bool = True
    cores: tuple[int, ...] | None = None
    priority: int = 0
    urgent: bool = False
    begin_ns: int = 0
    stagger_ns: int = 0


@final
@dataclass(frozen=True)
class Client:
    """A client of a server, in another process: an event loop that drives all of the client's connections.

    Attributes:
        name: The name of the client in the result.
        port: The port to which it sends requests.
        connections: The number of requests that are under way at a time (closed loop).
        thread_per_connection: If true, each connection has a port of its own, and so a thread of its own of the role
            that receives there.
        think: The time from a reply to the next request; None: no time.
        rate_per_s: If above 0, requests come at random, at this rate in total (open loop).
        cores: The cores on which the client may run; None: as the placement says.
        work_ns: The time that the client itself computes for each request.
    """

    name: str
    port: str
    connections: int = 1
    thread_per_connection: bool = False
    think: Times | None = None
    rate_per_s: float = 0.0
    cores: tuple[int, ...] | None = None
    work_ns: int = 0


@final
@dataclass(frozen=True)
class Queue:
    """A queue between threads. As for queue.Queue, `capacity` 0 means no limit."""

    name: str
    capacity: int = 0


@final
@dataclass(frozen=True)
class Semaphore:
    """A semaphore, and its initial value."""

    name: str
    initial: int = 0


@final
@dataclass(frozen=True)
class Scenario:
    """A program and its machine.

    Attributes:
        name: The name of a built-in scenario, or the file's name without its ending.
        title: A one-line description.
        source: The name of the file, for the frames of a trace.
        roles: The roles in the order of the file; all other parts are in that order, too.
        busy: The role that the parameter `threads` changes; "": see `busy_role`.
    """

    name: str
    title: str
    roles: tuple[Role, ...]
    source: str = ""
    clients: tuple[Client, ...] = ()
    processes: tuple[Process, ...] = (Process(),)
    locks: tuple[str, ...] = ()
    queues: tuple[Queue, ...] = ()
    semaphores: tuple[Semaphore, ...] = ()
    cores: int = 2
    placement: Placement = "free"
    duration_ns: int = 2_000_000_000
    """The length of the time that is counted; it begins after the warm-up."""
    warm_ns: int = 200_000_000
    busy: str = ""


def walk(program: tuple[Step, ...]) -> Iterator[Step]:
    """Yield all steps in the order of the file: each step, then those of its body."""
    for step in program:
        yield step
        yield from walk(step.body)


def ends(roles: Iterable[Role]) -> bool:
    """Tell whether there are roles, and all their threads end, unless they come to wait for ever."""
    words = [(role, {step.word for step in walk(role.program)}) for role in roles]
    return bool(words) and all("compute" not in one and (not role.repeats or "exit" in one) for role, one in words)


def busy_role(scenario: Scenario) -> Role:
    """Return the CPU-bound role: the one that the scenario names, else the one that computes for ever or never waits.

    Raises:
        ScenarioError: There is no such role, or more than one.
    """
    if scenario.busy:
        return next(role for role in scenario.roles if role.name == scenario.busy)
    words = {role.name: {step.word for step in walk(role.program)} for role in scenario.roles}
    found = [role for role in scenario.roles if "compute" in words[role.name]]
    found = found or [role for role in scenario.roles if words[role.name].isdisjoint(_WAITING)]
    if len(found) != 1:
        names = ", ".join(role.name for role in found or scenario.roles)
        some = "several roles are CPU-bound" if found else "no role is CPU-bound"
        raise ScenarioError(
            f"{some} ({names}), so the role is ambiguous",
            hint=f"name it: `{(found or scenario.roles)[0].name}.threads=4`, or `busy = ...` in the scenario",
        )
    return found[0]
