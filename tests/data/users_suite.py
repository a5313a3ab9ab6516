"""A suite as users write it, for type checkers to check; it is not run."""

import enum

from headway import Bench


class Kind(enum.Enum):
    ONE = 1
    OTHER = 2


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


def test_keys(headway: Bench) -> None:
    by_number = headway.compare({1: add, 2.5: lambda a: a}, 1)
    assert by_number[1].faster_than(by_number[2.5])
    by_kind = headway.compare_concurrent({Kind.ONE: add, Kind.OTHER: add}, 1, tasks=2)
    assert by_kind.ratio(Kind.ONE, Kind.OTHER).value > 0
    named = {"one": add}
    assert headway.compare(named | {"other": add}, 1).fastest.measured


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
