"""Requests to a server that answers after a given time (source D, and A4 with a file before each request).

The server is the lab's own, in a separate process; `job["server"]` has its address.
"""

import json
import os
import time

from . import Tasks
from .cpu import sigma
from .files import make_data, write_read_remove

_session = None
"""The aiohttp client session of this process: one for all requests, as its documentation asks for."""


_opener = None


def _open(url):
    """Open a URL without the proxy that the environment may name: the server is on this machine."""
    global _opener
    if _opener is None:
        from urllib.request import ProxyHandler, build_opener

        _opener = build_opener(ProxyHandler({}))
    return _opener.open(url, timeout=60)


def fetch(url):
    """GET with urllib; return (the request's seconds, the seconds reported by the server)."""
    begun_s = time.perf_counter()
    with _open(url) as answer:
        served_s = json.loads(answer.read())["served_s"]
    return time.perf_counter() - begun_s, served_s


async def fetch_coroutine(url):
    """Do the same as `fetch` with aiohttp."""
    begun_s = time.perf_counter()
    async with _session.get(url) as answer:
        served_s = json.loads(await answer.read())["served_s"]
    return time.perf_counter() - begun_s, served_s


def fetch_or_add(url, n):
    """Make a request, or compute a sum of 0..n if `url` is empty."""
    return fetch(url) if url else sigma(n, n + 1, 0)


async def fetch_or_add_coroutine(url, n):
    return await fetch_coroutine(url) if url else sigma(n, n + 1, 0)


def file_and_fetch(path, url):
    """Write, read and remove a file, then make one request."""
    write_read_remove(path, False)
    return fetch(url)


async def file_and_fetch_coroutine(path, url):
    """Do the same as `file_and_fetch` in a coroutine, which does not await in the file's part."""
    write_read_remove(path, False)
    return await fetch_coroutine(url)


class Http(Tasks):
    """`requests` requests of `period_s` each, and `sums` sums of 0..`n` among the tasks.

    Parameters besides: `jitter` (the share of the period that the seeded draw adds or subtracts), `file_bytes` (write,
    read and remove a file of random bytes before each request, in the launch's folder on `volume`).

    Metrics: `work_s`; `overhead_s`, the time of each request beyond the time reported by the server; `overhead_alone_s`
    (from `open`), the same for requests without delay, one after the other.
    """

    _PROBES = 20

    def __init__(self, job):
        server, params = job["server"], job["params"]
        self._base = "http://%s:%d/sleep?period=" % (server["host"], server["port"])
        self._asyncio = job["model"] == "asyncio"
        self._file = params.get("file_bytes", 0)
        if self._file:
            self.task = file_and_fetch_coroutine if self._asyncio else file_and_fetch
        elif params.get("sums"):
            self.task = fetch_or_add_coroutine if self._asyncio else fetch_or_add
        else:
            self.task = fetch_coroutine if self._asyncio else fetch
        Tasks.__init__(self, job)

    def make_arguments(self):
        params = self.params
        urls = [
            "%s%r&jitter=%r&key=%d" % (self._base, params["period_s"], params.get("jitter", 0), key)
            for key in range(params["requests"])
        ]
        if self._file:
            folder = self.job["folders"][params.get("volume", "disk")]
            return [(os.path.join(folder, "file-%d" % i), url) for i, url in enumerate(urls)]
        if params.get("sums"):
            return [(url, 0) for url in urls] + [("", params["n"])] * params["sums"]
        return [(url,) for url in urls]

    def open(self):
        metrics = Tasks.open(self)
        if self._file:
            self.model.on_each(make_data, self._file, True)
        if self._asyncio:
            self.model.run_coroutine(self._open_session())
        overheads = []
        # The first request in every worker is not kept: it imports the client's modules.
        if not self._asyncio:
            self.model.on_each(fetch, self._base + "0")
        for _ in range(self._PROBES + 1):
            if self._asyncio:
                took_s, served_s = self.model.run_coroutine(fetch_coroutine(self._base + "0"))
            else:
                took_s, served_s = fetch(self._base + "0")
            overheads.append(took_s - served_s)
        metrics["overhead_alone_s"] = overheads[1:]
        return metrics

    @staticmethod
    async def _open_session():
        global _session
        import aiohttp

        # The default connector allows 100 connections, which none of our workloads reaches.
        _session = aiohttp.ClientSession()

    def sample(self):
        results, work_s = self.timed()
        answers = [result for result in results if isinstance(result, tuple)]
        sums = [result for result in results if not isinstance(result, tuple)]
        n = self.params.get("n", 0)
        if len(answers) != self.params["requests"] or sums != [n * (n + 1) // 2] * self.params.get("sums", 0):
            raise AssertionError("the tasks returned %r" % (results,))
        return {
            "work_s": work_s,
            "overhead_s": [took_s - served_s for took_s, served_s in answers],
        }

    def close(self):
        if _session is not None:
            self.model.run_coroutine(_session.close())
        Tasks.close(self)
