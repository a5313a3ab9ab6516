"""Fits a model so that other programs take as much of the cores as they did while its trace was recorded.

Two figures of the trace tell it: for which part of the holds the holder had no core, and how long a thread that slept for
the GIL took until it had it, from when it was first released. The first one alone hardly tells one thread of other programs
on each core from two. The second one decides how much a thread gets done that goes on meanwhile, as an event loop does.
"""

import dataclasses
import math
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.errors import HeadwayError
from headway.sim.machine import Costs
from headway.sim.replay.bursts import Seen, see
from headway.sim.replay.change import NOTHING
from headway.sim.replay.learn import Assumption, Model
from headway.sim.replay.others import without_a_core
from headway.sim.replay.trace import predicted_trace
from headway.traces.analysis.words import share

__all__ = ["crowded", "let_in_ns"]

_TAKEN = 0.02
"""A share of the time with the GIL: less of it without a core, beyond what the program itself takes, tells nothing."""
_CHANCE = 0.2
"""The same as a part of the trace's share: where the program's own threads take its cores, runs differ by chance."""
_EACH = (0.0, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 11.0, 16.0)
"""The numbers of threads of other programs for each core that are tried."""
_AROUND = 3
"""So many of these on each side of the one that is nearest by the time without a core are compared by both figures."""
_SHARE_OFF, _LET_IN_OFF = 0.05, math.log(2)
"""Errors of the two figures that count the same: of a share, and of a time, as a logarithm."""
_NONE_IS = 0.05
"""More of the time with the GIL without a core than the most threads take is no crowd: threads sleep with the GIL."""
_ASLEEP_NS = 50_000
"""A thread that has waited longer than this sleeps."""
_FEW = 10
_LENGTH_NS = 1_500_000_000
_MOST_EVENTS = 100_000


@final
@dataclasses.dataclass(frozen=True)
class _Figures:
    """The two figures; `let_in_ns` is the mean, and 0 if there are too few of these times."""

    share: float
    let_in_ns: float

    def off(self, seen: "_Figures") -> float:
        """Return how far these are from those of the trace."""
        found = abs(self.share - seen.share) / _SHARE_OFF
        if seen.let_in_ns:
            found += abs(math.log(max(self.let_in_ns, 1.0) / seen.let_in_ns)) / _LET_IN_OFF
        return found


def crowded(model: Model, costs: Costs, cores: int) -> Model:
    """Return a model with other programs on its cores as in its trace, and the assumption that this is.

    Args:
        model: The program, learned from its trace.
        costs: The costs of the machine.
        cores: The number of cores that the program ran on.
    """
    seen = _figures(model.seen)
    if seen.share < _TAKEN:
        return model
    made: dict[int, _Figures] = {}

    def figures(index: int) -> _Figures:
        if index not in made:
            one = dataclasses.replace(model, others=_EACH[index] * cores)
            trace = predicted_trace(one, NOTHING, costs, cores=cores, length_ns=_LENGTH_NS, max_events=_MOST_EVENTS)
            made[index] = _figures(see(trace, 0, trace.start_ns, trace.end_ns))
        return made[index]

    try:
        if seen.share - figures(0).share < max(_TAKEN, _CHANCE * seen.share):
            return model
        low, high = 0, len(_EACH) - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if figures(middle).share < seen.share else (low, middle)
        near = range(max(0, low - _AROUND), min(len(_EACH), low + _AROUND + 1))
        best = min(near, key=lambda index: figures(index).off(seen))
    except HeadwayError:
        return model
    if not best or seen.share - made[best].share > _NONE_IS:
        return model
    others = _EACH[best] * cores
    told = Assumption(
        f"threads held the GIL without running on a core for {share(seen.share, 1.0)} of the time that it was held: the model has"
        f" other programs that want {others:.2g} cores all the time, with any change; record again on a calm machine to predict"
        " what a change gives there"
    )
    return dataclasses.replace(model, others=others, rests_on=(*model.rests_on, told))


def _figures(seen: Seen) -> _Figures:
    times_ns = let_in_ns(seen)
    return _Figures(without_a_core(seen.holds), float(np.mean(times_ns)) if len(times_ns) >= _FEW else 0.0)


def let_in_ns(seen: Seen) -> NDArray[np.int64]:
    """Return how long threads that slept for the GIL took to have it, from when another thread released it the first time."""
    holds = seen.holds
    wanted_ns, had_ns = [], []
    for thread, bursts in seen.bursts.items():
        mine = np.flatnonzero(holds.thread == thread)
        again = mine[:-1][holds.forced[mine[:-1]]]  # a preempted thread wants the GIL again at once
        wanted_ns += [bursts.want_ns, holds.end_ns[again]]
        had_ns += [bursts.begin_ns, holds.start_ns[mine[1:]][holds.forced[mine[:-1]]]]
    if not len(holds):
        return np.zeros(0, dtype=np.int64)
    asleep_ns, until_ns = np.concatenate(wanted_ns) + _ASLEEP_NS, np.concatenate(had_ns)
    at = np.searchsorted(holds.end_ns, asleep_ns)
    released_ns = holds.end_ns[np.minimum(at, len(holds) - 1)]
    told = (at < len(holds)) & (released_ns <= until_ns)
    result: NDArray[np.int64] = (until_ns - released_ns)[told]
    return result
