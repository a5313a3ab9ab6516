"""List every CPython on this machine with its features; install others.

`--add` downloads uv's builds. If their host cannot be reached, it unpacks
Debian's packages of 3.14 and 3.15 into a private prefix in the cache
($HEADWAY_INTERPRETERS), and builds 3.13t from source in a minute or two.
Headway installs nothing system-wide and changes no interpreter that is already
there.
"""

import argparse
import os
import re

from headway import lab
from headway.cli import console
from headway.cli.options import add_json
from headway.errors import UsageError
from headway.host.probes import OLDEST

__all__ = ["prepare", "run"]


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `headway interpreters`."""
    add_json(parser)
    parser.add_argument(
        "--add", nargs="+", metavar="NAME", help="install these versions if they are missing: 3.14, 3.14t, ..."
    )
    parser.add_argument(
        "--from",
        dest="source",
        choices=("auto", "uv", "distribution"),
        default="auto",
        help="with --add: the source (default: uv's builds, else the distribution's packages)",
    )
    parser.add_argument(
        "--with-tests",
        action="store_true",
        help="with --add: also CPython's own test modules, in the distribution's 3.14 and 3.15 (uv's builds have none)",
    )


def _gil(one: lab.Interpreter) -> str:
    if not one.free_threaded:
        return "GIL"
    return "free-threaded, GIL on" if one.gil_enabled else "free-threaded"


def _jit(one: lab.Interpreter) -> str:
    return "on" if one.jit_enabled else "available" if one.jit_available else "-"


def _lacks(one: lab.Interpreter) -> str:
    return ", ".join(one.missing_models) or "-"


def _shortened(path: str) -> str:
    """Return a path in which `~` stands for the home folder, as in a shell."""
    home = os.path.expanduser("~")
    return f"~{path.removeprefix(home)}" if home != "/" and path.startswith(f"{home}/") else path


def _add(arguments: argparse.Namespace) -> int:
    """Add the named interpreters that are missing; return the exit code of the worst failure (3), or 0."""
    if os.environ.get("HEADWAY_PROVISION") == "no":
        raise UsageError("HEADWAY_PROVISION=no forbids adding interpreters", hint="unset it")
    from headway import provision
    from headway.lab.beside.environments import find_uv

    names = [name.removeprefix("python").removeprefix("cpython-") for name in arguments.add]
    for name in names:
        if (version := re.match(r"(\d{1,3})\.(\d{1,3})(?!\d)", name)) and (int(version[1]), int(version[2])) < OLDEST:
            raise UsageError(
                f"{name} is older than CPython 3.8, the first that Headway measures", hint="name a later one"
            )
    there = {one.name for one in lab.discover()[0]}
    tested = {
        name for name in names if arguments.with_tests and arguments.source != "uv" and provision.may_have_tests(name)
    }
    wanted = [name for name in names if name not in there or (name in tested and not provision.has_tests(name))]
    for name in dict.fromkeys(names):
        if name not in wanted:
            console.say(f"{name} is available")
        if arguments.with_tests and name not in tested:
            console.say(
                f"{name} gets no tests of CPython: only the distribution's 3.14 and 3.15 have them, not uv's builds"
            )
    failures = provision.add(
        wanted, source=arguments.source, uv=find_uv(), tell=console.say, with_tests=arguments.with_tests
    )
    for name, failure in failures.items():
        for line in failure.tail:
            console.say(f"    | {line}")
        console.complain(f"{name} cannot be added: {failure}", failure.hint)
    return max((failure.exit_code for failure in failures.values()), default=0)


def run(arguments: argparse.Namespace) -> int:
    """Add the named interpreters, and list all interpreters; return the exit code."""
    code = 0
    if arguments.add:
        code = _add(arguments)
    elif arguments.with_tests or arguments.source != "auto":
        raise UsageError("--from and --with-tests say how to add interpreters", hint="name them with --add")
    _list(arguments)
    return code


def _list(arguments: argparse.Namespace) -> None:
    found, passed_over = lab.discover()
    if arguments.json:
        console.print_json({"interpreters": [one.to_json() for one in found], "passed_over": passed_over})
        return
    from headway.report import Table, render_table

    rows = [(one.name, one.version, _gil(one), _jit(one), _lacks(one), _shortened(one.executable)) for one in found]
    columns = ("", "version", "GIL", "JIT", "cannot run", "executable")
    caption = "`headway lab` uses the newest patch of each name; `--json` has more details"
    console.print_rendered(render_table(Table(caption, columns, tuple(rows))))
    for line in passed_over:
        console.say(f"passed over: {line}")
