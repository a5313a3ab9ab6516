"""Ranks the changes that a user could make to a traced program, by what is predicted of each."""

import contextlib
import math
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from headway.errors import HeadwayError
from headway.sim.machine import Costs
from headway.sim.replay.change import MOST_PROCESSES, SEVERAL, Change, Shorten, becoming_processes
from headway.sim.replay.fit import model_of
from headway.sim.replay.learn import Model
from headway.sim.replay.others import MUCH, without_a_core
from headway.sim.scenario import STOCK
from headway.sim.whatif import COMPUTES, FAR, TELLING, Prediction, RolePrediction, Span, predict, predicting
from headway.traces.analysis.blame import waited_during
from headway.traces.analysis.findings import BEHIND
from headway.traces.analysis.hotspots import blocking_functions
from headway.traces.analysis.intervals import recorded
from headway.traces.analysis.words import labels, share
from headway.traces.calls import takes_a_lock
from headway.traces.model import Trace
from headway.traces.sources import edited

__all__ = ["WORTH", "Ranked", "missed", "rank", "remedies", "untried"]

WORTH = 0.05
"""The least worth of a useful change; a change with a worth below the negative of this does harm."""

_MISSED = math.log(2)
"""The error, as a logarithm, from which on a replay without a change is of another program: its changes are not ranked."""
_PART = 0.1
"""The least share of a program's turns, or of its time with the GIL, of a role for which the replay must be near the trace."""


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


def _candidates(model: Model) -> list[Change]:
    """Return the changes that a user could make without knowing the program."""
    found = [Change(policy=one) for one in (STOCK, "fair") if one != model.policy]
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
    """Return a change that halves the holds of the line where threads that yield often were preempted longest.

    Left out are lines that take a lock, and lines at which threads were seldom preempted, or mostly release the GIL by
    themselves: in such a hold, other lines ran before.
    """
    holds, trace = model.seen.holds, model.trace
    often = np.isin(holds.thread, [thread for thread, bursts in model.seen.bursts.items() if len(bursts) >= TELLING])
    lines = {(frame.filename, frame.line): frame for frame in trace.frames}
    numbers = {line: number for number, line in enumerate(lines)}
    of_stack = np.array([numbers[frame.filename, frame.line] for frame in trace.frames])[trace.stack_frame]
    line, forced = of_stack[holds.stack], often & holds.forced & (holds.stack > 0)
    all_ns = np.bincount(line[often], weights=holds.length_ns[often], minlength=len(lines))
    forced_ns = np.bincount(line[forced], weights=holds.length_ns[forced], minlength=len(lines))
    forced_ns[np.bincount(line[forced], minlength=len(lines)) < SEVERAL] = 0
    forced_ns[forced_ns < all_ns / 2] = 0
    frames = list(lines.values())
    for number in np.argsort(-forced_ns, kind="stable")[: np.count_nonzero(forced_ns)].tolist():
        frame = frames[number]
        if frame.filename and frame.line and not takes_a_lock(frame, edited(trace, [frame.filename])):
            return Shorten(frame.filename, frame.line, 0.5)
    return None


def untried(model: Model, name: str) -> tuple[str, ...]:
    """Return why a ranking does not shorten the holds for which threads waited most: they only show where they ended.

    The result is () if no function has many such holds, or if preempted holds tell what threads waited for.

    Args:
        model: The program.
        name: The name of the trace's file.
    """
    trace, holds = model.trace, model.seen.holds
    found = recorded(trace)
    waits = found.waits.chosen(found.waits.gil == holds.gil[0]).clipped(model.seen.since_ns, model.seen.until_ns)
    waited_ns = int(waits.length_ns.sum())
    functions = blocking_functions(trace, holds, waited_during(holds, waits), labels(trace.threads))
    one = next((each for each in functions if each.blocked_ns >= max(1.0, BEHIND * waited_ns)), None)
    if one is None or one.ran or not one.stack[0].line:
        return ()
    change = shlex.quote(f"{one.stack[0].filename}:{one.stack[0].line}=0.5")
    text = (
        f"{share(one.blocked_ns, waited_ns)} of all waiting for the GIL happened in holds that ended in"
        f" `{one.frame.function}`, and a hold that is not preempted does not show the lines that it ran before its end; if they"
        f" were half as long: headway whatif {shlex.quote(name)} --shorten {change}"
    )
    return (text,)


_MOST_GAIN = 6.0
"""The largest gain that counts for one role, as a logarithm: 400 times as many turns are enough."""


_LEAST_P99_NS = 1_000_000
"""The least difference between two p99 that counts: a shorter one is not felt, and within the errors of predictions."""


def _worth(prediction: Prediction) -> float:
    """Return the worth of a change: gains of rates and of waits, and losses of computing, as logarithms.

    A gain counts if the figure of the trace is outside the predicted interval: else the interval contains no change, too.
    A change by which one role loses as much as another one gains is worth nothing, however many roles gain.
    """
    parts = [_role_worth(prediction, one) for one in prediction.roles]
    worth = sum(parts)
    return min(0.0, worth) if parts and -min(parts) >= max(parts) else worth


def _role_worth(prediction: Prediction, one: RolePrediction) -> float:
    """Return the gains of one role, less its losses, as logarithms."""
    worth = 0.0
    few = one.measured.turns < TELLING and one.measured.held_share > COMPUTES  # its time tells more than its turns
    counted = one.turns_per_s is not None and one.measured.turns_per_s > 1 and not few
    if one.turns_per_s is not None and counted:
        gain = _beyond_error(one, _more(one.measured.turns_per_s, one.turns_per_s))
        worth += min(_MOST_GAIN, max(gain, _computing(prediction, one)) if gain < 0 else gain)
    p99_ns = one.measured.p99_ns
    if one.p99_ns is not None and p99_ns and abs(p99_ns - one.p99_ns.value) >= _LEAST_P99_NS:
        worth += 0.5 * min(5.0, -_change(p99_ns, one.p99_ns, is_gain=one.p99_ns.value < p99_ns))
    if not counted and one.run_share is not None and one.measured.run_share > 0.05:
        worth += _more(one.measured.run_share, one.run_share)
    return worth


def _more(measured: float, span: Span) -> float:
    """Return the change of a figure of which more is better."""
    return _change(measured, span, is_gain=span.value > measured)


def _change(measured: float, span: Span, *, is_gain: bool) -> float:
    """Return the change of a figure as a logarithm; 0 for a gain if the interval has the figure of the trace, too."""
    if is_gain and span.low <= measured <= span.high:
        return 0.0
    return math.log(max(span.value, 1e-9) / measured)


def _beyond_error(one: RolePrediction, gain: float) -> float:
    """Return a change of a role's turns, as a logarithm; 0 if it is within the error of a replay that is far from the trace."""
    error = abs(math.log(max(one.identity.get("turns_per_s", 1.0), 1e-9)))
    return 0.0 if error > math.log(1 + FAR) and abs(gain) < error else gain


def _computing(prediction: Prediction, one: RolePrediction) -> float:
    """Return the most that a CPU-bound role loses by a change, as a logarithm: fewer turns that compute as much lose nothing.

    Without a GIL, a thread computes longer for the same work, so that its time tells nothing.
    """
    if one.run_share is None or one.measured.held_share <= COMPUTES or not prediction.change.gil:
        return -math.inf
    return min(0.0, math.log(max(one.run_share.value, 1e-6) / one.measured.run_share))


def missed(ranked: Sequence[Ranked]) -> tuple[str, ...]:
    """Return why no change can be ranked, a clause for each role that the replay without a change misses; () if it can.

    Such a replay has half or twice the turns of a role that has a tenth of the program's, or that runs for a tenth of
    its time. A role that computes is judged by that, as its turns tell little.
    """
    if not ranked:
        return ()
    roles = ranked[0].prediction.roles
    turns, runs = (sum(getattr(one.measured, name) for one in roles) for name in ("turns", "run_share"))
    found = []
    for one in roles:
        computes = one.measured.held_share > COMPUTES
        factor = one.identity.get("run_share" if computes else "turns_per_s")
        counts = one.measured.turns >= max(TELLING, _PART * turns) or one.measured.run_share >= _PART * runs
        if factor is not None and counts and abs(math.log(max(factor, 1e-9))) >= _MISSED:
            what = "computing" if computes else "turns"
            found.append(
                f"replayed without a change, {one.role} has {factor:.2f} of the {what} in the trace"
                + ": other programs may have taken the cores" * (computes and factor > 1)
            )
    return tuple(found)


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


class _DoubtedError(Exception):
    """A report cannot say what a prediction of this model lacks."""


def remedies(trace: Trace, costs: Costs, *, cores: int, most_s: float) -> list[Ranked]:
    """Return the changes that would help a traced program, the best first; only those that are inside the model.

    The function is for a report, and takes little time: it returns what is predicted by then, and [] if that is nothing.

    Args:
        trace: The trace of one process.
        costs: The costs of the machine.
        cores: The number of cores that the program ran on.
        most_s: The time that the function may take, in seconds.
    """
    end_s = time.perf_counter() + most_s

    def wait_no_longer(runs_done: int = 1, _: int = 0) -> None:
        if runs_done % _REPORT_SEEDS and time.perf_counter() > end_s:  # a change whose runs are done is told first
            raise _OutOfTimeError

    def step(model: Model) -> None:
        # The figures of a busy machine need the line that says so, for which a report has no room.
        if model.outside or (model.others and without_a_core(model.seen.holds) >= MUCH):
            raise _DoubtedError
        wait_no_longer()

    if len(trace.events) > _REPORT_EVENTS:
        return []
    inside: list[Prediction] = []
    # An error, or the end of the time, leaves the predictions that are there.
    with contextlib.suppress(_OutOfTimeError, _DoubtedError, HeadwayError):
        model = model_of(trace, costs, cores=cores, step=step)
        step(model)
        # Changes to processes, and to threads without a GIL, always have something outside the model.
        changes = [one for one in _candidates(model) if one.gil and not one.processes]
        if not changes:
            return []
        for one in predicting(
            model,
            changes,
            costs,
            cores=cores,
            seeds=_REPORT_SEEDS,
            progress=wait_no_longer,
            most_steps=_REPORT_STEPS,
        ):
            if not one.outside:
                inside.append(one)
            wait_no_longer()
    return sorted((one for one in _ranked(inside) if one.worth > WORTH), key=_place)
