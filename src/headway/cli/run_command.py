"""Run a program under a GIL scheduling policy, or under another remedy.

The other remedies are another switch interval and a choice of cores. headway
becomes the program. The program runs as usual, except that the policy decides
which thread acquires the GIL, and when. Child processes get the same policy. If
Headway cannot schedule an interpreter (a free-threaded or a static build), the
program runs unchanged, and one line on stderr says so. A Python whose
PYTHONPATH a script has replaced, or that finds another `sitecustomize` first,
runs unchanged without such a line.

--python names the interpreter of a script, a module or code. Without it, an
executable script uses the interpreter of its first line (`#!`). All others use
the first of these: the active virtual environment ($VIRTUAL_ENV), python3 on
the PATH, Headway's own Python. `-` is a script from stdin. A program that is no
script, such as gunicorn, runs by itself, and --python is an error then.

Examples:
  headway run app.py
  headway run --policy fair --option latency_us=20000 -m myserver --port 8000
  headway run --policy ./mine.so app.py
  headway run --policy none --switch-interval 0.0005 app.py
  headway run --policy fair --trace fair.hwt app.py
"""

import argparse
import os
import re
from pathlib import Path

from headway.cli import console, options
from headway.cli.trace_command import Recorded, add_arguments, add_program, become_traced, program
from headway.errors import NativeError, UsageError

__all__ = ["prepare", "run"]

_MOST_CPUS = 1 << 16
"""More CPUs than the kernel supports."""


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = "headway run [--policy NAME] [options] [--] SCRIPT|PROGRAM [ARGUMENT ...]\n       headway run [--policy NAME] [options] -m MODULE|-c CODE|- [ARGUMENT ...]"
    parser.add_argument(
        "--policy",
        metavar="NAME",
        help="a policy that `headway policies` lists, the path of your own policy's library, or `none`"
        " (default: $HEADWAY_POLICY, else fair; none if another remedy is given)",
    )
    parser.add_argument(
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=_option,
        help="option of the policy, such as latency_us=20000; may be repeated",
    )
    parser.add_argument(
        "--switch-interval",
        metavar="SECONDS",
        type=options.seconds(above=True, below=1000.0),
        help="switch interval of each Python process, such as 0.0005",
    )
    parser.add_argument("--pin", metavar="CPUS", type=_cpus, help="run on these cores only, such as 0 or 0,2-3")
    parser.add_argument(
        "--why",
        action="store_true",
        help="when a Python process ends by itself, report on stderr what the policy did: how often it preempted a CPU-bound"
        " thread, for which thread if it still runs, and what that gained",
    )
    parser.add_argument("--trace", metavar="FILE", type=Path, help="also record a trace of the GIL into a new file")
    add_arguments(parser)
    add_program(parser)


def _option(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    try:
        return name, int(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an option, expected NAME=NUMBER") from None


def _cpus(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?", part, re.ASCII)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last >= _MOST_CPUS:
            raise argparse.ArgumentTypeError(f"{text!r} is not a list of CPUs, expected a form such as 0 or 0,2-3")
        found |= set(range(first, last + 1))
    return frozenset(found)


def run(arguments: argparse.Namespace) -> int:
    """Become the program under the policy; without the native library, the program runs without a policy."""
    from headway.library import library_path
    from headway.live import launch

    policy = _policy(arguments)
    settings = dict(arguments.option)
    allowed = os.sched_getaffinity(0)
    if arguments.pin is not None and not (arguments.pin and arguments.pin <= allowed):
        raise UsageError(
            f"not all of the CPUs {sorted(arguments.pin)} are available",
            hint=f"name some of the CPUs that this process may use: {sorted(allowed)}",
        )
    if arguments.why and policy is None:
        raise UsageError("--why needs a policy, and none is given", hint="name one with --policy")
    command, name = program(arguments)
    if arguments.record_arguments and arguments.trace is None:
        raise UsageError("--record-arguments needs a trace, and none is given", hint="name one with --trace")
    base = launch.original_environment()
    try:
        library_path()
    except NativeError as error:
        if arguments.trace is not None:
            raise
        console.say(f"{name} is not scheduled: {error.message}")
        launch.become(command, base, cpus=arguments.pin)
    if policy is not None:
        from headway.live.schedule import check

        check(policy, settings)
        if "/" in policy:
            from headway.live.own_policy import check_own

            policy = str(Path(policy).absolute())
            check_own(policy, settings)
    elif settings:
        raise UsageError("--option needs a policy, and none is given", hint="name one with --policy")
    env = launch.scheduled_environment(policy, settings, switch_interval_s=arguments.switch_interval, base=base)
    env |= {"HEADWAY_WHY": "1"} if arguments.why else {}
    if arguments.trace is not None:
        from headway.live import files
        from headway.live.collect import DEFAULT_MAX_BYTES

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
