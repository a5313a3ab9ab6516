"""From which size of task, and from how many tasks on, a pool pays.

The function has the size that its inputs give it. So a stand-in (the agent's `strangers.stand_in`) takes the function's arguments and
gives its result, and computes as long as asked, one task after the other and in the pool in the same launch. One launch with
sizes far apart finds about where the two are equal; launches with sizes around it say where, each by a line through
the logarithms of ratio and size.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from headway.advice.examined import Function
from headway.advice.holds import Holds
from headway.lab import stats
from headway.lab.design import Variant
from headway.lab.kept.launched import Launch
from headway.lab.kept.results import CellResult

__all__ = ["METRIC", "find_size", "find_tasks", "shares_of"]

METRIC = "break_even_s"
_SMALLEST_S = 12.5e-6
_COARSE = tuple(4.0**place for place in range(6))
_FINE = (0.5, 0.65, 0.8, 1.0, 1.25, 1.55, 2.0)
_LAUNCHES = 3
_MOST_S = 0.05
"""A task that takes longer is no small one: where a pool does not pay at that size, the size is not what it lacks."""


def shares_of(holds: Holds | None, function: Function) -> dict[str, float]:
    """Return what a task's time is made of: "held", "released", "asleep"; without a look at the GIL all computing holds it."""
    if holds is None:
        return {"held": function.cpu_share, "released": 0.0, "asleep": 1 - function.cpu_share}
    return {"held": holds.held, "released": holds.computes_without, "asleep": holds.waits}


def _crossing(sizes_s: Sequence[float], samples: Mapping[str, Sequence[float]]) -> float | None:
    """Return the size at which the pool takes as long as one after the other; None where it does so at none of them."""
    points = []
    for place, _ in enumerate(sizes_s):
        alone = stats.launch_value(samples[f"serial_{place}_s"])
        pooled = stats.launch_value(samples[f"pooled_{place}_s"])
        points.append((math.log(alone), math.log(pooled / alone)))
    if points[-1][1] >= 0:
        return None
    if points[0][1] < 0:
        return math.exp(points[0][0])
    after = next(place for place in range(len(points) - 1, -1, -1) if points[place][1] >= 0) + 1
    near = points[max(0, after - 2) : after + 2]
    mean_x = sum(x for x, _ in near) / len(near)
    mean_y = sum(y for _, y in near) / len(near)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in near) / sum((x - mean_x) ** 2 for x, _ in near)
    if slope >= 0:
        return math.exp(points[after][0])
    return math.exp(min(max(mean_x - mean_y / slope, points[max(0, after - 1)][0]), points[after][0]))


def find_size(
    model: str,
    variant: Callable[[Sequence[float]], Variant],
    function: Function,
    launch: Callable[[Variant, int], Launch],
) -> tuple[stats.Interval | None, str]:
    """Return the size of a task from which a model's pool pays, or None and why.

    Args:
        model: The model, for words.
        variant: Returns the variant with these sizes in seconds.
        function: Gives the smallest size that makes sense: what its pickles take.
        launch: Launches a variant, and keeps what came of it.
    """
    least_s = max(_SMALLEST_S, function.pickle_s / 2)
    sizes_s = [least_s * step for step in _COARSE]
    for _ in range(2):
        first = launch(variant(sizes_s), 0)
        if first.status != "ok":
            return None, first.reason
        about_s = _crossing(sizes_s, first.samples)
        if about_s is not None or sizes_s[-1] > _MOST_S:
            break
        sizes_s = [size_s * _COARSE[-1] / 4 for size_s in sizes_s[:4]]
    if about_s is None:
        return None, f"tasks of {sizes_s[-1] * 1e3:.3g} ms gain nothing from {model}"
    found = []
    for block in range(1, 1 + _LAUNCHES):
        fine_s = [about_s * step for step in _FINE]
        again = launch(variant(fine_s), block)
        at_s = _crossing(fine_s, again.samples) if again.status == "ok" else None
        if at_s is not None:
            found.append(at_s)
    return (stats.level_interval(found), "") if found else (None, "it did not come out the same twice")


def find_tasks(result: CellResult, serial: CellResult, tasks: int) -> tuple[stats.Interval | None, str]:
    """Return from how many tasks on a pool pays for its own start, by the race's launches; or None and why.

    The start is the pool's own, and what its first sample takes longer than the others: workers import the function's module then.
    """
    found = []
    alone = {one.block: one.launch.samples for one in serial.ok}
    for one in result.ok:
        own, other = one.launch.samples, alone.get(one.block)
        if other is None:
            continue
        work_s, alone_s = stats.launch_value(own["work_s"]), stats.launch_value(other["work_s"])
        start_s = stats.launch_value(own["pool_start_s"]) + max(
            0.0,
            (own["first_work_s"][0] - work_s) - (other["first_work_s"][0] - alone_s),
        )
        gain_s = (alone_s - work_s) / tasks
        if gain_s > 0:
            found.append(max(2.0, start_s / gain_s))
    if len(found) * 2 <= len(result.ok):
        return None, "it is no faster than one after the other"
    return stats.level_interval(found), ""
