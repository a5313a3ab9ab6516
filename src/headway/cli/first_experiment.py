"""The experiment that new users are told to begin with."""

import os

__all__ = ["first_experiment"]


def first_experiment() -> str:
    """Return the name of the experiment that shows, in a minute, what the GIL costs a server on this machine.

    On one core all cells of `convoy` are left out, because its client has a core of its own.
    """
    return "convoy" if len(os.sched_getaffinity(0)) > 1 else "convoy-affinity"
