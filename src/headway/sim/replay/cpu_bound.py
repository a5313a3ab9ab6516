"""Tells which roles are CPU-bound, as a trace's report tells it of threads."""

import numpy as np

from headway.sim.replay.learn import Model
from headway.traces.analysis.threads import held, is_cpu_bound

__all__ = ["cpu_bound"]

_COMPUTES_SHARE = 0.3
"""A role that holds the GIL for less of the time is not worth a process, unless others like it make it up together."""
_COMPUTES_S = 1e-3
"""A role that is not preempted is CPU-bound if it runs for so long per turn."""


def cpu_bound(model: Model) -> tuple[str, ...]:
    """Return the CPU-bound roles that hold the GIL for `_COMPUTES_SHARE`; if there is none, those that do so together.

    The time that a thread holds the GIL without a core counts in these shares, too: other programs may have had the core.
    """
    preempted = [role for role in model.roles if _is_preempted(model, role)]
    large = [
        role
        for role in model.roles
        if model.measured[role].held_share >= _COMPUTES_SHARE and (role in preempted or _has_long_turns(model, role))
    ]
    if large:
        return tuple(large)
    together = sum(model.measured[role].held_share for role in preempted)
    return tuple(preempted) if together >= _COMPUTES_SHARE else ()


def _is_preempted(model: Model, role: str) -> bool:
    """Tell whether most of a role's time is in preempted holds; libraries that it calls may make many short turns besides."""
    holds = model.seen.holds
    mine = holds.chosen(np.isin(holds.thread, [one.thread for one in model.actors if one.role == role]))
    return is_cpu_bound(held(mine.chosen(mine.forced)), held(mine))


def _has_long_turns(model: Model, role: str) -> bool:
    measured = model.measured[role]
    return measured.run_share >= _COMPUTES_S * measured.turns_per_s
