"""Says of each stack at which a watched thread let the GIL go, whether an event loop or a pool waits there."""

from collections.abc import Sequence
from typing import Final, Protocol, final

from headway.native import HOME_LOOP, HOME_NONE, HOME_POOL
from headway.traces.frames import Frame
from headway.traces.loops import Home, home_at

__all__ = ["Homes"]

_FRAMES: Final = 4
"""So many of the innermost frames tell a home."""
_MOST_UNKNOWN: Final = 1024
_NUMBERS: Final = {None: HOME_NONE, Home.LOOP: HOME_LOOP, Home.POOL: HOME_POOL}


class _Stacks(Protocol):
    """headway.live.stacks.Stacks."""

    def update(self) -> None:
        """Read what has come in."""

    def frames(self, number: int, most: int) -> tuple[Frame, ...]:
        """Return a stack's innermost frames; (): it is not known."""


class _Collection(Protocol):
    """headway.native.Collection."""

    def fresh(self) -> Sequence[int]:
        """Return stacks that were not given before."""

    def settle(self, stack: int, home: int) -> None:
        """Say what such a stack is."""


@final
class Homes:
    """Those of one process."""

    def __init__(self, collection: _Collection, stacks: _Stacks) -> None:
        """Say it to `collection`, of stacks that it has not given yet."""
        self._collection = collection
        self._stacks = stacks
        self._unknown: list[int] = []
        """Stacks whose frames are not in the file yet: a pass may copy an event, and miss the new chunk with its stack."""

    def settle(self) -> None:
        """Say it of all stacks that have come with the last pass."""
        waiting = [*self._unknown, *self._collection.fresh()]
        self._unknown = []
        if waiting:
            self._stacks.update()
        for stack in waiting:
            frames = self._stacks.frames(stack, _FRAMES)
            if frames or len(self._unknown) == _MOST_UNKNOWN:
                self._collection.settle(stack, _NUMBERS[home_at(frames)])
            else:
                self._unknown.append(stack)
