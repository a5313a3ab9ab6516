"""Compiles a scenario to the specification for the simulator."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import final

from headway import native_sim
from headway.native_sim import OF_CLOCK, OF_DIST, OF_LOCK, Op, OpKind, Spec
from headway.sim.machine import Costs
from headway.sim.policy import choose
from headway.sim.scenario import NO_PROCESS, Process, Role, Scenario, Step, walk
from headway.sim.times import Times

__all__ = ["Compiled", "Place", "compile_scenario", "thread_count"]

_KINDS = {
    "hold": OpKind.HOLD,
    "call": OpKind.CALL,
    "run": OpKind.RUN,
    "sleep": OpKind.SLEEP,
    "block": OpKind.BLOCK,
    "compute": OpKind.COMPUTE,
    "receive": OpKind.RECEIVE,
    "reply": OpKind.REPLY,
    "send": OpKind.SEND,
    "answer": OpKind.ANSWER,
    "lock": OpKind.TAKE,
    "unlock": OpKind.POST,
    "take": OpKind.TAKE,
    "post": OpKind.POST,
    "begin": OpKind.BEGIN,
    "done": OpKind.DONE,
    "exit": OpKind.EXIT,
}


@final
@dataclass(frozen=True)
class Place:
    """A simulated thread for readers: its name, and when it begins."""

    name: str
    begin_ns: int


@final
@dataclass(frozen=True)
class Compiled:
    """A specification, and the meaning of its numbers.

    Attributes:
        spec: The specification for the simulator.
        parts: For the name of each role or client, the indices of its results; none for a role without threads.
        gils: Names of the GILs.
        threads: The threads, in the order of the events' `thread`.
        steps: (role, step), by `where` - 1.
    """

    spec: Spec
    parts: dict[str, tuple[int, ...]]
    gils: tuple[str, ...]
    threads: tuple[Place, ...]
    steps: tuple[tuple[Role, Step], ...]


@dataclass
class _Tables:
    """The indices of the things that programs name, and the distributions seen so far."""

    ports: dict[str, int]
    tokens: dict[tuple[str, str], int]
    dists: dict[tuple[float, ...], int] = field(default_factory=dict)

    def dist(self, times: Times) -> int:
        """Return the index of a distribution, which is added if it is new."""
        return self.dists.setdefault(times.quantiles(), len(self.dists))


def compile_scenario(scenario: Scenario, costs: Costs, seed: int, *, max_events: int = 0) -> Compiled:
    """Return the specification for the simulator.

    Args:
        scenario: A scenario that has been checked.
        costs: The costs of the machine's operations.
        seed: From 0 to 2**64 - 1.
        max_events: The number of events of the trace to keep.

    Raises:
        ScenarioError: A policy or one of its options does not exist.
        NativeError: A policy is named, and the library is missing or does not fit.
    """
    ports, port_count = _ports(scenario)
    tokens, counts = _tokens(scenario)
    tables = _Tables(ports, tokens)
    gil_of, gils, gil_names = _gils(scenario)
    roles: list[native_sim.Role] = []
    parts: dict[str, tuple[int, ...]] = {}
    threads: list[Place] = []
    steps: list[tuple[Role, Step]] = []
    for role in scenario.roles:
        first = len(roles)
        made = _role(scenario, role, tables, len(steps) + 1)
        steps += [(role, step) for step in walk(role.program)]
        count = thread_count(scenario, role)
        places = [Place(f"{role.name} {n}", role.begin_ns + n * role.stagger_ns) for n in range(count)]
        threads += [Place(role.name, places[0].begin_ns)] if count == 1 else places
        for number, gil in enumerate(gil_of[role.name]):
            if role.processes:
                roles.append(replace(made, gil=gil, begin_ns=places[number].begin_ns))
            else:
                roles.append(replace(made, gil=gil, threads=count))
        parts[role.name] = tuple(range(first, len(roles)))
    clients = tuple(
        native_sim.Client(
            connections=client.connections,
            port=ports[client.port],
            port_step=int(client.thread_per_connection),
            think=-1 if client.think is None else tables.dist(client.think),
            rate_per_s=client.rate_per_s,
            cores=_mask(client.cores, scenario, client=True),
            work_ns=client.work_ns,
        )
        for client in scenario.clients
    )
    parts |= {client.name: (len(roles) + place,) for place, client in enumerate(scenario.clients)}
    spec = Spec(
        seed=seed,
        end_ns=scenario.warm_ns + scenario.duration_ns,
        warm_ns=scenario.warm_ns,
        costs=costs.in_order(),
        tick_ns=costs.tick_ns,
        slice_ns=costs.slice_ns,
        migration_ns=costs.migration_ns,
        core_count=scenario.cores,
        gils=gils,
        roles=tuple(roles),
        clients=clients,
        port_count=port_count,
        semaphores=counts,
        dists=tuple(tables.dists),
        max_events=max_events,
    )
    return Compiled(spec, parts, gil_names, tuple(threads), tuple(steps))


def thread_count(scenario: Scenario, role: Role) -> int:
    """Return the number of a role's threads; with a thread for each connection, the number of connections."""
    own = _own_client(scenario, role)
    return role.threads if own is None else own


def _own_client(scenario: Scenario, role: Role) -> int | None:
    heard = {step.target for step in walk(role.program) if step.word == "receive"}
    return next((one.connections for one in scenario.clients if one.thread_per_connection and one.port in heard), None)


def _ports(scenario: Scenario) -> tuple[dict[str, int], int]:
    ports: dict[str, int] = {}
    count = 0
    for client in scenario.clients:
        if client.port not in ports:
            ports[client.port] = count
            count += client.connections if client.thread_per_connection else 1
    return ports, count


def _tokens(scenario: Scenario) -> tuple[dict[tuple[str, str], int], tuple[int, ...]]:
    """Return indices of semaphores by (what, name), and their initial values; a lock is one, a queue one or two."""
    found: dict[tuple[str, str], int] = {}
    counts: list[int] = []

    def add(what: str, name: str, count: int) -> None:
        found[what, name] = len(counts)
        counts.append(count)

    for name in scenario.locks:
        add("lock", name, 1)
    for semaphore in scenario.semaphores:
        add("semaphore", semaphore.name, semaphore.initial)
    for queue in scenario.queues:
        add("items", queue.name, 0)
        if queue.capacity:
            add("places", queue.name, queue.capacity)
    return found, tuple(counts)


def _gils(scenario: Scenario) -> tuple[dict[str, tuple[int, ...]], tuple[native_sim.Gil, ...], tuple[str, ...]]:
    """Return the GILs of each role's parts, and the GILs with their names. A process without threads has no GIL."""
    gils: list[native_sim.Gil] = []
    names: list[str] = []
    by_process: dict[str, int] = {}
    processes = {process.name: process for process in scenario.processes}

    def add(process: Process, name: str) -> int:
        policy = choose(process)
        gils.append(
            native_sim.Gil(
                policy=policy.address,
                options=policy.options,
                spin_ns=policy.spin_ns,
                yields=policy.yields,
                enabled=process.gil,
                interval_ns=process.switch_interval_ns,
                slow_down=process.slow_down,
            )
        )
        names.append(name)
        return len(gils) - 1

    found: dict[str, tuple[int, ...]] = {}
    for role in scenario.roles:
        count = thread_count(scenario, role)
        if not count:
            found[role.name] = ()
        elif role.process == NO_PROCESS:
            found[role.name] = (-1,)
        elif role.processes:
            found[role.name] = tuple(add(processes[role.process], f"{role.name} {n}") for n in range(count))
        else:
            if role.process not in by_process:
                by_process[role.process] = add(processes[role.process], role.process)
            found[role.name] = (by_process[role.process],)
    return found, tuple(gils), tuple(names)


def _mask(cores: tuple[int, ...] | None, scenario: Scenario, *, client: bool) -> int:
    if cores is not None:
        return sum(1 << core for core in cores)
    if scenario.placement == "free":
        return 0
    return 2 if client and scenario.placement == "split" else 1


def _role(scenario: Scenario, role: Role, tables: _Tables, where: int) -> native_sim.Role:
    """Return a role as one thread, without its GIL; its first step has the number `where`."""
    own = _own_client(scenario, role)
    numbers = iter(range(where, where + sum(1 for _ in walk(role.program))))
    return native_sim.Role(
        ops=tuple(_ops(role.program, tables, numbers, count())),
        gil=-1,
        repeats=role.repeats,
        cores=_mask(role.cores, scenario, client=False),
        priority=role.priority,
        urgent=role.urgent,
        port_step=int(own is not None),
        begin_ns=role.begin_ns,
        stagger_ns=role.stagger_ns,
    )


def _ops(program: tuple[Step, ...], tables: _Tables, numbers: Iterator[int], clocks: Iterator[int]) -> Iterator[Op]:
    for step in program:
        where = next(numbers)
        if step.word == "loop":
            yield Op(OpKind.LOOP, value=step.count, where=where)
            yield from _ops(step.body, tables, numbers, clocks)
            yield Op(OpKind.END, where=where)
        elif step.word in {"put", "get"}:
            yield from _queue_ops(step, tables, where)
        elif step.times is not None and step.word == "every":
            period_ns = round(step.times.quantiles()[0])
            yield Op(OpKind.SLEEP, value=period_ns, index=next(clocks), where=where, flags=OF_CLOCK)
        elif step.times is not None:
            kind = _KINDS[step.word]
            if step.times.is_constant:
                yield Op(kind, value=round(step.times.quantiles()[0]), where=where)
            else:
                yield Op(kind, index=tables.dist(step.times), where=where, flags=OF_DIST)
        elif step.word == "receive":
            yield Op(OpKind.RECEIVE, index=tables.ports[step.target], where=where)
        elif step.target:
            what = "lock" if step.word in {"lock", "unlock"} else "semaphore"
            flags = OF_LOCK if step.word == "unlock" else 0
            yield Op(_KINDS[step.word], index=tables.tokens[what, step.target], where=where, flags=flags)
        else:
            yield Op(_KINDS[step.word], where=where)


def _queue_ops(step: Step, tables: _Tables, where: int) -> Iterator[Op]:
    """Yield the operations of put (a free place, then an item) or get (an item, then a free place)."""
    items, places = tables.tokens["items", step.target], tables.tokens.get(("places", step.target))
    takes, posts = (places, items) if step.word == "put" else (items, places)
    if takes is not None:
        yield Op(OpKind.TAKE, index=takes, where=where)
    if posts is not None:
        yield Op(OpKind.POST, index=posts, where=where)
