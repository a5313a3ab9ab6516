"""What a launch is given: libraries, a server, folders, and cores for the server."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

from headway.host.machine import Machine
from headway.lab.design import Cell

__all__ = ["NOTHING", "Beside", "server_cpus"]


@final
@dataclass(frozen=True)
class Beside:
    """What stands beside a launch, made by the runner.

    Attributes:
        paths: Folders of libraries, for the import path.
        server: What the workload must know of the lab's server; {} for none.
        folders: Volume -> the launch's own folder there.
        died: Says how the server ended, or "" while it runs; None where there is none to watch.
    """

    paths: tuple[str, ...] = ()
    server: Mapping[str, Any] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)
    died: Callable[[], str] | None = None


NOTHING = Beside()
"""What a launch is given that needs nothing."""


def server_cpus(cell: Cell, machine: Machine) -> tuple[int, ...]:
    """Return the cores for a server of the lab's own beside the cell: under `split` one that the launch keeps off."""
    if cell.placement == "same":
        return (machine.cores[-1],)
    return (machine.split[0],) if cell.placement == "split" else machine.cores
