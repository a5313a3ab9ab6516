"""The process that writes the traces of a launch, and does what is left to do when the program has ended.

It is nobody's child (headway.live.detached). It learns of the program's end by a pidfd that was made before the launcher became
the program, which keeps the process's id.
"""

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import final

from headway.live import collect, files
from headway.live.collect import DEFAULT_MAX_BYTES
from headway.live.detached import Program, Terminal, alone, check_open_files, detached
from headway.live.door import Door

__all__ = ["DetachedCollector"]

_NAME = b"headway-collect"
_LINGER_S = 1.0
"""For children of the program that begin to record after its end."""


@final
class DetachedCollector:
    """The collector as the launcher sees it."""

    def __init__(
        self,
        door: Door,
        file: Path,
        lock: int | None,
        afterwards: Callable[[Sequence[Path], Sequence[str]], None],
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
    ) -> None:
        """Start it. Where it cannot be, nothing of it is left: neither the door nor the lock.

        Args:
            door: Where the program, and its children, will call; the collector's from now on.
            file: The trace of the program that this process is about to become.
            lock: What files.lock() gave: held by the collector, and nobody else, from now on.
            afterwards: Called in the collector, when the traces are finished, with them and what could not be recorded, with the terminal as sys.stderr; not
                called where our stderr is no terminal now, or that terminal is gone then.
            max_bytes: What the traces may have together.

        Raises:
            OSError: There can be no further process, or it could open too few files.
        """
        terminal = Terminal.of(2)

        def work() -> None:
            begun_, lock_, listener, program.descriptor = alone(
                _NAME, begun, lock, door.socket.fileno(), program.descriptor
            )
            if listener is not None:
                door.moved(listener)
            # However it ends, neither the door nor the lock stays.
            with contextlib.ExitStack() as last, contextlib.ExitStack() as locked:
                last.callback(door.close)
                locked.callback(files.unlock, file, lock_)
                if begun_ is not None and os.read(begun_, 1):
                    return  # it was never begun
                with collect.Collector(door, file, max_bytes=max_bytes) as collecting:
                    collecting.run(program.ended)
                    locked.close()
                    if terminal is not None and terminal.reopen():
                        afterwards(collecting.files, collecting.problems)
                    # A child that it has left behind may be just beginning to record.
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
            failed.callback(os.close, self._tell)
            program = Program(os.getpid())
            after.callback(program.close)
            detached(work)
            failed.pop_all()

    def dismiss(self) -> None:
        """Tell it that the program has not begun. Where it has, the closed pipe tells."""
        with contextlib.suppress(OSError):
            os.write(self._tell, b".")
