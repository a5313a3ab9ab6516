"""Record a Python process that runs already, or schedule its GIL, for a while or until Ctrl-C.

The process goes on as before, and is left as it was. CPython 3.14 and later: by sys.remote_exec. Before: its main thread
is stopped by ptrace for about a millisecond, on x86-64. Children that it forks meanwhile are followed.

Examples:
  headway attach 4711 --duration 10
  headway attach 4711 -o slow.hwt
  headway attach 4711 --policy fair
"""

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli import console, options
from headway.cli.trace_command import add_output, summarise

if TYPE_CHECKING:
    from headway.live import attach

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
        "--policy",
        metavar="NAME",
        help="schedule its GIL by this policy instead of recording (CPython 3.14 and later); see `headway policies`",
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
    if arguments.policy is not None:
        return _schedule(target, arguments)
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
    alive = _wait(target.pid, arguments.duration)
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


def _wait(pid: int, duration_s: float | None) -> bool:
    """Wait so long, or until Ctrl-C or the process's end; return whether it lives."""
    deadline = time.monotonic() + (duration_s or float("inf"))
    alive = True
    try:
        while alive and time.monotonic() < deadline:
            time.sleep(min(0.1, max(0.0, deadline - time.monotonic())))
            alive = Path(f"/proc/{pid}").exists()
    except KeyboardInterrupt:
        pass
    return alive


def _schedule(target: "attach.Target", arguments: argparse.Namespace) -> int:
    """Put the policy on, wait, take it off."""
    from headway.errors import SchedulingError
    from headway.live import attach
    from headway.live.schedule import check

    if target.version < (3, 14):
        raise SchedulingError(
            f"process {target.pid} runs CPython {target.version[0]}.{target.version[1]}: its GIL is not scheduled from"
            " outside",
            hint="start the program with `headway run`, or use CPython 3.14 or later",
        )
    policy = arguments.policy
    check(policy, {})
    if "/" in policy:
        policy = str(Path(policy).absolute())
    attach.schedule(target, policy, patience_s=arguments.patience)
    how_long = f"for {arguments.duration:g} s" if arguments.duration else "until Ctrl-C"
    console.say(f"process {target.pid} is scheduled by {policy} {how_long}")
    if _wait(target.pid, arguments.duration):
        attach.schedule(target, "", patience_s=arguments.patience)
    return 0
