"""Notes in a finished trace which threads kept a sub-interpreter's own GIL since before the recording began."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import final

from headway.live.files import family_files
from headway.live.header import FIELDS_BYTES, header_in
from headway.live.own_gils import OwnGils
from headway.live.proc import ids_in, status
from headway.live.thread_ids import ThreadIds
from headway.traces.frames import Evidence, Unreleased

__all__ = ["KeptGils", "note_kept"]


@final
class KeptGils:
    """The GILs of their own that threads of a process hold when its recording has just begun.

    A GIL that a thread acquires later has events: the reader of the trace leaves its note out.
    """

    def __init__(self, pid: int) -> None:
        """Look which are held. The process may have ended."""
        self._gils = OwnGils(pid)
        self._begun = self._gils.held()
        self._names: dict[int, str] = {}
        self.pid = pid
        """The process's id as the process has it, which is in its trace, too."""
        if self._begun:
            with contextlib.suppress(OSError):
                self.pid = ids_in(status(pid))[-1]
            ids = ThreadIds(pid)
            for at, one in enumerate(self._begun, 1):
                with contextlib.suppress(OSError):
                    comm = Path(f"/proc/{pid}/task/{ids.ours(one.tid, at)}/comm")
                    self._names[one.tid] = comm.read_text(encoding="utf-8", errors="replace").rstrip("\n")

    def look(self) -> tuple[Unreleased, ...]:
        """Return them, with whether they are held still."""
        still = self._gils.held() if self._begun else ()
        return tuple(
            Unreleased(one.address, one.tid, self._names.get(one.tid, f"thread {one.tid}"), one in still)
            for one in self._begun
        )


def note_kept(trace: Path, kept: Iterable[tuple[int, tuple[Unreleased, ...]]]) -> None:
    """Note in the finished traces of a recording what `KeptGils.look` has returned, by the ids of processes."""
    found = {pid: gils for pid, gils in kept if gils}
    if not found:
        return
    from headway.traces.notes import append_notes

    for path in family_files(trace):
        with contextlib.suppress(OSError):
            file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                header = header_in(os.pread(file, FIELDS_BYTES, 0))
                if header is not None and header.pid in found:
                    append_notes(file, Evidence(unreleased=found.pop(header.pid)))
            finally:
                os.close(file)
