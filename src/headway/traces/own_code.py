"""Headway's own code in the stacks of a recording, which is no code of the program.

Two kinds of it run in a recorded thread: the ends of `with headway.trace()`, and the script that `headway attach` and
`headway detach` run in the main thread, between two lines of the program (headway.live.attach).
"""

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from headway.traces.format import NO_GIL
from headway.traces.frames import Frame

__all__ = ["SCRIPT_CHECKS", "Stacks", "without_own_code"]

_WITH_FILE: Final = "headway/live/recording.py"
_WITH_ENDS: Final = ("Recording.__enter__", "Recording.__exit__")
_SCRIPT: Final = ("<string>", "_headway", 1)
"""The file, the name and the first line of the function in the script of `headway attach`."""
SCRIPT_CHECKS: Final = 7
"""The script's last line before it enters: the call there, which looks for a file, is the first to release the GIL."""


class _Kind(Enum):
    """The kinds of Headway's own frames."""

    WITH = auto()
    BEGINS = auto()
    WORKING = auto()


@final
class Stacks(NamedTuple):
    """The stacks of a recording; the fields are those of `Trace`, and stack 0 is the unknown one."""

    parent: NDArray[np.int64]
    frame: NDArray[np.int64]
    frames: Sequence[Frame]
    code: NDArray[np.int64]
    """A number for the code object of each stack's innermost frame; two code objects may have one file and name."""
    gil: NDArray[np.int64]
    """The GIL at whose events each stack was recorded; NO_GIL for waits without one."""
    has_gil: bool
    """Whether the program ran with a GIL."""


def without_own_code(stacks: Stacks, ours: int) -> NDArray[np.int64] | None:
    """Return for each stack the one that stands for it, without Headway's own code; None: there is no such code.

    Python code that no thread waits for may release the GIL for the first time at the end of `with headway.trace()`. The
    hold belongs to the program, and the line of its `with` is the nearest that is known. The same is true of a hold that
    ends as the script of `headway attach` begins: the script has interrupted the program at that line. All else in the
    script is work of Headway, and the stack `ours` stands for it.
    """
    # Without a GIL, nothing of the program is held up to a release. Holds of the GIL that an import switches on for a moment
    # are known by the innermost frames, which are told as they are.
    may_be = np.full(len(stacks.gil), fill_value=True) if stacks.has_gil else stacks.gil == NO_GIL
    kinds = [_kind(one) for one in stacks.frames]
    ends, begins, working = (
        np.isin(stacks.frame, [at for at, one in enumerate(kinds) if one is kind]) & may_be for kind in _Kind
    )
    modules = [
        int(stacks.code[at])
        for at in np.unique(stacks.parent[begins | working]).tolist()
        if at and _is_module(stacks.frames[int(stacks.frame[at])])
    ]
    hidden = begins | (ends & stacks.has_gil) | (np.isin(stacks.code, modules) & may_be)
    if not (hidden | working).any():
        return None
    shown: list[int] = []
    rows = zip(stacks.parent.tolist(), hidden.tolist(), working.tolist(), strict=True)
    for at, (caller, is_hidden, is_working) in enumerate(rows):
        above = shown[caller] if at else 0
        shown.append(ours if is_working else above if is_hidden or above != caller else at)
    return np.array(shown, dtype=np.int64)


def _kind(frame: Frame) -> _Kind | None:
    if frame.function in _WITH_ENDS and frame.filename.endswith(_WITH_FILE):
        return _Kind.WITH
    if (frame.filename, frame.function, frame.first_line) == _SCRIPT:
        return _Kind.WORKING if frame.line > SCRIPT_CHECKS else _Kind.BEGINS
    return None


def _is_module(frame: Frame) -> bool:
    return (frame.filename, frame.function) == (_SCRIPT[0], "<module>")
