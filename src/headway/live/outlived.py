"""Watched processes that outlive the program, such as daemons: they are watched on, and nobody waits for the watcher.

The watcher's stderr is the program's: whoever reads it to the end waits for all processes that have it.
"""

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from headway.live.proc import writes_to
from headway.live.stall_log import in_utc, note_gap

if TYPE_CHECKING:
    from headway.live.ring import Ring

__all__ = ["Outlived", "let_go_of_stderr"]

_GRACE_S: Final = 0.3
"""Most processes that outlive the program end so soon after it."""
_STDERR: Final = 2
_UNSEEN_S: Final = 10.0
"""How long a process is watched on whose end might not be seen: the watcher could stay for ever."""


@final
class Outlived:
    """The processes of a watcher whose program has ended."""

    def __init__(self, program: str, log: Path, say: Callable[[str], None]) -> None:
        """Take the name of the program, the log, and the function that prints a line on stderr."""
        self._program, self._log, self._say = program, log, say
        self._has_stderr = True

    def are_watched_on(self, alive: "Sequence[Ring]", for_s: float) -> bool:
        """Return whether the watcher goes on; if only the log will tell of stalls from now on, say so.

        Args:
            alive: The processes that have not ended, one or more.
            for_s: The time since the program's end.
        """
        if for_s > _UNSEEN_S and not any(one.shows_end for one in alive):
            why = f"a process that outlived {self._program}, and whose end might not be seen, was watched no more"
            note_gap(self._log, f"{why} from {in_utc(time.time())} on")
            self._say(why)
            return False
        # The reader of our stderr waits for a process that has it, anyway.
        if self._has_stderr and for_s > _GRACE_S and not any(writes_to(one.pid, _STDERR) for one in alive):
            are = "1 process of it is" if len(alive) == 1 else f"{len(alive)} processes of it are"
            self._say(f"{self._program} has ended, and {are} watched on: only {self._log} tells of stalls from now on")
            let_go_of_stderr()
            self._has_stderr = False
        return True


def let_go_of_stderr() -> None:
    """Make stderr /dev/null: the reader of the program's stderr waits for its end, which must not come later than bare.

    A process that begins to be watched after this is told of in the log only.
    """
    with contextlib.suppress(OSError):
        nothing = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nothing, 2)
        os.close(nothing)
