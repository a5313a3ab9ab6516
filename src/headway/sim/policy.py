"""Finds the policy of a simulated GIL, by name or path, and its options."""

from dataclasses import dataclass
from typing import final

from headway.errors import ScenarioError, SchedulingError
from headway.native import Policy, PolicyOption, find_policy, policies
from headway.sim.scenario import STOCK, Process
from headway.sim.table import nearest
from headway.traces.policy_options import PolicyOptions

__all__ = ["SIMULATED", "Chosen", "choose", "find"]

SIMULATED = ("spin_us", "yield")
"""The engine's options that a simulation supports; the others concern the operating system."""


@final
@dataclass(frozen=True)
class Chosen:
    """A policy and its options in the form that the library takes.

    Attributes:
        address: The address of its `struct hw_policy`; 0: there is no policy.
        options: Values in the order of the policy's own list of options.
        spin_ns: How long a waiter may spin.
        yields: If true, CPU-bound threads leave their core to the thread that they wake.
        told: The options as a trace has them; None: there is no policy.
    """

    address: int = 0
    options: tuple[int, ...] = ()
    spin_ns: int = 0
    yields: bool = False
    told: PolicyOptions | None = None


def find(policy: str) -> tuple[int, Policy]:
    """Return the address of a policy's `struct hw_policy`, and its description.

    Raises:
        ScenarioError: The policy does not exist.
        NativeError: The library is missing or does not fit.
    """
    try:
        return find_policy(policy)
    except SchedulingError as error:
        built_in = [one.name for one in policies()[0]]
        hint = error.hint if "/" in policy else nearest(policy, [STOCK, *built_in])
        raise ScenarioError(error.message, hint=hint) from error


def choose(process: Process) -> Chosen:
    """Return a process's policy.

    Raises:
        ScenarioError: The policy does not exist, or it has no such option, or the option not that value.
        NativeError: The library is missing or does not fit.
    """
    if process.policy == STOCK:
        return Chosen()
    address, policy = find(process.policy)
    engine = policies()[1]
    known = {one.name: one for one in (*policy.options, *engine)}
    said = dict(process.options)
    for name, value in said.items():
        _check(policy.name, known, name, value)
    values = {name: said.get(name, one.preset) for name, one in known.items()}
    return Chosen(
        address=address,
        options=tuple(values[one.name] for one in policy.options),
        spin_ns=values["spin_us"] * 1_000,
        yields=bool(values["yield"]),
        told=PolicyOptions(
            changed=tuple((name, value) for name, value in values.items() if value != known[name].preset),
            presets=tuple((name, value) for name, value in values.items() if value == known[name].preset),
        ),
    )


def _check(policy: str, known: dict[str, PolicyOption], name: str, value: int) -> None:
    own = [one for one in known if one in SIMULATED or one not in {engine.name for engine in policies()[1]}]
    if name not in known:
        raise ScenarioError(f"the policy {policy} has no option {name!r}", hint=nearest(name, own))
    if name not in own:
        raise ScenarioError(
            f"the option {name} is not simulated", hint="leave it out: the option concerns the operating system"
        )
    option = known[name]
    if not option.least <= value <= option.most:
        raise ScenarioError(f"{name} is {value}, expected a whole number from {option.least} to {option.most}")
