"""The experiments, one module per theme; `experiments()` is the list, in the order of reports.

A module here only declares (see `headway.lab.design`). Thresholds: "equal" means within 10 %, "not faster" allows 5 %,
because that much is what interleaved launches on a shared 2-core machine tell apart at quick size.
"""

from headway.errors import UsageError
from headway.lab.design import Experiment
from headway.lab.experiments import (
    ccbench,
    convoy,
    cpu,
    databases,
    files,
    intervals,
    policies,
    sharing,
    speed,
    switching,
    waiting,
    web,
)

__all__ = ["experiment", "experiments"]

_ALL = (
    *cpu.EXPERIMENTS,
    *speed.EXPERIMENTS,
    *sharing.EXPERIMENTS,
    *waiting.EXPERIMENTS,
    *web.EXPERIMENTS,
    *databases.EXPERIMENTS,
    *files.EXPERIMENTS,
    *convoy.EXPERIMENTS,
    *intervals.EXPERIMENTS,
    *policies.EXPERIMENTS,
    *ccbench.EXPERIMENTS,
    *switching.EXPERIMENTS,
)


def experiments() -> tuple[Experiment, ...]:
    """Return every experiment."""
    return _ALL


def experiment(name: str) -> Experiment:
    """Return the experiment called `name`. Raises UsageError, with the nearest names, where there is none."""
    for one in _ALL:
        if one.name == name:
            return one
    import difflib

    near = difflib.get_close_matches(name, [one.name for one in _ALL], n=1)
    raise UsageError(
        f"no experiment is called `{name}`",
        hint=f"did you mean `{near[0]}`?" if near else "`headway lab --list` lists them",
    )
