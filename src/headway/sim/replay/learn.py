"""Learns a model from a trace: roles, and for each thread the operations that the simulator replays."""

import os
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.native_sim import GOES_ON, OF_CLOCK, OF_DIST, OF_PORT, OP_DTYPE, OpKind
from headway.printable import printable
from headway.sim.machine import Costs
from headway.sim.replay.answers import Answers, find_answers
from headway.sim.replay.bursts import Bursts, Seen, see
from headway.sim.replay.clocks import Clocks, find_clocks, shrinks
from headway.sim.replay.cold import Cooling
from headway.sim.replay.computing import Computing, computing, cores_used
from headway.sim.replay.locks import lock_lines
from headway.sim.replay.measured import Measured, measured
from headway.sim.replay.outside import AT_ONCE_NS, Peer, asked_sleeps, find_peer, loops_in_c, polls_unseen, wake_ns
from headway.sim.replay.ports import Part, Port, find_ports
from headway.sim.replay.refused import no_gil, refused, too_many
from headway.sim.replay.scheduled import scheduled
from headway.sim.replay.wakes import Wakes, find_wakes
from headway.sim.replay.window import left_out, overview_of, window
from headway.sim.steps import call_in
from headway.traces.analysis.intervals import recorded
from headway.traces.analysis.words import duration
from headway.traces.analysis.words import role as role_of
from headway.traces.calls import Call, sleep_ns_at, timeout_ns_at
from headway.traces.model import Frame, Trace
from headway.traces.overview import Overview
from headway.traces.sources import edited

__all__ = ["Actor", "Assumption", "Model", "learn"]

_Row = tuple[int, int, int, int, int, int]
"""An operation: kind, flags, index, where, reserved, value."""

_FEW = 5
_MANY_SHORT_LIVED = 20
_LATE_NS = 100_000
"""An answer to a request within this time is prompt, and not worth a line."""


@final
@dataclass(frozen=True, eq=False)
class Actor:
    """A thread to replay.

    Attributes:
        thread: The index of the thread in the trace.
        role: The role of the thread.
        ops: Its operations (OP_DTYPE); `where` is the stack at the end of each, `reserved` of a hold the index of
            its burst + 1.
        port: The index of the port whose requests it takes or answers; -1: none.
        begin_ns: When it first wants the GIL, counted from the beginning of the window.
        answers: 1 + the index of the distribution of its answers to requests for the GIL; 0: the machine's.
        in_calls: That distribution is of the lengths of its calls of C, of which one begins with each hold.
    """

    thread: int
    role: str
    ops: NDArray[np.void]
    port: int
    begin_ns: int
    answers: int = 0
    in_calls: bool = False


@final
@dataclass(frozen=True)
class Assumption:
    """An assumption of a model.

    Attributes:
        text: The assumption, in a sentence.
        role: The role that the assumption is about; "": the program, or the machine.
        of_gil: The assumption is about the GIL.
    """

    text: str
    role: str = ""
    of_gil: bool = False


@final
@dataclass(frozen=True, eq=False)
class Model:
    """A program, as its trace shows it.

    Attributes:
        trace: The trace, or the part of it that was read.
        whole: The overview of the whole trace.
        policy: The policy that scheduled the GIL, by name, or the path of its library; STOCK: none.
        options: The options of that policy, those that differ from their presets, (name, value).
        seen: The window that is replayed.
        actors: The threads that are replayed.
        ports: The ports to which simulated clients send their requests.
        kinds: For each stack, the kind of call that releases the GIL there.
        semaphores: The number of semaphores by which the actors that are replayed wake each other.
        dists: Distributions to which operations refer, as quantiles in ns.
        own_costs: Costs that the trace itself shows, by their names, as quantiles in ns. How soon holders release the
            GIL, and how much longer cold code takes, depend on what the program leaves in the caches. Other costs are
            the machine's.
        measured: For each role, its figures in the trace.
        cores_used: How many cores the program used in the window, on average.
        rests_on: The model's assumptions.
        outside: The reasons why predictions may be wrong beyond their intervals, a sentence each.
        others: How many threads of other programs would compute all the time beside it (`headway.sim.replay.others`).
    """

    trace: Trace
    whole: Overview
    policy: str
    options: tuple[tuple[str, int], ...]
    seen: Seen
    actors: tuple[Actor, ...]
    ports: tuple[Port, ...]
    kinds: Mapping[int, Call]
    semaphores: int
    dists: tuple[tuple[float, ...], ...]
    own_costs: Mapping[str, tuple[float, ...]]
    measured: dict[str, Measured]
    cores_used: float
    rests_on: tuple[Assumption, ...]
    outside: tuple[str, ...]
    others: float = 0.0

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles, in the order in which they first appear."""
        return tuple(dict.fromkeys(one.role for one in self.actors))


@dataclass
class _Building:
    """The state that grows while the threads of a trace are examined."""

    seen: Seen
    costs: Costs
    cooling: Cooling
    kinds: Mapping[int, Call]
    wakes: Wakes
    literal_ns: dict[int, int]
    cores: int
    computing: Computing
    peers: Mapping[int, Peer]
    ports: tuple[Port, ...]
    answers: Answers
    dists: list[tuple[float, ...]] = field(default_factory=list)
    rests_on: dict[Assumption, None] = field(default_factory=dict)
    outside: dict[str, None] = field(default_factory=dict)


def learn(
    trace: Trace,
    costs: Costs,
    calls: Mapping[int, Call] | None = None,
    *,
    whole: Overview | None = None,
    library: str = "",
) -> Model:
    """Return the model of a trace.

    Args:
        trace: The trace of a process with a GIL, or the part of it that `read_window` reads.
        costs: The costs of the machine on which it was recorded: a thread's own wake-up is not part of what it waited
            for.
        calls: For each stack, the kind of call that releases the GIL there; None: the frames tell it.
        whole: The overview of the whole trace; None: `trace` is the whole.
        library: See `scheduled`.

    Raises:
        ScenarioError: The trace shows no GIL, nothing that could be replayed, or too many threads; or a policy that is
            not known scheduled it.
    """
    if not trace.gils or not len(trace.events):
        raise no_gil(trace)
    policy = scheduled(trace.process, library)
    gil = next((one.index for one in trace.gils if one.main), trace.gils[0].index)
    found = recorded(trace)
    whole = whole or overview_of(trace, found)
    since_ns, until_ns = window(trace, whole)
    if (error := too_many(found.holds, gil, since_ns, until_ns)) is not None:
        raise error
    seen = see(trace, gil, since_ns, until_ns, found)
    del found  # of a long trace it is large
    roles = _roles(trace, seen)
    frames = _frames(trace, seen)
    filenames = {frame.filename for frame in frames.values() if frame is not None}
    changed = edited(trace, filenames)
    kinds = {
        stack: call_in(trace, frame, changed) if calls is None else calls.get(stack, Call.UNKNOWN)
        for stack, frame in frames.items()
    }
    cores = trace.process.core_count
    timeouts_ns = _timeouts(trace, kinds, changed)
    # On one core, a woken thread runs only when its waker has left that core.
    woken_ns = costs.median("switch") if cores == 1 else wake_ns(costs)
    wakes = find_wakes(seen, kinds, woken_ns, timeouts_ns, roles, lock_lines(trace, kinds))
    computes = computing(seen, cores)
    peers = {thread: find_peer(seen, thread, bursts, kinds, costs) for thread, bursts in seen.bursts.items()}
    ports = find_ports(seen, kinds, trace.stack_frame, peers, costs)
    cooling = Cooling(costs, cores)
    answers = find_answers(seen, costs, cores)
    building = _Building(
        seen, costs, cooling, kinds, wakes, _literals(frames, changed), cores, computes, peers, ports, answers
    )
    actors = tuple(_actor(thread, roles[thread], bursts, building) for thread, bursts in seen.bursts.items())
    actors = tuple(one for one in actors if len(one.ops))
    if not actors:
        raise refused(trace, whole, 0)
    building.rests_on.update(dict.fromkeys(Assumption(text, of_gil=True) for text in policy.rests_on))
    building.outside.update(dict.fromkeys(policy.outside))
    _look_for_limits(trace, seen, building)
    building.outside.update(dict.fromkeys(left_out(trace, seen, whole, gil)))
    if len(trace.gils) > 1:
        building.outside["the model leaves out all GILs except the main interpreter's"] = None
    if trace.process.has_subinterpreters:
        building.outside[
            "sub-interpreters share the GIL: on CPython 3.9 to 3.12 no request reaches a holder in another interpreter,"
            " under no policy and with no interval, which the model lacks"
        ] = None
    _look_for_changed(changed, building)
    _look_for_feedback(seen, building)
    _look_for_pauses(roles, building)
    _look_for_loops_in_c(trace, actors, building)
    _tell_late_answers(roles, building)
    return Model(
        trace=trace,
        whole=whole,
        policy=policy.policy,
        options=policy.options,
        seen=seen,
        actors=actors,
        ports=ports,
        kinds=kinds,
        semaphores=wakes.count,
        dists=tuple(building.dists),
        own_costs={**building.answers.own_costs, **cooling.own_costs()},
        measured={
            role: measured(seen, [t for t in seen.bursts if roles[t] == role]) for role in dict.fromkeys(roles.values())
        },
        cores_used=cores_used(seen, computes),
        rests_on=tuple(building.rests_on),
        outside=tuple(building.outside),
    )


def _roles(trace: Trace, seen: Seen) -> dict[int, str]:
    """Return each thread's role: its name, with `*` for numbers if other threads differ only in these."""
    names = {
        thread: printable(trace.threads[thread].name) or f"thread {trace.threads[thread].tid}" for thread in seen.bursts
    }
    stars = defaultdict(list)
    for thread, name in names.items():
        stars[role_of(name)].append(thread)
    return {
        thread: star if len(stars[star]) > 1 else name for thread, name in names.items() for star in (role_of(name),)
    }


def _frames(trace: Trace, seen: Seen) -> dict[int, Frame | None]:
    """Return, for the stacks of the window, the frame that releases the GIL there; None: not known."""
    stacks = {int(one) for bursts in seen.bursts.values() for one in np.unique(bursts.stack)}
    return {stack: trace.frames[trace.stack_frame[stack]] if stack else None for stack in stacks}


def _literals(frames: Mapping[int, Frame | None], changed: frozenset[str]) -> dict[int, int]:
    """Return, by stack, the length of each sleep that a line of the program has as a number."""
    found = {stack: sleep_ns_at(frame, changed) for stack, frame in frames.items()}
    return {stack: value for stack, value in found.items() if value is not None}


def _timeouts(trace: Trace, kinds: Mapping[int, Call], changed: frozenset[str]) -> dict[int, int]:
    """Return, by stack, the time-out of each wait for another thread that has one; 0: it is not known."""
    found = {stack: timeout_ns_at(trace.stack(stack), changed) for stack, kind in kinds.items() if kind is Call.LOCK}
    return {stack: value for stack, value in found.items() if value is not None}


def _look_for_limits(trace: Trace, seen: Seen, building: _Building) -> None:
    short = sum(
        1
        for thread in seen.bursts
        if trace.threads[thread].start_ns > seen.since_ns
        and (trace.threads[thread].end_ns or seen.until_ns) < seen.until_ns
    )
    if short > _MANY_SHORT_LIVED:
        building.outside[
            f"{short} threads started and ended within the trace: the model replays them as if they continued"
        ] = None
    if not trace.process.has_stacks:
        building.rests_on[Assumption("the trace has no stacks: the model distinguishes calls by their length")] = None


def _look_for_changed(changed: frozenset[str], building: _Building) -> None:
    """Note the files that were edited since the program began; files that are gone are not mentioned."""
    for one in sorted(one for one in changed if os.path.exists(one)):
        text = f"{printable(one)} was edited after the program began, so its lines do not identify its calls"
        building.rests_on[Assumption(text)] = None


def _tell_late_answers(roles: Mapping[int, str], building: _Building) -> None:
    calls = building.answers.calls
    medians_ns = defaultdict(list)
    for thread, answers_ns in building.answers.late.items():
        medians_ns[roles[thread], thread in calls].append(float(np.median(calls.get(thread, answers_ns))))
    for (role, in_calls), some_ns in medians_ns.items():
        if np.median(some_ns) < _LATE_NS:
            continue
        time = duration(float(np.median(some_ns)))
        text = (
            f"{role} makes calls of C that keep the GIL for {time}, as far as its holds show: no policy and no switch interval "
            "ends one sooner"
            if in_calls
            else f"{role} releases the GIL {time} after a request, as in the trace, since it is "
            "in calls of C that keep the GIL: no policy and no switch interval makes that sooner"
        )
        building.rests_on[Assumption(text, role=role, of_gil=True)] = None


def _look_for_feedback(seen: Seen, building: _Building) -> None:
    """Note if one thread takes requests and another one answers them: a peer's next request waits for that answer."""
    receives, sends = set(), set()
    for thread, bursts in seen.bursts.items():
        kinds = [building.kinds[int(stack)] for stack in bursts.stack]
        if sum(kind in (Call.RECEIVE, Call.POLL) for kind in kinds) >= _FEW:
            receives.add(thread)
        if kinds.count(Call.SEND) >= _FEW:
            sends.add(thread)
    shared = any(len(port.threads) > 1 for port in building.ports)
    if receives - sends and sends - receives and not shared:
        building.outside[
            "one thread receives the requests and another answers them: the model does not make a peer's next request come "
            "sooner after a sooner answer"
        ] = None


def _look_for_pauses(roles: Mapping[int, str], building: _Building) -> None:
    """Note event loops whose clients pause. On one core, a request may be late because the event loop waited for the core."""
    for port in building.ports:
        if port.pause_ns and building.cores != 1:
            (thread,) = port.threads
            building.outside[
                f"where {roles[thread]} waited for a request, that came {duration(port.pause_ns)} after an answer, typically: some"
                " peers pause, and the model's peers send at once, so it may get more or fewer requests than predicted"
            ] = None


def _look_for_loops_in_c(trace: Trace, actors: tuple[Actor, ...], building: _Building) -> None:
    """Note event loops written in C: nothing tells which calls take requests, and how soon the next ones come."""
    loops = loops_in_c(trace, building.kinds)
    for role in dict.fromkeys(one.role for one in actors if one.port < 0 and polls_unseen(one.ops, loops)):
        building.outside[
            f"the event loop of {role} is written in C, and the trace does not show what it waits for, such as requests: the model"
            " repeats its waits, so it may have more or fewer turns than predicted, as may the threads that work for it"
        ] = None


# ---------------------------------------------------------------------------- one thread
def _actor(thread: int, role: str, bursts: Bursts, building: _Building) -> Actor:
    rows: list[_Row] = []
    if not len(bursts):
        rows = [(OpKind.COMPUTE, 0, 0, 0, 0, 0)] if bursts.goes_on else []
        return Actor(thread, role, np.array(rows, dtype=OP_DTYPE), -1, 0, *_late(thread, building))
    seen, costs, kinds, wakes = building.seen, building.costs, building.kinds, building.wakes
    posts = [wakes.posts.get((thread, index), ()) for index in range(len(bursts))]
    hot_ns = building.cooling.hot_ns(bursts, [len(one) for one in posts], kinds)
    typical = bursts.typical_away_ns()
    sleeps = asked_sleeps(seen, thread, bursts, kinds, costs, building.literal_ns, building.cores)
    peer = building.peers[thread]
    port = next((index for index, one in enumerate(building.ports) if thread in one.threads), -1)
    parts = building.ports[port].parts if port >= 0 else {}
    if peer.assumed:
        building.rests_on[Assumption(peer.assumed, role=role)] = None
    answers = -1
    if peer.answers:
        answers = len(building.dists)
        building.dists.append(peer.answers)
    clocks = _clocks(thread, role, bursts, parts, building)
    woken_ns = wake_ns(costs)
    ran_ns = building.computing.ran_ns[thread].tolist()
    runs_ns = zip(
        bursts.stack.tolist(),
        hot_ns.astype(np.int64).tolist(),
        bursts.run_ns.tolist(),
        bursts.away_ns.tolist(),
        strict=True,
    )
    for index, (where, hot, run_ns, gone_ns) in enumerate(runs_ns):
        _hold(rows, index, hot, posts[index], run_ns, where)
        # Only the window's end is known of the last call: take the usual length at this place.
        away_ns = gone_ns if gone_ns >= 0 else typical.get(where, seen.until_ns - int(bursts.end_ns[index]))
        call = kinds[where]
        taken = wakes.takes.get((thread, index))
        part = parts.get((thread, index))
        if part is Part.REQUEST:
            rows.append((OpKind.RECEIVE, OF_PORT, port, where, 0, 0))
        elif part is Part.REPLY:
            rows.append((OpKind.REPLY, OF_PORT, port, where, 0, 0))
        elif part is Part.MORE:
            rows.append((OpKind.RUN, 0, 0, where, 0, min(away_ns, AT_ONCE_NS)))
        elif taken is not None:
            rows.append((OpKind.TAKE, 0, taken, where, 0, 0))
        elif call is Call.SEND and (port >= 0 or answers >= 0):
            rows.append((OpKind.SEND, 0, 0, where, 0, 0))
        elif call is Call.RECEIVE and answers >= 0:
            rows.append((OpKind.ANSWER, OF_DIST, answers, where, 0, 0))
        elif call is Call.RECEIVE and peer.always_there:
            rows.append((OpKind.RUN, 0, 0, where, 0, min(away_ns, typical.get(where, away_ns))))
        elif clocks.of[index] >= 0:
            kind = OpKind.BLOCK if call in (Call.RECEIVE, Call.UNKNOWN) else OpKind.SLEEP
            rows.append((kind, OF_CLOCK, int(clocks.of[index]), where, 0, int(clocks.moves_ns[index])))
        elif (thread, index) in wakes.timed_out:
            rows.append((OpKind.SLEEP, 0, 0, where, 0, wakes.timed_out[thread, index]))
        elif call is Call.SLEEP:
            rows.append((OpKind.SLEEP, 0, 0, where, 0, sleeps[index] if sleeps[index] >= 0 else away_ns))
        elif away_ns <= AT_ONCE_NS:
            rows.append((OpKind.RUN, 0, 0, where, 0, away_ns))
        else:
            for_a_core = building.computing.waits_for_a_core(where)
            _away(rows, call, where, away_ns, ran_ns[index], woken_ns, for_a_core=for_a_core)
    if bursts.goes_on and bursts.unfinished_ns > bursts.run_ns.max():
        rows.append((OpKind.HOLD, 0, 0, 0, 0, bursts.unfinished_ns))
    begin_ns = max(0, int(bursts.want_ns[0]) - seen.since_ns)
    return Actor(thread, role, np.array(rows, dtype=OP_DTYPE), port, begin_ns, *_late(thread, building))


def _clocks(
    thread: int, role: str, bursts: Bursts, parts: Mapping[tuple[int, int], Part], building: _Building
) -> Clocks:
    """Return the clocks of a thread, and note what they mean for predictions."""
    wakes = building.wakes
    keys = [(thread, index) for index in range(len(bursts))]
    others = np.array([key in wakes.takes or key in wakes.timed_out or key in parts for key in keys], dtype=bool)
    if (
        building.peers[thread].answers or building.peers[thread].always_there
    ):  # what the thread receives has its own time
        others |= np.array([building.kinds[int(stack)] is Call.RECEIVE for stack in bursts.stack])
    found = find_clocks(bursts, building.kinds, others, AT_ONCE_NS)
    for period_ns in found.periods_ns:
        text = (
            f"{role} keeps a clock of {duration(period_ns)}, as in the trace: it waits until fixed times, and catches up "
            "when it was late"
        )
        building.rests_on[Assumption(text, role=role)] = None
    left = (found.of < 0) & ~others & (bursts.away_ns >= 0)
    for stack in np.unique(bursts.stack[left]):
        at = np.flatnonzero(left & (bursts.stack == stack))
        if building.kinds[int(stack)] is Call.SLEEP and int(stack) not in building.literal_ns and shrinks(bursts, at):
            building.outside[
                f"{role} sleeps the less the longer it waited before, as a thread does that sleeps until a set time: the "
                "model does not know that time, and repeats the sleeps of the trace"
            ] = None
    return found


def _late(thread: int, building: _Building) -> tuple[int, bool]:
    """Return an actor's `answers`, with a new distribution for a thread that answers late, and its `in_calls`."""
    late, calls = building.answers.late, building.answers.calls
    if thread not in late:
        return 0, False
    building.dists.append(calls.get(thread, late[thread]))
    return len(building.dists), thread in calls


def _away(
    rows: list[_Row], call: Call, where: int, away_ns: int, ran_ns: int, woken_ns: float, *, for_a_core: bool
) -> None:
    """Add a call that waits for nothing in the model: the time that it computes, and the time that it is blocked.

    A call that waits only `for_a_core` is not blocked, because the simulator makes it wait for one by itself.
    """
    if ran_ns < 0:
        ran_ns = away_ns if call is Call.RUN else 0
    blocked_ns = max(0, int(away_ns - ran_ns - woken_ns))
    blocks = ran_ns <= 0 or (blocked_ns > 0 and not for_a_core)
    if ran_ns > 0:
        rows.append((OpKind.RUN, GOES_ON if blocks else 0, 0, where, 0, ran_ns))
    if blocks:
        rows.append((OpKind.BLOCK, 0, 0, where, 0, blocked_ns))


def _hold(
    rows: list[_Row], index: int, hot_ns: int, posts: tuple[tuple[int, int], ...], run_ns: int, where: int
) -> None:
    """Add a burst with its wake-ups of other threads in between; `reserved` is the burst's index + 1."""
    done_ns = 0
    for offset_ns, semaphore in posts:
        at_ns = min(hot_ns, offset_ns * hot_ns // max(1, run_ns))
        if at_ns > done_ns:
            rows.append((OpKind.HOLD, 0, 0, where, index + 1, at_ns - done_ns))
            done_ns = at_ns
        rows.append((OpKind.POST, 0, semaphore, where, 0, 0))
    if hot_ns > done_ns:
        rows.append((OpKind.HOLD, 0, 0, where, index + 1, hot_ns - done_ns))
