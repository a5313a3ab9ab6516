"""CPU-bound work: cpu-bound (source A), countdown and sha256 (source C), sigma (source D)."""

from collections.abc import Sequence

from headway.host.machine import Machine
from headway.lab.design import (
    Claim,
    Comparison,
    Count,
    Experiment,
    Published,
    Size,
    Variant,
    above,
    below,
    between,
    ends,
)

__all__ = ["EXPERIMENTS", "thread_count"]

_EQUAL = between(0.9, 1.1)
_NOT_FASTER = above(0.95)
_POOL_APART = (
    "From the first submit to the last result, with a pool that has started. The start of the pool, pickling and "
    "the start of the interpreter are shown separately."
)

# ---------------------------------------------------------------- cpu-bound
_TASKS = 4


def _cpu_bound(size: Size) -> list[Variant]:
    n = {"quick": 100_000, "standard": 1_000_000, "published": 10_000_000}[size]
    # At published size one sample takes seconds, and launches are the replication.
    samples = {"quick": 3, "standard": 5, "published": 1}[size]
    warmups = 0 if size == "published" else 1
    models = ("serial", "threads", "processes-spawn", "processes-forkserver", "asyncio", "interpreters")
    params = {"n": n, "tasks": _TASKS}
    return [
        Variant(series=model, workload="increment", model=model, params=params, samples=samples, warmups=warmups)
        for model in models
    ]


def _process_speed_up(machine: Machine) -> Sequence[Comparison]:
    # 5 % is for noise: a pool that seems a little faster than its cores is a quiet moment, not a discovery.
    most = min(_TASKS, len(machine.cores)) * 1.05
    return [
        Comparison(top="serial", bottom=label, relation=below(most))
        for label in ("processes-spawn", "processes-forkserver")
    ]


_CPU_BOUND = Experiment(
    name="cpu-bound",
    question="Which model makes four CPU-bound tasks faster?",
    method=(
        "Four tasks of N integer increments each run in a pool of four workers (serial: one after the other; asyncio: "
        "a gather of coroutines that never await). N is 100,000 quick, 1,000,000 standard, 10,000,000 published."
    ),
    included=_POOL_APART,
    baseline="serial",
    turns=True,
    variants=_cpu_bound,
    sources=("A1", "A5"),
    claims=(
        Claim(
            id="cpu-bound/processes-faster",
            text="processes are faster than serial",
            evidence=lambda _: [
                Comparison(top=label, bottom="serial", relation=below(1))
                for label in ("processes-spawn", "processes-forkserver")
            ],
            source="A1, A5",
            published=(Published("A1", "processes", "serial"), Published("A5", "processes", "serial")),
            why="each process has its own GIL",
        ),
        Claim(
            id="cpu-bound/threads-not-faster",
            text="threads are not faster than serial under a GIL",
            evidence=lambda _: [Comparison(top="threads", bottom="serial", relation=_NOT_FASTER)],
            source="A1, A5",
            published=(Published("A1", "threads", "serial"), Published("A5", "threads", "serial")),
            where="gil",
            why="one GIL lets one thread run Python code at a time",
        ),
        Claim(
            id="cpu-bound/asyncio-equal",
            text="asyncio is equal to serial within noise",
            evidence=lambda _: [Comparison(top="asyncio", bottom="serial", relation=_EQUAL)],
            source="A5",
            published=(Published("A5", "asyncio", "serial"),),
            why="coroutines that never await run one after the other in one thread",
        ),
        Claim(
            id="cpu-bound/speed-up-bounded",
            text="the speed-up of processes is at most min(tasks, cores)",
            evidence=_process_speed_up,
            source="A1, A5",
            published=(Published("A1", "serial", "processes"), Published("A5", "serial", "processes")),
            why="four tasks cannot use more than four cores, or more cores than the machine has",
        ),
        Claim(
            id="cpu-bound/threads-faster-without-gil",
            text="threads are faster than serial on a free-threaded interpreter",
            evidence=lambda _: [Comparison(top="threads", bottom="serial", relation=below(1))],
            source="Headway",
            where="free-threaded",
            why="without a GIL threads run Python code at the same time",
        ),
    ),
)

# ---------------------------------------------------------------- countdown
_COUNTS = (1, 2, 4, 8)


def thread_count(count: int) -> str:
    """Return the number of threads in words."""
    return "1 thread" if count == 1 else f"{count} threads"


def _countdown(size: Size) -> list[Variant]:
    n = {"quick": 800_000, "standard": 10_000_000, "published": 100_000_000}[size]
    return [
        Variant(
            series=thread_count(count),
            workload="countdown",
            model="threads",
            params={"n": n, "threads": count},
            samples={"quick": 3, "standard": 3, "published": 1}[size],
            warmups=0 if size == "published" else 1,
        )
        for count in _COUNTS
    ]


def _falls_to_cores(machine: Machine) -> Sequence[Comparison]:
    comparisons = []
    for count in _COUNTS[1:]:
        # Hyper-threads may add to the physical cores, from nothing to as much as cores of their own. A quarter above the
        # ideal still counts as "falls to 1/n"; only noise lies far below the ideal.
        slowest, quickest = (1 / min(count, cores) for cores in (machine.physical_cores, len(machine.cores)))
        comparisons.append(
            Comparison(top=thread_count(count), bottom="1 thread", relation=between(quickest * 0.8, slowest * 1.25))
        )
    return comparisons


_COUNTDOWN = Experiment(
    name="countdown",
    question="Does a countdown get faster when it is split over threads?",
    method=(
        "N decrements are split evenly over 1, 2, 4 and 8 threads. N is 800,000 quick, 10,000,000 standard, 100,000,000 "
        "published."
    ),
    included=_POOL_APART,
    baseline="1 thread",
    turns=True,
    variants=_countdown,
    divides="threads",
    sources=("C1",),
    claims=(
        Claim(
            id="countdown/flat",
            text="more threads do not reduce the time under a GIL",
            evidence=lambda _: [
                Comparison(top=thread_count(count), bottom="1 thread", relation=_NOT_FASTER) for count in _COUNTS[1:]
            ],
            source="C1",
            published=tuple(Published("C1", f"threads_{count}", "threads_1") for count in _COUNTS[1:]),
            where="gil",
            why="the threads take turns with one GIL",
        ),
        Claim(
            id="countdown/falls-without-gil",
            text="the time falls to 1/min(threads, cores) on a free-threaded interpreter",
            evidence=_falls_to_cores,
            source="Headway",
            where="free-threaded",
            why="each thread has its own core, as long as there are enough cores",
        ),
    ),
)

# ---------------------------------------------------------------- sigma
_EVERY = 1_000
_POOLS = ("asyncio-threads", "asyncio-processes")


def _sigma(size: Size) -> list[Variant]:
    n = {"quick": 100_000, "standard": 1_000_000, "published": 10_000_000}[size]

    def variant(label: str, model: str, times: int, *, yields: bool = False) -> Variant:
        params = {"n": n, "times": times, "every": _EVERY, "yields": yields}
        return Variant(
            series=label, workload="sigma", model=model, params=params, samples=5 if size == "standard" else 3
        )

    return [
        variant("serial", "serial", 3),
        variant("asyncio", "asyncio", 3),
        variant("asyncio, sleep(0)", "asyncio", 3, yields=True),
        variant("asyncio-threads", "asyncio-threads", 3),
        variant("asyncio-processes", "asyncio-processes", 3),
        variant("serial, once", "serial", 1),
        variant("asyncio, once", "asyncio", 1),
        # A pool cannot divide one sum: these variants are for completeness, and not at quick size.
        *(variant(f"{model}, once", model, 1) for model in _POOLS if size != "quick"),
    ]


_SIGMA = Experiment(
    name="sigma",
    question="Does asyncio help a sum that never awaits?",
    method=(
        f"The sum of 0..N is computed once and three times; every {_EVERY:,} additions, the running task is noted. asyncio "
        "gathers coroutines that never await, or that yield with `sleep(0)` as often; asyncio-threads and "
        "asyncio-processes give the sums to a pool. N is 100,000 quick, 1,000,000 standard, 10,000,000 published."
    ),
    included=_POOL_APART,
    baseline="serial",
    variants=_sigma,
    sources=("D3",),
    quick_on=ends,
    claims=(
        Claim(
            id="sigma/gather-equal",
            text="a gather of coroutines that never await takes as long as serial calls",
            evidence=lambda _: [
                Comparison(top="asyncio", bottom="serial", relation=_EQUAL),
                Comparison(top="asyncio, once", bottom="serial, once", relation=_EQUAL),
            ],
            source="D3",
            published=(
                Published("D3", "asyncio_gather", "serial", setting="three times"),
                Published("D3", "asyncio", "serial", setting="once"),
            ),
            why="these coroutines never let another one run",
        ),
        Claim(
            id="sigma/gather-sequential",
            text="coroutines that never await run one after the other",
            evidence=lambda _: [Count(labels=("asyncio",), metric="order_changes", expect="none", less=2)],
            source="Headway",
            why="the loop gets control back only when a coroutine awaits or ends",
        ),
        Claim(
            id="sigma/sleep0-interleaves",
            text="coroutines with sleep(0) interleave",
            evidence=lambda _: [Count(labels=("asyncio, sleep(0)",), metric="order_changes", expect="some", less=2)],
            source="Headway",
            why="sleep(0) puts the coroutine at the end of the event loop's queue",
        ),
        Claim(
            id="sigma/sleep0-costs",
            text="coroutines with sleep(0) take longer than coroutines without",
            evidence=lambda _: [Comparison(top="asyncio, sleep(0)", bottom="asyncio", relation=above(1))],
            source="Headway",
            why="each sleep(0) is one more turn of the event loop",
        ),
        Claim(
            id="sigma/process-pool-gains",
            text="a process pool is faster",
            evidence=lambda _: [Comparison(top="asyncio-processes", bottom="serial", relation=below(1))],
            source="Headway",
            why="the sums run under different GILs",
        ),
    ),
)

# ---------------------------------------------------------------- sha256
_SMALL_BYTES = 1024
_MESSAGES = 8


def _sha256(size: Size) -> list[Variant]:
    big = {"quick": 2 << 20, "standard": 16 << 20, "published": 128 << 20}[size]
    small_messages = {"quick": 1_500, "standard": 20_000, "published": 100_000}[size]

    def variant(label: str, count: int, size_bytes: int, messages: int) -> Variant:
        params = {"threads": count, "tasks": _MESSAGES, "size_bytes": size_bytes, "messages": messages}
        return Variant(
            series=label,
            workload="sha256",
            model="threads",
            params=params,
            samples=3,
            warmups=0 if size == "published" else 1,
        )

    large = [variant(thread_count(count), count, big, 1) for count in _COUNTS]
    small = [
        variant(f"small, {thread_count(count)}", count, _SMALL_BYTES, small_messages)
        for count in (_COUNTS[:2] if size == "quick" else _COUNTS)
    ]
    return large + small


def _no_gain_past_cores(machine: Machine) -> Sequence[Comparison]:
    # The first thread count that fills the physical cores. The claim says that hyper-threads do not help.
    full = next((count for count in _COUNTS if count >= machine.physical_cores), _COUNTS[-1])
    return [
        Comparison(top=thread_count(count), bottom=thread_count(full), relation=above(0.9))
        for count in _COUNTS
        if count > full
    ]


_SHA256 = Experiment(
    name="sha256",
    question="Do threads help C code that releases the GIL?",
    method=(
        "1, 2, 4 and 8 threads compute the SHA-256 of eight large messages (2 MB each quick, 16 MB standard, 128 MB "
        "published), and of many messages of 1,024 bytes, below the 2,048 bytes from which hashlib releases the GIL."
    ),
    included=_POOL_APART + " The messages are created beforehand.",
    baseline="1 thread",
    turns=True,
    variants=_sha256,
    divides="threads",
    sources=("C2",),
    quick_on=ends,
    claims=(
        Claim(
            id="sha256/two-threads-halve",
            text="two threads halve the time",
            evidence=lambda machine: [Comparison(top="2 threads", bottom="1 thread", relation=between(0.42, 0.6))],
            source="C2",
            published=(Published("C2", "threads_2", "threads_1"),),
            why="hashlib releases the GIL for messages of 2,048 bytes and more",
        ),
        Claim(
            id="sha256/no-gain-past-cores",
            text="more threads than physical cores bring no further gain",
            evidence=_no_gain_past_cores,
            source="C2",
            published=(Published("C2", "threads_4", "threads_2"), Published("C2", "threads_8", "threads_2")),
            why="hashing keeps the arithmetic units of a core busy",
        ),
        Claim(
            id="sha256/small-keeps-gil",
            text="messages under 2,048 bytes gain nothing from threads under a GIL",
            evidence=lambda _: [Comparison(top="small, 2 threads", bottom="small, 1 thread", relation=_NOT_FASTER)],
            source="Headway",
            where="gil",
            why="hashlib keeps the GIL for such messages, because a release costs more than it gains",
        ),
    ),
)

EXPERIMENTS = (_CPU_BOUND, _COUNTDOWN, _SIGMA, _SHA256)
