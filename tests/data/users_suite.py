"""A suite as users write it, for type checkers to check; it is not run."""

from headway import Bench


def add(a: int, b: int = 1) -> int:
    return a + b


async def fetch(path: str) -> bytes:
    return path.encode()


def test_plain(headway: Bench) -> None:
    result = headway(add, 1, b=2)
    assert result.returned == 3
    assert result.takes_less_than(0.01)
    other = headway.options(seconds=0.1, gc=False)(add, 2)
    assert not other.faster_than(result, by=100.0)
    load = headway.concurrent(add, 1, tasks=4, model="threads")
    assert load.percentile(0.9).below(10.0)
    wait: float = load.percentile_s(0.99)
    assert wait < 10


async def test_async(headway: Bench) -> None:
    result = await headway(fetch, "/")
    other = await headway(fetch, "/other")
    decision = await other.faster_than(result)
    text: str = decision.outcome
    assert text
    found = await headway.compare({"one": fetch, "other": fetch}, "/")
    ratio = found.ratio("one", "other")
    assert ratio is None or ratio.value > 0
    assert list(found) == ["one", "other"]
