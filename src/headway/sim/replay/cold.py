"""Finds how long bursts would run with hot code, and what coldness cost them; the simulator adds it where it occurs.

Code that has not run on its core for a while takes longer (`native_sim.coldness`), and a trace has the longer times.
With a change, code that was always cold may run hot, and the other way round.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.native_sim import coldness
from headway.sim.machine import Costs
from headway.sim.replay.bursts import Bursts
from headway.traces.calls import Call

__all__ = ["Cooling", "quantiles"]

_COLD, _ALL_COLD, _HOT = 0.3, 0.9, 0.03
"""Degrees of `coldness`: the cost is learned from code that is cold, and from calls that are completely cold."""
_SHORT_NS = 200_000
"""Longer bursts are not divided into cold and hot ones."""
_TINY_NS = 50_000
_LEAST_PERCENT, _MOST_PERCENT = 5, 90
_HOT_PART = 0.25
"""The share of a tiny burst, seen only cold, that is left when it runs hot: coldness makes it four times as long."""
_LEAST_PART = 0.02
_FEW = 5
_FEW_SAMPLES = 30


def quantiles(samples: NDArray[np.float64] | NDArray[np.int64]) -> tuple[float, ...]:
    """Return samples as a cost: 21 quantiles, without the lowest and highest samples, which have other causes."""
    return tuple(float(one) for one in np.percentile(samples, np.linspace(2, 95, 21)))


@final
class Cooling:
    """Subtracts the costs of coldness and wake-ups from the bursts of a program's threads, and records these costs."""

    def __init__(self, costs: Costs, cores: int) -> None:
        """Begin with the machine's costs, and the number of cores that the program ran on."""
        self._costs = costs
        self._cores = cores
        self._noted_ns: dict[str, list[NDArray[np.float64]]] = defaultdict(list)

    def hot_ns(self, bursts: Bursts, posts: Sequence[int], kinds: Mapping[int, Call]) -> NDArray[np.int64]:
        """Return the time of each burst with hot code, in ns; the simulator makes code cold again where it is.

        Also records what coldness cost tiny bursts, scaled to completely cold code, and what it cost the calls after
        bursts.

        Args:
            bursts: The bursts of one thread.
            posts: For each burst, the number of threads that it wakes because they wait for what it posts.
            kinds: For each stack, the kind of call that releases the GIL there.
        """
        how_cold = _how_cold(bursts)
        self._note_calls(bursts, how_cold, kinds)
        run_ns = self._without_wakes(bursts, posts, how_cold)
        short = run_ns < _SHORT_NS
        cold = (how_cold >= _COLD) & short
        lukewarm = np.append(False, cold[:-1]) & ~cold & short
        hot = ~cold & ~lukewarm & (how_cold <= _HOT)
        hot[:1] = False
        rest = short & ~cold & ~lukewarm
        for stack in np.unique(bursts.stack[rest]):
            here = rest & (bursts.stack == stack)
            run_ns[here] = _a_little_cooled(run_ns[here], how_cold[here], self._costs.costs["cold_python"])
        for chosen, cost in ((cold, "cold_python"), (lukewarm, "cold_python_next")):
            for stack in np.unique(bursts.stack[chosen]):
                here = chosen & (bursts.stack == stack)
                known = run_ns[hot & (bursts.stack == stack)]
                tiny = run_ns[here] < _TINY_NS
                if len(known) >= _FEW and np.percentile(known, _MOST_PERCENT) < _TINY_NS:
                    tiny[:] = True  # longer ones are only colder
                hot_ns = _cooled(run_ns[here], known, tiny, self._costs.costs[cost])
                before = np.append(0.0, how_cold[:-1])[here]
                colder = how_cold[here] if cost == "cold_python" else before
                self._noted_ns[cost].append((np.maximum(run_ns[here] - hot_ns, 0) / colder)[tiny])
                run_ns[here] = hot_ns
        return np.maximum(run_ns, 1)

    def _note_calls(self, bursts: Bursts, how_cold: NDArray[np.float64], kinds: Mapping[int, Call]) -> None:
        """Record the extra time of sends and receives after a long wait over hot ones, for calls that were measured.

        Of the receives, only those count that found their data: going to sleep and waking up is not part of the cost.
        """
        cold = (how_cold >= _ALL_COLD) & (2 * bursts.away_cpu_ns > bursts.away_ns)
        call = np.array([kinds[int(stack)] for stack in bursts.stack], dtype=object)
        for kind, name, hot in (
            (Call.SEND, "cold_send", ("send", "send_end")),
            (Call.RECEIVE, "cold_receive", ("receive_ready",)),
        ):
            hot_ns = sum(self._costs.median(one) for one in hot)
            self._noted_ns[name].append(np.maximum(bursts.away_cpu_ns[cold & (call == kind)] - hot_ns, 0.0))

    def own_costs(self) -> dict[str, tuple[float, ...]]:
        """Return the costs of cold code in this program, by the names of costs, if there are enough samples."""
        found = {}
        for name, samples in self._noted_ns.items():
            if len(together := np.concatenate(samples)) >= _FEW_SAMPLES:
                found[name] = quantiles(together)
        return found

    def _without_wakes(self, bursts: Bursts, posts: Sequence[int], how_cold: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the time of each burst without its wake-ups, which the simulator adds by itself.

        The wake-ups are that of the thread which waits for the hand-off, and those of threads that wait for the burst's
        posts.
        """
        wakes = bursts.handed + np.array(posts, dtype=np.int64)
        one_ns = sum(self._costs.median(name) for name in ("futex_wake", "futex_wake_end"))
        if self._cores != 1:
            one_ns += self._costs.median("futex_wake_idle")
        took_ns = wakes * one_ns + bursts.handed * self._costs.median("cold_futex_wake") * how_cold
        result: NDArray[np.int64] = np.maximum(bursts.run_ns - took_ns, _HOT_PART * bursts.run_ns).astype(np.int64)
        return result


def _how_cold(bursts: Bursts) -> NDArray[np.float64]:
    """Return how cold the code of each burst is when the burst begins."""
    idle_ns = np.append(0, bursts.begin_ns[1:] - bursts.end_ns[:-1])
    return np.array([coldness(one) for one in idle_ns.tolist()])


def _cooled(
    run_ns: NDArray[np.int64], hot_ns: NDArray[np.int64], tiny: NDArray[np.bool_], cold_ns: tuple[float, ...]
) -> NDArray[np.int64]:
    """Return how long the cold bursts of one place would run hot.

    If hot bursts are known, they give the time. Otherwise tiny bursts are assumed to do the same each time: the
    shortest one is nearest to hot, and the least cost of coldness is still subtracted from it.
    """
    if len(hot_ns) >= _FEW:
        least = float(np.median(hot_ns))
    else:
        lowest = float(np.percentile(run_ns, _LEAST_PERCENT))
        least = _HOT_PART * lowest
        if lowest - cold_ns[0] > _LEAST_PART * lowest:
            least = min(least, lowest - cold_ns[0])
    cooler = np.where(tiny, least, run_ns - cold_ns[len(cold_ns) // 2])
    result: NDArray[np.int64] = np.maximum(cooler, np.minimum(run_ns, least)).astype(np.int64)
    return result


def _a_little_cooled(
    run_ns: NDArray[np.int64], how_cold: NDArray[np.float64], cold_ns: tuple[float, ...]
) -> NDArray[np.int64]:
    """Return how long bursts of one place that ran slightly cold would run hot.

    The longer ones are assumed to have paid the larger costs. Otherwise the costs that the simulator draws would be
    added to a spread that such costs have made already.
    """
    rank = (np.argsort(np.argsort(run_ns, kind="stable"), kind="stable") + 0.5) / len(run_ns)
    paid_ns = np.interp(rank, np.linspace(0, 1, len(cold_ns)), cold_ns) * how_cold
    result: NDArray[np.int64] = np.maximum(run_ns - paid_ns, _HOT_PART * run_ns).astype(np.int64)
    return result
