"""SET commands through redis-py (source B): one client, threads over a pool, asyncio, processes; and the limit in C.

Keys are `<prefix>0` to `<prefix>999` in turn, on the lab's own server or the user's, and are removed at the end.
"""

import socket
import subprocess
import sys
import time

from . import Tasks

_VALUE = "x" * 16

_clients = {}
"""URL -> this process's client with its connection pool."""


def _client(url):
    if url not in _clients:
        import redis

        # All threads of a process share one pool; a thread takes a connection for a command and puts it back.
        _clients[url] = redis.Redis(connection_pool=redis.ConnectionPool.from_url(url, socket_timeout=30))
    return _clients[url]


def _keys(prefix, keys, start, count):
    return ["%s%d" % (prefix, (start + i) % keys) for i in range(count)]


def set_keys(url, prefix, keys, start, count):
    """Set `count` keys, one command at a time; return how many the server acknowledged."""
    client = _client(url)
    return sum([bool(client.set(key, _VALUE)) for key in _keys(prefix, keys, start, count)])


_async_client = None


async def set_keys_coroutine(url, prefix, keys, start, count):
    """Do the same as `set_keys` through the asyncio client of this process, over one pool."""
    done = 0
    for key in _keys(prefix, keys, start, count):
        done += bool(await _async_client.set(key, _VALUE))
    return done


class RedisSet(Tasks):
    """`commands` SETs over `tasks` tasks, `workers` workers. `hiredis`: false prevents the import of hiredis.

    Metrics: `work_s`, and `requests_per_s` over all tasks.
    """

    function = set_keys

    def __init__(self, job):
        if not job["params"].get("hiredis", False):
            # redis-py imports hiredis wherever it is installed. Our spawned children do not have its folder.
            sys.modules["hiredis"] = None
        if job["model"] == "asyncio":
            self.task = set_keys_coroutine
        Tasks.__init__(self, job)

    def make_arguments(self):
        server, tasks = self.job["server"], self.params["tasks"]
        self._each = self.params["commands"] // tasks
        common = (server["url"], server["prefix"], server["keys"])
        return [(*common, task * self._each, self._each) for task in range(tasks)]

    def expected(self):
        return [self._each] * self.params["tasks"]

    def open(self):
        metrics = Tasks.open(self)
        # Every worker imports redis and makes its client now, so that no sample pays for it.
        self.model.on_each(_client, self.job["server"]["url"])
        if self.job["model"] == "asyncio":
            global _async_client
            _async_client = self.model.run_coroutine(self._open_client())
        used = sys.modules.get("hiredis") is not None
        if used != self.params.get("hiredis", False):
            raise AssertionError(
                "hiredis is %s, expected it %s" % (("absent", "there")[used], ("absent", "there")[not used])
            )
        return metrics

    async def _open_client(self):
        # Created in a coroutine, because before CPython 3.10 its locks belong to the loop that runs at their creation.
        # The pool makes a connection when none is free, so there are as many connections as coroutines.
        import redis.asyncio

        return redis.asyncio.Redis.from_url(self.job["server"]["url"], socket_timeout=30)

    def sample(self):
        metrics = Tasks.sample(self)
        metrics["requests_per_s"] = self._each * self.params["tasks"] / metrics["work_s"]
        return metrics

    def close(self):
        server = self.job["server"]
        if _async_client is not None:
            close = getattr(_async_client, "aclose", None) or _async_client.close
            self.model.run_coroutine(close())
        client = _client(server["url"])
        names = _keys(server["prefix"], server["keys"], 0, server["keys"])
        for start in range(0, len(names), 500):
            client.delete(*names[start : start + 500])
        client.connection_pool.disconnect()
        Tasks.close(self)


def _resp(*words):
    """Return a command in Redis's protocol."""
    parts = ["*%d\r\n" % len(words)]
    parts += ["$%d\r\n%s\r\n" % (len(word.encode()), word) for word in words]
    return "".join(parts)


class _LetIn:
    """A context manager that lets programs set one key of a server of the lab's without logging in.

    redis-benchmark takes a password only among its arguments, which every user of the machine can read. A server of the
    user's is left unchanged. At the end, connections without a password, including those still open, lose all rights
    again.
    """

    def __init__(self, server):
        self._url = server["url"]
        self._rules = server.get("without_password")

    def _set(self, rules):
        from urllib.parse import urlsplit

        parts = urlsplit(self._url)
        with socket.create_connection((parts.hostname, parts.port), timeout=10) as connection:
            lines = "AUTH %s %s\r\nACL SETUSER default %s\r\n" % (parts.username, parts.password, rules)
            connection.sendall(lines.encode())
            answer = b""
            while answer.count(b"\n") < 2:
                part = connection.recv(4096)
                if not part:
                    break
                answer += part
        if answer != b"+OK\r\n+OK\r\n":
            raise OSError("the server does not let the program in: %s" % answer.decode(errors="replace")[:100])

    def __enter__(self):
        if self._rules:
            self._set(self._rules)
        return self

    def __exit__(self, kind, _error, _trace):
        if not self._rules:
            return
        try:
            self._set("reset")
        except OSError:
            if kind is None:  # otherwise the first error is the one to report
                raise


class RedisBenchmark:
    """The limit: `redis-benchmark` itself, `connections` connections, `commands` SETs of one key.

    Metrics: `work_s`, `requests_per_s`.
    """

    def __init__(self, job):
        self.job = job
        self.params = job["params"]

    def open(self):
        return {}

    def sample(self):
        server = self.job["server"]
        from urllib.parse import urlsplit

        parts = urlsplit(server["url"])
        command = [server["benchmark"], "-h", parts.hostname, "-p", str(parts.port or 6379), "--csv"]
        command += ["-c", str(self.params["connections"]), "-n", str(self.params["commands"])]
        command += ["SET", server["prefix"] + "benchmark", _VALUE]
        with _LetIn(server):
            begun_s = time.perf_counter()
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
            work_s = time.perf_counter() - begun_s
        # The last line is `"SET ...","53561.86",...`: commands per second, then latencies.
        fields = [field.strip('"') for field in (done.stdout.splitlines() or [""])[-1].split('","')]
        if done.returncode != 0 or len(fields) < 2:
            raise OSError("redis-benchmark failed: %s" % (done.stderr.strip() or done.stdout.strip())[-300:])
        return {"work_s": work_s, "requests_per_s": float(fields[1])}

    def close(self):
        pass


class RedisLoad:
    """The limit by Headway's own load client in C: `connections` connections in a closed loop.

    Metrics: `work_s`, `requests_per_s`.
    """

    def __init__(self, job):
        self.job = job
        self.params = job["params"]

    def open(self):
        from urllib.parse import urlsplit

        from ..load import LoadClient

        server = self.job["server"]
        parts = urlsplit(server["url"])
        self._config = {
            "protocol": "tcp",
            "address": socket.gethostbyname(parts.hostname),
            "port": parts.port or 6379,
            "connections": self.params["connections"],
            "request": _resp("SET", server["prefix"] + "benchmark", _VALUE),
            "response_bytes": len("+OK\r\n"),
            "model": "closed",
            "duration_s": self.params["duration_s"],
        }
        self._client = LoadClient(self.job["library"], self.job["cpus"])
        return {}

    def sample(self):
        with _LetIn(self.job["server"]):
            result = self._client.run(self._config)
        return {"requests_per_s": result["requests_per_s"], "work_s": result["elapsed_s"]}

    def close(self):
        self._client.close()
