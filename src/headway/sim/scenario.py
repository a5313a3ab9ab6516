"""A program described: its processes, roles of threads, clients, locks and queues, and the machine that it runs on.

Values only: `parse` makes them of a file, `parameters` changes them, `compile` gives them to the simulator.
"""

from collections.abc import Iterator
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
    "walk",
]

MAIN = "main"
"""The process of a role that names none."""
NO_PROCESS = "none"
"""What a role names whose threads need no GIL: C code, or another program."""
STOCK = "none"
"""The policy of a GIL that is left to CPython."""

Placement = Literal["free", "split", "same"]
PLACEMENTS: tuple[Placement, ...] = ("free", "split", "same")
"""Where the lab puts things: anywhere; roles on core 0 and clients on core 1; all of it on core 0."""

Word = Literal[
    "hold",
    "call",
    "run",
    "sleep",
    "block",
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
"""A step of a program; docs/guides/simulate.md says what each does."""

TIMED: tuple[Word, ...] = ("hold", "call", "run", "sleep", "block", "answer")
"""Steps that take a time."""

_WAITING: tuple[Word, ...] = ("sleep", "block", "receive", "answer", "lock", "take", "put", "get")


@final
@dataclass(frozen=True)
class Step:
    """A step of a role's program.

    Attributes:
        word: What is done.
        times: For how long; None where the word takes no time of its own.
        target: The port, lock, semaphore or queue; "" where the word has none.
        count: How often a loop repeats its body.
        body: A loop's.
        line: Where it stands in its file, from 1; 0: not known.
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
        name: What roles call it.
        gil: The GIL is on; False: free-threaded.
        switch_interval_ns: sys.setswitchinterval().
        policy: A name that `headway policies` lists, the path of a library, or STOCK.
        options: Of the policy and of the engine, as (name, value).
        slow_down: Without a GIL: what Python code takes longer for each further thread that runs it, 0.1 is a tenth.
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
        name: What the result and the trace call them.
        program: What each does.
        threads: How many; of a role that serves a client by a thread per connection, the client's connections count.
        process: The name of its process, or NO_PROCESS.
        processes: Each thread is a process of its own instead, with a GIL like that of `process`.
        repeats: The program begins again at its end.
        cores: Which it may run on; None: as the placement says.
        priority: As nice: -20 to 19.
        urgent: Its latency matters most (`headway.thread_priority(urgent=True)`).
        begin_ns: When the first thread begins.
        stagger_ns: How much later than the one before each further one begins.
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
    """A client of a server, in another process: an event loop that drives all of its connections.

    Attributes:
        name: What the result calls it.
        port: Where its requests go.
        connections: How many requests are under way at a time (closed loop).
        thread_per_connection: Each connection has a port and so a thread of its own, of the role that receives there.
        think: From a reply to the next request; None: no time.
        rate_per_s: Above 0, requests come at random, so often in all (open loop).
        cores: Which it may run on; None: as the placement says.
        work_ns: What it computes itself for each request.
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
    """A queue between threads: as queue.Queue, `capacity` 0 is without end."""

    name: str
    capacity: int = 0


@final
@dataclass(frozen=True)
class Semaphore:
    """A semaphore, and what it has at first."""

    name: str
    initial: int = 0


@final
@dataclass(frozen=True)
class Scenario:
    """A program and its machine.

    Attributes:
        name: The built-in's, or the file's without its ending.
        title: What it is, in a line.
        source: The name of the file, for the frames of a trace.
        roles: In the order of the file, as all the others.
        busy: The role that the parameter `threads` is about; "": see `busy_role`.
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
    """What is counted, after the warm-up."""
    warm_ns: int = 200_000_000
    busy: str = ""


def walk(program: tuple[Step, ...]) -> Iterator[Step]:
    """Yield all steps, each before those of its body: in the order of the file."""
    for step in program:
        yield step
        yield from walk(step.body)


def busy_role(scenario: Scenario) -> Role:
    """Return the role that is bound by the CPU: as the scenario says, else the one that computes for ever, or never waits.

    Raises:
        ScenarioError: There is none, or more than one.
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
