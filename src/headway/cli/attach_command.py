"""Record a running Python process, or schedule its GIL, until Ctrl-C or a limit.

The process keeps running, and Headway leaves it as it was before; a process
that had another policy than --policy is without a policy afterwards. Headway
enters CPython 3.14 and later through the debugger interface of PEP 768. For
earlier versions, on x86-64 only, ptrace stops the main thread for about a
millisecond.

Headway also follows children that the process forks meanwhile, and records the
Python processes that it has already started, or starts meanwhile, because a
gunicorn, uvicorn or Celery parent leaves the work to its workers. Each process
has its own trace, beside FILE; that of a started one begins a moment after the
process. --no-children leaves out all but the process and what it forks.

Headway can enter a process only where its main thread runs Python. A main
thread that waits in one call, as in `join()`, `Event().wait()` or `os.wait()`,
cannot be entered until that call is over: Headway then records only the
processes below it. A program whose main thread waits like that all the time
must be started with `headway trace`, or wait with a time-out, again and again.

A recording has no line of a thread that neither holds nor wants the GIL all the
while, as one that is blocked for ever: the report has only its name, and
without a GIL nothing.

Headway does not enter a process that has its own seccomp filter: the code that
Headway runs there opens files and a connection, and the filter may end the
process for that. A container's filter does not count.

Ctrl-C, SIGTERM and SIGHUP end the recording in order. However the command ends,
even by kill -9, the process returns to CPython's own behaviour within seconds;
`headway detach` does so at once.

Exit codes:
  0              the process has CPython's own behaviour again
  2              bad argument
  5              no native library
  7              neither the process nor one below it could be recorded; one
                 could not be told to stop (it then stops by itself); the
                 watchdog removed the policy; or the recording or the policy
                 ended early because this command or the machine was suspended
  8              no such policy for this process
  130, 143, 129  a signal ended the command before the recording began, or a
                 second signal before everything had ended in order

Examples:
  headway attach 4711 --duration 10
  headway attach 4711 -o slow.hwt
  headway attach 4711 --no-children
  headway attach 4711 --policy fair
"""

import argparse
import contextlib
import glob
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, final

from headway.cli import console, options
from headway.cli.entering import CHILD_PATIENCE_S, Waiting, beside_each_other, enter_children
from headway.cli.newcomers import Newcomers
from headway.cli.trace_command import add_output, new_path, summarise

if TYPE_CHECKING:
    from headway.live import attach
    from headway.live.door import Door
    from headway.traces.model import Trace

    _Held = tuple[attach.Target, attach.Attachment]

__all__ = ["add_despite_filter", "add_patience", "prepare", "run"]

_SIGNALLED = 128
_LISTED = 10
_ENOUGH = 0.9
"""The share of the time asked from which a recording needs no warning."""
_LONG_S = 0.5
"""A longer wait until Headway is in a process is mentioned."""


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("pid", type=int, help="the id of the process")
    add_output(parser)
    parser.add_argument(
        "--duration",
        metavar="SECONDS",
        type=options.seconds(above=True),
        help="how long to record (default: until Ctrl-C or the end of the process)",
    )
    parser.add_argument(
        "--policy",
        metavar="NAME",
        help="schedule the GIL with this policy instead of recording (CPython 3.14 and later); see `headway policies`",
    )
    parser.add_argument(
        "--no-children",
        action="store_true",
        help="record this process and what it forks, and not the processes that it has started, or starts",
    )
    add_patience(parser)
    add_despite_filter(parser)


def add_patience(parser: argparse.ArgumentParser) -> None:
    """Add the option `--patience SECONDS`."""
    parser.add_argument(
        "--patience",
        metavar="SECONDS",
        type=options.seconds(above=True),
        default=10.0,
        help="how long to wait until the main thread runs Python (default %(default)g)",
    )


def add_despite_filter(parser: argparse.ArgumentParser) -> None:
    """Add the option `--despite-filter`."""
    parser.add_argument(
        "--despite-filter",
        action="store_true",
        help="also enter a process that has its own seccomp filter; the filter may end the process for that",
    )


class _StoppedError(BaseException):
    """A signal that ends the command at once: no attachment is held yet, or it is the second signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Signals:
    """The handling of Ctrl-C, SIGTERM and SIGHUP.

    The first signal after `wait_for` sets `came`, so that the command can end in order. All others raise
    `_StoppedError` in the main thread, and in the threads that call `check`.
    """

    def __init__(self) -> None:
        self._is_waited_for = False
        self._stopped_by: int | None = None
        self.came = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                signal.signal(number, self._on_signal)

    def wait_for(self) -> None:
        """Let the next signal set `came` instead of raising: the command now holds an attachment."""
        self._is_waited_for = True

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _silence()
        if not self._is_waited_for or self.came:
            self._stopped_by = number
            raise _StoppedError(number)
        self.came = True

    def check(self) -> None:
        """Raise `_StoppedError` if a signal ended the command at once; for threads, which see no signals."""
        if self._stopped_by is not None:
            raise _StoppedError(self._stopped_by)


def run(arguments: argparse.Namespace) -> int:
    """Attach to the process, wait, detach, and print a summary; return the exit code."""
    from headway.live import attach

    signals = _Signals()
    try:
        target = attach.look_at(arguments.pid)
        if arguments.policy is not None:
            return _schedule(target, arguments, signals)
        return _record(target, arguments, signals)
    except _StoppedError as stopped:
        console.say("stopped")
        return _SIGNALLED + stopped.number


def _record(target: "attach.Target", arguments: argparse.Namespace, signals: _Signals) -> int:
    """Enter the process and those below it, wait, leave them, and tell what was recorded; return the exit code."""
    from headway.live import files
    from headway.live.collect import collecting
    from headway.live.unreleased import note_kept

    file = new_path(arguments, f"pid-{arguments.pid}")
    most = arguments.max_size
    with files.locked(file):
        with (
            collecting(
                file, at_once=True, only=target.pid, say=console.say, max_bytes=most, overwrites=arguments.force
            ) as door,
            contextlib.closing(_Recording(target, file, door, arguments, signals)) as recording,
        ):
            recording.enter()
            with contextlib.nullcontext() if arguments.no_children else recording.newcomers:
                alive = _wait(recording.decisive, signals, arguments.duration)
            kept = [(one.kept.pid, one.kept.look()) for _, one in recording.held() if one.kept is not None]
            running = [one for one in recording.held() if _is_alive(one[0].pid)]
            codes = beside_each_other(lambda one: _end(*one, arguments, signals, policy=False), running)
        note_kept(file, kept)
    recording.tell(ended=not alive)
    return max(codes, default=0)


@final
class _Recording:
    """The processes that the command records: the target, those below it at first, and those that begin there later."""

    def __init__(
        self,
        target: "attach.Target",
        file: Path,
        door: "Door",
        arguments: argparse.Namespace,
        signals: _Signals,
    ) -> None:
        """Prepare; `enter` enters the processes."""
        self._target, self._file, self._door, self._arguments, self._signals = target, file, door, arguments, signals
        self._own: list[_Held] = []
        """The target, unless its main thread stands still."""
        self._workers: list[_Held] = []
        self._waited_s = 0.0
        """The time until Headway was in the target."""
        self.newcomers = Newcomers(target.pid, self._enter_new, _close, "recorded", console.say)
        """The processes that begin below the target from now on."""

    def held(self) -> "list[_Held]":
        """Return all processes, without those that began later and have ended."""
        return [*self._own, *self._workers, *self.newcomers.found]

    def decisive(self) -> "list[_Held]":
        """Return the processes whose end ends the command: the target, or all others if it is not recorded."""
        return self._own or self.held()

    def close(self) -> None:
        """Let go of all processes; those that were not told to stop soon stop by themselves."""
        for one in self.held():
            _close(one)

    def enter(self) -> None:
        """Enter the target and the Python processes below it, and say which are recorded.

        Raises:
            RecordingError: Neither the target nor a process below it can be recorded.
        """
        from headway.live import attach

        how_long = f"for {self._arguments.duration:g} s" if self._arguments.duration else "until Ctrl-C"
        try:
            self._enter_target()
        except attach.StandsStillError as error:
            if self._arguments.no_children or not attach.python_descendants(self._target.pid):
                raise
            console.say(f"process {self._target.pid} is not recorded: {error.message}")
            self._signals.wait_for()
            self._enter_workers()
            if not self._workers:
                raise
            console.say(f"recording only {_children(self._workers)} {how_long}")
        else:
            self._signals.wait_for()
            console.say(f"recording process {self._target.pid} {how_long}")
            self._enter_workers()
            if self._workers:
                console.say(f"and {_children(self._workers)}")

    def _enter_target(self) -> None:
        from headway.live import attach

        asked_s, patience_s = time.monotonic(), self._arguments.patience
        held = attach.attach(
            self._target,
            self._door,
            patience_s=patience_s,
            despite_filter=self._arguments.despite_filter,
            check=Waiting(self._target.pid, patience_s),
        )
        self._own.append((self._target, held))
        self._waited_s = time.monotonic() - asked_s

    def _enter_workers(self) -> None:
        """Enter the Python processes below the target; say which of them are not recorded, and why."""
        from headway.live import attach

        below = attach.python_descendants(self._target.pid)
        if self._arguments.no_children:
            if below:
                is_one = len(below) == 1
                console.say(
                    f"its {len(below)} child process{'' if is_one else 'es'} {'is' if is_one else 'are'} not recorded, and may do"
                    f" the work: {_some(below)}"
                )
            return
        self.newcomers.leave(below)

        def enter(pid: int) -> "_Held | None":
            return None if self._signals.came else self._enter_one(pid, self._signals.check)

        self._workers = enter_children(below, enter, "recorded")

    def _enter_new(self, pid: int, check: Callable[[], None]) -> "_Held | None":
        found = self._enter_one(pid, check)
        if found is not None:
            console.say(f"and its new child process {pid}")
        return found

    def _enter_one(self, pid: int, check: Callable[[], None]) -> "_Held | None":
        """Enter a process below the target; return None if it was forked meanwhile, and is recorded into our files."""
        from headway.live import attach
        from headway.live.watch import is_recorded

        if any(self._file.parent.glob(f"{glob.escape(self._file.stem)}.{pid}*.hwt")) and is_recorded(pid):
            return None
        target = attach.look_at(pid)
        patience_s, despite = min(self._arguments.patience, CHILD_PATIENCE_S), self._arguments.despite_filter
        return target, attach.attach(target, self._door, patience_s=patience_s, despite_filter=despite, check=check)

    def tell(self, *, ended: bool) -> None:
        """Tell where the finished trace is, and what is not in it. `ended`: all processes have ended by themselves."""
        from headway.errors import TraceError
        from headway.traces.family import read_family

        if self.newcomers.left_out:
            console.say(
                "new child processes that are not recorded, because they began too late or ended too early:"
                f" {_some(self.newcomers.left_out)}; `headway trace` records children from their start"
            )
        traces: list[Trace] | None = None
        if ended and (self._arguments.duration is not None or self._waited_s >= _LONG_S):
            with contextlib.suppress(TraceError):  # the summary tells it
                traces = read_family(self._file)
                self._tell_short(traces[0])
        summarise(self._file, brief=self._arguments.no_summary, traces=traces)

    def _tell_short(self, trace: "Trace") -> None:
        """Warn if the processes ended long before the recording was to end, or soon after Headway was in them."""
        from headway.traces.analysis.words import duration

        length_ns, waited_s, asked_s = trace.end_ns - trace.start_ns, self._waited_s, self._arguments.duration
        late = waited_s >= _LONG_S and length_ns < waited_s * 1e9
        if not late and (asked_s is None or length_ns >= _ENOUGH * asked_s * 1e9):
            return
        of = f" of the {asked_s:g} s asked" if asked_s is not None else ""
        who = (
            f"process {self._target.pid} has"
            if self._own
            else f"the child processes of process {self._target.pid} have"
        )
        why = f"; its main thread ran Headway's code only after {waited_s:.2g} s" if late else ""
        console.say(f"warning: recorded {duration(length_ns)}{of}: {who} ended{why}")


def _close(one: "_Held") -> None:
    one[1].close()


def _children(workers: "list[_Held]") -> str:
    pids = [worker.pid for worker, _ in workers]
    return f"its {len(pids)} child process{'' if len(pids) == 1 else 'es'}: {_some(pids)}"


def _some(pids: list[int]) -> str:
    return ", ".join(map(str, pids[:_LISTED])) + (", ..." if len(pids) > _LISTED else "")


def _wait(ones: "Callable[[], list[_Held]]", signals: _Signals, duration_s: float | None) -> bool:
    """Wait for a signal, or `duration_s`, or until none of `ones` is both alive and attached; return if one is alive."""
    deadline = time.monotonic() + (duration_s or float("inf"))
    while True:
        alive = [held for target, held in ones() if _is_alive(target.pid)]
        left_s = deadline - time.monotonic()
        if signals.came or left_s <= 0 or all(held.ended for held in alive):
            return bool(alive)
        time.sleep(min(0.1, left_s))


def _is_alive(pid: int) -> bool:
    """Return whether the process runs; one that has ended exists until its parent asks for its exit code."""
    from headway.live.lived import incarnation_of

    return incarnation_of(pid) is not None


def _silence() -> None:
    """Redirect the terminal's streams to /dev/null: after a hang-up, writing to the terminal is an error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            if stream.isatty():
                os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _end(
    target: "attach.Target",
    held: "attach.Attachment",
    arguments: argparse.Namespace,
    signals: _Signals,
    *,
    policy: bool,
) -> int:
    """Detach, so that the process has CPython's own behaviour again; return 0, or the exit code of a failure."""
    from headway.errors import RecordingError
    from headway.live import attach
    from headway.live.lease import SPAN_S, Ended

    what = "the policy" if policy else "the recording"
    ended = held.ended
    if ended is Ended.BY_HAND:
        console.say(f"{what} of process {target.pid} was ended by another command")
        return 0
    if ended is Ended.REPLACED:
        console.say(f"process {target.pid} has become another program, and {what} of the old one has ended")
        return 0
    if ended is Ended.WATCHDOG:
        console.say(f"{what} of process {target.pid} was removed by the watchdog; the stderr of the process says why")
        return RecordingError.exit_code
    try:
        attach.detach(
            target,
            recording=not policy,
            policy=policy,
            patience_s=arguments.patience,
            despite_filter=arguments.despite_filter,
            check=Waiting(target.pid, arguments.patience, signals.check),
        )
    except RecordingError as error:
        if not _is_alive(target.pid):
            return 0  # the program has ended by itself meanwhile, and all of it is recorded
        # The error is printed and not raised, because the events recorded so far stay readable.
        console.complain(error.message, error.hint)
        console.say(f"{what} ends by itself, at the latest {SPAN_S:g} s after process {target.pid} runs again")
        return RecordingError.exit_code
    if ended is Ended.EXPIRED:
        console.say(
            f"{what} of process {target.pid} had ended early: this command or the machine was suspended for some seconds"
        )
        return RecordingError.exit_code
    return 0


def _schedule(target: "attach.Target", arguments: argparse.Namespace, signals: _Signals) -> int:
    """Apply the policy, wait, and remove the policy; return the exit code."""
    from headway.errors import SchedulingError, UsageError
    from headway.live import attach
    from headway.live.schedule import check
    from headway.live.switched_on import GilSwitch

    if target.version < (3, 14):
        name = f"{'a free-threaded ' * target.free_threaded}CPython {target.version[0]}.{target.version[1]}"
        if target.free_threaded and not GilSwitch(target.pid).is_on():
            raise SchedulingError(
                f"process {target.pid} runs {name}, so there is no GIL to schedule",
                hint="if its GIL is on (PYTHON_GIL=1), start the program with `headway run`",
            )
        raise SchedulingError(
            f"process {target.pid} runs {name}: its GIL {'is on, and ' * target.free_threaded}cannot be scheduled from outside",
            hint="start the program with `headway run`, or use CPython 3.14 or later",
        )
    policy = arguments.policy
    if arguments.output is not None or arguments.force:
        raise UsageError(
            "--policy schedules and records nothing, so there is no file",
            hint="record with another `headway attach`, without --policy",
        )
    if policy == "none":
        raise UsageError(
            "--policy none schedules nothing",
            hint=f"`headway detach {target.pid}` ends a policy that the process has; to record, leave out --policy",
        )
    check(policy, {})
    if "/" in policy:
        policy = str(Path(policy).absolute())
    held = attach.schedule(
        target,
        policy,
        patience_s=arguments.patience,
        despite_filter=arguments.despite_filter,
        check=Waiting(target.pid, arguments.patience),
    )
    signals.wait_for()
    how_long = f"for {arguments.duration:g} s" if arguments.duration else "until Ctrl-C"
    instead = f" in place of {held.text}" if held.text else ""
    with contextlib.closing(held):
        console.say(f"process {target.pid} is scheduled by {policy}{instead} {how_long}")
        alive = _wait(lambda: [(target, held)], signals, arguments.duration)
        if not alive:
            return 0
        is_ours = not held.ended
        code = _end(target, held, arguments, signals, policy=True)
        if is_ours and held.text and code == 0 and _is_alive(target.pid):
            console.say(f"process {target.pid} is without a policy now; before, it was scheduled by {held.text}")
        return code
