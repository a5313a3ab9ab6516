"""Watch the GIL of a process live: its holder, its waiters and their waits.

If the process is not recorded yet, Headway attaches to it, counts while you
watch, and leaves the process as it was. A program named after -- is started and
counted, and so is a Python that it starts in its place (exec). When you quit,
it ends as if by Ctrl-C. Its output goes to the file of --output. Without
--output, it goes to stderr; while the table is painted over on a terminal, only
the last lines are kept, and shown at the end.

Shares and rates are of the last interval. Percentiles and the worst wait are of
the last seconds (--window); percentiles are exact to within a factor of two.

A thread is `holding` the GIL, or `waiting` for it; one that is `away` neither
has nor wants it: it sleeps, waits for something else, or computes without it.

A free-threaded Python has no GIL. Its waits are for the locks of objects and of
the interpreter, and for ends of threads. A thread that waits for a
`threading.Lock`, or for what is made of it, does not count as waiting.

Examples:
  headway top 4711
  headway top 4711 --json --count 10
  headway top -- app.py --port 8000
  headway top --children -m gunicorn app:app
"""

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from headway.cli import console, options
from headway.cli.attach_command import add_despite_filter
from headway.cli.entering import CHILD_PATIENCE_S, Waiting, enter_children
from headway.cli.newcomers import Newcomers
from headway.cli.top_lost import Lost
from headway.cli.trace_command import add_program
from headway.cli.trace_command import program as program_of
from headway.errors import RecordingError, UsageError

if TYPE_CHECKING:
    from headway.live import attach
    from headway.live.counted_run import Beside
    from headway.live.watch import Monitor, Sample

__all__ = ["prepare", "run"]

_LOOK_S = 0.05  # the time between two checks whether the program has ended
_LONG_S = 0.5  # a longer wait until Headway is in a process is mentioned
_TAIL_LINES = 20
_SIGNALLED = 128


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = (
        "headway top [options] PID\n       headway top [options] -- SCRIPT|PROGRAM [ARGUMENT ...]\n"
        "       headway top [options] -m MODULE|-c CODE|- [ARGUMENT ...]"
    )
    _add_options(parser)
    add_program(parser, "PID | SCRIPT ...", "the id of a process, or a program to start")


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--interval",
        metavar="SECONDS",
        type=options.seconds(0.05),
        default=1.0,
        help="interval between updates (default %(default)g)",
    )
    parser.add_argument("--count", metavar="N", type=options.count, help="stop after N intervals")
    parser.add_argument(
        "--window",
        metavar="SECONDS",
        type=options.seconds(0.05),
        default=5.0,
        help="time that percentiles cover (default %(default)g)",
    )
    parser.add_argument(
        "--children", action="store_true", help="also watch the processes that it has started, or starts"
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON per interval")
    parser.add_argument("--plain", action="store_true", help="print lines of text even if textual is installed")
    parser.add_argument("--output", metavar="FILE", type=Path, help="file for the output of the started program")
    parser.add_argument("--force", action="store_true", help="overwrite FILE")
    parser.add_argument(
        "--patience",
        metavar="SECONDS",
        type=options.seconds(0.05),
        default=10.0,
        help="how long to wait until the main thread, or the started program, runs Python (default %(default)g)",
    )
    add_despite_filter(parser)


class _Options(argparse.ArgumentParser):
    """A second parser, for the options that follow the PID."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint="see `headway top --help`")


def run(arguments: argparse.Namespace) -> int:
    """Watch until Ctrl-C, the end of `--count`, or the end of the process; return the exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, _stop)
    words = arguments.program
    if words and words[0].isdecimal():
        more = _Options(prog="headway top", usage="headway top PID [options]")
        _add_options(more)
        more.parse_args(words[1:], namespace=arguments)
        if arguments.output is not None:
            raise UsageError("--output needs a program to start", hint="leave it out, or name a program after --")
        return _watch(int(words[0]), arguments)
    return _start(arguments)


def _stop(number: int, _: FrameType | None) -> NoReturn:
    sys.exit(_SIGNALLED + number)


def _watch(pid: int, arguments: argparse.Namespace) -> int:
    from headway.live.watch import Monitor, process_of

    process = process_of(pid)
    if process not in {0, pid}:
        raise UsageError(
            f"{pid} is a thread of process {process}, expected the id of a process",
            hint=f"`headway top {process}` shows all its threads",
        )
    others = "" if arguments.children else _not_shown(pid)
    paints_over = _paints_over(arguments)
    if others and not paints_over:
        console.say(others)
    with contextlib.suppress(KeyboardInterrupt):
        again = True
        while again:
            monitor = Monitor(pid, children=arguments.children, window_s=arguments.window)
            asked_s = time.monotonic()
            with (
                _counted(pid, arguments) as joined,
                contextlib.closing(monitor),
                _children_counted(pid, arguments, monitor),
            ):
                waited_s = time.monotonic() - asked_s
                shown = _show(monitor, arguments)
                ended = not monitor.watched
            # If another `top` had begun the counting and has quit, the process stops counting: begin again.
            again = ended and joined and monitor.alive
            if not monitor.alive:
                console.say(f"process {pid} has ended" if shown else _unseen(pid, waited_s))
            elif ended and not again:
                console.say(monitor.ended or f"the recording of process {pid} was ended")
    if others and paints_over:
        console.say(others)
    return 0


def _not_shown(pid: int) -> str:
    """Return that a process has started others, which do the work of a server with workers; "" if it has not."""
    from headway.live import attach

    count = len(attach.python_descendants(pid))
    if not count:
        return ""
    which = "another Python process, which is" if count == 1 else f"{count} other Python processes, which are"
    return f"process {pid} has started {which} not shown; --children shows them, too"


def _unseen(pid: int, waited_s: float) -> str:
    why = (
        f"; its main thread ran Headway's code only after {waited_s:.2g} s, which was too late"
        if waited_s >= _LONG_S
        else ""
    )
    return f"warning: nothing was counted: process {pid} has ended{why}"


@contextlib.contextmanager
def _children_counted(pid: int, arguments: argparse.Namespace, monitor: "Monitor") -> Iterator[None]:
    """With --children, let the Python processes below a process count while the block runs; say which of them cannot.

    After the block, this command renews their leases no more, and within seconds they stop by themselves.
    """
    if not arguments.children:
        yield
        return
    from headway.live import attach, watch
    from headway.live.lived import incarnation_of

    def enter(child: int, check: Callable[[], None] = lambda: None) -> attach.Attachment | None:
        if watch.is_recorded(child):
            return None
        patience_s, despite = min(arguments.patience, CHILD_PATIENCE_S), arguments.despite_filter
        found = attach.count(attach.look_at(child), patience_s=patience_s, despite_filter=despite, check=check)
        monitor.look_again(child)
        return found

    said: list[str] = []
    say = said.append if _paints_over(arguments) else console.say
    newcomers = Newcomers(pid, enter, attach.Attachment.close, "counted", say)
    with contextlib.ExitStack() as held:
        held.callback(lambda: _close(newcomers.found))
        below = attach.python_descendants(pid)
        newcomers.leave(below)
        for one in enter_children(below, enter, "counted"):
            held.enter_context(contextlib.closing(one))
        is_alive = incarnation_of(pid) is not None
        if below and is_alive and not any(map(watch.is_recorded, [pid, *below])):
            raise RecordingError(
                f"neither process {pid} nor a process below it can be counted",
                hint="wait longer (--patience SECONDS), or start the program with `headway top --children --`",
            )
        try:
            with newcomers:
                yield
        finally:
            for line in said:
                console.say(line)


def _close(ones: "list[attach.Attachment]") -> None:
    for one in ones:
        one.close()


@contextlib.contextmanager
def _counted(pid: int, arguments: argparse.Namespace) -> Iterator[bool]:
    """Let a process count while the block runs; yield whether it already counted for another `headway top`.

    If several commands watch one process, the last one ends the counting that the first one began. With --children, the
    process may be left out if it cannot be entered.
    """
    from headway.live import attach, watch

    patience_s, despite_filter = arguments.patience, arguments.despite_filter
    joined = watch.is_recorded(pid)
    target = attach.look_at(pid) if not joined else None
    held: attach.Attachment | None = None
    wanted: watch.Watch | None = None
    ours = not joined
    try:
        if target is not None:
            try:
                held = attach.count(
                    target, patience_s=patience_s, despite_filter=despite_filter, check=Waiting(pid, patience_s)
                )
            except attach.StandsStillError as error:
                if not arguments.children or not attach.python_descendants(pid):
                    raise
                console.say(f"process {pid} is not counted: {error.message}")
        with contextlib.suppress(RecordingError):
            wanted = watch.Watch(pid)
            ours = (wanted.join() or ours) and wanted.counters_only
        yield joined and wanted is not None and wanted.counters_only
    finally:
        others = wanted is not None and wanted.leave()
        # counts_only() is false if the process has ended, or if it is now recorded to a file.
        if ours and not others and watch.counts_only(pid):
            try:
                attach.detach(
                    target or attach.look_at(pid),
                    patience_s=patience_s,
                    despite_filter=despite_filter,
                    check=Waiting(pid, patience_s),
                )
            except RecordingError as error:
                if watch.is_recorded(pid):
                    console.complain(error.message, error.hint)
        if wanted is not None:
            wanted.close()
        if held is not None:
            held.close()


def _start(arguments: argparse.Namespace) -> int:
    from headway.live.counted_run import Beside
    from headway.live.watch import Monitor

    if not any((arguments.program, arguments.module, arguments.code)):
        raise UsageError(
            "no process and no program is given",
            hint="name the id of a process, or a script, as in `headway top -- app.py`",
        )
    command, name = program_of(arguments)
    if arguments.program[:1] == ["-"] and sys.stdin is not None and sys.stdin.isatty():
        raise UsageError(
            "the program cannot come from a terminal, which shows the table",
            hint="give it by a pipe, as a file, or with -c",
        )
    console.check_output(arguments.output, force=arguments.force)
    shown = not _paints_over(arguments)
    with Beside(command, arguments.output, passes_on=shown) as program:
        monitor = Monitor(program.pid, children=arguments.children, window_s=arguments.window)
        code = None
        # The first Ctrl-C ends the display. A second one, while the program ends, is not suppressed.
        with contextlib.closing(monitor), contextlib.suppress(KeyboardInterrupt):
            _wait_until_counted(monitor, program, name, arguments.patience)
            _show(monitor, arguments, Lost(name, arguments.patience))
            code = program.code if monitor.alive else program.wait()
        program.end()
        for line in () if shown else program.tail(_TAIL_LINES):
            console.say(f"| {line}")
        if code is not None:
            console.say(f"{name} has ended" + (f" with exit code {code}" if code else ""))
    return 0 if code is None else code if code >= 0 else _SIGNALLED - code


def _wait_until_counted(monitor: "Monitor", program: "Beside", name: str, patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    while program.code is None and not monitor.watched:
        monitor.sample()
        if time.monotonic() > deadline:
            said = [line for line in program.tail(_TAIL_LINES) if line.startswith("headway: ")]
            raise RecordingError(
                f"{name} is not counted: {said[-1].removeprefix('headway: ') if said else 'none of its Python processes has started to count'}",
                hint="start it without python -I, -E and -S; if it starts other processes for the work, add --children",
            )
        time.sleep(0.01)


def _paints_over(arguments: argparse.Namespace) -> bool:
    """Tell whether each table is painted over the last one, so that other output would spoil the screen."""
    on_screen = sys.stdout is not None and sys.stdout.isatty() and not arguments.json
    return on_screen and os.environ.get("TERM", "dumb") != "dumb"


def _show(monitor: "Monitor", arguments: argparse.Namespace, lost: Lost | None = None) -> bool:
    """Show the counters once per interval, until the process has ended or `--count` intervals are over.

    Args:
        monitor: Reads the counters.
        arguments: Those of the command.
        lost: For a program that we have started: it goes on, and is shown again, after a time without counters.

    Returns:
        Whether anything was shown.
    """
    repaints = _paints_over(arguments)
    has_keys = sys.stdin is not None and sys.stdin.isatty()
    if repaints and has_keys and not arguments.plain and importlib.util.find_spec("textual"):
        from headway.cli.top_app import TopApp

        app = TopApp(monitor, arguments.interval, arguments.count, children=arguments.children, lost=lost)
        app.run()
        return app.has_shown
    out: Callable[[list[Sample]], None] = _print_json if arguments.json else _print_block
    if repaints:
        out = _repaint
        print("\x1b[?25l\x1b[2J", end="")
    try:
        return _loop(monitor, arguments, out, lost)
    finally:
        if repaints:
            print("\x1b[?25h", flush=True)


def _loop(
    monitor: "Monitor", arguments: argparse.Namespace, out: "Callable[[list[Sample]], None]", lost: Lost | None
) -> bool:
    left, shown = arguments.count, False
    monitor.sample()
    due = time.monotonic() + arguments.interval
    while left != 0:
        while monitor.alive and time.monotonic() < due:
            time.sleep(min(_LOOK_S, max(0.0, due - time.monotonic())))
        samples = monitor.sample() if monitor.alive else []
        if not monitor.alive or not (samples or monitor.watched or arguments.children or lost):
            break
        due = max(due + arguments.interval, time.monotonic())
        if samples:
            out(samples)
            shown = True
            left = None if left is None else left - 1
        if lost is not None and (news := lost.news(monitor)):
            _paint([news]) if out is _repaint else console.say(news)
    return shown


def _print_json(samples: "list[Sample]") -> None:
    from headway.cli.top_view import to_json

    print(json.dumps(to_json(samples), allow_nan=False), flush=True)


def _print_block(samples: "list[Sample]") -> None:
    from headway.cli.top_view import block

    print("\n".join(block(samples)), end="\n\n", flush=True)


def _repaint(samples: "list[Sample]") -> None:
    """Overwrite the last output on the terminal; the columns' names are bold unless NO_COLOR is set."""
    from headway.cli.top_view import COLUMNS, block

    size = shutil.get_terminal_size()
    lines = [line[: size.columns - 1] for line in block(samples, size.columns)[: size.lines - 2]]
    if not os.environ.get("NO_COLOR"):
        lines = [f"\x1b[1m{line}\x1b[0m" if line.startswith(COLUMNS[0] + " ") else line for line in lines]
    _paint(lines)


def _paint(lines: list[str]) -> None:
    print("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in [*lines, "", "Ctrl-C quits"]) + "\x1b[J", end="", flush=True)
