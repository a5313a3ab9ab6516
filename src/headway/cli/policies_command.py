"""List the policies that can schedule the GIL: their uses, limits and options."""

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from headway.cli import console
from headway.cli.options import add_json

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
    from headway.native import headers_path, policies

    if arguments.include:
        console.print_plain(str(headers_path()))
        return 0
    found, engine = policies()
    if arguments.json:
        console.print_json({"policies": [asdict(one) for one in found], "options": [asdict(one) for one in engine]})
        return 0

    lines: list[str] = []
    for one in found:
        lines += [one.name, f"  {one.about}", f"  good for: {one.good_for}", f"  bad at:   {one.bad_at}"]
        lines += [_option(option) for option in one.options] + [""]
    lines += ["all policies", *(_option(option) for option in engine)]
    lines += [
        "",
        "use one with `headway run --policy NAME --option latency_us=20000 app.py`; name your own policy by its library's path",
    ]
    console.print_plain("\n".join(lines))
    return 0


def _option(one: "PolicyOption") -> str:
    return f"  {one.name}={one.preset}: {one.about} ({one.least} to {one.most})"
