"""The effect of each version and build of CPython on single-threaded speed (source C, last section)."""

from headway.lab.design import Claim, Comparison, Experiment, Size, Variant, above, below

__all__ = ["EXPERIMENTS", "KERNELS"]

KERNELS = ("loop", "calls", "attributes", "containers", "text", "generators", "floats", "exceptions")
"""The kernels of the agent's workload; each is a metric `NAME_s`."""


def _single_thread(size: Size) -> list[Variant]:
    scale = {"quick": 30, "standard": 300, "published": 1_000}[size]
    return [
        Variant(
            series="kernels",
            workload="kernels",
            model="serial",
            params={"scale": scale},
            samples={"quick": 5, "standard": 15, "published": 20}[size],
        )
    ]


_SINGLE_THREAD = Experiment(
    name="single-thread",
    question="How did each CPython version, and its free-threaded build, change single-threaded speed?",
    method=(
        f"{len(KERNELS)} pure-Python kernels ({', '.join(KERNELS)}) run once per sample; the figure is the geometric "
        "mean of their times. Every interpreter found runs the same code."
    ),
    included=(
        "The kernels alone. Builds differ in more than their version: a comparison of a distribution's build (PGO, LTO, newer "
        "compiler) with a plain build from source does not compare versions; `headway interpreters` shows the build options."
    ),
    baseline="kernels",
    variants=_single_thread,
    compares="interpreters",
    parts=tuple(f"{kernel}_s" for kernel in KERNELS),
    sources=(),
    claims=(
        Claim(
            id="single-thread/3.11-faster",
            text="3.11 is faster than 3.10 on one thread",
            evidence=lambda _: [
                Comparison(
                    top="kernels",
                    bottom="kernels",
                    relation=below(1),
                    top_interpreter="3.11",
                    bottom_interpreter="3.10",
                )
            ],
            source="What's New in Python 3.11: 1.25 times on average of pyperformance (a time ratio of 0.80)",
            scope="pair",
            why="the specialising adaptive interpreter (PEP 659)",
        ),
        Claim(
            id="single-thread/free-threaded-slower",
            text="the free-threaded build of 3.13 is slower than 3.13 on one thread",
            evidence=lambda _: [
                Comparison(
                    top="kernels",
                    bottom="kernels",
                    relation=above(1),
                    top_interpreter="3.13t",
                    bottom_interpreter="3.13",
                )
            ],
            source="CPython 3.13 free-threading HOWTO: about 40 % on pyperformance (a time ratio of 1.4)",
            scope="pair",
            why="3.13t counts references atomically for objects of other threads and does not specialise",
        ),
    ),
)

EXPERIMENTS = (_SINGLE_THREAD,)
