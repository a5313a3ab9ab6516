"""Requests to an HTTP server: http-sleep, http-sleep-and-sigma (source D), file-and-http (A4)."""

from headway.lab.design import (
    Claim,
    Comparison,
    Experiment,
    Placement,
    Published,
    Size,
    Variant,
    between,
    both_kinds,
    over_serial,
)

__all__ = ["EXPERIMENTS"]

_PLACED: tuple[Placement, ...] = ("split",)
_SERVER = (
    "The server is aiohttp's, in its own process and interpreter, on a core that the client does not use (`split`); "
    "it answers after the given time."
)
_FIGURE = (
    "From the first call to the last return, with a pool or loop that has started and, for aiohttp, an open session."
)
_BESIDES = (
    ("overhead_alone_s", "client's overhead per request, alone: its time beyond the server's own time"),
    ("overhead_s", "client's overhead per request in the experiment itself, with concurrent requests"),
)
_PERIOD_S = {"quick": 0.04, "standard": 0.2, "published": 0.2}
_LIBRARY = ("aiohttp",)


def _client(series: str, model: str, setting: tuple[str, ...], size: Size, **params: object) -> Variant:
    return Variant(
        series=series,
        setting=setting,
        workload="http",
        model=model,
        params={"period_s": _PERIOD_S[size], **params},
        samples=2 if size == "quick" else 5,
        # The workload's own requests without delay have warmed up the client.
        warmups=0,
        placements=_PLACED,
        needs=_LIBRARY if model == "asyncio" else (),
        server="http",
        space={"disk": 64 * 2**20} if params.get("file_bytes") else {},
    )


_ONE, _THREE = "1 request", "3 requests"
_DRAWN = (_THREE, "drawn times")


def _http_sleep(size: Size) -> list[Variant]:
    models = (("serial", "serial"), ("asyncio", "asyncio"), ("threads", "threads"), ("processes", "processes-spawn"))
    variants = [_client(series, model, (_ONE,), size, requests=1) for series, model in models[:2]]
    variants += [_client(series, model, (_THREE,), size, requests=3) for series, model in models]
    variants += [_client(series, model, _DRAWN, size, requests=3, jitter=0.5) for series, model in models[:2]]
    return variants


_AS_ONE = between(0.9 / 3, 1.3 / 3)


_HTTP_SLEEP = Experiment(
    name="http-sleep",
    question="Do requests to a slow server overlap, and how much does the client itself cost?",
    method=(
        "One and three requests of 40 ms (quick) or 0.2 s run with serial urllib, gathered aiohttp, and urllib in threads "
        "and in processes; another case has three requests whose times vary by a half either way (seeded). " + _SERVER
    ),
    included=_FIGURE,
    baseline="serial",
    variants=_http_sleep,
    besides=_BESIDES,
    sources=("D5",),
    quick_on=both_kinds,
    claims=(
        Claim(
            id="http-sleep/one-is-one",
            text="a single request takes as long with asyncio as with urllib",
            evidence=lambda _: [over_serial("asyncio", _ONE, between(0.9, 1.15))],
            source="D5",
            published=(Published("D5", "asyncio", "serial", "one request"),),
            why="there is nothing to overlap",
        ),
        Claim(
            id="http-sleep/gather-is-one",
            text="three gathered requests take as long as one",
            evidence=lambda _: [over_serial("asyncio", _THREE, _AS_ONE)],
            source="D5",
            published=(Published("D5", "asyncio_gather", "serial", "three"),),
            why="the loop waits for all answers at once",
            says="Requests to a slow server overlap with asyncio: three take {ratio} of the serial time.",
        ),
        Claim(
            id="http-sleep/threads-too",
            text="three requests in threads take as long as one",
            evidence=lambda _: [over_serial("threads", _THREE, _AS_ONE)],
            source="Headway",
            why="a thread that waits for a socket releases the GIL",
            says="Three slow requests overlap in threads, too: they take {ratio} of the serial time.",
            advice="For a small number of requests, a thread pool with urllib does what asyncio does, without another library.",
        ),
    ),
)

_SLEEPS_AND_SUMS = "3 requests, 3 sums"


def _http_sleep_and_sigma(size: Size) -> list[Variant]:
    params = {
        "requests": 3,
        "sums": 3,
        "n": 100_000,
        # In proportion to the sums as in the author's experiment: 3 s of waiting beside some 15 ms of work.
        "period_s": {"quick": 0.1, "standard": 1.0, "published": 1.0}[size],
    }
    models = (("serial", "serial"), ("asyncio", "asyncio"), ("threads", "threads"))
    return [_client(series, model, (), size, **params) for series, model in models]


_HTTP_SLEEP_AND_SIGMA = Experiment(
    name="http-sleep-and-sigma",
    question="Do slow requests overlap with CPU work in the client?",
    method=(
        "Three requests of 0.1 s (quick) or 1 s and three sums of 0..100,000 run serially with urllib, gathered "
        "with aiohttp (the sums in coroutines that never await), and in threads. " + _SERVER
    ),
    included=_FIGURE,
    baseline="serial",
    variants=_http_sleep_and_sigma,
    besides=_BESIDES,
    sources=("D6",),
    quick_on=both_kinds,
    claims=(
        Claim(
            id="http-sleep-and-sigma/gather-is-longest",
            text="three gathered requests and sums take little more time than one request",
            evidence=lambda _: [Comparison(top="asyncio", bottom="serial", relation=_AS_ONE)],
            source="D6",
            published=(Published("D6", "asyncio_gather", "serial"),),
            why="the sums run while the requests wait",
            says="Short CPU work overlaps with slow requests: {ratio} of the serial time.",
        ),
    ),
)


def _file_and_http(size: Size) -> list[Variant]:
    params = {
        "requests": 10,
        "workers": 10,
        "file_bytes": 2**20,
        "period_s": {"quick": 0.02, "standard": 0.1, "published": 0.5}[size],
        "jitter": 0.2,
    }
    models = (("serial", "serial"), ("threads", "threads"), ("asyncio", "asyncio"))
    return [_client(series, model, (), size, **params) for series, model in models]


_FILE_AND_HTTP = Experiment(
    name="file-and-http",
    question="Which model suits tasks that use a file and then the network?",
    method=(
        "Each of ten tasks writes, reads and removes a file of 1 MiB random bytes on the disk, then makes one request of about "
        "20 ms (quick), 0.1 s or 0.5 s (published), which varies by a fifth either way. Serial and threads (ten) use urllib; "
        "asyncio uses aiohttp, with the file in the coroutine. " + _SERVER
    ),
    included=_FIGURE + " The random bytes are created beforehand.",
    baseline="serial",
    variants=_file_and_http,
    besides=_BESIDES,
    sources=("A4",),
    quick_on=both_kinds,
    claims=(
        Claim(
            id="file-and-http/threads",
            text="ten threads take about a seventh of the serial time",
            evidence=lambda _: [Comparison(top="threads", bottom="serial", relation=between(0.07, 0.25))],
            source="A4",
            published=(Published("A4", "threads", "serial"),),
            why="the requests overlap, and the file work releases the GIL",
            says="Tasks with a file and a request overlap in threads: ten take {ratio} of the serial time.",
        ),
        Claim(
            id="file-and-http/asyncio",
            text="asyncio gains nearly as much, with the files in its one thread",
            evidence=lambda _: [Comparison(top="asyncio", bottom="serial", relation=between(0.07, 0.35))],
            source="A4",
            published=(Published("A4", "asyncio", "serial"),),
            why="the requests overlap, the files do not",
        ),
    ),
)

EXPERIMENTS = (_HTTP_SLEEP, _HTTP_SLEEP_AND_SIGMA, _FILE_AND_HTTP)
