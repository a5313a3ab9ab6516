"""Record a Python process that runs already, for a while or until Ctrl-C, and summarise it.

The process goes on as before, and is left as it was. CPython 3.14 and later: by sys.remote_exec. Before: its main thread
is stopped by ptrace for about a millisecond, on x86-64. Children that it forks meanwhile are followed.

Examples:
  headway attach 4711 --duration 10
  headway attach 4711 -o slow.hwt
"""

import argparse
import time
from pathlib import Path

from headway.cli import console, options
from headway.cli.trace_command import add_output, summarise

__all__ = ["prepare", "run"]


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("pid", type=int, help="the process's id")
    add_output(parser)
    parser.add_argument(
        "--duration",
        metavar="SECONDS",
        type=options.seconds(above=True),
        help="record so long; else until Ctrl-C or the process's end",
    )
    parser.add_argument(
        "--patience",
        metavar="SECONDS",
        type=options.seconds(above=True),
        default=10.0,
        help="how long to wait for the process's main thread to run Python (default %(default)g)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Attach, wait, detach, summarise."""
    from headway.errors import RecordingError
    from headway.live import attach, files

    target = attach.look_at(arguments.pid)
    if arguments.output is not None:
        file = files.check_new(arguments.output, force=arguments.force)
    else:
        file = files.check_new(files.unused_name(Path.cwd(), f"pid-{arguments.pid}"))
    joined = Path(attach.attach(target, file, max_bytes=arguments.max_size, patience_s=arguments.patience))
    if joined != file:
        raise RecordingError(
            f"process {target.pid} is recorded already, into {joined}", hint=f"look at that: `headway report {joined}`"
        )
    how_long = f"for {arguments.duration:g} s" if arguments.duration else "until Ctrl-C"
    console.say(f"recording process {target.pid} {how_long}")
    deadline = time.monotonic() + (arguments.duration or float("inf"))
    alive = True
    try:
        while alive and time.monotonic() < deadline:
            time.sleep(min(0.1, max(0.0, deadline - time.monotonic())))
            alive = Path(f"/proc/{target.pid}").exists()
    except KeyboardInterrupt:
        pass
    if alive:
        try:
            attach.detach(target, patience_s=arguments.patience)
        except RecordingError as error:
            # What is recorded so far can be read all the same.
            console.complain(error.message, error.hint)
    for path in files.family_files(file):
        if not alive:
            files.finish(path)
    summarise(file, brief=arguments.no_summary)
    return 0
