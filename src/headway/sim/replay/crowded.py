"""Fits a model so that other programs take as much of the cores as they did while its trace was recorded.

Two figures of the trace tell it: for which part of the holds the holder had no core, and how long a thread that slept for
the GIL took until it had it, from when it was first released. The first one alone hardly tells one thread of other programs
on each core from two. The second one decides how much a thread gets done that goes on meanwhile, as an event loop does.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator
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
from headway.traces.analysis.intervals import Holds
from headway.traces.analysis.words import duration, share
from headway.traces.model import Trace

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
_AT_ONCE_NS = 10_000
"""Shorter times until a thread is let in are no different from each other."""
_ASLEEP_NS = 50_000
"""A thread that has waited longer than this sleeps."""
_FEW = 10
"""Fewer times, or fewer holds without a core, tell nothing."""
_FULL = 0.75
"""A program that uses a larger share of its cores itself: its threads take the cores from each other, more than in a replay."""
_LET_IN_NEAR = math.log(4)
"""The most that the time until a thread is let in may be off, as a logarithm: with more, something else took the time."""
_STOPS = 2
"""So many holds, those that were longest without a core, tell nothing of other programs: a stop or a page-in is no crowd."""
_OFF = 0.1
"""A hold of which the holder had no core for a larger share lost it."""
_LENGTH_NS = 1_500_000_000
_MOST_EVENTS = 100_000


@final
@dataclasses.dataclass(frozen=True)
class _Figures:
    """The two figures; `let_in_ns` is the mean, and None if there are too few of these times."""

    share: float
    let_in_ns: float | None

    def off(self, seen: "_Figures") -> float:
        """Return how far these are from those of the trace."""
        return abs(self.share - seen.share) / _SHARE_OFF + self.let_in_off(seen) / _LET_IN_OFF

    def let_in_off(self, seen: "_Figures") -> float:
        """Return how far the time is from that of the trace, as a logarithm; infinite if one of them is not known."""
        if self.let_in_ns is None or seen.let_in_ns is None:
            return math.inf
        return abs(math.log(max(self.let_in_ns, _AT_ONCE_NS) / max(seen.let_in_ns, _AT_ONCE_NS)))


def crowded(model: Model, costs: Costs, cores: int, *, step: Callable[[], None] = lambda: None) -> Model:
    """Return a model with other programs on its cores as in its trace, and the assumptions that this brings.

    The model stays as it is unless both figures tell of other programs, so that a calm machine is replayed as calm. It also
    stays as it is if the program itself used most of its cores.

    Args:
        model: The program, learned from its trace.
        costs: The costs of the machine.
        cores: The number of cores that the program ran on.
        step: Called before each simulation; an error that it raises ends the function.
    """
    seen = _figures(model.seen)
    if seen.share < _TAKEN or seen.let_in_ns is None or not _several_without_a_core(model.seen.holds):
        return model
    if model.cores_used > _FULL * cores:
        return model
    made: dict[int, _Figures] = {}
    replay = _Replay(model, costs, cores)

    def figures(index: int) -> _Figures:
        if index not in made:
            step()
            made[index] = replay.figures(_EACH[index] * cores)
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
    if not best or seen.share - made[best].share > _NONE_IS or made[best].let_in_off(seen) > _LET_IN_NEAR:
        return model
    others = _EACH[best] * cores
    return dataclasses.replace(model, others=others, rests_on=(*model.rests_on, *_told(model, seen.share, others)))


def _told(model: Model, without: float, others: float) -> Iterator[Assumption]:
    number = f"{others:.2g}" if others < 10 else f"{others:.0f}"
    yield Assumption(
        f"threads held the GIL without running on a core for {share(without, 1.0)} of the time that it was held: something else"
        " (other programs, the program's own child processes or threads of C, a CPU quota) had the cores; the model has programs"
        f" that want {number} core{'' if number == '1' else 's'} all the time, with any change; record again on a calm machine to"
        " predict what a change gives there"
    )
    for index, port in enumerate(model.ports):
        if port.client_work_ns:
            role = next((one.role for one in model.actors if one.port == index), "")
            yield Assumption(
                f"the peer of {role} computes for {duration(port.client_work_ns)} before it sends each request, as far as its shortest"
                f" pauses{f' with {port.connections} connections' if port.connections > 1 else ''} show",
                role=role,
            )


@final
class _Replay:
    """Replays a model for a time, of which the figures are compared with those of the whole window.

    Threads live for the same share of that time as in the window: one that begins late begins earlier.
    """

    def __init__(self, model: Model, costs: Costs, cores: int) -> None:
        self._model, self._costs, self._cores = model, costs, cores
        self._length_ns = _LENGTH_NS

    def figures(self, others: float) -> _Figures:
        """Return the figures of a replay beside some threads of other programs."""
        trace, is_cut = self._run(others)
        if is_cut:
            trace, _ = self._run(others)
        return _figures(see(trace, 0, trace.start_ns, trace.end_ns))

    def _run(self, others: float) -> tuple[Trace, bool]:
        """Return a replay, and tell whether it had too many events for its time: the next one then takes less time."""
        whole_ns = self._model.seen.elapsed_ns
        part = min(1.0, self._length_ns / whole_ns)
        actors = tuple(
            dataclasses.replace(one, begin_ns=int(one.begin_ns * part)) if part < 1 else one
            for one in self._model.actors
        )
        model = dataclasses.replace(self._model, actors=actors, others=others)
        trace = predicted_trace(
            model, NOTHING, self._costs, cores=self._cores, length_ns=self._length_ns, max_events=_MOST_EVENTS
        )
        reached_ns = trace.end_ns - trace.start_ns
        is_cut = trace.loss.dropped_events > 0 and reached_ns < min(self._length_ns, whole_ns)
        if is_cut:
            self._length_ns = reached_ns
        return trace, is_cut


def _figures(seen: Seen) -> _Figures:
    times_ns = let_in_ns(seen)
    without = without_a_core(_without_stops(seen.holds))
    return _Figures(without, float(np.mean(times_ns)) if len(times_ns) >= _FEW else None)


def _without_stops(holds: Holds) -> Holds:
    """Return the holds without the few that were longest without a core."""
    return holds.chosen(np.sort(np.argsort(holds.off_core_ns, kind="stable")[: max(0, len(holds) - _STOPS)]))


def _several_without_a_core(holds: Holds) -> bool:
    """Tell whether threads lost the core in several holds."""
    return bool(np.count_nonzero(holds.off_core_ns > _OFF * holds.length_ns) >= _FEW)


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
