"""Single launches, with the servers and files that they need."""

from dataclasses import replace

from headway.lab.launching.launch import run_launch
from headway.library import library_path


def changed(cell, **changes):
    """Return the cell with another variant."""
    return replace(cell, variant=replace(cell.variant, **changes))


def alone(cell, interpreter, machine, keeper, neighbours):
    """Run one launch with the servers and files that it needs."""
    with neighbours.of(cell, keeper) as beside:
        library = library_path()
        (found,) = run_launch(
            [cell], interpreter.executable, machine, library=library, limit_s=60, keeper=keeper, beside=beside
        )
        return found
