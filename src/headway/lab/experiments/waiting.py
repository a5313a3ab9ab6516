"""Waiting without work: sleep (source D)."""

from headway.lab.design import Claim, Comparison, Experiment, Published, Size, Variant, between, ends

__all__ = ["EXPERIMENTS"]

_TIMES = 3


def _sleep(size: Size) -> list[Variant]:
    period_s = 0.02 if size == "quick" else 0.2

    def variant(label: str, model: str, **params: object) -> Variant:
        return Variant(
            series=label,
            workload="sleep",
            model=model,
            params={"period_s": period_s, "times": _TIMES, **params},
            samples=2 if size == "quick" else 5,
            warmups=0 if size == "quick" else 1,
        )

    return [
        variant("serial", "serial"),
        variant("asyncio, one by one", "asyncio", gather=False),
        variant("asyncio", "asyncio"),
        variant("threads", "threads"),
    ]


# A timer fires late, never early, so the range extends further towards late.
_AS_ONE = between(0.97 / _TIMES, 1.15 / _TIMES)
_AS_ALL = between(0.97, 1.1)

_SLEEP = Experiment(
    name="sleep",
    question="Do waits overlap?",
    method="Three sleeps of 20 ms (quick) or 0.2 s run one after the other, awaited one by one, gathered, or in threads.",
    included="From the first call to the last return, with a pool or loop that has started.",
    baseline="serial",
    variants=_sleep,
    sources=("D1",),
    turns=True,
    quick_on=ends,
    claims=(
        Claim(
            id="sleep/gather-is-longest",
            text="a gather takes as long as the longest sleep",
            evidence=lambda _: [Comparison(top="asyncio", bottom="serial", relation=_AS_ONE)],
            source="D1",
            published=(Published("D1", "asyncio_gather", "serial"),),
            why="the loop waits for all timers at once",
        ),
        Claim(
            id="sleep/one-by-one-is-sum",
            text="awaiting one by one takes the sum of the sleeps",
            evidence=lambda _: [Comparison(top="asyncio, one by one", bottom="serial", relation=_AS_ALL)],
            source="D1",
            published=(Published("D1", "asyncio_sequential", "serial"),),
            why="the next sleep starts when the previous one has ended",
        ),
        Claim(
            id="sleep/threads-overlap",
            text="threads take as long as the longest sleep, too",
            evidence=lambda _: [Comparison(top="threads", bottom="serial", relation=_AS_ONE)],
            source="Headway",
            why="time.sleep releases the GIL",
        ),
    ),
)

EXPERIMENTS = (_SLEEP,)
