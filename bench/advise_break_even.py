"""Compare the break-even size of a pool that `headway advise` tells with a sweep over the sizes of the function.

The time of each of the ten functions grows with its argument. The advice measures a stand-in of the function at one
size. The sweep runs the function itself, at sizes around the one where the pool takes as long as one call after the
other. Both take turns, `--rounds` times. Functions whose two results differ by more than 15 % are printed first.
    .venv/bin/python bench/advise_break_even.py
"""

import argparse
import functools
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from headway.advice.break_even import find_size, parts_of
from headway.advice.examined import Function, examine
from headway.advice.holds import Holds, look
from headway.advice.models import SHORT
from headway.advice.target import Target, parse_target, with_json
from headway.host.interpreters import Interpreter, discover, probe, select
from headway.host.keeper import Keeper
from headway.host.machine import Machine, this_machine
from headway.lab.design import Cell, Variant
from headway.lab.kept.launched import Launch
from headway.lab.launching.launch import run_launch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from provision.locked_environment import locked_python

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "bench" / "advised" / "sized.py"
WITHIN = 1.15
SIZES = {
    "count": 200_000,
    "squares": 60_000,
    "match": 400,
    "to_json": 20_000,
    "sort": 20_000,
    "digest": 8_000,
    "checksum": 300,
    "pack": 200,
    "query": 20_000,
    "wait": 3_000,
}
"""Function -> the size that the advice is asked about: some milliseconds."""


@final
@dataclass(frozen=True)
class Beside:
    """A function at one size, with the advice on a pool and the result of a sweep over its sizes.

    Attributes:
        target: The function, at that size.
        size: The argument of the function at that size.
        function: The times of the function.
        parts: The parameters of its stand-in.
        python: The interpreter.
        machine: The machine of the launches.
        keeper: Ends the processes that were started.
    """

    target: Target
    size: int
    function: Function
    parts: Mapping[str, Any]
    python: Interpreter
    machine: Machine
    keeper: Keeper

    @property
    def workers(self) -> int:
        """The number of workers of the pool."""
        return max(2, len(self.machine.cores))

    def variant(self, model: str, workload: str, params: Mapping[str, Any]) -> Variant:
        """Return a variant of the stand-in or of the sweep."""
        return Variant(
            series=model,
            workload=workload,
            model=model,
            params={"target": self.target.job(), "kind": "plain", "workers": self.workers, **params},
            samples=2,
            paths=(*self.target.paths, str(ROOT / "bench")),
        )

    def stand_in(self, model: str, sizes_s: Sequence[float]) -> Variant:
        """Return the variant that the advice launches."""
        return self.variant(model, "headway_agent.strangers.stand_in:StandIn", {"sizes_s": list(sizes_s), **self.parts})

    def itself(self, model: str, sizes_s: Sequence[float]) -> Variant:
        """Return a variant of the function itself, at arguments with which it takes these times."""
        units = [(max(1, round(one / self.function.call_s * self.size)), one) for one in sizes_s]
        return self.variant(model, "break_even_workload:Sweep", {"units": units})

    def launch(self, one: Variant, block: int) -> Launch:
        """Launch a variant."""
        cell = Cell("break-even", one, "free", self.python.id, "break-even")
        return run_launch([cell], self.python.executable, self.machine, limit_s=120, keeper=self.keeper, seed=block)[0]

    def both(self, model: str, rounds: int) -> tuple[list[float], list[float], str]:
        """Return the sizes from the advice, the sizes from the sweep, and the reason why there are none."""
        at_its_size = [self.launch(self.itself(model, [self.function.call_s]), block).samples for block in range(5)]
        measured = statistics.median(
            statistics.median(one["pooled_0_s"]) / statistics.median(one["serial_0_s"]) for one in at_its_size
        )
        said: list[float] = []
        swept: list[float] = []
        whys: list[str] = []
        for _ in range(rounds):
            for values, make, known in ((said, self.stand_in, measured), (swept, self.itself, None)):
                found, why = find_size(
                    SHORT[model], functools.partial(make, model), self.function, self.launch, measured=known
                )
                if found is not None:
                    values.append(found.value)
                else:
                    whys.append(why)
        return said, swept, "; ".join(dict.fromkeys(whys))


def told(name: str, model: str, said: Sequence[float], swept: Sequence[float], why: str) -> tuple[bool, str]:
    """Return whether both results agree, and a line that tells them."""
    if not said or not swept:
        return bool(said) == bool(swept), f"{name}, {SHORT[model]}: {why}; said {spread(said)}, swept {spread(swept)}"
    off = statistics.geometric_mean(said) / statistics.geometric_mean(swept)
    line = f"{name}, {SHORT[model]}: {spread(said)} us said, {spread(swept)} us swept ({off:.2f})"
    return 1 / WITHIN <= off <= WITHIN, line


def spread(values: Sequence[float]) -> str:
    """Return the values in us, as text."""
    return "/".join(f"{one * 1e6:.0f}" for one in values) or "nothing"


def main() -> int:
    """Compare each function and print the results; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--interpreter", default="3.13")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    base = select(discover()[0], [options.interpreter])[0]
    python = probe(locked_python(base, ROOT / "requirements" / "advised.lock", "advised"))
    machine = this_machine()
    off: list[str] = []
    right: list[str] = []
    with Keeper() as keeper:
        for name, size in SIZES.items():
            if options.only not in name:
                continue
            target = with_json(parse_target(f"{FILE}:{name}"), f"[{size}]")
            seen = examine(target, python, machine.cores, limit_s=60, keeper=keeper)
            assert seen.function is not None, seen.error
            holds = look(target, seen.place, seen.function, machine.cores, keeper=keeper)
            parts = parts_of(holds if isinstance(holds, Holds) else None, seen.function)
            beside = Beside(target, size, seen.function, parts, python, machine, keeper)
            for model in (
                "processes-forkserver",
                "interpreters",
                *(("threads",) if parts["shares"]["held"] < 0.5 else ()),
            ):
                agree, line = told(name, model, *beside.both(model, options.rounds))
                (right if agree else off).append(line)
                print(line, file=sys.stderr, flush=True)
    print("\n".join([*(f"off: {line}" for line in off), *right]))
    print(f"{len(right)} of {len(right) + len(off)} within 15 %")
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main())
