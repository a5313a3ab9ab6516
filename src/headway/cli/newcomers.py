"""Enters the Python processes that begin below a process while a command is at work there; says which it cannot."""

import contextlib
import threading
from collections.abc import Callable, Iterable
from typing import Generic, Self, TypeVar, final

from headway.cli.entering import beside_each_other, tried
from headway.errors import RecordingError

__all__ = ["Newcomers"]

_LOOK_S = 0.5
"""The time between two looks. A process is entered from the second one on: before, it may be about to become another."""
_TRIES = 3
_MOST_SAID = 20

_Found = TypeVar("_Found")
_Programs = dict[int, tuple[str, ...]]


class _OverError(RecordingError):
    """The command ends, so that no process is entered any more."""


@final
class Newcomers(Generic[_Found]):
    """The processes that begin below a process, such as a server's new workers. Use it in a `with`.

    A forked child of a process that is recorded is recorded, too. A spawned one is a new program: somebody must enter it.
    """

    def __init__(
        self,
        pid: int,
        enter: Callable[[int, Callable[[], None]], _Found | None],
        close: Callable[[_Found], None],
        what: str,
        say: Callable[[str], None],
    ) -> None:
        """Prepare without a look. Looks begin with the `with` block, in a thread of their own.

        Args:
            pid: The process.
            enter: Enters a process below it; returns None if it needs no entering. May raise RecordingError. The
                second argument is to be called several times a second; it raises an error if the command ends.
            close: Ends what `enter` returned, once its process has ended or runs another program.
            what: What becomes of a process that is entered ("recorded").
            say: Prints a message about a process that cannot be entered; called in the thread.
        """
        self._pid, self._enter, self._close, self._what, self._say_it = pid, enter, close, what, say
        self._found: dict[int, tuple[str, _Found]] = {}
        """By process that was entered, in the order of time: when it began, in the kernel's ticks, and what `enter` returned."""
        self._over = threading.Event()
        self._before: _Programs = {}
        self._done: _Programs = {}
        """By process: the program that was entered, or is not to be entered."""
        self._tries: dict[int, int] = {}
        self._gone: set[int] = set()
        self._said = 0
        self._thread = threading.Thread(target=self._run, name="headway-newcomers", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def leave(self, pids: Iterable[int]) -> None:
        """Leave processes to the caller, as long as they run their present programs."""
        self._done |= {pid: program for pid in pids if (program := self._program(pid)) is not None}

    @property
    def found(self) -> list[_Found]:
        """The results of `enter` for the processes that have not ended, in the order of time. Any thread may ask."""
        return [found for _, found in list(self._found.values())]

    @property
    def left_out(self) -> list[int]:
        """The processes that were there for two looks or more, and were neither entered nor told with a reason."""
        return sorted({*self._gone, *self._tries})

    def look(self) -> None:
        """Enter the processes that have come. The thread calls it again and again."""
        self._drop_ended()
        now = self._programs()
        new = self._new(now)
        for pid, outcome in zip(new, beside_each_other(self._try, new) if new else (), strict=True):
            self._take(pid, now[pid], outcome)

    def _drop_ended(self) -> None:
        """End what is held of processes that have ended: a server may start a worker a second for days."""
        for pid, (began, _) in list(self._found.items()):
            if self._has_ended(pid, began):
                self._drop(pid)

    def _drop(self, pid: int) -> None:
        if pid in self._found:
            self._close(self._found.pop(pid)[1])

    def _new(self, now: _Programs) -> list[int]:
        """Return the processes to enter, of those that are there now; note which of them are gone."""
        before, self._before = self._before, now
        self._done = {pid: program for pid, program in self._done.items() if pid in now}
        for pid in set(self._tries) - set(now):
            del self._tries[pid]
            self._gone.add(pid)
        found = []
        for pid, program in now.items():
            if before.get(pid) == program != self._done.get(pid):
                if self._is_python(pid):
                    self._tries.setdefault(pid, 0)
                    found.append(pid)
                else:
                    self._settle(pid, program)
        return found

    def _settle(self, pid: int, program: tuple[str, ...]) -> None:
        """Note that a process needs no further try."""
        self._tries.pop(pid, None)
        self._done[pid] = program

    def _take(self, pid: int, program: tuple[str, ...], outcome: _Found | RecordingError | None) -> None:
        """Note the outcome of a try."""
        if not isinstance(outcome, RecordingError):
            self._settle(pid, program)
            if outcome is not None:
                self._drop(pid)  # it was entered as another program
                self._found[pid] = program[0], outcome
        elif not isinstance(outcome, _OverError) and self._program(pid) == program:
            self._tries[pid] += 1
            if self._tries[pid] >= _TRIES:
                self._settle(pid, program)
                self._say(f"its new child process {pid} is not {self._what}: {outcome.message}")

    def _run(self) -> None:
        while not self._over.wait(_LOOK_S):
            self.look()

    def _try(self, pid: int) -> _Found | RecordingError | None:
        return tried(lambda: self._enter(pid, self._check))

    def _check(self) -> None:
        if self._over.is_set():
            raise _OverError("the command ends")

    def _is_python(self, pid: int) -> bool:
        from headway.live import attach
        from headway.live.standby import is_standby

        try:
            attach.look_at(pid)
        except RecordingError:
            return False
        except OSError:  # for lack of a descriptor: the entering tells it, or there is one by then
            return True
        return not is_standby(pid)

    def _has_ended(self, pid: int, began: str) -> bool:
        """Tell whether a process that began then has ended; it may not be below ours any more, and lives on as an orphan."""
        from headway.live.files import ticks_of

        try:
            return str(ticks_of(pid)) != began
        except (FileNotFoundError, ProcessLookupError):
            return True
        except OSError:  # for lack of a descriptor, that cannot be told
            return False

    def _programs(self) -> _Programs:
        """Return the processes below the process, each with what distinguishes its program from any other."""
        from headway.live.files import descendants

        return {pid: program for pid in descendants(self._pid) if (program := self._program(pid)) is not None}

    def _program(self, pid: int) -> tuple[str, ...] | None:
        from headway.live.lived import incarnation_of

        with contextlib.suppress(OSError):
            return incarnation_of(pid)
        return None

    def _say(self, text: str) -> None:
        self._said += 1
        if self._said <= _MOST_SAID:
            self._say_it(text)
        elif self._said == _MOST_SAID + 1:
            self._say_it(f"further new child processes that are not {self._what} are not named")
