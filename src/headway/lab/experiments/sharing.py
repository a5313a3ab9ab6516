"""Threads that use the same data: race, and refcount (source C)."""

from headway.lab.design import Claim, Comparison, Count, Experiment, Published, Size, Variant, above, below

__all__ = ["EXPERIMENTS"]

# ---------------------------------------------------------------- race
_THREADS = 4
_SHORT_S = 1e-6
_DEFAULT_S = 0.005


def _interval_name(interval_s: float) -> str:
    return "1 us" if interval_s == _SHORT_S else "5 ms"


_RACES = {
    "+= 1": "plain",
    "+= one()": "call",
    "lock": "lock",
    "itertools.count": "count",
    "list.append": "append",
}


def _race(size: Size) -> list[Variant]:
    k = {"quick": 50_000, "standard": 500_000, "published": 1_000_000}[size]
    variants = []
    for text, variant in _RACES.items():
        for interval_s in (_DEFAULT_S, _SHORT_S):
            # A contended lock is far slower than the increment that it protects.
            own = k // 10 if variant == "lock" else k
            params = {"variant": variant, "threads": _THREADS, "k": own, "switch_interval_s": interval_s}
            variants.append(
                Variant(
                    series=f"{text}, {_interval_name(interval_s)}",
                    workload="race",
                    model="threads",
                    params=params,
                    samples=3 if size == "quick" else 5,
                    warmups=0,
                )
            )
    return variants


def _race_labels(*texts: str) -> tuple[str, ...]:
    return tuple(f"{text}, {_interval_name(interval_s)}" for text in texts for interval_s in (_DEFAULT_S, _SHORT_S))


_RACE = Experiment(
    name="race",
    question="How many increments are lost without a lock?",
    method=(
        f"{_THREADS} threads increment one counter k times each: `+= 1`, `+= one()` (a call between the read and the "
        "write), with a lock, by `itertools.count`, and `list.append`; at a switch interval of 5 ms and of 1 us. "
        "k is 50,000 quick, 500,000 standard, 1,000,000 published, and a tenth of that with the lock."
    ),
    included="Increments that are missing at the end. Time does not count.",
    baseline="+= 1, 5 ms",
    variants=_race,
    metric="lost",
    unit="lost",
    shows="counts",
    out_of=lambda params: float(params["threads"] * params["k"]),
    sources=(),
    claims=(
        Claim(
            id="race/not-atomic",
            text="`+=` is not atomic: lost updates appear on some interpreter and interval",
            evidence=lambda _: [Count(labels=_race_labels("+= 1", "+= one()"), metric="lost", expect="some")],
            source="C, on data races",
            scope="any",
            why="another thread may run between the read and the write",
        ),
        Claim(
            id="race/always-without-gil",
            text="`+= 1` always loses updates on a free-threaded build",
            evidence=lambda _: [Count(labels=(label,), metric="lost", expect="some") for label in _race_labels("+= 1")],
            source="Headway",
            where="free-threaded",
            why="two cores read the same value at the same time",
        ),
        Claim(
            id="race/append-safe",
            text="`list.append` loses nothing",
            evidence=lambda _: [Count(labels=_race_labels("list.append"), metric="lost", expect="none")],
            source="C, on data races",
            why="one C call under the GIL, or under the list's own lock",
        ),
        Claim(
            id="race/lock-safe",
            text="a lock loses nothing",
            evidence=lambda _: [Count(labels=_race_labels("lock"), metric="lost", expect="none")],
            source="C, on data races",
            why="one thread at a time is between the read and the write",
        ),
        Claim(
            id="race/count-safe",
            text="`itertools.count` loses nothing",
            evidence=lambda _: [Count(labels=_race_labels("itertools.count"), metric="lost", expect="none")],
            source="Headway",
            why="one C call under the GIL, or an atomic step without one",
        ),
    ),
)

# ---------------------------------------------------------------- refcount
_WORK = 4
"""Multiply-adds between pairs in the C loop, about as long as one bytecode: 3 to 5 ns."""

_LONG_WORK = 24
"""Multiply-adds for several bytecodes between two counted references, as in a specialising interpreter."""

_SHARINGS = ("own", "shared", "immortal")


def _touching(sharing: str, threads: int) -> str:
    return f"{sharing}, {threads} thread{'s' * (threads > 1)}"


def _refcount(size: Size) -> list[Variant]:
    n = {"quick": 20_000, "standard": 300_000, "published": 2_000_000}[size]
    pairs = {"quick": 1_000_000, "standard": 20_000_000, "published": 200_000_000}[size]
    python = [
        Variant(
            series=_touching(sharing, threads),
            workload="refcount",
            model="threads",
            params={"sharing": sharing, "threads": threads, "n": n},
            samples=3 if size == "quick" else 5,
        )
        for threads in ((1, 2) if size == "quick" else (1, 2, 4))
        for sharing in _SHARINGS
        if threads > 1 or sharing == "own"
    ]

    def native(label: str, kind: str, threads: int, sharing: str, work: int) -> Variant:
        params = {"kind": kind, "threads": threads, "sharing": sharing, "pairs": pairs, "objects": 64, "work": work}
        return Variant(series=label, workload="refcount-native", model="threads", params=params, samples=5, native=True)

    kinds = ("plain", "atomic", "biased", "buffered")
    c = [native(f"C {kind}", kind, 1, "own", _WORK) for kind in kinds]
    c += [native(f"C {kind}, long work", kind, 1, "own", _LONG_WORK) for kind in kinds]
    c += [native(f"C {kind}, no work", kind, 1, "own", 0) for kind in kinds]
    for threads in (2,) if size == "quick" else (2, 4, 8):
        c += [native(f"C {kind}, {threads} threads, own", kind, threads, "own", _WORK) for kind in kinds]
        # Plain counting of shared objects is left out: its counts are wrong.
        c += [native(f"C {kind}, {threads} threads, shared", kind, threads, "shared", _WORK) for kind in kinds[1:]]
    return python + c


_REFCOUNT = Experiment(
    name="refcount",
    question="How much does reference counting cost without a GIL?",
    method=(
        "In C: pairs of incref and decref on 64 objects, with plain, atomic, biased (PEP 703) and "
        f"buffered (Gilectomy) counting, with {_WORK} dependent multiply-adds between pairs in place of the rest of a "
        f"bytecode, with {_LONG_WORK} (long work), or with none; 1, 2 and (not at quick size) 4 and 8 threads. In Python: threads bind and unbind a name to their own object, "
        "to a shared object, and to None, which is immortal from 3.12 on."
    ),
    included="Time per pair in one thread, including the loop. The start of threads does not count.",
    baseline="own, 1 thread",
    variants=_refcount,
    metric="pair_s",
    sources=("C7",),
    claims=(
        Claim(
            id="refcount/atomic-costs",
            text="atomic counting alone slows one thread by tens of percent, with one pair per bytecode",
            evidence=lambda _: [Comparison(top="C atomic", bottom="C plain", relation=above(1.1))],
            source="C7",
            published=(Published("C7", "atomic_over_plain"),),
            scope="native",
            why="an atomic add waits for the cache line and orders memory, also without contention",
        ),
        Claim(
            id="refcount/atomic-costs-long-work",
            text="atomic counting alone slows one thread, also with the work of several bytecodes between two pairs",
            evidence=lambda _: [
                Comparison(top="C atomic, long work", bottom="C plain, long work", relation=above(1.1))
            ],
            source="C7",
            published=(Published("C7", "atomic_over_plain"),),
            scope="native",
            why="an atomic add waits for the cache line and orders memory, also without contention",
        ),
        Claim(
            id="refcount/biased-cheaper",
            text="biased counting costs one thread less than atomic counting",
            evidence=lambda _: [Comparison(top="C biased", bottom="C atomic", relation=below(1))],
            source="PEP 703; Choi et al. 2018",
            scope="native",
            why="the owner counts without an atomic operation",
        ),
        Claim(
            id="refcount/sharing-costs",
            text="threads that touch one shared object are slower than threads that touch their own, without a GIL",
            evidence=lambda _: [Comparison(top="shared, 2 threads", bottom="own, 2 threads", relation=above(1.1))],
            source="PEP 703",
            where="free-threaded",
            why="the cache line of the shared count moves between cores",
        ),
        Claim(
            id="refcount/immortal-free",
            text="threads that touch an immortal object are not slower than threads that touch their own, without a GIL",
            evidence=lambda _: [Comparison(top="immortal, 2 threads", bottom="own, 2 threads", relation=below(1.1))],
            source="PEP 683",
            where="free-threaded",
            why="the count of an immortal object is never written",
        ),
    ),
)

EXPERIMENTS = (_RACE, _REFCOUNT)
