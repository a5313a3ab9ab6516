"""End everything that Headway does in a process: its recording and its policy.

It does not matter how the recording or the policy began: by `headway attach`,
`top`, `trace` or `run`, or by the program's own calls of `headway.trace()` and
`headway.schedule()`. The process continues under CPython's own behaviour, and
the events recorded so far stay readable. A process under `headway watch` is
watched again only after its restart. The command acts on this process alone and
not on its children. The requirements and the waiting time are those of
`headway attach`.

Exit codes: 0, nothing of Headway is active in the process now; 7, the process
could not be told.

Examples:
  headway detach 4711
"""

import argparse

from headway.cli import console
from headway.cli.attach_command import add_despite_filter, add_patience
from headway.cli.entering import Waiting

__all__ = ["prepare", "run"]


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("pid", type=int, help="the id of the process")
    add_patience(parser)
    add_despite_filter(parser)


def run(arguments: argparse.Namespace) -> int:
    """End the recording and the policy of the process, and say which of them were active."""
    from headway.live import attach

    target = attach.look_at(arguments.pid)
    ended = attach.detach(
        target,
        policy=True,
        patience_s=arguments.patience,
        despite_filter=arguments.despite_filter,
        check=Waiting(target.pid, arguments.patience),
    )
    if ended:
        console.say(f"ended in process {target.pid}: {ended}")
    else:
        console.say(f"process {target.pid} is neither recorded nor scheduled")
    return 0
