"""Is asyncio worth it? Sleeping, files, requests and queries, sync against asyncio, alone and with CPU work beside them.

Each test measures its alternatives in turns and shows their ratio; what is asserted is what the article said, where that
does not depend on the machine's disk.
"""

import asyncio
import sqlite3
import time
import urllib.request

import aiofiles
import aiohttp
import aiosqlite
import pytest

pytestmark = [pytest.mark.asyncio, pytest.mark.headway(rounds=6, calls=1)]

PERIOD_S, LONG_S = 0.04, 0.1  # the long one where a ratio is asserted, or sums are beside it
FILES = 10
DATA = bytes(16 * 2**20)  # made here, not in the time of a write


def sigma(n):
    """Add up the numbers to n: work for the CPU."""
    total = 0
    for number in range(n + 1):
        total += number
    return total


async def sigma_coroutine(n):
    return sigma(n)


# ------------------------------------------------------------------ sleeping
async def test_three_sleeps(headway):
    def in_turn():
        for _ in range(3):
            time.sleep(LONG_S)

    async def awaited_in_turn():
        for _ in range(3):
            await asyncio.sleep(LONG_S)

    async def gathered():
        await asyncio.gather(*[asyncio.sleep(LONG_S) for _ in range(3)])

    found = await headway.compare({"serial": in_turn, "asyncio, in turn": awaited_in_turn, "asyncio": gathered})
    assert found["asyncio"].faster_than(found["serial"], by=2.4)
    assert found["asyncio, in turn"].no_faster_than(found["serial"], by=1.1)


# ------------------------------------------------------------------ CPU work alone
async def test_three_sums(headway):
    def in_turn():
        for _ in range(3):
            sigma(200_000)

    async def gathered():
        await asyncio.gather(*[sigma_coroutine(200_000) for _ in range(3)])

    found = await headway.compare({"serial": in_turn, "asyncio": gathered})
    assert found["asyncio"].no_faster_than(found["serial"], by=1.5)


# ------------------------------------------------------------------ files
def write(path):
    with open(path, "wb", buffering=0) as file:
        file.write(DATA)
    path.unlink()


async def write_coroutine(path):
    async with aiofiles.open(path, "wb", buffering=0) as file:
        await file.write(DATA)
    await asyncio.to_thread(path.unlink)


@pytest.mark.parametrize("sums", [0, 3], ids=["files", "files and sums"])
async def test_ten_files(headway, tmp_path, sums):
    paths = [tmp_path / f"file-{place}" for place in range(FILES)]

    def in_turn():
        for path in paths:
            write(path)
        for _ in range(sums):
            sigma(200_000)

    async def gathered():
        await asyncio.gather(*map(write_coroutine, paths), *[sigma_coroutine(200_000) for _ in range(sums)])

    found = await headway.compare({"serial": in_turn, "asyncio": gathered})
    assert found["asyncio"].no_faster_than(found["serial"], by=3)


# ------------------------------------------------------------------ requests
@pytest.mark.parametrize(("requests", "sums"), [(1, 0), (3, 0), (3, 3)], ids=["one", "three", "three and sums"])
async def test_requests(headway, server_url, requests, sums):
    url = f"{server_url}?period={LONG_S if sums else PERIOD_S}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def fetch():
        with opener.open(url, timeout=60) as answer:
            assert answer.read() == b"ok"

    def in_turn():
        for _ in range(requests):
            fetch()
        for _ in range(sums):
            sigma(100_000)

    async with aiohttp.ClientSession() as session:

        async def fetch_coroutine():
            async with session.get(url) as answer:
                assert await answer.read() == b"ok"

        async def gathered():
            fetches = [fetch_coroutine() for _ in range(requests)]
            await asyncio.gather(*fetches, *[sigma_coroutine(100_000) for _ in range(sums)])

        found = await headway.compare({"serial": in_turn, "asyncio": gathered})
    if requests > 1:
        assert found["asyncio"].faster_than(found["serial"], by=1.8)


# ------------------------------------------------------------------ SQLite
def slept(period_s):
    time.sleep(period_s)
    return period_s


def query(period_s):
    connection = sqlite3.connect(":memory:")
    connection.create_function("sleep", 1, slept)
    assert connection.execute("SELECT sleep(?)", (period_s,)).fetchone() == (period_s,)
    connection.close()


async def query_coroutine(period_s):
    async with aiosqlite.connect(":memory:") as connection:
        await connection.create_function("sleep", 1, slept)
        async with connection.execute("SELECT sleep(?)", (period_s,)) as cursor:
            assert await cursor.fetchone() == (period_s,)


@pytest.mark.parametrize(("queries", "sums"), [(1, 0), (3, 0), (3, 3)], ids=["one", "three", "three and sums"])
async def test_queries(headway, queries, sums):
    period_s = LONG_S if sums else PERIOD_S

    def in_turn():
        for _ in range(queries):
            query(period_s)
        for _ in range(sums):
            sigma(100_000)

    async def gathered():
        await asyncio.gather(
            *[query_coroutine(period_s) for _ in range(queries)], *[sigma_coroutine(100_000) for _ in range(sums)]
        )

    found = await headway.compare({"serial": in_turn, "asyncio": gathered})
    if queries > 1:
        assert found["asyncio"].faster_than(found["serial"], by=1.8)
