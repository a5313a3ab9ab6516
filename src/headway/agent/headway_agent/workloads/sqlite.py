"""SQLite: queries that sleep in a user-defined function (source D), and readers beside writers on a WAL file."""

import os
import random
import sqlite3
import time

from . import Tasks
from .cpu import sigma


def _slept(period_s):
    time.sleep(period_s)
    return period_s


def query(period_s):
    """Connect, `SELECT sleep(period_s)`, close: one query, one connection."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.create_function("sleep", 1, _slept)
        return connection.execute("SELECT sleep(?)", (period_s,)).fetchone()[0]
    finally:
        connection.close()


async def query_coroutine(period_s):
    """Do the same as `query` through aiosqlite, which has a thread for each connection."""
    import aiosqlite

    async with aiosqlite.connect(":memory:") as connection:
        await connection.create_function("sleep", 1, _slept)
        async with connection.execute("SELECT sleep(?)", (period_s,)) as cursor:
            return (await cursor.fetchone())[0]


def query_or_add(period_s, n):
    """Run a query, or compute a sum of 0..n if `period_s` is 0."""
    return query(period_s) if period_s else sigma(n, n + 1, 0)


async def query_or_add_coroutine(period_s, n):
    return await query_coroutine(period_s) if period_s else sigma(n, n + 1, 0)


class SqliteSleep(Tasks):
    """`queries` queries of `period_s` each, and `sums` sums of 0..`n` among the tasks. Metric: `work_s`."""

    def __init__(self, job):
        coroutines = job["model"] == "asyncio"
        if job["params"].get("sums"):
            self.task = query_or_add_coroutine if coroutines else query_or_add
        else:
            self.task = query_coroutine if coroutines else query
        Tasks.__init__(self, job)

    def make_arguments(self):
        period_s, sums = self.params["period_s"], self.params.get("sums", 0)
        if sums:
            return [(period_s, 0)] * self.params["queries"] + [(0, self.params["n"])] * sums
        return [(period_s,)] * self.params["queries"]

    def expected(self):
        n = self.params.get("n", 0)
        sums = [n * (n + 1) // 2] * self.params.get("sums", 0)
        return [self.params["period_s"]] * self.params["queries"] + sums


_BUSY_S = 60.0
_READ = "SELECT balance FROM accounts WHERE id = ?"
_SUM = "SELECT COUNT(*), SUM(balance) FROM accounts"
_WRITE = "UPDATE accounts SET balance = balance + ? WHERE id = ?"


def _transfers(seed, count, accounts):
    """Yield (amount, from, to); equal seeds yield equal values."""
    drawn = random.Random(seed)
    for _ in range(count):
        yield drawn.randrange(1, 100), drawn.randrange(accounts), drawn.randrange(accounts)


def _connect(path):
    connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
    # The recommended setting for WAL: the log is synced at a checkpoint, not at every commit.
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def work_on_accounts(path, writes, reads, accounts, seed):
    """Transfer between random accounts in `writes` transactions, and read an account and the sum `reads` times.

    Returns how many sums were wrong. The number must be 0, because a transaction is seen whole or not at all.
    """
    connection = _connect(path)
    try:
        wrong = 0
        for amount, source, target in _transfers(seed, writes, accounts):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(_WRITE, (-amount, source))
            connection.execute(_WRITE, (amount, target))
            connection.execute("COMMIT")
        for _, account, _ in _transfers(seed, reads, accounts):
            connection.execute(_READ, (account,)).fetchone()
            wrong += connection.execute(_SUM).fetchone() != (accounts, 0)
        return wrong
    finally:
        connection.close()


async def work_on_accounts_coroutine(path, writes, reads, accounts, seed):
    """Do the same as `work_on_accounts` through aiosqlite."""
    import aiosqlite

    async with aiosqlite.connect(path, timeout=_BUSY_S, isolation_level=None) as connection:
        await connection.execute("PRAGMA synchronous = NORMAL")
        wrong = 0
        for amount, source, target in _transfers(seed, writes, accounts):
            await connection.execute("BEGIN IMMEDIATE")
            await connection.execute(_WRITE, (-amount, source))
            await connection.execute(_WRITE, (amount, target))
            await connection.execute("COMMIT")
        for _, account, _ in _transfers(seed, reads, accounts):
            async with connection.execute(_READ, (account,)) as cursor:
                await cursor.fetchone()
            async with connection.execute(_SUM) as cursor:
                wrong += tuple(await cursor.fetchone()) != (accounts, 0)
        return wrong


class SqliteWal(Tasks):
    """`writers` tasks of `writes` transactions and `readers` tasks of `reads` reads on one file in WAL mode.

    Each task has a connection. The file has `accounts` rows, and lies in the launch's folder on `volume`. Metric:
    `work_s`.
    """

    function = work_on_accounts

    def __init__(self, job):
        if job["model"] == "asyncio":
            self.task = work_on_accounts_coroutine
        Tasks.__init__(self, job)

    def make_arguments(self):
        params = self.params
        self._path = os.path.join(self.job["folders"][params.get("volume", "disk")], "accounts.sqlite")
        writers = [(self._path, params["writes"], 0, params["accounts"], seed) for seed in range(params["writers"])]
        readers = [(self._path, 0, params["reads"], params["accounts"], seed) for seed in range(params["readers"])]
        return writers + readers

    def expected(self):
        return [0] * (self.params["writers"] + self.params["readers"])

    def open(self):
        connection = sqlite3.connect(self._path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)")
        rows = ((i,) for i in range(self.params["accounts"]))
        connection.executemany("INSERT INTO accounts VALUES (?, 0)", rows)
        connection.commit()
        connection.close()
        return Tasks.open(self)
