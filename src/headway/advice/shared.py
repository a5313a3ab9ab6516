"""Tells which models calls cannot use, or gain nothing by, because of what they share in a process."""

from headway.advice.examined import ARGUMENTS, Function, Lock
from headway.advice.holds import ALWAYS
from headway.advice.models import SENDING
from headway.lab.kept.results import CellResult

__all__ = ["MOVES", "compared", "excluded", "lost", "lost_changes", "mixes", "proviso", "turns", "wrong"]

MOVES = "working directory"
"""The kind of the effect of a call that changes it; the agent's `strangers.effects` has the same."""

_ONE_PROCESS = ("asyncio", "threads", "interpreters")
"""Models whose calls share a process, and with it the working directory."""

_ONE_INTERPRETER = ("asyncio", "threads")
"""Models whose calls share objects, and so locks."""

_ALONE_S, _MOST_ALONE_S = 0.25, 1.0
"""The time for the calls alone of a launch, and that of a call from which on none is made."""
_MOST_COMPARED = 64
_MOST_RESULT_BYTES = 32 << 20

_MOST_NAMES = 3

_MUCH = 0.5
"""From this share of the calls' time on, a lock that is held explains why calls beside each other gain little."""


def wrong(function: Function) -> dict[str, str]:
    """Return the models with which calls beside each other give other results, with the reason."""
    found = dict.fromkeys(
        function.mixed, "wrong beside each other: their results are not those of the same calls one after the other"
    )
    if MOVES in {kind for kind, _ in function.effects}:
        found |= dict.fromkeys(
            _ONE_PROCESS,
            "wrong beside each other: each call changes the working directory, of which a process has only one",
        )
    return found


def mixes(result: CellResult) -> bool:
    """Tell whether calls beside each other gave, in a launch, results that the same calls alone did not give."""
    return any(one.launch.facts.get("details", {}).get("other_results") for one in result.ok)


def compared(function: Function, model: str, tasks: int) -> int:
    """Return the number of a sample's calls whose results are compared with those of the same calls alone.

    None are compared if that would tell nothing: workers of their own share nothing, and results of chance differ anyway.
    """
    is_chance = function.differs or "random" in {kind for kind, _ in function.effects}
    if model not in _ONE_INTERPRETER or is_chance or function.call_s > _MOST_ALONE_S:
        return 0
    most = min(int(_ALONE_S / function.call_s), _MOST_RESULT_BYTES // max(1, function.result_bytes), _MOST_COMPARED)
    return min(tasks, max(2, most))


def turns(model: str, function: Function) -> Lock | None:
    """Return the lock at which calls through a model take turns for most of their time; None if there is none."""
    held = [one for one in function.locks if one.most == 1 and one.share >= _MUCH]
    return max(held, key=lambda one: one.share) if held and model in _ONE_INTERPRETER else None


def excluded(model: str, function: Function) -> bool:
    """Tell whether calls through a model cannot gain, because they hold a lock all the time."""
    lock = turns(model, function)
    return lock is not None and lock.share > ALWAYS


def _each(model: str) -> str:
    return "interpreter" if model == "interpreters" else "process"


def lost_changes(model: str, function: Function) -> str:
    """Return in a sentence which changes of calls do not reach the program if a model runs them; "" if there are none."""
    if model not in SENDING or not function.changes:
        return ""
    names = [one for one in function.changes if one != ARGUMENTS]
    changed = ["a copy of its arguments"] if ARGUMENTS in function.changes else []
    if names:
        shown, more = ", ".join(names[:_MOST_NAMES]), len(names) - _MOST_NAMES
        changed.append(f"{shown}{f' and {more} more' if more > 0 else ''} of its own")
    return f"each {_each(model)} changes {' and '.join(changed)}: the program never sees these changes"


def lost(model: str, function: Function) -> list[str]:
    """Return a sentence for each change that does not reach the program, and each lock that no longer excludes all calls."""
    if model not in SENDING:
        return []
    each, changes = _each(model), lost_changes(model, function)
    return ([changes] if changes else []) + [
        f"each {each} has its own of {one.words}: calls in different ones do not exclude each other there"
        if one.most == 1
        else f"each {each} has its own of {one.words} and lets in as many calls as all were meant to"
        for one in function.locks
    ]


def proviso(model: str, function: Function) -> str:
    """Return on which condition a model is advised, to be put behind the answer; "" if there is none."""
    if model not in SENDING:
        return ""
    needs = ["its calls need not exclude each other"] * bool(function.locks)
    needs += ["the program needs only the results"] * (ARGUMENTS in function.changes)
    return f", if {' and '.join(needs)}" if needs else ""
