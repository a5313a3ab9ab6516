"""Compare what `headway whatif` replays of a trace without a change with the trace, the largest error first.

    .venv/bin/python bench/identity.py [--seconds 2] [--only 'waitress*'] [--json FILE]

A prediction is the trace's own figure times the effect of a change in the replay. So it depends on how close the replay
without a change is to the trace. Each program gives one trace. The programs are a convoy with 0 to 8 CPU-bound threads
and ccbench's latency (UDP), both on one core with their client on another, and programs of the policies' corpus, which
the system places: servers (Flask under waitress, asyncio), Dask, queues, pools, calls of C, and sleepers. The judged role is the one with the most
turns among those without CPU-bound threads.

Target: turns a second within 2 %, p50 within 5 %, p99 within 10 %, at the median over all traces. The program reports
the errors, and does not fail because of them.
"""

import argparse
import dataclasses
import fnmatch
import json
import math
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import policy_corpus
import predictions
from predictions_judged import factor

from headway.agent import AGENT_PATH
from headway.errors import HeadwayError
from headway.lab import discover, select
from headway.library import library_path
from headway.sim import calibration, machine
from headway.sim.replay.change import NOTHING
from headway.sim.replay.fit import model_of
from headway.sim.whatif import Prediction, RolePrediction, cores_of, predict
from headway.traces.reader import read

sys.path[:0] = [str(AGENT_PATH), str(Path(__file__).resolve().parents[1] / "tools")]
from headway_agent.load import LoadClient  # noqa: E402
from provision.locked_environment import locked_python  # noqa: E402

TARGETS = {"turns_per_s": 1.02, "p50_ns": 1.05, "p99_ns": 1.10}
"""Factors, at the median."""
CONVOYS = {f"convoy-{cpu}": predictions.Program("echo", cpu=cpu, split=True) for cpu in (0, 1, 2, 3, 4, 6, 8)}
UDP = {f"ccbench-udp-{cpu}": predictions.Program("udp", cpu=cpu, split=True) for cpu in (0, 1, 2)}
OTHERS = (
    "waitress-4", "waitress-4-beside-1", "waitress-16-beside-1", "uvicorn-4", "uvicorn-4-beside-1", "aiohttp-4-beside-1",
    "http.server-4-beside-1", "dask-threads", "queue-of-1", "queue-of-16", "queue-of-1000", "queue-2-and-2", "queue-beside-1",
    "pipeline", "pool-beside-1", "lines-beside-1", "sqlite-4", "sqlite-beside-1", "zlib-small-4", "sha256-4", "sleepers-8",
    "sleepers-8-beside-1", "to-thread", "reads-beside-1",
)  # fmt: skip
LEAST_TURNS = 50


class Tracing(policy_corpus.Bench):
    """Starts programs of the corpus under `headway trace`."""

    trace = Path()

    def _command(self, *arguments: str, side: str) -> list[str]:  # noqa: ARG002 - nothing is changed
        return [sys.executable, "-m", "headway", "trace", "--python", self.python, "-o", str(self.trace), *arguments]


@dataclasses.dataclass(frozen=True)
class Replayed:
    """A trace and its replay, as replayed over traced by figure. `outside` says what the model lacks for the trace."""

    name: str
    role: str = ""
    found: dict[str, float] = dataclasses.field(default_factory=dict)
    outside: tuple[str, ...] = ()

    @property
    def error(self) -> float:
        """The error of turns, as a factor of 1 or more; infinite if there is nothing to replay."""
        return factor(self.found["turns_per_s"], 1) if "turns_per_s" in self.found else math.inf


def role_told(prediction: Prediction) -> RolePrediction | None:
    """Return the role with the most turns among those without CPU-bound threads, or None."""
    told = [one for one in prediction.roles if one.measured.turns >= LEAST_TURNS and not one.role.startswith("cpu")]
    return max(told, key=lambda one: one.measured.turns, default=None)


def replayed(name: str, trace: Path, costs: machine.Costs, seeds: int) -> Replayed:
    """Replay a trace and return the comparison."""
    recorded = read(trace)
    cores = cores_of(recorded)
    model = model_of(recorded, costs, cores=cores)
    prediction = predict(model, [NOTHING], costs, cores=cores, seeds=seeds)[0]
    most = role_told(prediction)
    if most is None:
        return Replayed(name, outside=("too few turns to tell", *prediction.outside))
    return Replayed(
        name, most.role, {key: most.identity[key] for key in TARGETS if key in most.identity}, prediction.outside
    )


def row(one: Replayed) -> str:
    """Return a line of the table."""
    figures = "".join(f"{one.found[key]:12.3f}" if key in one.found else f"{'-':>12}" for key in TARGETS)
    return "\n".join(
        [f"{one.name:24} {one.role:24.24}{figures}", *(f"    outside the model: {why}" for why in one.outside)]
    )


def summary(found: list[Replayed]) -> dict[str, float]:
    """Return the median error by figure, over all traces and over those that are within the model."""
    told: dict[str, float] = {"traces": len(found), "inside the model": sum(not one.outside for one in found)}
    for words, chosen in (("all", found), ("inside the model", [one for one in found if not one.outside])):
        for key in TARGETS:
            errors = [factor(one.found[key], 1) for one in chosen if key in one.found]
            if errors:
                told[f"{key}, {words}: median factor of error"] = statistics.median(errors)
    return told


def options_of() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="that a program is traced (default: %(default)s)")
    parser.add_argument("--only", action="append", default=[], help="only programs that are so called; may be repeated")
    parser.add_argument("--python", default="3.13", help="the interpreter (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="of the simulator (default: %(default)s)")
    parser.add_argument("--calibrate", type=float, default=10.0, help="seconds (default: %(default)s)")
    parser.add_argument(
        "--keep", type=Path, help="keep the traces and the calibration in this folder, which must be new"
    )
    parser.add_argument("--json", type=Path, help="write everything to this file")
    return parser.parse_args()


def main() -> int:
    """Trace and replay the chosen programs, and print the table and the summary."""
    options = options_of()
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        print("it takes two cores")
        return 2
    interpreter = select(discover()[0], [options.python])[-1]
    taken = calibration.measure(seconds=options.calibrate, interpreters=[interpreter])
    costs = machine.from_json(taken.to_json(), "this machine's, just now")
    launcher = predictions.Launcher(interpreter.executable, options.seconds, (usable[0], usable[1]))
    names = [
        one
        for one in (*CONVOYS, *UDP, *OTHERS)
        if not options.only or any(fnmatch.fnmatch(one, o) for o in options.only)
    ]
    found: list[Replayed] = []
    if options.keep is not None:
        options.keep.mkdir(parents=True)
        Path(options.keep, "calibration.json").write_text(json.dumps(taken.to_json()))
    with tempfile.TemporaryDirectory(prefix="identity-") as temporary, LoadClient(library_path(), None) as client:
        folder = options.keep or temporary
        libraries = locked_python(interpreter, policy_corpus.LOCK, "corpus") if set(names) & set(OTHERS) else ""
        bench = Tracing(libraries, options.seconds, None, client)
        known = {one.name: one for one in policy_corpus.corpus()}
        for name in names:
            print(name, file=sys.stderr, flush=True)
            trace = Path(folder, f"{name}.hwt")
            try:
                if name in OTHERS:
                    bench.trace = trace
                    bench.launch(known[name], policy_corpus.NONE)
                else:
                    launcher.launch((CONVOYS | UDP)[name], predictions.Changed(), trace)
                found.append(replayed(name, trace, costs, options.seeds))
            except (HeadwayError, policy_corpus.LaunchError, predictions.FailedError) as error:
                found.append(Replayed(name, outside=(str(error),)))
    found.sort(key=lambda one: -one.error)
    print(f"{'trace':24} {'role':24}" + "".join(f"{key:>12}" for key in TARGETS))
    print("\n".join(row(one) for one in found))
    total: dict[str, Any] = summary(found)
    print("\n".join(f"{what:60} {value:.3g}" for what, value in total.items()))
    if options.json is not None:
        options.json.write_text(
            json.dumps({"summary": total, "traces": [dataclasses.asdict(one) for one in found]}, indent=1)
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
