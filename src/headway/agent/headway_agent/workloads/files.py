"""File workloads: write, read and remove (source A); large writes, directly and through asyncio's libraries (source D).

Every worker makes its bytes beforehand, and their cost is reported separately, so that it is not mistaken for I/O.
"""

import os
import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from . import Tasks
from .cpu import sigma

_data = b""


def make_data(size_bytes, random_bytes):
    """Make this worker's data."""
    global _data
    _data = os.urandom(size_bytes) if random_bytes else bytes(size_bytes)


def write(path, sync):
    """Write this worker's data to a new file, unbuffered; with `sync`, wait until the device has the data."""
    with open(path, "wb", buffering=0) as file:
        view = memoryview(_data)
        # A write of more than 2 GiB, or on a full disk, may write less than requested.
        while view:
            view = view[file.write(view) :]
        if sync:
            os.fsync(file.fileno())


def write_read_remove(path, sync):
    """Write a file, read it back, remove it; return the number of bytes read."""
    try:
        write(path, sync)
        with open(path, "rb", buffering=0) as file:
            return len(file.read())
    finally:
        remove(path)


def remove(path):
    try:
        os.remove(path)
    except FileNotFoundError:
        pass  # The file could not be made: the error of that matters.


def write_remove(path, sync):
    """Write a file and remove it; return the file's size in bytes."""
    try:
        write(path, sync)
        return os.path.getsize(path)
    finally:
        remove(path)


def urandom_s(size_bytes):
    """Return how long it takes to make so many random bytes, in s."""
    begun_s = time.perf_counter()
    os.urandom(size_bytes)
    return time.perf_counter() - begun_s


class _Files(Tasks):
    """Tasks over `files` files of `size_bytes`, in turn over the launch's folders on `volumes`; `sync`: with fsync."""

    random_bytes = True

    def make_arguments(self):
        folders = [self.job["folders"][volume] for volume in self.params["volumes"]]
        return [
            (os.path.join(folders[i % len(folders)], "file-%d" % i), self.params.get("sync", False))
            for i in range(self.params["files"])
        ]

    def expected(self):
        return [self.params["size_bytes"]] * self.params["files"]

    def open(self):
        metrics = Tasks.open(self)
        self.model.on_each(make_data, self.params["size_bytes"], self.random_bytes)
        return metrics


class FileIo(_Files):
    """Write, read and remove random bytes. Metrics: `work_s`; and, serial only, `urandom_s` for one file's bytes.

    `work_s` does not include `urandom_s`.
    """

    function = write_read_remove

    def open(self):
        metrics = _Files.open(self)
        if self.job["model"] == "serial":
            metrics["urandom_s"] = urandom_s(self.params["size_bytes"])
        return metrics


def add(n):
    return sigma(n, n + 1, 0)


def write_or_add(path, sync, n):
    """Write a file, or compute a sum of 0..n if `path` is empty."""
    return write_remove(path, sync) if path else add(n)


class FileWrite(_Files):
    """Write zero bytes to new files and remove them; `sums` sums of 0..`n` are among the tasks.

    `via` is one of:
    - "": plain files through the model.
    - "aiofiles": an executor of `pool` threads (0: the loop's default); at most `limit` files at a time (0: all).
    - "aiofile/uring", "aiofile/aio", "aiofile/thread": the kernel's own asynchronous I/O, or threads in C.

    Metric: `work_s`.
    """

    function = write_remove
    random_bytes = False

    def __init__(self, job):
        self._via, _, self._context = job["params"].get("via", "").partition("/")
        if job["params"].get("sums"):
            self.task = write_or_add
        Tasks.__init__(self, job)

    def make_arguments(self):
        arguments = _Files.make_arguments(self)
        if self.params.get("sums"):
            arguments = [(path, sync, 0) for path, sync in arguments]
            arguments += [("", False, self.params["n"])] * self.params["sums"]
        return arguments

    def expected(self):
        n = self.params.get("n", 0)
        return _Files.expected(self) + [n * (n + 1) // 2] * self.params.get("sums", 0)

    def open(self):
        metrics = _Files.open(self)
        if self._via:
            import asyncio

            self._asyncio = asyncio
            pool = self.params.get("pool", 0)
            self._executor = ThreadPoolExecutor(pool) if pool else None
            self.model.run_coroutine(self._open())
            # A bound method: the model gathers it like any coroutine function.
            self.task = self._write
            if pool:
                metrics["workers"] = pool
        return metrics

    async def _open(self):
        limit = self.params.get("limit", 0)
        self._limit = self._asyncio.Semaphore(limit) if limit else None
        if self._via == "aiofile":
            import caio

            found = {module.__name__.split(".")[1]: module for module in caio.variants_asyncio}
            # caio falls back silently if the kernel refuses a variant; this takes exactly the requested one.
            name = {"uring": "linux_uring", "aio": "linux_aio", "thread": "thread_aio"}[self._context] + "_asyncio"
            self._caio = found[name].AsyncioContext()

    async def _write(self, path, sync, n=0):
        if not path:
            return add(n)
        if self._limit is None:
            return await self._write_file(path, sync)
        async with self._limit:
            return await self._write_file(path, sync)

    async def _write_file(self, path, sync):
        try:
            if self._via == "aiofiles":
                import aiofiles

                async with aiofiles.open(path, "wb", buffering=0, executor=self._executor) as file:
                    view = memoryview(_data)
                    while view:
                        view = view[await file.write(view) :]
            else:
                import aiofile

                async with aiofile.AIOFile(path, "wb", context=self._caio) as file:
                    await file.write_bytes(_data)
            return os.path.getsize(path)
        finally:
            remove(path)

    def close(self):
        if self._via == "aiofile":
            self.model.run_coroutine(self._close())
        if self._via and self._executor is not None:
            self._executor.shutdown()
        Tasks.close(self)

    async def _close(self):
        self._caio.close()


class DiskBaseline:
    """The device without Python: `dd` of `size_bytes` zero bytes to each of five files.

    `concurrent`: all at once; `overwrite`: to existing files; `sync`: dd's own time includes fdatasync.
    Metrics: `file_1_bytes_per_s` to `file_5_bytes_per_s` as reported by dd, and `sum_bytes_per_s` over all files from
    the first start to the last end. Source: dd(1).
    """

    _FILES = 5

    def __init__(self, job):
        self.params = job["params"]
        folder = job["folders"][self.params["volumes"][0]]
        self._paths = [os.path.join(folder, "file-%d" % i) for i in range(self._FILES)]

    def open(self):
        if self.params["overwrite"]:
            self._write()
        return {}

    def _start(self, path):
        block = min(self.params["size_bytes"], 2**20)
        command = [
            "dd",
            "if=/dev/zero",
            "of=" + path,
            "bs=%d" % block,
            "count=%d" % (self.params["size_bytes"] // block),
        ]
        command += ["conv=fdatasync"] if self.params.get("sync") else []
        return subprocess.Popen(
            command, stderr=subprocess.PIPE, universal_newlines=True, env=dict(os.environ, LC_ALL="C")
        )

    def _write(self):
        """Run dd over all files; return the bytes per s of each."""
        if self.params["concurrent"]:
            return [self._rate(process) for process in [self._start(path) for path in self._paths]]
        return [self._rate(self._start(path)) for path in self._paths]

    def _rate(self, process):
        told = process.communicate()[1].strip().splitlines()
        if process.returncode != 0:
            raise OSError("dd failed: %s" % (told or ["it said nothing"])[0])
        # "33554432 bytes (34 MB, 32 MiB) copied, 0.0152 s, 2.2 GB/s"; BusyBox says "seconds".
        found = re.match(r"(\d+) bytes .*copied, ([\d.e-]+) s", told[-1])
        if found is None:
            raise OSError("dd told what we cannot read: %s" % told[-1])
        return float(found.group(1)) / float(found.group(2))

    def sample(self):
        if not self.params["overwrite"]:
            for path in self._paths:
                remove(path)
        begun_s = time.perf_counter()
        rates = self._write()
        took_s = time.perf_counter() - begun_s
        metrics = {"file_%d_bytes_per_s" % (i + 1): rate for i, rate in enumerate(rates)}
        metrics["sum_bytes_per_s"] = self._FILES * self.params["size_bytes"] / took_s
        return metrics

    def close(self):
        for path in self._paths:
            remove(path)
