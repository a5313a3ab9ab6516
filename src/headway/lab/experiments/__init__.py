"""The experiments, one module per theme; `experiments()` lists them in the order of runs and reports.

Each module only declares (see `headway.lab.design`). The experiments in its `EXPERIMENTS` are found automatically. In
thresholds, "equal" means within 10 %, and "not faster" allows 5 %: interleaved launches on a shared 2-core machine can
tell that much apart at quick size.
"""

import functools
import importlib
import pkgutil
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.lab.design import Declared, Experiment, Size, Variant

__all__ = ["declared_experiment", "experiment", "experiments"]

_TELLING = ("convoy", "policies", "cpu-bound", "sha256", "countdown", "race", "sleep", "http-sleep")
"""Experiments that come first, because they tell most about a machine and its interpreters."""


def _declared_here() -> "tuple[Experiment, ...]":
    """Return the experiments of every module of this folder, by module, those in `_TELLING` first."""
    modules = [importlib.import_module(f"{__name__}.{one.name}") for one in pkgutil.iter_modules(__path__)]
    found = [one for module in modules for one in module.EXPERIMENTS]
    return tuple(sorted(found, key=lambda one: _TELLING.index(one.name) if one.name in _TELLING else len(_TELLING)))


@functools.cache
def _all() -> "tuple[Experiment, ...]":
    # On first use: the report of a trace imports the lab, whose figures have the same form, and has no experiment.
    return _declared_here()


def experiments() -> "tuple[Experiment, ...]":
    """Return every experiment."""
    return _all()


def declared_experiment(declared: "Declared") -> "Experiment":
    """Return the experiment for a declaration of a run: no variants, no claims, and levels if there is no baseline."""
    from headway.lab.design import Experiment

    def nothing(_size: "Size") -> "Sequence[Variant]":
        return ()

    return Experiment(
        name=declared.name,
        question=declared.question,
        method=declared.method,
        included=declared.included,
        baseline=declared.baseline,
        variants=nothing,
        metric=declared.metric,
        besides=declared.besides,
        said=declared.said,
        shows="ratios" if declared.baseline else "levels",
    )


def experiment(name: str) -> "Experiment":
    """Return the experiment called `name`. Raises UsageError, with the nearest name, if there is none."""
    for one in _all():
        if one.name == name:
            return one
    import difflib

    near = difflib.get_close_matches(name, [one.name for one in _all()], n=1)
    raise UsageError(
        f"no experiment is called `{name}`",
        hint=f"did you mean `{near[0]}`?" if near else "`headway lab --list` lists them",
    )
