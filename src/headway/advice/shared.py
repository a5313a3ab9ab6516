"""Tells which models calls cannot use, or gain nothing by, because of what they share in a process."""

from headway.advice.examined import Function, Lock
from headway.advice.holds import ALWAYS
from headway.lab.kept.results import CellResult

__all__ = ["MOVES", "compared", "excluded", "lost_locks", "mixes", "turns", "wrong"]

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


def lost_locks(model: str, function: Function) -> list[str]:
    """Return a sentence for each lock that no longer excludes all calls if a model runs them."""
    if model in ("serial", *_ONE_INTERPRETER):
        return []
    each = "interpreter" if model == "interpreters" else "process"
    return [
        f"each {each} has its own of {one.words}: calls in different ones do not exclude each other there"
        if one.most == 1
        else f"each {each} has its own of {one.words} and lets in as many calls as all were meant to"
        for one in function.locks
    ]
