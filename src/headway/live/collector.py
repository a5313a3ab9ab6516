"""The process that writes the traces of a launch, and finishes them after the program has ended.

The process is no child of the program (headway.live.detached). A pidfd tells it of the program's end. The pidfd was
opened before the launcher became the program, which keeps the launcher's process id.
"""

import contextlib
import os
import select
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import final

from headway.live import collect, files
from headway.live.collect import DEFAULT_MAX_BYTES
from headway.live.detached import Program, Terminal, alone, check_open_files, detached
from headway.live.door import Door
from headway.live.options import COLLECTOR_NAME
from headway.live.proc import writes_to
from headway.live.unreached import Unreached

__all__ = ["DetachedCollector"]

_LINGER_S = 1.0
"""The wait for children of the program that begin to record after its end."""


@final
class DetachedCollector:
    """The launcher's handle of the collector process."""

    def __init__(
        self,
        door: Door,
        file: Path,
        lock: int | None,
        afterwards: Callable[[Sequence[Path], Sequence[str]], None],
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        overwrites: bool = False,
        is_told: bool = False,
    ) -> None:
        """Start the collector. If it cannot be started, neither the door nor the lock is left.

        Args:
            door: Where the program and its children will call; belongs to the collector from now on.
            file: The trace of the program that this process is about to become.
            lock: The result of files.lock(), which from now on only the collector holds.
            afterwards: Called in the collector after the traces are finished, with the traces and the problems, and
                with the terminal as sys.stderr. Not called if our stderr is no terminal, or that terminal is gone by
                then.
            max_bytes: The limit for all traces together.
            overwrites: An earlier trace at `file` is removed once the program calls, and stays if it does not.
            is_told: The user knows already that the program itself is out of reach.

        Raises:
            OSError: No further process can be started, or it could open too few files.
        """
        terminal = Terminal.of(2)
        stderr: int | None = None
        pid = 0 if is_told else os.getpid()
        # On a terminal, `afterwards` says that there is no trace.
        unreached = Unreached(pid, "traced", lambda text: _say(stderr, text), tells_none=terminal is None)

        def look(*, over: bool = False) -> None:
            nonlocal stderr
            unreached.look(called=door.called.is_set(), over=over)
            # The reader of the program's stderr waits for its end, and so for all processes that have it open.
            if stderr is not None and not (unreached.looks or (unreached.may_tell and _has_open(pid, stderr))):
                os.close(stderr)
                stderr = None

        def over() -> bool:
            look()
            return program.ended()

        def work() -> None:
            nonlocal stderr
            begun_, lock_, listener, program.descriptor, stderr = alone(
                COLLECTOR_NAME, begun, lock, door.socket.fileno(), program.descriptor, stderr
            )
            if listener is not None:
                door.moved(listener)
            # However the collector ends, neither the door nor the lock stays.
            with contextlib.ExitStack() as last, contextlib.ExitStack() as locked:
                last.callback(door.close)
                locked.callback(files.unlock, file, lock_)
                if begun_ is not None and os.read(begun_, 1):
                    return  # the program was never begun
                with collect.Collector(door, file, max_bytes=max_bytes, overwrites=overwrites) as collecting:
                    collecting.run(over)
                    locked.close()
                    look(over=True)  # after the lock is gone: the reader of the program's stderr sees its end then
                    if terminal is not None and terminal.reopen():
                        afterwards(collecting.files, collecting.problems)
                    # A child that the program has left behind may be just beginning to record.
                    deadline = time.monotonic() + _LINGER_S
                    collecting.run(lambda: time.monotonic() > deadline)

        with contextlib.ExitStack() as after, contextlib.ExitStack() as failed:
            if lock is not None:
                after.callback(os.close, lock)
                failed.callback(files.lock_path(file).unlink, missing_ok=True)
            failed.callback(door.close)
            check_open_files()
            begun, self._tell = os.pipe()
            after.callback(os.close, begun)
            if unreached.may_tell:
                with contextlib.suppress(OSError):  # there is none
                    stderr = os.dup(2)
                    after.callback(os.close, stderr)
            failed.callback(os.close, self._tell)
            program = Program(os.getpid())
            after.callback(program.close)
            detached(work)
            failed.pop_all()

    def dismiss(self) -> None:
        """Tell the collector that the program has not begun. If it has begun, exec() closes the pipe instead."""
        with contextlib.suppress(OSError):
            os.write(self._tell, b".")


def _has_open(pid: int, stderr: int) -> bool:
    """Tell whether the program still has its stderr, too; or it is just ending, and has no descriptors any more."""
    with contextlib.suppress(OSError):
        return writes_to(pid, stderr) or not os.listdir(f"/proc/{pid}/fd")
    return False


def _say(stderr: int | None, text: str) -> None:
    """Print a line on the program's stderr, if it takes one now: nobody may read it, and the traces must go on."""
    if stderr is not None:
        out = select.poll()
        out.register(stderr, select.POLLOUT)
        with contextlib.suppress(OSError):
            if out.poll(0):
                os.write(stderr, f"headway: {text}\n".encode())
