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
    "the GIL for milliseconds), and bz2 compression (`bz2`: C that lets go of the GIL)"
)
_HOW = (
    " Under no policy and under each of Headway's (headway run --policy); at quick size only none and `fair`, and fewer "
    "threads. "
    "Everything runs where the system likes."
)
_SERVED = " The client is Headway's load client, in C, in a process of its own."
_WORK = ("work_per_s", "units of the task that the background threads did a second: compare within a task")


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
    question="Do threads get more of a task done, under each policy, and does a policy cost any of it?",
    method=f"One thread to four do one of three tasks over and over: {_WHAT}.{_HOW}",
    included="Units of the task done a second, together, as a ratio to one thread's. Starting the threads is in none.",
    metric="work_per_s",
    unit="per_s",
    besides=(
        ("work_per_s", "units done a second: compare within a task"),
        ("evenness", "how evenly the threads share the work: Jain's index, 1 is even"),
    ),
    baseline=thread_count(1),
    variants=_throughput,
    divides="cpu",
    quick_on=newest_with_gil,
    claims=(
        Claim(
            id="ccbench-throughput/no-gain-with-the-gil",
            text="two threads of a task that keeps the GIL get no more done than one",
            evidence=lambda _: [_scaling(task, below(1.1)) for task in ("pidigits", "regex")],
            source=_SOURCE,
            where="gil",
            why="one thread at a time has the GIL, in Python code and in C that keeps it",
        ),
        Claim(
            id="ccbench-throughput/bz2-gains",
            text="two threads of bz2 get at least 1.5 times as much done as one",
            evidence=lambda machine: _with_two_cores(machine, _scaling("bz2", above(1.5))),
            source=_SOURCE,
            why="they compress without the GIL, each on a core",
        ),
        Claim(
            id="ccbench-throughput/fair-costs-little",
            text="under `fair` two threads get at least 0.9 of the work done that they do under no policy",
            evidence=lambda _: [
                Comparison(top=_cell(_BUSY, task, _FAIR), bottom=_cell(_BUSY, task, _PLAIN), relation=above(0.9))
                for task in _TASKS
            ],
            source="Headway",
            where="gil",
            why="a policy has its say only where the GIL is handed over, and gives threads that compute longer turns",
            denies="A policy costs the work itself: under `fair` {ratio} of it gets done.",
        ),
        Claim(
            id="ccbench-throughput/free-threaded",
            text="without a GIL two threads of Python code get at least 1.5 times as much done as one",
            evidence=lambda machine: _with_two_cores(machine, _scaling("pidigits", above(1.5))),
            source="Headway",
            where="free-threaded",
            why="there is no GIL to take turns with",
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
    question="How long does a datagram wait for a thread beside others that compute, under each policy?",
    method=(
        "A thread waits for a datagram of one byte, which comes every 100 ms (40 ms quick), and sends it back. Beside it "
        f"0, 1, 2 or 4 threads do one of three tasks: {_WHAT}. ccbench measures one way, from the sender's stamp to the "
        "receiving thread's; this is the round trip, from when the datagram was due. The thread waits for the GIL before "
        "it answers and not on the way back, so the round trip is longer by the way back alone." + _SERVED + _HOW
    ),
    included="From when a datagram was due to when it came back. Those answered after the measured time count too.",
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
            why="the thread that has the GIL lets go of it an interval after it was first asked, and not always to us",
        ),
        Claim(
            id="ccbench-latency/bz2-lets-go",
            text="beside threads of bz2 the median latency is at most a fifth of that beside Python code",
            evidence=lambda _: [_pings(_ping(_PLAIN, "bz2"), _ping(_PLAIN, "pidigits"), below(0.2))],
            source=_SOURCE,
            where="gil",
            why="they need the GIL only between two units",
        ),
        Claim(
            id="ccbench-latency/fair-beside-python",
            text="under `fair` the median latency beside Python code is at most a tenth of that under no policy",
            evidence=lambda _: [_pings(_ping(_FAIR, "pidigits"), _ping(_PLAIN, "pidigits"), below(0.1))],
            source="Headway",
            where="gil",
            why="the thread that has the GIL is asked for it at once, and the one that waits for datagrams is next",
            says="Under `fair` the median datagram beside two threads of Python code takes {ratio} of the time it takes without.",
        ),
        Claim(
            id="ccbench-latency/fair-beside-regex",
            text="under `fair` the median latency beside a regular expression is at most half of that under no policy",
            evidence=lambda _: [_pings(_ping(_FAIR, "regex"), _ping(_PLAIN, "regex"), below(0.5))],
            source="Headway",
            where="gil",
            why="the datagram waits until the call ends, and not for an interval and the next call's end",
        ),
        Claim(
            id="ccbench-latency/no-policy-ends-a-call",
            text="under `fair` the median latency beside a regular expression is at least twice that beside Python code",
            evidence=lambda _: [_pings(_ping(_FAIR, "regex"), _ping(_FAIR, "pidigits"), above(2))],
            source="Headway",
            where="gil",
            why="no policy takes the GIL from a call in C that keeps it",
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
    question="How many datagrams does a thread echo beside others that compute, under each policy?",
    method=(
        f"A thread sends datagrams of 1 KiB back; {_IN_FLIGHT} are under way at any time, so that it seldom waits for the "
        f"client. Beside it 0, 1, 2 or 4 threads do one of three tasks: {_WHAT}." + _SERVED + _HOW
    ),
    included="Datagrams that came back a second, as a ratio to those with no thread beside.",
    metric="requests_per_s",
    unit="per_s",
    besides=(("requests_per_s", "datagrams that came back a second"), _WORK),
    baseline=thread_count(0),
    variants=_bandwidth,
    quick_on=newest_with_gil,
    claims=(
        Claim(
            id="ccbench-bandwidth/collapses",
            text="two threads of a task that keeps the GIL leave less than a tenth of the datagrams",
            evidence=lambda _: [_kept(task, _PLAIN, below(0.1)) for task in ("pidigits", "regex")],
            source=_SOURCE,
            where="gil",
            why="recvfrom and sendto let go of the GIL, and once another thread has it, getting it back takes a switch interval",
        ),
        Claim(
            id="ccbench-bandwidth/bz2-lets-go",
            text="two threads of bz2 leave ten times what two of Python code leave",
            evidence=lambda _: [
                Comparison(top=_cell(_BUSY, "bz2", _PLAIN), bottom=_cell(_BUSY, "pidigits", _PLAIN), relation=above(10))
            ],
            source=_SOURCE,
            where="gil",
            why="they need the GIL only between two units",
        ),
        Claim(
            id="ccbench-bandwidth/fair-beside-python",
            text="under `fair` at least five times as many datagrams come back beside two threads of Python code",
            evidence=lambda _: [
                Comparison(
                    top=_cell(_BUSY, "pidigits", _FAIR), bottom=_cell(_BUSY, "pidigits", _PLAIN), relation=above(5)
                )
            ],
            source="Headway",
            where="gil",
            why="who answers gets the GIL back at once",
            says="Under `fair` {ratio} times as many datagrams come back beside two threads of Python code.",
        ),
        Claim(
            id="ccbench-bandwidth/fair-beside-regex",
            text="and at least twice as many beside two of a regular expression",
            evidence=lambda _: [
                Comparison(top=_cell(_BUSY, "regex", _FAIR), bottom=_cell(_BUSY, "regex", _PLAIN), relation=above(2))
            ],
            source="Headway",
            where="gil",
            why="it waits for the end of one call in C, not for an interval and the next call",
        ),
    ),
)

EXPERIMENTS = (_THROUGHPUT, _LATENCY, _BANDWIDTH)
