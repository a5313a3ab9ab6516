"""Checks that the parts of a scenario fit each other."""

from collections.abc import Iterable

from headway.errors import ScenarioError
from headway.native_sim import CLOCKS
from headway.sim.scenario import NO_PROCESS, TIMED, Role, Scenario, Step, walk
from headway.sim.table import nearest

__all__ = ["MOST_GILS", "MOST_THREADS", "check"]

MOST_GILS = 255
"""An event names its GIL by a byte, and one of the 256 values means no GIL."""

MOST_THREADS = 20_000
"""The most threads of a role, and connections of a client: the same number as in native/sim/simulate.c."""
_LEAST_INTERVAL_NS = 1_000
"""The least switch interval, as in native/sim/simulate.c."""
_MOST_TOTAL = 1_000_000
_ENDLESS = ("compute", "exit")


def check(scenario: Scenario) -> None:
    """Check that every name refers to something, that programs take time, and that waiting threads can be woken.

    Raises:
        ScenarioError: One of these does not hold.
    """
    if scenario.placement == "split" and scenario.cores < 2:
        raise ScenarioError(f"placement is 'split' and cores is {scenario.cores}, expected 2 cores or more")
    names = [role.name for role in scenario.roles] + [client.name for client in scenario.clients]
    for name in names:
        if names.count(name) > 1:
            raise ScenarioError(f"a role and a client both have the name {name!r}, expected different names")
    if scenario.busy:
        _known("busy", scenario.busy, [role.name for role in scenario.roles], "role")
    _check_cores(scenario)
    for process in scenario.processes:
        if process.switch_interval_ns < _LEAST_INTERVAL_NS:
            raise ScenarioError(
                f"the switch interval of process {process.name!r} is {process.switch_interval_ns} ns, expected 1 us or more",
                hint="CPython's own is 5 ms: switch_interval_ms = 5",
            )
    for role in scenario.roles:
        _check_role(scenario, role)
    _check_ports(scenario)
    _check_wakers(scenario)
    _check_unlocks(scenario)
    if sum(role.threads for role in scenario.roles) > _MOST_TOTAL:
        raise ScenarioError(f"there are more than {_MOST_TOTAL:,} threads")
    gils = len(scenario.processes) + sum(role.threads for role in scenario.roles if role.processes)
    if gils > MOST_GILS:
        raise ScenarioError(f"there are {gils} processes, expected {MOST_GILS} at most")


def _known(key: str, name: str, known: Iterable[str], what: str) -> None:
    if name not in (names := list(known)):
        raise ScenarioError(f"{key} is {name!r}, but no {what} has that name", hint=nearest(name, names))


def _check_cores(scenario: Scenario) -> None:
    for kind, parts in (("role", scenario.roles), ("client", scenario.clients)):
        for part in parts:
            if part.cores is not None and max(part.cores) >= scenario.cores:
                raise ScenarioError(
                    f"{kind}.{part.name}.cores is {list(part.cores)}, but there are {scenario.cores} cores, numbered from 0"
                )


def _check_role(scenario: Scenario, role: Role) -> None:
    where = f"role.{role.name}"
    if role.process != NO_PROCESS:
        _known(f"{where}.process", role.process, [process.name for process in scenario.processes], "process")
    elif role.processes:
        raise ScenarioError(f"{where}.processes is true, but its process is {NO_PROCESS!r}, which has no GIL")
    known = {
        "lock": (scenario.locks, "lock", "locks"),
        "unlock": (scenario.locks, "lock", "locks"),
        "take": ([one.name for one in scenario.semaphores], "semaphore", "[semaphore.NAME]"),
        "post": ([one.name for one in scenario.semaphores], "semaphore", "[semaphore.NAME]"),
        "put": ([one.name for one in scenario.queues], "queue", "[queue.NAME]"),
        "get": ([one.name for one in scenario.queues], "queue", "[queue.NAME]"),
    }
    for step in walk(role.program):
        names, what, table = known.get(step.word, ((), "", ""))
        if what and step.target not in names:
            hint = nearest(step.target, list(names)) or f"name it in {table}"
            raise ScenarioError(f"{where} has {step.word} = {step.target!r}, but no {what} has that name", hint=hint)
    _check_order(where, role.program)
    _check_clocks(where, role.program)
    if role.repeats and not any(map(_takes_time, walk(role.program))):
        raise ScenarioError(
            f"{where}.program takes no time, so it never ends", hint="add a step as {hold_us = 8}, or repeats = false"
        )


def _check_order(where: str, program: tuple[Step, ...]) -> None:
    words = [step.word for step in walk(program)]
    if "reply" in words and "receive" not in words[: words.index("reply")]:
        raise ScenarioError(f"{where} has a reply without a receive before it")
    if "answer" in words and "send" not in words[: words.index("answer")]:
        raise ScenarioError(f"{where} has an answer without a send before it")
    for block in [program, *(step.body for step in walk(program) if step.body)]:
        for place, step in enumerate(block[:-1]):
            if step.word in _ENDLESS:
                raise ScenarioError(f"{where} has {step.word} and then {block[place + 1].word}, which never happens")


def _check_clocks(where: str, program: tuple[Step, ...]) -> None:
    found = [step.times for step in walk(program) if step.word == "every"]
    if len(found) > CLOCKS:
        raise ScenarioError(f"{where} has {len(found)} steps `every`, expected at most {CLOCKS}")
    if not all(times is not None and times.is_constant for times in found):
        raise ScenarioError(f"{where} has a step `every` with a distribution, expected a number")


def _takes_time(step: Step) -> bool:
    if step.word in TIMED:
        return step.times is not None and step.times.mean() > 0
    return step.word in {"compute", "receive", "take", "get", "exit"}


def _check_ports(scenario: Scenario) -> None:
    heard: dict[str, list[Role]] = {}
    for role in scenario.roles:
        for step in walk(role.program):
            if step.word == "receive" and role not in heard.setdefault(step.target, []):
                heard[step.target].append(role)
    for client in scenario.clients:
        if client.port not in heard:
            raise ScenarioError(
                f"client.{client.name}.port is {client.port!r}, but no role receives from it",
                hint=nearest(client.port, list(heard)),
            )
        if client.thread_per_connection:
            _check_own_ports(scenario, client.name, client.port, heard)
    asked = {client.port for client in scenario.clients}
    for port, (role, *_) in heard.items():
        if port not in asked:
            raise ScenarioError(
                f"role.{role.name} has receive = {port!r}, but no client uses that port",
                hint=nearest(port, sorted(asked)) or "add a [client.NAME] with that port",
            )


def _check_own_ports(scenario: Scenario, client: str, port: str, heard: dict[str, list[Role]]) -> None:
    where = f"client.{client}.thread_per_connection"
    if len(heard[port]) > 1:
        raise ScenarioError(f"{where} is true, and {len(heard[port])} roles receive from {port!r}, expected one")
    role = heard[port][0]
    if role.threads not in {1, next(one.connections for one in scenario.clients if one.name == client)}:
        raise ScenarioError(
            f"{where} is true, and role.{role.name}.threads is {role.threads}, expected a thread for each",
            hint="leave out `threads`",
        )
    others = [one for one, roles in heard.items() if one != port and role in roles]
    if others:
        raise ScenarioError(f"{where} is true, and role.{role.name} also receives from {others[0]!r}")
    if sum(one.port == port for one in scenario.clients) > 1:
        raise ScenarioError(f"{where} is true, but other clients also use {port!r}")


def _check_wakers(scenario: Scenario) -> None:
    """Check that some role puts into each queue, and posts to each semaphore, from which others take."""
    said = [(step.word, step.target) for role in scenario.roles for step in walk(role.program)]
    initial = {one.name: one.initial for one in scenario.semaphores}
    for word, target in said:
        if word == "get" and ("put", target) not in said:
            raise ScenarioError(f"a step has get = {target!r}, but no step puts anything into that queue")
        if word == "take" and ("post", target) not in said and not initial[target]:
            raise ScenarioError(
                f"a step has take = {target!r}, but no step posts to that semaphore, which is 0 at the start"
            )


def _check_unlocks(scenario: Scenario) -> None:
    """Check each unlock: the role has locked that lock before, or another role locks it and hands it over.

    As with threading.Lock, another thread may unlock a lock. A role that unlocks first and locks later, or more often than
    it locks, is sure to fail only if no other role locks that lock.
    """
    for role in scenario.roles:
        elsewhere = {
            step.target
            for other in scenario.roles
            if other.name != role.name
            for step in walk(other.program)
            if step.word == "lock"
        }
        held: dict[str, int] = {}
        for step in walk(role.program):
            if step.word == "lock":
                held[step.target] = 1
            elif step.word == "unlock" and step.target not in elsewhere and not held.get(step.target):
                what = "a lock before it" if step.target not in held else "a lock since the unlock before it"
                raise ScenarioError(
                    f"role.{role.name} has unlock = {step.target!r}, and no role has {what}: Python raises RuntimeError",
                    hint=f"write {{lock = {step.target!r}}} before it, or use a semaphore, which any thread may post to",
                )
            elif step.word == "unlock":
                held[step.target] = 0
