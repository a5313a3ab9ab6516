"""Find the confidence for each look of a sequential rule with which all looks together err on one side in 5 % of cases.

    bench/sequential_rule.py [--runs 40000]

Each simulated sequence has launches whose log ratios have mean 0. They are drawn from normal noise, from Student's t
with three degrees of freedom, and from normal noise of which a tenth is five times as wide. Each look takes the
one-sided p-value of a t-test of all launches so far: if the truth is at a claim's threshold, an error on one side
decides the claim falsely. The searched level is the one that the smallest p-value over all looks falls below in 5 % of
the sequences: a look may err on that side at this level. The interval of the level errs on both sides in twice as many
cases. The output has that level for several schedules of looks, how often a 95 % interval at each look decides falsely,
and how often the interval of `lab.sequential` does.

Exit status: 1 if `lab.sequential` decides falsely more often than 5 % with normal noise, beyond what 40,000 runs can
tell.
"""

import argparse
import math
import sys

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from headway.lab.sequential import FIRST_LOOK, LOOK_CONFIDENCE, MOST_LAUNCHES

STATED = 0.05


def noises(runs: int, rng: np.random.Generator) -> dict[str, NDArray[np.float64]]:
    """Return simulated sequences of launches by kind of noise."""
    size = (runs, MOST_LAUNCHES)
    return {
        "normal": rng.normal(size=size),
        "t with 3 degrees": rng.standard_t(3, size=size),
        "a tenth five times as wide": rng.normal(size=size) * np.where(rng.random(size) < 0.1, 5, 1),
    }


def p_values(launches: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the one-sided p-values of t-tests against 0, by sequence, after FIRST_LOOK launches and each later one."""
    counts = np.arange(FIRST_LOOK, MOST_LAUNCHES + 1)
    sums, squares = np.cumsum(launches, axis=1), np.cumsum(launches**2, axis=1)
    means = sums[:, FIRST_LOOK - 1 :] / counts
    variances = (squares[:, FIRST_LOOK - 1 :] - counts * means**2) / (counts - 1)
    found: NDArray[np.float64] = stdtr(counts - 1, -means / np.sqrt(variances / counts))
    return found


def main() -> int:
    """Simulate, print the table, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40_000, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="(default: %(default)s)")
    arguments = parser.parse_args()
    counts = np.arange(FIRST_LOOK, MOST_LAUNCHES + 1)
    schedules = {
        "after 4 launches, once": counts == 4,
        "after each from 3 to 28": counts <= 28,
        f"after each from {FIRST_LOOK} to {MOST_LAUNCHES}": counts > 0,
        "after 3 to 14 each, then 18, 23, 30, 39, 50, 65, 80, 100": (counts <= 14)
        | np.isin(counts, (18, 23, 30, 39, 50, 65, 80, 100)),
    }
    missed = False
    for noise, launches in noises(arguments.runs, np.random.default_rng(arguments.seed)).items():
        found = p_values(launches)
        print(noise)
        for name, looks in schedules.items():
            smallest = found[:, looks].min(axis=1)
            print(
                f"  {name:<58} a look may err in {np.quantile(smallest, STATED):.4f}; 95 % intervals decide falsely in {(smallest < STATED / 2).mean():.1%}"
            )
        share = float((found.min(axis=1) < (1 - LOOK_CONFIDENCE) / 2).mean())
        print(f"  headway's ({LOOK_CONFIDENCE:.2%} after each) decides falsely in {share:.2%}")
        if noise == "normal":
            missed = share > STATED + 2.6 * math.sqrt(STATED * (1 - STATED) / arguments.runs)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
