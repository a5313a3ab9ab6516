"""Run a program with its GIL scheduled by a policy, or under one of the two classic remedies.

headway becomes the program, which runs as it would without us, but for who gets the GIL when. Child processes have the
policy, too. What it cannot schedule (a free-threaded or a static interpreter) it runs as ever, and says so in a line on
stderr.

A script that may be executed takes the interpreter of its first line (`#!`). Another one, and a module, takes that of
--python, else that of the active virtual environment ($VIRTUAL_ENV), else python3 on the PATH.

Examples:
  headway run app.py
  headway run --policy fair --option latency_us=20000 -m myserver --port 8000
  headway run --policy ./mine.so app.py
  headway run --policy none --switch-interval 0.0005 app.py
  headway run --policy fair --trace fair.hwt app.py
"""

import argparse
import os
from pathlib import Path

from headway.cli import console, options
from headway.cli.trace_command import Recorded, add_arguments, add_program, become_traced, program
from headway.errors import UsageError

__all__ = ["prepare", "run"]


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = "headway run [--policy NAME] [options] [--] SCRIPT|PROGRAM [ARGUMENT ...]\n       headway run [--policy NAME] [options] -m MODULE [ARGUMENT ...]"
    parser.add_argument(
        "--policy",
        metavar="NAME",
        help="one that `headway policies` lists, the path of a library with your own, or `none`"
        " (default: $HEADWAY_POLICY, else fair; none where another remedy is given)",
    )
    parser.add_argument(
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=_option,
        help="of the policy, as latency_us=20000; may be repeated",
    )
    parser.add_argument(
        "--switch-interval",
        metavar="SECONDS",
        type=options.seconds(above=True, below=1000.0),
        help="sys.setswitchinterval() of each Python process, as 0.0005",
    )
    parser.add_argument("--pin", metavar="CPUS", type=_cpus, help="run on these CPUs only, as 0 or 0,2-3")
    parser.add_argument(
        "--why",
        action="store_true",
        help="have each Python process that ends by itself say on stderr what the policy did: how often it interrupted a thread"
        " that computes, for whom, and what that gained",
    )
    parser.add_argument("--trace", metavar="FILE", type=Path, help="record who holds the GIL, too, into a new file")
    add_arguments(parser)
    add_program(parser)


def _option(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    try:
        return name, int(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no option, expected NAME=NUMBER") from None


def _cpus(text: str) -> frozenset[int]:
    found: set[int] = set()
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            found |= set(range(int(first), int(last or first) + 1))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of CPUs, as 0 or 0,2-3") from None
    return frozenset(found)


def run(arguments: argparse.Namespace) -> int:
    """Become the program, scheduled."""
    from headway.live import files, launch
    from headway.live.collect import DEFAULT_MAX_BYTES
    from headway.live.schedule import check

    policy = _policy(arguments)
    settings = dict(arguments.option)
    if policy is not None:
        check(policy, settings)
        policy = str(Path(policy).absolute()) if "/" in policy else policy
    elif settings:
        raise UsageError("there is no policy that the options could be of", hint="name one with --policy")
    allowed = os.sched_getaffinity(0)
    if arguments.pin is not None and not (arguments.pin and arguments.pin <= allowed):
        raise UsageError(
            f"CPUs {sorted(arguments.pin)} are not all there", hint=f"this process may run on {sorted(allowed)}"
        )
    if arguments.why and policy is None:
        raise UsageError("--why: there is no policy that could tell what it did", hint="name one with --policy")
    command, name = program(arguments)
    if arguments.record_arguments and arguments.trace is None:
        raise UsageError("there is no trace to record arguments into", hint="name one with --trace")
    base = launch.original_environment()
    env = launch.scheduled_environment(policy, settings, switch_interval_s=arguments.switch_interval, base=base)
    env |= {"HEADWAY_WHY": "1"} if arguments.why else {}
    if arguments.trace is not None:
        file = files.check_new(arguments.trace)
        recorded = Recorded(file, files.lock(file), DEFAULT_MAX_BYTES, arguments.record_arguments)
        become_traced(command, name, env, recorded, cpus=arguments.pin)
    why = launch.out_of_reach(command)
    if why is not None and (policy is not None or arguments.switch_interval is not None):
        console.say(f"{name} is not scheduled: {why}")
    launch.become(command, env, cpus=arguments.pin)


def _policy(arguments: argparse.Namespace) -> str | None:
    remedy = arguments.switch_interval is not None or arguments.pin is not None
    policy: str = arguments.policy or os.environ.get("HEADWAY_POLICY") or ("none" if remedy else "fair")
    return None if policy == "none" else policy
