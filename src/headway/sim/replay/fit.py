"""Fits a model so that its hand-offs take as long as those in its trace.

A calibration tells how long a wake-up takes on this machine in a small loop, some time ago. In a program it takes
longer: the code is less hot, the program makes other calls in between, and the machine's speed varies. For every
hand-off, the trace tells the time from one thread's release until a waiter has the GIL. Therefore the unchanged program
is simulated a few times, and the costs of waking and sleeping are multiplied so that hand-offs take as long as in the
trace.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from headway.errors import HeadwayError
from headway.sim.machine import Costs
from headway.sim.replay.change import NOTHING
from headway.sim.replay.crowded import crowded
from headway.sim.replay.learn import Assumption, Model, learn
from headway.sim.replay.trace import predicted_trace
from headway.traces.calls import Call
from headway.traces.model import Flag, Kind, Trace
from headway.traces.overview import Overview

__all__ = ["HandOvers", "hand_overs", "model_of"]

_WAKING: Final = ("wake_idle", "wake_idle_middle", "wake_idle_long", "futex_wake", "cold_futex_wake")
"""The costs that make up a hand-off to a thread that waits for the GIL."""
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
"""The costs that make up a hand-off to a thread that waits for a lock of this one, and runs when this one sleeps."""

_ASLEEP_NS = 50_000
"""A thread that has waited longer than this sleeps."""
_LATE_NS = 200_000
"""A hand-off that took longer than this waited for something else."""
_FEW = 30
_ROUNDS = 3
_LENGTH_NS = 400_000_000
_MOST_EVENTS = 40_000
"""The number of events that is enough, of a trace and of a simulation."""
_LEAST, _MOST = 0.5, 3.0
_NEAR = 1.1
"""A factor nearer to 1 than this tells nothing."""


@final
@dataclasses.dataclass(frozen=True)
class HandOvers:
    """The lengths of hand-offs, in ns.

    Attributes:
        waited: From a release until a thread that slept while it waited for the GIL has the GIL.
        woken: From the release of a thread that begins to wait for another one until a thread that had released the GIL
            to wait for a lock wants the GIL again.
    """

    waited: NDArray[np.int64]
    woken: NDArray[np.int64]


def model_of(
    trace: Trace,
    costs: Costs,
    *,
    cores: int,
    calls: Mapping[int, Call] | None = None,
    whole: Overview | None = None,
    library: str = "",
    step: Callable[[Model], None] = lambda _: None,
) -> Model:
    """Return the model of a trace, with other programs on the cores as in the trace, and with hand-offs as in the trace.

    On one core, a hand-off also waits for the core, and many traces have too few hand-offs. The machine's costs are
    kept in both cases.

    Args:
        trace: The trace of a process with a GIL, or the part of it that `read_window` reads.
        costs: The costs of the machine that it was recorded on.
        cores: The number of cores that the program ran on.
        calls: As for `learn`.
        whole: As for `learn`.
        library: As for `learn`.
        step: Called with the model as it is so far before each simulation; an error that it raises ends the function.

    Raises:
        ScenarioError: As for `learn`.
    """
    learned = learn(trace, costs, calls, whole=whole, library=library)
    model = crowded(learned, costs, cores, step=lambda: step(learned))
    seen = hand_overs(trace, model.seen.since_ns, model.seen.until_ns, model.kinds)
    if cores < 2 or max(len(seen.waited), len(seen.woken)) < _FEW:
        return model
    waking = sleeping = 1.0
    for _ in range(_ROUNDS):
        step(model)
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
        waking *= waited or woken or 1.0  # a factor that cannot be told is the same as the other one
        sleeping *= woken or waited or 1.0
        waking, sleeping = (float(np.clip(one, _LEAST, _MOST)) for one in (waking, sleeping))
    if all(1 / _NEAR < one < _NEAR for one in (waking, sleeping)):
        return model
    told = Assumption(
        f"waking takes {waking:.2g} and sleeping {sleeping:.2g} times as long as in the calibration, as the hand-offs in the trace show"
    )
    return dataclasses.replace(_scaled(model, costs, waking, sleeping), rests_on=(*model.rests_on, told))


def _times(seen: NDArray[np.int64], made: NDArray[np.int64]) -> float | None:
    """Return the ratio of the recorded times to the simulated ones; None if there are too few."""
    if len(seen) < _FEW or len(made) < _FEW:
        return None
    return float(np.median(seen) / max(1.0, float(np.median(made))))


def _scaled(model: Model, costs: Costs, waking: float, sleeping: float) -> Model:
    own = dict(model.own_costs)
    for names, factor in ((_WAKING, waking), (_SLEEPING, sleeping)):
        own |= {name: tuple(one * factor for one in costs.costs[name]) for name in names}
    return dataclasses.replace(model, own_costs=own)


def hand_overs(trace: Trace, since_ns: int, until_ns: int, kinds: Mapping[int, Call]) -> HandOvers:
    """Return the length of each hand-off in a part of a trace; if the part is long, only in its beginning.

    Args:
        trace: A program's trace, or one of its simulation, which has the same stacks.
        since_ns: The begin of the part.
        until_ns: The end of the part.
        kinds: For each stack, the kind of call that releases the GIL there.
    """
    main = next((one.index for one in trace.gils if one.main), 0)  # the model is that of the main GIL
    events = trace.events[slice(*np.searchsorted(trace.events["time_ns"], [since_ns, until_ns]))]
    turns = np.isin(events["kind"], (Kind.WAIT, Kind.ACQUIRE, Kind.RELEASE)) & (events["gil"] == main)
    events = events[turns][:_MOST_EVENTS]
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
