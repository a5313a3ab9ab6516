"""Check the error of the lab's sequential rule: simulated labs with a known truth, and the noise of stored launches.

    bench/simulated_labs.py [RUN] [--labs 1000] [--budget 600]

A stored run gives each cell's level of each metric, and the noise around it. The noise has two parts: one that the
cells of a block share, and one that each cell has alone; both are standardised and pooled over all cells. A simulated
lab has the levels as its truth and draws new noise for each launch. A launch takes the time of the cell's launches. The
lab's own agenda and verdicts decide, and each verdict is compared with the verdict on the levels without noise. No
process is launched.

The output says, of all claims in all labs, how many were decided, how many of these falsely, and how long the labs
took. A verdict is false if it is "supported" and the truth is "refuted", or the other way round; "at the limit" and the
truth is further from the limit than that means; or "mixed" and no interpreter differs. The same is done with a 95 %
interval at each look, and with a fixed number of launches.
"""

import argparse
import collections
import concurrent.futures
import math
import random
import statistics
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from doubt import is_above_zero

from headway.lab import load_run
from headway.lab.design import Count
from headway.lab.judging.assessed import Assessed, assess
from headway.lab.judging.evidence import NEAR
from headway.lab.judging.open_claims import OpenClaim, open_claims, telling_cells
from headway.lab.judging.verdicts import DECIDED, judge
from headway.lab.kept.headers import StoredLaunch
from headway.lab.kept.launched import Launch
from headway.lab.kept.results import CellResult, Run
from headway.lab.launching.agenda import Agenda, Finished
from headway.lab.plan import Plan
from headway.lab.sequential import FIRST_LOOK
from headway.lab.stats import CONFIDENCE

FALSE_TARGET = 0.05
_FIXED = 4


@dataclass(frozen=True)
class Level:
    """A metric of a cell: the mean of its logs, the cell's own spread, and the spread that it shares with its group."""

    log: float
    own: float
    shared: float


class World:
    """The levels and the noise of a stored run."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.levels: dict[tuple[str, str], Level] = {}
        self.counts: dict[tuple[str, str], list[list[float]]] = {}
        self.walls_s: dict[str, float] = {}
        self.own: list[float] = []
        self.shared: list[float] = []
        counted = {
            (one.name, piece.metric)
            for one in run.experiments()
            for claim in one.claims
            for piece in claim.evidence(run.machine)
            if isinstance(piece, Count)
        }
        for key, result in run.results.items():
            if result.launches:
                self.walls_s[key] = statistics.fmean(one.launch.wall_s for one in result.launches)
        groups: dict[tuple[str, str], list[CellResult]] = collections.defaultdict(list)
        for result in run.results.values():
            for metric in result.metrics():
                if (result.cell.experiment, metric) in counted:
                    self.counts[result.cell.key, metric] = result.samples(metric)
                else:
                    groups[result.cell.group, metric].append(result)
        for (_, metric), results in groups.items():
            self._learn(metric, results)

    def _learn(self, metric: str, results: list[CellResult]) -> None:
        usable = []
        for one in results:
            values = one.by_block(metric)
            if len(values) < 2 or min(values.values()) <= 0:
                self.counts[one.cell.key, metric] = one.samples(metric)
            else:
                usable.append((one, {block: math.log(value) for block, value in values.items()}))
        means = {one.cell.key: statistics.fmean(logs.values()) for one, logs in usable}
        blocks = sorted(set().union(*(logs for _, logs in usable))) if usable else []
        mood = {
            block: statistics.fmean([logs[block] - means[one.cell.key] for one, logs in usable if block in logs])
            for block in blocks
        }
        shared = statistics.stdev(mood.values()) if len(usable) > 1 and len(mood) > 1 else 0.0
        for one, logs in usable:
            rests = [value - means[one.cell.key] - (mood[block] if shared else 0.0) for block, value in logs.items()]
            own = statistics.stdev(rests)
            self.levels[one.cell.key, metric] = Level(means[one.cell.key], own, shared)
            # Residuals around their own mean have a spread that is too small by sqrt((n - 1) / n). stdev() corrects
            # that for `own`, and the stretch below for the pooled noise.
            if own > 1e-9:
                stretch = math.sqrt(len(rests) / (len(rests) - 1))
                self.own += [rest / own * stretch for rest in rests]
        if shared > 0:
            self.shared += [value / shared * math.sqrt(len(mood) / (len(mood) - 1)) for value in mood.values()]

    def launch(self, key: str, group: str, block: int, lab: int, noise: float) -> Launch:
        """Return a launch of the simulated lab `lab`; without noise, all launches are equal."""
        own, mood = random.Random(f"{lab} {key} {block}"), random.Random(f"{lab} {group} {block}")
        samples: dict[str, list[float]] = {}
        for metric in self.run.results[key].metrics():
            level = self.levels.get((key, metric))
            if level is None:
                samples[metric] = own.choice(self.counts[key, metric])
                continue
            shift = level.own * own.choice(self.own) + level.shared * mood.choice(self.shared or [0.0])
            samples[metric] = [math.exp(level.log + noise * shift)]
        return Launch("ok", samples=samples, wall_s=self.walls_s[key])


def simulated(world: World, plan: Plan, lab: int, confidence: float, noise: float = 1.0) -> tuple[Run, float]:
    """Simulate a lab; return its run, and the time that it took."""
    results = {cell.key: CellResult(cell, (), confidence) for cell in plan.cells}
    run = replace(world.run, header=replace(world.run.header, settings=world.run.settings), results=results)

    def open_now(experiment: str) -> list[OpenClaim]:
        now = replace(run, results=results)
        return open_claims(judge(now, [now.experiment(experiment)]))

    agenda = Agenda(plan, open_now, telling_cells(run))
    for step in agenda.steps():
        if isinstance(step, Finished):
            continue
        for cell in step.cells:
            key = cell.key
            launch = world.launch(key, cell.group, step.block, lab, noise)
            stored = StoredLaunch(key, step.block, launch)
            results[key] = replace(results[key], launches=(*results[key].launches, stored))
            agenda.tell(cell, launch.wall_s)
    return replace(run, results=results), agenda.spent_s


def is_false(outcome: str, truth: Assessed, claim: str) -> bool:
    """Return whether a decided outcome differs from the truth."""
    true = truth.outcomes[claim]
    if outcome == "at the limit":
        one = true.deciding
        if one is None or one.interval is None:
            return True
        limits = [float(word) for word in one.relation.split() if word.replace(".", "", 1).isdigit()]
        return min(abs(math.log(one.interval.value / limit)) for limit in limits) > math.log1p(NEAR)
    if outcome == "mixed":
        return true.outcome in {"supported", "refuted"}
    return {outcome, true.outcome} == {"supported", "refuted"}


WORLD: World | None = None
TRUTH: Assessed | None = None


def begin(name: str, store: str | None) -> None:
    """Read the run, once in each process of the pool."""
    global WORLD, TRUTH  # noqa: PLW0603  (set by a pool's initializer)
    WORLD = World(load_run(name, store=None if store is None else Path(store)))
    plan = plan_of(WORLD.run, 1, None, 3)
    TRUTH = assess(simulated(WORLD, plan, 0, CONFIDENCE, noise=0.0)[0])


def plan_of(run: Run, seed: int, budget_s: float | None, launches: int) -> Plan:
    """Return the plan of the stored run's cells."""
    cells = tuple(result.cell for result in run.results.values() if result.ok)
    return Plan("quick", launches, budget_s, seed, 30.0, None, cells, ())


def one_lab(lab: int, budget_s: float, rule: str) -> dict[str, Any]:
    """Simulate a lab under a rule; return its counts of claims, decisions and false decisions."""
    assert WORLD is not None
    assert TRUTH is not None
    fixed = rule == "fixed"
    settings = replace(WORLD.run.settings, budget_s=None if rule != "sequential" else budget_s)
    plan = plan_of(WORLD.run, lab, None if fixed else budget_s, _FIXED if fixed else FIRST_LOOK)
    WORLD.run = replace(WORLD.run, header=replace(WORLD.run.header, settings=settings))
    run, spent_s = simulated(WORLD, plan, lab, settings.confidence)
    outcomes = {name: one.outcome for name, one in assess(run).outcomes.items()}
    decided = {name: outcome for name, outcome in outcomes.items() if outcome in DECIDED}
    return {
        "claims": sum(outcome != "not measured" for outcome in outcomes.values()),
        "decided": len(decided),
        "false": sorted(name for name, outcome in decided.items() if is_false(outcome, TRUTH, name)),
        "open": sorted(name for name, outcome in outcomes.items() if outcome == "inconclusive"),
        "spent_s": spent_s,
    }


def main() -> int:
    """Print a line for each rule; return 1 if the sequential one has more false decisions than the target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", default="last", help="a stored run (default: the last)")
    parser.add_argument("--store", help="its store (default: the user's own)")
    parser.add_argument("--labs", type=int, default=1000, help="(default: %(default)s)")
    parser.add_argument("--budget", type=float, default=600.0, help="seconds of each (default: %(default)s)")
    parser.add_argument("--rules", nargs="+", default=["sequential", "naive", "fixed"], help="(default: all)")
    arguments = parser.parse_args()
    missed = False
    with concurrent.futures.ProcessPoolExecutor(initializer=begin, initargs=(arguments.run, arguments.store)) as pool:
        for rule in arguments.rules:
            jobs = [pool.submit(one_lab, lab, arguments.budget, rule) for lab in range(arguments.labs)]
            labs = []
            for place, job in enumerate(concurrent.futures.as_completed(jobs), 1):
                labs.append(job.result())
                if place % 50 == 0:
                    print(f"{rule}: {place} of {arguments.labs} labs", file=sys.stderr)
            decided, false = sum(one["decided"] for one in labs), sum(len(one["false"]) for one in labs)
            claims = sum(one["claims"] for one in labs)
            print(
                f"{rule:<10}  {decided / claims:.1%} of {claims} claims decided, {false / decided:.2%} of these falsely; "
                f"{statistics.fmean(one['spent_s'] for one in labs):.0f} s of launches a lab"
            )
            for what in ("false", "open"):
                named = collections.Counter(name for one in labs for name in one[what]).most_common(12)
                shown = ", ".join(f"{name} {count / arguments.labs:.0%}" for name, count in named)
                print(f"            most often {what}: {shown}")
            # The claims of a lab are not independent, but the labs are.
            beyond = [len(one["false"]) - FALSE_TARGET * one["decided"] for one in labs]
            missed |= rule == "sequential" and is_above_zero(beyond)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
