"""A run goes on as it was begun: what has changed since, and would make its figures those of two runs, is refused."""

from collections.abc import Iterable, Mapping
from typing import Any

from headway import __version__
from headway.errors import UsageError
from headway.host.machine import Machine
from headway.lab.design import Cell
from headway.lab.experiments import experiments
from headway.lab.kept.settings import Settings
from headway.lab.plan import Plan
from headway.printable import printable

__all__ = ["refuse_another_machine", "refuse_another_redis", "refuse_other_volumes", "refuse_unknown"]


def refuse_another_machine(begun: Settings, now: Machine) -> None:
    """Raise UsageError if a run would continue under another Headway, processor or kernel than it began with."""
    for what, before, here in (
        ("Headway", begun.version, __version__),
        ("the processor", begun.machine.cpu, now.cpu),
        ("the kernel", begun.machine.kernel, now.kernel),
    ):
        if before != here:
            raise UsageError(
                f"the run began with {what} {before}, which is now {here}",
                hint="start a new run: figures of the two cannot be combined",
            )


def refuse_unknown(plan: Plan) -> None:
    """Raise UsageError if a run would continue with an experiment that this Headway does not have."""
    known = {one.name for one in experiments()}
    unknown = [f"`{printable(name)}`" for name in plan.experiments if name not in known]
    if unknown:
        raise UsageError(
            f"the run has launches of {', '.join(unknown)}, and this Headway has no such experiment",
            hint="resume it with the Headway that began it",
        )


def refuse_another_redis(begun: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raise UsageError if a run would continue with another Redis than it began with."""
    if begun and begun != now:

        def said(redis: Mapping[str, str]) -> str:
            whose = f"yours at {redis['url']}" if redis.get("url") else redis.get("whose", "none")
            return f"{redis.get('server', 'no Redis')} ({whose})"

        raise UsageError(
            f"the run began with {said(begun)} and would continue with {said(now)}",
            hint="give the same `--redis-url` again (it is not stored), or leave it out if the run had none",
        )


def refuse_other_volumes(begun: Mapping[str, Mapping[str, Any]], now: Mapping[str, Any], cells: Iterable[Cell]) -> None:
    """Raise UsageError if a run would continue with files on other volumes than it began with."""
    for name in sorted({name for cell in cells for name in cell.variant.space}):
        if name in begun and begun[name] != now.get(name):
            here = now.get(name, {"folder": "no folder", "type": "none"})
            raise UsageError(
                f"the run began with its {name} at {begun[name]['folder']} ({begun[name]['type']}), which is now "
                f"{here['folder']} ({here['type']})",
                hint=f"set HEADWAY_{name.upper()} as it was, or start a new run",
            )
