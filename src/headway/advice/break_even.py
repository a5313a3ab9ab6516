"""From which size of task, and from how many tasks on, a pool pays.

The function has the size that its inputs give it. So a stand-in (the agent's `strangers.stand_in`) takes the function's arguments and
gives its result, and computes as long as asked, one task after the other and in the pool in the same launch. One launch with
sizes far apart finds about where the two are equal; launches with sizes around it say where, each by a line through
the logarithms of ratio and size. At the function's own size the race has measured the pool with the function itself: what that took longer
than the stand-in is added at every size.
"""

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headway.advice.examined import Function
from headway.advice.holds import Holds
from headway.lab import stats
from headway.lab.design import Variant
from headway.lab.kept.launched import Launch
from headway.lab.kept.results import CellResult

__all__ = ["METRIC", "crossing", "find_size", "find_tasks", "parts_of", "start_s"]

METRIC = "break_even_s"
_SMALLEST_S = 12.5e-6
_COARSE = tuple(4.0**place for place in range(6))
_FINE = (0.5, 0.65, 0.8, 1.0, 1.25, 1.55, 2.0)
_LAUNCHES = 3
_NOISE = 0.1
_LEAST_WAITING = 0.05
_MOST_S = 0.05
"""A task that takes longer is no small one: where a pool does not pay at that size, the size is not what it lacks."""


def parts_of(holds: Holds | None, function: Function) -> dict[str, Any]:
    """Return what a task's time is made of, as the stand-in's parameters; without a look at the GIL all computing holds it."""
    if holds is None:
        shares = {"held": function.cpu_share, "released": 0.0, "asleep": 1 - function.cpu_share}
        return {"shares": shares, "stretch_s": 0.0}
    # A sleep takes a timer's slack however short it is: what is no wait must not become one.
    waits = holds.waits if holds.waits >= _LEAST_WAITING else 0.0
    shares = {"held": holds.held, "released": holds.computes_without + holds.waits - waits, "asleep": waits}
    return {"shares": shares, "stretch_s": holds.stretch_s or holds.call_s}


def _points(sizes_s: Sequence[float], samples: Mapping[str, Sequence[float]]) -> list[tuple[float, float]]:
    """Return for each size what a task takes alone, and what it takes in the pool over that."""
    found = []
    for place, _ in enumerate(sizes_s):
        alone = stats.launch_value(samples[f"serial_{place}_s"])
        found.append((alone, stats.launch_value(samples[f"pooled_{place}_s"]) / alone))
    return found


def _crossing(points: Sequence[tuple[float, float]], excess: float, *, near: int = 2) -> float | None:
    """Return the size at which the pool takes as long as one after the other; None where it does so at none of them.

    Args:
        points: By size, smallest first, what a task takes alone, and the pool's time over that.
        excess: What the function takes longer in the pool than its stand-in, over what it takes alone.
        near: So many points on either side of it say where it is; 1 where they are far apart.
    """
    logs = [(math.log(size), math.log(max(ratio + excess, 1e-3))) for size, ratio in points]
    if logs[-1][1] >= 0:
        return None
    if logs[0][1] < 0:
        return math.exp(logs[0][0])
    after = next(place for place in range(len(logs) - 1, -1, -1) if logs[place][1] >= 0) + 1
    some = logs[max(0, after - near) : after + near]
    mean_x = sum(x for x, _ in some) / len(some)
    mean_y = sum(y for _, y in some) / len(some)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in some) / sum((x - mean_x) ** 2 for x, _ in some)
    if slope >= 0:
        return math.exp(logs[after][0])
    return math.exp(min(max(mean_x - mean_y / slope, logs[max(0, after - 1)][0]), logs[after][0]))


def crossing(sizes_s: Sequence[float], samples: Mapping[str, Sequence[float]]) -> float | None:
    """Return the size at which the pool takes as long as one after the other, of one launch of the stand-in; None for none."""
    return _crossing(sorted(_points(sizes_s, samples)), 0.0)


def _excess(measured: float, stand_in: float) -> float:
    """Return what the function takes longer in the pool than its stand-in, as far as that is no noise."""
    # Where the pool does not pay at the function's own size, it must not be said to.
    return max(0.0, measured - stand_in - (_NOISE if measured < 1 else 0.0))


def find_size(
    model: str,
    variant: Callable[[Sequence[float]], Variant],
    function: Function,
    launch: Callable[[Variant, int], Launch],
    *,
    measured: float | None = None,
    time_left: Callable[[], bool] = lambda: True,
) -> tuple[stats.Interval | None, str]:
    """Return the size of a task from which a model's pool pays, or None and why.

    Args:
        model: The model, for words.
        variant: Returns the variant with these sizes in seconds.
        function: Gives the smallest size that makes sense: what its pickles take.
        launch: Launches a variant, and keeps what came of it.
        measured: What the function itself takes in the pool over one after the other, at its own size. Where the stand-in takes less
            at that size (the function wants memory or a lock that its stand-in does not), it is taken to take longer by the same share
            at all sizes. None: nothing is known.
        time_left: Asked before each launch but the first.
    """
    if function.call_s > _MOST_S:
        measured = None  # its own size is far from where it turns, and takes its time
    blocks = itertools.count()
    least_s = max(_SMALLEST_S, function.pickle_s / 2)
    sizes_s = [least_s * step for step in _COARSE]
    excess = 0.0
    for _ in range(2):
        asked_s = sorted({*sizes_s, function.call_s}) if measured is not None else sizes_s
        first = launch(variant(asked_s), next(blocks))
        if first.status != "ok":
            return None, first.reason
        points = _points(asked_s, first.samples)
        if measured is not None:
            excess = _excess(measured, points[asked_s.index(function.call_s)][1])
        about_s = _crossing(points, excess, near=1)
        if about_s is not None or sizes_s[-1] > _MOST_S:
            break
        sizes_s = [size_s * _COARSE[-1] / 4 for size_s in sizes_s[:4]]
    if about_s is None:
        return None, f"tasks of {asked_s[-1] * 1e3:.3g} ms gain nothing from {model}"
    if not time_left():
        return None, "not known, because the time was up"
    fine_s = [about_s * step for step in _FINE]
    asked_s = [*fine_s, function.call_s] if measured is not None else fine_s
    launches = [launch(variant(asked_s), next(blocks)) for place in range(_LAUNCHES) if place == 0 or time_left()]
    by_launch = [_points(asked_s, one.samples) for one in launches if one.status == "ok"]
    if measured is not None:
        # Of all launches together: one says little.
        excess = _excess(measured, statistics.median([points.pop()[1] for points in by_launch] or [measured]))
    found = [at_s for points in by_launch if (at_s := _crossing(points, excess)) is not None]
    return (stats.level_interval(found), "") if found else (None, "two measurements gave different results")


def start_s(own: Mapping[str, Sequence[float]], alone: Mapping[str, Sequence[float]]) -> float:
    """Return what a pool's start takes in one launch, in seconds.

    Its own, and what its first sample takes longer than one after the other's first does: workers import the function's module then.

    Args:
        own: The samples of the pool's launch, by metric.
        alone: Those of one after the other, in the same block.
    """
    longer_s = [stats.launch_value(of["first_work_s"]) - stats.launch_value(of["work_s"]) for of in (own, alone)]
    return stats.launch_value(own["pool_start_s"]) + max(0.0, longer_s[0] - longer_s[1])


def find_tasks(result: CellResult, serial: CellResult, tasks: int) -> tuple[stats.Interval | None, str]:
    """Return from how many tasks on a pool pays for its own start (`start_s`), by the race's launches; or None and why."""
    found = []
    alone = {one.block: one.launch.samples for one in serial.ok}
    for one in result.ok:
        own, other = one.launch.samples, alone.get(one.block)
        if other is None:
            continue
        gain_s = (stats.launch_value(other["work_s"]) - stats.launch_value(own["work_s"])) / tasks
        if gain_s > 0:
            found.append(max(2.0, start_s(own, other) / gain_s))
    if len(found) * 2 <= len(result.ok):
        return None, "it is no faster than serial calls"
    return stats.level_interval(found), ""
