"""Simulates the other programs that had the cores while a trace was recorded, as threads that compute without a GIL.

A trace does not show them, but what they took: a thread that held the GIL ran on a core for a part of the hold only. More
depends on them than that. A thread that is woken for the GIL gets no core at once, and the thread that released the GIL
takes it again and again meanwhile, so an event loop serves whole rounds of requests in a machine's busiest moments.
"""

import math

import numpy as np
from numpy.typing import NDArray

from headway.native_sim import OF_DIST, OP_DTYPE, OpKind, Role
from headway.traces.analysis.intervals import Holds

__all__ = ["MUCH", "crowd", "without_a_core"]

MUCH = 0.1
"""A share of the time that threads hold the GIL: with so much of it off the cores, a busy machine shows in the figures."""

_TOLD_NS = 1_000_000
"""The recorder tells of holds of this length and longer for which part of them the thread ran."""
_BURST_NS = 4_000_000
"""How long a thread of another program computes at a time, on average, if it does not compute all the time: about a tick."""
_POINTS = 41
_ALL = 0.99
"""A thread that computes for this share of the time computes all the time."""


def without_a_core(holds: Holds) -> float:
    """Return the share of the time of some holds in which the holder did not run, as far as the recorder tells it."""
    told = holds.length_ns >= _TOLD_NS
    total_ns = int(holds.length_ns.sum())
    return int(holds.off_core_ns[told].sum()) / total_ns if total_ns else 0.0


def crowd(others: float, cores: int, first_dist: int) -> tuple[tuple[Role, ...], tuple[tuple[float, ...], ...]]:
    """Return roles for other programs that want as much of the cores as some threads that compute all the time.

    Each core has as many of these threads. They stay there, because the simulator lets only idle cores pull, and a crowd on
    one core would leave the other one to the program. They compute and pause for random times, so that a number of threads
    that is not a whole one for each core has a meaning, too.

    Args:
        others: The number of threads that would compute all the time.
        cores: The number of cores on which they run.
        first_dist: The index of the first distribution that is returned.

    Returns:
        The roles, and the distributions to which their operations refer.
    """
    if others <= 0:
        return (), ()
    each = math.ceil(others / cores)
    share = others / (each * cores)
    ops = _ops((OpKind.COMPUTE, 0, 0))
    dists: tuple[tuple[float, ...], ...] = ()
    if share < _ALL:
        ops = _ops((OpKind.HOLD, OF_DIST, first_dist), (OpKind.BLOCK, OF_DIST, first_dist + 1))
        random = -np.log1p(-np.linspace(0, 1 - 0.2 / _POINTS, _POINTS))  # of an exponential distribution
        random /= random.mean()
        dists = tuple(tuple((random * mean_ns).tolist()) for mean_ns in (_BURST_NS, _BURST_NS * (1 - share) / share))
    roles = (Role(ops=ops, gil=-1, threads=each, cores=1 << core) for core in range(cores))
    return tuple(roles), dists


def _ops(*rows: tuple[OpKind, int, int]) -> NDArray[np.void]:
    return np.array([(kind, flags, index, 0, 0, 0) for kind, flags, index in rows], dtype=OP_DTYPE)
