"""The runner: takes a request to a stored run. It chooses, prepares, and has a session carry out the plan.

The loop over launches is in `launching/session.py`. This module gives it the launcher, and resumes a run that was cut
short.

The process sleeps in `select` while a launch runs. On four physical cores or more, it also keeps the last core to
itself, and launches run on the others, so that it never shares a core with a measured program.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast, final

from headway import __version__
from headway.errors import HeadwayError, InterpreterError, NativeError, UsageError
from headway.host import doctor, interpreters
from headway.host.interpreters import Interpreter
from headway.host.machine import Machine, split_off_runner, this_machine
from headway.host.paths import default_store
from headway.lab.beside.surroundings import Surroundings, prepare
from headway.lab.design import Cell, Experiment, Size, Variant
from headway.lab.experiments import experiment, experiments
from headway.lab.kept import store
from headway.lab.kept.launched import Launch
from headway.lab.kept.predictions import Prediction
from headway.lab.kept.results import Run, read_run
from headway.lab.kept.settings import ADVICE, Settings
from headway.lab.launching.as_begun import (
    refuse_another_machine,
    refuse_another_redis,
    refuse_other_volumes,
    refuse_unknown,
)
from headway.lab.launching.chosen import Chosen, choose
from headway.lab.launching.lock import only_lab
from headway.lab.launching.processes import Processes, executables_of, on_cores
from headway.lab.launching.request import Request, budget_s, check
from headway.lab.launching.session import Predict, Progress, Report, Session
from headway.lab.plan import Plan, Skipped, fits_machine, make_plan, needed, nothing_missing, refuse_nothing
from headway.lab.predicting.echo import Predictor
from headway.library import library_path

__all__ = ["Ready", "Request", "left_of", "plan_of", "ready", "ready_again", "resume", "run"]


Say = Callable[[str], None]


def _native_library() -> tuple[Path | None, NativeError | None]:
    try:
        return library_path(), None
    except NativeError as error:
        return None, error


def _predictor(settings: Settings, say: Say) -> Predict:
    """Return the function that predicts, on the launches' cores.

    If it cannot predict, it says why, and the cells have no predictions.
    """
    predictor = Predictor(settings.machine, settings.interpreters, cast("Size", settings.size), say)

    def predict(cells: Sequence[Cell], anchors: Sequence[tuple[Cell, Sequence[Launch]]]) -> Sequence[Prediction]:
        try:
            with on_cores(settings.machine.cores):
                return predictor(cells, anchors)
        except (HeadwayError, OSError) as error:
            say(f"nothing is predicted for {cells[0].experiment}: {error}")
            return ()

    return predict


def _silent(_progress: Progress) -> None:
    pass


def _mute(_line: str) -> None:
    pass


@final
class _Choice:
    """A request, resolved on this machine: its interpreters, its cores and the native library.

    Raises:
        UsageError: The request's values contradict each other, or leave nothing to run.
    """

    def __init__(self, request: Request, seed: int, chosen: Chosen, *, waited_s: float = 0.0) -> None:
        self._request, self._seed, self._waited_s = request, seed, waited_s
        self.experiments = [experiment(name) for name in dict.fromkeys(request.experiments)] or list(experiments())
        self.interpreters, self._passed_over = chosen.interpreters, chosen.passed_over
        self.machine = _machine()
        self.library, self._native_error = _native_library()
        self._native_missing = self._native_error.message if self._native_error else ""
        if not any(interpreter.ctypes for interpreter in self.interpreters):
            self._native_missing = self._native_missing or "none of the chosen interpreters can import ctypes"
        self._narrowed = not request.interpreters
        self._unprepared = tuple(one.name for one in self.experiments)
        # Contradictory choices are reported before anything is installed.
        self.plan = self._planned(self.experiments, nothing_missing)
        self._refuse_nothing()

    def _refuse_nothing(self) -> None:
        """Raise UsageError if no cell is left, or NativeError if there would be cells with the native library."""
        reasons = {one.reason for one in self.plan.skipped}
        if self._native_error is not None and not self.plan.cells and self._native_missing in reasons:
            raise self._native_error
        refuse_nothing(self.plan, self.experiments, self._request.models, self._request.placement)

    def first(self) -> Experiment:
        """Return the first experiment that has cells."""
        return next(one for one in self.experiments if one.name == self.plan.experiments[0])

    def _planned(self, chosen: Sequence[Experiment], missing: Callable[[Variant, Interpreter | None], str]) -> Plan:
        request = self._request
        return make_plan(
            chosen,
            self.interpreters,
            self.machine,
            size=request.size,
            seed=self._seed,
            launches=request.launches,
            budget_s=budget_s(request, len(self.experiments), self._waited_s),
            models=request.models,
            placement=request.placement,
            limit_s=request.limit_s,
            memory_limit_bytes=request.memory_limit_bytes,
            native_missing=self._native_missing,
            narrowed=self._narrowed,
            missing=missing,
        )

    def make_ready(self, chosen: Sequence[Experiment], say: Say) -> Surroundings:
        """Install the needs of some experiments, and leave the cells whose needs are not available out of the plan."""
        wanted = needed(
            chosen,
            self.interpreters,
            size=self._request.size,
            models=self._request.models,
            placement=self._request.placement,
            narrowed=self._narrowed,
        )
        surroundings = prepare(wanted, redis_url=self._request.redis_url, say=say)
        names = {one.name for one in chosen}
        self._unprepared = tuple(one.name for one in self.experiments if one.name not in names)
        ready = self._planned(chosen, surroundings.missing)
        self.plan = replace(
            ready,
            cells=(*ready.cells, *(cell for cell in self.plan.cells if cell.experiment not in names)),
            skipped=(*ready.skipped, *(one for one in self.plan.skipped if one.experiment not in names)),
        )
        self._refuse_nothing()
        return surroundings

    def launcher(self, surroundings: Surroundings) -> Processes:
        """Return the launcher of the plan's cells."""
        executables = executables_of(self.interpreters)
        return Processes(self.plan, self.machine, executables, self.library, surroundings)

    def settings(self, surroundings: Surroundings) -> Settings:
        """Return the run's settings."""
        return Settings(
            version=__version__,
            size=self.plan.size,
            launches=self.plan.launches,
            budget_s=self.plan.budget_s,
            seed=self.plan.seed,
            limit_s=self.plan.limit_s,
            memory_limit_bytes=self.plan.memory_limit_bytes,
            experiments=tuple(one.name for one in self.experiments),
            models=tuple(self._request.models),
            placement=self._request.placement,
            machine=self.machine,
            doctor=tuple(doctor.examine()),
            interpreters=tuple(self.interpreters),
            skipped=self.plan.skipped,
            redis=surroundings.about_redis(),
            volumes=surroundings.volumes.to_json(),
            unprepared=self._unprepared,
            passed_over=self._passed_over,
        )


def _machine() -> Machine:
    return this_machine(split_off_runner(this_machine().cores)[0])


def _drawn(request: Request) -> int:
    """Return the seed of a run."""
    return int.from_bytes(os.urandom(4)) if request.seed is None else request.seed


def _chosen(request: Request, say: Say) -> Chosen:
    """Search for the interpreters of a request, and say which may be missing. Raises InterpreterError."""
    chosen = choose(request)
    for line in chosen.passed_over:
        say(f"! passed over: {line}")
    return chosen


@final
@dataclass(frozen=True)
class Ready:
    """A machine that is prepared for a run; the run's results may be kept on another machine (headway.dask.lab_worker).

    Attributes:
        plan: The planned launches.
        settings: The run's settings.
        launcher: The launcher; a context manager around all launches.
    """

    plan: Plan
    settings: Settings
    launcher: Processes


def ready(request: Request, *, say: Say = _mute) -> Ready:
    """Prepare this machine for a new run. Raises the same errors as `run`."""
    check(request)
    choice = _Choice(request, _drawn(request), _chosen(request, say))
    surroundings = choice.make_ready(choice.experiments, say)
    return Ready(choice.plan, choice.settings(surroundings), choice.launcher(surroundings))


def run(
    request: Request | None = None,
    *,
    report: Report = _silent,
    say: Say = _mute,
    provide: Callable[[], None] | None = None,
) -> Run:
    """Run the lab and return the results.

    Every launch is in the store before the next one begins. KeyboardInterrupt passes through and loses only the launch
    in progress; `load_run` then loads the stored launches, and `resume` completes the run.

    Args:
        request: The choices for the run; None means every experiment at quick size.
        report: Called before each launch, after each experiment, and at the end.
        say: Called with one line for each thing that is prepared before launches.
        provide: Called when the first experiment that can run is done, for example to build further interpreters;
            nothing is measured in the meantime. The runner then looks for interpreters again, and the first experiment
            continues on the new ones. If an interpreter of the request is not there yet, or none that can run a chosen
            model, it is called before all.

    Raises:
        UsageError: Bad or contradictory values, found before anything runs.
        InterpreterError: An interpreter that does not start.
        StoreError: The store cannot be written.
        HeadwayError: Another lab is measuring on this machine.
    """
    request = request or Request()
    check(request)
    seed = _drawn(request)
    choice = _choice_now(request, seed, say, may_wait=provide is not None)
    with only_lab(), store.Store(request.store or default_store(), create=True) as results:
        session: Session | None = None
        if provide is not None:
            if choice is not None:
                session = _first_look(choice, results, report, say)
            begun_s = time.monotonic()
            provide()
            choice = _Choice(request, seed, _chosen(request, say), waited_s=time.monotonic() - begun_s)
        assert choice is not None, "without `provide`, a missing interpreter is an error"
        surroundings = choice.make_ready(choice.experiments, say)
        settings = choice.settings(surroundings)
        if session is None:
            session = Session(results, results.new_run(settings, choice.plan.cells), report)
        else:
            settings = replace(settings, doctor=results.find_run(session.run_id).settings.doctor)
            results.change_run(session.run_id, settings, choice.plan.cells)
        with choice.launcher(surroundings) as launcher:
            session.carry_out(choice.plan, launcher, predict=_predictor(settings, say))
        session.end()
        return read_run(results, session.run_id)


def _choice_now(request: Request, seed: int, say: Say, *, may_wait: bool) -> _Choice | None:
    """Return the choice with the interpreters that are there; None if `may_wait` for one that is missing.

    It is a name that is not there yet, or any that can run a chosen model.

    Raises:
        UsageError, InterpreterError: As for `run`.
    """
    try:
        # If more is provided, the second search says what is missing.
        chosen = choose(request) if may_wait else _chosen(request, say)
    except InterpreterError:
        if not may_wait:
            raise
        return None
    try:
        return _Choice(request, seed, chosen)
    except UsageError:
        if not (may_wait and _may_have_more(request)):
            raise
        return None


def _may_have_more(request: Request) -> bool:
    """Tell whether a further interpreter would be one of the request's, and may give it cells."""
    return (not request.interpreters or "all" in request.interpreters) and fits_machine(
        [experiment(name) for name in request.experiments] or experiments(),
        _machine(),
        size=request.size,
        models=request.models,
        placement=request.placement,
    )


def _first_look(choice: _Choice, results: store.Store, report: Report, say: Say) -> Session:
    """Begin a run with a first look at the first experiment that has cells, and return the run's session."""
    first = choice.first()
    surroundings = choice.make_ready([first], say)
    settings = choice.settings(surroundings)
    session = Session(results, results.new_run(settings, choice.plan.cells), report)
    if choice.plan.of(first.name):  # otherwise it lacks what it needs, as a library
        with choice.launcher(surroundings) as launcher:
            predict = _predictor(settings, say)
            session.carry_out(choice.plan, launcher, predict=predict, first_look_of=first.name)
    return session


def left_of(plan: Plan, done: set[tuple[str, int]]) -> list[Cell]:
    """Return the cells of a run that has not ended that may get further launches: with a budget, any cell."""
    if plan.budget_s is not None:
        return list(plan.cells)
    return list({cell.key: cell for block, cell in plan.order() if (cell.key, block) not in done}.values())


def plan_of(settings: Settings, cells: Sequence[Cell]) -> Plan:
    """Return the plan that a run was begun with."""
    return Plan(
        size=cast("Size", settings.size),
        launches=settings.launches,
        budget_s=settings.budget_s,
        seed=settings.seed,
        limit_s=settings.limit_s,
        memory_limit_bytes=settings.memory_limit_bytes,
        cells=tuple(cells),
        skipped=settings.skipped,
    )


def ready_again(
    settings: Settings, plan: Plan, left: Sequence[Cell], *, redis_url: str = "", say: Say = _mute
) -> Ready:
    """Prepare this machine to continue a run that was begun on it.

    Args:
        settings: The run's settings.
        plan: The run's plan, from `plan_of`.
        left: The cells that may get further launches.
        redis_url: The URL as in `Request`; the URL that the run began with was not stored.
        say: As for `run`.

    Raises:
        As `resume`.
    """
    if left:
        refuse_unknown(plan)
        refuse_another_machine(settings, this_machine())
    stored = settings.interpreters
    for interpreter in stored:
        now = interpreters.probe(interpreter.executable)
        if (now.version, now.free_threaded) != (interpreter.version, interpreter.free_threaded):
            raise InterpreterError(
                f"{interpreter.executable} is now {now.version}, but the run began with {interpreter.version}",
                hint="start a new run: figures of two versions cannot be combined",
            )
    machine = settings.machine
    if not set(machine.cores) <= os.sched_getaffinity(0):
        raise UsageError(
            f"the run began on cores {list(machine.cores)}, some of which are not usable now",
            hint="resume it with the same affinity, or start a new run",
        )
    library, native_error = _native_library()
    if native_error is not None and any(cell.native for cell in left):
        raise native_error
    by_id = {interpreter.id: interpreter for interpreter in stored}
    surroundings = prepare(
        ((cell.variant, by_id.get(cell.interpreter, stored[-1])) for cell in left), redis_url=redis_url, say=say
    )
    begun = [cell for cell in plan.cells if cell.experiment not in settings.unprepared]
    if any(cell.variant.server == "redis" for cell in left if cell in begun):
        refuse_another_redis(settings.redis, surroundings.about_redis())
    refuse_other_volumes(settings.volumes, surroundings.volumes.to_json(), left)
    lacking = {
        cell.key: (cell, why)
        for cell in left
        if (why := surroundings.missing(cell.variant, by_id.get(cell.interpreter)))
    }
    for cell, missing in lacking.values():
        if cell in begun:
            raise HeadwayError(
                f"the run cannot continue, because {cell.label} now lacks something: {missing}",
                hint="resume when it is available again; nothing of the run is lost",
            )
    if settings.unprepared:
        # The run was stopped before the needs of these cells were checked: they are left out, as the check would have
        # done.
        left_out = [Skipped(cell.experiment, cell.label, cell.interpreter, why) for cell, why in lacking.values()]
        plan = replace(
            plan,
            cells=tuple(cell for cell in plan.cells if cell.key not in lacking),
            skipped=(*plan.skipped, *left_out),
        )
        settings = replace(settings, skipped=plan.skipped, redis=surroundings.about_redis(), unprepared=())
    return Ready(plan, settings, Processes(plan, machine, executables_of(stored), library, surroundings))


def resume(
    name: str = "last",
    *,
    store_path: Path | None = None,
    redis_url: str = "",
    report: Report = _silent,
    say: Say = _mute,
) -> Run:
    """Complete a run that was cut short: the same cells in the same order, none twice. A complete run is only read.

    Args:
        name: The run, as `load_run` takes it.
        store_path: The results store; None means the user's own.
        redis_url: The URL as in `Request`; the URL that the run began with was not stored.
        report: As for `run`.
        say: As for `run`.

    Raises:
        StoreError: No such run.
        HeadwayError: Another lab is measuring on this machine.
        InterpreterError: An interpreter of the run is gone, or is another one now.
        UsageError: Headway, the machine or what the run needs of it is another one now.
    """
    with only_lab(), store.Store(store_path or default_store(), write=True) as results:
        header = results.find_run(name)
        settings = header.settings
        if settings.size == ADVICE:
            raise UsageError(f"the run {header.id} is advice on a function", hint="run `headway advise` again")
        if settings.declared:
            raise UsageError(f"the run {header.id} contains benchmarks of pytest", hint="run pytest again")
        if header.complete:
            # Another version's claims could ask for more launches.
            say(f"nothing to do: the run {header.id} is complete")
            return read_run(results, header.id)
        plan = plan_of(settings, results.cells(header.id))
        again = ready_again(settings, plan, left_of(plan, results.done(header.id)), redis_url=redis_url, say=say)
        if again.settings != settings:
            results.change_run(header.id, again.settings, again.plan.cells)
        session = Session(results, header.id, report)
        with again.launcher as launcher:
            session.carry_out(again.plan, launcher, predict=_predictor(again.settings, say))
        session.end()
        return read_run(results, header.id)
