"""Run labs that compare a variant with itself under two names, and count how often a verdict finds a difference.

    bench/aa_labs.py [--labs 20] [--budget 40]

Each lab is a run of its own, with a budget, on fresh processes. Three things are claimed of every pair: that both take
the same time within 10 % (which is true), that the first takes less, and that it takes more. The last two are at their
threshold: "supported" and "refuted" are false verdicts there, and "at the limit" is true. The two variants of a pair
take turns within a launch, or have separate launches, as in experiments of the lab.

The output says how many claims were decided, and how many of these falsely, by kind. Exit status: 1 if more than 5 %
are false beyond doubt, where a lab counts as one case.
"""

import argparse
import collections
import importlib
import sys
import tempfile
from pathlib import Path
from unittest import mock

from doubt import is_above_zero

from headway import lab
from headway.lab.design import Claim, Comparison, Experiment, Relation, Size, Variant, above, below, between
from headway.lab.judging.assessed import assess
from headway.lab.judging.verdicts import DECIDED

FALSE_TARGET = 0.05
WORK: dict[str, tuple[str, str, dict[str, object]]] = {
    "increment": ("increment", "serial", {"n": 20_000, "tasks": 4}),
    "threads": ("countdown", "threads", {"n": 200_000, "threads": 4}),
    "hashes": ("sha256", "threads", {"size_bytes": 65_536, "messages": 20, "tasks": 8, "threads": 2}),
    "waits": ("sleep", "asyncio", {"period_s": 0.01, "times": 3}),
    "processes": ("increment", "processes-spawn", {"n": 20_000, "tasks": 2}),
}
CLAIMS: dict[str, tuple[Relation, str]] = {
    "same": (between(1 / 1.1, 1.1), "supported"),
    "less": (below(1), "at the limit"),
    "more": (above(1), "at the limit"),
}


def pair(name: str, *, turns: bool) -> Experiment:
    """Return an experiment of one variant under two names."""
    workload, model, params = WORK[name]

    def variants(_size: Size) -> list[Variant]:
        return [Variant(series=series, workload=workload, model=model, params=dict(params)) for series in "ab"]

    def claim(word: str, relation: Relation) -> Claim:
        return Claim(
            id=f"{name}-{turns}/{word}",
            text=f"a is {word} as b",
            evidence=lambda _: [Comparison(top="a", bottom="b", relation=relation)],
            source="A/A",
        )

    return Experiment(
        name=f"{name}-{turns}",
        question="Is it the same?",
        method="-",
        included="-",
        baseline="b",
        variants=variants,
        turns=turns,
        claims=tuple(claim(word, relation) for word, (relation, _) in CLAIMS.items()),
    )


def main() -> int:
    """Run the labs and print the table; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labs", type=int, default=20, help="(default: %(default)s)")
    parser.add_argument("--budget", type=float, default=40.0, help="seconds of launches of each (default: %(default)s)")
    parser.add_argument("--interpreter", default="3.8,3.13", help="(default: %(default)s)")
    arguments = parser.parse_args()
    pairs = tuple(pair(name, turns=turns) for name in WORK for turns in (True, False))
    outcomes: dict[tuple[str, str], collections.Counter[str]] = collections.defaultdict(collections.Counter)
    # By lab: how many more false decisions than the target allows. The claims of a lab are not independent.
    beyond: list[float] = []
    module = importlib.import_module("headway.lab.experiments")
    with mock.patch.object(module, "_ALL", pairs), tempfile.TemporaryDirectory() as folder:
        for number in range(arguments.labs):
            request = lab.Request(
                interpreters=arguments.interpreter.split(","),
                budget_s=arguments.budget,
                store=Path(folder) / "aa.sqlite",
            )
            run = lab.run(request)
            in_lab: collections.Counter[str] = collections.Counter()
            for name, verdict in assess(run).outcomes.items():
                experiment, _, word = name.partition("/")
                outcomes["turns" if experiment.endswith("True") else "apart", word][verdict.outcome] += 1
                in_lab["decided"] += verdict.outcome in DECIDED
                in_lab["false"] += verdict.outcome in DECIDED - {CLAIMS[word][1]}
            beyond.append(in_lab["false"] - FALSE_TARGET * in_lab["decided"])
            launches = sum(len(one.launches) for one in run.results.values())
            print(f"lab {number + 1} of {arguments.labs}: {launches} launches", file=sys.stderr, flush=True)
    decided = false = claims = 0
    for (how, word), counts in sorted(outcomes.items()):
        wrong = sum(count for outcome, count in counts.items() if outcome in DECIDED - {CLAIMS[word][1]})
        print(
            f"{how:<6} {word:<5} {', '.join(f'{outcome} {count}' for outcome, count in counts.most_common())}; false {wrong}"
        )
        decided += sum(count for outcome, count in counts.items() if outcome in DECIDED)
        claims, false = claims + counts.total(), false + wrong
    print(
        f"{decided} of {claims} claims decided, {false} of these falsely: {false / max(1, decided):.1%} (target: {FALSE_TARGET:.0%})"
    )
    return int(is_above_zero(beyond))


if __name__ == "__main__":
    sys.exit(main())
