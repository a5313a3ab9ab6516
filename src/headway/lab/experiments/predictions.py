"""Predictions beside measurements: the echo server beside CPU-bound threads, simulated and measured."""

from headway.lab.design import (
    Claim,
    Errors,
    Experiment,
    Order,
    Placement,
    Size,
    Variant,
    below,
    newest_with_gil,
    with_a_gil,
)
from headway.lab.experiments.convoy import HOW, IN_FIGURE, WORK, cpu_threads, echo

__all__ = ["EXPERIMENTS"]

_CPU = (0, 1, 2, 4)
_QUICK = (1, 4)
_NONE = "no policy"
_ALONE = "server alone"
_COUNTING = "counting alone"
_CHANGES: tuple[tuple[str, dict[str, object]], ...] = (
    (_NONE, {}),
    ("0.5 ms interval", {"switch_interval_s": 0.0005}),
    ("fair", {"policy": "fair"}),
    ("priority", {"policy": "priority"}),
)
_WHERE: tuple[Placement, ...] = ("split", "free")
_DURATION_S: dict[Size, float] = {"quick": 0.5, "standard": 2.0, "published": 10.0}
_LEAST = 300
"""The least number of requests for a 99th percentile; with fewer, it depends more on luck than on the server."""


_ANCHORED: tuple[Placement, ...] = ("same",)
"""Anchors run on one core, where no wake-up of another core is waited for: its cost is the least accurate of all."""


def _served(
    series: str, size: Size, count: int, change: dict[str, object], where: tuple[Placement, ...] = _WHERE
) -> Variant:
    return echo(
        series,
        size,
        cpu=count,
        setting=(cpu_threads(count),),
        placements=where,
        unfit=with_a_gil,
        **{**change, "duration_s": _DURATION_S[size]},
    )


def _counting(size: Size) -> Variant:
    return Variant(
        series=_COUNTING,
        setting=(cpu_threads(1),),
        workload="throughput",
        model="threads",
        params={"cpu": 1, "duration_s": _DURATION_S[size]},
        samples=1 if size == "quick" else 3,
        warmups=0 if size == "quick" else 1,
        placements=_ANCHORED,
        unfit=with_a_gil,
    )


def _variants(size: Size) -> list[Variant]:
    counts = _QUICK if size == "quick" else _CPU[1:]
    anchors = [_served(_ALONE, size, 0, {}, _ANCHORED), _counting(size)]
    alone = [_served(series, size, 0, change) for series, change in _CHANGES[: 1 if size == "quick" else None]]
    return [
        *anchors,
        *alone,
        *(_served(series, size, count, change) for count in counts for series, change in _CHANGES),
    ]


_PREDICTIONS = Experiment(
    name="predictions",
    question="How accurate are the simulator's predictions for a server beside CPU-bound threads?",
    method=HOW
    + " Beside the server run 0, 1, 2 or 4 CPU-bound threads: under no policy at the default switch interval, at 0.5 ms, and "
    "under the policies fair and priority. First, the server alone and a CPU-bound thread alone are measured, on one core. "
    "Then the machine's costs are measured. Every other cell is simulated with 9 seeds, and its figures are stored, before "
    "its first launch. Python's time for a request is chosen so that the simulated server alone is as fast as the measured "
    "one; no predicted cell is used for that. A cell that was launched before it was predicted has no prediction.",
    included=IN_FIGURE + " Predicted figures are the median over seeds [least, greatest].",
    metric="requests_per_s",
    unit="per_s",
    shows="levels",
    besides=(("latency_p50_s latency_p99_s latency_max_s", "latency: median, 99th percentile, largest"), WORK),
    baseline=_NONE,
    variants=_variants,
    quick_on=newest_with_gil,
    anchors=(f"{_ALONE}, {cpu_threads(0)}", f"{_COUNTING}, {cpu_threads(1)}"),
    claims=(
        Claim(
            id="predictions/throughput-split",
            text="with the client on its own core, predictions of requests/s are off by at most 6 % at the median",
            evidence=lambda _: [Errors(metric="requests_per_s", relation=below(1.06), placement="split")],
            source="Headway",
            where="gil",
            why="the model includes the tick, the scheduler's lag and the spread of each cost",
            says="Predictions of requests/s by `headway simulate` are off by a factor of {ratio} at the median.",
            denies="Predictions of requests/s by `headway simulate` are off by a factor of {ratio} at the median.",
        ),
        Claim(
            id="predictions/throughput-free",
            text="with everything placed by the system, predictions of requests/s are off by at most 6 % at the median",
            evidence=lambda _: [Errors(metric="requests_per_s", relation=below(1.06), placement="free")],
            source="Headway",
            where="gil",
            why="the core of a wake-up decides which thread gets the GIL, and the model is weakest there",
        ),
        Claim(
            id="predictions/p99",
            text="predictions of the 99th percentile are within a factor of 1.25 at the median",
            evidence=lambda _: [Errors(metric="latency_p99_s", relation=below(1.25), least=_LEAST)],
            source="Headway",
            where="gil",
            why="the model includes what delays a request, a tick or a wait for the GIL",
        ),
        Claim(
            id="predictions/work",
            text="predictions of the work of CPU-bound threads are off by at most 6 % at the median",
            evidence=lambda _: [Errors(metric="work_per_s", relation=below(1.06))],
            source="Headway",
            where="gil",
            why="the server costs them the time that it holds the GIL, and the cost of hand-offs",
        ),
        Claim(
            id="predictions/order",
            text="policies and switch intervals are in the predicted order of requests/s, in 95 % of the pairs that differ",
            evidence=lambda _: [Order(metric="requests_per_s", share=0.95)],
            source="Headway",
            where="gil",
            why="their differences are larger than the errors of the predictions",
            says="The simulator ranks policies and switch intervals as this machine does.",
            advice="Compare them with `headway simulate convoy --sweep policy=none,fair,priority` before trying them.",
        ),
    ),
)

EXPERIMENTS = (_PREDICTIONS,)
