"""The results of the cheap questions, as values: the function, and the models that each interpreter can run it with."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from headway.advice.asking import Answer, ask
from headway.advice.target import FAILED, Target
from headway.host.interpreters import Interpreter
from headway.host.keeper import Keeper

__all__ = ["ARGUMENTS", "CALL_LIMIT_S", "Examined", "Function", "Lock", "Place", "Refusal", "examine", "missing_module"]

CALL_LIMIT_S = 60.0
"""The longest time that an import or a few calls may take."""

_SHORT_S = 1e-5
"""The race times shorter calls better, many of them together: reading the clocks takes a microsecond."""

_PICKLING = ("processes-forkserver", "interpreters")

ARGUMENTS = "its arguments"
"""The words for the arguments among the things that calls change."""

_STAYS = (" is bound anew", " is made", " changes")
"""The ends of the words about a name that is another one after the calls; what a call takes back is told in other words."""

_SHOWN = {"files", "network", "processes"}
"""The kinds of effects that are seen outside the process that makes them: they may be the work of a call."""


@final
@dataclass(frozen=True)
class Refusal:
    """A model that cannot run the function.

    Attributes:
        interpreter: The interpreter's short name.
        model: The agent's name of the model; "" for all models.
        reason: The reason, in one sentence.
        module: The module that causes it; "" if none does.
    """

    interpreter: str
    model: str
    reason: str
    module: str = ""


@final
@dataclass(frozen=True)
class Lock:
    """A lock of the user's that calls take; each process, and each sub-interpreter, has one of its own.

    Attributes:
        name: The name that holds it: "LOCK", or "self.lock" of a method's object.
        at: The line that takes it: "/app.py:17".
        share: The share of the calls' time in which it is held.
        most: The number of calls that may hold it at a time: 1, or that of a semaphore.
    """

    name: str
    at: str
    share: float
    most: int = 1

    @property
    def words(self) -> str:
        """The lock with its line: "the lock LOCK (app.py:17)"."""
        kind = "lock" if self.most == 1 else f"semaphore of {self.most},"
        return f"the {kind} {self.name} ({Path(self.at).name})"


@final
@dataclass(frozen=True)
class Function:
    """The properties of a function, learned from calls one after the other.

    Attributes:
        kind: "plain", "generator", "async" or "async generator".
        file, line: Where it is defined; "", 0 for a function in C.
        inputs: The number of inputs.
        makes_inputs: The inputs come from a call of what `--inputs` names, and not from that itself.
        first_s: The time of its first call, without waits for a core.
        call_s: The mean time of the later calls; in an advice, the time of a call in the race, one after the other.
        own_s: The mean time of the later calls in the process of the first one, without waits for a core; infinity if it
            is not known.
        second_s: The time of the second call, which has the first one's arguments, measured likewise.
        cpu_share: The share of that time in which the process computes; the rest is waiting.
        cores: The number of cores that it keeps busy itself; more than 1 if it has threads of its own.
        by_others: The share of its computing that other threads than the caller's do.
        pools: The libraries of its process that may have such threads, each with the variable that limits them.
        input_bytes, result_bytes: The sizes of the pickles.
        anew_s: The time to make the arguments of a call anew, if the function of the inputs makes them; 0 for copies.
        peak_bytes: The most memory that a call needs at a time, beyond what the process has before it.
        own_loop: The call by which a plain function runs an event loop of its own, as its source tells; "" if there is none.
        own_bytes: The size of the function's own pickle, which goes with each call: its name, or a method's whole object.
        pickle_s: The time to pickle and unpickle the function, its arguments and its result once.
        result: The type of its result.
        differs: Two calls with the same arguments gave different results.
        changes_arguments: A call changes its arguments.
        returns_nothing: The result of every call is None.
        effects: The changes that it makes besides its result: (kind, words).
        by_name: Some of its inputs give arguments by name.
        bound: The number of arguments by position that a `functools.partial` of it has before its own: it is a partial itself.
        locks: The locks that its calls take.
        typical: The place of an input whose calls take about the mean of all inputs' calls.
        mixed: Models whose calls beside each other gave results that the same calls alone did not give, in the race.
        unpicklable: Which of "the function", "its arguments" and "its result" cannot be pickled; their sizes are 0.
    """

    kind: str
    file: str
    line: int
    inputs: int
    first_s: float
    call_s: float
    cpu_share: float
    cores: float
    input_bytes: int
    result_bytes: int
    pickle_s: float
    result: str
    differs: bool
    changes_arguments: bool = False
    effects: tuple[tuple[str, str], ...] = ()
    own_bytes: int = 0
    by_name: bool = False
    locks: tuple[Lock, ...] = ()
    unpicklable: tuple[str, ...] = ()
    own_s: float = math.inf
    anew_s: float = 0.0
    second_s: float = math.inf
    mixed: tuple[str, ...] = ()
    by_others: float = 0.0
    pools: tuple[tuple[str, str], ...] = ()
    peak_bytes: int = 0
    own_loop: str = ""
    returns_nothing: bool = False
    makes_inputs: bool = False
    typical: int = 0
    bound: int = 0

    @property
    def changes(self) -> tuple[str, ...]:
        """The things that calls leave changed, and of which each process has its own: "its arguments", names of globals."""
        told = (words for kind, words in self.effects if kind == "globals")
        names = (words.removesuffix(end) for words in told for end in _STAYS if words.endswith(end))
        return (*([ARGUMENTS] if self.changes_arguments else []), *dict.fromkeys(names))

    @property
    def is_lost_in_copies(self) -> bool:
        """The changes that a call makes are its work, and they are made to copies if another process runs the call."""
        if not self.returns_nothing or not self.changes:
            return False
        return self.changes_arguments or _SHOWN.isdisjoint(kind for kind, _ in self.effects)

    @property
    def later_s(self) -> float:
        """The time of a later call, to compare with that of the first one: without waits for a core.

        The first calls with the other inputs may be long, too, and their inputs may be smaller than the first one: only the
        second call has the same arguments as the first.
        """
        if self.inputs > 1 and _SHORT_S < self.second_s < math.inf:
            return self.second_s
        later_s = self.own_s if _SHORT_S <= self.own_s < math.inf else min(self.own_s, self.call_s)
        return min(later_s, max(self.second_s, _SHORT_S))


@final
@dataclass(frozen=True)
class Place:
    """An interpreter, as it is for the function.

    Attributes:
        interpreter: The interpreter.
        import_s: The time of the import of the function's module.
        gil: The GIL is on after the import.
        switched_by: On a free-threaded build, the module that switched the GIL on; "" if none did.
        distributions: Installed distributions that the import loaded, with their versions.
        direct: Those of them that were installed from a file, a folder or a URL, and not by name from an index.
        folder: The folder that has the function's package, as of one that is installed to be edited; "" if it is installed.
        paths: Folders of libraries, for the import path.
        refusals: Models that cannot run the function here.
    """

    interpreter: Interpreter
    import_s: float
    gil: bool
    switched_by: str
    distributions: Mapping[str, str]
    paths: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    direct: tuple[str, ...] = ()
    folder: str = ""

    def why_not(self, model: str) -> str:
        """Return the reason why a model cannot run the function here, or ""."""
        return next((one.reason for one in self.refusals if one.model in {"", model}), "")


@final
@dataclass(frozen=True)
class Examined:
    """The answers of one interpreter.

    Attributes:
        place: The interpreter, as it is for the function.
        function: The function as it is there; None if it does not run there.
        error: The reason why it does not run there.
        detail: The end of the output of a process that failed.
        missing: The module that is not there; "" if none is missing.
        about: What was named or given wrongly, a key of the hints of `headway.advice.refused`; "" if it is none of these.
        lost: An error for each input that was left out, since it could not be loaded there.
        hung: The process did not end in time, so its output has the stacks of its threads.
    """

    place: Place
    function: Function | None = None
    error: str = ""
    detail: str = ""
    missing: str = ""
    about: str = ""
    lost: tuple[str, ...] = ()
    hung: bool = False


def _error_of(answer: Answer) -> tuple[str, str]:
    """Return (stage, problem) of the first stage that failed; ("", "") if none did."""
    for stage, values in answer.stages.items():
        if values.get("error"):
            where = f" ({values['where']})" if values.get("where") else ""
            return stage, f"{values['error']}{where}"
    return ("", answer.ended) if answer.ended else ("", "")


def _told(stage: str, problem: str, answer: Answer) -> str:
    """Return the sentence about a problem; the function may have done another thing than raise."""
    if not stage:
        return f"it {problem}"
    values = answer[stage]
    if stage in ("call", "again") and "where" not in values:
        return problem
    which = f" with input {values['which']} of {answer['inputs']['count']}" if values.get("which") else ""
    return f"{FAILED[stage]}{which}: {problem}"


def examine(
    target: Target,
    interpreter: Interpreter,
    cores: Sequence[int],
    *,
    limit_s: float,
    paths: Sequence[str] = (),
    keeper: Keeper | None = None,
) -> Examined:
    """Ask an interpreter all cheap questions about the function.

    Args:
        target: The function.
        interpreter: The interpreter to ask.
        cores: The cores on which its processes run.
        limit_s: The longest time that a call may take.
        paths: Folders of libraries for its import path.
        keeper: Ends the processes that were begun if this process is killed.
    """
    answer = ask(
        "function",
        target,
        interpreter.executable,
        cores,
        limit_s=limit_s,
        paths=paths,
        keeper=keeper,
    )
    imported = answer["import"]
    place = Place(
        interpreter,
        float(imported.get("import_s", 0.0)),
        bool(imported.get("gil_after", interpreter.gil_enabled)),
        str(imported.get("switched_by", "")),
        dict(imported.get("distributions", {})),
        tuple(paths),
        direct=tuple(imported.get("direct", ())),
        folder=str(imported.get("folder", "")),
    )
    stage, problem = _error_of(answer)
    if problem:
        words = _told(stage, problem, answer)
        missing = str(imported.get("missing") or "") if "ModuleNotFound" in problem else ""
        about = str(answer[stage].get("about") or "")
        return Examined(place, None, words, answer.stderr, missing, about, hung=answer.hung)
    function = _function(answer)
    refusals = _refusals(target, place, answer, function, cores, limit_s=limit_s, keeper=keeper)
    lost = tuple(answer["inputs"]["lost"])
    return Examined(replace(place, refusals=tuple(refusals)), function, lost=lost)


def _function(answer: Answer) -> Function:
    looked, inputs, call, again = answer["function"], answer["inputs"], answer["call"], answer["again"]
    return Function(
        kind=looked["kind"],
        file=looked["file"],
        line=looked["line"],
        inputs=inputs["count"],
        makes_inputs=inputs["made"],
        first_s=call["first_s"],
        call_s=max(again["mean_s"], 1e-8),
        own_s=max(again["own_s"], 1e-8),
        second_s=max(again["second_s"], 1e-8),
        cpu_share=again["cpu_share"],
        cores=again["cores"],
        by_others=again["by_others"],
        pools=tuple((library, variable) for library, variable in again["pools"]),
        input_bytes=inputs["bytes"],
        result_bytes=again["result_bytes"],
        own_bytes=looked["bytes"],
        pickle_s=looked["pickle_s"] + inputs["pickle_s"] + again["result_pickle_s"],
        result=call["result"],
        differs=again["differs"],
        changes_arguments=again["changes_arguments"],
        returns_nothing=again["returns_nothing"],
        anew_s=again["anew_s"],
        typical=again["typical"],
        peak_bytes=again["peak_bytes"],
        own_loop=looked["own_loop"],
        effects=tuple((kind, words) for kind, words in again["effects"]),
        by_name=inputs["by_name"],
        bound=inputs["bound"],
        locks=tuple(Lock(**one) for one in again["locks"]),
        unpicklable=tuple(what for what, error in _unpicklable(answer).items() if error),
    )


def _unpicklable(answer: Answer) -> dict[str, str]:
    """Return the errors of pickling; "" for a part that can be pickled."""
    return {
        "the function": answer["function"].get("pickle_error", ""),
        "its arguments": answer["inputs"].get("pickle_error", ""),
        "its result": answer["again"].get("result_pickle_error", ""),
    }


def _of_lost_work(function: Function, model: str) -> str:
    """Return why a model that sends calls elsewhere loses the work of a function whose work is to change something."""
    each = "sub-interpreter" if model == "interpreters" else "process"
    whose = "copies of its arguments" if function.changes_arguments else f"{function.changes[0]} of its own"
    return f"the function returns None and changes {whose} in each {each}: the program never sees the changes"


def _refusals(
    target: Target,
    place: Place,
    answer: Answer,
    function: Function,
    cores: Sequence[int],
    *,
    limit_s: float,
    keeper: Keeper | None,
) -> list[Refusal]:
    """Return the models that cannot run the function here, as far as can be told without running them."""
    interpreter = place.interpreter
    found: list[Refusal] = []
    name = interpreter.name
    found += [
        Refusal(name, model, interpreter.missing_models.get(model, "it is not there"))
        for model in ("threads", *_PICKLING)
        if model not in interpreter.models
    ]
    refused = {one.model for one in found}
    for what, error in _unpicklable(answer).items():
        if error:
            found += [
                Refusal(name, model, f"{what} cannot be pickled: {error}")
                for model in _PICKLING
                if model not in refused
            ]
            refused |= set(_PICKLING)
    if function.is_lost_in_copies:
        found += [Refusal(name, model, _of_lost_work(function, model)) for model in _PICKLING if model not in refused]
        refused |= set(_PICKLING)
    if "interpreters" not in refused:
        own = ask(
            "subinterpreter",
            target,
            interpreter.executable,
            cores,
            limit_s=limit_s,
            paths=place.paths,
            keeper=keeper,
        )
        said = own["subinterpreter"]
        problem = said.get("error") or own.ended
        if problem:
            module = str(said.get("refused_by", ""))
            whose = (
                f"the module {module} does not load in a sub-interpreter"
                if module
                else f"in a sub-interpreter: {problem}"
            )
            found.append(Refusal(name, "interpreters", whose, module))
    in_thread = ask(
        "thread",
        target,
        interpreter.executable,
        cores,
        limit_s=limit_s,
        paths=place.paths,
        keeper=keeper,
        kind=answer["function"]["kind"],
    )
    problem = in_thread["thread"].get("error") or in_thread.ended
    if problem:
        found.append(Refusal(name, "threads", f"outside the main thread the function fails: {problem}"))
    return found


def missing_module(
    target: Target, interpreter: Interpreter, cores: Sequence[int], *, limit_s: float = CALL_LIMIT_S
) -> Examined | None:
    """Return the refusal if an interpreter does not find the target's module, or that of its inputs; None if it does.

    The question is asked without running any code of theirs.
    """
    top = target.module.partition(".")[0]
    if target.inputs["kind"] != "named" and any((target.folder / name).exists() for name in (f"{top}.py", top)):
        return None
    answer = ask("module", target, interpreter.executable, cores, limit_s=limit_s)
    missing = str(answer["module"].get("missing") or "")
    if not missing:
        return None
    words = FAILED["import" if missing == top else "inputs"]
    place = Place(interpreter, 0.0, interpreter.gil_enabled, "", {})
    return Examined(place, None, f"{words}: ModuleNotFoundError: No module named '{missing}'", "", missing)
