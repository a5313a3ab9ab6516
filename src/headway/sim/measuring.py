"""Takes the raw measurements in rounds. Each round takes all of them once, so that changes of the machine show."""

import errno
import json
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from headway import native
from headway.host.children import clean_environment
from headway.host.interpreters import Interpreter
from headway.host.paths import scratch_folder
from headway.sim.costs import digest, tick_lengths

__all__ = ["ROUND_S", "Round", "measure_round"]

ROUND_S = 6.0
"""The approximate length of a round at scale 1, with ten interpreters."""

_PROGRAM = Path(__file__).resolve().parent / "programs" / "python_costs.py"
_PROGRAM_LIMIT_S = 60
_SHORT_GAP_S, _MIDDLE_GAP_S, _LONG_GAP_S = 30e-6, 0.5e-3, 5e-3
_SLEEP_S = 500e-6
_LEAST_GAP_NS = 400
_FEWEST = 8
"""The least number of samples, at any scale."""


@final
@dataclass
class Round:
    """The measurements of one round.

    Attributes:
        raw: For each measurement, its quantiles in ns.
        loop_ns: For each interpreter, the time of one round of a loop.
        slow_down: For each interpreter without a GIL, the share by which the loop takes longer for each further thread.
        failed: For each interpreter that was not measured, the reason.
    """

    raw: dict[str, tuple[float, ...]] = field(default_factory=dict)
    loop_ns: dict[str, float] = field(default_factory=dict)
    slow_down: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def measure_round(cores: Sequence[int], interpreters: Sequence[Interpreter], *, scale: float) -> Round:
    """Take every measurement once.

    Args:
        cores: The cores of the threads. The first one measures. The second, if there is one, is measured against.
            Further ones are for free-threaded interpreters.
        interpreters: The interpreters to measure; the last one with a GIL and ctypes is measured in full.
        scale: The number of samples, as a share of the usual number.

    Raises:
        OSError: The kernel refused an operation.
        NativeError: The library is missing or does not fit.
    """
    found = Round()
    for measure in (_calls, _pairs, _wakes, _timers, _ticks):
        measure(found, _Plans(cores, scale))
    full = next((one for one in reversed(interpreters) if one.gil_enabled and one.ctypes), None)
    for one in interpreters:
        _python(found, one, cores, repeats=max(_FEWEST, int(60 * scale)) if one is full else 0)
    return found


@final
@dataclass(frozen=True)
class _Plans:
    cores: Sequence[int]
    scale: float

    def of(self, count: int, usual_s: float) -> native.CalibrationPlan:
        """Return a plan for `count` samples at scale 1; it ends early if they take three times as long as usual."""
        other = self.cores[1] if len(self.cores) > 1 else None
        wanted = max(_FEWEST, int(count * self.scale))
        return native.CalibrationPlan(self.cores[0], other, wanted, 3 * usual_s * max(self.scale, wanted / count))


def _calls(found: Round, plans: _Plans) -> None:
    """Measure system calls of one thread."""
    for call in native.CALIBRATION_CALLS:
        found.raw[call] = digest(native.calibrate_call(plans.of(2000, 0.1), call))


def _pairs(found: Round, plans: _Plans) -> None:
    """Measure two threads that take turns."""
    for pair in native.CALIBRATION_PAIRS:
        plan = plans.of(60, 60 * _LONG_GAP_S) if pair == "futex_cold" else plans.of(4000, 0.1)
        try:
            found.raw[f"pair_{pair}"] = digest(native.calibrate_pair(plan, pair))
        except OSError as error:
            if error.errno != errno.ENODEV:
                raise


def _wakes(found: Round, plans: _Plans) -> None:
    """Measure wake-ups of another core."""
    for way in native.CALIBRATION_WAYS:
        for load, busy in (("idle", False), ("busy", True)):
            for suffix, gap_s, count in (
                ("", _SHORT_GAP_S, 1500),
                ("_middle", _MIDDLE_GAP_S, 200),
                ("_long", _LONG_GAP_S, 60),
            ):
                plan = plans.of(count, count * (gap_s + 100e-6))
                if plan.other is None:
                    return
                latencies, calls = native.calibrate_wake(plan, way, busy=busy, gap_s=gap_s)
                found.raw[f"{way}_{load}{suffix}"] = digest(latencies)
                found.raw[f"{way}_{load}{suffix}_call"] = digest(calls)


def _timers(found: Round, plans: _Plans) -> None:
    """Measure timers."""
    for load, busy in (("busy", True), ("idle", False)):
        plan = plans.of(500, 0.4)
        found.raw[f"timer_{load}"] = digest(native.calibrate_timer(plan, busy=busy, sleep_s=_SLEEP_S))
    found.raw["interrupt"] = digest(native.calibrate_interrupt(plans.of(500, 0.1)))


def _ticks(found: Round, plans: _Plans) -> None:
    """Measure the timer tick."""
    other = plans.cores[1] if len(plans.cores) > 1 else None
    # 50,000 is more than the interruptions in that time; 0.2 s is enough for some ticks at any scale.
    plan = native.CalibrationPlan(plans.cores[0], other, 50_000, max(0.2, plans.scale))
    ticks = tick_lengths(native.calibrate_gaps(plan, least_ns=_LEAST_GAP_NS))
    if ticks:
        found.raw["tick"] = digest(ticks)


def _python(found: Round, interpreter: Interpreter, cores: Sequence[int], *, repeats: int) -> None:
    answer = _ask(interpreter, cores, repeats)
    if isinstance(answer, str):
        found.failed[interpreter.name] = answer
        return
    for name, samples in answer.items():
        if isinstance(samples, list) and repeats:
            found.raw[f"python_{name}"] = digest(samples)
    found.loop_ns[interpreter.name] = statistics.median(answer["loop"])
    if answer["slow_down"] is not None:
        found.slow_down[interpreter.name] = answer["slow_down"]


def _ask(interpreter: Interpreter, cores: Sequence[int], repeats: int) -> Mapping[str, Any] | str:
    """Run the program in an interpreter; return its measurements, or the reason why there are none."""
    command = [interpreter.executable, "-I", str(_PROGRAM), ",".join(map(str, cores)), str(repeats)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_PROGRAM_LIMIT_S,
            env=clean_environment(),
            cwd=scratch_folder(),
            stdin=subprocess.DEVNULL,
            check=True,
        )
        answer: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return f"it took longer than {_PROGRAM_LIMIT_S} s"
    except subprocess.CalledProcessError as error:
        return ((error.stderr or "").strip().splitlines() or [f"exit code {error.returncode}"])[-1][:200]
    except (OSError, ValueError, IndexError) as error:
        return str(error)
    return answer
