"""Check that a policy is a gain or a loss in the simulator where it is one on the machine, wrong signs first.

    .venv/bin/python bench/policy_corpus.py --placement system --side none fair priority --launches 6 --keep measured.jsonl
    .venv/bin/python bench/policy_signs.py measured.jsonl [--only 'waitress*'] [--json FILE]

The first command measures: it launches each program of the policies' corpus with and without a policy, in turns. The
second command makes one trace of each program without a policy, and asks `headway whatif` for the effect of each of
those policies. It compares the ratios to no policy: the measured rate of the program with the predicted turns a second
of the role that has most of them. For programs with only CPU-bound threads, the prediction is the time that these
threads run. A piece of work has as many turns with a policy as without, so the ratios are the same. The same holds for
p99.

A measured ratio is a gain or a loss if its whole interval is beyond 3 % (p99: 10 %), and no change if the interval is
within. Any other ratio cannot be told, and is not judged. A predicted ratio counts by its middle. The program reports,
and does not fail because of wrong signs.
"""

import argparse
import collections
import dataclasses
import fnmatch
import json
import sys
import tempfile
from pathlib import Path
from typing import Literal

import policy_corpus
from identity import Tracing, role_told

from headway.errors import HeadwayError
from headway.library import library_path
from headway.sim import calibration, machine
from headway.sim.replay.change import Change
from headway.sim.replay.fit import model_of
from headway.sim.whatif import Prediction, cores_of, predict
from headway.traces.model import Trace
from headway.traces.reader import read

# `identity` has put the folders of these modules on the path.
from headway_agent.load import LoadClient  # isort: skip
from provision.locked_environment import locked_python  # isort: skip

Sign = Literal["gain", "loss", "no change", "cannot tell"]
BOUNDS = {"rate": 0.03, "p99_s": 0.10}
PREDICTED = {"rate": "turns_per_s", "p99_s": "p99_ns"}
MORE_IS_BETTER = {"rate": True, "p99_s": False}
SYSTEM = "system"


@dataclasses.dataclass(frozen=True)
class Compared:
    """A figure of a program under a policy: its ratio to that without, measured and predicted, and the sign of both."""

    program: str
    policy: str
    figure: str
    measured: float
    measured_low: float
    measured_high: float
    predicted: float
    found: Sign
    told: Sign
    outside: tuple[str, ...]

    @property
    def judged(self) -> bool:
        """Whether the launches on the machine tell the sign."""
        return self.found != "cannot tell"

    def __str__(self) -> str:
        mark = " " if not self.judged else "=" if self.found == self.told else "!"
        measured = f"{self.measured:8.2f} [{self.measured_low:.2f}, {self.measured_high:.2f}]"
        outside = "  outside the model" if self.outside else ""
        return f"{mark} {self.program:30} {self.policy:10} {self.figure:6} {measured:26} {self.found:12} {self.predicted:8.2f} {self.told}{outside}"


def sign(figure: str, low: float, high: float) -> Sign:
    """Return the sign of a ratio that lies between `low` and `high`."""
    bound = 1 + BOUNDS[figure]
    if 1 / bound <= low and high <= bound:
        return "no change"
    if low > bound:
        return "gain" if MORE_IS_BETTER[figure] else "loss"
    if high < 1 / bound:
        return "loss" if MORE_IS_BETTER[figure] else "gain"
    return "cannot tell"


def measured(path: Path) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Return the stored launches in system placement, by program and side. Raises OSError, ValueError."""
    found: dict[str, dict[str, dict[int, dict[str, float]]]] = collections.defaultdict(
        lambda: collections.defaultdict(dict)
    )
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        if row["placement"] == SYSTEM:
            found[row["program"]][row["side"]][row["launch"]] = row
    whole: dict[str, dict[str, list[dict[str, float]]]] = {}
    for program, sides in found.items():
        launches = set.intersection(*(set(one) for one in sides.values()))
        whole[program] = {side: [one[launch] for launch in sorted(launches)] for side, one in sides.items()}
    return whole


def predicted(prediction: Prediction, figure: str) -> float | None:
    """Return the ratio of a predicted figure to the trace's own, or None if the trace has too little of it."""
    role = role_told(prediction)
    if role is not None:
        span, seen = getattr(role, PREDICTED[figure]), getattr(role.measured, PREDICTED[figure])
        return span.value / seen if span is not None and seen else None
    running = [one for one in prediction.roles if one.run_share is not None]
    seen = sum(one.measured.run_share for one in running)
    return sum(one.run_share.value for one in running if one.run_share) / seen if figure == "rate" and seen else None


def compared(
    program: str, policy: str, prediction: Prediction, sides: dict[str, list[dict[str, float]]]
) -> list[Compared]:
    """Return the figures of a program under a policy that can be compared."""
    rows = []
    for figure in BOUNDS:
        ours, theirs = sides[policy], sides[policy_corpus.NONE]
        if not all(figure in one for one in (*ours, *theirs)):
            continue
        ratio = policy_corpus.ratio([one[figure] for one in ours], [one[figure] for one in theirs])
        value = predicted(prediction, figure)
        if ratio is None or ratio.low is None or ratio.high is None or value is None:
            continue
        found, told = sign(figure, ratio.low, ratio.high), sign(figure, value, value)
        rows.append(
            Compared(
                program, policy, figure, ratio.value, ratio.low, ratio.high, value, found, told, prediction.outside
            )
        )
    return rows


def files_of(path: Path) -> list[Path]:
    """Return the files of a launch: that of its first process, and those of its children."""
    return sorted(path.parent.glob(f"{path.stem}*{path.suffix}"))


def busiest(path: Path) -> Trace:
    """Return the trace of a launch's process with most events; for gunicorn that is the worker."""
    return max(map(read, files_of(path)), key=lambda one: len(one.events))


def summary(rows: list[Compared]) -> dict[str, str]:
    """Return by figure how many signs are right, and how many are the opposite, of those that the machine tells."""
    told = {}
    for figure in BOUNDS:
        judged = [one for one in rows if one.figure == figure and one.judged]
        groups = {
            "all that can be told": judged,
            "gains and losses": [one for one in judged if one.found != "no change"],
            "inside the model": [one for one in judged if not one.outside],
        }
        for words, chosen in groups.items():
            right = sum(one.told == one.found for one in chosen)
            opposite = sum({one.told, one.found} == {"gain", "loss"} for one in chosen)
            told[f"{figure}, {words}"] = f"{right} right, {opposite} the opposite, of {len(chosen)}"
    return told


def options_of() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", type=Path, help="what `bench/policy_corpus.py --keep` has written")
    parser.add_argument("--seconds", type=float, default=2.0, help="that a program is traced (default: %(default)s)")
    parser.add_argument("--only", nargs="+", metavar="PATTERN", default=["*"])
    parser.add_argument("--interpreter", default="3.13", help="the one that was measured (default: %(default)s)")
    parser.add_argument("--calibrate", type=float, default=10.0, help="seconds (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write everything to this file")
    return parser.parse_args()


def main() -> int:
    """Trace, predict and compare each program, and print the table and the summary."""
    options = options_of()
    launches = measured(options.measured)
    interpreter = policy_corpus.interpreter_of(options.interpreter)
    taken = calibration.measure(seconds=options.calibrate, interpreters=[interpreter])
    costs = machine.from_json(taken.to_json(), "this machine's, just now")
    rows: list[Compared] = []
    failed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="policy-signs-") as folder, LoadClient(library_path(), None) as client:
        bench = Tracing(locked_python(interpreter, policy_corpus.LOCK, "corpus"), options.seconds, None, client)
        for program in policy_corpus.corpus():
            sides = launches.get(program.name, {})
            if policy_corpus.NONE not in sides or not any(fnmatch.fnmatch(program.name, one) for one in options.only):
                continue
            print(program.name, file=sys.stderr, flush=True)
            bench.trace = Path(folder, f"{program.name}.trace.hwt")
            try:
                bench.launch(program, policy_corpus.NONE)
                trace = busiest(bench.trace)
                model = model_of(trace, costs, cores=cores_of(trace))
                policies = [one for one in sides if one != policy_corpus.NONE]
                made = predict(model, [Change(policy=one) for one in policies], costs, cores=cores_of(trace))
                for policy, prediction in zip(policies, made, strict=True):
                    rows += compared(program.name, policy, prediction, sides)
            except (HeadwayError, policy_corpus.LaunchError) as error:
                failed.append(f"{program.name}: {error}")
            finally:
                for path in files_of(bench.trace):
                    path.unlink()
    rows.sort(key=lambda one: (not one.judged, one.found == one.told, one.figure, one.policy, one.program))
    print("  program                        policy     figure measured                   found        predicted")
    print("\n".join(map(str, rows)))
    print("\n".join(f"not simulated: {one}" for one in failed))
    print("\n".join(f"{what:60} {value}" for what, value in summary(rows).items()))
    if options.json is not None:
        options.json.write_text(
            json.dumps(
                {"summary": summary(rows), "rows": [dataclasses.asdict(one) for one in rows], "failed": failed},
                indent=1,
            )
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
