"""Makes contenders from the results of a race."""

import math
import statistics

from headway.advice.break_even import start_s
from headway.advice.models import Sizes, words
from headway.advice.racing import METRIC
from headway.advice.values import Contender
from headway.lab.kept.results import CellResult
from headway.lab.launching.launch import OVER_LIMIT
from headway.report.figures import seconds

__all__ = ["contender", "level"]

_FAR = 4.0
"""A launch that was killed after this many times the time of serial calls tells that the model is no faster."""


def contender(result: CellResult, serial: CellResult, sizes: Sizes, name: str) -> Contender:
    """Return a model's measurements beside one call after the other; `name` is the short name of its interpreter."""
    cell, taken = result.cell, result.level(METRIC)
    ratio = serial.ratio_to(result, METRIC) if result is not serial else None
    workers = sizes.workers[cell.series]

    def memory(of: CellResult) -> float:
        details = [one.launch.facts.get("details", {}) for one in of.ok]
        known = [one for one in details if one.get("own_pss_bytes")]
        return (
            statistics.fmean(one["own_pss_bytes"] + sum(one["children_pss_bytes"]) for one in known) if known else 0.0
        )

    failed = next((one.launch.reason for one in result.launches if one.launch.status != "ok"), "")
    too_long = not result.ok and _takes_too_long(result, serial, sizes)
    if too_long:
        failed += f", where serial calls took {seconds(_longest_s(serial))}"
    return Contender(
        interpreter=name,
        model=cell.series,
        words=words(cell.series, workers),
        workers=workers,
        launches=len(result.ok),
        call_s=taken,
        speed_up=ratio,
        start_s=_start_s(result, serial) if cell.series != "serial" else 0.0,
        pss_bytes=memory(result),
        worker_pss_bytes=max(0.0, memory(result) - memory(serial)) / workers if workers > 1 else 0.0,
        failures=len(result.launches) - len(result.ok),
        failed=failed,
        calls=sizes.calls[cell.series],
        too_long=too_long,
    )


def _longest_s(result: CellResult) -> float:
    return max(one.launch.wall_s for one in result.ok)


def _takes_too_long(result: CellResult, serial: CellResult, sizes: Sizes) -> bool:
    """Tell whether all launches were killed after far more time than as many serial calls take."""
    if not serial.ok or not all(one.launch.reason.startswith(OVER_LIMIT) for one in result.launches):
        return False
    shared = min(1.0, sizes.tasks / sizes.calls[result.cell.series])
    return shared * min(one.launch.wall_s for one in result.launches) >= _FAR * _longest_s(serial)


def _start_s(result: CellResult, serial: CellResult) -> float:
    """Return the time of a pool's start, as the mean over launches; 0 if no block has both launches."""
    alone = {one.block: one.launch.samples for one in serial.ok}
    found = [start_s(one.launch.samples, alone[one.block]) for one in result.ok if one.block in alone]
    return statistics.fmean(found) if found else 0.0


def level(result: CellResult) -> float:
    """Return the time of a call; infinity if no launch succeeded."""
    found = result.level(METRIC)
    return found.value if found is not None else math.inf
