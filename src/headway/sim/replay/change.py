"""A change: another policy, switch interval, number of threads or cores, processes, no GIL, or shorter holds."""

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.errors import ScenarioError
from headway.native_sim import OF_PORT, Client, Gil, OpKind, Role, Spec
from headway.printable import printable
from headway.sim.check import MOST_GILS
from headway.sim.machine import Costs
from headway.sim.policy import Chosen, choose
from headway.sim.replay.cpu_bound import cpu_bound
from headway.sim.replay.learn import Actor, Model
from headway.sim.replay.others import crowd
from headway.sim.scenario import STOCK, Process
from headway.sim.table import nearest
from headway.traces.analysis.words import listed, number

__all__ = [
    "MOST_PROCESSES",
    "NOTHING",
    "SEVERAL",
    "Change",
    "Shorten",
    "becoming_processes",
    "left_out",
    "matches",
    "members",
    "parse_shorten",
    "policy_of",
    "role_named",
    "seldom_sampled",
    "specify",
    "with_own",
]

MOST_PROCESSES = MOST_GILS - 1
"""The most threads that may become processes; the others keep the GIL that they share."""

SEVERAL = 10
"""Preempted holds of a role; fewer tell little of what its other holds run."""
_GUESSED = 0.1
"""A share of the time that a change shortens: less of it that is only assumed does not matter."""
_MOST_CORES = 64
_MOST_OPERATIONS = 20_000_000
"""The most operations of a role whose number of threads is changed: about a gigabyte."""


@final
@dataclass(frozen=True)
class Shorten:
    """Holds that end at a line, multiplied by a factor."""

    filename: str
    line: int
    factor: float

    def __str__(self) -> str:
        return f"{self.filename}:{self.line} x {self.factor:g}"


@final
@dataclass(frozen=True)
class Change:
    """The differences from the trace; the defaults mean no difference.

    Attributes:
        policy: The policy of the GIL, by name or path; STOCK: none; None: that of the trace.
        options: Options of the policy, (name, value).
        interval_ns: The switch interval.
        threads: (role, number of threads).
        cores: The number of cores on which the program may run.
        processes: CPU-bound threads become processes, with a GIL each.
        gil: False: there is no GIL.
        without: Roles that are removed.
        shorten: Lines that hold the GIL for less time.
    """

    policy: str | None = None
    options: tuple[tuple[str, int], ...] = ()
    interval_ns: int | None = None
    threads: tuple[tuple[str, int], ...] = ()
    cores: int | None = None
    processes: bool = False
    gil: bool = True
    without: tuple[str, ...] = ()
    shorten: tuple[Shorten, ...] = ()

    def __str__(self) -> str:
        """Return the change in the words of the command line, quoted for a shell."""
        words = [_option("--policy", self.policy)] if self.policy is not None else []
        words += [f"--option {name}={value}" for name, value in self.options]
        words += [f"--switch-interval {self.interval_ns / 1e9:g}"] if self.interval_ns else []
        words += [_threads_words(role, count) for role, count in self.threads]
        words += [f"--cores {self.cores}"] if self.cores else []
        words += ["--processes"] if self.processes else []
        words += [] if self.gil else ["--no-gil"]
        words += [_without_words(role) for role in self.without]
        words += [_option("--shorten", f"{one.filename}:{one.line}={one.factor:g}") for one in self.shorten]
        return " ".join(words) or "no change"


NOTHING = Change()


def _option(name: str, value: str) -> str:
    """Return an option with its value; a value that begins with a dash would be taken for another option."""
    return f"{name}{'=' if value.startswith('-') else ' '}{shlex.quote(value)}"


def _threads_words(role: str, count: int) -> str:
    return _option("--threads", f"{role}:{count}")


def _without_words(role: str) -> str:
    return _option("--without", role)


def parse_shorten(text: str) -> Shorten:
    """Parse a text such as `app.py:42=0.5`. Raises ScenarioError."""
    found = re.fullmatch(r"(.+):(\d+)=([0-9.eE+-]+)", text)
    try:
        if found and 0 <= float(found[3]) <= 100:
            return Shorten(found[1], int(found[2]), float(found[3]))
    except ValueError:
        pass
    raise ScenarioError(
        f"--shorten is '{text}', expected FILE:LINE=FACTOR with a factor from 0 to 100",
        hint="`--shorten app.py:42=0.5` means that line 42 holds the GIL half as long",
    )


def role_named(model: Model, name: str) -> str:
    """Return the role that a user means, by its name or by a part that only one has. Raises ScenarioError."""
    plain = {one: one.replace("*", "").strip(" -_#").lower() for one in model.roles}
    wanted = name.replace("*", "").strip(" -_#").lower()
    found = [one for one in model.roles if one == name] or [one for one in model.roles if plain[one] == wanted]
    found = found or [one for one in model.roles if wanted in one.lower()]
    if len(found) != 1:
        what = "fits several roles" if found else "is not a role of the part of the trace that is replayed"
        raise ScenarioError(
            f"'{name}' {what}",
            hint=f"the roles are {', '.join(model.roles)}" if found or not wanted else nearest(name, list(model.roles)),
        )
    return found[0]


def becoming_processes(model: Model, change: Change) -> dict[str, int]:
    """Return the roles whose threads a change turns into processes, with their numbers of threads.

    Raises:
        ScenarioError: A role is not in the trace, or the change contradicts itself.
    """
    if not change.processes:
        return {}
    counts = {role: len(members(model, change, role)) for role in cpu_bound(model)}
    return {role: count for role, count in counts.items() if count}


def members(model: Model, change: Change, role: str) -> list[Actor]:
    """Return the thread that each thread of a role replays after a change: those of the trace in turns.

    Raises:
        ScenarioError: A role is not in the trace, or the change contradicts itself.
    """
    actors = [one for one in model.actors if one.role == role]
    return [actors[nth % len(actors)] for nth in range(_counts(model, change).get(role, len(actors)))]


def left_out(model: Model, change: Change) -> set[str]:
    """Return the roles that have no threads with a change. Raises ScenarioError."""
    return {role for role, count in _counts(model, change).items() if count == 0}


def _counts(model: Model, change: Change) -> dict[str, int]:
    """Return the number of threads of each role whose number a change sets.

    Raises:
        ScenarioError: A role is not in the trace, or the change sets its number of threads twice.
    """
    found: dict[str, int] = {}
    said: dict[str, str] = {}
    for name, count in change.threads:
        role, words = role_named(model, name), _threads_words(name, count)
        if role in said:
            raise ScenarioError(
                f"{words} contradicts {said[role]}, expected one number of threads for a role",
                hint="leave out one of the two options",
            )
        found[role], said[role] = count, words
    for name in change.without:
        role, words = role_named(model, name), _without_words(name)
        if found.get(role):
            raise ScenarioError(
                f"{words} contradicts {said[role]}, expected a role that is left out or has threads",
                hint="leave out one of the two options",
            )
        found[role] = 0
    return found


def with_own(costs: Costs, own_costs: Mapping[str, tuple[float, ...]]) -> tuple[tuple[float, ...], ...]:
    """Return a machine's costs in the simulator's order, with those that a trace has of its own."""
    return replace(costs, costs={**costs.costs, **own_costs}).in_order()


def specify(
    model: Model, change: Change, costs: Costs, seed: int, end_ns: int, *, cores: int
) -> tuple[Spec, tuple[Actor, ...]]:
    """Return the simulator's specification, and for each of its roles, which are one thread each, the actor that it replays.

    Roles of other programs come after those, and have no actor.

    Args:
        model: The program.
        change: The difference from the trace.
        costs: The costs of the machine.
        seed: The seed of the run.
        end_ns: The latest end of the run, in virtual time.
        cores: The number of cores on which the program may run, unless the change sets it.

    Raises:
        ScenarioError: A role or line is not in the trace, the change contradicts itself, or the policy does not exist.
    """
    left_out(model, change)  # refuses roles that are not there, before anything else
    _check_size(model, change)
    operations = _operations(model, change.shorten)
    apart = _checked_processes(model, change)
    policy = policy_of(model, change)[1]
    interval_ns = change.interval_ns or model.seen.interval_ns
    stock = Gil(enabled=change.gil, interval_ns=interval_ns, slow_down=costs.known_slow_down)
    main = (
        replace(stock, policy=policy.address, options=policy.options, spin_ns=policy.spin_ns, yields=policy.yields)
        if change.gil
        else stock
    )
    gils = [main]
    wanted_cores = change.cores or cores
    roles: list[Role] = []
    replayed: list[Actor] = []
    # The key is a port of the model and the number of its copy: added threads have clients of their own.
    clients: dict[tuple[int, int], Client] = {}
    shared = _shared(model)
    for role in model.roles:
        first = sum(one.role == role for one in model.actors)
        for nth, actor in enumerate(members(model, change, role)):
            ops = operations[actor.thread]
            if nth >= first:  # those that wait for any of these threads go on as often as in the trace
                ops = ops[(ops["kind"] != OpKind.POST) | ~np.isin(ops["index"], shared)]
            if role in apart:
                gils.append(main)
            if actor.port >= 0:
                port = model.ports[actor.port]
                key = (actor.port, 0 if len(port.threads) > 1 else nth // first)
                if key not in clients:
                    clients[key] = Client(
                        connections=port.connections,
                        port=len(clients),
                        cores=_beside(wanted_cores),
                        # Errors of these times would count fully on a calm machine.
                        work_ns=port.client_work_ns if model.others else 0,
                    )
                ops = ops.copy()
                ops["index"][(ops["flags"] & OF_PORT) != 0] = clients[key].port
            mask = (1 << wanted_cores) - 1
            roles.append(
                Role(
                    ops=ops,
                    gil=len(gils) - 1 if role in apart else 0,
                    turns=True,
                    cores=mask,
                    begin_ns=actor.begin_ns,
                    answers=actor.answers,
                    in_calls=actor.in_calls,
                )
            )
            replayed.append(actor)
    if not roles:
        raise ScenarioError("no role is left to simulate", hint="leave a role in the program")
    own_cores = min(_MOST_CORES, wanted_cores)
    core_count = max(own_cores, 2) if clients else own_cores
    # The cores that a program no longer has keep their share of the other programs. A client's own core has as many.
    beside = model.others * min(1.0, own_cores / cores) * core_count / own_cores
    others, dists = crowd(beside, core_count, len(model.dists))
    spec = Spec(
        seed=seed,
        end_ns=end_ns,
        warm_ns=min(end_ns // 10, 100_000_000),
        costs=with_own(costs, model.own_costs),
        tick_ns=costs.tick_ns,
        slice_ns=costs.slice_ns,
        migration_ns=costs.migration_ns,
        core_count=core_count,
        gils=tuple(gils),
        roles=(*roles, *others),
        clients=tuple(clients.values()),
        port_count=len(clients),
        semaphores=(0,) * model.semaphores,
        dists=(*model.dists, *dists),
    )
    return spec, tuple(replayed)


def _shared(model: Model) -> NDArray[np.int64]:
    """Return the semaphores for which a thread waits more than once: several threads post these."""
    taken = np.concatenate([one.ops["index"][one.ops["kind"] == OpKind.TAKE] for one in model.actors])
    return np.flatnonzero(np.bincount(taken) > 1)


def policy_of(model: Model, change: Change) -> tuple[str, Chosen]:
    """Return the name of the policy that schedules the GIL after a change, or STOCK, and the policy with its options.

    The trace's own policy has the options of the trace where the change sets no other value.

    Raises:
        ScenarioError: The policy does not exist, or has not such an option; or there is an option, and no policy.
    """
    policy = model.policy if change.policy is None else change.policy
    if change.options and policy == STOCK:
        raise ScenarioError("--option needs a policy, and none is given", hint="name one with --policy")
    recorded = model.options if policy == model.policy else ()
    options = tuple({**dict(recorded), **dict(change.options)}.items())
    return policy, choose(Process(name="main", policy=policy, options=options))


def _check_size(model: Model, change: Change) -> None:
    """Refuse threads whose operations would not fit into memory, since each thread has a copy of its own."""
    for name, count in change.threads:
        role = role_named(model, name)
        size = sum(len(actor.ops) for actor in members(model, change, role))
        if size > _MOST_OPERATIONS:
            raise ScenarioError(
                f"{count} threads of {role} have {size:,} operations to replay, expected {_MOST_OPERATIONS:,} at most",
                hint=f"about {count * _MOST_OPERATIONS // size} threads of it are possible",
            )


def _checked_processes(model: Model, change: Change) -> dict[str, int]:
    found = becoming_processes(model, change)
    if change.processes and not found:
        raise ScenarioError(
            "--processes turns CPU-bound threads into processes, and no role is CPU-bound",
            hint="CPU-bound roles hold the GIL for 30 % of the time, most of it in preempted holds or a millisecond at a time",
        )
    count = sum(found.values())
    if count > MOST_PROCESSES:
        raise ScenarioError(
            f"--processes turns {count} threads into processes, expected {MOST_PROCESSES} at most",
            hint=f"give a role fewer threads, as in `{_threads_words(next(iter(found)), 8)}`",
        )
    return found


def _beside(cores: int) -> int:
    """Return the core mask of a client of a program on `cores` cores: the other core if the program has only one."""
    return 0b10 if cores == 1 else 0


def matches(model: Model, one: Shorten) -> NDArray[np.bool_]:
    """Return a mask of the trace's frames that are on that line."""
    return np.array(
        [
            frame.line == one.line
            and (frame.filename == one.filename or frame.filename.endswith(f"/{one.filename.lstrip('./')}"))
            for frame in model.trace.frames
        ],
        dtype=bool,
    )


def _line_shares(
    model: Model, actor: Actor, frames: NDArray[np.bool_], inside: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return, for each burst of a thread, the share of it that is spent in that line, or in code that the line calls.

    The second result tells which bursts show their own share.

    A preempted hold shows what it ran, and all of it counts as spent there. Another hold shows only where it ended, so
    it counts if it ended at that line. A burst that tells nothing gets the average share of the thread's preempted
    holds.

    Args:
        model: The program.
        actor: The thread.
        frames: A mask of the trace's frames that are on the line.
        inside: A mask of the stacks that have one of these frames.
    """
    ends_there = frames[model.trace.stack_frame]
    holds = model.seen.holds
    mine = np.flatnonzero(holds.thread == actor.thread)
    ran_ns = (holds.length_ns - holds.off_core_ns)[mine].astype(np.int64)
    stack, forced = holds.stack[mine], holds.forced[mine]
    in_line = np.where(forced, inside[stack], ends_there[stack] & (stack > 0))
    bursts = model.seen.bursts[actor.thread]
    sampled = float(ran_ns[forced].sum())
    usual = float(ran_ns[forced & in_line].sum()) / sampled if sampled else 0.0

    def of_bursts(values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sum over each burst's holds."""
        sums = np.append(0, np.cumsum(values))
        of_each: NDArray[np.int64] = sums[bursts.first_hold + bursts.holds] - sums[bursts.first_hold]
        return of_each

    total, known = of_bursts(ran_ns), of_bursts(np.where(in_line, ran_ns, 0))
    told = (total > 0) & ((known > 0) | (of_bursts(forced.astype(np.int64)) > 0))
    shares: NDArray[np.float64] = np.where(told, known / np.maximum(total, 1), usual)
    return shares, told


def seldom_sampled(model: Model, change: Change) -> Iterator[str]:
    """Yield for which roles few preempted holds tell how much of the other holds is spent in a line that is shortened."""
    forced = model.seen.holds.forced
    for one in change.shorten:
        frames = matches(model, one)
        sampled = np.unique(model.seen.holds.stack[forced])
        inside = np.zeros(len(model.trace.stack_frame), dtype=bool)
        wanted = {frame for frame, found in zip(model.trace.frames, frames.tolist(), strict=True) if found}
        inside[sampled] = [not wanted.isdisjoint(model.trace.stack(stack)) for stack in sampled.tolist()]
        for role in model.roles:
            samples, guessed_ns, whole_ns = 0, 0.0, 0.0
            for actor in members(model, NOTHING, role):
                shares, told = _line_shares(model, actor, frames, inside)
                of_line_ns = shares * model.seen.bursts[actor.thread].run_ns
                samples += int(np.count_nonzero(forced & (model.seen.holds.thread == actor.thread)))
                guessed_ns += float(of_line_ns[~told].sum())
                whole_ns += float(of_line_ns.sum())
            if samples < SEVERAL and guessed_ns >= _GUESSED * whole_ns > 0:
                yield (
                    f"how much of its time with the GIL {role} spends in {printable(one.filename)}:{one.line} is known from "
                    f"{number(samples, 'preempted hold')} only"
                )


def _stacks_with(model: Model, frames: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return a mask of the stacks that have one of the frames."""
    found = frames[model.trace.stack_frame].copy()
    found[0] = False
    for stack, parent in enumerate(model.trace.stack_parent.tolist()):
        found[stack] |= parent > 0 and found[parent]
    return found


def _operations(model: Model, shorten: tuple[Shorten, ...]) -> dict[int, NDArray[np.void]]:
    """Return each thread's operations, with the holds of some lines multiplied.

    Raises:
        ScenarioError: A line is not in the trace.
    """
    found = {actor.thread: actor.ops for actor in model.actors}
    for one in shorten:
        frames = matches(model, one)
        inside = _stacks_with(model, frames)
        shares = {actor.thread: _line_shares(model, actor, frames, inside)[0] for actor in model.actors}
        if not any(share.any() for share in shares.values()):
            raise ScenarioError(
                f"no thread of the trace was seen at {one.filename}:{one.line}: no hold of the GIL ended, or was preempted, there",
                hint=f"{_known_lines(model)}a hold counts for the line at which it ends, so give that line for one that ran before it",
            )
        for thread, share in shares.items():
            found[thread] = _shortened(found[thread], share, one.factor)
    return found


def _known_lines(model: Model) -> str:
    """Return the lines of which a shorter hold can be replayed, those with the longest holds first."""
    held_ns: Counter[int] = Counter()
    for actor in model.actors:
        if len(model.seen.bursts[actor.thread]):
            holds = model.seen.holds.chosen(model.seen.holds.thread == actor.thread)
            frames = model.trace.stack_frame[holds.stack]
            for frame in np.unique(frames):
                held_ns[int(frame)] += int(holds.length_ns[frames == frame].sum())
    lines = dict.fromkeys(
        f"{printable(frame.filename)}:{frame.line}"
        for index, _ in held_ns.most_common()
        for frame in (model.trace.frames[index],)
        if frame.filename and frame.line
    )
    return f"lines with known holds: {listed(list(lines))}; " if lines else ""


def _shortened(ops: NDArray[np.void], shares: NDArray[np.float64], by: float) -> NDArray[np.void]:
    of_burst = np.flatnonzero((ops["kind"] == OpKind.HOLD) & (ops["reserved"] > 0))
    if shares.any() and len(of_burst):
        ops = ops.copy()
        factor = 1 - (1 - by) * shares[ops["reserved"][of_burst] - 1]
        ops["value"][of_burst] = np.maximum(1, ops["value"][of_burst] * factor).astype(np.int64)
    return ops
