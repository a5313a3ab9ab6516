"""Predict the effect of a change on a traced program.

A change is another policy, another number of threads or cores, processes, no
GIL, or a line that holds the GIL for less time. Without a change, the command
ranks the changes that would help. `headway trace app.py` records a trace.
"""

import argparse
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli import console
from headway.cli.html_output import add_html, check_html, write_simulation_page
from headway.cli.options import add_json, seconds
from headway.cli.simulated_trace import check_trace, write_trace
from headway.errors import UsageError
from headway.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headway.sim.machine import Costs
    from headway.sim.ranking import Ranked
    from headway.sim.replay.change import Change
    from headway.sim.replay.learn import Model
    from headway.sim.whatif import Prediction
    from headway.traces.model import Trace
    from headway.traces.overview import Overview

__all__ = ["prepare", "run"]

_MOST_SHOWN_NS = 10_000_000_000
"""The most of a trace, in nanoseconds, that a page shows beside the predicted run."""
_MOST_THREADS = 10_000
"""The most threads that a change may give a role."""
_EPILOG = """examples:
  headway whatif app.hwt                          rank changes, best first
  headway whatif app.hwt --policy fair
  headway whatif app.hwt --switch-interval 0.0005 --without burner
  headway whatif app.hwt --threads cpu:8 --cores 4
  headway whatif app.hwt --shorten app.py:42=0.5  line 42: holds half as long
  headway whatif app.hwt --policy fair --html fair.html
"""


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("trace", type=Path, help="a trace file of `headway trace` or `headway attach`")
    parser.add_argument(
        "--policy",
        metavar="NAME",
        help="a policy of `headway policies`, the path of your own policy, or none: the GIL of CPython (default: that of"
        " the trace)",
    )
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="an option of the policy; may be repeated"
    )
    parser.add_argument("--switch-interval", type=seconds(), metavar="SECONDS", help="sys.setswitchinterval()")
    parser.add_argument(
        "--threads", action="append", default=[], metavar="ROLE:N", help="give a role N threads; may be repeated"
    )
    parser.add_argument("--cores", type=int, metavar="N", help="let the program run on N cores")
    parser.add_argument(
        "--processes", action="store_true", help="turn CPU-bound threads into processes, each with its own GIL"
    )
    parser.add_argument("--no-gil", action="store_true", help="use a free-threaded build of Python")
    parser.add_argument(
        "--without", action="append", default=[], metavar="ROLE", help="leave out a role; may be repeated"
    )
    parser.add_argument(
        "--shorten",
        action="append",
        default=[],
        metavar="FILE:LINE=FACTOR",
        help="multiply the length of holds that end at this line by FACTOR; may be repeated",
    )
    parser.add_argument(
        "--seeds", type=int, default=5, metavar="N", help="number of simulations of each change (default 5)"
    )
    parser.add_argument(
        "--calibration",
        default="",
        metavar="FILE",
        help="costs of this machine: a file of `headway calibrate`, or `preset` (default: the stored costs, measured now if there"
        " are none)",
    )
    add_html(parser)
    parser.add_argument(
        "--trace",
        type=Path,
        metavar="FILE",
        dest="trace_out",
        help="write the events of one predicted run as a trace (FILE.hwt)",
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it is there")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Predict the effect of the change, or rank changes if none is given."""
    change = _change(arguments)
    if arguments.seeds < 1 or arguments.seeds > 1000:
        raise UsageError(f"--seeds is {arguments.seeds}, expected 1 to 1000", hint="leave it out for the default")
    _check_outputs(arguments, change)
    from headway.cli.whatif_view import one_change, ranking
    from headway.sim.machine import kept, load
    from headway.sim.ranking import missed, rank, untried
    from headway.sim.replay.change import NOTHING
    from headway.sim.replay.fit import model_of
    from headway.sim.replay.window import read_window
    from headway.sim.whatif import cores_of, predict

    trace, whole = read_window(arguments.trace)
    _tell_larger(arguments.trace)
    cores = cores_of(trace)
    if not arguments.calibration and not kept().measured_here:
        _check_change(trace, whole, change, cores)
    costs = load(arguments.calibration, console.say)
    model = model_of(trace, costs, cores=cores, whole=whole, library=_library(change))
    tell = console.progress("runs")
    if change == NOTHING:
        ranked = rank(model, costs, cores=cores, seeds=arguments.seeds, progress=tell)
        left = untried(model, str(arguments.trace))
        if arguments.json:
            console.print_json(_ranked_json(ranked, missed(ranked), left))
        else:
            console.print_rendered(ranking(ranked, str(arguments.trace), left))
        return 0
    (found,) = predict(model, [change], costs, cores=cores, seeds=arguments.seeds, progress=tell)
    _write_outputs(arguments, model, found, costs, cores)
    if arguments.json:
        console.print_json(_json(found))
    else:
        console.print_rendered(one_change(found))
    return 0


def _tell_larger(path: Path) -> None:
    """Name the largest trace of the launch if it is another process's: a server's parent mostly waits for its workers."""
    from headway.traces.family import files_beside

    others = files_beside(path)
    largest = max([path, *others], key=lambda one: one.stat().st_blocks)
    if largest != path:
        console.say(
            f"note: {printable(path.name)} is the trace of one of {len(others) + 1} processes;"
            f" the largest trace is {printable(str(largest))}"
        )


def _change(arguments: argparse.Namespace) -> "Change":
    from headway.sim.replay.change import Change, parse_shorten
    from headway.sim.scenario import STOCK

    interval_s = arguments.switch_interval
    if interval_s is not None and not 1e-6 <= interval_s <= 100:
        raise UsageError(
            f"--switch-interval is {interval_s:g}, expected 0.000001 to 100 seconds", hint="such as 0.0005 or 500us"
        )
    if arguments.cores is not None and not 1 <= arguments.cores <= 64:
        raise UsageError(
            f"--cores is {arguments.cores}, expected 1 to 64", hint="leave it out for the cores of the trace"
        )
    policy = arguments.policy
    for given, what in (
        (policy not in (None, STOCK), f"--policy is {policy}"),
        (interval_s, f"--switch-interval is {interval_s or 0:g}"),
    ):
        if given and arguments.no_gil:
            raise UsageError(
                f"{what}, which is about the GIL, but --no-gil removes the GIL", hint="leave out one of the two options"
            )
    return Change(
        policy=policy,
        options=tuple(_pair(one, "--option", "=") for one in arguments.option),
        interval_ns=None if interval_s is None else round(interval_s * 1e9),
        threads=tuple(map(_threads, arguments.threads)),
        cores=arguments.cores,
        processes=arguments.processes,
        gil=not arguments.no_gil,
        without=tuple(arguments.without),
        shorten=tuple(parse_shorten(one) for one in arguments.shorten),
    )


def _library(change: "Change") -> str:
    """Return the path of the user's own policy that a change names; ""."""
    return change.policy if change.policy is not None and "/" in change.policy else ""


def _check_change(trace: "Trace", whole: "Overview | None", change: "Change", cores: int) -> None:
    """Check a change with the preset's costs, before this machine's are measured, which takes half a minute.

    Raises:
        ScenarioError: The trace cannot be replayed, or does not have what the change names, or there is no such policy.
    """
    from headway.sim.machine import PRESET, load
    from headway.sim.replay.change import specify
    from headway.sim.replay.learn import learn
    from headway.sim.replay.waiting import without_lost_waits

    costs = load(PRESET)
    specify(
        without_lost_waits(learn(trace, costs, whole=whole, library=_library(change)), change),
        change,
        costs,
        1,
        1,
        cores=cores,
    )


def _check_outputs(arguments: argparse.Namespace, change: "Change") -> None:
    """Check, before any work, that the outputs can be written.

    Raises:
        UsageError: An output cannot be written, or there is no predicted run for it.
    """
    from headway.sim.replay.change import NOTHING

    check_html(
        arguments,
        {"--trace": arguments.trace_out},
        {"the trace": arguments.trace, "the calibration": arguments.calibration},
    )
    check_trace(arguments.trace_out)
    for option, path in (("--html", arguments.html), ("--trace", arguments.trace_out)):
        if path is None:
            continue
        if change == NOTHING:
            raise UsageError(
                f"`{option}` needs one change, and none is given", hint="name a change, such as `--policy fair`"
            )
    if arguments.trace_out is not None and not change.gil:
        raise UsageError("`--trace` needs a GIL, and this change removes it", hint="leave out `--trace`")


def _write_outputs(
    arguments: argparse.Namespace, model: "Model", prediction: "Prediction", costs: "Costs", cores: int
) -> None:
    """Write the predicted run as a trace, and the page that shows it below the recorded one."""
    if arguments.html is None and arguments.trace_out is None:
        return
    from headway.sim.replay.trace import predicted_trace

    real = model.trace
    # A page shows a trace of more than 10 s only in part: from the beginning of the window that the model was made
    # from, for 10 s.
    whole = real.end_ns - real.start_ns <= _MOST_SHOWN_NS
    since_ns = real.start_ns if whole else model.seen.since_ns
    until_ns = real.end_ns if whole else min(real.end_ns, since_ns + _MOST_SHOWN_NS)
    trace = predicted_trace(
        model,
        prediction.change,
        costs,
        cores=cores,
        length_ns=max(1, until_ns - since_ns),
    )
    if arguments.trace_out is not None:
        write_trace(trace, arguments.trace_out, what="the predicted run")
    if arguments.html is not None:
        from headway.cli.whatif_view import page

        shown = (None, None) if whole else (since_ns, until_ns)
        write_simulation_page(page(prediction, real, shown, trace), arguments.html, show=arguments.open)


def _pair(text: str, option: str, mark: str) -> tuple[str, int]:
    name, found, value = text.rpartition(mark)
    if not found or not name or re.fullmatch(r"-?\d+", value) is None:
        example = "cpu:8" if option == "--threads" else "latency_us=20000"
        raise UsageError(f"{option} is '{text}', expected NAME{mark}NUMBER", hint=f"as in `{option} {example}`")
    return name, int(value)


def _threads(text: str) -> tuple[str, int]:
    role, count = _pair(text, "--threads", ":")
    if not 0 <= count <= _MOST_THREADS:
        raise UsageError(
            f"--threads is '{text}', expected 0 to {_MOST_THREADS} threads", hint=f"as in `--threads '{role}:8'`"
        )
    return role, count


def _ranked_json(ranked: "Sequence[Ranked]", why: "Sequence[str]", left: "Sequence[str]") -> dict[str, object]:
    """Return the ranking as JSON.

    Fields:
        ranked: The predictions of the changes, the best first, each with its `worth`.
        missed: Why no change can be ranked, a clause for each role that the replay without a change misses; [] if it can.
        untried: Why it does not shorten the holds for which threads waited most; [] if it does, or has no reason to.
    """
    told = [] if why else [{"worth": one.worth, **_json(one.prediction)} for one in ranked]
    return {"ranked": told, "missed": why, "untried": left}


def _json(prediction: "Prediction") -> dict[str, object]:
    return {
        "change": str(prediction.change),
        "provided": prediction.provided,
        "roles": [asdict(one) for one in prediction.roles],
        "rests_on": prediction.rests_on,
        "outside": prediction.outside,
    }
