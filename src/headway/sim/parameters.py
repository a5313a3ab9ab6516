"""The parameters of a scenario that `--set` and `--sweep` change, such as `server.threads=2` or `policy=fair`."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import replace

from headway.errors import ScenarioError
from headway.sim.check import MOST_THREADS, check
from headway.sim.scenario import PLACEMENTS, STOCK, Client, Process, Role, Scenario, busy_role
from headway.sim.table import nearest

__all__ = ["PARAMETERS", "change", "full_name", "split_setting", "with_options"]

PARAMETERS = (
    "threads",
    "processes",
    "policy",
    "switch_interval_s",
    "gil",
    "cores",
    "placement",
    "connections",
    "rate_per_s",
    "duration_s",
    "option.NAME",
)
"""The names that may stand before the `=`. `threads` and `processes` may be of a role (`ROLE.threads`), `connections`
and `rate_per_s` of a client."""

_MOST_CORES = 64
_MOST_S = 1e6
_S_NS = 1_000_000_000
_FLAGS = {"on": True, "true": True, "yes": True, "1": True, "off": False, "false": False, "no": False, "0": False}


def split_setting(text: str) -> tuple[str, str]:
    """Split `name=value` into the parameter's name and the value. Raises ScenarioError."""
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise ScenarioError(
            f"{text!r} is not a setting, expected NAME=VALUE", hint=f"names are {', '.join(PARAMETERS)}"
        )
    part, dot, last = name.rpartition(".")
    if part != "option":
        last = last.replace("-", "_")
        last = {"switch_interval": "switch_interval_s", "rate": "rate_per_s", "duration": "duration_s"}.get(last, last)
    return part + dot + last, value


def change(scenario: Scenario, name: str, value: str) -> Scenario:
    """Return the scenario with a parameter set.

    Args:
        scenario: A scenario that has been checked.
        name: The parameter's name, as `split_setting` returns it.
        value: The value as the user typed it.

    Raises:
        ScenarioError: There is no such parameter, role or client, or the value is invalid or does not fit the rest.
    """
    part, _, last = name.rpartition(".")
    if part == "option":
        return with_options(scenario, ((last, _whole(name, value, -(2**62), 2**62)),))
    if last in _OF_A_ROLE:
        role = _role(scenario, name, part)
        changed = replace(
            scenario,
            roles=tuple(_OF_A_ROLE[last](one, name, value) if one == role else one for one in scenario.roles),
        )
    elif last in _OF_A_CLIENT:
        client = _client(scenario, name, part)
        changed = replace(
            scenario,
            clients=tuple(_OF_A_CLIENT[last](one, name, value) if one == client else one for one in scenario.clients),
        )
    elif not part and last in _OF_ALL:
        changed = _OF_ALL[last](scenario, name, value)
    else:
        raise ScenarioError(f"there is no parameter {name!r}", hint=nearest(last, PARAMETERS))
    check(changed)
    return changed


def full_name(scenario: Scenario, name: str) -> str:
    """Return a parameter's name with the role or the client that it is of, so that one parameter has one name.

    Raises:
        ScenarioError: There is no such role or client.
    """
    part, _, last = name.rpartition(".")
    if last in _OF_A_ROLE and part != "option":
        return f"{_role(scenario, name, part).name}.{last}"
    if last in _OF_A_CLIENT and part != "option":
        return f"{_client(scenario, name, part).name}.{last}"
    return name


def with_options(scenario: Scenario, options: tuple[tuple[str, int], ...]) -> Scenario:
    """Return the scenario with options of its policy set. Raises ScenarioError if the scenario has no policy."""
    if options and all(process.policy == STOCK for process in scenario.processes):
        raise ScenarioError(
            f"the option {options[0][0]} needs a policy, and none is given", hint="name one: `--policy fair`"
        )

    def set_in(process: Process) -> Process:
        return (
            process
            if process.policy == STOCK
            else replace(process, options=tuple((dict(process.options) | dict(options)).items()))
        )

    return replace(scenario, processes=tuple(map(set_in, scenario.processes)))


def _whole(name: str, value: str, least: int, most: int) -> int:
    try:
        number = int(value)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise ScenarioError(
            f"{name} is {value!r}, expected a whole number from {least} to {most}",
            hint=f"such as {name}={max(least, 4)}",
        )
    return number


def _real(name: str, value: str, most: float) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 < number <= most:
        such = {"switch_interval_s": "switch-interval=5ms", "duration_s": "duration=2s"}.get(name, f"{name}=100")
        raise ScenarioError(
            f"{name} is {value!r}, expected a number above 0, and {most:g} at most", hint=f"such as {such}"
        )
    return number


def _flag(name: str, value: str) -> bool:
    if value.lower() not in _FLAGS:
        raise ScenarioError(f"{name} is {value!r}, expected on or off", hint=f"write {name}=on or {name}=off")
    return _FLAGS[value.lower()]


def _role(scenario: Scenario, name: str, part: str) -> Role:
    if not part:
        return busy_role(scenario)
    found = [role for role in scenario.roles if role.name == part]
    if not found:
        raise ScenarioError(
            f"{name}: there is no role {part!r}", hint=nearest(part, [role.name for role in scenario.roles])
        )
    return found[0]


def _client(scenario: Scenario, name: str, part: str) -> Client:
    names = [client.name for client in scenario.clients]
    found = [client for client in scenario.clients if part in {"", client.name}]
    if not found:
        raise ScenarioError(f"{name}: there is no client{f' {part!r}' * bool(part)}", hint=nearest(part, names))
    if len(found) > 1:
        raise ScenarioError(f"{name}: there are several clients", hint=f"name one: `{names[0]}.{name}`")
    return found[0]


def _threads(role: Role, name: str, value: str) -> Role:
    return replace(role, threads=_whole(name, value, 0, MOST_THREADS))


def _processes(role: Role, name: str, value: str) -> Role:
    return replace(role, processes=_flag(name, value))


def _connections(client: Client, name: str, value: str) -> Client:
    return replace(client, connections=_whole(name, value, 1, MOST_THREADS))


def _rate(client: Client, name: str, value: str) -> Client:
    return replace(client, rate_per_s=_real(name, value, 1e9), think=None)


def _of_processes(scenario: Scenario, **changes: object) -> Scenario:
    processes = tuple(dataclasses.replace(process, **changes) for process in scenario.processes)  # type: ignore[arg-type]
    return replace(scenario, processes=processes)


def _policy(scenario: Scenario, _: str, value: str) -> Scenario:
    kept = all(process.policy == value for process in scenario.processes)
    return scenario if kept else _of_processes(scenario, policy=value, options=())


def _interval(scenario: Scenario, name: str, value: str) -> Scenario:
    return _of_processes(scenario, switch_interval_ns=max(1, round(_real(name, value, _MOST_S) * _S_NS)))


def _gil(scenario: Scenario, name: str, value: str) -> Scenario:
    return _of_processes(scenario, gil=_flag(name, value))


def _cores(scenario: Scenario, name: str, value: str) -> Scenario:
    return replace(scenario, cores=_whole(name, value, 1, _MOST_CORES))


def _duration(scenario: Scenario, name: str, value: str) -> Scenario:
    return replace(scenario, duration_ns=max(1, round(_real(name, value, _MOST_S) * _S_NS)))


def _placement(scenario: Scenario, name: str, value: str) -> Scenario:
    for placement in PLACEMENTS:
        if placement == value:
            return replace(scenario, placement=placement)
    raise ScenarioError(f"{name} is {value!r}, expected {' or '.join(PLACEMENTS)}", hint=nearest(value, PLACEMENTS))


_OF_A_ROLE: dict[str, Callable[[Role, str, str], Role]] = {"threads": _threads, "processes": _processes}
_OF_A_CLIENT: dict[str, Callable[[Client, str, str], Client]] = {"connections": _connections, "rate_per_s": _rate}
_OF_ALL: dict[str, Callable[[Scenario, str, str], Scenario]] = {
    "policy": _policy,
    "switch_interval_s": _interval,
    "gil": _gil,
    "cores": _cores,
    "placement": _placement,
    "duration_s": _duration,
}
