"""The policy that scheduled the GIL while a trace was recorded: a replay without a change has the same one."""

from dataclasses import dataclass
from typing import final

from headway.errors import ScenarioError
from headway.native import Policy, policies
from headway.printable import printable
from headway.sim.policy import SIMULATED, find
from headway.sim.scenario import STOCK
from headway.traces.analysis.words import listed
from headway.traces.model import Process
from headway.traces.policy_options import PolicyOptions

__all__ = ["Scheduled", "scheduled"]

_OF_THE_SYSTEM = ("os_slice_us", "os_batch")
"""The engine's options that change what the operating system does, which is not simulated."""


@final
@dataclass(frozen=True)
class Scheduled:
    """The policy of a trace.

    Attributes:
        policy: Its name, or the path of its library; STOCK: none.
        options: Its options, those that differ from their presets, (name, value).
        rests_on: What a prediction assumes of it, a sentence each.
        outside: Why a prediction may be wrong because of it, a sentence each.
    """

    policy: str = STOCK
    options: tuple[tuple[str, int], ...] = ()
    rests_on: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()


def scheduled(process: Process, library: str = "") -> Scheduled:
    """Return the policy of a traced process.

    Args:
        process: The process.
        library: The path of a policy of the user's own, which counts if it is the policy of the trace; "": none. No
            library is loaded that the user has not named: a trace may come from another machine.

    Raises:
        ScenarioError: The policy is the user's own, and `library` is not its library.
    """
    if not process.policy:
        return Scheduled()
    known = {one.name: one for one in policies()[0]}
    if process.policy in known:
        return _with_options(process.policy, known[process.policy], process.policy_options)
    name = printable(process.policy)
    policy = find(library)[1] if library else None
    if policy is None or policy.name != process.policy:
        raise ScenarioError(
            f"the trace was recorded under the policy {name}, which does not come with Headway, so the program cannot be"
            " replayed as it was",
            hint=f"record the program without a policy; to keep {name} and change something else, name its library, as in"
            " `--policy ./mine.so --threads worker:8`",
        )
    return _with_options(library, policy, process.policy_options)


def _with_options(place: str, policy: Policy, recorded: PolicyOptions | None) -> Scheduled:
    name = printable(policy.name)
    if recorded is None:
        text = (
            f"the trace does not tell the options of the policy {name}: the model begins with the usual ones, so record the"
            " program again if it had others"
        )
        return Scheduled(place, outside=(text,))
    engine = policies()[1]
    known = {one.name: one for one in (*policy.options, *engine)}
    fixed = {one.name for one in engine} - set(SIMULATED)
    options, unknown = [], []
    for option, value in (*recorded.changed, *recorded.presets):
        one = known.get(option)
        if one is None or not one.least <= value <= one.most:
            unknown.append(f"{option}={value}")
        elif value != one.preset and option not in fixed:
            options.append((option, value))
    outside = []
    if unknown:
        outside.append(f"the policy {name} of this version has no {printable(listed(unknown))}, as in the trace")
    outside += [
        f"the option {option}={value}, with which the trace was recorded, concerns the operating system, and is not simulated"
        for option, value in recorded.changed
        if option in _OF_THE_SYSTEM
    ]
    had = listed([f"{option}={value}" for option, value in options])
    keeps = f"the policy {name} had {printable(had)} while the trace was recorded, and keeps it unless the change says otherwise"
    return Scheduled(place, tuple(options), (keeps,) if options else (), tuple(outside))
