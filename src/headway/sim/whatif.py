"""Predicts what a change would give a program that was traced, by replaying the trace with and without the change.

A predicted figure is the trace's own figure, multiplied by the change's effect in the replay. Errors that the replay
makes both with and without the change therefore cancel out. If the replay without a change is far from the trace, the
model lacks something, and the prediction says so.
"""

import math
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from headway.errors import ScenarioError
from headway.native_sim import OpKind, Simulation, Spec
from headway.sim.machine import PRESET, Costs
from headway.sim.replay import waiting
from headway.sim.replay.answers import with_quick_answers
from headway.sim.replay.begun import begun_elsewhere
from headway.sim.replay.change import (
    NOTHING,
    Change,
    left_out,
    members,
    seldom_sampled,
    specify,
    with_own,
)
from headway.sim.replay.incomplete import incomplete
from headway.sim.replay.learn import Actor, Model
from headway.sim.replay.measured import Measured
from headway.sim.replay.others import MUCH
from headway.sim.replay.refused import refused
from headway.sim.result import percentile
from headway.traces.analysis.words import duration, listed, share
from headway.traces.model import Trace

__all__ = ["COMPUTES", "FAR", "TELLING", "Prediction", "RolePrediction", "Span", "cores_of", "predict", "predicting"]

_LEAST_NS = 100_000_000
"""The least length of the part of a trace that is replayed, in nanoseconds: twenty switch intervals."""
_LEAST_SPAN_NS = 1_000_000_000
"""The least virtual time of a run without a limit. A longer window is replayed in full, since its parts may differ."""
_MOST_STEPS = 3_000_000
"""The number of simulator steps after which a run is long enough."""
_PARTS = 20
"""A run's steps are counted after each of so many parts of it, from the second on."""
_SOME_TURNS = 5
"""If a role has fewer turns in the part of its trace that is replayed, a run without any is no sign that it starves."""
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
FAR = 0.25
"""A replay with a larger error does not reproduce the trace."""
_FAR_RUN = 0.5
"""The same for the time that a CPU-bound role computes, which is less exact: other programs take the cores, too."""
COMPUTES = 0.3
"""A role that holds the GIL for a larger share of the time shows by what it computes the quality of the replay."""
TELLING = 50
"""A role with fewer turns in the trace does not show the quality of the replay, or the worth of a change."""
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
        provided: The condition without which the prediction is of another program; "" if there is none.
    """

    change: Change
    roles: tuple[RolePrediction, ...]
    rests_on: tuple[str, ...]
    outside: tuple[str, ...]
    provided: str = ""


_ByRole = dict[str, dict[str, float]]
"""The figures of one run, by role and then by name."""

_WITH_THE_GIL = (OpKind.HOLD, OpKind.POST, OpKind.COMPUTE)
"""The operations that do not end a turn. (A part of a call that goes on counts as a turn here: a bound may be higher.)"""

_FIGURES = ("turns_per_s", "p50_ns", "p99_ns", "run_share")
_RAN_AND_HELD = ("run_share", "held_share")


def cores_of(trace: Trace) -> int:
    """Return the number of cores that a traced program ran on; if unknown, the number that this process may use."""
    return trace.process.core_count or len(os.sched_getaffinity(0))


def _run(spec: Spec, names: Sequence[str], most_steps: float) -> tuple[_ByRole, int]:
    """Return the figures of a run, and its end: an earlier one than the specification's if it has more steps by then."""
    with Simulation(spec) as simulation:
        until_ns = spec.end_ns
        for part in range(2, _PARTS + 1):
            until_ns = spec.end_ns * part // _PARTS
            simulation.run(until_ns)
            if until_ns >= _LEAST_NS and simulation.steps() > most_steps:
                break
        if until_ns < spec.end_ns:
            return {}, until_ns
        elapsed_ns = until_ns - spec.warm_ns  # the warm-up has no figures
        figures: _ByRole = {}
        for role in dict.fromkeys(names):
            indices = [index for index, name in enumerate(names) if name == role]
            results = [simulation.role_result(index) for index in indices]
            turns = np.sort(np.concatenate([simulation.latencies_ns(index) for index in indices]))
            figures[role] = {
                "turns_per_s": sum(one.done for one in results) / (elapsed_ns / 1e9),
                "run_share": sum(one.computed_ns - one.ran_ns for one in results) / elapsed_ns,
                "held_share": sum(one.held_ns for one in results) / elapsed_ns,
            }
            for name, point in (("p50_ns", 0.5), ("p99_ns", 0.99)):
                value = percentile(turns, point, _LEAST_TURNS[name])
                if value is not None:
                    figures[role][name] = value
    return figures, until_ns


def _run_of(change: Change, spec: Spec, names: Sequence[str], most_steps: float) -> tuple[_ByRole, int]:
    """Run a specification of a change, and tell of the change if a run without some threads comes to a stop."""
    try:
        return _run(spec, names, most_steps)
    except ScenarioError as error:
        if not change.without:
            raise
        raise ScenarioError(
            f"{change}: the threads that are left cannot go on: {error}",
            hint="they wait for a role that the change leaves out, and the model knows only which thread woke which: leave them"
            " out, too, or keep that role",
        ) from error


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
    model: Model,
    change: Change,
    role: str,
    before: Sequence[_ByRole],
    after: Sequence[_ByRole],
    cores: int,
    cut_ns: int,
    *,
    is_busy: bool,
) -> RolePrediction:
    """Return the prediction for a role from runs that were cut to a virtual time; 0: they were not cut.

    `is_busy` tells that threads held the GIL without a core for much of the time, for reasons that the model lacks.
    """
    measured = model.measured[role]
    spans = {
        name: _span(
            getattr(measured, name), _figures(before, role, name), _figures(after, role, name), measured.turns_error
        )
        for name in _FIGURES
    }
    core_share = _core_share(measured, before, role) if is_busy and (change.cores or cores) <= cores else 1.0
    if core_share < 1:
        ran, runs = ([core_share * one for one in _figures(figures, role, "run_share")] for figures in (before, after))
        spans["run_share"] = _span(measured.run_share, ran, runs, max(measured.turns_error, 1 - core_share))
    p50, p99 = spans["p50_ns"], spans["p99_ns"]
    if p50 is not None and p99 is not None and p99.value < p50.value:
        spans["p99_ns"] = Span(p50.value, min(p50.value, p99.low), max(p50.value, p99.high))
    actors = members(model, change, role)
    one_gil = change.gil and not change.processes  # no role can have more than all of a GIL
    most = min(len(actors), 1 if one_gil else change.cores or cores) * core_share
    spans["run_share"] = _at_most(spans["run_share"], most)
    spans["turns_per_s"] = _at_most(spans["turns_per_s"], _most_turns_per_s(actors))
    identity = _identity(measured, before, role)
    if _is_too_rare(measured, cut_ns):
        spans["turns_per_s"] = None
        identity.pop("turns_per_s", None)
    return RolePrediction(role=role, measured=measured, identity=identity, **spans)


def _core_share(measured: Measured, before: Sequence[_ByRole], role: str) -> float:
    """Return the share of its time with the GIL for which a role had the core that the model gives it.

    Other programs are assumed to take with a change what they took in the trace.
    """
    ran, held = (sum(_figures(before, role, name)) for name in _RAN_AND_HELD)
    if not (ran and measured.held_share):
        return 1.0
    return min(1.0, (measured.run_share / measured.held_share) / (ran / held))


def _without_a_core(model: Model, before: Sequence[_ByRole], cores: int) -> str:
    """Return a sentence if much of the time with the GIL was off the cores, for reasons that the model does not have.

    Else the result is "". If the program's own threads used all cores, no other program can have had them for long.
    """
    ran, held = (sum(getattr(one, name) for one in model.measured.values()) for name in _RAN_AND_HELD)
    model_ran, model_held = (sum(sum(_figures(before, role, name)) for role in model.roles) for name in _RAN_AND_HELD)
    if not (held and model_held):
        return ""
    lost = min(held * model_ran / model_held - ran, cores - model.cores_used)
    if lost < MUCH * held:
        return ""
    return (
        f"threads held the GIL without running on a core for {share(held - ran, held)} of the time that it was held: other"
        " programs had the cores, or calls into C slept with the GIL; the model lacks that, so it may promise too much:"
        " record again on a calm machine"
    )


def _is_too_rare(measured: Measured, cut_ns: int) -> bool:
    """Tell whether a role has too few turns in runs that were cut for a figure of these."""
    return cut_ns > 0 and measured.turns_per_s * cut_ns / 1e9 < _SOME_TURNS


def _too_rare(roles: Sequence[RolePrediction], cut_ns: int) -> Iterator[str]:
    """Yield why some roles have no figure of their turns."""
    rare = [one.role for one in roles if one.measured.turns and _is_too_rare(one.measured, cut_ns)]
    if rare:
        yield f"only {duration(cut_ns)} of the program are replayed, which is too little for the turns of {listed(rare)}"


def _rests_on(model: Model, change: Change, costs: Costs) -> tuple[str, ...]:
    """Return the assumptions, without those about roles that are left out, or about a GIL that is removed."""
    absent = left_out(model, change)
    held = (one for one in model.rests_on if one.role not in absent and (change.gil or not one.of_gil))
    return _whose(costs), *dict.fromkeys(one.text for one in held), *begun_elsewhere(model, change)


def _whose(costs: Costs) -> str:
    """Return whose costs a prediction uses. A trace does not name its machine, so it may be from another one."""
    if costs.measured_here:
        return f"the costs are {costs.name}: a trace from another machine needs that one's (--calibration)"
    if costs.name == PRESET:
        return "the costs are the preset's, which were measured on another machine"
    return f"the costs are those of {costs.name}"


def _limits(model: Model, change: Change, roles: Sequence[RolePrediction], costs: Costs) -> tuple[str, ...]:
    found = [*incomplete(model), *model.outside]
    for one in roles:
        off = one.identity.get("turns_per_s")
        if off is not None and one.measured.turns >= TELLING and abs(math.log(max(off, 1e-9))) > math.log(1 + FAR):
            found.append(
                f"replayed without a change, {one.role} has {off:.2f} of the turns in the trace, so the model lacks something"
            )
        runs = one.identity.get("run_share")
        if (
            runs is not None
            and one.measured.held_share > COMPUTES
            and abs(math.log(max(runs, 1e-9))) > math.log(1 + _FAR_RUN)
        ):
            found.append(
                f"replayed without a change, {one.role} computes {runs:.2f} of what it did in the trace: "
                + ("other programs may have taken the cores" if runs > 1 else "the model lacks something")
            )
        if one.turns_per_s is not None and one.turns_per_s.value <= 0 and one.measured.turns >= TELLING:
            found.append(
                f"with the change, {one.role} has no turn at all: it starves, or waits for something outside the model"
            )
    found += seldom_sampled(model, change)
    if change.processes:
        found.append("the model does not include the cost of passing arguments and results between processes")
    if not change.gil:
        found.append(
            f"no free-threaded interpreter was measured: without a GIL, Python code is assumed to take"
            f" {costs.known_slow_down:.0%} longer for each further thread"
            if costs.slow_down is None
            else "the cost of shared objects without a GIL comes from the calibration, not from this program"
        )
        found.append(
            "a free-threaded build also runs the code of one thread more slowly, which is not in the figures: "
            + (
                "`headway lab single-thread` measures that"
                if costs.build_ratio is None
                else f"a loop takes {costs.build_ratio:.1f} times as long there"
            )
        )
    found += waiting.limits(model, change)
    return tuple(found)


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
    """Return a prediction for each change; see `predicting`."""
    return list(predicting(model, changes, costs, cores=cores, seeds=seeds, progress=progress, most_steps=most_steps))


def predicting(
    model: Model,
    changes: Sequence[Change],
    costs: Costs,
    *,
    cores: int,
    seeds: int = 5,
    progress: Callable[[int, int], None] = lambda done, total: None,
    most_steps: int = _MOST_STEPS,
) -> Iterator[Prediction]:
    """Yield a prediction for each change, as soon as its runs are done.

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
        raise refused(model.trace, model.whole, length_ns)
    whole_ns = max(_LEAST_SPAN_NS, length_ns)
    replay = _Replay(model, costs, cores, seeds, most_steps, whole_ns)
    done = 0
    total = seeds * (1 + sum(change != NOTHING for change in changes))

    def tell() -> None:
        nonlocal done
        done += 1
        progress(done, total)

    before, longest_ns = replay.runs(NOTHING, whole_ns, tell)
    unchanged = {longest_ns: before}
    for change in changes:
        after, span_ns = (before, longest_ns) if change == NOTHING else replay.runs(change, longest_ns, tell)
        if span_ns not in unchanged:
            unchanged[span_ns], _ = replay.runs(NOTHING, span_ns, lambda: None, is_limited=False)
        cut_ns = span_ns if span_ns < whole_ns else 0
        busy = _without_a_core(model, unchanged[span_ns], cores)
        roles = tuple(
            _role(model, change, role, unchanged[span_ns], after, cores, cut_ns, is_busy=bool(busy))
            for role in model.roles
        )
        limits = (*filter(None, [busy]), *_limits(model, change, roles, costs))
        absent = left_out(model, change)
        shown = tuple(one for one in roles if one.role not in absent)
        rests_on = (*_rests_on(model, change, costs), *_too_rare(shown, cut_ns))
        yield Prediction(change, shown, rests_on, limits, waiting.provided(model, change))


@final
@dataclass(frozen=True)
class _Replay:
    """Runs a model with a change for a part of its trace that does not take too long.

    A change that makes turns quicker needs more steps for a time. The part then is a smaller one, in which each thread
    lives for the same share of the time as in the trace: one that begins late begins earlier.

    Every other run has quick answers to requests, so that an interval holds what both bounds of these times give.
    """

    model: Model
    costs: Costs
    cores: int
    seeds: int
    most_steps: int
    whole_ns: int

    def runs(
        self, change: Change, longest_ns: int, tell: Callable[[], None], *, is_limited: bool = True
    ) -> tuple[list[_ByRole], int]:
        """Return the figures of each run, and the virtual time of all of them: `longest_ns` at most."""
        span_ns = longest_ns
        # A part that was found by the limit has a few steps more than that, and another change has yet others.
        most_steps = self.most_steps * (1 if span_ns == self.whole_ns else 2) if is_limited else math.inf
        spec, names = self._specify(change, span_ns)
        first, until_ns = _run_of(change, spec, names, most_steps)
        while until_ns < span_ns:
            span_ns = until_ns
            spec, names = self._specify(change, span_ns)
            first, until_ns = _run_of(change, spec, names, 2 * self.most_steps)
        tell()
        found = [first]
        quick = replace(spec, costs=with_own(self.costs, with_quick_answers(self.model.own_costs)))
        for seed in range(2, self.seeds + 1):
            found.append(_run_of(change, replace(spec if seed % 2 else quick, seed=seed), names, math.inf)[0])
            tell()
        return found, span_ns

    def _specify(self, change: Change, span_ns: int) -> tuple[Spec, tuple[str, ...]]:
        model = waiting.without_lost_waits(self.model, change)
        spec, replayed = specify(model, change, self.costs, 1, span_ns, cores=self.cores)
        if span_ns < self.whole_ns:
            roles = (replace(one, begin_ns=one.begin_ns * span_ns // self.whole_ns) for one in spec.roles)
            spec = replace(spec, roles=tuple(roles))
        return spec, tuple(one.role for one in replayed)
