"""Processes that live on after the end of their recording: no stall of theirs is reported, and no other line tells so."""

from typing import Final, final

from headway.live.lived import incarnation_of

__all__ = ["Left"]

_EXIT_NS: Final = 3_000_000_000
"""The time within which a process ends that is exiting: its recording ends before."""


@final
class Left:
    """The processes that have ended their recording, as `headway detach` makes them do."""

    def __init__(self) -> None:
        """Begin without any."""
        self._found: dict[int, tuple[tuple[str, ...], int]] = {}

    def note(self, pid: int, now_ns: int) -> None:
        """Note a process whose recording has ended."""
        incarnation = incarnation_of(pid)
        if incarnation is not None:
            self._found[pid] = incarnation, now_ns

    def forget(self, pid: int) -> None:
        """Forget a process that is recorded again."""
        self._found.pop(pid, None)

    def alive(self, now_ns: int) -> list[int]:
        """Return the processes that have not ended, nor run another program, since their recording ended; each once."""
        due = [pid for pid, (_, since_ns) in self._found.items() if now_ns - since_ns >= _EXIT_NS]
        return [pid for pid, before in [(pid, self._found.pop(pid)[0]) for pid in due] if incarnation_of(pid) == before]
