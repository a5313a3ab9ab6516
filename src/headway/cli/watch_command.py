"""Run a program, in production too, and report each stall with cause and line.

headway becomes the program, as under `headway trace`. It keeps the last seconds
of GIL events in memory, for child processes, too. Three things are a stall: an
event loop is late, a thread waits too long for the GIL, or a request takes too
long. Headway then writes those seconds as a trace into the folder of --output,
and one line on stderr names the cause. `headway report` shows such a recording,
and `headway stalls` sums up all of them.

`kill -USR2` to the watcher writes a recording at any time; the first line on
stderr names the watcher's process. A second line says why no process is
watched, as where a script has replaced PYTHONPATH, by which Headway gets in.

Examples:
  headway watch -m uvicorn app:app
  headway watch -o /var/lib/app/stalls --over 50ms gunicorn app:app
  headway watch --requests-over 2s --listen 127.0.0.1:9464 app.py
"""

import argparse
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from headway.cli import console
from headway.cli.options import path
from headway.cli.trace_command import add_program, program
from headway.live.options import LEAST_NS, LEAST_RING, MOST_NS, MOST_RING

__all__ = ["add_lengths", "prepare", "run"]

_PATIENCE_S = 1.0
_UNITS = {"us": 1e3, "ms": 1e6, "s": 1e9}


def _length(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(us|ms|s)", text.strip())
    found = float(match[1]) * _UNITS[match[2]] if match else 0  # infinity for too many digits
    if not LEAST_NS <= found <= MOST_NS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time from 10ms to 600s, expected a form such as 100ms or 2s"
        )
    return int(found)


def _ring(text: str) -> int:
    match = re.fullmatch(r"(\d+)\s*[mM][bB]?", text.strip())
    found = int(match[1]) << 20 if match else 0
    if not LEAST_RING <= found <= MOST_RING:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size from 1MB to 1024MB, expected a form such as 4MB")
    return found


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = "headway watch [-o FOLDER] [options] [--] SCRIPT|PROGRAM [ARGUMENT ...]\n       headway watch [-o FOLDER] [options] -m MODULE|-c CODE|- [ARGUMENT ...]"
    parser.add_argument(
        "-o",
        "--output",
        metavar="FOLDER",
        type=path,
        default=Path("stalls"),
        help="folder for recordings (default %(default)s)",
    )
    add_lengths(parser)
    parser.add_argument(
        "--ring", metavar="SIZE", type=_ring, default="4MB", help="memory for events, per process (default %(default)s)"
    )
    parser.add_argument(
        "--keep",
        metavar="N",
        type=int,
        default=20,
        help="number of recordings to keep; older ones are removed (default %(default)s)",
    )
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default="",
        help="serve /metrics, /stalls, /dashboard and /dump at this address",
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing on stderr; the log has every stall")
    add_program(parser)


def add_lengths(parser: argparse.ArgumentParser, *, preset: bool = True) -> None:
    """Add the options for the least lengths of stalls; without `preset` their default is None."""

    def add(option: str, what: str, default: str) -> None:
        words = f"(default {default})" if preset else f"(default: all stalls of a log; {default} for a trace)"
        parser.add_argument(
            option, metavar="TIME", type=_length, default=default if preset else None, help=f"{what} {words}"
        )

    add("--over", "a lap of an event loop, or a wait for the GIL, that takes this long is a stall", "100ms")
    add("--requests-over", "a request in a server's thread that takes this long is a stall", "1s")


def run(arguments: argparse.Namespace) -> int:
    """Start the watcher, and become the program."""
    from headway.errors import NativeError, RecordingError, UsageError
    from headway.library import library_path
    from headway.live import launch
    from headway.live.options import Limits, Options
    from headway.live.watching import check_address, check_folder, start_watcher

    command, name = program(arguments)
    if arguments.keep < 1:
        raise UsageError(f"--keep is {arguments.keep}, expected 1 or more", hint="keep at least one recording")
    try:
        library_path()
    except NativeError as error:  # the service must run all the same
        _go_unwatched(command, f"{name} is not watched: {error.message}")
    folder = check_folder(arguments.output)
    limits = Limits(arguments.over, arguments.over, arguments.requests_over, arguments.ring)
    # The watcher of a service that restarts at once may have the address for another second.
    listen = check_address(arguments.listen, may_be_taken=True) if arguments.listen else ""
    stem = launch.name_behind(command) or Path(name).stem or "program"
    why = launch.out_of_reach(command)
    told = why is not None
    options = Options(str(folder), stem, os.getpid(), limits, arguments.keep, arguments.quiet, listen, is_told=told)
    if why is not None:
        _say(f"{name} is not watched: {why}")
    try:
        variables, watcher = start_watcher(options)
    except RecordingError as error:  # no room for another process, say
        _go_unwatched(command, f"{name} is not watched: {error.message}" if why is None else "")
    if not arguments.quiet and why is None:
        _say(f"watching {name}; recordings go to {folder}; `kill -USR2 {watcher}` writes one now")
    launch.become(command, launch.environment(variables, base=launch.original_environment()))


def _say(text: str) -> None:
    """Print a line, unless stderr is a pipe that is full: the program must start even if nobody reads it."""
    from headway.live.said import has_room

    if has_room(_PATIENCE_S):
        console.say(text)


def _go_unwatched(command: Sequence[str], said: str) -> NoReturn:
    """Become the program, which nothing watches, and say why; "": that was said already."""
    from headway.live import launch

    if said:
        _say(said)
    launch.become(command, launch.unrecorded(launch.original_environment()))
