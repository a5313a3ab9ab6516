"""Runs one piece of advice: questions, a look at the GIL, the race, break-even sizes, the loop's lag, the verdict."""

import contextlib
import math
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from headway.advice import holds
from headway.advice.code import code_for, guard_for, required_of, undecided, unguarded
from headway.advice.elsewhere import chosen, places
from headway.advice.examined import CALL_LIMIT_S, Examined, Function, Place, examine, missing_module
from headway.advice.measured import contender
from headway.advice.models import SHORT, Sizes, most_at_a_time, sizes_of
from headway.advice.pays_from import break_evens, lags
from headway.advice.racing import METRIC, Race
from headway.advice.refused import refuse
from headway.advice.request import AdviceRequest, check, own_interpreter
from headway.advice.session import Say, Session
from headway.advice.shared import mixes
from headway.advice.target import Target, check_names
from headway.advice.values import Advice, Contender, Cores, Verdict
from headway.advice.verdict import decide
from headway.errors import UsageError
from headway.host.children import marked
from headway.host.interpreters import Interpreter
from headway.host.keeper import Keeper
from headway.host.memory import available_memory_bytes
from headway.host.paths import default_store
from headway.host.quota import quota_cores
from headway.host.reaping import end_marked
from headway.lab import stats
from headway.lab.design import Cell
from headway.lab.kept.results import CellResult
from headway.lab.kept.store import Store
from headway.lab.launching.launch import OVER_LIMIT
from headway.lab.launching.lock import only_lab
from headway.lab.plan import Plan
from headway.lab.sequential import FIRST_LOOK
from headway.report.figures import amount, number

__all__ = ["advise", "check_ready"]

ADVISING = "HEADWAY_ADVISING"
"""A variable in the environment of our child processes. It reveals a call of `headway.advise` during an import."""

_NAMES = (
    "COERCECLOCALE HASHSEED INTMAXSTRDIGITS IOENCODING OPTIMIZE UTF8 _CONTEXT_AWARE_WARNINGS _THREAD_INHERIT_CONTEXT"
)
_OF_THE_PROGRAM = frozenset(f"PYTHON{name}" for name in _NAMES.split())
"""The variables of Python that decide what a program does; the function has them, too. Others would disturb a measurement."""

_BUDGET_S, _LONG_BUDGET_S = 50.0, 150.0
"""The budgets for functions that take less than `_LONG_S`, and for longer ones."""
_LONG_S = 0.1
_LEAST_LIMIT_S, _PATIENCE = 30.0, 6
"""The least time limit of a launch, in s, and the limit as a multiple of the time of the calls one after the other."""
_LEAST_TRY_S = 8.0
"""The same least limit where less time is left: on a busy machine a pool may need some seconds to start."""
_BUSY = 0.7
"""A load per core beyond this comes from other programs."""
_CORES = 1.3
"""A function that keeps more cores busy has threads of its own."""
_BY_OTHERS = 0.1
"""The same of one whose own threads do more than this share of its computing, whether they had cores or not."""
_RACE_UNTIL = 0.6
"""The share of the budget that may be spent when the race ends; the later steps share the rest."""


def _mute(_line: str) -> None:
    pass


def advise(request: AdviceRequest, *, say: Say = _mute) -> Advice:
    """Return the concurrency model that a function should have.

    Every launch is in the store before the next begins. None of the user's modules is imported in this process.

    Args:
        request: The function, and how to try it.
        say: Called with a line about each step.

    Raises:
        UsageError: A value of the request has a wrong type or is out of its range; or the function cannot be called as
            it was named: it does not import, raises, hangs, or ends its process.
        InterpreterError: An interpreter does not start.
        StoreError: The store cannot be written.
        HeadwayError: Another process of the user is measuring on this machine.
    """
    if os.environ.get(ADVISING):
        raise UsageError(
            "headway.advise() is called while the function's own module is being imported",
            hint='put the call of headway.advise under `if __name__ == "__main__":`',
        )
    check(request)
    # These mistakes are told at once, whether or not another process is measuring.
    own = own_interpreter(request.python)
    others = chosen(own, request.interpreters)
    missing = missing_module(request.target, own, sorted(os.sched_getaffinity(0)))
    if missing is not None:
        raise refuse(missing, request.target)
    check_names(request.target)
    path = request.store or default_store()
    with ExitStack() as opened:
        opened.enter_context(only_lab())
        store = opened.enter_context(Store(path, create=True))
        keeper = opened.enter_context(Keeper())
        opened.enter_context(_advising())
        return _advise(Session(request, keeper, store, say), own, others)


def check_ready(store: Path | None) -> None:
    """Raise what `advise` would raise before it measures: StoreError, or HeadwayError if another process is measuring."""
    with only_lab(), Store(store or default_store(), create=True):
        pass


@contextlib.contextmanager
def _advising() -> Iterator[None]:
    """Mark our child processes, and end those that are left: a function may leave some in sessions of their own."""
    mark = f"{os.getpid()}-{secrets.token_hex(8)}"
    try:
        with ExitStack() as opened:
            opened.enter_context(marked(ADVISING, mark))
            for name in _OF_THE_PROGRAM & os.environ.keys():
                opened.enter_context(marked(name, os.environ[name]))
            yield
    finally:
        end_marked(ADVISING, mark)


def _advise(session: Session, own: Interpreter, interpreters: Sequence[Interpreter]) -> Advice:
    request, target, machine = session.request, session.request.target, session.machine
    session.say(f"checking {target.words} on {own.name}: import, pickling, first calls")
    home = examine(target, own, machine.cores, limit_s=CALL_LIMIT_S, keeper=session.keeper)
    if home.function is None:
        raise refuse(home, target)
    function = home.function
    budget_s = request.budget_s
    if budget_s is None:
        budget_s = _BUDGET_S if function.call_s < _LONG_S else _LONG_BUDGET_S
    seen, why = _look(session, home.place, function)
    others, refusals, notes = places(
        target,
        home.place,
        machine.cores,
        lost=len(home.lost),
        interpreters=interpreters,
        install=request.install,
        keeper=session.keeper,
        say=session.say,
        time_left=lambda: request.interpreters is not None or session.spent_s < _RACE_UNTIL * budget_s,
    )
    quota = quota_cores()
    usable = _cores_to_use(len(machine.cores), quota)
    memory_bytes = available_memory_bytes()
    sizes = sizes_of(function, usable, request.workers, import_s=home.place.import_s, available_bytes=memory_bytes)
    # A launch that hangs must not use up the time of all.
    alone_s = sizes.launch_s + home.place.import_s
    session.limit_s = max(_LEAST_LIMIT_S, _PATIENCE * alone_s)
    cells = session.cells(home.place, others, function, sizes)
    session.open_run(home.place, others, [*home.place.refusals, *refusals], budget_s)
    results = _race(session, cells, budget_s, alone_s)
    names = {one.interpreter.id: one.interpreter.name for one in (home.place, *others)}
    measured = [
        contender(result, results[cells[0].key], sizes, names[result.cell.interpreter]) for result in results.values()
    ]
    at_home = [one for one, cell in zip(measured, cells, strict=True) if cell.interpreter == own.id]
    away = [one for one, cell in zip(measured, cells, strict=True) if cell.interpreter != own.id]
    if at_home[0].call_s is None:
        raise _failed_alone(target.words, at_home, function)
    # The race measured the function's time better than the first calls, and its table has this figure.
    mixed = [result.cell for result in results.values() if mixes(result)]
    mixed_here = tuple(one.series for one in mixed if one.interpreter == own.id)
    function = replace(function, call_s=at_home[0].call_s.value, mixed=mixed_here)
    right = [one for one, cell in zip(measured, cells, strict=True) if cell.interpreter != own.id and cell not in mixed]
    pays = break_evens(session, home.place, function, seen, sizes, results, cells, budget_s)
    late, no_lags = lags(session, home.place, function, sizes, budget_s)
    all_refusals = (*home.place.refusals, *refusals)
    between = _ratios(cells, results, own.id)
    verdict = decide(at_home, right, between, function, seen, all_refusals, pays, own.name, without=_not_to_be_had(own))
    verdict = replace(verdict, lines=(*_of_few_inputs(function.inputs, at_home), *verdict.lines))
    session.end_run([verdict.sentence, *verdict.lines])
    predicted: tuple[Cores, ...] = ()
    limits: tuple[str, ...] = ()
    server: tuple[str, ...] = ()
    if seen is not None:
        from headway.advice import cores  # the simulator: without its import, a wrong name is told sooner

        predicted, limits = cores.predict(seen, at_home, usable, function.pickle_s)
        server = cores.beside_a_server(seen, sizes.workers["threads"], usable) if home.place.gil else ()
    return Advice(
        target=target.words,
        run=session.run_id,
        interpreter=own.name,
        cores=usable,
        tasks=sizes.tasks,
        function=function,
        verdict=verdict,
        contenders=(*at_home, *away),
        refusals=all_refusals,
        break_even=tuple(pays),
        holds=seen,
        holds_why=why,
        lags=tuple(late),
        predicted=predicted,
        server=server,
        notes=(
            *_load(session),
            *_of_the_quota(len(machine.cores), quota),
            *_of_memory(function, usable, request.workers, memory_bytes),
            *_notes(home, function),
            *_failures(at_home),
            *_shared_inputs(results.values()),
            *_mixed([one for one in mixed if one.interpreter != own.id], names),
            *no_lags,
            *limits,
            *notes,
        ),
        code=_code(target, function, verdict, sizes, at_home, home.place),
        test=guard_for(target, function, verdict.model, sizes.workers[verdict.model], required_of(verdict.speed_up)),
        spent_s=session.spent_s,
        quota_cores=quota if quota < len(machine.cores) else math.inf,
    )


def _code(
    target: Target, function: Function, verdict: Verdict, sizes: Sizes, at_home: Sequence[Contender], place: Place
) -> str:
    """Return the code to paste for the model that is advised, with what it leaves open."""
    workers = sizes.workers[verdict.model]
    perhaps = next((one.speed_up for one in at_home if one.model == verdict.perhaps), None)
    start_s = next((one.start_s for one in at_home if one.model == verdict.model), 0.0)
    in_threads = not place.why_not("threads")
    return (
        undecided(verdict.perhaps, perhaps)
        + code_for(target, function, verdict.model, workers, in_threads=in_threads, start_s=start_s)
        + unguarded(target, function, verdict.model, workers)
    )


def _race(session: Session, cells: Sequence[Cell], budget_s: float, alone_s: float) -> dict[str, CellResult]:
    """Return the result of each cell, by key, after a race; `alone_s` is the time of the longest launch's serial calls.

    The first cell is one call after the other on the user's own interpreter.
    """
    for cell in cells:
        session.store.add_cell(session.run_id, cell)
    race = Race(
        cells,
        Plan("quick", FIRST_LOOK, budget_s, session.seed, session.limit_s, None, tuple(cells), ()),
        lambda cell, block: session.launch(cell, block, _limit_s(budget_s - session.spent_s, alone_s)),
        session.store,
        session.run_id,
        cells[0].interpreter,
        lambda looked: (_RACE_UNTIL if looked else 1.0) * budget_s - session.spent_s,
        lambda block, launches: session.say(
            f"comparing models, round {block}: {launches} launch{'es' * (launches != 1)}"
        ),
    )
    return race.run()


def _ratios(
    cells: Sequence[Cell], results: Mapping[str, CellResult], interpreter: str
) -> dict[tuple[str, str], stats.Interval]:
    """Return, for (model, other), the ratio of the first one's time to the other's, on an interpreter."""
    here = [one for one in cells if one.interpreter == interpreter]
    return {
        (one.series, other.series): ratio
        for one in here
        for other in here
        if (ratio := results[one.key].ratio_to(results[other.key], METRIC)) is not None
    }


def _limit_s(left_s: float, calls_s: float) -> int:
    """Return the limit of a launch with the time that is left, if its calls, one after the other, take `calls_s`.

    The first launch of each model is made though the time is up, and each of them may hang.
    """
    return math.ceil(max(_LEAST_TRY_S, _PATIENCE / 2 * calls_s, left_s))


def _cores_to_use(cores_here: int, quota: float) -> int:
    """Return the number of cores that can be used at a time: more workers would only take turns under the quota."""
    return math.ceil(min(quota, cores_here))


def _of_the_quota(cores_here: int, quota: float) -> list[str]:
    if quota >= cores_here:
        return []
    return [
        f"a CPU quota of {quota:.2f} cores applies here, of {cores_here} cores: the workers are chosen for the quota"
    ]


def _of_memory(function: Function, cores: int, workers: int | None, available_bytes: int) -> list[str]:
    """Return a note if the memory bounds the number of workers, or of the coroutines of an event loop."""
    most, unbound = most_at_a_time(function, available_bytes), sizes_of(function, cores, None)
    at_once = unbound.calls["asyncio"] if function.kind.startswith("async") else unbound.workers["threads"]
    if workers or at_once <= most:
        return []
    needs, here = amount(function.peak_bytes, "bytes"), amount(available_bytes, "bytes")
    said = f"a call needs {needs} of memory, and {here} are available here"
    return [f"{said}: no more than {most} call{'s' * (most != 1)} ran at a time; --workers tries more"]


def _of_few_inputs(inputs: int, contenders: Sequence[Contender]) -> list[str]:
    """Return lines if there was no time, or no memory, for calls with all inputs, with one call after the other or a pool."""
    serial, *others = contenders
    spread = f"of {inputs} inputs were measured, spread over all"
    lines = [f"{serial.calls} {spread}"] if serial.calls < inputs else []
    fewer = [one for one in others if one.call_s is not None and one.calls < min(serial.calls, inputs)]
    return [*lines, *(f"{one.words}: {one.calls} {spread}" for one in fewer)]


def _load(session: Session) -> list[str]:
    """Return a note if the machine was busy with other programs."""
    cores_here = len(session.machine.cores)
    if session.load < _BUSY * cores_here:
        return []
    said = f"the machine was busy at the start (load {session.load:.1f}, {cores_here} cores)"
    return [f"{said}: the calls' times in the table have waits for a core in them, and the intervals are wider"]


def _failed_alone(words: str, contenders: Sequence[Contender], function: Function) -> UsageError:
    """Return the error if one call after the other fails in each launch, which it did not in the first process."""
    serial, *others = contenders
    if serial.failed.startswith(OVER_LIMIT):
        hint = "a larger --budget gives the launches more time; a call that waits for what another process holds never ends"
        if function.by_others > _BY_OTHERS and function.pools:
            hint = f"the function's own threads, perhaps {function.pools[0][0]}'s, wait for cores and for each other: {_set_to_one(function)}"
        return UsageError(
            f"{words} takes longer in further processes than its first calls let expect: {serial.failed}", hint=hint
        )
    failed = ", ".join(one.words for one in others if one.failures)
    cause = (
        f"launches with {failed} failed, too: calls that run beside each other may leave something, such as a file, at which "
        "later calls fail; remove it, and let each call use a name of its own"
        if failed
        else "make the function return a result for the same inputs on every call; what an earlier call has left, such as a "
        "file, may be the cause"
    )
    return UsageError(f"{words} fails in further processes, though not in the first one: {serial.failed}", hint=cause)


def _failures(contenders: Sequence[Contender]) -> list[str]:
    return [
        f"{one.words}: {one.failures} of {one.failures + one.launches} launches failed: {one.failed}"
        for one in contenders
        if one.failures and one.launches
    ]


def _shared_inputs(results: Iterable[CellResult]) -> list[str]:
    """Return a note for threads without a GIL that had to share inputs, which slows them."""
    details = [one.launch.facts.get("details", {}) for result in results for one in result.ok]
    count = max((one.get("shared_inputs", 0) for one in details), default=0)
    if not count:
        return []
    few = "one input" if count == 1 else f"{count} inputs"
    said = f"without a GIL, the threads shared {few}, which cannot be copied for each of them"
    return [f"{said}: threads that use the same objects slow each other; give at least as many inputs as threads"]


def _mixed(cells: Iterable[Cell], names: Mapping[str, str]) -> list[str]:
    """Return a note for each model whose calls beside each other gave other results."""
    return [
        f"{SHORT[one.series]} on {names[one.interpreter]}: calls beside each other gave results that the same calls alone "
        "did not give"
        for one in cells
    ]


def _not_to_be_had(own: Interpreter) -> dict[str, str]:
    """Return models that can be measured here but not used, because there is no code to give for them."""
    if own.cross_interpreter_queue:
        return {}
    return {"interpreters": "InterpreterPoolExecutor came with CPython 3.14"}


def _look(session: Session, place: Place, function: Function) -> tuple[holds.Holds | None, str]:
    if not place.gil:
        return None, f"CPython {place.interpreter.name} runs without a GIL, so threads do not take turns"
    session.say("profiling how the function uses the GIL")
    seen = holds.look(session.request.target, place, function, session.machine.cores, keeper=session.keeper)
    return (None, f"the use of the GIL is not known: {seen}") if isinstance(seen, str) else (seen, "")


def _set_to_one(function: Function) -> str:
    return f"compare with {function.pools[0][1]}=1 in the environment"


def _of_own_threads(function: Function) -> list[str]:
    """Return a note if a call computes with threads of its own, which a pool of any model multiplies."""
    if function.cores <= _CORES and function.by_others <= _BY_OTHERS:
        return []
    said = f"the function keeps {function.cores:.1f} cores busy by itself: it has its own threads"
    if function.cores <= _CORES:
        # They had no cores: the machine was busy, or has one.
        said = f"{function.by_others:.0%} of the function's computing is that of its own threads"
    if function.pools and function.by_others > _BY_OTHERS:
        said += f", perhaps {function.pools[0][0]}'s; with those of a pool they are more than there are cores, and slow each other down: {_set_to_one(function)}"
    return [said]


def _notes(home: Examined, function: Function) -> list[str]:
    notes = []
    if home.lost:
        count = len(home.lost) + function.inputs
        notes.append(f"{len(home.lost)} of {count} calls cannot be loaded and were left out: {home.lost[0]}")
    if function.differs:
        notes.append("two calls with the same arguments gave different results")
    if function.kind == "generator":
        notes.append(
            "the function returns an iterator, which works only while it is consumed: list(...) of it is measured"
        )
    if function.own_loop:
        notes.append(
            f"the function calls {function.own_loop}, which raises where an event loop is running already: a coroutine must "
            "call it by asyncio.to_thread"
        )
    notes += _of_own_threads(function)
    if home.place.interpreter.free_threaded and home.place.switched_by:
        notes.append(f"the import of {home.place.switched_by} switches the GIL on")
    if function.first_s > 3 * function.later_s and function.first_s > 1e-3:
        notes.append(f"the first call takes {number(function.first_s / function.later_s)} times as long as later calls")
    return notes
