"""The effect of the switch interval: convoy-switch-interval and countdown-switch-interval (C4, C5)."""

from headway.lab.design import (
    Claim,
    Comparison,
    Experiment,
    Published,
    Size,
    Variant,
    above,
    below,
    between,
    both_kinds,
    with_a_gil,
)
from headway.lab.experiments.convoy import HOW, IN_FIGURE, SPLIT, WORK, cpu_threads, echo
from headway.lab.experiments.cpu import thread_count

__all__ = ["EXPERIMENTS"]

# ---------------------------------------------------------------- convoy-switch-interval
_INTERVALS_S = (0.1, 0.01, 0.005, 0.001, 0.0001, 0.00001, 0.000001)


def _interval_name(interval_s: float) -> str:
    """Return a switch interval in words: "5 ms"."""
    for limit, factor, unit in ((1e-3, 1e6, "us"), (0.1, 1e3, "ms")):
        if interval_s < limit:
            return f"{interval_s * factor:g} {unit}"
    return f"{interval_s:g} s"


def _at(count: int, interval_s: float) -> str:
    return f"{cpu_threads(count)}, {_interval_name(interval_s)}"


def _switch_interval(size: Size) -> list[Variant]:
    return [
        echo(
            cpu_threads(count),
            size,
            cpu=count,
            setting=(_interval_name(interval_s),),
            switch_interval_s=interval_s,
            min_requests=2 if size == "quick" else 20,
            unfit=with_a_gil,
        )
        for interval_s in _INTERVALS_S
        for count in (0, 1, 2, 4)
    ]


def _between_intervals(count: int, long_s: float, short_s: float, low: float, high: float) -> Comparison:
    return Comparison(top=_at(count, short_s), bottom=_at(count, long_s), relation=between(low, high))


_SWITCH_INTERVAL = Experiment(
    name="convoy-switch-interval",
    question="How much does a shorter switch interval help the server?",
    method=HOW
    + " There are seven switch intervals, from 0.1 s to 1 us, each with 0, 1, 2 and 4 CPU-bound threads."
    + SPLIT,
    included=IN_FIGURE,
    metric="requests_per_s",
    unit="per_s",
    shows="levels",
    besides=(("latency_p50_s latency_p99_s", "latency: median, 99th percentile"), WORK),
    baseline="0 CPU threads",
    variants=_switch_interval,
    sources=("C4",),
    quick_on=both_kinds,
    claims=(
        Claim(
            id="convoy-switch-interval/in-proportion",
            text="requests/s grows in proportion to 1/interval from 0.1 s to 1 ms",
            evidence=lambda _: [
                _between_intervals(1, 0.1, 0.01, 7, 13),
                _between_intervals(1, 0.01, 0.001, 7, 13),
            ],
            source="C4",
            published=(
                Published("C4", "0.01/cpu_1", "0.1/cpu_1"),
                Published("C4", "0.001/cpu_1", "0.01/cpu_1"),
            ),
            where="gil",
            why="every request waits for one interval",
        ),
        Claim(
            id="convoy-switch-interval/switching-dominates",
            text="an interval of 1 us gives hardly more requests/s (1.3 times at most) than one of 10 us",
            evidence=lambda _: [Comparison(top=_at(1, 0.000001), bottom=_at(1, 0.00001), relation=below(1.3))],
            source="C4",
            published=(Published("C4", "1e-06/cpu_1", "1e-05/cpu_1"),),
            where="gil",
            why="waking a thread and switching to it takes longer than the interval",
        ),
        Claim(
            id="convoy-switch-interval/never-idle",
            text="no switch interval restores the throughput that one CPU-bound thread costs",
            evidence=lambda _: [
                Comparison(top=_at(1, interval_s), bottom=_at(0, interval_s), relation=below(0.8))
                for interval_s in (0.00001, 0.000001)
            ],
            source="C4",
            published=(Published("C4", "1e-05/cpu_1", "1e-05/cpu_0"),),
            where="gil",
            why="each request still waits until the CPU-bound thread is preempted",
            says="With the shortest switch intervals, the server answers {ratio} of its requests/s without a CPU-bound thread.",
        ),
        Claim(
            id="convoy-switch-interval/doubling-halves",
            text="twice as many CPU-bound threads halve the requests/s",
            evidence=lambda _: [
                Comparison(top=_at(2, 0.005), bottom=_at(1, 0.005), relation=between(0.35, 0.65)),
                Comparison(top=_at(4, 0.005), bottom=_at(2, 0.005), relation=between(0.35, 0.65)),
            ],
            source="C4",
            published=(
                Published("C4", "0.005/cpu_2", "0.005/cpu_1"),
                Published("C4", "0.005/cpu_4", "0.005/cpu_2"),
            ),
            where="gil",
            why="all CPU-bound threads hold the GIL in turn before the server acquires it again",
        ),
    ),
)


# ---------------------------------------------------------------- countdown-switch-interval
def _countdown_at(count: int, interval_s: float) -> str:
    return f"{thread_count(count)}, {_interval_name(interval_s)}"


def _countdown_interval(size: Size) -> list[Variant]:
    n = {"quick": 2_000_000, "standard": 20_000_000, "published": 100_000_000}[size]
    return [
        Variant(
            series=thread_count(count),
            setting=(_interval_name(interval_s),),
            workload="countdown",
            model="threads",
            params={"n": n, "threads": count, "switch_interval_s": interval_s},
            samples=1 if size == "published" else 2,
            warmups=0,
            unfit=with_a_gil,
        )
        for interval_s in _INTERVALS_S
        for count in (1, 2, 4, 8)
    ]


_COUNTDOWN_INTERVAL = Experiment(
    name="countdown-switch-interval",
    question="How much does a shorter switch interval cost CPU-bound threads?",
    method=(
        "N decrements are split evenly over 1, 2, 4 and 8 threads, at seven switch intervals from 0.1 s to 1 us. N is "
        "2,000,000 quick, 20,000,000 standard, 100,000,000 published."
    ),
    included="From the first submit to the last result; the pool has started before.",
    baseline="1 thread",
    turns=True,
    variants=_countdown_interval,
    sources=("C5",),
    quick_on=both_kinds,
    claims=(
        Claim(
            id="countdown-switch-interval/short-is-slow",
            text="an interval of 10 us makes eight CPU-bound threads several times slower",
            evidence=lambda _: [
                Comparison(top=_countdown_at(8, 0.00001), bottom=_countdown_at(8, 0.005), relation=above(2))
            ],
            source="C5",
            published=(Published("C5", "1e-05/threads_8", "0.005/threads_8"),),
            where="gil",
            why="the threads spend their time on hand-offs of the GIL",
            says="A switch interval of 10 us makes eight CPU-bound threads {ratio} times slower than the default of 5 ms.",
            denies="A switch interval of 10 us slows eight CPU-bound threads by less than a factor of two here: {ratio}.",
            advice="Do not set a switch interval below 1 ms to help I/O-bound threads, because the CPU-bound threads pay for it.",
        ),
        Claim(
            id="countdown-switch-interval/long-is-free",
            text="switch intervals of 1 ms and more make no difference to CPU-bound threads",
            evidence=lambda _: [
                Comparison(top=_countdown_at(8, 0.1), bottom=_countdown_at(8, 0.005), relation=between(0.8, 1.2)),
                Comparison(top=_countdown_at(8, 0.001), bottom=_countdown_at(8, 0.005), relation=between(0.8, 1.2)),
            ],
            source="C5",
            published=(
                Published("C5", "0.1/threads_8", "0.005/threads_8"),
                Published("C5", "0.001/threads_8", "0.005/threads_8"),
            ),
            where="gil",
            why="a small number of switches costs little",
        ),
    ),
)

EXPERIMENTS = (_SWITCH_INTERVAL, _COUNTDOWN_INTERVAL)
