"""The effect of GIL policies on the convoy: every policy beside stock, the best switch interval, and processes."""

from headway.lab.design import (
    Claim,
    Comparison,
    Experiment,
    Level,
    Placement,
    Relation,
    Size,
    Variant,
    above,
    below,
    newest_with_gil,
    with_a_gil,
)
from headway.lab.experiments.convoy import HOW, IN_FIGURE, SPLIT, WORK, echo

__all__ = ["EXPERIMENTS"]

_CPU = (1, 2, 4, 8)
_QUICK = (1, 4)
"""Numbers of CPU-bound threads beside which the other policies are measured at quick size."""
_FAIR = "fair"
_SLICE = "fair, short slice"
_PLAIN = "no policy"
_INTERVAL = "10 us interval"
_PROCESSES = "processes"
_BESIDES = ("stock", "priority", "bfs")
_WHERE: tuple[Placement, ...] = ("split", "free")


def _setting(count: int) -> str:
    return "1 CPU task" if count == 1 else f"{count} CPU tasks"


def _cell(series: str, size: Size, count: int, **more: object) -> Variant:
    return echo(
        series,
        size,
        cpu=count,
        setting=(_setting(count),),
        placements=_WHERE,
        min_requests=3 if size == "quick" else 20,
        unfit=with_a_gil,
        **more,
    )


def _variants(size: Size) -> list[Variant]:
    found = []
    for count in _CPU:
        found.append(_cell(_PLAIN, size, count))
        found.append(_cell(_FAIR, size, count, policy=_FAIR))
        found.append(_cell(_SLICE, size, count, policy=_FAIR, policy_options="os_slice_us=100"))
        if size != "quick" or count in _QUICK:
            found += [_cell(name, size, count, policy=name) for name in _BESIDES]
        found.append(_cell(_INTERVAL, size, count, switch_interval_s=1e-5))
        found.append(_cell(_PROCESSES, size, count, beside="processes"))
    return found


def _compare(
    counts: tuple[int, ...], bottom: str, relation: Relation, metric: str = "", top: str = _FAIR
) -> list[Comparison]:
    return [
        Comparison(
            top=f"{top}, {_setting(count)}", bottom=f"{bottom}, {_setting(count)}", relation=relation, metric=metric
        )
        for count in counts
    ]


_POLICIES = Experiment(
    name="policies",
    question="How much do GIL policies help the server, and how much do they cost CPU-bound threads?",
    method=HOW
    + " Beside the server run 1, 2, 4 or 8 CPU-bound threads: under no policy, under each of Headway's policies (headway run "
    "--policy), and with a switch interval of 10 us, the best for the server. As many CPU-bound processes are the "
    "comparison. The short slice is the operating system's time slice of threads that hardly hold the GIL: --option "
    "os_slice_us=100, Linux 6.12 and later." + SPLIT + " Under `free` the system places all threads.",
    included=IN_FIGURE,
    metric="requests_per_s",
    unit="per_s",
    shows="levels",
    besides=(
        ("latency_p50_s latency_p99_s latency_max_s", "latency: median, 99th percentile, largest"),
        WORK,
        ("evenness", "how evenly the CPU-bound threads share the work: Jain's index, 1 is even"),
        ("idle_share", "share of the time that the GIL was free while a thread waited for it (the policy's own count)"),
        ("worst_wait_s", "longest wait of any thread for the GIL (the policy's own count)"),
    ),
    baseline=_PLAIN,
    variants=_variants,
    sources=("C3",),
    quick_on=newest_with_gil,
    claims=(
        Claim(
            id="policies/fair-beats-none",
            text="beside one CPU-bound thread, the server answers twenty times more under `fair` than under no policy",
            evidence=lambda _: _compare((1,), _PLAIN, above(20)),
            source="Headway",
            where="gil",
            why="the policy requests the GIL for the server's thread at once, and not after a switch interval",
            says="Scheduling the GIL (`headway run`) lets a server beside a CPU-bound thread answer {ratio} times more.",
            advice="Try `headway run app.py`, which needs no change of code; `headway policies` describes the policies.",
        ),
        Claim(
            id="policies/fair-beats-intervals",
            text="the server answers more under `fair` than with the best switch interval",
            evidence=lambda _: _compare(_CPU, _INTERVAL, above(1)),
            source="Headway",
            where="gil",
            why="no thread waits for a switch interval, and the policy wakes only the next thread",
        ),
        Claim(
            id="policies/fair-like-processes",
            text="the server answers at least 0.8 as much under `fair` as beside the same work in processes",
            evidence=lambda _: _compare(_CPU, _PROCESSES, above(0.8)),
            source="Headway",
            where="gil",
            why="the operating system schedules threads and processes alike, and only the hand-off of the GIL costs extra",
            denies="With the work in processes the server still answers more than under `fair`, which reaches {ratio} of that.",
        ),
        Claim(
            id="policies/fair-latency",
            text="under `fair` the 99th percentile is at most three times that beside processes",
            evidence=lambda _: _compare(_CPU, _PROCESSES, below(3), "latency_p99_s"),
            source="Headway",
            where="gil",
            why="a request waits until the CPU-bound thread notices the request for the GIL, and not for a switch interval",
        ),
        Claim(
            id="policies/slice-like-processes",
            text="with a short slice (os_slice_us) the server answers at least 0.8 as much as beside the same work in processes",
            evidence=lambda _: _compare(_CPU, _PROCESSES, above(0.8), top=_SLICE),
            source="Headway",
            where="gil",
            why="a thread with a short slice gets the core when it wakes up, and the holder of the GIL yields to it",
        ),
        Claim(
            id="policies/slice-latency",
            text="with a short slice the 99th percentile is at most three times that beside processes",
            evidence=lambda _: _compare(_CPU, _PROCESSES, below(3), "latency_p99_s", top=_SLICE),
            source="Headway",
            where="gil",
            why="the wake-up of the server's thread does not wait for the operating system's tick",
        ),
        Claim(
            id="policies/fair-is-even",
            text="under `fair` CPU-bound threads share the remaining time evenly",
            evidence=lambda _: [
                Level(label=f"{_FAIR}, {_setting(4)}", metric="evenness", relation=above(0.95)),
            ],
            source="Headway",
            where="gil",
            why="the CPU-bound thread that has used the least time goes first",
        ),
    ),
)

EXPERIMENTS = (_POLICIES,)
