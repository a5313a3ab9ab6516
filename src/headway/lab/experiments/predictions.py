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
    question="How far off is what the simulator says of a server beside CPU-bound threads?",
    method=HOW
    + " Beside it run 0, 1, 2 or 4 CPU-bound threads: under no policy at the usual switch interval, at 0.5 ms, and under the "
    "policies fair and priority. The server alone and a CPU-bound thread alone are measured first, all on one core. Then the "
    "machine's costs are measured, and every other cell is simulated with 9 seeds and its figures stored, before its first "
    "launch. Python's time for a request is what makes the simulated server alone as quick as the measured one; no "
    "predicted cell is looked at. A cell that was launched before it was predicted has no prediction.",
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
            text="with the client on a core of its own, predictions of requests/s are off by at most 6 % at the median",
            evidence=lambda _: [Errors(metric="requests_per_s", relation=below(1.06), placement="split")],
            source="Headway",
            where="gil",
            why="the tick, the scheduler's lag and each cost's spread are in the model",
            says="What `headway simulate` says of requests/s is off by a factor of {ratio} at the median.",
            denies="What `headway simulate` says of requests/s is off by a factor of {ratio} at the median.",
        ),
        Claim(
            id="predictions/throughput-free",
            text="with all of it anywhere, predictions of requests/s are off by at most 6 % at the median",
            evidence=lambda _: [Errors(metric="requests_per_s", relation=below(1.06), placement="free")],
            source="Headway",
            where="gil",
            why="where a wake-up goes decides who has the GIL, and the model has that worst",
        ),
        Claim(
            id="predictions/p99",
            text="predictions of the 99th percentile are within a factor of 1.25 at the median",
            evidence=lambda _: [Errors(metric="latency_p99_s", relation=below(1.25), least=_LEAST)],
            source="Headway",
            where="gil",
            why="what makes a request late, a tick or a wait for the GIL, is in the model",
        ),
        Claim(
            id="predictions/work",
            text="predictions of what CPU-bound threads get done are off by at most 6 % at the median",
            evidence=lambda _: [Errors(metric="work_per_s", relation=below(1.06))],
            source="Headway",
            where="gil",
            why="what a server takes from them is the time that it has the GIL, and what hand-overs cost",
        ),
        Claim(
            id="predictions/order",
            text="policies and switch intervals are in the predicted order of requests/s, in 95 % of the pairs that differ",
            evidence=lambda _: [Order(metric="requests_per_s", share=0.95)],
            source="Headway",
            where="gil",
            why="they differ by more than predictions are off",
            says="The simulator puts policies and switch intervals in the order that they have on this machine.",
            advice="Compare them with `headway simulate convoy --sweep policy=none,fair,priority` before trying them.",
        ),
    ),
)

EXPERIMENTS = (_PREDICTIONS,)
