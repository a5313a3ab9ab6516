"""Print the table of docs/guides/schedule-a-program.md from the launches that `bench/policy_corpus.py --keep FILE` kept.

    bench/policy_table.py FILE [--interpreter 3.13.0] [--placement system]

A figure is the median ratio to no policy of the same block. *Italics*: the median is beyond a bound. **Bold**: the
whole interval of the sign test is.
"""

import argparse
import collections
import json
import sys
from pathlib import Path
from typing import Any

from policy_corpus import NONE, corpus, judged

COLUMNS = (("fair", ("rate", "p99_s", "cpu_s", "computed")), ("priority", ("rate", "p99_s", "computed")))
HEADINGS = "| program | rate | p99 | CPU for each | they keep | `priority`: rate | p99 | they keep |"


def figure(row: dict[str, Any] | None, name: str) -> str:
    """Return a figure as the table has it; "-" if it is not known, or does not count for the program."""
    found = row["ratios"].get(name) if row is not None else None
    if row is None or found is None or (name == "cpu_s" and row["program"].computing):
        return "-"
    value = found.value
    text = f"{value:.0f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"
    return f"**{text}**" if name in row["doubtless"] else f"*{text}*" if name in row["lost"] else text


def table(launches: list[dict[str, Any]]) -> str:
    """Return the table of these launches, one row for each program of the corpus that has some."""
    blocks: dict[str, dict[int, dict[str, Any]]] = collections.defaultdict(lambda: collections.defaultdict(dict))
    told = {"interpreter", "placement", "program", "side", "launch"}
    for one in launches:
        figures = {name: value for name, value in one.items() if name not in told}
        blocks[one["program"]][one["launch"]][one["side"]] = figures
    lines, group = [HEADINGS, "|---|---|---|---|---|---|---|---|"], ""
    for program in corpus():
        mine = list(blocks.get(program.name, {}).values())
        if not mine:
            continue
        if program.group != group:
            group = program.group
            lines.append(f"| **{group}** | | | | | | | |")
        cells = []
        for side, names in COLUMNS:
            row = judged(program, side, mine) if any(side in block and NONE in block for block in mine) else None
            cells += [figure(row, name) for name in names]
        lines.append(f"| {program.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="lines of JSON, one for each launch")
    parser.add_argument("--interpreter", help="only launches of this one, such as 3.13.0")
    parser.add_argument("--placement", default="system", help="only launches of this one (default: %(default)s)")
    arguments = parser.parse_args()
    try:
        launches = [json.loads(line) for line in arguments.file.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        parser.error(f"{arguments.file} cannot be read: {error}")
    chosen = [
        one
        for one in launches
        if one["placement"] == arguments.placement and arguments.interpreter in {None, one["interpreter"]}
    ]
    if not chosen:
        parser.error(f"{arguments.file} has no such launches")
    print(table(chosen))
    return 0


if __name__ == "__main__":
    sys.exit(main())
