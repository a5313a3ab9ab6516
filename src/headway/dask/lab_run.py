"""Runs the lab on many machines: each worker's machine measures a whole run, and one local store keeps all results.

A run belongs to one machine: it has the machine's interpreters, cores and verdicts, and as many launches as its claims
need. The runs of a cluster have a name in common; `headway.lab.judging.machines` says what holds on how many of them.
Therefore a slow machine changes no figure of another one, and whether a claim holds on it, too, can be answered.

A worker receives whole blocks of launches, one at a time; no host ever measures two blocks at once. Each launch is
stored before the next begins. If a worker dies, only the launches in progress are lost: the next worker of its host, as
a nanny starts it, continues the run.
"""

import contextlib
import functools
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar, final

from headway.dask import lab_worker
from headway.dask.cluster import Cluster, ClusterError
from headway.errors import HeadwayError, UsageError
from headway.host.paths import default_store
from headway.lab.design import Cell
from headway.lab.kept.launched import Launch
from headway.lab.kept.results import Run, read_run
from headway.lab.kept.store import Store
from headway.lab.launching.request import Request, check
from headway.lab.launching.runner import left_of, plan_of
from headway.lab.launching.session import Progress, Session

__all__ = ["ClusterRun", "go_on", "run_on"]

_R = TypeVar("_R")
_LOOK_S: Final = 0.2
_TRIES: Final = 3
_INSTALL: Final = "install this version of headway for the scheduler and for each worker"
_GONE_S: Final = 90.0
"""How long a host may be without a worker: a nanny takes some seconds to start another one."""


class _WorkerDiedError(Exception):
    """The worker that was called is gone."""


@final
@dataclass(frozen=True)
class ClusterRun:
    """The runs of one cluster run.

    Attributes:
        cluster: The name that the runs have in common.
        runs: The run of each machine, complete or not.
        lost: Why a host's run did not complete, by host.
    """

    cluster: str
    runs: tuple[Run, ...]
    lost: dict[str, str]


@final
class _Host:
    """A machine of the cluster, represented by any of its present workers."""

    def __init__(self, cluster: Cluster, host: str) -> None:
        self._cluster, self.host = cluster, host
        self._address = ""

    def _worker(self) -> str:
        """Return a worker of this host. Raises ClusterError if there is none for _GONE_S."""
        until_s = time.monotonic() + _GONE_S
        while time.monotonic() < until_s:
            found = sorted(self._cluster.hosts().get(self.host, ()))
            if found and self._address not in found:
                self._address = found[0]
            if found:
                return self._address
            time.sleep(_LOOK_S)
        raise ClusterError(f"{self.host} has had no worker for {_GONE_S:g} s")

    def ask(self, function: Callable[..., _R], *arguments: Any) -> _R:
        """Call a function in this host's worker.

        Raises:
            _WorkerDiedError: The worker is gone.
            HeadwayError, NotBegunError: As the function raises it.
            ClusterError: The scheduler or the worker cannot call the function, as without Headway.
        """
        address = self._worker()
        try:
            answer: _R = self._cluster.ask(address, function, *arguments, gone=_WorkerDiedError)
        except (_WorkerDiedError, HeadwayError, lab_worker.NotBegunError):
            raise
        except Exception as error:
            why = " ".join(f"{type(error).__name__}: {error}".split())  # Dask's own reasons have several lines
            raise ClusterError(f"worker {address} gives no answer: {why}", hint=_INSTALL) from error
        return answer

    def end(self, token: str) -> None:
        """End a run in the worker that has begun it, unless that worker is gone, and with it the run."""
        with contextlib.suppress(_WorkerDiedError, HeadwayError):
            if self._address in self._cluster.hosts().get(self.host, ()):
                self.ask(lab_worker.end, token)


@final
class _Launcher:
    """Launches on a host; begins the run again there if the host's worker has died."""

    def __init__(self, host: _Host, token: str, again: Callable[[], None], turn: AbstractContextManager[Any]) -> None:
        self._host, self._token, self._again, self._turn = host, token, again, turn

    def __call__(self, cells: Sequence[Cell], block: int) -> list[Launch]:
        for _ in range(_TRIES):
            try:
                with self._turn:
                    pid, launches = self._host.ask(lab_worker.launch, self._token, list(cells), block)
            except (_WorkerDiedError, lab_worker.NotBegunError):
                self._again()
                continue
            for one in launches:
                one.facts["worker"] = f"{self._host.host}, process {pid}"
            return launches
        # The launch itself may kill the workers: the run continues without it.
        return [Launch(reason=f"{_TRIES} workers of {self._host.host} died during it") for _ in cells]


def _hosts_of(cluster: Cluster) -> list[str]:
    found = sorted(cluster.hosts())
    if not found:
        raise ClusterError("the cluster has no workers", hint="start some with `dask worker`")
    return found


class _Measuring:
    """Carries out the runs of a cluster, each in a separate thread."""

    def __init__(
        self,
        cluster: Cluster,
        store: Path,
        report: Callable[[str, Progress], None],
        say: Callable[[str], None],
        *,
        in_turns: bool,
    ) -> None:
        self._cluster, self._store, self._report, self._say = cluster, store, report, say
        # Held while a machine measures, if the machines take turns.
        self._turn: AbstractContextManager[Any] = threading.Lock() if in_turns else contextlib.nullcontext()
        self._stopped = threading.Event()

    def _reported(self, host: str) -> Callable[[Progress], None]:
        def report(progress: Progress) -> None:
            if self._stopped.is_set() and progress.cell is not None:
                raise HeadwayError("stopped")
            self._report(host, progress)

        return report

    @contextlib.contextmanager
    def _host(self, name: str) -> Iterator[tuple[_Host, str]]:
        """Yield a host and the token of a run on it, which ends with the block, complete or not."""
        host, token = _Host(self._cluster, name), secrets.token_hex(8)
        try:
            yield host, token
        finally:
            host.end(token)

    def begin(self, name: str, request: Request, cluster: str) -> None:
        """Carry out a new run of a cluster on a host. Raises HeadwayError."""
        asked = replace(request, store=None)
        with Store(self._store, write=True) as results, self._host(name) as (host, token):
            settings, plan = self._until_it_works(host, lab_worker.begin, token, asked, cluster, name)
            self._carry_out(results, results.new_run(settings, plan.cells), host, token)

    def go_on(self, name: str, run_id: str) -> None:
        """Carry out the rest of a run on its host. Raises HeadwayError."""
        with Store(self._store, write=True) as results, self._host(name) as (host, token):
            self._begin_again(results, run_id, host, token)
            self._carry_out(results, run_id, host, token)

    def _begin_again(self, results: Store, run_id: str, host: _Host, token: str) -> None:
        header, cells = results.find_run(run_id), results.cells(run_id)
        left = left_of(plan_of(header.settings, cells), results.done(run_id))
        self._until_it_works(host, lab_worker.begin_again, token, header.settings, cells, left)

    def _carry_out(self, results: Store, run_id: str, host: _Host, token: str) -> None:
        """Carry out the remaining launches of a run that the host has begun, and store the run's end."""

        def again() -> None:
            self._say(f"{host.host}: another worker continues run {run_id}")
            self._begin_again(results, run_id, host, token)

        plan = plan_of(results.find_run(run_id).settings, results.cells(run_id))
        Session(results, run_id, self._reported(host.host)).carry_out(plan, _Launcher(host, token, again, self._turn))
        results.end_run(run_id)

    def _until_it_works(self, host: _Host, function: Callable[..., _R], *arguments: Any) -> _R:
        for _ in range(_TRIES):
            with contextlib.suppress(_WorkerDiedError):
                return host.ask(function, *arguments)
        raise ClusterError(f"{_TRIES} workers of {host.host} died at the start of the run")

    def all_of(self, jobs: Sequence[tuple[str, Callable[[], None]]]) -> dict[str, HeadwayError]:
        """Run jobs concurrently, one for each host; return why hosts were lost, by host."""
        lost: dict[str, HeadwayError] = {}
        # An executor that is interrupted while it takes a job may not wait for that job's thread. So no job begins before all
        # are taken.
        are_taken = threading.Event()

        def begin(job: Callable[[], None]) -> None:
            are_taken.wait()
            if self._stopped.is_set():
                raise HeadwayError("stopped")
            job()

        with ThreadPoolExecutor(max(1, len(jobs)), thread_name_prefix="headway-lab") as threads:
            try:
                futures = {host: threads.submit(begin, job) for host, job in jobs}
                are_taken.set()
                for host, future in futures.items():
                    try:
                        future.result()
                    except HeadwayError as error:
                        lost[host] = error
                        self._say(f"{host}: {error.message}{f'; {error.hint}' if error.hint else ''}")
            except KeyboardInterrupt:
                self._stopped.set()
                raise
            finally:
                are_taken.set()
        return lost


def _read(store: Path, cluster: str, lost: dict[str, HeadwayError]) -> ClusterRun:
    with Store(store) as results:
        runs = [header for header in results.runs() if header.settings.cluster == cluster]
        runs.sort(key=lambda header: header.settings.host)
        reasons = {host: error.message for host, error in lost.items()}
        return ClusterRun(cluster, tuple(read_run(results, header.id) for header in runs), reasons)


def run_on(
    cluster: Cluster,
    request: Request,
    *,
    report: Callable[[str, Progress], None],
    say: Callable[[str], None],
    in_turns: bool = False,
) -> ClusterRun:
    """Run the lab on each host of a cluster.

    Args:
        cluster: The connection.
        request: The run to make; each machine uses the interpreters that it has.
        report: Called as `headway.lab.run` calls it, with the host's name as an additional first argument.
        say: Called with each further message, of one line.
        in_turns: Measure on one machine at a time, for machines that share cores, as virtual machines of one host may.

    Raises:
        UsageError: Bad or contradictory values, found before anything runs.
        ClusterError: There are no workers, or none of their machines can measure this.
        StoreError: The store cannot be written.
    """
    check(request)
    store = request.store or default_store()
    with Store(store, create=True):
        pass
    name = secrets.token_hex(4)
    measuring = _Measuring(cluster, store, report, say, in_turns=in_turns)
    hosts = _hosts_of(cluster)
    say(f"cluster run {name} on {len(hosts)} machines: {', '.join(hosts)}")
    # With one seed, all machines launch in the same order.
    request = replace(request, seed=secrets.randbits(32) if request.seed is None else request.seed)

    lost = measuring.all_of([(host, functools.partial(measuring.begin, host, request, name)) for host in hosts])
    found = _read(store, name, lost)
    if not found.runs:
        raise ClusterError(
            "no machine could start: " + "; ".join(f"{host}: {why}" for host, why in found.lost.items()),
            hint=next((error.hint for error in lost.values() if error.hint), ""),
        )
    return found


def go_on(
    cluster: Cluster,
    name: str,
    *,
    store: Path | None,
    report: Callable[[str, Progress], None],
    say: Callable[[str], None],
    in_turns: bool = False,
) -> ClusterRun:
    """Complete the interrupted runs of a cluster, each on its own host.

    Args:
        cluster: The connection.
        name: `ClusterRun.cluster`.
        store: The results store; None means the user's own.
        report: As for `run_on`.
        say: As for `run_on`.
        in_turns: As for `run_on`.

    Raises:
        UsageError: There are no such runs.
        StoreError: The store cannot be written.
    """
    path = store or default_store()
    with Store(path, write=True) as results:
        headers = [one for one in results.runs() if one.settings.cluster == name]
    if not headers:
        raise UsageError(
            f"there is no cluster run {name!r}", hint="`headway runs --json` lists the names of cluster runs"
        )
    measuring = _Measuring(cluster, path, report, say, in_turns=in_turns)
    unfinished = [(one.settings.host, one.id) for one in headers if not one.complete]
    if not unfinished:
        say(f"nothing to do: the cluster run {name} is complete")
    lost = measuring.all_of([(host, functools.partial(measuring.go_on, host, run_id)) for host, run_id in unfinished])
    return _read(path, name, lost)
