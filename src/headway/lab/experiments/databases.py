"""Databases: sqlite-sleep, sqlite-sleep-and-sigma (source D), redis-set (source B)."""

from headway.host.interpreters import Interpreter
from headway.host.machine import Machine
from headway.lab.design import (
    ONE_WORKER,
    Claim,
    Comparison,
    Experiment,
    Placement,
    Published,
    Size,
    Variant,
    above,
    below,
    between,
    both_kinds,
    oldest_and_free_threaded,
    over_serial,
)

__all__ = ["EXPERIMENTS"]


def _needs_sqlite(interpreter: Interpreter) -> str:
    return interpreter.missing_modules.get("sqlite3", "")


_ONE, _THREE, _WAL = "1 query", "3 queries", "WAL file, 2 writers, 4 readers"
_PERIOD_S = {"quick": 0.04, "standard": 0.2, "published": 0.2}
_AS_ONE = between(0.9 / 3, 1.3 / 3)


def _queries(series: str, model: str, setting: tuple[str, ...], size: Size, **params: object) -> Variant:
    return Variant(
        series=series,
        setting=setting,
        workload="sqlite-sleep",
        model=model,
        params={"period_s": _PERIOD_S[size], **params},
        samples=2 if size == "quick" else 5,
        warmups=0 if size == "quick" else 1,
        unfit=_needs_sqlite,
        needs=("aiosqlite",) if model == "asyncio" else (),
    )


def _accounts(series: str, model: str, size: Size) -> Variant:
    factor = {"quick": 1, "standard": 10, "published": 40}[size]
    params = {"writers": 2, "writes": 100 * factor, "readers": 4, "reads": 100 * factor, "accounts": 500}
    return Variant(
        series=series,
        setting=(_WAL,),
        workload="sqlite-wal",
        model=model,
        params=params,
        samples=2 if size == "quick" else 5,
        warmups=1,
        unfit=_needs_sqlite,
        needs=("aiosqlite",) if model == "asyncio" else (),
        space={"disk": 64 * 2**20},
    )


_MODELS = (("serial", "serial"), ("asyncio", "asyncio"), ("threads", "threads"))


def _sqlite_sleep(size: Size) -> list[Variant]:
    return [
        *(_queries(series, model, (_ONE,), size, queries=1) for series, model in _MODELS[:2]),
        *(_queries(series, model, (_THREE,), size, queries=3) for series, model in _MODELS),
        *(_accounts(series, model, size) for series, model in (*_MODELS, ("processes", "processes-spawn"))),
    ]


_SQLITE_SLEEP = Experiment(
    name="sqlite-sleep",
    question="Do slow SQLite queries overlap, and do real reads and writes overlap?",
    method=(
        "One and three queries `SELECT sleep(t)`, with a Python function and a connection per query, run serially, with "
        "aiosqlite, and in threads. A realistic case has two writers (a transfer between two accounts per transaction) and "
        "four readers (an account, and the sum of all 500 accounts, which is always zero) on one file in WAL mode, with a "
        "connection each."
    ),
    included="From the first call to the last return, including the connection; the file with its accounts exists before.",
    baseline="serial",
    variants=_sqlite_sleep,
    sources=("D7",),
    quick_on=both_kinds,
    claims=(
        Claim(
            id="sqlite-sleep/one-is-one",
            text="a single slow query takes as long with aiosqlite as with sqlite3",
            evidence=lambda _: [over_serial("asyncio", _ONE, between(0.9, 1.2))],
            source="D7",
            published=(Published("D7", "asyncio", "serial", "one query"),),
            why="there is nothing to overlap; aiosqlite adds a thread",
        ),
        Claim(
            id="sqlite-sleep/gather-is-one",
            text="three gathered slow queries take as long as one",
            evidence=lambda _: [over_serial("asyncio", _THREE, _AS_ONE)],
            source="D7",
            published=(Published("D7", "asyncio_gather", "serial", "three"),),
            why="aiosqlite has a thread per connection, and the sleep releases the GIL",
        ),
        Claim(
            id="sqlite-sleep/wal-is-no-wait",
            text="real reads and writes on a WAL file do not gain from aiosqlite",
            evidence=lambda _: [over_serial("asyncio", _WAL, above(0.95))],
            source="Headway",
            why="reads and writes hardly wait, and every await is a trip to the connection's thread and back",
            says="On a local SQLite file aiosqlite takes {ratio} times as long as serial sqlite3.",
            denies="On a local SQLite file aiosqlite is faster than serial sqlite3: it takes {ratio} of the time.",
            advice="Use aiosqlite to keep an event loop free, and not for speed.",
        ),
    ),
)


def _sqlite_sleep_and_sigma(size: Size) -> list[Variant]:
    period_s = {"quick": 0.1, "standard": 1.0, "published": 1.0}[size]
    return [
        _queries(series, model, (), size, queries=3, sums=3, n=100_000, period_s=period_s) for series, model in _MODELS
    ]


_SQLITE_SLEEP_AND_SIGMA = Experiment(
    name="sqlite-sleep-and-sigma",
    question="Do slow SQLite queries overlap with CPU work beside them?",
    method="Three queries that sleep 0.1 s (quick) or 1 s, and three sums of 0..100,000, run serially, with aiosqlite, and in threads.",
    included="From the first call to the last return, including the connection.",
    baseline="serial",
    variants=_sqlite_sleep_and_sigma,
    sources=("D8",),
    quick_on=both_kinds,
    claims=(
        Claim(
            id="sqlite-sleep-and-sigma/gather-is-longest",
            text="three gathered queries and sums take little more time than one query",
            evidence=lambda _: [Comparison(top="asyncio", bottom="serial", relation=_AS_ONE)],
            source="D8",
            published=(Published("D8", "asyncio_gather", "serial"),),
            why="the sums run while the queries sleep",
        ),
    ),
)

# ---------------------------------------------------------------- redis-set
_THREADS = 16
_PROCESSES = 4
_APART: tuple[Placement, ...] = ("free", "split")
_HIREDIS = ("redis", "hiredis")


def _sets(series: str, model: str, size: Size, *, tasks: int, hiredis: bool = False) -> Variant:
    commands = {"quick": 1_280, "standard": 16_000, "published": 100_000}[size]
    return Variant(
        series=series + (", hiredis" if hiredis else ""),
        workload="redis-set",
        model=model,
        params={"commands": commands, "tasks": tasks, "workers": tasks, "hiredis": hiredis, "one_core": True},
        samples=2 if size == "quick" else 3,
        warmups=1,
        placements=_APART if model in {"serial", "threads"} and not hiredis else ("free",),
        needs=_HIREDIS if hiredis else _HIREDIS[:1],
        server="redis",
    )


_BENCHMARK, _LOAD = "redis-benchmark", "C client"


def _redis_set(size: Size) -> list[Variant]:
    def limit(series: str, workload: str, *needs: str, **params: object) -> Variant:
        return Variant(
            series=series,
            workload=workload,
            model="threads",
            params={"connections": _THREADS, "one_core": True, **params},
            samples=2,
            warmups=0,
            placements=_APART,
            native=True,
            needs=needs,
            server="redis",
        )

    models = (
        ("serial", "serial", 1),
        (f"{_THREADS} threads", "threads", _THREADS),
        ("asyncio", "asyncio", _THREADS),
        (f"{_PROCESSES} processes", "processes-spawn", _PROCESSES),
    )
    commands = {"quick": 10_000, "standard": 100_000, "published": 100_000}[size]
    return [
        *(_sets(series, model, size, tasks=tasks) for series, model, tasks in models),
        *(_sets(series, model, size, tasks=tasks, hiredis=True) for series, model, tasks in models[:3]),
        limit(_BENCHMARK, "redis-benchmark", _BENCHMARK, commands=commands),
        limit(_LOAD, "redis-load", duration_s=0.15 if size == "quick" else 2.0),
    ]


def _threads_over_serial(machine: Machine) -> list[Comparison]:
    """Return the claimed gain of 16 threads without a GIL: more than twofold if the cores allow it, else any gain."""
    # The server takes a core for itself. On three cores, the client's two cores cannot gain more than twofold.
    limit = 2.0 if len(machine.cores) > 3 else 1.05
    return [Comparison(top=f"{_THREADS} threads", bottom="serial", relation=above(limit), placement="free")]


_REDIS_SET = Experiment(
    name="redis-set",
    question="How many SETs per second does a client reach with Redis, and do threads help?",
    method=(
        "redis-py sets a 16-byte value, one command at a time, with one connection, with 16 threads over a connection pool, "
        "with 16 coroutines of its asyncio client, and with 4 processes; with the plain Python parser and with hiredis. The "
        "limit is redis-benchmark on the same server in the same run, with Headway's own C client beside it (16 connections "
        "each). `free`: the system places server and client; `split`: the server has a core, and the client another."
    ),
    included="Commands acknowledged per second, with pools and loops that have started. The keys are the lab's own, and are removed.",
    metric="requests_per_s",
    unit="per_s",
    baseline="serial",
    variants=_redis_set,
    sources=("B1", "B2"),
    quick_on=oldest_and_free_threaded,
    claims=(
        Claim(
            id="redis-set/limit",
            text="one redis-py client reaches less than half of the throughput of redis-benchmark",
            evidence=lambda _: [
                Comparison(top="serial", bottom=_BENCHMARK, bottom_interpreter=ONE_WORKER, relation=below(0.5))
            ],
            source="B1, B2",
            published=(Published("B2", "serial", "redis_benchmark", "3.8", bottom_source="B1"),),
            why="the client's Python code takes longer than the server",
            says="One redis-py client reaches {ratio} of the SETs per second of redis-benchmark.",
        ),
        Claim(
            id="redis-set/threads-gil",
            text="with a GIL 16 threads are not faster than one (client and server on any core)",
            evidence=lambda _: [
                Comparison(top=f"{_THREADS} threads", bottom="serial", relation=below(1.05), placement="free")
            ],
            source="B2",
            published=(Published("B2", "threads_16", "serial", "3.8"),),
            where="gil",
            why="each command releases the GIL twice, and the threads queue for it",
            says="With a GIL 16 threads set {ratio} of the keys per second of one thread, placed by the system.",
            denies="With a GIL 16 threads set {ratio} times as many keys per second as one, because waits for the server overlap.",
        ),
        Claim(
            id="redis-set/threads-apart",
            text="with a GIL, and all threads on one core apart from the server's, 16 threads overlap the server's work",
            evidence=lambda _: [
                Comparison(top=f"{_THREADS} threads", bottom="serial", relation=above(1.05), placement="split")
            ],
            source="Headway",
            where="gil",
            why="on one core a thread that releases the GIL acquires it again before another thread wakes up, and the server "
            "works meanwhile",
            says="On one core that is not the server's, 16 threads set {ratio} times as many keys per second as one: "
            "the hand-off of the GIL between cores is the cost.",
            advice="If a threaded client must stay in one process with a GIL, try it on one core (taskset).",
        ),
        Claim(
            id="redis-set/processes",
            text="four processes set more keys per second than one client",
            evidence=lambda _: [
                Comparison(top=f"{_PROCESSES} processes", bottom="serial", relation=above(1.05), placement="free")
            ],
            source="Headway",
            where="gil",
            why="each process has its own GIL; the processes share the cores with the server",
            says="Four processes set {ratio} times as many keys per second as one.",
            denies="Four processes set {ratio} of the keys per second of one, because together with the server they have too few cores.",
            advice="If one Redis client is not enough, use processes.",
        ),
        Claim(
            id="redis-set/asyncio",
            text="16 coroutines set fewer keys per second than one serial connection",
            evidence=lambda _: [Comparison(top="asyncio", bottom="serial", relation=below(0.95), placement="free")],
            source="Headway",
            why="a local server answers sooner than the event loop completes a turn",
            says="redis-py's asyncio client with 16 coroutines sets {ratio} of the keys per second of the serial client.",
            denies="redis-py's asyncio client with 16 coroutines sets {ratio} of the keys per second of the serial client.",
            advice="With a server nearby, use asyncio for Redis to keep an event loop free, and not for throughput.",
        ),
        Claim(
            id="redis-set/threads-free",
            text="without a GIL 16 threads are faster than one, more than twofold if launches have four cores or more",
            evidence=_threads_over_serial,
            source="B2",
            published=(Published("B2", "threads_16", "serial", "3.13t"),),
            where="free-threaded",
            why="the Python code of the threads runs at the same time",
            says="Without a GIL 16 threads set {ratio} times as many keys per second as one.",
        ),
    ),
)

EXPERIMENTS = (_SQLITE_SLEEP, _SQLITE_SLEEP_AND_SIGMA, _REDIS_SET)
