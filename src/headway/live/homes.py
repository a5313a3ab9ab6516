"""Tells for each stack at which a watched thread released the GIL whether an event loop or a pool waits there."""

from array import array
from collections.abc import Sequence
from typing import Final, Protocol, final

from headway.native import HOME_LOOP, HOME_NONE, HOME_OUTSIDE, HOME_POOL, HOME_REQUEST
from headway.traces.frames import MAX_DEPTH, Frame
from headway.traces.loops import (
    Home,
    home_at,
    is_a_hub,
    is_for_a_request,
    is_in_a_loop,
    is_in_a_pool,
    is_whole,
    serves_the_web,
)

__all__ = ["Homes"]

_FRAMES: Final = 6
"""The number of innermost frames that suffice to tell a home."""
_MOST_UNKNOWN: Final = 1024
_NUMBERS: Final = {Home.LOOP: HOME_LOOP, Home.POOL: HOME_POOL}


class _Stacks(Protocol):
    """headway.live.stacks.Stacks."""

    def update(self) -> None:
        """Read the stacks that have come in."""

    def is_whole(self, number: int) -> bool:
        """Tell whether all frames of a stack are known."""

    def frames(self, number: int, most: int) -> tuple[Frame, ...]:
        """Return a stack's innermost frames; () if the stack is not known."""


class _Collection(Protocol):
    """headway.native.Collection."""

    def fresh(self) -> Sequence[int]:
        """Return the stacks that earlier calls did not return."""

    def settle(self, stack: int, home: int) -> None:
        """Set the kind of a stack."""


@final
class Homes:
    """The classification of one process's stacks."""

    def __init__(self, collection: _Collection, stacks: _Stacks) -> None:
        """Begin with no stacks; `collection` gives the stacks and takes their kinds."""
        self._collection = collection
        self._stacks = stacks
        self._unknown: list[int] = []
        """Stacks whose frames are not in the file yet: a pass may copy an event before the open chunk with its stack."""
        self._loops: dict[str, Sequence[Frame]] = {"": ()}
        """A stack at which an event loop waits, for each function that does; () stands for one that is not known yet."""
        self._outside = array("I")
        """The stacks that are outside of any loop, until a hub is seen: they may be those of its greenlets."""
        self._is_web = False
        """The process serves requests in an event loop."""

    def settle(self) -> None:
        """Set the kind of all stacks that have come with the last pass."""
        waiting = [*self._unknown, *self._collection.fresh()]
        self._unknown = []
        if waiting:
            self._stacks.update()
        for stack in waiting:
            frames = self._stacks.frames(stack, _FRAMES)
            if frames or len(self._unknown) == _MOST_UNKNOWN:
                self._collection.settle(stack, self._number(stack, frames))
            else:
                self._unknown.append(stack)

    def _number(self, stack: int, frames: Sequence[Frame]) -> int:
        whole = self._stacks.frames(stack, MAX_DEPTH)
        home = home_at(frames)
        if home is Home.LOOP:
            home = home_at(whole)  # a loop's caller may be another loop
            self._loops[frames[0].function] = whole
            if is_a_hub(whole):
                self._settle_greenlets()
        # Where the loop waits, its callers are the server.
        self._is_web = self._is_web or serves_the_web(whole)
        if home is not None or not frames:
            return _NUMBERS[home] if home is not None else HOME_NONE
        if not self._stacks.is_whole(stack):
            return HOME_NONE
        is_cut = len(whole) == MAX_DEPTH and not is_whole(whole)
        if is_cut or any(is_in_a_loop(whole, loop, returned=True) for loop in self._loops.values()):
            return HOME_NONE
        if is_in_a_pool(whole) and is_for_a_request(whole, is_web=self._is_web):
            return HOME_REQUEST
        self._outside.append(stack)
        return HOME_OUTSIDE

    def _settle_greenlets(self) -> None:
        """Set the kind of the stacks before a hub's first wait anew: they may be those of its greenlets."""
        for stack in self._outside:
            self._collection.settle(stack, HOME_NONE)
        del self._outside[:]
