"""End by hand whatever Headway does in a process: its recording, the policy for its GIL, or both.

Whoever began it: `headway attach` and `top`, `headway trace` and `run`, or the program itself by `headway.trace()` and
`headway.schedule()`. The process goes on under CPython's own behaviour; what was recorded so far can be read. Of the
processes that it has started each one is for itself. What needs to be so, and how long it waits: as `headway attach`.

Exit codes: 0, nothing of ours is on in the process now; 7, it could not be told.

Examples:
  headway detach 4711
"""

import argparse

from headway.cli import console
from headway.cli.attach_command import add_despite_filter, add_patience

__all__ = ["prepare", "run"]


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("pid", type=int, help="the process's id")
    add_patience(parser)
    add_despite_filter(parser)


def run(arguments: argparse.Namespace) -> int:
    """Have the process end what is on."""
    from headway.live import attach

    target = attach.look_at(arguments.pid)
    ended = attach.detach(target, policy=True, patience_s=arguments.patience, despite_filter=arguments.despite_filter)
    if ended:
        console.say(f"ended in process {target.pid}: {ended}")
    else:
        console.say(f"process {target.pid} is neither recorded nor scheduled")
    return 0
