"""Tells where a thread was between two of its stacks, if it was importing a module all that time.

An import of a large package executes many modules, and yields the GIL at each file that it reads. In between, the thread
may compute for long where nobody has looked. The two stacks alone do not tell where: a line that both have in common may
have been left and come back to, as in a loop. The code of a module, however, runs once. So the thread was in all frames
that had called it.
"""

from collections.abc import Sequence
from typing import Final

from headway.traces.model import Frame

__all__ = ["importing"]

_CALLER: Final = ("<frozen importlib._bootstrap>", "_call_with_frames_removed")
"""The function that calls the code of a module; `python -m` and `exec()` have others."""


def importing(before: Sequence[Frame], after: Sequence[Frame]) -> tuple[Frame, ...]:
    """Return the frames, innermost first, that a thread had from one stack to the next as it was importing; () if none."""
    certain = 0
    outer: Frame | None = None
    for depth, (one, other) in enumerate(zip(reversed(before), reversed(after), strict=False)):
        is_same = one == other
        is_module = one.function == other.function == "<module>" and one.filename == other.filename
        if is_module and outer is not None and (outer.filename, outer.function) == _CALLER:
            certain = depth + is_same
        if not is_same:
            break
        outer = one
    return tuple(before[len(before) - certain :])
