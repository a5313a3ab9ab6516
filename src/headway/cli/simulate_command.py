"""Simulate a described program in virtual time: throughput, latency and GIL use.

SCENARIO is a built-in scenario (--list) or a TOML file. The file describes the
roles of threads and their work, clients, locks, queues, cores, switch interval
and policy. `--show NAME` prints a built-in scenario as a starting point. The
same scenario, seed and calibration give the same result.

Examples:
  headway simulate convoy
  headway simulate convoy --policy fair --set threads=4
  headway simulate convoy --sweep threads=0..8 --sweep policy=none,fair
  headway simulate convoy --sweep switch-interval=0.005,0.0005 --csv sweep.csv
  headway simulate convoy --sweep threads=0..8 --html sweep.html
  headway simulate ./app.toml --trace app.hwt && headway report app.hwt
"""

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.cli import console, options
from headway.cli.html_output import add_html, check_html, write_simulation_page
from headway.cli.simulated_trace import check_trace, write_trace
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.sim.machine import Costs
    from headway.sim.run import Ran
    from headway.sim.scenario import Scenario
    from headway.sim.summary import Summary
    from headway.sim.sweep import Axis, Point
    from headway.traces.model import Trace

__all__ = ["prepare", "run"]

_SEEDS = 5
_MOST_SEEDS = 10_000
_MOST_SEED = 2**63
_OPTION = "option."
_TIMES = ("duration_s", "switch_interval_s")
"""The parameters that may have a unit."""
_LONGER_S = 1e6
"""A simulation is shorter than this, in virtual seconds (sim/parameters.py)."""
_MOST_EVENTS = 20_000_000
"""The most events of a trace that `--trace` writes: 320 MB in the file."""
_MOST_DRAWN = 1_000_000
"""The most events of a timeline on a page: some 4 MB."""


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("scenario", metavar="SCENARIO", nargs="?", help="a built-in scenario, or the path of a file")
    parser.add_argument("--list", action="store_true", help="list the built-in scenarios")
    parser.add_argument("--show", metavar="NAME", help="print the file of a built-in scenario")
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="change the scenario, such as threads=4 (of the CPU-bound role), server.threads=2, connections=16, cores=4, "
        "placement=free, switch-interval=500us, gil=off, processes=on; may be repeated",
    )
    parser.add_argument(
        "--sweep",
        metavar="NAME=VALUES",
        action="append",
        default=[],
        help="simulate each of these values, such as threads=1..64 or policy=none,fair; several sweeps give all combinations",
    )
    parser.add_argument(
        "--policy", metavar="NAME", help="a policy that `headway policies` lists, the path of a library, or none"
    )
    parser.add_argument(
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="option of the policy, such as latency_us=20000",
    )
    parser.add_argument(
        "--seed",
        type=options.whole(0, _MOST_SEED),
        default=1,
        metavar="N",
        help="the first seed (default: %(default)s)",
    )
    parser.add_argument(
        "--seeds",
        type=options.whole(1, _MOST_SEEDS),
        default=_SEEDS,
        metavar="N",
        help="number of seeds (default: %(default)s)",
    )
    parser.add_argument(
        "--duration",
        type=options.seconds(above=True, below=_LONGER_S),
        metavar="S",
        help="virtual seconds after the warm-up",
    )
    parser.add_argument(
        "--calibration",
        metavar="FILE",
        default="",
        help="the costs of the machine's operations: a file of `headway calibrate`, or preset (default: the costs of this machine, "
        "measured now if they are not known)",
    )
    parser.add_argument(
        "--trace", type=Path, metavar="FILE", help="write the first seed's events as a trace (FILE.hwt)"
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the figures as a CSV table")
    add_html(parser)
    parser.add_argument("--force", action="store_true", help="replace FILE if it is there")
    parser.add_argument(
        "--jobs", type=options.whole(1, 1024), metavar="N", help="processes at a time (default: one per core)"
    )
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Simulate the scenario at each point of the sweep, and print or write the results."""
    from headway.sim import library

    if arguments.list or arguments.show is not None:
        _tell(arguments)
        return 0
    if arguments.scenario is None:
        raise UsageError("no scenario is given", hint="name a scenario of `headway simulate --list`, or a file")
    _check_outputs(arguments)
    from headway.sim import machine
    from headway.sim.policy import choose

    scenario = library.load(arguments.scenario)
    _check_once(scenario, arguments)
    scenario = _changed(scenario, arguments)
    axes, points = _points(scenario, arguments)
    for process in {one for point in points for one in point.scenario.processes}:
        choose(process)  # raises if there is no such policy
    costs = machine.load(arguments.calibration, console.say)  # may measure for half a minute
    summaries, trace = _simulated([point.scenario for point in points], costs, arguments, one=not axes)
    swept = list(zip(points, summaries, strict=True))
    if arguments.html is not None:
        _write_html(arguments, costs, axes, swept, trace)
    if arguments.csv is not None:
        _write_csv(arguments.csv, axes, swept)
    if arguments.json:
        console.print_json(_json(scenario, costs, axes, swept))
        return 0
    from headway.cli import simulate_view

    if axes:
        console.print_rendered(simulate_view.sweep(scenario, costs, axes, swept))
    else:
        console.print_rendered(simulate_view.single(points[0].scenario, costs, summaries[0]))
    return 0


def _tell(arguments: argparse.Namespace) -> None:
    from headway.sim import library

    if arguments.show is not None:
        if arguments.json:
            raise UsageError("--show prints a file in TOML, and no JSON", hint="leave out one of the two options")
        console.print_plain(library.text(arguments.show).rstrip("\n"))
    elif arguments.json:
        console.print_json(library.titles())
    else:
        console.print_list(library.titles().items())


def _check_outputs(arguments: argparse.Namespace) -> None:
    check_html(
        arguments,
        {"--csv": arguments.csv, "--trace": arguments.trace},
        {"the scenario": arguments.scenario, "the calibration": arguments.calibration},
    )
    check_trace(arguments.trace)
    if arguments.trace is not None and arguments.sweep:
        raise UsageError("--trace writes one run, and --sweep simulates many", hint="use --set instead of --sweep")


def _check_once(scenario: "Scenario", arguments: argparse.Namespace) -> None:
    """Refuse a parameter that is given twice, also by different options: one of the values would be dropped.

    An option of the policy may be swept and set: a swept value is one of a point, and stands in the table.
    """
    from headway.sim.parameters import full_name, split_setting
    from headway.sim.sweep import parse_axis

    given = [(split_setting(text)[0], f"--set {text}") for text in arguments.set]
    given += [(split_setting(f"{_OPTION}{text}")[0], f"--option {text}") for text in arguments.option]
    given += [("policy", f"--policy {arguments.policy}")] if arguments.policy is not None else []
    given += [("duration_s", f"--duration {arguments.duration:g}")] if arguments.duration is not None else []
    said: dict[str, str] = {}
    for name, words in given:
        _refuse_twice(said, full_name(scenario, name), words)
        said[full_name(scenario, name)] = words
    for text in arguments.sweep:  # one that is swept twice is refused with the sweep
        name = parse_axis(text).name
        if not name.startswith(_OPTION):
            _refuse_twice(said, full_name(scenario, name), f"--sweep {text}")


def _refuse_twice(said: Mapping[str, str], name: str, words: str) -> None:
    if name in said:
        raise UsageError(f"{words} contradicts {said[name]}", hint="leave out one of the two options")


def _changed(scenario: "Scenario", arguments: argparse.Namespace) -> "Scenario":
    """Return the scenario with the changes of `--set`, `--policy` and `--duration`.

    An option of the policy waits until the policy is known: see `_points`.
    """
    from headway.sim.parameters import change, split_setting

    for text in arguments.set:
        name, value = split_setting(text)
        if not name.startswith(_OPTION):
            scenario = change(scenario, name, _value(name, value))
    if arguments.policy is not None:
        scenario = change(scenario, "policy", _value("policy", arguments.policy))
    if arguments.duration is not None:
        scenario = change(scenario, "duration_s", str(arguments.duration))
    return scenario


def _value(name: str, value: str) -> str:
    """Return a value; make the path of a policy's library absolute, and a time with a unit, such as 5ms, plain seconds."""
    if name == "policy" and "/" in value:
        return str(Path(value).absolute())
    if name in _TIMES and value[-1:].isalpha() and not math.isnan(time_s := options.time_s(value)):
        return f"{time_s:.9g}"
    return value


def _points(scenario: "Scenario", arguments: argparse.Namespace) -> "tuple[list[Axis], list[Point]]":
    """Return the axes of the sweep, and its points; `--option`, or `--set option.X`, applies to each point with a policy."""
    from headway.sim.parameters import change, split_setting, with_options
    from headway.sim.scenario import STOCK
    from headway.sim.sweep import parse_axis, points

    axes = [parse_axis(text) for text in arguments.sweep]
    axes = [replace(axis, values=tuple(_value(axis.name, one) for one in axis.values)) for axis in axes]
    found = points(scenario, axes)
    settings = [split_setting(f"{_OPTION}{text}") for text in arguments.option]
    settings += [one for one in map(split_setting, arguments.set) if one[0].startswith(_OPTION)]
    settings = [one for one in settings if one[0] not in {axis.name for axis in axes}]
    named = [any(process.policy != STOCK for process in point.scenario.processes) for point in found]
    if settings and not any(named):
        with_options(scenario, ((settings[0][0].removeprefix(_OPTION), 0),))  # raises the error
    for place, point in enumerate(found):
        changed = point.scenario
        for name, value in settings if named[place] else ():
            changed = change(changed, name, value)
        found[place] = replace(point, scenario=changed)
    return axes, found


def _simulated(
    scenarios: "Sequence[Scenario]", costs: "Costs", arguments: argparse.Namespace, *, one: bool
) -> "tuple[list[Summary], Trace | None]":
    """Simulate each scenario with all seeds, write the trace of `--trace`, and say how long the runs took.

    Args:
        scenarios: The scenarios.
        costs: The costs of the machine.
        arguments: The arguments of the command.
        one: Whether there is one scenario and no sweep; a page then draws the timeline of the first run.

    Returns:
        Each scenario's summary over the seeds; the first run's trace if a page draws it, else None.
    """
    from headway.sim.run import Job, run_all
    from headway.sim.summary import summarise

    drawn = arguments.html is not None and one
    most_events = _MOST_EVENTS if arguments.trace is not None else _MOST_DRAWN if drawn else 0
    jobs = [
        Job(scenario, costs, seed, most_events if seed == arguments.seed else 0)
        for scenario in scenarios
        for seed in range(arguments.seed, arguments.seed + arguments.seeds)
    ]
    begun_s = time.perf_counter()
    tell = console.progress("runs")
    ran = run_all(jobs, workers=arguments.jobs, progress=lambda done: tell(done, len(jobs)))
    _say_speed(ran, time.perf_counter() - begun_s)
    if arguments.trace is not None and ran[0].trace is not None:
        write_trace(ran[0].trace, arguments.trace, what="the trace")
    count = arguments.seeds
    summaries = [summarise([one.outcome for one in ran[first : first + count]]) for first in range(0, len(ran), count)]
    return summaries, ran[0].trace if drawn else None


def _say_speed(ran: "list[Ran]", elapsed_s: float) -> None:
    virtual_s = sum(one.outcome.elapsed_s for one in ran)
    steps, wall_s = sum(one.outcome.steps for one in ran), sum(one.wall_s for one in ran)
    speed = f", {steps / wall_s / 1e6:.1f} million steps a second on a core" if wall_s > 0 else ""
    from headway.traces.analysis.words import number

    console.say(f"{number(len(ran), 'run')}, {virtual_s:g} s of virtual time in {elapsed_s:.2f} s{speed}")


def _write_html(
    arguments: argparse.Namespace,
    costs: "Costs",
    axes: "Sequence[Axis]",
    swept: "Sequence[tuple[Point, Summary]]",
    trace: "Trace | None",
) -> None:
    """Write the page: for a sweep with its curves, for one scenario with the timeline of its first run."""
    from headway import __version__
    from headway.cli import simulate_view
    from headway.report.html import schema, simulation_page
    from headway.report.layout import turned
    from headway.traces.analysis import analyse

    scenario = swept[0][0].scenario
    if axes:
        tables = [simulate_view.sweep_table(scenario, costs, axes, swept)]
        lines = [f"swept: {', '.join(axis.name for axis in axes)}"]
    else:
        # Rows and columns are swapped, as on a terminal, because there are more figures than roles.
        tables = [turned(table) for table in simulate_view.single_tables(scenario, costs, swept[0][1])]
        lines = [simulate_view.setting_of(scenario)]
    page = simulation_page(
        simulate_view.heading(scenario),
        __version__,
        lines=lines,
        sections=[schema.Section("Figures", tuple(tables))],
        notes=[("note", text) for text in simulate_view.remarks([(point.scenario, one) for point, one in swept])],
        curves=simulate_view.curves(scenario, axes, swept) if axes else (),
        launches=[("", [(trace, analyse(trace))])] if trace is not None else (),
    )
    write_simulation_page(page, arguments.html, show=arguments.open)


def _write_csv(path: Path, axes: "Sequence[Axis]", swept: "Sequence[tuple[Point, Summary]]") -> None:
    import csv
    import io

    from headway.sim.sweep import rows

    columns, found = rows(axes, swept)
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(found)
    console.write_text(path, table.getvalue())


def _json(
    scenario: "Scenario", costs: "Costs", axes: "Sequence[Axis]", swept: "Sequence[tuple[Point, Summary]]"
) -> dict[str, Any]:
    """Return the result as JSON; the same scenario, costs and seeds give the same JSON.

    Fields:
        scenario, title: The scenario.
        calibration: The name of the costs.
        sweep: The swept parameters with their values; {} without a sweep.
        points: For each point of the sweep its `values`, the summary over the seeds, and `overloads`: the clients whose
            requests come faster than they are answered.
    """
    from headway.sim.overload import overloads

    return {
        "scenario": scenario.name,
        "title": scenario.title,
        "calibration": costs.name,
        "sweep": {axis.name: list(axis.values) for axis in axes},
        "points": [
            {
                "values": dict(zip((axis.name for axis in axes), point.values, strict=True)),
                **summary.to_json(),
                "overloads": [asdict(one) for one in overloads(point.scenario, summary)],
            }
            for point, summary in swept
        ],
    }
