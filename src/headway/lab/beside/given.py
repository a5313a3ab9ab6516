"""The libraries, server, folders and server cores that a launch is given."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

from headway.host.machine import Machine
from headway.lab.design import Cell

__all__ = ["NOTHING", "Beside", "server_cpus"]


@final
@dataclass(frozen=True)
class Beside:
    """The things beside a launch, made by the runner.

    Attributes:
        paths: Folders of libraries, for the import path.
        server: The facts about the lab's server that the workload needs; {} for none.
        folders: Volume -> the launch's own folder there.
        died: A function that tells how the server ended, or "" while it runs; None without a server.
    """

    paths: tuple[str, ...] = ()
    server: Mapping[str, Any] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)
    died: Callable[[], str] | None = None


NOTHING = Beside()
"""The value for a launch that needs nothing."""


def server_cpus(cell: Cell, machine: Machine) -> tuple[int, ...]:
    """Return the cores for the lab's server beside the cell; under `split`, one that the launch does not use."""
    if cell.placement == "same":
        return (machine.cores[-1],)
    return (machine.split[0],) if cell.placement == "split" else machine.cores
