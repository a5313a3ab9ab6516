"""Predicts what a change would give a program that was traced, by replaying the trace with and without the change.

A predicted figure is the trace's own figure, multiplied by the change's effect in the replay. Errors that the replay
makes both with and without the change therefore cancel out. If the replay without a change is far from the trace, the
model lacks something, and the prediction says so.
"""

import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from headway.errors import HeadwayError, ScenarioError
from headway.native_sim import OpKind, Simulation, Spec
from headway.sim.machine import Costs
from headway.sim.replay.change import (
    MOST_PROCESSES,
    NOTHING,
    Change,
    Shorten,
    becoming_processes,
    left_out,
    members,
    role_named,
    specify,
)
from headway.sim.replay.fit import model_of
from headway.sim.replay.learn import Actor, Measured, Model
from headway.sim.replay.refused import refused
from headway.sim.result import percentile
from headway.traces.analysis.words import listed
from headway.traces.model import Trace

__all__ = ["WORTH", "Prediction", "Ranked", "RolePrediction", "Span", "cores_of", "predict", "rank", "remedies"]

WORTH = 0.05
"""The least worth of a useful change; a change with a worth below the negative of this does harm."""

_LEAST_NS = 100_000_000
"""The least length of the part of a trace that is replayed, in nanoseconds: twenty switch intervals."""
_SPAN_NS = 1_000_000_000
"""The virtual time that is replayed."""
_MOST_STEPS = 3_000_000
"""The number of simulator steps after which a run is long enough."""
_PARTS = 20
_SLACK, _SLACK_MOVED, _SLACK_OFF = 0.1, 0.3, 0.5
"""The parts of the least distance, in logarithms, from a figure to each end of its interval.

`_SLACK` counts always, `_SLACK_MOVED` in proportion to how far the change moves the program (up to a factor of ten),
and `_SLACK_OFF` multiplies the error of the replay without a change. They are chosen so that about 80 % of 66 measured
cells were inside their intervals. Of 81 cells that were measured afterwards, 86 % were (docs/concepts/predictions.md).
"""
_MOVED = math.log(10)
_Z_80 = 1.28
"""This many standard errors on both sides hold 80 %."""
_NEAR = 0.25
"""The largest error, as a logarithm, of a replay that comes near the trace."""
_FAR = 0.25
"""A replay with a larger error does not reproduce the trace."""
_TELLING = 50
"""A role with fewer turns in the trace does not show the quality of the replay."""
_LEAST_TURNS = {"p50_ns": 10, "p99_ns": 300}


@final
@dataclass(frozen=True)
class Span:
    """A predicted figure with its 80 % interval."""

    value: float
    low: float
    high: float


@final
@dataclass(frozen=True)
class RolePrediction:
    """The effect of a change on one role.

    Attributes:
        role: The name of the role.
        measured: The role's figures in the trace.
        turns_per_s, p50_ns, p99_ns, run_share: The predicted figures; None if there is too little data.
        identity: For each figure, its value in the replay without a change, divided by its value in the trace.
    """

    role: str
    measured: Measured
    turns_per_s: Span | None
    p50_ns: Span | None
    p99_ns: Span | None
    run_share: Span | None
    identity: dict[str, float]


@final
@dataclass(frozen=True)
class Prediction:
    """The prediction for one change.

    Attributes:
        change: The change.
        roles: The predictions for each role that the change does not leave out.
        rests_on: The assumptions of the model that matter with the change, a sentence each.
        outside: The reasons why the prediction may be wrong beyond its intervals; empty if none is known.
    """

    change: Change
    roles: tuple[RolePrediction, ...]
    rests_on: tuple[str, ...]
    outside: tuple[str, ...]


@final
@dataclass(frozen=True)
class Ranked:
    """A change and its worth; a worth above 0 means that the change makes the program better.

    Attributes:
        prediction: The prediction.
        worth: Gains and losses together, as a sum of logarithms.
        outside: The reasons of `prediction.outside` that are this change's own.
        outside_all: The reasons that are those of every change, such as an error of the replay itself.
    """

    prediction: Prediction
    worth: float
    outside: tuple[str, ...]
    outside_all: tuple[str, ...]


_ByRole = dict[str, dict[str, float]]
"""The figures of one run, by role and then by name."""

_WITH_THE_GIL = (OpKind.HOLD, OpKind.POST, OpKind.COMPUTE)
"""The operations that do not end a turn. (A part of a call that goes on counts as a turn here: a bound may be higher.)"""

_FIGURES = ("turns_per_s", "p50_ns", "p99_ns", "run_share")


def cores_of(trace: Trace) -> int:
    """Return the number of cores that a traced program ran on; if unknown, the number that this process may use."""
    return trace.process.core_count or len(os.sched_getaffinity(0))


def _run(spec: Spec, names: Sequence[str], most_steps: int) -> _ByRole:
    with Simulation(spec) as simulation:
        until_ns = spec.end_ns
        for part in range(2, _PARTS + 1):
            until_ns = spec.end_ns * part // _PARTS
            simulation.run(until_ns)
            if until_ns > spec.warm_ns and simulation.steps() > most_steps:  # the warm-up has no figures
                break
        elapsed_ns = until_ns - spec.warm_ns
        figures: _ByRole = {}
        for role in dict.fromkeys(names):
            indices = [index for index, name in enumerate(names) if name == role]
            results = [simulation.role_result(index) for index in indices]
            turns = np.sort(np.concatenate([simulation.latencies_ns(index) for index in indices]))
            figures[role] = {
                "turns_per_s": sum(one.done for one in results) / (elapsed_ns / 1e9),
                "run_share": sum(one.computed_ns - one.ran_ns for one in results) / elapsed_ns,
            }
            for name, point in (("p50_ns", 0.5), ("p99_ns", 0.99)):
                value = percentile(turns, point, _LEAST_TURNS[name])
                if value is not None:
                    figures[role][name] = value
    return figures


def _span(measured: float | None, before: Sequence[float], after: Sequence[float], spread: float) -> Span | None:
    """Return a figure with a change.

    The interval covers the differences between seeds, how far the change moves the program, the error of the replay
    without the change, and `spread`, the trace's own standard error as a share.

    The replay's error is subtracted, and the less so the further the change moves the program. A change of nothing
    therefore gives the trace's own figure, and a change that turns a convoy into a server gives a simulated one. If the
    replay does not come near the trace, as for the median of times that are either short or long, the simulated figure
    stands as soon as the change moves the program further than the replay is off.
    """
    if not measured or not before or not after or min(before) <= 0:
        return None
    base = statistics.median(before)
    error = math.log(base / measured)
    far = statistics.median(after)
    moved = abs(math.log(far / base)) if far > 0 else _MOVED
    part = 1 / (1 + moved) if abs(error) < _NEAR else max(0.0, 1 - moved / abs(error))
    scale = math.exp(-error * part)
    values = [value * scale for value in after]
    wider = max(_SLACK, _Z_80 * spread) + _SLACK_MOVED * min(1.0, moved / _MOVED) + _SLACK_OFF * min(1.0, abs(error))
    return Span(statistics.median(values), min(values) / math.exp(wider), max(values) * math.exp(wider))


def _figures(runs: Sequence[_ByRole], role: str, name: str) -> list[float]:
    return [run[role][name] for run in runs if name in run.get(role, {})]


def _identity(measured: Measured, runs: Sequence[_ByRole], role: str) -> dict[str, float]:
    found = {}
    for name in _FIGURES:
        seen, got = getattr(measured, name), _figures(runs, role, name)
        if seen and got:
            found[name] = statistics.median(got) / seen
    return found


def _at_most(span: Span | None, most: float) -> Span | None:
    return None if span is None else Span(*(min(most, one) for one in (span.value, span.low, span.high)))


def _most_turns_per_s(actors: Sequence[Actor]) -> float:
    """Return how many turns threads can have, since they sleep between these."""
    most = 0.0
    for actor in actors:
        kinds = actor.ops["kind"]
        asleep_ns = int(actor.ops["value"][kinds == OpKind.SLEEP].sum())
        most += int(np.count_nonzero(~np.isin(kinds, _WITH_THE_GIL))) * 1e9 / asleep_ns if asleep_ns else math.inf
    return most


def _role(
    model: Model, change: Change, role: str, before: Sequence[_ByRole], after: Sequence[_ByRole], cores: int
) -> RolePrediction:
    measured = model.measured[role]
    spans = {
        name: _span(
            getattr(measured, name), _figures(before, role, name), _figures(after, role, name), measured.turns_error
        )
        for name in _FIGURES
    }
    p50, p99 = spans["p50_ns"], spans["p99_ns"]
    if p50 is not None and p99 is not None and p99.value < p50.value:
        spans["p99_ns"] = Span(p50.value, min(p50.value, p99.low), max(p50.value, p99.high))
    actors = members(model, change, role)
    one_gil = change.gil and not change.processes  # no role can have more than all of a GIL
    spans["run_share"] = _at_most(spans["run_share"], min(len(actors), 1 if one_gil else change.cores or cores))
    spans["turns_per_s"] = _at_most(spans["turns_per_s"], _most_turns_per_s(actors))
    return RolePrediction(role=role, measured=measured, identity=_identity(measured, before, role), **spans)


def _rests_on(model: Model, change: Change) -> tuple[str, ...]:
    """Return the model's assumptions, without those about roles that are left out, or about a GIL that is removed."""
    absent = left_out(model, change)
    held = (one for one in model.rests_on if one.role not in absent and (change.gil or not one.of_gil))
    return tuple(dict.fromkeys(one.text for one in held))


def _limits(model: Model, change: Change, roles: Sequence[RolePrediction], costs: Costs) -> tuple[str, ...]:
    found = list(model.outside)
    for one in roles:
        off = one.identity.get("turns_per_s")
        if off is not None and one.measured.turns >= _TELLING and abs(math.log(max(off, 1e-9))) > math.log(1 + _FAR):
            found.append(
                f"replayed without a change, {one.role} has {off:.2f} of the turns in the trace, so the model lacks something"
            )
        if one.turns_per_s is not None and one.turns_per_s.value <= 0 and one.measured.turns >= _TELLING:
            found.append(
                f"with the change, {one.role} has no turn at all: it starves, or waits for something outside the model"
            )
    if change.processes:
        found.append("the model does not include the cost of passing arguments and results between processes")
    if not change.gil:
        found.append(
            f"no free-threaded interpreter was measured: without a GIL, Python code is assumed to take"
            f" {costs.known_slow_down:.0%} longer for each further thread"
            if costs.slow_down is None
            else "the cost of shared objects without a GIL comes from the calibration, not from this program"
        )
    found += _limits_of_waiting(model, change)
    return tuple(found)


def _limits_of_waiting(model: Model, change: Change) -> Iterator[str]:
    """Yield what the model does not know of threads that wait for each other, where a change matters to that."""
    changed = {role_named(model, name) for name, _ in change.threads}
    without = left_out(model, change)
    kinds = {role: _kinds_of(model, role) for role in model.roles}
    unknown = [role for role in model.roles if OpKind.BLOCK in kinds[role] and role not in without]
    if changed and (model.semaphores or any(OpKind.BLOCK in kinds[role] for role in changed)):
        yield "the model assumes that more or fewer threads share the work as in the trace"
    for role in without:
        posted = _semaphores(model, role, OpKind.POST)
        fed = [one for one in model.roles if one not in without and posted & _semaphores(model, one, OpKind.TAKE)]
        if fed:
            yield f"{listed(fed)} waited for {role} in the trace: without it, they may have nothing to do"
    if unknown and (without or not change.gil):
        yield (
            f"the model does not know what {listed(unknown)} wait for outside the GIL, and keeps these waits as they were: if "
            "they wait for other threads of the program, their turns are those of these threads"
        )


def _kinds_of(model: Model, role: str) -> set[int]:
    return {int(kind) for one in model.actors if one.role == role for kind in np.unique(one.ops["kind"])}


def _semaphores(model: Model, role: str, kind: OpKind) -> set[int]:
    ops = [one.ops for one in model.actors if one.role == role]
    return {int(index) for one in ops for index in np.unique(one["index"][one["kind"] == kind])}


def predict(
    model: Model,
    changes: Sequence[Change],
    costs: Costs,
    *,
    cores: int,
    seeds: int = 5,
    progress: Callable[[int, int], None] = lambda done, total: None,
    most_steps: int = _MOST_STEPS,
) -> list[Prediction]:
    """Return a prediction for each change.

    Args:
        model: The program, learned from its trace.
        changes: The changes.
        costs: The costs of the machine.
        cores: The number of cores that the program ran on.
        seeds: The number of runs for each change, and for none.
        progress: Called with the number of runs done, and the total number.
        most_steps: The number of simulator steps after which a run is long enough.

    Raises:
        ScenarioError: A change names something that the trace does not have, the trace is too short, or the replay comes
            to a stop.
    """
    length_ns = model.seen.until_ns - model.seen.since_ns
    if length_ns < _LEAST_NS:
        raise refused(model.trace, length_ns)
    done = 0
    total = seeds * (1 + sum(change != NOTHING for change in changes))

    def runs(change: Change) -> list[_ByRole]:
        nonlocal done
        found = []
        spec, names = specify(model, change, costs, 1, _SPAN_NS, cores=cores)
        for seed in range(1, seeds + 1):
            try:
                found.append(_run(replace(spec, seed=seed), names, most_steps))
            except ScenarioError as error:
                if not change.without:
                    raise
                raise ScenarioError(
                    f"{change}: the threads that are left cannot go on: {error}",
                    hint="they wait for a role that the change leaves out; leave them out, too, or keep that role",
                ) from error
            done += 1
            progress(done, total)
        return found

    before = runs(NOTHING)
    predictions = []
    for change in changes:
        after = before if change == NOTHING else runs(change)
        roles = tuple(_role(model, change, role, before, after, cores) for role in model.roles)
        limits = _limits(model, change, roles, costs)
        absent = left_out(model, change)
        shown = tuple(one for one in roles if one.role not in absent)
        predictions.append(Prediction(change, shown, _rests_on(model, change), limits))
    return predictions


# ---------------------------------------------------------------------------- ranking
def _candidates(model: Model) -> list[Change]:
    """Return the changes that a user could make without knowing the program."""
    found = [] if model.trace.process.policy else [Change(policy="fair")]
    if model.seen.interval_ns > 1_000_000:
        found.append(Change(interval_ns=500_000))
    processes = Change(processes=True)
    if 0 < sum(becoming_processes(model, processes).values()) <= MOST_PROCESSES and len(model.actors) > 1:
        found.append(processes)
    if len(model.actors) > 1:
        found.append(Change(gil=False))
    hog = _longest_line(model)
    if hog is not None:
        found.append(Change(shorten=(hog,)))
    return found


def _longest_line(model: Model) -> Shorten | None:
    """Return a change that halves the holds of the line where threads that yield often were preempted longest."""
    holds = model.seen.holds
    counted = holds.forced & np.isin(
        holds.thread, [thread for thread, bursts in model.seen.bursts.items() if len(bursts) >= _TELLING]
    )
    totals = np.bincount(holds.stack[counted], weights=holds.length_ns[counted], minlength=1)
    totals[0] = 0
    if not totals.any():
        return None
    frame = model.trace.frames[model.trace.stack_frame[int(totals.argmax())]]
    return Shorten(frame.filename, frame.line, 0.5) if frame.filename and frame.line else None


_MOST_GAIN = 6.0
"""The largest gain that counts for one role, as a logarithm: 400 times as many turns are enough."""


def _worth(prediction: Prediction) -> float:
    """Return the worth of a change: gains of rates and of waits, and losses of computing, as logarithms."""
    worth = 0.0
    for one in prediction.roles:
        counted = one.turns_per_s is not None and one.measured.turns_per_s > 1
        if one.turns_per_s is not None and counted:
            worth += min(_MOST_GAIN, math.log(max(one.turns_per_s.value, 1e-9) / one.measured.turns_per_s))
        if one.p99_ns is not None and one.measured.p99_ns:
            worth += 0.5 * min(5.0, math.log(one.measured.p99_ns / max(one.p99_ns.value, 1.0)))
        if not counted and one.run_share is not None and one.measured.run_share > 0.05:
            worth += math.log(max(one.run_share.value, 1e-6) / one.measured.run_share)
    return worth


def rank(
    model: Model,
    costs: Costs,
    *,
    cores: int,
    seeds: int = 3,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Ranked]:
    """Return predictions for the changes that a user could make, the best one first.

    A change that helps comes before those with more of their own outside the model, whose predictions are less sure.
    """
    predictions = predict(model, _candidates(model), costs, cores=cores, seeds=seeds, progress=progress)
    return sorted(_ranked(predictions), key=_place)


def _ranked(predictions: Sequence[Prediction]) -> Iterator[Ranked]:
    if not predictions:
        return
    of_all = tuple(text for text in predictions[0].outside if all(text in one.outside for one in predictions))
    for one in predictions:
        yield Ranked(one, _worth(one), tuple(text for text in one.outside if text not in of_all), of_all)


def _place(one: Ranked) -> tuple[int, float]:
    group = 2 if one.worth <= WORTH else bool(one.outside)
    return group, -one.worth


# ---------------------------------------------------------------------------- for a report
_REPORT_STEPS = 200_000
_REPORT_SEEDS = 5
_REPORT_EVENTS = 2_000_000
"""A report has no prediction for a longer trace, because learning from it takes too long."""


class _OutOfTimeError(Exception):
    """The time that a report may take is over."""


def remedies(trace: Trace, costs: Costs, *, cores: int, most_s: float) -> list[Ranked]:
    """Return the changes that would help a traced program, the best first; only those that are inside the model.

    The function is for a report: it takes little time, and returns [] if there is no prediction or if one would take
    too long.

    Args:
        trace: The trace of one process.
        costs: The costs of the machine.
        cores: The number of cores that the program ran on.
        most_s: The time that the function may take, in seconds.
    """
    end_s = time.perf_counter() + most_s

    def wait_no_longer(*_: int) -> None:
        if time.perf_counter() > end_s:
            raise _OutOfTimeError

    if len(trace.events) > _REPORT_EVENTS:
        return []
    try:
        model = model_of(trace, costs, cores=cores)
        wait_no_longer()
        # Changes to processes, and to threads without a GIL, always have something outside the model.
        changes = [] if model.outside else [one for one in _candidates(model) if one.gil and not one.processes]
        if not changes:
            return []
        predictions = predict(
            model,
            changes,
            costs,
            cores=cores,
            seeds=_REPORT_SEEDS,
            progress=wait_no_longer,
            most_steps=_REPORT_STEPS,
        )
    except (_OutOfTimeError, HeadwayError):
        return []
    inside = [one for one in predictions if not one.outside]
    return sorted((one for one in _ranked(inside) if one.worth > WORTH), key=_place) if inside else []
