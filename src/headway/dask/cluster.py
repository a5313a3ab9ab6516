"""A client's view of a cluster: its workers' figures, and recordings of any worker. Needs `distributed`."""

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, final

from headway.errors import HeadwayError, UsageError

__all__ = ["Cluster", "ClusterError", "connected"]

_R = TypeVar("_R")
_PATIENCE_S = 10.0
_ADDRESS = re.compile(r"((tcp|tls|ws|wss|ucx)://)?[^\s/]+:\d{1,5}")
_LOOK_S = 0.02
_ALIVE_S = 1.0
"""The time between two checks that a called worker still exists."""


class ClusterError(HeadwayError):
    """A scheduler cannot be reached, or a worker does not do what it is told."""


@final
class Cluster:
    """A connection to a cluster."""

    def __init__(self, client: Any) -> None:
        """Use a distributed.Client."""
        self._client = client

    def workers(self) -> dict[str, Any]:
        """Return the scheduler's description of each worker, by address. Raises ClusterError."""
        try:
            # Client.scheduler_info() may return what another thread has received for the client's own use, without
            # workers.
            ask = self._client.scheduler.identity
            try:
                found = self._client.sync(ask, n_workers=-1)
            except TypeError:  # before 2025.5 the answer always has all workers
                found = self._client.sync(ask)
        except Exception as error:
            raise ClusterError(f"the scheduler does not answer: {error}") from error
        workers: dict[str, Any] = found["workers"]
        return workers

    def hosts(self) -> dict[str, list[str]]:
        """Return the addresses of workers by the address of their host. Raises ClusterError."""
        found: dict[str, list[str]] = {}
        for address in self.workers():
            host = address.partition("://")[2].rpartition(":")[0]
            found.setdefault(host, []).append(address)
        return found

    def ask(self, address: str, function: Callable[..., _R], *arguments: Any, gone: type[Exception]) -> _R:
        """Call a function in a worker, wait for its result however long that takes, and return it.

        Raises:
            gone: The worker is gone, or the scheduler has lost it.
            HeadwayError: As the function raises it, like any other exception of the function.
        """
        from distributed import CancelledError, KilledWorker

        future = self._client.submit(function, *arguments, workers=[address], allow_other_workers=False, pure=False)
        try:
            looked_s = time.monotonic()
            while not future.done():
                time.sleep(_LOOK_S)
                if time.monotonic() - looked_s >= _ALIVE_S:
                    looked_s = time.monotonic()
                    if address not in self.workers():
                        raise gone(address)
            found: _R = future.result()
        except (CancelledError, KilledWorker) as error:
            raise gone(address) from error
        finally:
            future.release()
        return found

    def register(self) -> None:
        """Watch all workers, by registering HeadwayWorker(). Raises ClusterError."""
        from headway.dask.worker import HeadwayWorker

        try:
            self._client.register_plugin(HeadwayWorker())
        except Exception as error:
            raise ClusterError(
                f"the plugin cannot be registered: {error}", hint="install headway where the workers run"
            ) from error

    def find(self, words: str) -> str:
        """Return the address of the worker with that address or name. Raises UsageError."""
        workers = self.workers()
        found = [address for address, one in workers.items() if words in (address, str(one.get("name")))]
        if not found:
            known = ", ".join(str(one.get("name", address)) for address, one in sorted(workers.items())[:10])
            raise UsageError(f"there is no worker {words!r}", hint=f"the workers are {known or 'none'}")
        return found[0]

    def recording(self, address: str) -> tuple[str, bytes]:
        """Return a trace of a worker's last seconds: the file's name and content. Raises ClusterError."""
        from headway.dask.worker import take_recording

        try:
            name, data = self._client.run(take_recording, workers=[address])[address]
        except Exception as error:
            raise ClusterError(f"worker {address} gives no recording: {error}") from error
        return str(name), bytes(data)


async def _greet(address: str) -> None:
    """Connect to a scheduler and leave. `distributed.Client` waits without a limit for a port that takes connections only."""
    from distributed.comm.core import connect
    from distributed.security import Security

    arguments = Security().get_connection_args("client")  # type: ignore[no-untyped-call]
    connecting = connect(address, timeout=_PATIENCE_S, **arguments)  # type: ignore[no-untyped-call]
    comm = await asyncio.wait_for(connecting, _PATIENCE_S)
    await comm.close()


@contextlib.contextmanager
def connected(address: str) -> Iterator[Cluster]:
    """Connect to a scheduler.

    Args:
        address: tcp://HOST:PORT.

    Raises:
        UsageError: `distributed` is not installed here, the address is malformed, or its scheme cannot be used here.
        ClusterError: No scheduler answers there.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise UsageError(
            f"Dask's distributed is not installed beside headway: {error}", hint="install `headway[dask]`"
        ) from error
    if not _ADDRESS.fullmatch(address):
        raise UsageError(
            f"{address!r} is not the address of a scheduler", hint="name an address such as tcp://127.0.0.1:8786"
        )
    try:
        asyncio.run(_greet(address))
        client: Any = Client(address, timeout=_PATIENCE_S, set_as_default=False)  # type: ignore[no-untyped-call]
    except ValueError as error:
        raise UsageError(
            f"{address!r} is not an address: {error}", hint="name an address such as tcp://127.0.0.1:8786"
        ) from error
    except OSError as error:
        raise ClusterError(
            f"there is no scheduler at {address}, or it did not answer within {_PATIENCE_S:g} s"
            + (f": {error}" if str(error) else ""),
            hint="the first lines of `dask scheduler` show its address",
        ) from error
    except (ImportError, RuntimeError, TypeError) as error:
        scheme = address.partition("://")[0]
        raise UsageError(
            f"{scheme} cannot be used here: {error}",
            hint="name its certificates in Dask's configuration, `distributed.comm.tls`"
            if scheme in ("tls", "wss")
            else "name a scheduler's tcp:// address",
        ) from error
    try:
        yield Cluster(client)
    finally:
        client.close()
