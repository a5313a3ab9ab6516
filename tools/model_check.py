#!/usr/bin/env python3
"""Check the models of native/model/ exhaustively with SPIN: which cases hold, and which mutations fail.

A case is a model with some of its variants (-D flags), under a memory order if the model has any, and the expected
result: the case holds, or an error is found. Each mutation is the protocol without one of its parts, or as it was
before a fix. A check that does not find the error of a mutation would be worth nothing. A search that was not
exhaustive (too deep, out of memory or time) counts as a failure.

SPIN turns a model into the source of a verifier, which makes the search. The search of the same source always ends
alike, so its report is kept in the cache, by the source's hash, and the search is not made again (--fresh makes it).

The program prints a line for each case: states, depth, seconds ("kept" if the search was made earlier), verdict. The
exit status is 1 if the result of a case is not the expected one.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from provision.spin import find_spin

from headway.host.paths import cache_folder

MODELS = Path(__file__).resolve().parent.parent / "native" / "model"

# The memory orders of memory.pml: sequential consistency, x86, and what C11 allows (aarch64 allows less).
ORDERS = ("SC", "TSO", "C11")
WEAK = ("TSO", "C11")
NO_ORDER = ("",)

# The cases with millions of states.
LARGE = {("wake", ""), ("handshake", "C11")}

STEP_TIMEOUT_S = 300
# More than the deepest search takes. A deeper search is reported as incomplete.
MOST_DEPTH = 1_000_000
MOST_MEMORY_MB = 3000


@dataclass(frozen=True)
class Case:
    """One run of a model.

    Attributes:
        model: The file's name without its suffix.
        flags: The names to define: variants, a mutation.
        order: The memory order, or "".
        holds: Whether the case must hold; if not, an error must be found.
    """

    model: str
    flags: tuple[str, ...]
    order: str
    holds: bool

    @property
    def name(self) -> str:
        """The model, its flags and the memory order."""
        return " ".join(filter(None, (self.model, *self.flags, self.order)))

    @property
    def live(self) -> bool:
        """Whether the case checks liveness (an LTL formula), and not only safety."""
        return "LIVE" in self.flags


@dataclass(frozen=True)
class Outcome:
    """The result of a case; `error` is "" if the case holds, `problem` is "" if the result is certain."""

    states: int
    depth: int
    seconds: float
    error: str
    problem: str
    kept: bool = False
    """The search was made earlier."""


# Model -> its variants that must hold -> the memory orders under which they must.
HOLDS: dict[str, dict[str, Sequence[str]]] = {
    "handshake": {"": ORDERS, "HEAVY": ORDERS, "REFUSED": ("TSO",), "LIVE": ("SC",)},
    "parks": {"": ORDERS, "CHILD": ORDERS},
    "generation": {"": ORDERS},
    "reborn": {"": NO_ORDER, "RETIRE": NO_ORDER},
    "wake": {"": NO_ORDER, "FORCED": NO_ORDER, "GRACE": NO_ORDER},
    "stop": {"": NO_ORDER, "AGAIN": NO_ORDER, "TRACED": NO_ORDER, "WATCHDOG": NO_ORDER, "ELSEWHERE": NO_ORDER},
    "rest": dict.fromkeys(
        (
            *("", "TRACE", "STOP", "NEW_GIL", "FIXED", "FIXED TRACE", "FIXED NEW_GIL"),
            *("IDLE", "IDLE CROWD", "IDLE TRACE", "IDLE STOP", "IDLE NEW_GIL", "IDLE FIXED", "IDLE FIXED TRACE"),
        ),
        NO_ORDER,
    ),
    "fork": {"": NO_ORDER, "TRACED": NO_ORDER, "TRACED FIRST": NO_ORDER, "TRACED LIBRARY": NO_ORDER},
}

# Model -> the variant and mutation in which an error must be found -> under which orders. It may hold under the others.
FAILS: dict[str, dict[str, Sequence[str]]] = {
    "handshake": {
        "MUTATION_NO_BARRIER": WEAK,
        "REFUSED MUTATION_NO_PATIENCE": WEAK,
        "MUTATION_LOOK_FIRST": ORDERS,
        "MUTATION_NO_WAIT": ORDERS,
        "MUTATION_LEAVE_RELAXED": ("C11",),
        "MUTATION_RECORD_RELAXED": ("C11",),
        "LIVE MUTATION_NO_FIRST_LOOK": ("SC",),
    },
    "parks": {
        "MUTATION_LOOK_FIRST": ORDERS,
        "MUTATION_NO_WAIT": ORDERS,
        "MUTATION_DOOR_RELAXED": WEAK,
        "MUTATION_LOOK_RELAXED": ("C11",),
        "MUTATION_COUNT_RELAXED": ("SC", "C11"),
        "CHILD MUTATION_LOST_IS_OWN": ORDERS,
        "CHILD MUTATION_LEASE_FIRST": ORDERS,
    },
    "generation": {"MUTATION_ADOPT_UNLOCKED": ORDERS, "MUTATION_WATCHDOG_UNLOCKED": ORDERS},
    "reborn": {"MUTATION_ANY_RECORD": NO_ORDER, "FEW": NO_ORDER, "RETIRE MUTATION_ADDRESS_UNSEEN": NO_ORDER},
    "wake": {
        "MUTATION_SLEEP_UNSEEN": NO_ORDER,
        "MUTATION_NO_UNLOCK_HOOK": NO_ORDER,
        "MUTATION_WORD_LATE": NO_ORDER,
        "MUTATION_ENQUEUE_LATE": NO_ORDER,
        "MUTATION_LATE_STAYS_CALLED": NO_ORDER,
    },
    "stop": {"ELSEWHERE MUTATION_END_DEFERS": NO_ORDER, "MUTATION_NOBODY_CALLED": NO_ORDER},
    "rest": {
        "MUTATION_NOT_ROUSED": NO_ORDER,
        "MUTATION_REST_UNGUARDED": NO_ORDER,
        "TRACE MUTATION_REST_TRACED": NO_ORDER,
        "TRACE MUTATION_ROUSE_BEFORE": NO_ORDER,
        "TRACE MUTATION_LEAVE_AT_REST": NO_ORDER,
        "NEW_GIL MUTATION_GIL_UNSEEN": NO_ORDER,
        "IDLE CROWD MUTATION_IDLE_CALLS_NOBODY": NO_ORDER,
    },
    "fork": {
        "MUTATION_REGISTRY_KEPT": NO_ORDER,
        "MUTATION_CHANGING_KEPT": NO_ORDER,
        "MUTATION_SLOTS_KEPT": NO_ORDER,
        "MUTATION_NO_FIRST_LOOK": NO_ORDER,
        "TRACED MUTATION_BUSY_KEPT": NO_ORDER,
        "TRACED LIBRARY MUTATION_END_WAITS": NO_ORDER,
    },
}


def cases() -> Iterator[Case]:
    """Yield every case, model by model: first those that must hold, then those that must not."""
    for model, variants in HOLDS.items():
        tables = ((variants, True), (FAILS.get(model, {}), False))
        for table, holds in tables:
            for flags, orders in table.items():
                yield from (Case(model, tuple(flags.split()), order, holds) for order in orders)


def read_report(report: str, seconds: float, *, kept: bool = False) -> Outcome:
    """Read the output of a verifier."""
    counts = re.search(r"depth reached (\d+), errors: (\d+)", report)
    states = re.search(r"^\s*(\d+(?:e\+\d+)?) states, stored", report, re.MULTILINE)
    found = re.search(r"^pan:\d+: (.*?) \(at depth", report, re.MULTILINE)
    problem = ""
    if counts is None or states is None:
        problem = "no verdict: " + (report.strip().splitlines() or ["nothing was printed"])[-1]
    elif re.search(r"max search depth too small|out of memory|Search not completed", report) and found is None:
        problem = "not exhaustive"
    elif found is not None and "invalid array index" in found[1]:
        problem = f"the model itself is wrong: {found[1]}"
    elif (int(counts[2]) > 0) != (found is not None):
        problem = "no verdict: errors are counted and none is shown"
    return Outcome(
        states=int(states[1]) if states else 0,
        depth=int(counts[1]) if counts else 0,
        seconds=seconds,
        error=found[1] if found else "",
        problem=problem,
        kept=kept,
    )


def check(case: Case, spin: str, kept: Path, *, fresh: bool = False, models: Path = MODELS) -> Outcome:
    """Make the verifier of a case, in a folder of its own, and run it, unless its report is kept.

    Args:
        case: The case.
        spin: The path of SPIN.
        kept: The folder of the reports.
        fresh: Run the verifier also if its report is kept.
        models: The folder of the models.
    """
    defines = [f"-D{flag}" for flag in (*case.flags, *filter(None, [case.order]))]
    # In most cases the compiler takes more time than the search, so only large ones are optimised.
    optimise = "-O2" if case.holds and (case.model, case.order) in LARGE else "-O0"
    kind = ["-DNFAIR=3"] if case.live else ["-DSAFETY"]
    limits = [f"-DMEMLIM={MOST_MEMORY_MB}", "-DVECTORSZ=2048", *kind]
    search = ["./pan", f"-m{MOST_DEPTH}", *(["-a", "-f"] if case.live else [])]
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="headway-model-") as folder:
        for one in models.glob("*.pml"):  # the verifier's source contains the model's path as it is given
            shutil.copy(one, folder)
        good, output = _done([spin, "-a", *defines, f"{case.model}.pml"], folder)
        if good:
            report = kept / f"{_digest(Path(folder), [*limits, *search])}.txt"
            if report.exists() and not fresh:
                return read_report(report.read_text(encoding="utf-8"), 0.0, kept=True)
            good, output = _done(["cc", optimise, "-w", *limits, "-o", "pan", "pan.c"], folder)
            if good:
                _, output = _done(search, folder)
    outcome = read_report(output, time.monotonic() - begun)
    if good and not outcome.problem:
        _keep(report, output)
    return outcome


def _done(step: Sequence[str], folder: str) -> tuple[bool, str]:
    """Run a step; return whether it succeeded, and its output."""
    try:
        done = subprocess.run(
            step,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=STEP_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, f"{Path(step[0]).name} took longer than {STEP_TIMEOUT_S} s"
    return done.returncode == 0, done.stdout


def _digest(folder: Path, words: Sequence[str]) -> str:
    """Return a hash of a verifier's source and of the options of its search."""
    found = hashlib.sha256("\0".join(words).encode())
    for one in sorted(folder.glob("pan.*")):
        found.update(f"\0{one.name}\0".encode() + one.read_bytes())
    return found.hexdigest()


def _keep(report: Path, output: str) -> None:
    """Keep a report; another check may be keeping the same one. A cache that cannot be written is none."""
    try:
        report.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=report.parent, delete=False, encoding="utf-8") as file:
            file.write(output)
        os.replace(file.name, report)
    except OSError as error:
        print(f"models: the report is not kept: {error}", file=sys.stderr)


def verdict(case: Case, outcome: Outcome) -> tuple[bool, str]:
    """Return whether the result of the case is the expected one, and the result in words."""
    if outcome.problem:
        return False, outcome.problem
    if not outcome.error:
        return case.holds, "holds" if case.holds else "HOLDS, AND MUST NOT"
    return not case.holds, f"{'FAILS' if case.holds else 'found'}: {outcome.error}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"which: {', '.join(HOLDS)} (default: all)")
    parser.add_argument("--skip-missing", action="store_true", help="succeed, with a line, where there is no spin")
    parser.add_argument(
        "--sample", action="store_true", help="all cases that must hold, and a third of those that must not"
    )
    parser.add_argument("--fresh", action="store_true", help="make every search, also those whose reports are kept")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (default: 2)")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.models) - set(HOLDS))
    if unknown:
        parser.error(f"no model is called {', '.join(unknown)}; there are {', '.join(HOLDS)}")
    spin = find_spin()
    if spin is None or shutil.which("cc") is None:
        lacking = "spin" if spin is None else "a C compiler (`cc`)"
        print(f"models: not checked, this machine has no {lacking}\nhint: `make spin` adds spin", file=sys.stderr)
        return 0 if options.skip_missing else 1
    chosen = [case for case in cases() if not options.models or case.model in options.models]
    if options.sample:
        chosen = [case for case in chosen if case.holds or zlib.crc32(case.name.encode()) % 3 == 0]
    print(f"{'model':<11} {'variant':<40} {'order':<5} {'states':>10} {'depth':>6} {'s':>5}  verdict")
    failures = 0
    begun = time.monotonic()
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = pool.map(partial(check, spin=spin, kept=cache_folder() / "models", fresh=options.fresh), chosen)
        for case, outcome in zip(chosen, outcomes, strict=True):
            good, words = verdict(case, outcome)
            failures += not good
            took = "kept" if outcome.kept else f"{outcome.seconds:.1f}"
            print(
                f"{case.model:<11} {' '.join(case.flags) or '-':<40} {case.order or '-':<5} {outcome.states:>10,}"
                f" {outcome.depth:>6} {took:>5}  {words}",
                flush=True,
            )
    print(
        f"models: {len(chosen)} cases in {time.monotonic() - begun:.0f} s, {failures} not as they must be",
        file=sys.stderr,
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
