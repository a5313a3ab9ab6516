"""The plugin that runs in Dask's workers, and the function by which a client takes a recording from one."""

import asyncio
import contextlib
import functools
import inspect
import os
import sys
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Generic, TypeVar, final

import distributed.worker
from dask.utils import key_split
from distributed.diagnostics.plugin import WorkerPlugin

from headway.dask.figures import METRIC
from headway.dask.tasks import TaskTimes
from headway.errors import HeadwayError
from headway.live.metrics import Counting
from headway.live.own_recorder import the_recorder
from headway.live.recording import gil_times
from headway.live.roles import MAX_ROLES, normalised
from headway.live.schedule import Schedule, check, schedule
from headway.live.stall_log import StallLog
from headway.live.watch import is_of_this_process
from headway.live.watching import Watch, watch

__all__ = ["HeadwayWorker", "take_recording"]

_MOST_TASKS: Final = 30
_PATIENCE_S: Final = 30.0
_MOST_RECORDING_BYTES: Final = 1 << 30

_times: dict[int, TaskTimes] = {}
"""Task times by the id of a worker in this process; a LocalCluster without processes has several workers."""
_said: set[str] = set()
_unmeasured: Callable[..., Any] | None = None


_Begun = TypeVar("_Begun")


@final
class _Shared(Generic[_Begun]):
    """One part of a process that its workers share, such as its watch; it ends with the last worker that uses it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._workers: set[int] = set()
        self._arguments: object = None
        self._begun: tuple[_Begun, Callable[[], object]] | None = None

    def use(self, worker: Any, arguments: object, begin: Callable[[], tuple[_Begun, Callable[[], object]]]) -> _Begun:
        """Return what another worker has begun with the same arguments; else begin anew.

        Args:
            worker: The worker, which must call `leave`.
            arguments: The plugin's arguments. Others than before end what was begun with those.
            begin: Returns what has begun, and the function that ends it.
        """
        with self._lock:
            if self._arguments != arguments:
                self._end()
            if self._begun is None:
                self._begun, self._arguments = begin(), arguments
            self._workers.add(id(worker))
            return self._begun[0]

    def leave(self, worker: Any) -> None:
        """Let a worker use it no more."""
        with self._lock:
            self._workers.discard(id(worker))
            if not self._workers:
                self._end()

    def _end(self) -> None:
        begun, self._begun = self._begun, None
        if begun is not None:
            begun[1]()


_watches: Final = _Shared[Watch]()
_schedules: Final = _Shared[Schedule]()


def _say_once(text: str) -> None:
    if text not in _said and sys.stderr is not None:
        _said.add(text)
        sys.stderr.write(f"headway: Dask worker in process {os.getpid()}: {text}\n")


def _measure(worker: Any) -> TaskTimes | None:
    """Measure the tasks of a worker from now on; return None if this version of Dask does not allow that.

    A worker calls `_run_task(task, data, execution_state, key, ...)` of its module in the thread that runs the task.
    """
    global _unmeasured  # noqa: PLW0603 the function is one of a module, too
    if _unmeasured is None:
        original = getattr(distributed.worker, "_run_task", None)
        names = [] if original is None else list(inspect.signature(original).parameters)
        if original is None or not {"execution_state", "key"} <= set(names):
            _say_once(f"tasks cannot be distinguished with distributed {version('distributed')}")
            return None
        state_at, key_at = names.index("execution_state"), names.index("key")

        @functools.wraps(original)
        def run_task(*arguments: Any, **named: Any) -> Any:
            state = named.get("execution_state", arguments[state_at] if len(arguments) > state_at else None)
            key = named.get("key", arguments[key_at] if len(arguments) > key_at else "?")
            times = _times.get(id(state["worker"])) if state else None
            if times is None:
                return original(*arguments, **named)
            return times.measured(str(key_split(key)), functools.partial(original, *arguments, **named))

        _unmeasured = original
        distributed.worker._run_task = run_task  # noqa: SLF001 there is no hook around a task's function
    return _times.setdefault(id(worker), TaskTimes())


def _measure_no_more(worker: Any) -> None:
    global _unmeasured  # noqa: PLW0603
    _times.pop(id(worker), None)
    if not _times and _unmeasured is not None:
        distributed.worker._run_task = _unmeasured  # noqa: SLF001
        _unmeasured = None


@final
class HeadwayWorker(WorkerPlugin):  # type: ignore[misc,unused-ignore]  # no types where distributed is not installed
    """Watches a worker, measures its tasks, and schedules its GIL: `client.register_plugin(HeadwayWorker())`.

    A second registration begins anew with other arguments. If a worker cannot do one of these, it says so once on its
    stderr, and works on.
    """

    name = METRIC

    def __init__(
        self,
        policy: str = "",
        *,
        options: dict[str, int] | None = None,
        folder: str = "",
        over_s: float = 0.1,
        watched: bool = True,
    ) -> None:
        """Prepare the plugin.

        Args:
            policy: The policy of the workers' GILs, as `headway policies` lists them; "": CPython's own behaviour.
            options: The policy's options.
            folder: The folder for recordings on each worker's machine; by default `headway` in the worker's own folder.
            over_s: The length in seconds from which a lap of the loop is reported as a stall.
            watched: Record, and report stalls; otherwise only count.

        Raises:
            SchedulingError: There is no such policy, or it has no such option.
            NativeError: A policy is requested, and the native library is missing here.
        """
        if policy:
            check(policy, options or {})
        self._policy = policy
        self._options = options or {}
        self._folder = folder
        self._over_s = over_s
        self._watched = watched

    def _begin(self, worker: Any) -> None:
        self._worker = worker
        self._tasks: TaskTimes | None = None
        self._counting: Counting | None = None
        self._schedule: Schedule | None = None
        self._watch: Watch | None = None
        self._log: StallLog | None = None
        self._loop_role = normalised(threading.current_thread().name)

    async def setup(self, worker: Any) -> None:
        """Start the plugin on a worker."""
        self._begin(worker)
        for step in (self._begin_watching, self._begin_counting, self._begin_scheduling):
            try:
                # In another thread, because a process is started, and the worker's loop must go on meanwhile.
                await asyncio.to_thread(step)
            except (HeadwayError, OSError) as error:
                _say_once(str(error))
        if self._counting is not None:
            self._tasks = _measure(worker)
        worker.metrics[METRIC] = self.told

    def teardown(self, worker: Any) -> None:
        """Stop the plugin on a worker."""
        worker.metrics.pop(METRIC, None)
        _measure_no_more(worker)
        _schedules.leave(worker)
        _watches.leave(worker)

    def _begin_watching(self) -> None:
        if not self._watched:
            return
        folder = Path(self._folder or Path(self._worker.local_directory) / "headway").absolute()

        def begin() -> tuple[Watch, Callable[[], object]]:
            recorder = the_recorder()
            is_watched = recorder.active and not recorder.counts_only
            found = watch(folder, name="dask", over_s=self._over_s, quiet=True, required=True)
            return found, (lambda: None) if is_watched else found.stop  # a watch that is not ours goes on

        self._watch = _watches.use(self._worker, (self._folder, self._over_s), begin)
        if self._watch.watches and self._watch.log is not None:
            self._log = StallLog(self._watch.log)

    def _begin_counting(self) -> None:
        gil_times()
        self._counting = Counting(None, MAX_ROLES)

    def _begin_scheduling(self) -> None:
        def begin() -> tuple[Schedule, Callable[[], object]]:
            found = schedule(self._policy, **self._options)
            return found, found.stop

        if self._policy:
            self._schedule = _schedules.use(self._worker, (self._policy, self._options), begin)

    async def told(self, _worker: Any) -> dict[str, Any]:
        """Return this worker's figures since the plugin began; each heartbeat sends them to the scheduler."""
        found: dict[str, Any] = {
            "time_s": time.monotonic(),  # for differences only: the clock of the day may be set
            "pid": os.getpid(),
            "loop": self._loop_role,
            "policy": self._policy if self._schedule is not None and self._schedule.active else "",
            "tasks": self._tasks.told(_MOST_TASKS) if self._tasks is not None else {},
            "roles": {},
            "stalls": None,  # unknown
            "last_stall": "",
        }
        if self._log is not None:
            self._log.read()
            found |= {"stalls": self._log.by_cause, "last_stall": self._log.last}
        if self._counting is not None:
            try:
                totals = self._counting.totals()
            except HeadwayError as error:
                _say_once(str(error))
            else:
                found["roles"] = {
                    role: [one.hold_ns / 1e9, one.wait_ns / 1e9] for (gil, role), one in totals.items() if not gil
                }
        return found


async def take_recording(dask_worker: Any) -> tuple[str, bytes]:
    """Write a worker's last seconds to a file; return the file's name and content. A client runs this on a worker.

    Raises:
        RuntimeError: The worker is not watched, or nothing was written in time.
    """
    plugin = dask_worker.plugins.get(METRIC)
    watching = getattr(plugin, "_watch", None)
    if watching is None:
        raise RuntimeError("this worker is not watched: register HeadwayWorker() first")
    if not watching.watches:
        raise RuntimeError(
            "this worker is not watched: it was recorded already when the plugin began, as by `headway trace`"
        )
    pattern = f"*-{os.getpid()}.hwt"
    before = set(watching.folder.glob(pattern))
    watching.record()
    until_s = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until_s:
        await asyncio.sleep(0.05)
        for path in set(watching.folder.glob(pattern)) - before:
            with contextlib.suppress(FileNotFoundError):  # newer recordings replace the oldest
                if path.stat().st_size > _MOST_RECORDING_BYTES:
                    continue
                data = path.read_bytes()
                if is_of_this_process(data):
                    return path.name, data
                before.add(path)
    raise RuntimeError(f"no recording was written in {watching.folder} within {_PATIENCE_S:g} s")
