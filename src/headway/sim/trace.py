"""Makes a Trace of the events of a simulated run; report, page and exports take it like any other."""

import dataclasses
import functools
import operator
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headway.native_sim import Spec
from headway.sim.compile import Compiled
from headway.sim.policy import choose
from headway.sim.scenario import STOCK, Scenario
from headway.sim.steps import name_of
from headway.traces.model import EVENT_DTYPE, Frame, Gil, Kind, Loss, Process, Thread, Trace

__all__ = ["START_NS", "end_of", "events_of", "gils_of", "trace_of"]

START_NS = 1_000_000_000
"""The trace's time at virtual time 0; a trace does not use the time 0."""

_PYTHON = "3.13.0"
_PID = 1
_GIL_ADDRESS = 0x1000
_OF_A_STACK = (Kind.WAIT, Kind.RELEASE, Kind.PARK)


def trace_of(scenario: Scenario, compiled: Compiled, events: NDArray[np.void], dropped: int, *, until_ns: int) -> Trace:
    """Return the trace of a run, warm-up included. Nothing in it depends on the date or on this machine.

    All GILs are in one trace, as those of sub-interpreters are, also if the scenario has processes. A stack is one
    frame: the step's line in the scenario's file, and the role and the step as its function (`headway.sim.steps`).

    Args:
        scenario: The scenario that was run.
        compiled: The same scenario in the form for the simulator.
        events: The events in the form of the simulator.
        dropped: The number of later events that the simulator did not keep.
        until_ns: The end of the run, in virtual time.
    """
    spec = compiled.spec
    made = events_of(events, [gil.interval_ns for gil in spec.gils])
    end_ns = end_of(made, until_ns, dropped)
    parents = np.zeros(len(compiled.steps) + 1, dtype=np.int64)
    frames, of_stack = _frames(scenario, compiled)
    scheduled = next((one for one in scenario.processes if one.policy != STOCK), None)
    enabled = [gil.enabled for gil in spec.gils]
    return Trace(
        process=Process(
            pid=_PID,
            parent_pid=0,
            family=spec.seed % (1 << 63) + 1,
            python=_PYTHON,
            executable="headway simulate",
            command=("headway", "simulate", scenario.name),
            program=f"{scenario.name} (simulated)",
            free_threaded=not all(enabled),
            gil_enabled=any(enabled) or not enabled,
            has_stacks=True,
            start_realtime_ns=START_NS,
            interval_us=max(1, next((gil.interval_ns for gil in spec.gils), 5_000_000) // 1_000),
            ended=True,
            core_count=_core_count(spec),
            policy="" if scheduled is None else scheduled.policy,
            policy_options=None if scheduled is None else choose(scheduled).told,
        ),
        start_ns=START_NS,
        end_ns=end_ns,
        events=made,
        threads=_threads(compiled, made, end_ns),
        gils=gils_of(len(spec.gils)),
        stack_parent=parents,
        stack_frame=of_stack,
        frames=frames,
        loss=dataclasses.replace(Loss(), dropped_events=dropped),
    )


def events_of(events: NDArray[np.void], intervals_ns: Sequence[int]) -> NDArray[np.void]:
    """Return the simulator's events in the form of a trace; a stack is the `where` of the operation.

    `intervals_ns` are the switch intervals of the GILs. The process has the first one; events tell those of the others, as
    in a recording.
    """
    made = np.zeros(len(events), dtype=EVENT_DTYPE)
    for name in ("time_ns", "thread", "kind", "gil", "flags"):
        made[name] = events[name]
    made["time_ns"] += START_NS
    with_value = np.isin(events["kind"], (*_OF_A_STACK, Kind.INTERVAL))
    made["value"] = np.where(with_value, events["value"], 0)
    acquires = np.flatnonzero((made["kind"] == Kind.ACQUIRE) & (made["gil"] > 0))
    at = acquires[np.unique(made["gil"][acquires], return_index=True)[1]]
    told = made[at]
    told["kind"], told["flags"] = Kind.INTERVAL, 0
    told["value"] = [max(1, intervals_ns[gil] // 1_000) for gil in told["gil"].tolist()]
    return np.insert(made, at, told)


def end_of(events: NDArray[np.void], until_ns: int, dropped: int) -> int:
    """Return the end of the trace of a run until a virtual time; if events were dropped, the last event's time."""
    return int(events["time_ns"][-1]) if dropped and len(events) else START_NS + until_ns


def gils_of(count: int) -> tuple[Gil, ...]:
    """Return `count` GILs; the first is the main one."""
    return tuple(
        Gil(index=index, main=index == 0, address=_GIL_ADDRESS * (index + 1), start_ns=START_NS, end_ns=None)
        for index in range(count)
    )


def _core_count(spec: Spec) -> int:
    """Return the number of cores on which threads of Python may run. A recording has that number, not the machine's."""
    machine = (1 << spec.core_count) - 1
    masks = [role.cores or machine for role in spec.roles if role.gil >= 0]
    return functools.reduce(operator.or_, masks, 0).bit_count() or spec.core_count


def _frames(scenario: Scenario, compiled: Compiled) -> tuple[tuple[Frame, ...], NDArray[np.int64]]:
    """Return distinct frames, and the frame of each stack: stack n is the n-th step."""
    frames = {Frame("", 0, "?"): 0}
    of_stack = [0]
    source = scenario.source or scenario.name
    for number, (role, step) in enumerate(compiled.steps, 1):
        first = role.program[0].line
        # If the lines are not known, the steps' numbers tell them apart.
        frame = Frame(source, step.line or number, name_of(role, step), first or number)
        of_stack.append(frames.setdefault(frame, len(frames)))
    return tuple(frames), np.array(of_stack, dtype=np.int64)


def _threads(compiled: Compiled, events: NDArray[np.void], end_ns: int) -> tuple[Thread, ...]:
    exits = events[events["kind"] == Kind.EXIT]
    ended = dict(zip(exits["thread"].tolist(), exits["time_ns"].tolist(), strict=True))
    return tuple(
        Thread(
            serial=index + 1,
            tid=index + _PID,
            name=place.name,
            start_ns=min(START_NS + place.begin_ns, end_ns),
            end_ns=ended.get(index),
        )
        for index, place in enumerate(compiled.threads)
    )
