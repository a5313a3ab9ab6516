"""Finds the size of a task, and the number of tasks, from which a pool pays.

The function's size is fixed by its inputs. Therefore a stand-in (the agent's `strangers.stand_in`) takes the function's
arguments and gives its result, and computes for the time asked, one task after the other and in the pool, in the same
launch. One launch with sizes far apart finds roughly where the two are equal. Launches with sizes around it find the
place, each by a line through the logarithms of ratio and size.

At the function's own size, the race has measured the pool with the function itself. The time by which that exceeds the
stand-in's is added at every size.
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
_NO_TIME = "not known, because the time was up"
_MOST_S = 0.05
"""A task that takes longer is not small: if a pool does not pay at this size, the size is not the reason."""


def parts_of(holds: Holds | None, function: Function) -> dict[str, Any]:
    """Return a task's time as parameters of the stand-in; if the GIL was not looked at, all computing holds it."""
    if holds is None:
        shares = {"held": function.cpu_share, "released": 0.0, "asleep": 1 - function.cpu_share}
        return {"shares": shares, "stretch_s": 0.0}
    # Even a short sleep takes the timer's slack, so a task that hardly waits must not sleep.
    waits = holds.waits if holds.waits >= _LEAST_WAITING else 0.0
    shares = {"held": holds.held, "released": holds.computes_without + holds.waits - waits, "asleep": waits}
    return {"shares": shares, "stretch_s": holds.stretch_s or holds.call_s}


def _points(sizes_s: Sequence[float], samples: Mapping[str, Sequence[float]]) -> list[tuple[float, float]]:
    """Return, for each size, the time of a task alone, and the ratio of its time in the pool to that."""
    found = []
    for place, _ in enumerate(sizes_s):
        alone = stats.launch_value(samples[f"serial_{place}_s"])
        found.append((alone, stats.launch_value(samples[f"pooled_{place}_s"]) / alone))
    return found


def _crossing(points: Sequence[tuple[float, float]], excess: float, *, near: int = 2) -> float | None:
    """Return the size at which the pool takes as long as one after the other; None if it takes longer at all sizes.

    Args:
        points: The time of a task alone and the pool's ratio to it, for each size, smallest first.
        excess: The function's time in the pool minus its stand-in's, over the function's time alone.
        near: The number of points on either side of the crossing that are used; 1 if they are far apart.
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
    """Return the size at which the pool takes as long as one after the other, by one stand-in's launch; or None."""
    return _crossing(sorted(_points(sizes_s, samples)), 0.0)


def _excess(measured: float, stand_in: float) -> float:
    """Return by how much the function's ratio exceeds its stand-in's, without what may be noise."""
    # If the pool does not pay at the function's own size, the noise must not make it seem to: subtract none.
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
    """Return the size of a task from which a model's pool pays, or None and the reason.

    Args:
        model: The model, for messages.
        variant: Returns the variant with these sizes in seconds.
        function: Gives the smallest size that makes sense: the time of its pickles.
        launch: Launches a variant, and keeps the result.
        measured: The ratio of the function's time in the pool to one after the other, at its own size. If the
            stand-in's ratio at that size is lower (the function needs memory or a lock that the stand-in does not), the
            difference is added at all sizes. None: not known.
        time_left: Called before each launch but the first, and after one that failed: its limit may be the time left.
    """
    if function.call_s > _MOST_S:
        measured = None  # its own size is far from the crossing, and takes long to measure
    blocks = itertools.count()
    least_s = max(_SMALLEST_S, function.pickle_s / 2)
    sizes_s = [least_s * step for step in _COARSE]
    excess = 0.0
    for _ in range(2):
        asked_s = sorted({*sizes_s, function.call_s}) if measured is not None else sizes_s
        first = launch(variant(asked_s), next(blocks))
        if first.status != "ok":
            return None, first.reason if time_left() else _NO_TIME
        points = _points(asked_s, first.samples)
        if measured is not None:
            excess = _excess(measured, points[asked_s.index(function.call_s)][1])
        about_s = _crossing(points, excess, near=1)
        if about_s is not None or sizes_s[-1] > _MOST_S:
            break
        sizes_s = [size_s * _COARSE[-1] / 4 for size_s in sizes_s[:4]]
    if about_s is None:
        # Few launches bound nothing: the race may leave a gain open, or even find one.
        many = next(blocks)
        said = "one launch" if many == 1 else f"{many} launches"
        return None, f"not found: in {said}, {model} were not faster for tasks of up to {asked_s[-1] * 1e3:.3g} ms"
    if not time_left():
        return None, _NO_TIME
    fine_s = [about_s * step for step in _FINE]
    asked_s = [*fine_s, function.call_s] if measured is not None else fine_s
    launches = [launch(variant(asked_s), next(blocks)) for place in range(_LAUNCHES) if place == 0 or time_left()]
    by_launch = [_points(asked_s, one.samples) for one in launches if one.status == "ok"]
    if not by_launch:
        return None, launches[0].reason if time_left() else _NO_TIME
    if measured is not None:
        # The excess is from all launches together, because one says little.
        excess = _excess(measured, statistics.median([points.pop()[1] for points in by_launch]))
    found = [at_s for points in by_launch if (at_s := _crossing(points, excess)) is not None]
    return (stats.level_interval(found), "") if found else (None, "two measurements gave different results")


def start_s(own: Mapping[str, Sequence[float]], alone: Mapping[str, Sequence[float]]) -> float:
    """Return the time of a pool's start in one launch, in seconds.

    It has two parts: the start itself, and the time by which the pool's first calls take longer than later ones, beyond
    what that is for serial calls: workers import the function's module then.

    Args:
        own: The samples of the pool's launch, by metric.
        alone: The samples of one after the other in the same block.
    """
    longer_s = [stats.launch_value(of.get("first_longer_s", [0.0])) for of in (own, alone)]
    return stats.launch_value(own["pool_start_s"]) + max(0.0, longer_s[0] - longer_s[1])


def find_tasks(result: CellResult, serial: CellResult) -> tuple[stats.Interval | None, str]:
    """Return the number of tasks that pays for a pool's start (`start_s`), from the race; or None and the reason."""
    found = []
    alone = {one.block: one.launch.samples for one in serial.ok}
    for one in result.ok:
        own, other = one.launch.samples, alone.get(one.block)
        if other is None:
            continue
        gain_s = stats.launch_value(other["call_s"]) - stats.launch_value(own["call_s"])
        if gain_s > 0:
            found.append(max(2.0, start_s(own, other) / gain_s))
    if len(found) * 2 <= len(result.ok):
        return None, "it is no faster than serial calls"
    return stats.level_interval(found), ""
