"""A model whose GIL changes hands as late as in its trace.

A calibration tells what a wake-up takes on this machine, in a small loop, some time ago. In a program the same takes longer:
its code is less hot, it makes calls in between, and the machine has its moods. How long it takes from one thread's release
until a thread that waits has the GIL is in the trace, for every hand-over. So the unchanged program is simulated a few times,
and what waking and sleeping cost is multiplied such that hand-overs take as long as in the trace.
"""

import dataclasses
from collections.abc import Mapping
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from headway.errors import HeadwayError
from headway.sim.machine import Costs
from headway.sim.replay.calls import Call
from headway.sim.replay.change import NOTHING
from headway.sim.replay.learn import Model, learn
from headway.sim.replay.trace import predicted_trace
from headway.traces.model import Flag, Kind, Trace

__all__ = ["HandOvers", "hand_overs", "model_of"]

_WAKING: Final = ("wake_idle", "wake_idle_middle", "wake_idle_long", "futex_wake", "cold_futex_wake")
"""Of these a hand-over is made to a thread that waits for the GIL, ..."""
_SLEEPING: Final = (
    "switch",
    "futex_sleep",
    "futex_sleep_timed",
    "futex_woken",
    "futex_woken_timed",
    "futex_wake_end",
    "futex_wake_idle",
    "cold_futex_sleep",
)
"""... and of these one to a thread that waits for a lock of this one, and comes when this one sleeps."""

_ASLEEP_NS = 50_000
"""A thread that has waited for so long sleeps."""
_LATE_NS = 200_000
"""A hand-over that took longer waited for something else."""
_FEW = 30
_ROUNDS = 3
_LENGTH_NS = 400_000_000
_MOST_EVENTS = 40_000
"""So many tell enough, of a trace and of a simulation."""
_LEAST, _MOST = 0.5, 3.0
_NEAR = 1.1
"""A factor that is nearer to 1 tells nothing."""


@final
@dataclasses.dataclass(frozen=True)
class HandOvers:
    """How long hand-overs took, in ns.

    Attributes:
        waited: From a release until a thread that slept for the GIL has it.
        woken: From the release of a thread that waits for another one until a thread wants the GIL that had let it go for that.
    """

    waited: NDArray[np.int64]
    woken: NDArray[np.int64]


def model_of(trace: Trace, costs: Costs, *, cores: int, calls: Mapping[int, Call] | None = None) -> Model:
    """Return the model of a trace, with hand-overs as in the trace.

    On one core a hand-over waits for the core, and in many a trace there are too few: then the machine's costs stand.

    Args:
        trace: Of a process with a GIL.
        costs: Of the machine that it was recorded on.
        cores: How many the program ran on.
        calls: As of `learn`.

    Raises:
        ScenarioError: The trace shows no GIL, or nothing that could be replayed.
    """
    model = learn(trace, costs, calls)
    seen = hand_overs(trace, model.seen.since_ns, model.seen.until_ns, model.kinds)
    if cores < 2 or max(len(seen.waited), len(seen.woken)) < _FEW:
        return model
    waking = sleeping = 1.0
    for _ in range(_ROUNDS):
        try:
            simulated = predicted_trace(
                _scaled(model, costs, waking, sleeping),
                NOTHING,
                costs,
                cores=cores,
                length_ns=_LENGTH_NS,
                max_events=_MOST_EVENTS,
            )
        except HeadwayError:
            return model
        made = hand_overs(simulated, simulated.start_ns, simulated.end_ns, model.kinds)
        waited, woken = _times(seen.waited, made.waited), _times(seen.woken, made.woken)
        waking *= waited or woken or 1.0  # what cannot be told is as the other one
        sleeping *= woken or waited or 1.0
        waking, sleeping = (float(np.clip(one, _LEAST, _MOST)) for one in (waking, sleeping))
    if all(1 / _NEAR < one < _NEAR for one in (waking, sleeping)):
        return model
    told = f"waking takes {waking:.2g} and sleeping {sleeping:.2g} times as long as in the calibration, as the hand-offs in the trace show"
    return dataclasses.replace(_scaled(model, costs, waking, sleeping), rests_on=(*model.rests_on, told))


def _times(seen: NDArray[np.int64], made: NDArray[np.int64]) -> float | None:
    """Return how many times as long the seen ones took as the simulated ones; None where there are too few."""
    if len(seen) < _FEW or len(made) < _FEW:
        return None
    return float(np.median(seen) / max(1.0, float(np.median(made))))


def _scaled(model: Model, costs: Costs, waking: float, sleeping: float) -> Model:
    own = dict(model.own_costs)
    for names, factor in ((_WAKING, waking), (_SLEEPING, sleeping)):
        own |= {name: tuple(one * factor for one in costs.costs[name]) for name in names}
    return dataclasses.replace(model, own_costs=own)


def hand_overs(trace: Trace, since_ns: int, until_ns: int, kinds: Mapping[int, Call]) -> HandOvers:
    """Return how long each hand-over took in a part of a trace; of a long one at its beginning.

    Args:
        trace: A program's, or of its simulation, which has the same stacks.
        since_ns: When the part begins.
        until_ns: When it ends.
        kinds: By stack, what kind of call lets the GIL go there.
    """
    events = trace.events[np.isin(trace.events["kind"], (Kind.WAIT, Kind.ACQUIRE, Kind.RELEASE))]
    events = events[(events["time_ns"] >= since_ns) & (events["time_ns"] < until_ns)][:_MOST_EVENTS]
    waited, woken = [], []
    wanted_ns: dict[int, int] = {}
    away: dict[int, bool] = {}
    released_ns, released_by, lets_in = 0, -1, False
    for time_ns, thread, kind, value, forced in zip(
        events["time_ns"].tolist(),
        events["thread"].tolist(),
        events["kind"].tolist(),
        events["value"].tolist(),
        (events["flags"] & Flag.FORCED).tolist(),
        strict=True,
    ):
        late_ns = time_ns - released_ns
        if kind == Kind.RELEASE:
            away[thread] = not forced and kinds.get(value) is Call.LOCK
            released_ns, released_by, lets_in = time_ns, thread, away[thread]
            continue
        if away.pop(thread, False) and lets_in and thread != released_by and late_ns < _LATE_NS:
            woken.append(late_ns)
            lets_in = False
        if kind == Kind.WAIT:
            wanted_ns[thread] = time_ns
        else:
            since = wanted_ns.pop(thread, time_ns)
            if thread != released_by and released_ns - since > _ASLEEP_NS and late_ns < _LATE_NS:
                waited.append(late_ns)
    return HandOvers(np.array(waited, dtype=np.int64), np.array(woken, dtype=np.int64))
