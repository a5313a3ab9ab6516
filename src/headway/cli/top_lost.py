"""A program that `headway top` has started, and that is not counted any more although it runs on."""

import time
from typing import Protocol, final

__all__ = ["Lost"]


class _Counted(Protocol):
    @property
    def watched(self) -> tuple[int, ...]: ...

    @property
    def ended(self) -> str: ...


@final
class Lost:
    """Tells for how long no process of the program has been counted.

    A program may start another one in its place (exec), which is counted when it runs Python: also after minutes, as
    that of a shell script. The program runs on in any case, and only its user ends it.
    """

    def __init__(self, name: str, patience_s: float) -> None:
        """Take the program's name, and the time after which a program without counters is mentioned."""
        self._name, self._patience_s = name, patience_s
        self._since_s = 0.0
        self._is_said = False

    def line(self, monitor: _Counted) -> str:
        """Return what to show in place of a table; "": the program is counted, or may be soon."""
        if monitor.watched:
            self._since_s, self._is_said = 0.0, False
            return ""
        self._since_s = self._since_s or time.monotonic()
        if time.monotonic() - self._since_s < self._patience_s:
            return ""
        return f"{self._name} is not counted any more" + (f": {monitor.ended}" if monitor.ended else "")

    def news(self, monitor: _Counted) -> str:
        """Return the line once each time that the program is lost."""
        line = self.line(monitor)
        was_said, self._is_said = self._is_said, self._is_said or bool(line)
        return "" if was_said else line
