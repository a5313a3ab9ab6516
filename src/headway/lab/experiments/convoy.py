"""The convoy effect: an echo server beside CPU-bound threads (source C, and the cases T3 to T5 of bpo-7946)."""

from collections.abc import Mapping

from headway.lab.design import (
    Claim,
    Comparison,
    Experiment,
    Level,
    Placement,
    Published,
    Size,
    Variant,
    above,
    below,
    between,
    both_kinds,
    newest_with_gil,
    with_a_gil,
)

__all__ = ["EXPERIMENTS", "HOW", "IN_FIGURE", "SPLIT", "WORK", "cpu_threads", "echo"]

_CPU = (0, 1, 2, 4, 8)
_DURATION_S: dict[Size, float] = {"quick": 0.15, "standard": 1.0, "published": 5.0}
_ALONE = "1-byte"
_IN_PROCESSES = "separate processes"

HOW = (
    "The server runs in the measured interpreter, with a thread per connection. The client is Headway's load client, in C, "
    "in its own process: closed loop, one connection, 1-byte messages."
)
SPLIT = " Under `split` the server and the CPU-bound work share a core, and the client has another core."
_LATENCIES = (("latency_p50_s latency_p99_s latency_max_s", "latency: median, 99th percentile, largest"),)
WORK = ("work_per_s", "work of the CPU-bound threads or processes: thousands of loop iterations a second")
IN_FIGURE = (
    "Requests answered per second, from the first request to the last answer. Connecting and starting do not count."
)


def echo(series: str, size: Size, *, cpu: int, setting: tuple[str, ...] = (), **more: object) -> Variant:
    """Return a variant of the echo server beside `cpu` CPU-bound threads or processes."""
    placements: tuple[Placement, ...] = more.pop("placements", ("split",))  # type: ignore[assignment]
    unfit = more.pop("unfit", lambda _: "")
    return Variant(
        series=series,
        setting=setting,
        workload="convoy",
        model="processes-spawn" if more.get("beside") == "processes" else "threads",
        params={
            "cpu": cpu,
            "duration_s": _DURATION_S[size],
            "min_requests": 5 if size == "quick" else 20,
            **more,
        },
        samples=1 if size == "quick" else 3,
        warmups=0 if size == "quick" else 1,
        placements=placements,
        unfit=unfit,  # type: ignore[arg-type]
    )


def _tasks(count: int) -> str:
    return "1 CPU task" if count == 1 else f"{count} CPU tasks"


_HALF_MS = ("1 CPU task", "0.5 ms interval")
_SHORT = ", ".join(("threads", *_HALF_MS))


def _convoy(size: Size) -> list[Variant]:
    threads = [echo("threads", size, cpu=count, setting=(_tasks(count),)) for count in _CPU]
    short = echo("threads", size, cpu=1, setting=_HALF_MS, switch_interval_s=0.0005, unfit=with_a_gil)
    processes = [echo("processes", size, cpu=n, setting=(_tasks(n),), beside="processes") for n in _CPU[1:]]
    return [*threads, short, *processes]


_CONVOY = Experiment(
    name="convoy",
    question="How much do CPU-bound threads slow down a server in the same process, and how much do processes?",
    method=HOW
    + " Beside the server run 0, 1, 2, 4 or 8 CPU-bound threads, or as many processes."
    + SPLIT
    + " The analytic bound "
    "for one CPU-bound thread is one request per switch interval plus timer slack (50 us unless set), because a timed wait may take that long. "
    "With eight CPU-bound threads on one core, the kernel's own time slice of about 4 ms decides, with or without a GIL.",
    included=IN_FIGURE,
    metric="requests_per_s",
    unit="per_s",
    shows="levels",
    besides=(
        *_LATENCIES,
        ("of_bound", "requests/s as a share of the bound: one per switch interval and timer slack"),
        WORK,
    ),
    baseline="threads",
    variants=_convoy,
    sources=("C3",),
    quick_on=both_kinds,
    claims=(
        Claim(
            id="convoy/two-orders",
            text="one CPU-bound thread costs the server two orders of magnitude",
            evidence=lambda _: [
                Comparison(top="threads, 0 CPU tasks", bottom="threads, 1 CPU task", relation=above(100))
            ],
            source="C3",
            published=(Published("C3", "cpu_0", "cpu_1", _ALONE),),
            where="gil",
            why="each recv releases the GIL, and acquiring it again from a CPU-bound thread takes a switch interval",
            says="One CPU-bound thread makes a server in the same process {ratio} times slower.",
            denies="One CPU-bound thread slows a server in the same process by less than a factor of 100 here: {ratio}.",
            advice="Move CPU-bound work out of a process that answers requests, into other processes, or use a free-threaded Python.",
        ),
        Claim(
            id="convoy/bound",
            text="with one CPU-bound thread a connection gets about one request per switch interval, at 5 ms",
            evidence=lambda _: [Level(label="threads, 1 CPU task", metric="of_bound", relation=between(0.85, 1.15))],
            source="C3",
            published=(Published("C3", "cpu_1", setting=_ALONE, scale=0.005),),
            where="gil",
            why="the CPU-bound thread holds the GIL for a whole interval before it releases it (in the article the threads took turns "
            "on several cores, where `send` waits for another interval: half the bound)",
            says="Beside a CPU-bound thread each request waits for a switch interval: {ratio} of one request per 5 ms.",
            advice="If slow requests take multiples of 5 ms while another thread is busy, the GIL delays them, not the network.",
        ),
        Claim(
            id="convoy/bound-short",
            text="with one CPU-bound thread a connection gets about one request per switch interval, at 0.5 ms",
            evidence=lambda _: [Level(label=_SHORT, metric="of_bound", relation=between(0.85, 1.15))],
            source="Headway",
            where="gil",
            why="the CPU-bound thread holds the GIL for an interval and the timer slack before it releases it",
        ),
        Claim(
            id="convoy/short-interval-helps",
            text="a switch interval of 0.5 ms instead of 5 ms gives the server several times the requests/s",
            evidence=lambda _: [Comparison(top=_SHORT, bottom="threads, 1 CPU task", relation=above(4))],
            source="C4",
            where="gil",
            why="the server waits for a shorter interval",
            says="A switch interval of 0.5 ms instead of 5 ms gives the server {ratio} times the requests/s.",
            advice="As a stop-gap, call sys.setswitchinterval(0.0005); `headway lab countdown-switch-interval` measures its cost.",
        ),
        Claim(
            id="convoy/wait-grows",
            text="the median request waits longer the more CPU-bound threads there are",
            evidence=lambda _: [
                Comparison(
                    top="threads, 4 CPU tasks",
                    bottom="threads, 1 CPU task",
                    metric="latency_p50_s",
                    relation=above(2),
                )
            ],
            source="Headway",
            where="gil",
            why="all CPU-bound threads hold the GIL in turn before the server acquires it again",
            says="With four CPU-bound threads the median request takes {ratio} times as long as with one.",
        ),
        Claim(
            id="convoy/processes-cost-little",
            text="one CPU-bound process costs the server little",
            evidence=lambda _: [
                Comparison(top="processes, 1 CPU task", bottom="threads, 0 CPU tasks", relation=above(0.5))
            ],
            source="C3",
            published=(Published("C3", "cpu_1", "cpu_0", _IN_PROCESSES, _ALONE),),
            why="it has its own GIL, and the operating system prefers the thread that has waited",
        ),
        Claim(
            id="convoy/processes-fiftyfold",
            text="with the work in a process the server answers at least fifty times more than with it in a thread",
            evidence=lambda _: [
                Comparison(top="processes, 1 CPU task", bottom="threads, 1 CPU task", relation=above(50))
            ],
            source="C3",
            published=(Published("C3", "cpu_1", "cpu_1", _IN_PROCESSES, _ALONE),),
            where="gil",
            why="the processes share no GIL",
            says="Moving the CPU-bound work from a thread to a process makes the server {ratio} times faster.",
        ),
        Claim(
            id="convoy/processes-unchanged",
            text="four CPU-bound processes cost no more than one",
            evidence=lambda _: [
                Comparison(top="processes, 4 CPU tasks", bottom="processes, 1 CPU task", relation=above(0.8))
            ],
            source="C3",
            published=(Published("C3", "cpu_1", "cpu_1", _IN_PROCESSES, _IN_PROCESSES),),
            why="the operating system prefers the server's thread, which has waited, to all of them",
            denies="Beside four CPU-bound processes on its core, the server has {ratio} of its throughput beside one: the "
            "scheduler of the operating system is then the limit.",
        ),
        Claim(
            id="convoy/free-threaded",
            text="without a GIL one CPU-bound thread costs the server little",
            evidence=lambda _: [
                Comparison(top="threads, 1 CPU task", bottom="threads, 0 CPU tasks", relation=above(0.5))
            ],
            source="Headway",
            where="free-threaded",
            why="there is no GIL to wait for",
            says="On a free-threaded interpreter the server keeps {ratio} of its requests/s beside a CPU-bound thread.",
        ),
    ),
)


# ---------------------------------------------------------------- convoy-affinity
def cpu_threads(count: int) -> str:
    """Return the number of CPU-bound threads in words."""
    return "1 CPU thread" if count == 1 else f"{count} CPU threads"


def _affinity(size: Size) -> list[Variant]:
    everywhere: tuple[Placement, ...] = ("free", "split", "same")
    return [
        echo(cpu_threads(count), size, cpu=count, placements=everywhere, min_requests=3 if size == "quick" else 20)
        for count in _CPU
    ]


_AFFINITY = Experiment(
    name="convoy-affinity",
    question="Does pinning the server to one core help?",
    method=(
        HOW
        + " Beside the server run 0 to 8 CPU-bound threads. The system places everything (`free`), the server's side has one "
        "core and the client another (`split`), or everything shares one core, client included (`same`)."
    ),
    included=IN_FIGURE,
    metric="requests_per_s",
    unit="per_s",
    shows="levels",
    besides=_LATENCIES,
    baseline="0 CPU threads",
    variants=_affinity,
    sources=("C6",),
    quick_on=newest_with_gil,
    claims=(
        Claim(
            id="convoy-affinity/same-flatters",
            text="with server and client on one core, the server keeps much of its requests/s beside one CPU-bound thread",
            evidence=lambda _: [
                Comparison(top="1 CPU thread", bottom="0 CPU threads", placement="same", relation=above(0.1))
            ],
            source="C6",
            published=(Published("C6", "cpu_1", "cpu_0"),),
            where="gil",
            why="the client sleeps on that core, so the system runs the server before the CPU-bound thread",
            says="With server, client and a CPU-bound thread all on one core the server keeps {ratio} of its requests/s: "
            "such a benchmark looks better than reality.",
            advice="Measure a server with the client on other cores.",
        ),
        Claim(
            id="convoy-affinity/collapses",
            text="with server and client on one core, the requests/s collapse beside four CPU-bound threads",
            evidence=lambda _: [
                Comparison(top="4 CPU threads", bottom="0 CPU threads", placement="same", relation=below(0.1))
            ],
            source="C6",
            published=(Published("C6", "cpu_4", "cpu_0"),),
            where="gil",
            why="the CPU-bound threads hand the GIL to each other",
        ),
        Claim(
            id="convoy-affinity/only-with-the-client",
            text="pinning the server to one core gives several times the requests/s only when the client shares that core",
            evidence=lambda _: [
                Comparison(
                    top="1 CPU thread",
                    bottom="1 CPU thread",
                    placement="same",
                    bottom_placement="split",
                    relation=above(5),
                ),
                Comparison(
                    top="1 CPU thread",
                    bottom="1 CPU thread",
                    placement="split",
                    bottom_placement="free",
                    relation=below(3),
                ),
            ],
            source="C6",
            where="gil",
            why="as the author corrected later, the shared core helped, and not the pinning",
            says="Pinning a server and its CPU-bound thread to one core gives clients on other cores less than three times the "
            "requests/s.",
        ),
    ),
)


# ---------------------------------------------------------------- convoy-cases
_BESIDE = (("alone", 0, "count"), ("beside 1 CPU thread", 1, "count"), ("beside 1 bz2 thread", 1, "bz2"))
_CASES: tuple[tuple[tuple[str, ...], dict[str, object]], ...] = (
    (("TCP", "1 client"), {}),
    (("TCP", "10 clients"), {"connections": 10}),
    (("TCP", "100 clients"), {"connections": 100}),
    (("TCP", "100 requests/s offered"), {"rate_per_s": 100, "arrivals": "poisson"}),
    (("UDP", "1 byte"), {"transport": "udp"}),
    (("UDP", "8 KiB"), {"transport": "udp", "message_bytes": 8192}),
)
_WRITES = "tiny writes"
_LEAST_OFFERED_S = 0.6
"""The least duration with offered requests: at 100 a second, the duration of quick size would have 15 of them."""


def _timed(more: Mapping[str, object], size: Size) -> dict[str, object]:
    """Return the parameters of a case, with a duration if requests are offered at a rate."""
    if "rate_per_s" not in more:
        return dict(more)
    return {**more, "duration_s": max(_LEAST_OFFERED_S, _DURATION_S[size])}


def _cases(size: Size) -> list[Variant]:
    echoes = [
        echo(series, size, cpu=cpu, setting=setting, unit=unit, **_timed(more, size))
        for setting, more in _CASES
        for series, cpu, unit in _BESIDE
    ]
    writes = [
        Variant(
            series=series,
            setting=(_WRITES,),
            workload="tiny-writes",
            model="threads",
            params={"cpu": cpu, "unit": unit, "duration_s": 0.15 if size == "quick" else 1.0},
            samples=1 if size == "quick" else 3,
            warmups=0,
            # There is no client, so on one core the CPU-bound thread would not even be awake when the write returns.
            placements=("free",),
        )
        for series, cpu, unit in _BESIDE
    ]
    return [*echoes, *writes]


def _case(series: str, setting: str) -> str:
    return f"{series}, {setting}"


_BUSY, _LETS_GO = "beside 1 CPU thread", "beside 1 bz2 thread"

_CASES_EXPERIMENT = Experiment(
    name="convoy-cases",
    question="Which other work does a CPU-bound thread delay, and does C code that releases the GIL delay it, too?",
    method=(
        "The echo server has 1, 10 and 100 clients in closed loop, or 100 requests/s in open loop (Poisson; latency from the "
        "intended time of sending), or uses UDP with 1 byte and 8 KiB; another case is a thread that makes tiny writes. "
        "Each case runs alone, beside a CPU-bound Python thread, and beside a thread that compresses with bz2, which always "
        "releases the GIL." + SPLIT
    ),
    included=IN_FIGURE + " For tiny writes: writes per second.",
    metric="requests_per_s",
    unit="per_s",
    shows="levels",
    besides=(
        *_LATENCIES,
        (WORK[0], "work of the other thread: thousands of loop iterations a second, or bz2 compressions of 20 KiB"),
    ),
    baseline="alone",
    variants=_cases,
    sources=(),
    quick_on=newest_with_gil,
    claims=(
        Claim(
            id="convoy-cases/udp-too",
            text="one CPU-bound thread costs a UDP server two orders of magnitude, like a TCP server",
            evidence=lambda _: [
                Comparison(top=_case("alone", setting), bottom=_case(_BUSY, setting), relation=above(100))
                for setting in ("UDP, 1 byte", "UDP, 8 KiB")
            ],
            source="bpo-7946, UDP ping-pong",
            where="gil",
            why="recvfrom releases the GIL, like recv",
            says="UDP does not help: a CPU-bound thread makes a datagram server {ratio} times slower, too.",
        ),
        Claim(
            id="convoy-cases/tiny-writes",
            text="one CPU-bound thread slows a thread that makes tiny writes a hundredfold",
            evidence=lambda _: [
                Comparison(
                    top=_case("alone", _WRITES), bottom=_case(_BUSY, _WRITES), relation=above(100), placement="free"
                )
            ],
            source="bpo-7946, writenums",
            where="gil",
            why="each write releases the GIL, although it returns at once",
            says="Beside a CPU-bound thread there are {ratio} times fewer tiny writes a second: each write releases the GIL.",
            denies="Beside a CPU-bound thread, tiny writes keep more than a hundredth of their throughput: {ratio} times fewer a second.",
            advice="Buffer small writes beside CPU-bound threads: each system call may cost a switch interval.",
        ),
        Claim(
            id="convoy-cases/bz2-lets-go",
            text="beside C code that releases the GIL, the server has ten times the throughput that it has beside Python code",
            evidence=lambda _: [
                Comparison(
                    top=_case(_LETS_GO, "TCP, 1 client"), bottom=_case(_BUSY, "TCP, 1 client"), relation=above(10)
                )
            ],
            source="ccbench, bz2",
            where="gil",
            why="while that thread compresses, the server has the GIL for itself",
            says="Beside a thread that compresses with bz2 the server answers {ratio} times as many requests as beside Python "
            "code: C code that releases the GIL does no harm.",
        ),
    ),
)

EXPERIMENTS = (_CONVOY, _AFFINITY, _CASES_EXPERIMENT)
