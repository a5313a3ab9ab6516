"""The three measures of ccbench (Antoine Pitrou, Tools/ccbench in CPython up to 3.11), with and without policies."""

from collections.abc import Callable, Sequence

from headway.host.interpreters import Interpreter
from headway.host.machine import Machine
from headway.lab.design import (
    Claim,
    Comparison,
    Experiment,
    Level,
    Relation,
    Size,
    Variant,
    above,
    below,
    newest_with_gil,
    with_a_gil,
)
from headway.lab.experiments.convoy import echo
from headway.lab.experiments.cpu import thread_count

__all__ = ["EXPERIMENTS"]

_SOURCE = "ccbench"
_TASKS = ("pidigits", "regex", "bz2")
_PLAIN = "no policy"
_FAIR = "fair"
_POLICIES = (_PLAIN, _FAIR, "stock", "priority", "bfs")
_BACKGROUND = (0, 1, 2, 4)
_BUSY = 2
"""Background threads in quick size and in claims: more than one, so that they also hand the GIL to each other."""

_WHAT = (
    "digits of pi (`pidigits`: Python code over long integers), a regular expression over a text (`regex`: C that keeps "
    "the GIL for milliseconds), and bz2 compression (`bz2`: C that releases the GIL)"
)
_HOW = (
    " Each case runs under no policy and under each of Headway's policies (headway run --policy); quick size has only none "
    "and `fair`, and fewer threads. The system places everything."
)
_SERVED = " The client is Headway's load client, in C, in its own process."
_WORK = ("work_per_s", "units of the task that the background threads complete per second: compare within a task")


def _policies(size: Size) -> tuple[str, ...]:
    return _POLICIES[:2] if size == "quick" else _POLICIES


def _named(policy: str) -> str:
    """Return the policy's name in `headway run --policy`; "" where there is none."""
    return "" if policy == _PLAIN else policy


def _unfit(policy: str) -> Callable[[Interpreter], str]:
    return with_a_gil if _named(policy) else lambda _: ""


def _duration_s(size: Size) -> float:
    return {"quick": 0.2, "standard": 1.0, "published": 2.0}[size]


def _cell(count: int, task: str, policy: str) -> str:
    return f"{thread_count(count)}, {task}, {policy}"


# ---------------------------------------------------------------- ccbench-throughput
def _throughput(size: Size) -> list[Variant]:
    counts = (1, _BUSY) if size == "quick" else (1, 2, 3, 4)
    return [
        Variant(
            series=thread_count(count),
            setting=(task, policy),
            workload="throughput",
            model="threads",
            params={
                "cpu": count,
                "unit": task,
                "policy": _named(policy),
                "duration_s": _duration_s(size),
            },
            samples=1 if size == "quick" else 3,
            warmups=0 if size == "quick" else 1,
            unfit=_unfit(policy),
        )
        for task in _TASKS
        for policy in _policies(size)
        for count in counts
    ]


def _scaling(task: str, relation: Relation) -> Comparison:
    return Comparison(top=_cell(_BUSY, task, _PLAIN), bottom=_cell(1, task, _PLAIN), relation=relation)


def _with_two_cores(machine: Machine, comparison: Comparison) -> Sequence[Comparison]:
    return [comparison] if len(machine.cores) >= _BUSY else []


_THROUGHPUT = Experiment(
    name="ccbench-throughput",
    question="Do more threads complete more work, under each policy, and does a policy cost throughput?",
    method=f"One to four threads repeat one of three tasks: {_WHAT}.{_HOW}",
    included="Units of the task that all threads complete per second, as a ratio to one thread. The start of threads does not count.",
    metric="work_per_s",
    unit="per_s",
    besides=(
        ("work_per_s", "units completed per second: compare within a task"),
        ("evenness", "how evenly the threads share the work: Jain's index, 1 is even"),
    ),
    baseline=thread_count(1),
    variants=_throughput,
    divides="cpu",
    quick_on=newest_with_gil,
    claims=(
        Claim(
            id="ccbench-throughput/no-gain-with-the-gil",
            text="two threads of a task that keeps the GIL complete no more work than one",
            evidence=lambda _: [_scaling(task, below(1.1)) for task in ("pidigits", "regex")],
            source=_SOURCE,
            where="gil",
            why="one thread at a time holds the GIL, in Python code and in C code that keeps it",
        ),
        Claim(
            id="ccbench-throughput/bz2-gains",
            text="two threads of bz2 complete at least 1.5 times as much work as one",
            evidence=lambda machine: _with_two_cores(machine, _scaling("bz2", above(1.5))),
            source=_SOURCE,
            why="the threads compress without the GIL, each on its own core",
        ),
        Claim(
            id="ccbench-throughput/fair-costs-little",
            text="two threads complete at least 0.9 as much work under `fair` as under no policy",
            evidence=lambda _: [
                Comparison(top=_cell(_BUSY, task, _FAIR), bottom=_cell(_BUSY, task, _PLAIN), relation=above(0.9))
                for task in _TASKS
            ],
            source="Headway",
            where="gil",
            why="a policy acts only at hand-offs of the GIL, and gives CPU-bound threads longer turns",
            denies="A policy costs throughput: under `fair` the threads complete {ratio} of the work.",
        ),
        Claim(
            id="ccbench-throughput/free-threaded",
            text="without a GIL two threads of Python code complete at least 1.5 times as much work as one",
            evidence=lambda machine: _with_two_cores(machine, _scaling("pidigits", above(1.5))),
            source="Headway",
            where="free-threaded",
            why="there is no GIL for which the threads take turns",
        ),
    ),
)


# ---------------------------------------------------------------- ccbench-latency
_ALONE = "alone"


def _beside(count: int, task: str) -> str:
    return f"{count} {task} thread{'s' * (count > 1)}" if count else _ALONE


def _latency(size: Size) -> list[Variant]:
    counts = (_BUSY,) if size == "quick" else _BACKGROUND[1:]
    period_s, duration_s = {"quick": (0.04, 0.4), "standard": (0.1, 1.0), "published": (0.1, 2.0)}[size]
    return [
        echo(
            policy,
            size,
            setting=(_beside(count, task),),
            cpu=count,
            unit=task,
            policy=_named(policy),
            placements=("free",),
            unfit=_unfit(policy),
            transport="udp",
            rate_per_s=1 / period_s,
            arrivals="uniform",
            duration_s=duration_s,
        )
        for count, task in [(0, "count"), *((count, task) for task in _TASKS for count in counts)]
        for policy in _policies(size)
    ]


def _ping(policy: str, task: str) -> str:
    return f"{policy}, {_beside(_BUSY, task)}"


def _pings(top: str, bottom: str, relation: Relation) -> Comparison:
    # Medians are compared: where other programs take the cores, a few datagrams that waited for them dominate the mean.
    return Comparison(top=top, bottom=bottom, metric="latency_p50_s", relation=relation)


_LATENCY = Experiment(
    name="ccbench-latency",
    question="How long does a datagram wait for a thread beside CPU-bound threads, under each policy?",
    method=(
        "A thread waits for a datagram of one byte, which comes every 100 ms (40 ms quick), and sends it back. Beside it, "
        f"0, 1, 2 or 4 threads run one of three tasks: {_WHAT}. ccbench measures one way, from the sender's time stamp to "
        "the receiver's; this experiment measures the round trip, from the time at which the datagram was due. The thread "
        "waits for the GIL before it answers and not on the way back, so only the way back makes the round trip longer."
        + _SERVED
        + _HOW
    ),
    included="From the time at which a datagram was due until it came back. Datagrams answered after the measured time count, too.",
    metric="latency_mean_s",
    unit="s",
    shows="levels",
    besides=(
        ("latency_sd_s", "latency: standard deviation"),
        ("latency_p50_s latency_p99_s latency_max_s", "latency: median, 99th percentile, largest"),
        _WORK,
    ),
    baseline=_PLAIN,
    variants=_latency,
    quick_on=newest_with_gil,
    claims=(
        Claim(
            id="ccbench-latency/an-interval",
            text="beside threads of Python code the median datagram waits for a switch interval or longer",
            evidence=lambda _: [
                Level(label=_ping(_PLAIN, "pidigits"), metric="latency_p50_s", relation=above(0.005)),
            ],
            source=_SOURCE,
            where="gil",
            why="the holder releases the GIL a switch interval after the first request, and not always to this thread",
        ),
        Claim(
            id="ccbench-latency/bz2-lets-go",
            text="beside threads of bz2 the median latency is at most a fifth of that beside Python code",
            evidence=lambda _: [_pings(_ping(_PLAIN, "bz2"), _ping(_PLAIN, "pidigits"), below(0.2))],
            source=_SOURCE,
            where="gil",
            why="bz2 threads need the GIL only between two units",
        ),
        Claim(
            id="ccbench-latency/fair-beside-python",
            text="under `fair` the median latency beside Python code is at most a tenth of that under no policy",
            evidence=lambda _: [_pings(_ping(_FAIR, "pidigits"), _ping(_PLAIN, "pidigits"), below(0.1))],
            source="Headway",
            where="gil",
            why="the policy requests the GIL at once, and the thread that waits for datagrams is next",
            says="Under `fair` the median datagram beside two threads of Python code takes {ratio} of the time without a policy.",
        ),
        Claim(
            id="ccbench-latency/fair-beside-regex",
            text="under `fair` the median latency beside a regular expression is at most half of that under no policy",
            evidence=lambda _: [_pings(_ping(_FAIR, "regex"), _ping(_PLAIN, "regex"), below(0.5))],
            source="Headway",
            where="gil",
            why="the datagram waits until the call ends, and not for a switch interval and the end of the next call",
        ),
        Claim(
            id="ccbench-latency/no-policy-ends-a-call",
            text="under `fair` the median latency beside a regular expression is at least twice that beside Python code",
            evidence=lambda _: [_pings(_ping(_FAIR, "regex"), _ping(_FAIR, "pidigits"), above(2))],
            source="Headway",
            where="gil",
            why="no policy can preempt a C call that keeps the GIL",
            says="Beside C code that keeps the GIL the median datagram takes {ratio} times as long as beside Python code, under `fair`.",
        ),
    ),
)


# ---------------------------------------------------------------- ccbench-bandwidth
_IN_FLIGHT = 16


def _bandwidth(size: Size) -> list[Variant]:
    return [
        echo(
            thread_count(count),
            size,
            setting=(task, policy),
            cpu=count,
            unit=task,
            policy=_named(policy),
            placements=("free",),
            unfit=_unfit(policy),
            transport="udp",
            message_bytes=1024,
            connections=_IN_FLIGHT,
            duration_s=_duration_s(size),
        )
        for task in _TASKS
        for policy in _policies(size)
        for count in ((0, _BUSY) if size == "quick" else _BACKGROUND)
    ]


def _kept(task: str, policy: str, relation: Relation) -> Comparison:
    return Comparison(top=_cell(_BUSY, task, policy), bottom=_cell(0, task, policy), relation=relation)


_BANDWIDTH = Experiment(
    name="ccbench-bandwidth",
    question="How many datagrams does a thread echo beside CPU-bound threads, under each policy?",
    method=(
        f"A thread sends datagrams of 1 KiB back; {_IN_FLIGHT} are under way at any time, so that the thread seldom waits for "
        f"the client. Beside it, 0, 1, 2 or 4 threads run one of three tasks: {_WHAT}." + _SERVED + _HOW
    ),
    included="Datagrams that came back per second, as a ratio to the number without other threads.",
    metric="requests_per_s",
    unit="per_s",
    besides=(("requests_per_s", "datagrams that came back per second"), _WORK),
    baseline=thread_count(0),
    variants=_bandwidth,
    quick_on=newest_with_gil,
    claims=(
        Claim(
            id="ccbench-bandwidth/collapses",
            text="beside two threads of a task that keeps the GIL, less than a tenth of the datagrams come back",
            evidence=lambda _: [_kept(task, _PLAIN, below(0.1)) for task in ("pidigits", "regex")],
            source=_SOURCE,
            where="gil",
            why="recvfrom and sendto release the GIL, and once another thread holds it, acquiring it again takes a switch interval",
        ),
        Claim(
            id="ccbench-bandwidth/bz2-lets-go",
            text="ten times as many datagrams come back beside two threads of bz2 as beside two threads of Python code",
            evidence=lambda _: [
                Comparison(top=_cell(_BUSY, "bz2", _PLAIN), bottom=_cell(_BUSY, "pidigits", _PLAIN), relation=above(10))
            ],
            source=_SOURCE,
            where="gil",
            why="bz2 threads need the GIL only between two units",
        ),
        Claim(
            id="ccbench-bandwidth/fair-beside-python",
            text="at least five times as many datagrams come back under `fair`, beside two threads of Python code",
            evidence=lambda _: [
                Comparison(
                    top=_cell(_BUSY, "pidigits", _FAIR), bottom=_cell(_BUSY, "pidigits", _PLAIN), relation=above(5)
                )
            ],
            source="Headway",
            where="gil",
            why="the answering thread acquires the GIL again at once",
            says="Under `fair` {ratio} times as many datagrams come back beside two threads of Python code.",
        ),
        Claim(
            id="ccbench-bandwidth/fair-beside-regex",
            text="at least twice as many datagrams come back under `fair`, beside two threads of a regular expression",
            evidence=lambda _: [
                Comparison(top=_cell(_BUSY, "regex", _FAIR), bottom=_cell(_BUSY, "regex", _PLAIN), relation=above(2))
            ],
            source="Headway",
            where="gil",
            why="the answering thread waits for the end of one C call, and not for a switch interval and the next call",
        ),
    ),
)

EXPERIMENTS = (_THROUGHPUT, _LATENCY, _BANDWIDTH)
