"""From a trace to a model: roles, and for each thread the operations that the simulator is to replay."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.errors import ScenarioError
from headway.native_sim import GOES_ON, OF_DIST, OP_DTYPE, OpKind
from headway.printable import printable
from headway.sim.machine import Costs
from headway.sim.replay.bursts import Bursts, Seen, see
from headway.sim.replay.calls import Call, call_at, sleep_ns_at
from headway.sim.replay.computing import Computing, computing
from headway.sim.replay.outside import AT_ONCE_NS, asked_sleeps, find_peer, wake_ns
from headway.sim.replay.wakes import Wakes, find_wakes
from headway.sim.result import percentile
from headway.traces.analysis.words import role as role_of
from headway.traces.model import Trace

__all__ = ["Actor", "Measured", "Model", "learn"]

_Row = tuple[int, int, int, int, int, int]
"""An operation: kind, flags, index, where, reserved, value."""

_MOST_BURSTS = 40_000
"""Of a longer trace a window with so many is replayed."""
_COLD_AFTER_NS = 1_000_000
_ALL_COLD_NS = 4_000_000
"""As the simulator has it (native/sim/costs.c)."""
_SHORT_NS = 200_000
"""Bursts that are longer are not told apart into cold and hot ones."""
_TINY_NS = 50_000
_LEAST_PERCENT = 5
_HOT_PART = 0.25
"""Of a tiny burst that is only seen cold, so much is taken to be left when it is hot: coldness costs four times that."""
_LEAST_PART = 0.02
_FEW = 5
_FEW_SAMPLES = 30
_FAR_OFF = 2.0
"""The machine's own figure stands for how soon holders let go, unless the trace has so many times as long."""
_MANY_SHORT_LIVED = 20
_BATCHES = 10
"""Parts of the window, whose differences tell how sure a figure of the whole is."""


@final
@dataclass(frozen=True)
class Measured:
    """What the trace shows of a role in the window.

    Attributes:
        turns: How many turns there were.
        turns_per_s: How often its threads let the GIL go by themselves, all of them together.
        turns_error: The standard error of that, as a share of it, by batch means (Law, Simulation Modeling and Analysis, chapter 9).
        p50_ns, p99_ns: How long such a turn took, from wanting the GIL to letting it go; None: too few.
        run_share: Running with the GIL, as a share of the window.
    """

    turns: int
    turns_per_s: float
    turns_error: float
    p50_ns: float | None
    p99_ns: float | None
    run_share: float


@final
@dataclass(frozen=True, eq=False)
class Actor:
    """A thread to replay.

    Attributes:
        thread: Its index in the trace.
        role: Of which role.
        ops: Its operations (OP_DTYPE); `where` is the stack at the end of each, `reserved` of a hold the index of its
            burst + 1.
        served: It answers a client that is simulated, too: its receives and replies are a port's.
    """

    thread: int
    role: str
    ops: NDArray[np.void]
    served: bool


@final
@dataclass(frozen=True, eq=False)
class Model:
    """A program, as its trace shows it.

    Attributes:
        trace: The trace.
        seen: The window that is replayed.
        actors: Its threads.
        semaphores: How many wake-ups among them are replayed.
        dists: Distributions that operations refer to, as quantiles in ns.
        own_costs: Costs that the trace itself shows, by their names, as quantiles in ns: how soon holders let go, and what
            cold code takes longer, hang on what the program leaves in the caches. Others are the machine's.
        measured: By role, what the trace shows.
        rests_on: What the model had to assume, a sentence each.
        outside: Why predictions may be wrong beyond their intervals, a sentence each.
    """

    trace: Trace
    seen: Seen
    actors: tuple[Actor, ...]
    semaphores: int
    dists: tuple[tuple[float, ...], ...]
    own_costs: Mapping[str, tuple[float, ...]]
    measured: dict[str, Measured]
    rests_on: tuple[str, ...]
    outside: tuple[str, ...]

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles, in the order in which they first appear."""
        return tuple(dict.fromkeys(one.role for one in self.actors))


@dataclass
class _Building:
    """What grows while threads are looked at."""

    seen: Seen
    costs: Costs
    kinds: Mapping[int, Call]
    wakes: Wakes
    literal_ns: dict[int, int]
    computing: Computing
    cold_ns: dict[str, list[NDArray[np.float64]]] = field(default_factory=lambda: defaultdict(list))
    dists: list[tuple[float, ...]] = field(default_factory=list)
    rests_on: dict[str, None] = field(default_factory=dict)
    outside: dict[str, None] = field(default_factory=dict)


def learn(trace: Trace, costs: Costs, calls: Mapping[int, Call] | None = None) -> Model:
    """Return the model of a trace.

    Args:
        trace: Of a process with a GIL.
        costs: Of the machine that it was recorded on: a thread's own wake-up is not part of what it waited for.
        calls: By stack, what kind of call lets the GIL go there; None: as the frames tell.

    Raises:
        ScenarioError: The trace shows no GIL, or nothing that could be replayed.
    """
    if not trace.gils or not len(trace.events):
        raise ScenarioError(
            "the trace shows no GIL: there is nothing to predict from",
            hint="trace a program that runs on an interpreter with a GIL",
        )
    gil = next((one.index for one in trace.gils if one.main), trace.gils[0].index)
    since_ns, until_ns = _window(trace)
    seen = see(trace, gil, since_ns, until_ns)
    roles = _roles(trace, seen)
    kinds = _kinds(trace, seen) if calls is None else defaultdict(lambda: Call.UNKNOWN, calls)
    # On one core a woken thread runs only when its waker has left that core.
    wakes = find_wakes(seen, kinds, costs.median("switch") if trace.process.core_count == 1 else wake_ns(costs))
    computes = computing(seen, trace.process.core_count)
    building = _Building(seen, costs, kinds, wakes, _literals(trace, seen), computes)
    actors = tuple(_actor(thread, roles[thread], bursts, building) for thread, bursts in seen.bursts.items())
    actors = tuple(one for one in actors if len(one.ops))
    if not actors:
        raise ScenarioError("the trace is too short to predict from", hint="record for a second or more")
    _look_for_limits(trace, seen, building)
    _look_for_feedback(seen, building)
    return Model(
        trace=trace,
        seen=seen,
        actors=actors,
        semaphores=wakes.count,
        dists=tuple(building.dists),
        own_costs=_own_costs(trace, seen, building),
        measured={
            role: _measured(seen, [t for t in seen.bursts if roles[t] == role])
            for role in dict.fromkeys(roles.values())
        },
        rests_on=tuple(building.rests_on),
        outside=tuple(building.outside),
    )


def _window(trace: Trace) -> tuple[int, int]:
    """Return what is replayed: all but the first tenth and the last twentieth, in which a program starts and ends.

    Of a long trace it is a part.
    """
    events = trace.events["time_ns"]
    elapsed_ns = trace.end_ns - trace.start_ns
    since_ns, until_ns = trace.start_ns + elapsed_ns // 10, trace.end_ns - elapsed_ns // 20
    last = min(int(np.searchsorted(events, since_ns)) + 3 * _MOST_BURSTS, len(events) - 1)
    return since_ns, max(min(until_ns, int(events[last])), since_ns + 1)


def _roles(trace: Trace, seen: Seen) -> dict[int, str]:
    """Return each thread's role: its name, or with `*` for numbers where others have the same but for these."""
    names = {
        thread: printable(trace.threads[thread].name) or f"thread {trace.threads[thread].tid}" for thread in seen.bursts
    }
    stars = defaultdict(list)
    for thread, name in names.items():
        stars[role_of(name)].append(thread)
    return {
        thread: star if len(stars[star]) > 1 else name for thread, name in names.items() for star in (role_of(name),)
    }


def _kinds(trace: Trace, seen: Seen) -> dict[int, Call]:
    stacks = np.unique(np.concatenate([one.stack for one in seen.bursts.values()] or [np.zeros(0, dtype=np.uint32)]))
    return {int(stack): call_at(trace.frames[trace.stack_frame[stack]] if stack else None) for stack in stacks}


def _own_costs(trace: Trace, seen: Seen, building: _Building) -> dict[str, tuple[float, ...]]:
    found: dict[str, tuple[float, ...]] = {}
    # On one core a holder runs on when the one that asked sleeps: how soon it lets go is not told.
    if trace.process.core_count != 1 and len(answer := _answer_ns(seen)) >= _FEW_SAMPLES:
        usual_ns = (
            building.costs.median("check") + building.costs.median("pending") + building.costs.median("cold_pending")
        )
        if np.median(answer) > _FAR_OFF * usual_ns:
            found |= {"pending": _quantiles(answer), "cold_pending": (0.0,)}
    for name, samples in building.cold_ns.items():
        if len(together := np.concatenate(samples)) >= _FEW_SAMPLES:
            found[name] = _quantiles(together)
    return found


def _quantiles(samples: NDArray[np.float64] | NDArray[np.int64]) -> tuple[float, ...]:
    return tuple(float(one) for one in np.percentile(samples, np.linspace(2, 95, 21)))


def _answer_ns(seen: Seen) -> NDArray[np.int64]:
    """Return how soon holders let go that were asked to. One that is in a call of C cannot, and takes as long as that."""
    asked = seen.holds.forced & (seen.holds.asked_ns < seen.holds.end_ns)
    answer_ns: NDArray[np.int64] = (seen.holds.end_ns - seen.holds.asked_ns)[asked]
    return answer_ns[answer_ns < _SHORT_NS]


def _literals(trace: Trace, seen: Seen) -> dict[int, int]:
    """Return by stack how long a sleep is that a line of the program has as a number."""
    stacks = {int(one) for bursts in seen.bursts.values() for one in np.unique(bursts.stack)} - {0}
    found = {stack: sleep_ns_at(trace.frames[trace.stack_frame[stack]]) for stack in stacks}
    return {stack: value for stack, value in found.items() if value is not None}


def _measured(seen: Seen, threads: list[int]) -> Measured:
    turns = np.sort(np.concatenate([seen.bursts[thread].turn_ns for thread in threads]))
    ran = sum(int(seen.bursts[thread].run_ns.sum()) + seen.bursts[thread].unfinished_ns for thread in threads)

    return Measured(
        len(turns),
        len(turns) / (seen.elapsed_ns / 1e9),
        _turns_error(seen, np.concatenate([seen.bursts[thread].end_ns for thread in threads])),
        percentile(turns, 0.5, 10),
        percentile(turns, 0.99, 100),
        ran / seen.elapsed_ns,
    )


def _turns_error(seen: Seen, ends_ns: NDArray[np.int64]) -> float:
    """Return the standard error of how many turns ended, as a share: parts of the window differ by so much."""
    counts, _ = np.histogram(ends_ns, bins=_BATCHES, range=(seen.since_ns, seen.until_ns))
    return float(counts.std(ddof=1) / _BATCHES**0.5 / counts.mean()) if counts.any() else 0.0


def _look_for_limits(trace: Trace, seen: Seen, building: _Building) -> None:
    short = sum(
        1
        for thread in seen.bursts
        if trace.threads[thread].start_ns > seen.since_ns
        and (trace.threads[thread].end_ns or seen.until_ns) < seen.until_ns
    )
    if short > _MANY_SHORT_LIVED:
        building.outside[f"{short} threads began and ended within the trace: they are replayed as if they went on"] = (
            None
        )
    if not trace.process.has_stacks:
        building.rests_on["the trace has no stacks: calls are told apart by how long they take"] = None
    if len(trace.gils) > 1:
        building.outside["other GILs than the main interpreter's are left out"] = None


def _look_for_feedback(seen: Seen, building: _Building) -> None:
    """Note where requests come in at one thread and are answered by another: the peer's next one waits for that answer."""
    receives, sends = set(), set()
    for thread, bursts in seen.bursts.items():
        kinds = [building.kinds[int(stack)] for stack in bursts.stack]
        if sum(kind in (Call.RECEIVE, Call.POLL) for kind in kinds) >= _FEW:
            receives.add(thread)
        if kinds.count(Call.SEND) >= _FEW:
            sends.add(thread)
    if receives - sends and sends - receives:
        building.outside[
            "requests come in at one thread and are answered by another: that a peer's next one comes sooner where it is "
            "answered sooner is not in the model"
        ] = None


# ---------------------------------------------------------------------------- one thread
def _cooled(run_ns: NDArray[np.int64], hot_ns: NDArray[np.int64], cold_ns: tuple[float, ...]) -> NDArray[np.int64]:
    """Return how long bursts of one place that ran cold would run hot.

    Where hot ones are known, those tell. Else tiny bursts are taken to do the same each time: the least of them is nearest
    to hot, and of that still the least that coldness costs is taken off.
    """
    if len(hot_ns) >= _FEW:
        least = float(np.median(hot_ns))
    else:
        lowest = float(np.percentile(run_ns, _LEAST_PERCENT))
        least = _HOT_PART * lowest
        if lowest - cold_ns[0] > _LEAST_PART * lowest:
            least = min(least, lowest - cold_ns[0])
    cooler = np.where(run_ns < _TINY_NS, least, run_ns - cold_ns[len(cold_ns) // 2])
    result: NDArray[np.int64] = np.maximum(cooler, np.minimum(run_ns, least)).astype(np.int64)
    return result


def _hot_ns(bursts: Bursts, building: _Building) -> NDArray[np.int64]:
    """Return how long each burst runs when its code is hot: the simulator makes it cold again where it is.

    What coldness cost tiny bursts is noted, as of code that is all cold.
    """
    run_ns = bursts.run_ns.astype(np.int64).copy()
    idle_ns = np.zeros(len(bursts), dtype=np.int64)
    idle_ns[1:] = bursts.begin_ns[1:] - bursts.end_ns[:-1]
    short = run_ns < _SHORT_NS
    cold = (idle_ns > _COLD_AFTER_NS) & short
    lukewarm = np.append(False, cold[:-1]) & ~cold & short
    hot = ~cold & ~lukewarm & (idle_ns < _COLD_AFTER_NS // 10) & (idle_ns > 0)
    for chosen, cost in ((cold, "cold_python"), (lukewarm, "cold_python_next")):
        for stack in np.unique(bursts.stack[chosen]):
            here = chosen & (bursts.stack == stack)
            known = run_ns[hot & (bursts.stack == stack)]
            hot_ns = _cooled(run_ns[here], known, building.costs.costs[cost])
            tiny = run_ns[here] < _TINY_NS
            colder = (
                np.minimum(1.0, np.maximum(idle_ns[here], _COLD_AFTER_NS) / _ALL_COLD_NS)
                if cost == "cold_python"
                else 1.0
            )
            building.cold_ns[cost].append((np.maximum(run_ns[here] - hot_ns, 0) / colder)[tiny])
            run_ns[here] = hot_ns
    return np.maximum(run_ns, 1)


def _note_cold_calls(bursts: Bursts, building: _Building) -> None:
    """Note what sends and receives took more than when hot, of those that were measured and came after a long wait.

    Of receives only those count that found their data: going to sleep, and waking up, is no part of it.
    """
    idle_ns = bursts.begin_ns[1:] - bursts.end_ns[:-1]
    cold = np.append(False, idle_ns >= _ALL_COLD_NS) & (2 * bursts.away_cpu_ns > bursts.away_ns)
    call = np.array([building.kinds[int(stack)] for stack in bursts.stack], dtype=object)
    for kind, name, hot in (
        (Call.SEND, "cold_send", ("send", "send_end")),
        (Call.RECEIVE, "cold_receive", ("receive_ready",)),
    ):
        hot_ns = sum(building.costs.median(one) for one in hot)
        building.cold_ns[name].append(np.maximum(bursts.away_cpu_ns[cold & (call == kind)] - hot_ns, 0.0))


def _actor(thread: int, role: str, bursts: Bursts, building: _Building) -> Actor:
    rows: list[_Row] = []
    if not len(bursts):
        rows = [(OpKind.COMPUTE, 0, 0, 0, 0, 0)] if bursts.goes_on else []
        return Actor(thread, role, np.array(rows, dtype=OP_DTYPE), False)
    seen, costs, kinds, wakes = building.seen, building.costs, building.kinds, building.wakes
    hot_ns = _hot_ns(bursts, building)
    _note_cold_calls(bursts, building)
    typical = _typical_away(bursts)
    sleeps = asked_sleeps(seen, thread, bursts, kinds, costs, building.literal_ns)
    peer = find_peer(seen, thread, bursts, kinds, costs)
    if peer.assumed:
        building.rests_on[peer.assumed] = None
    answers = -1
    if peer.answers:
        answers = len(building.dists)
        building.dists.append(peer.answers)
    woken_ns = wake_ns(costs)
    ran_ns = building.computing.ran_ns[thread]
    rows.append((OpKind.BLOCK, 0, 0, 0, 0, max(0, int(bursts.want_ns[0]) - seen.since_ns)))
    for index in range(len(bursts)):
        where = int(bursts.stack[index])
        _hold(rows, index, int(hot_ns[index]), wakes.posts.get((thread, index), ()), int(bursts.run_ns[index]), where)
        away_ns = int(bursts.away_ns[index])
        if away_ns < 0:  # until the end of the window at least
            away_ns = max(typical[where], seen.until_ns - int(bursts.end_ns[index]))
        call = kinds[where]
        taken = wakes.takes.get((thread, index))
        if taken is not None:
            rows.append((OpKind.TAKE, 0, taken, where, 0, 0))
        elif call is Call.SLEEP:
            rows.append((OpKind.SLEEP, 0, 0, where, 0, sleeps[index]))
        elif call is Call.SEND and (peer.simulated or answers >= 0):
            rows.append((OpKind.REPLY if peer.simulated else OpKind.SEND, 0, 0, where, 0, 0))
        elif call is Call.RECEIVE and peer.simulated:
            rows.append((OpKind.RECEIVE, 0, 0, where, 0, 0))
        elif call is Call.RECEIVE and answers >= 0:
            rows.append((OpKind.ANSWER, OF_DIST, answers, where, 0, 0))
        elif call is Call.RECEIVE and peer.always_there:
            rows.append((OpKind.RUN, 0, 0, where, 0, min(away_ns, typical[where])))
        elif away_ns <= AT_ONCE_NS:
            rows.append((OpKind.RUN, 0, 0, where, 0, away_ns))
        else:
            for_a_core = building.computing.waits_for_a_core(where)
            _away(rows, call, where, away_ns, int(ran_ns[index]), woken_ns, for_a_core=for_a_core)
    if bursts.goes_on and bursts.unfinished_ns > bursts.run_ns.max():
        rows.append((OpKind.HOLD, 0, 0, 0, 0, bursts.unfinished_ns))
    return Actor(thread, role, _replayable(rows, served=peer.simulated), peer.simulated)


def _away(
    rows: list[_Row], call: Call, where: int, away_ns: int, ran_ns: int, woken_ns: float, *, for_a_core: bool
) -> None:
    """Add a call that waits for nobody whom the model knows: what it computes, and what it is blocked for.

    A call that waits `for_a_core` only is not blocked: the simulator makes it wait for one by itself.
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
    """Add a burst, which wakes other threads in between; `reserved` is its index + 1."""
    done_ns = 0
    for offset_ns, semaphore in posts:
        at_ns = min(hot_ns, offset_ns * hot_ns // max(1, run_ns))
        if at_ns > done_ns:
            rows.append((OpKind.HOLD, 0, 0, where, index + 1, at_ns - done_ns))
            done_ns = at_ns
        rows.append((OpKind.POST, 0, semaphore, where, 0, 0))
    if hot_ns > done_ns:
        rows.append((OpKind.HOLD, 0, 0, where, index + 1, hot_ns - done_ns))


def _replayable(rows: list[_Row], *, served: bool) -> NDArray[np.void]:
    """Return the operations; of who serves a client from its first receive on, so that it answers a request."""
    ops = np.array(rows, dtype=OP_DTYPE)
    if served:
        receives = np.flatnonzero(ops["kind"] == OpKind.RECEIVE)
        ops = np.concatenate([ops[receives[0] :], ops[: receives[0]]])
        return _one_reply_each(ops)
    return ops


def _one_reply_each(ops: NDArray[np.void]) -> NDArray[np.void]:
    """Return the operations with one reply to each request: further ones are sends.

    A request that the window's end left open is answered then: the client waits for it before it sends the next one.
    """
    open_request = False
    for index, kind in enumerate(ops["kind"]):
        if kind == OpKind.RECEIVE:
            if open_request:
                ops["kind"][index] = OpKind.RUN  # more of the same request
                ops["value"][index] = 1_000
            open_request = True
        elif kind == OpKind.REPLY:
            if not open_request:
                ops["kind"][index] = OpKind.SEND
            open_request = False
    if not open_request:
        return ops
    answer: NDArray[np.void] = np.array([(OpKind.REPLY, 0, 0, 0, 0, 0)], dtype=OP_DTYPE)
    return np.concatenate([ops, answer])


def _typical_away(bursts: Bursts) -> dict[int, int]:
    known = bursts.away_ns >= 0
    found = {}
    for stack in np.unique(bursts.stack):
        away = bursts.away_ns[(bursts.stack == stack) & known]
        found[int(stack)] = int(np.median(away)) if len(away) else 0
    return found
