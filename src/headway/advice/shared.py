"""Tells which models calls cannot use, or gain nothing by, because of what they share in a process."""

from headway.advice.examined import Function, Lock
from headway.advice.holds import ALWAYS

__all__ = ["MOVES", "excluded", "lost_locks", "turns", "wrong"]

MOVES = "working directory"
"""The kind of the effect of a call that changes it; the agent's `strangers.effects` has the same."""

_ONE_PROCESS = ("asyncio", "threads", "interpreters")
"""Models whose calls share a process, and with it the working directory."""

_ONE_INTERPRETER = ("asyncio", "threads")
"""Models whose calls share objects, and so locks."""

_MUCH = 0.5
"""From this share of the calls' time on, a lock that is held explains why calls beside each other gain little."""


def wrong(function: Function) -> dict[str, str]:
    """Return the models with which calls beside each other give other results, with the reason."""
    if MOVES not in {kind for kind, _ in function.effects}:
        return {}
    return dict.fromkeys(
        _ONE_PROCESS,
        "wrong beside each other: each call changes the working directory, of which a process has only one",
    )


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
