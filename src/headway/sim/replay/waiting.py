"""Tells where the model of threads that wait for each other does not hold with a change, and what waits a change ends.

A trace shows which thread woke which, and the model repeats it with semaphores. That is right for a queue: a
consumer waits until the producer has worked for as long as in the trace. A lock has no such order: how often threads
meet at it depends on when they hold it, and the model only repeats it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from headway.errors import ScenarioError
from headway.native_sim import OpKind
from headway.sim.replay.change import NOTHING, Change, left_out, members, role_named
from headway.sim.replay.learn import Actor, Model
from headway.sim.replay.locks import lock_lines
from headway.traces.analysis.words import listed
from headway.traces.libraries import Awaited, awaited_in

__all__ = ["limits", "provided", "without_lost_waits"]

_WAITS_SHARE = 0.05
"""A role that waits at a line for less than this share of its threads' time is hardly moved by what happens there."""
_COMPUTING = (OpKind.HOLD, OpKind.POST, OpKind.COMPUTE)
"""The operations of a thread that only computes with the GIL: if it shares a lock, the GIL already keeps it alone."""


def without_lost_waits(model: Model, change: Change) -> Model:
    """Return the model in which no thread waits for a lock that only threads of a role that is left out released.

    Raises:
        ScenarioError: Threads wait for some of a role that has fewer threads, so they would wait for ever.
    """
    here = [one for role in model.roles for one in members(model, change, role)]
    kept = {one.thread for one in here}
    absent = [one for one in model.actors if one.thread not in kept]
    if not absent or not model.semaphores:
        return model
    gone = left_out(model, change)
    fewer = dict.fromkeys(one.role for one in absent if one.role not in gone)
    given_up = _semaphores((one for one in absent if one.role in fewer), OpKind.POST)
    waiting = dict.fromkeys(one.role for one in here if _semaphores([one], OpKind.TAKE) & given_up)
    if waiting:
        raise ScenarioError(
            f"{change}: {listed(list(waiting))} waited in the trace for threads of {listed(list(fewer))} that the change leaves"
            " out, and the model knows only which thread woke which",
            hint="record the program with that number of threads",
        )
    lost = _lost(model, gone)
    if not lost:
        return model
    lines = lock_lines(model.trace, model.kinds)
    actors = tuple(replace(one, ops=_free(one, lost, lines)) if one.thread in kept else one for one in model.actors)
    return replace(model, actors=actors)


def limits(model: Model, change: Change) -> Iterator[str]:
    """Yield what the model does not know of threads that wait for each other, where a change matters to that."""
    changed = {role_named(model, name) for name, _ in change.threads}
    without = left_out(model, change)
    kinds = {role: _kinds_of(model, role) for role in model.roles}
    unknown = [role for role in model.roles if OpKind.BLOCK in kinds[role] and role not in without]
    if changed and (model.semaphores or any(OpKind.BLOCK in kinds[role] for role in changed)):
        yield (
            "the model assumes that more or fewer threads share the work as in the trace; threads that take turns at a lock"
            " or a pool do not"
        )
        yield from _paced(model, change, changed)
    else:
        yield from _unseen(model, change, changed, kinds)
    if change != NOTHING:
        yield from _at_locks(model, without)
    if unknown and (without or not change.gil):
        yield (
            f"the model does not know what {listed(unknown)} wait for outside the GIL, and keeps these waits as they were: if "
            "they wait for other threads of the program, their turns are those of these threads"
        )


def provided(model: Model, change: Change) -> str:
    """Return the condition on which more threads get more done, if their time away from the GIL matters; "" if it does not.

    The model has that time of all threads beside each other. A server, a pool or a limit may have it in turns.
    """
    changed = {role_named(model, name) for name, _ in change.threads}
    more = [
        f"the {len(members(model, change, one))} threads of {one}"
        for one in _grown(model, change, changed)
        if _is_away(model, one)
    ]
    return f"provided that what {listed(more)} wait for serves them all at the same time" if more else ""


def _is_away(model: Model, role: str) -> bool:
    """Tell whether threads of a role are away from the GIL for a share of their time that matters."""
    actors = [one for one in model.actors if one.role == role]
    away_ns = (model.seen.bursts[one.thread].away_ns for one in actors)
    return sum(int(one[one > 0].sum()) for one in away_ns) >= _least_ns(model, actors)


def _least_ns(model: Model, actors: Collection[Actor]) -> float:
    return _WAITS_SHARE * len(actors) * (model.seen.until_ns - model.seen.since_ns)


def _paced(model: Model, change: Change, changed: Collection[str]) -> Iterator[str]:
    """Yield that threads of another number still wait for others, and others for them, as often as in the trace."""
    lines, more = lock_lines(model.trace, model.kinds), _grown(model, change, changed)
    for role in model.roles:
        if role in changed:
            actors = [one for one in model.actors if one.role == role]
            taken = _semaphores(actors, OpKind.TAKE)
            posted = {one.role for one in model.actors if _semaphores([one], OpKind.POST) & taken} - set(changed)
            if posted:
                yield (
                    f"{role} waits for {listed(sorted(posted))}, whose pace the model keeps as in the trace: if that depends on the number of"
                    f" threads of {role}, as that of a batch does, the rate may change where the prediction does not"
                )
            given = _semaphores(actors, OpKind.POST)
            fed = [one for one in model.roles if one not in changed and _takes_at(model, one, given) - lines.keys()]
            if fed and role in more:
                several = len(fed) > 1
                yield (
                    f"{listed(fed)} {'wait' if several else 'waits'} for {role}, and {'go' if several else 'goes'} on in the model as"
                    f" often as in the trace: more threads of {role} may give more work than that, or may not get the work that the"
                    " prediction has"
                )


def _unseen(model: Model, change: Change, changed: Collection[str], kinds: Mapping[str, set[int]]) -> Iterator[str]:
    """Yield that more threads may wait for what no thread of the trace had to wait for."""
    more = [role for role in _grown(model, change, changed) if not kinds[role].issubset(_COMPUTING)]
    if more:
        yield (
            f"the model does not contain a lock, or a pool, that no thread waited for in the trace: more threads of {listed(more)}"
            " may wait there"
        )


def _grown(model: Model, change: Change, changed: Collection[str]) -> list[str]:
    """Return the roles that get more threads."""
    return [
        role
        for role in model.roles
        if role in changed and len(members(model, change, role)) > sum(one.role == role for one in model.actors)
    ]


def _at_locks(model: Model, without: Collection[str]) -> Iterator[str]:
    """Yield what is not known of locks and of queues with a change."""
    lines = lock_lines(model.trace, model.kinds)
    for role in model.roles:
        if role not in without:
            often = _often_at(model, role, lines)
            if often:
                yield (
                    f"how often {role} waits for the lock or semaphore at {listed(often)} is as in the trace: the model does not know"
                    " when that is free"
                )
    for role in without:
        posted = _given(model, role)
        fed, freed = [], []
        for other in model.roles:
            if other not in without:
                stacks = _takes_at(model, other, posted)
                fed += [other] if stacks - lines.keys() else []
                freed += [other] if stacks & lines.keys() else []
        if fed:
            yield f"{listed(fed)} waited for {role} in the trace: without it, they may have nothing to do"
        served, all_served = _served(model, role, {*without, *fed}, lines)
        if served:
            yield (
                f"{role} waited for {listed(served)} in the trace: without it, {listed(all_served)} may stop at an empty or a full queue,"
                " where the model goes on"
            )
        if freed:
            yield (
                f"{listed(freed)} waited for a lock or semaphore that {role} released: without it, the model leaves these waits out, though"
                " others may hold it then"
            )


def _served(model: Model, role: str, known: Collection[str], lines: Mapping[int, str]) -> tuple[list[str], list[str]]:
    """Return the roles for which a role waited, as for room in a queue, and these with the ones that wait for them in turn.

    Left out are the `known` roles, waits for locks, and waits for a thread's end, before which that has no more to do.
    """
    ends = {one for one in model.kinds if any(awaited_in(at) is Awaited.THREAD for at in model.trace.stack(one))}
    elsewhere = {*lines, *ends}
    served = [
        other
        for other in model.roles
        if other not in known and _takes_at(model, role, _given(model, other)) - elsewhere
    ]
    found = list(served)
    for one in found:  # grows
        given = _given(model, one)
        found += [
            other
            for other in model.roles
            if other not in (*known, *found) and _takes_at(model, other, given) - elsewhere
        ]
    return served, found


def _given(model: Model, role: str) -> set[int]:
    """Return the wake-ups that a role gives."""
    return _semaphores((one for one in model.actors if one.role == role), OpKind.POST)


def _often_at(model: Model, role: str, lines: Mapping[int, str]) -> list[str]:
    """Return the lines at which a role waits for a lock for much of its time."""
    actors = [one for one in model.actors if one.role == role]
    waited_ns: dict[str, int] = {}
    for actor in actors:
        bursts = model.seen.bursts[actor.thread]
        waits = np.isin(actor.ops["kind"], (OpKind.TAKE, OpKind.BLOCK))
        for stack in np.unique(actor.ops["where"][waits]).tolist():
            if stack in lines:
                away_ns = bursts.away_ns[bursts.stack == stack]
                waited_ns[lines[stack]] = waited_ns.get(lines[stack], 0) + int(away_ns[away_ns > 0].sum())
    return [line for line, one_ns in waited_ns.items() if one_ns >= _least_ns(model, actors)]


def _lost(model: Model, gone: Collection[str]) -> set[int]:
    """Return the wake-ups that only roles that are left out give."""
    return _semaphores((one for one in model.actors if one.role in gone), OpKind.POST)


def _free(actor: Actor, lost: Collection[int], lines: Mapping[int, str]) -> NDArray[np.void]:
    """Return a thread's operations without its waits for locks that nobody releases any more: it finds them free."""
    ops = actor.ops
    is_lost = (ops["kind"] == OpKind.TAKE) & np.isin(ops["index"], list(lost)) & np.isin(ops["where"], list(lines))
    return ops[~is_lost] if is_lost.any() else ops


def _kinds_of(model: Model, role: str) -> set[int]:
    return {int(kind) for one in model.actors if one.role == role for kind in np.unique(one.ops["kind"])}


def _semaphores(actors: Iterable[Actor], kind: OpKind) -> set[int]:
    return {int(index) for one in actors for index in np.unique(one.ops["index"][one.ops["kind"] == kind])}


def _takes_at(model: Model, role: str, posted: Collection[int]) -> set[int]:
    """Return the stacks at which a role takes some of these wake-ups."""
    found: set[int] = set()
    for one in model.actors:
        if one.role == role:
            taken = (one.ops["kind"] == OpKind.TAKE) & np.isin(one.ops["index"], list(posted))
            found |= {int(stack) for stack in np.unique(one.ops["where"][taken])}
    return found
