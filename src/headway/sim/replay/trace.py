"""Makes a trace of a replay, with or without a change, which a timeline can show beside the recorded trace."""

import dataclasses
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headway.native_sim import Simulation
from headway.sim.machine import Costs
from headway.sim.replay.change import Change, policy_of, specify
from headway.sim.replay.learn import Actor, Model
from headway.sim.replay.waiting import without_lost_waits
from headway.sim.scenario import STOCK
from headway.sim.trace import START_NS, end_of, events_of, gils_of
from headway.traces.model import Executed, Kind, Loss, Thread, Trace

__all__ = ["MOST_EVENTS", "predicted_trace"]

MOST_EVENTS = 1_000_000
_OF_A_STACK = (Kind.WAIT, Kind.RELEASE)
_PARTS = 50
"""The number of parts of a run. Between parts, Ctrl-C takes effect, and a run whose events are full ends."""


def predicted_trace(
    model: Model,
    change: Change,
    costs: Costs,
    *,
    cores: int,
    length_ns: int,
    seed: int = 1,
    max_events: int = MOST_EVENTS,
) -> Trace:
    """Return the events of one replay with a change, warm-up included; its stacks are those of the model's trace.

    A thread that the trace does not have gets the name of the thread whose operations it runs. All GILs are in one
    trace, also if the change has processes.

    Args:
        model: The program, learned from its trace.
        change: The difference from the trace.
        costs: The costs of the machine.
        cores: The number of cores that the program ran on.
        length_ns: The length of the replay, in virtual time.
        seed: The seed of the run.
        max_events: The trace ends before it has more events than this.

    Raises:
        ScenarioError: The change names something that the trace does not have, or the replay comes to a stop.
    """
    model = without_lost_waits(model, change)
    spec, replayed = specify(model, change, costs, seed, length_ns, cores=cores)
    spec = dataclasses.replace(spec, max_events=max_events)
    dropped = 0
    until_ns = 0
    with Simulation(spec) as simulation:
        for part in range(1, _PARTS + 1):
            until_ns = spec.end_ns * part // _PARTS
            simulation.run(until_ns)
            events, dropped = simulation.events()
            if dropped:
                break
    made = _where_interrupted(model, replayed, events_of(events, [gil.interval_ns for gil in spec.gils]))
    end_ns = end_of(made, until_ns, dropped)
    real = model.trace
    policy, chosen = policy_of(model, change)
    return Trace(
        process=dataclasses.replace(
            real.process,
            executable="headway whatif",
            command=("headway", "whatif", str(change)),
            program=f"{real.process.program or real.process.executable} (predicted: {change})",
            free_threaded=not change.gil,
            gil_enabled=change.gil,
            start_realtime_ns=START_NS,
            interval_us=max(1, spec.gils[0].interval_ns // 1_000),
            ended=True,
            core_count=change.cores or cores,
            policy="" if policy == STOCK else policy,
            policy_ended_ns=None,
            policy_options=chosen.told,
            growing=False,
            has_subinterpreters=False,
            executed=Executed.NOTHING,
        ),
        start_ns=START_NS,
        end_ns=end_ns,
        events=made,
        threads=_threads(model, replayed),
        gils=gils_of(len(spec.gils)),
        stack_parent=real.stack_parent,
        stack_frame=real.stack_frame,
        frames=real.frames,
        loss=dataclasses.replace(Loss(), dropped_events=dropped),
    )


def _where_interrupted(model: Model, replayed: Sequence[Actor], events: NDArray[np.void]) -> NDArray[np.void]:
    """Give events without a stack, of holds that end only by preemption, the stack of most preemptions in the trace."""
    holds = model.seen.holds
    for index, actor in enumerate(replayed):
        stacks = holds.stack[holds.forced & (holds.thread == actor.thread)]
        if len(stacks):
            nowhere = (events["thread"] == index) & (events["value"] == 0) & np.isin(events["kind"], _OF_A_STACK)
            events["value"][nowhere] = np.bincount(stacks).argmax()
    return events


def _threads(model: Model, replayed: Sequence[Actor]) -> tuple[Thread, ...]:
    """Return a thread for each role of the simulator, with the name of the trace's thread that it replays."""
    found = []
    had: Counter[int] = Counter()
    for index, actor in enumerate(replayed):
        of_trace, again = model.trace.threads[actor.thread], had[actor.thread]
        had[actor.thread] += 1
        found.append(
            Thread(
                serial=index + 1,
                tid=index + 1 if again else of_trace.tid,
                name=f"{of_trace.name} ({again + 1})" if again else of_trace.name,
                start_ns=START_NS,
                end_ns=None,
            )
        )
    return tuple(found)
