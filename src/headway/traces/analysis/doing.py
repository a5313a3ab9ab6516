"""The occupations of a thread that has a lock which others wait for."""

from collections.abc import Collection, Sequence
from enum import Enum

from headway.traces.awaited import Awaited, awaited_at
from headway.traces.frames import Frame

__all__ = ["AWAITING", "Doing", "doing_away"]


class Doing(Enum):
    """The occupation of a thread while it had a lock."""

    RAN = "ran"
    """It held the GIL."""
    WENT_ON = "went on"
    """It held the GIL, and released the lock at some time meanwhile: the waiter woke up only afterwards."""
    AWAY = "away"
    """It had released the GIL, for a call that waits or computes."""
    QUEUED = "queued"
    """It waited for the GIL."""
    BLOCKED = "blocked"
    """It waited for another lock."""
    ITSELF = "itself"
    """It waited for the lock that it had."""
    NO_CORE = "no core"
    """It waited for a core, by the system's account."""
    EVENT = "event"
    """It waited for an event; likewise the following ones."""
    CONDITION = "condition"
    QUEUE = "queue"
    RESULT = "result"
    THREAD = "thread"
    PERMIT = "permit"
    BARRIER = "barrier"
    CONNECTION = "connection"

    @property
    def words(self) -> str:
        """The occupation as it is shown."""
        return _DOING[self]


AWAITING = {Doing[one.name]: one for one in Awaited if one is not Awaited.LOCK}
"""The occupations that are waits for another thread, and for no lock."""
_DOING = {
    Doing.RAN: "holding the GIL",
    Doing.WENT_ON: "holding the GIL, at first with the lock",
    Doing.AWAY: "in a call without the GIL",
    Doing.QUEUED: "waiting for the GIL",
    Doing.BLOCKED: "waiting for another lock",
    Doing.ITSELF: "waiting for that lock itself",
    Doing.NO_CORE: "waiting for a core",
} | {doing: f"waiting for {one.value}" for doing, one in AWAITING.items()}


def doing_away(frames: Sequence[Frame], changed: Collection[str]) -> Doing:
    """Return the occupation of a thread that released the GIL at a stack while it had a lock."""
    awaited = awaited_at(frames, changed)
    if awaited is None:
        return Doing.AWAY
    return Doing.BLOCKED if awaited is Awaited.LOCK else Doing[awaited.name]
