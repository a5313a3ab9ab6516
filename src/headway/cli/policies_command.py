"""List the policies that can schedule the GIL: their uses, limits and options."""

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from headway.cli import console
from headway.cli.options import add_json
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.native import PolicyOption

__all__ = ["prepare", "run"]


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_json(parser)
    parser.add_argument(
        "--include", action="store_true", help="print the folder of headway/policy.h, to build your own policy"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the policies, or the folder of the policy header."""
    from headway.library import headers_path
    from headway.native import policies

    if arguments.include:
        if arguments.json:
            raise UsageError(
                "--include prints the name of a folder, and no JSON", hint="leave out one of the two options"
            )
        console.print_plain(str(headers_path()))
        return 0
    found, engine = policies()
    if arguments.json:
        console.print_json({"policies": [asdict(one) for one in found], "options": [asdict(one) for one in engine]})
        return 0

    for one in found:
        console.print_plain(one.name)
        console.print_list([("", one.about)], indent=2)
        console.print_list([("good for:", one.good_for), ("bad at:", one.bad_at), *map(_option, one.options)], indent=2)
        console.print_plain("")
    console.print_plain("all policies")
    console.print_list(map(_option, engine), indent=2)
    console.print_plain("")
    how = "use one with `headway run --policy NAME --option latency_us=20000 app.py`; name your own policy by its library's path"
    console.print_list([("", how)])
    return 0


def _option(one: "PolicyOption") -> tuple[str, str]:
    return f"{one.name}={one.preset}:", f"{one.about} ({one.least} to {one.most})"
