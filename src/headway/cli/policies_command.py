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

    from rich.console import Group, RenderableType
    from rich.text import Text

    from headway.report.layout import indented, render_list

    parts: list[RenderableType] = []
    for one in found:
        about = [("good for:", one.good_for), ("bad at:", one.bad_at), *map(_option, one.options)]
        parts += [Text(one.name), indented(Text(one.about)), indented(render_list(about)), Text("")]
    parts += [Text("all policies"), indented(render_list(map(_option, engine))), Text("")]
    parts.append(
        Text(
            "use one with `headway run --policy NAME --option latency_us=20000 app.py`; name your own policy by its library's path"
        )
    )
    console.print_rendered(Group(*parts))
    return 0


def _option(one: "PolicyOption") -> tuple[str, str]:
    return f"{one.name}={one.preset}:", f"{one.about} ({one.least} to {one.most})"
