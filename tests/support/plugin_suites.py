"""Short suites, as users write them, for real pytest runs."""

EVERY_KIND = """
import asyncio
import anyio
import pytest
import pytest_asyncio

pytestmark = pytest.mark.headway(seconds=0.02)


def add(a, b=1):
    return a + b


async def nothing():
    pass


async def nap(seconds=0.001):
    await anyio.sleep(seconds)


def test_plain(headway):
    result = headway(add, 1, b=2)
    assert 0 < result.per_call_s < 1e-3
    assert result.model == "serial"


def test_async_from_plain(headway):
    result = headway(nothing)
    assert result.model == "asyncio" and result.launches[0].loop_s > result.per_call_s


def test_trio_from_plain(headway):
    assert headway.options(loop="trio")(nap).model == "trio"


@pytest.mark.asyncio(loop_scope="SCOPE")
async def test_asyncio(headway):
    loop = asyncio.get_running_loop()
    seen = set()

    async def look():
        seen.add(asyncio.get_running_loop())

    result = await headway(look)
    assert seen == {loop}
    assert result.model == "asyncio" and result.launches[0].loop_s > 0


@pytest.mark.asyncio(loop_scope="SCOPE")
async def test_loads(headway):
    headway = headway.options(rounds=20)
    one = await headway.serial(nap, 3)
    many = await headway.concurrent(nap, tasks=8)
    assert one.percentile_s(0.5) > 0.0009
    assert await many.faster_than(one)
    assert many.loop_lag_s >= 0
    opened = await headway.open(nap, rate=100, seconds=0.2)
    assert opened.percentile_s(0.5) > 0.0009


@pytest.mark.anyio
async def test_anyio(headway, anyio_backend_name):
    result = await headway(nap)
    assert result.model == anyio_backend_name
    assert (await headway.concurrent(nap, tasks=4)).tasks == 4


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


@pytest.mark.parametrize("model", ["threads", "processes", "interpreters"])
def test_models(headway, model):
    import sys

    if model == "interpreters" and sys.version_info < (3, 12):
        pytest.skip("none before 3.12")
    result = headway.concurrent(add, 1, tasks=2, model=model)
    assert result.tasks == 2 and len(result.launches[0].latencies_s) > 2


@pytest.mark.skip(reason="not now")
def test_skipped(headway):
    headway(add, 1)


def test_failing(headway):
    headway(add, 1)
    assert False, "as it should"
"""

FORGOTTEN = """
import pytest


async def fetch():
    return 1


@pytest.mark.asyncio
async def test_not_awaited(headway):
    headway(fetch)


def test_a_lambda_that_makes_a_coroutine(headway):
    headway(lambda: fetch())


def test_a_coroutine(headway):
    headway(fetch())


@pytest.mark.asyncio
async def test_not_awaited_but_asserted(headway):
    assert headway(fetch)
"""


TWO = """
import pytest

def slow():
    return sum(range(20_000))

def fast():
    return sum(range(500))

@pytest.mark.headway(rounds=3, calls=3)
def test_two(headway):
    one, other = headway.options(name="slow")(slow), headway.options(name="fast")(fast)
    assert one.name != other.name

@pytest.mark.headway(rounds=3, calls=3, name="third")
def test_third(headway):
    headway(fast)
"""

STOPS = """
import pytest

@pytest.mark.headway(rounds=3, calls=3, name="first")
def test_first(headway):
    headway(sum, range(10))
    STOP

@pytest.mark.headway(rounds=3, calls=3, name="second")
def test_second(headway):
    headway(sum, range(10))
"""

LOST = """
import pytest

@pytest.mark.headway(rounds=3, calls=3)
@pytest.mark.parametrize("place", range(4))
def test_many(headway, place):
    headway(sum, range(10))

@pytest.mark.headway(rounds=3, calls=3, name="first")
def test_kept(headway):
    headway(sum, range(10))

@pytest.mark.headway(rounds=3, calls=3, name="second")
def test_other(headway):
    headway(sum, range(10))
"""


def tables(result):
    """Return the text below the heading of Headway's section."""
    text = result.stdout.str()
    assert "benchmarks (Headway)" in text, text
    return text.partition("benchmarks (Headway)")[2]
