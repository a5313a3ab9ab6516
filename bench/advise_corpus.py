"""Compare the verdicts of `headway advise` on 40 functions that it was not made for with exhaustive measurements.

For each function, the advice runs within a budget. Then every model that can run the function is launched in rounds,
with the models in random order, often enough for a certain result. A verdict is right if its model takes at most 5 %
longer than the best one; a function whose advice or measurement fails counts as lost. The losses are printed first,
then a table in Markdown. `--out FILE` gets every figure as JSON, a line for each function; if the file exists, the run
continues it, and tries the functions that failed again.

Target: 95 % of the verdicts are right, and none of the wrong ones sounds sure. Exit status: 1 if it is missed beyond
doubt.

    .venv/bin/python bench/advise_corpus.py --out corpus.jsonl
"""

import argparse
import ast
import contextlib
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from doubt import is_more_often

from headway import lab
from headway.advice.course import advise
from headway.advice.models import SHORT
from headway.advice.racing import METRIC
from headway.advice.request import AdviceRequest
from headway.advice.target import parse_target, with_json
from headway.errors import HeadwayError
from headway.host.interpreters import discover, select
from headway.host.keeper import Keeper
from headway.host.machine import this_machine
from headway.lab.beside.environments import prepare
from headway.lab.beside.servers import LIBRARIES_OF, Servers, controller
from headway.lab.kept.headers import StoredLaunch
from headway.lab.kept.results import CellResult
from headway.lab.launching.launch import run_launch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from provision.locked_environment import locked_python

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "bench" / "advised"
WITHIN = 1.05
MOST_LOST = 0.05


def functions() -> list[tuple[str, bool]]:
    """Return (file:function, whether the function takes the server's port) for each function of the corpus."""
    found = []
    for file in sorted(FOLDER.glob("of_*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                wants_port = any(one.arg == "port" for one in node.args.args)
                found.append((f"{file}:{node.name}", wants_port))
    return found


@contextlib.contextmanager
def server() -> Iterator[int]:
    """Start the lab's HTTP server and yield its port."""
    own = controller()
    libraries = prepare([(own, name) for name in LIBRARIES_OF["http"]])
    with Servers(libraries, own, seed=1) as servers:
        yield int(servers.job("http", this_machine().cores)["port"])


def exhaustive(run: lab.Run, python: str, blocks: int) -> dict[str, CellResult]:
    """Launch every model of a run's race again, each in every block; return the results by model."""
    name = next(one.name for one in run.experiments() if one.baseline == "serial")
    cells = [one.cell for one in run.of(name)]
    launches: dict[str, list[StoredLaunch]] = {cell.series: [] for cell in cells}
    with Keeper() as keeper:
        for block in range(blocks):
            for cell in random.sample(cells, len(cells)):
                (one,) = run_launch([cell], python, run.machine, limit_s=120, keeper=keeper, seed=block)
                launches[cell.series].append(StoredLaunch(cell.key, block, one))
    return {cell.series: CellResult(cell, tuple(launches[cell.series])) for cell in cells}


def judged(target: str, port: int | None, options: argparse.Namespace, python: str) -> dict[str, Any]:
    """Return a function's advice, with the exhaustive measurement."""
    aim = parse_target(target)
    if port is not None:
        aim = with_json(aim, json.dumps([port]))
    begun_s = time.monotonic()
    advice = advise(AdviceRequest(target=aim, python=python, interpreters=[], budget_s=options.budget))
    spent_s = time.monotonic() - begun_s
    all_of_them = exhaustive(lab.load_run(advice.run), python, options.blocks)
    # A verdict needs code that the user can paste, and there is no pool of sub-interpreters before 3.14.
    known = {
        model: level
        for model, one in all_of_them.items()
        if (level := one.level(METRIC)) is not None and (model != "interpreters" or advice.interpreter >= "3.14")
    }
    best = min(known, key=lambda model: known[model].value)
    ratio = all_of_them[advice.verdict.model].ratio_to(all_of_them[best], METRIC)
    assert ratio is not None
    return {
        "function": f"{Path(target.partition(':')[0]).stem.removeprefix('of_')}.{aim.name}",
        "call_s": advice.contenders[0].call_s.value if advice.contenders[0].call_s else 0.0,
        "verdict": advice.verdict.words,
        "model": advice.verdict.model,
        "outcome": advice.verdict.outcome,
        "speed_up": advice.verdict.speed_up.value if advice.verdict.speed_up else 1.0,
        "best": SHORT[best],
        "over_best": [ratio.value, ratio.low, ratio.high] if best != advice.verdict.model else [1.0, 1.0, 1.0],
        "exhaustive": {
            SHORT[model]: known["serial"].value / level.value
            for model, one in all_of_them.items()
            if (level := one.level(METRIC)) is not None
        },
        "held": advice.holds.held if advice.holds else None,
        "releases": advice.holds.releases if advice.holds else None,
        "refusals": [f"{SHORT.get(one.model, one.model)}: {one.module or one.reason}" for one in advice.refusals],
        "spent_s": spent_s,
    }


def right(one: dict[str, Any]) -> bool:
    """Return whether the model of the verdict takes at most 5 % longer than the best one."""
    return bool(one["over_best"][0] <= WITHIN)


def wrong_and_sure(one: dict[str, Any]) -> bool:
    """Return whether a confident verdict names a model that is slower than the best by more than 5 % beyond doubt."""
    return bool(one["outcome"] != "unsure" and one["over_best"][1] > WITHIN)


def report(found: Sequence[dict[str, Any]], failed: Mapping[str, str]) -> bool:
    """Print the losses, then the table; return whether the target is missed beyond doubt.

    Args:
        found: The functions that have advice and a measurement.
        failed: The reason for each function that has not.
    """
    lost = [one for one in found if not right(one)]
    for name, why in failed.items():
        print(f"lost: {name}: failed: {why}")
    for one in lost:
        value, low, high = one["over_best"]
        sure = ", and sounded sure" if wrong_and_sure(one) else ""
        print(
            f"lost: {one['function']}: {one['verdict']} takes {value:.2f} [{low:.2f}, {high:.2f}] of {one['best']}{sure}"
        )
    mistaken = sum(map(wrong_and_sure, found))
    total, losses = len(found) + len(failed), len(lost) + len(failed)
    print(f"{total - losses} of {total} verdicts within 5 % of the best; {mistaken} wrong ones that sounded sure")
    if found:
        print(f"a verdict took {statistics.median(one['spent_s'] for one in found):.0f} s (median)\n")
    print(
        "| function | a call | holds the GIL | verdict | times serial | measured: threads, interpreters, processes, asyncio | over the best |"
    )
    print("|---|---|---|---|---|---|---|")
    for one in found:
        held = "-" if one["held"] is None else f"{one['held']:.0%}"
        measured = ", ".join(
            f"{one['exhaustive'][model]:.2f}" if model in one["exhaustive"] else "-"
            for model in ("threads", "interpreters", "processes", "asyncio")
        )
        doubt = "" if one["outcome"] != "unsure" else " (unsure)"
        print(
            f"| {one['function']} | {one['call_s'] * 1e3:.3g} ms | {held} | {one['verdict']}{doubt} | {one['speed_up']:.2f} | "
            f"{measured} | {one['over_best'][0]:.2f} |"
        )
    return mistaken > 0 or is_more_often(losses, total, MOST_LOST)


def main() -> int:
    """Judge the chosen functions and print the report; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="functions with this in their name")
    parser.add_argument("--budget", type=float, default=None, help="seconds for each advice (default: its own)")
    parser.add_argument("--blocks", type=int, default=8, help="launches of each model in the exhaustive measurement")
    parser.add_argument("--interpreter", default="3.13")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    python = locked_python(
        select(discover()[0], [options.interpreter])[0], ROOT / "requirements" / "advised.lock", "advised"
    )
    found: list[dict[str, Any]] = []
    if options.out is not None and options.out.exists():
        found = [json.loads(line) for line in options.out.read_text().splitlines()]
    done = {one["function"] for one in found}
    failed: dict[str, str] = {}
    with server() as port:
        for target, wants_port in functions():
            name = f"{Path(target.partition(':')[0]).stem.removeprefix('of_')}.{target.rpartition(':')[2]}"
            if options.only not in name or name in done:
                continue
            try:
                one = judged(target, port if wants_port else None, options, python)
            except HeadwayError as error:
                failed[name] = error.message
                print(f"! {name}: {error.message}", file=sys.stderr, flush=True)
                continue
            found.append(one)
            print(
                f"{one['function']}: {one['verdict']}, best {one['best']}, {one['over_best'][0]:.2f}",
                file=sys.stderr,
                flush=True,
            )
            if options.out is not None:
                with options.out.open("a") as file:
                    file.write(json.dumps(one) + "\n")
    return int(report(found, failed))


if __name__ == "__main__":
    sys.exit(main())
