"""Makes contenders from the results of a race."""

import math
import statistics

from headway.advice.break_even import start_s
from headway.advice.models import Sizes, words
from headway.advice.racing import METRIC
from headway.advice.values import Contender
from headway.lab.kept.results import CellResult

__all__ = ["contender", "level"]


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
    )


def _start_s(result: CellResult, serial: CellResult) -> float:
    """Return the time of a pool's start, as the mean over launches; 0 if no block has both launches."""
    alone = {one.block: one.launch.samples for one in serial.ok}
    found = [start_s(one.launch.samples, alone[one.block]) for one in result.ok if one.block in alone]
    return statistics.fmean(found) if found else 0.0


def level(result: CellResult) -> float:
    """Return the time of a call; infinity if no launch succeeded."""
    found = result.level(METRIC)
    return found.value if found is not None else math.inf
