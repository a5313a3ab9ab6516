"""The run: every planned launch, one at a time, each stored before the next starts.

The runner sleeps in `select` while a launch runs. From four physical cores on it keeps the last to itself and launches
run on the others, so that it never shares a core with what it measures.
"""

import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

from headway import native
from headway.errors import HeadwayError, InterpreterError, NativeError, UsageError
from headway.lab import doctor, interpreters, store
from headway.lab.design import ONE_WORKER, PLACEMENTS, SIZES, Cell, Placement, Size
from headway.lab.experiments import experiment, experiments
from headway.lab.interpreters import Interpreter
from headway.lab.keeper import Keeper
from headway.lab.launch import Launch, run_launch
from headway.lab.lock import only_lab
from headway.lab.machine import Machine, split_off_runner, this_machine
from headway.lab.paths import default_store
from headway.lab.plan import Plan, Skipped, make_plan, needed
from headway.lab.results import Run, read_run
from headway.lab.surroundings import Neighbours, Surroundings, prepare

__all__ = ["Progress", "Request", "resume", "run"]


@final
@dataclass(frozen=True)
class Progress:
    """What a run tells while it runs: once before each launch, once after the last launch of an experiment, and at the end.

    Attributes:
        run: The run's id.
        done: Launches stored so far, those of an earlier try included.
        planned: Launches in all.
        cell: What starts now; None at the end, and where an experiment is done.
        block: Which repetition that is.
        failed: Failed launches so far.
        left_s: Estimate of the time that is left, from the launches so far; None at first.
        finished: The experiment whose last launch is stored now; "" otherwise.
    """

    run: str
    done: int
    planned: int
    cell: Cell | None
    block: int
    failed: int
    left_s: float | None
    finished: str = ""


_MOST_LAUNCHES = 10_000
_MOST_S = 7 * 24 * 3600

Report = Callable[[Progress], None]
Say = Callable[[str], None]


@final
@dataclass(frozen=True, kw_only=True)
class Request:
    """What to run, as the command line or a caller asks for it; validated by `run`.

    Attributes:
        experiments: Names; none means all.
        size: "quick", "standard" or "published".
        interpreters: As `interpreters.select` takes them; none means the newest patch of every minor and build.
        models: Only these; none means all.
        placement: Only this one; None means each variant's own.
        launches: Per cell; None means the size's default.
        seed: For the order and the resampling; None draws one.
        limit_s: Seconds a launch may take; None means the size's default.
        memory_limit_bytes: Address space of a launch's processes; None leaves it unlimited.
        store: The results store; None means the user's own.
        redis_url: A Redis to use instead of the lab's own; "" means `$REDIS_URL`. Never stored: it may hold a password.
    """

    experiments: Sequence[str] = ()
    size: Size = "quick"
    interpreters: Sequence[str] = ()
    models: Sequence[str] = ()
    placement: Placement | None = None
    launches: int | None = None
    seed: int | None = None
    limit_s: float | None = None
    memory_limit_bytes: int | None = None
    store: Path | None = None
    redis_url: str = ""


def _validate(request: Request) -> None:
    """Raise UsageError for values that no run can have."""
    if request.size not in SIZES:
        raise UsageError(
            f"the size is `{request.size}`, expected one of {', '.join(SIZES)}", hint="see `headway lab --help`"
        )
    if request.placement is not None and request.placement not in PLACEMENTS:
        raise UsageError(
            f"the placement is `{request.placement}`, expected one of {', '.join(PLACEMENTS)}",
            hint="see `headway lab --help`",
        )
    for name, value, most in (
        ("number of launches", request.launches, _MOST_LAUNCHES),
        ("time limit in seconds", request.limit_s, _MOST_S),
        ("memory limit in bytes", request.memory_limit_bytes, sys.maxsize),
    ):
        if value is not None and not 0 < value <= most:
            raise UsageError(
                f"the {name} is {value}, expected more than 0 and at most {most}",
                hint="leave it out for the default, or use 10, say",
            )


def _native_library() -> tuple[Path | None, str]:
    try:
        return native.library_path(), ""
    except NativeError as error:
        return None, error.message


@contextmanager
def _on_cores(cores: Sequence[int]) -> Iterator[None]:
    """Keep ourselves to `cores`, where there are any to spare; launches are given theirs."""
    before = os.sched_getaffinity(0)
    if cores:
        os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _settings(plan: Plan, machine: Machine, chosen: Sequence[Interpreter], request: Request) -> dict[str, Any]:
    """Return what a run was run with, as JSON values: enough to read it, and to go on with it."""
    from headway import __version__

    return {
        "version": __version__,
        "size": plan.size,
        "launches": plan.launches,
        "seed": plan.seed,
        "limit_s": plan.limit_s,
        "memory_limit_bytes": plan.memory_limit_bytes,
        "experiments": list(request.experiments) or [one.name for one in experiments()],
        "models": list(request.models),
        "placement": request.placement,
        "machine": machine.to_json(),
        "doctor": [check.to_json() for check in doctor.examine()],
        "interpreters": [interpreter.to_json() for interpreter in chosen],
        "skipped": [asdict(one) for one in plan.skipped],
    }


class _Session:
    """One try at a plan: knows what is left, launches it, stores it, reports it."""

    def __init__(
        self,
        results: store.Store,
        run_id: str,
        plan: Plan,
        machine: Machine,
        executables: dict[str, str],
        library: Path | None,
        surroundings: Surroundings,
        report: Report,
    ) -> None:
        self._surroundings = surroundings
        self._store = results
        self._run_id = run_id
        self._plan = plan
        self._machine = machine
        self._executables = executables
        self._library = library
        self._report = report
        # Typical wall time of each cell, to tell what is left; the mean over all until a cell has run.
        self._walls_s: dict[str, float] = {}

    def _left_s(self, rest: Sequence[tuple[int, Cell]]) -> float | None:
        if not self._walls_s:
            return None
        mean_s = sum(self._walls_s.values()) / len(self._walls_s)
        return sum(self._walls_s.get(cell.key, mean_s) for _, cell in rest)

    def go(self) -> None:
        done = self._store.done(self._run_id)
        planned = self._plan.order()
        pending = [(block, cell) for block, cell in planned if (cell.key, block) not in done]
        failed = 0
        spare = sorted(os.sched_getaffinity(0) - set(self._machine.cores))
        opened = self._surroundings.opened(self._machine, self._plan.seed)
        with Keeper() as keeper, opened as neighbours, _on_cores(spare):
            for position, (block, cell) in enumerate(pending):
                count = len(planned) - len(pending) + position
                self._report(
                    Progress(self._run_id, count, len(planned), cell, block, failed, self._left_s(pending[position:]))
                )
                launch = self._launch(cell, block, keeper, neighbours)
                self._walls_s[cell.key] = launch.wall_s
                failed += launch.status == "failed"
                self._store.add_launch(self._run_id, cell.key, block, launch)
                rest = pending[position + 1 :]
                if not rest or rest[0][1].experiment != cell.experiment:
                    left_s = self._left_s(rest)
                    self._report(
                        Progress(self._run_id, count + 1, len(planned), None, block, failed, left_s, cell.experiment)
                    )
        self._store.end_run(self._run_id)
        self._report(Progress(self._run_id, len(planned), len(planned), None, self._plan.launches, failed, 0.0))

    def _launch(self, cell: Cell, block: int, keeper: Keeper, neighbours: Neighbours) -> Launch:
        try:
            with neighbours.of(cell, keeper) as beside:
                launch = run_launch(
                    cell,
                    self._executables[cell.interpreter],
                    self._machine,
                    library=self._library,
                    limit_s=self._plan.limit_s,
                    memory_limit_bytes=self._plan.memory_limit_bytes,
                    keeper=keeper,
                    beside=beside,
                    seed=(self._plan.seed + block) % 2**63,
                )
        except (HeadwayError, OSError) as error:
            return Launch(reason=f"what it needs could not be made ready: {error}")
        if launch.status == "failed":
            died = neighbours.autopsy(cell)
            launch.reason = f"{died}; then: {launch.reason}" if died else launch.reason
        return launch


def _silent(_progress: Progress) -> None:
    pass


def _mute(_line: str) -> None:
    pass


def _executables(chosen: Sequence[Interpreter]) -> dict[str, str]:
    """Return interpreter id -> executable; native cells run under the last of them that has ctypes."""
    paths = {interpreter.id: interpreter.executable for interpreter in chosen}
    with_ctypes = [interpreter for interpreter in chosen if interpreter.ctypes]
    if with_ctypes:
        paths[ONE_WORKER] = with_ctypes[-1].executable
    return paths


def run(request: Request | None = None, *, report: Report = _silent, say: Say = _mute) -> Run:
    """Run the lab and return the results.

    Every launch is in the store before the next begins, so KeyboardInterrupt, which goes through, loses only the one in
    flight; `load_run` then gives what is there and `resume` completes it.

    Args:
        request: What to run; None means every experiment at quick size.
        report: Called before each launch and at the end.
        say: Told, in a line each, what is being made ready before the first launch.

    Raises:
        UsageError: Bad or contradictory values, found before anything runs.
        InterpreterError: An interpreter that does not start.
        StoreError: The store cannot be written.
        HeadwayError: Another lab is measuring on this machine.
    """
    request = request or Request()
    _validate(request)
    chosen_experiments = [experiment(name) for name in dict.fromkeys(request.experiments)] or list(experiments())
    found, _ = interpreters.discover()
    chosen = interpreters.select(found, request.interpreters)
    if not chosen:
        raise InterpreterError(
            "no CPython 3.8 or later was found", hint="install one, or name its path with `--interpreter`"
        )
    machine = this_machine(split_off_runner(this_machine().cores)[0])
    library, native_missing = _native_library()
    if not any(interpreter.ctypes for interpreter in chosen):
        native_missing = native_missing or "none of the chosen interpreters can import ctypes"
    narrowed = not request.interpreters
    wanted = needed(
        chosen_experiments,
        chosen,
        size=request.size,
        models=request.models,
        placement=request.placement,
        narrowed=narrowed,
    )
    planned = functools.partial(
        make_plan,
        chosen_experiments,
        chosen,
        machine,
        size=request.size,
        seed=int.from_bytes(os.urandom(4)) if request.seed is None else request.seed,
        launches=request.launches,
        models=request.models,
        placement=request.placement,
        limit_s=request.limit_s,
        memory_limit_bytes=request.memory_limit_bytes,
        native_missing=native_missing,
        narrowed=narrowed,
    )
    planned()  # Choices that contradict each other are told before anything is installed.
    with only_lab(), store.Store(request.store or default_store(), create=True) as results:
        surroundings = prepare(wanted, redis_url=request.redis_url, say=say)
        plan = planned(missing=surroundings.missing)
        settings = {
            **_settings(plan, machine, chosen, request),
            "redis": surroundings.about_redis(),
            "volumes": surroundings.volumes.to_json(),
        }
        run_id = results.new_run(settings, plan.cells)
        _Session(results, run_id, plan, machine, _executables(chosen), library, surroundings, report).go()
        return read_run(results, run_id)


def _refuse_another_redis(begun: dict[str, str], now: dict[str, str]) -> None:
    """Raise UsageError where a run would go on with another Redis than it began with."""
    if begun and begun != now:

        def said(redis: dict[str, str]) -> str:
            whose = f"yours at {redis['url']}" if redis.get("url") else redis.get("whose", "none")
            return f"{redis.get('server', 'no Redis')} ({whose})"

        raise UsageError(
            f"the run began with {said(begun)} and would go on with {said(now)}",
            hint="give the same `--redis-url` again (it is not stored), or leave it out where the run had none",
        )


def _refuse_other_volumes(begun: dict[str, Any], now: dict[str, Any], cells: Iterable[Cell]) -> None:
    """Raise UsageError where a run would go on with files on other volumes than it began with."""
    for name in sorted({name for cell in cells for name in cell.space}):
        if name in begun and begun[name] != now.get(name):
            here = now.get(name, {"folder": "no folder", "type": "none"})
            raise UsageError(
                f"the run began with its {name} at {begun[name]['folder']} ({begun[name]['type']}), which is now "
                f"{here['folder']} ({here['type']})",
                hint=f"set HEADWAY_{name.upper()} as it was, or start a new run",
            )


def resume(
    name: str = "last",
    *,
    store_path: Path | None = None,
    redis_url: str = "",
    report: Report = _silent,
    say: Say = _mute,
) -> Run:
    """Complete a run that was cut short: the same cells in the same order, none twice.

    Args:
        name: The run, as `load_run` takes it.
        store_path: The results store; None means the user's own.
        redis_url: As in `Request`; the URL of the run's beginning was not stored.
        report: As for `run`.
        say: As for `run`.

    Raises:
        StoreError: No such run.
        HeadwayError: Another lab is measuring on this machine.
        InterpreterError: An interpreter of the run is gone, or is another one now.
    """
    with only_lab(), store.Store(store_path or default_store(), write=True) as results:
        header = results.find_run(name)
        settings = header.settings
        if settings.get("declared"):
            raise UsageError(f"the run {header.id} is of pytest's benchmarks", hint="run pytest again")
        stored = [Interpreter.from_json(values) for values in settings["interpreters"]]
        for interpreter in stored:
            now = interpreters.probe(interpreter.executable)
            if (now.version, now.free_threaded) != (interpreter.version, interpreter.free_threaded):
                raise InterpreterError(
                    f"{interpreter.executable} is {now.version} now, the run began with {interpreter.version}",
                    hint="start a new run: figures of two versions do not belong together",
                )
        machine = Machine.from_json(settings["machine"])
        if not set(machine.cores) <= os.sched_getaffinity(0):
            raise UsageError(
                f"the run began on cores {list(machine.cores)}, of which some are not usable now",
                hint="resume it with the same affinity, or start a new run",
            )
        plan = Plan(
            size=settings["size"],
            launches=settings["launches"],
            seed=settings["seed"],
            limit_s=settings["limit_s"],
            memory_limit_bytes=settings["memory_limit_bytes"],
            cells=tuple(results.cells(header.id)),
            skipped=tuple(Skipped(**values) for values in settings["skipped"]),
        )
        library, missing = _native_library()
        done = results.done(header.id)
        cells = {cell.key: cell for block, cell in plan.order() if (cell.key, block) not in done}.values()
        if library is None and any(cell.native for cell in cells):
            raise NativeError(missing, hint="build it (`make native`), then resume")
        by_id = {interpreter.id: interpreter for interpreter in stored}
        surroundings = prepare(
            ((cell, by_id.get(cell.interpreter, stored[-1])) for cell in cells), redis_url=redis_url, say=say
        )
        if any(cell.server == "redis" for cell in cells):
            _refuse_another_redis(settings.get("redis", {}), surroundings.about_redis())
        _refuse_other_volumes(settings.get("volumes", {}), surroundings.volumes.to_json(), cells)
        for cell in cells:
            missing = surroundings.missing(cell, by_id.get(cell.interpreter))
            if missing:
                raise HeadwayError(
                    f"the run cannot go on, {cell.label} lacks something now: {missing}",
                    hint="resume when it is there again; nothing of the run is lost",
                )
        _Session(results, header.id, plan, machine, _executables(stored), library, surroundings, report).go()
        return read_run(results, header.id)
