"""Derives the costs of the simulated machine's operations from raw measurements.

The costs are those of enum hw_sim_cost of native/include/headway/simulate.h. A measurement is reduced to 21 equally
spaced quantiles in each round, and these to their medians over rounds: a `Digest`. A cost that cannot be measured by
itself is the rest of a measurement that includes it: a round trip of two threads on one core is two sleeps, two
wake-ups and two switches. If only such a sum is known, its parts are constants, split as the kernel's code suggests.
"""

import statistics
from collections.abc import Mapping, Sequence

import numpy as np

__all__ = ["ABOUT", "POINTS", "Digest", "combined", "digest", "model_costs", "tick_lengths"]

POINTS = 21
"""The number of quantiles in a digest: 0 %, 5 %, ... 100 %."""

Digest = Mapping[str, Sequence[float]]
"""For each measurement, its quantiles in ns; measurements that failed are missing."""

ABOUT: dict[str, str] = {
    "switch": "a core switches from one thread to another",
    "preempt_other": "from a wake-up until it preempts a thread on another core",
    "wake_idle": "from a wake-up until an idle core runs the thread",
    "wake_idle_middle": "the same, of a core that was idle for 0.2 ms and more",
    "wake_idle_long": "the same, of a core that was idle for 2 ms and more",
    "timer_interrupt": "time that a timer's interrupt takes from the running thread",
    "timer_late": "delay of a timer on a busy core, besides the slack",
    "timer_late_idle": "the same on an idle core",
    "timer_arm": "setting or cancelling the core's earliest timer",
    "timer_slack": "time that the kernel adds to the end of a sleep",
    "tick_interrupt": "time that a tick takes from the running thread",
    "futex_check": "futex wait that finds another value",
    "futex_sleep": "futex wait until the thread sleeps",
    "futex_sleep_timed": "the same with a time-out",
    "futex_woken": "from running again until the futex wait returns",
    "futex_woken_timed": "the same with a time-out",
    "futex_wake": "futex wake until the wake-up",
    "futex_wake_end": "... and after it",
    "futex_wake_idle": "... more if the core is idle",
    "futex_wake_none": "futex wake without a sleeping thread",
    "send": "send until the receiver is woken",
    "send_end": "... and after it",
    "send_idle": "... more if the receiver's core is idle",
    "receive_ready": "recv that finds its data",
    "receive_sleep": "recv until the thread sleeps",
    "receive_woken": "... from running again until it returns",
    "lock": "locking or unlocking without a system call",
    "cache_line": "access to data that another core wrote last",
    "check": "from a request for the GIL until the evaluation loop sees it",
    "pending": "from then until the GIL is released",
    "cold_send": "extra time of send after other work",
    "cold_receive": "extra time of recv after other work",
    "cold_futex_wake": "extra time of a futex wake after other work",
    "cold_futex_sleep": "extra time of a futex wait after other work, until another thread runs",
    "cold_pending": "extra time of a release of the GIL after other work",
    "cold_python": "extra time of the first Python code after a wait",
    "cold_python_next": "... and the code after the next call",
}
"""All costs, in the order of the enumeration, with their descriptions."""

_INTERFERENCE = 4
"""A quantile of this many times the median is due to other work on the machine."""

_SEND_SHARE = 0.6
"""The share of a send before the receiver is woken, and of a futex wait before the thread sleeps."""

_WAKE_SHARE = 0.4
"""The share of a futex wake before the wake-up."""

_RECEIVE_SHARE = 0.75
"""The share of a recv that finds its data which a woken recv still has to do."""

_LEAST_SWITCH_NS = 300.0
_LEAST_WAY_NS = 500.0
"""The least time from one core to another; a smaller figure is an artefact of the subtraction."""

_ONE_TICK_NS = 200_000
"""Interruptions that are closer together than this belong to one tick. A second has at most 1,200 ticks."""

_TRANSFERS = 4
"""Transfers of cache lines in a round trip: each side's write takes the line, and each side's read returns it."""


def digest(samples: Sequence[float]) -> tuple[float, ...]:
    """Return the quantiles of one or more samples."""
    return tuple(float(one) for one in np.quantile(np.asarray(samples, dtype=float), np.linspace(0, 1, POINTS)))


def combined(rounds: Sequence[Digest]) -> dict[str, tuple[float, ...]]:
    """Return, for each quantile, the median over the rounds."""
    names = dict.fromkeys(name for one in rounds for name in one)
    found = {name: [one[name] for one in rounds if name in one] for name in names}
    return {name: tuple(map(statistics.median, zip(*of, strict=True))) for name, of in found.items()}


def tick_lengths(gaps: Sequence[tuple[int, float, bool]]) -> list[float]:
    """Return the length of each tick's interruption, in ns: the longest of those that were close together at one tick.

    Args:
        gaps: Interruptions in order: the begin and the length, in ns, and whether it was at a tick.
    """
    found: list[float] = []
    last_ns = -_ONE_TICK_NS
    for start_ns, length_ns, at_tick in gaps:
        if not at_tick:
            continue
        if start_ns - last_ns < _ONE_TICK_NS:
            found[-1] = max(found[-1], length_ns)
        else:
            found.append(length_ns)
        last_ns = start_ns
    return found


def model_costs(raw: Digest, *, timer_slack_ns: float) -> dict[str, tuple[float, ...]]:
    """Derive all costs for which `raw` has the measurements.

    Args:
        raw: Digests by the names that `measuring.py` gives.
        timer_slack_ns: The timer slack of the threads that sleep.

    Returns:
        For each cost its quantiles in ns, in the order of ABOUT; a single value is a constant. Costs whose measurements
        are not in `raw` are missing.
    """
    deriver = _Deriver(raw, timer_slack_ns)
    found = {}
    for name in ABOUT:
        try:
            values = getattr(deriver, name)()
        except KeyError:  # the measurement is missing
            continue
        found[name] = (float(values),) if isinstance(values, (int, float)) else tuple(values)
    return found


class _Deriver:
    """One method for each cost, which returns a constant or quantiles, or raises KeyError without its measurement."""

    def __init__(self, raw: Digest, timer_slack_ns: float) -> None:
        self._raw = raw
        self._slack = timer_slack_ns

    def _median(self, name: str) -> float:
        return self._raw[name][POINTS // 2]

    def _spread(self, name: str, less: float = 0.0, *, least: float = 0.0, times: float = 1.0) -> list[float]:
        """Return the time of a measurement beyond `less`, multiplied by `times`, as quantiles from 5 % to 90 %.

        Higher quantiles, and those far above the median, are due to other programs or, on a virtual machine, to other
        virtual machines. The simulator has other programs of its own, if its machine is to be busy.
        """
        median = self._median(name)
        kept = [one for one in self._raw[name][1:-2] if one <= median or one < _INTERFERENCE * median]
        return [max(least, (one - less) * times) for one in kept]

    def _clock(self) -> float:
        return self._median("clock")

    def _parts(self) -> tuple[float, float, float]:
        """Return the cost of a futex wait without its switch, of a futex wake, and what a time-out adds to a wait."""
        check, none = self._median("futex_check"), self._median("futex_wake_none")
        round_trip, timed = (self._median(f"pair_{name}") - self._clock() for name in ("futex", "futex_timed"))
        rest = max(0.0, round_trip / 2 - self.switch() - check - none)
        return check + rest / 2, none + rest / 2, max(0.0, timed - round_trip)

    def switch(self) -> float:
        # One call of two threads that yield to each other takes two switches and both calls.
        return max(_LEAST_SWITCH_NS, (self._median("pair_yield") - self._clock()) / 2 - self._median("yield"))

    def preempt_other(self) -> list[float]:
        known = self.futex_wake() + self.switch() + self.futex_woken() + self._clock()
        return self._spread("futex_busy", known, least=_LEAST_WAY_NS)

    def _sent(self) -> float:
        """Return the known part of a byte's way to a sleeping thread."""
        woken = statistics.median(self.receive_woken())
        return _SEND_SHARE * (self._median("send") - self._clock()) + self.switch() + woken + self._clock()

    def wake_idle(self) -> list[float]:
        return self._spread("socket_idle", self._sent(), least=_LEAST_WAY_NS)

    def wake_idle_middle(self) -> list[float]:
        return self._after("middle")

    def wake_idle_long(self) -> list[float]:
        return self._after("long")

    def _after(self, gap: str) -> list[float]:
        # After such a long gap the send is cold, and the model adds that cost by itself.
        known = self._sent() + _SEND_SHARE * self._colder("socket", gap)
        return self._spread(f"socket_idle_{gap}", known, least=_LEAST_WAY_NS)

    def _colder(self, way: str, gap: str) -> float:
        """Return how much longer a call that wakes a thread takes after a gap."""
        return max(0.0, self._median(f"{way}_busy_{gap}_call") - self._median(f"{way}_busy_call"))

    def timer_interrupt(self) -> list[float]:
        return self._spread("interrupt", self._clock())

    def timer_late(self) -> list[float]:
        known = self._slack + self._median("interrupt") + self.switch() + self.futex_woken_timed()
        return self._spread("timer_busy", known)

    def timer_late_idle(self) -> list[float]:
        return self._spread("timer_idle", self._slack + self.switch() + self.futex_woken_timed(), least=_LEAST_WAY_NS)

    def timer_arm(self) -> float:
        # A timer behind the next tick does not change the hardware timer.
        more = [self._median(f"timer_{what}_near") - self._median(f"timer_{what}_far") for what in ("set", "cancel")]
        return max(0.0, statistics.mean(more))

    def timer_slack(self) -> float:
        return self._slack

    def tick_interrupt(self) -> list[float]:
        return self._spread("tick", self._clock())

    def futex_check(self) -> list[float]:
        return self._spread("futex_check")

    def futex_sleep(self) -> float:
        return self._parts()[0] * _SEND_SHARE

    def futex_sleep_timed(self) -> float:
        wait, _, timed = self._parts()
        return (wait + timed) * _SEND_SHARE

    def futex_woken(self) -> float:
        return self._parts()[0] * (1 - _SEND_SHARE)

    def futex_woken_timed(self) -> float:
        wait, _, timed = self._parts()
        return (wait + timed) * (1 - _SEND_SHARE)

    def futex_wake(self) -> float:
        return self._parts()[1] * _WAKE_SHARE

    def futex_wake_end(self) -> float:
        return self._parts()[1] * (1 - _WAKE_SHARE)

    def futex_wake_idle(self) -> list[float]:
        return self._spread("futex_idle_call", self._parts()[1] + self._clock())

    def futex_wake_none(self) -> list[float]:
        return self._spread("futex_wake_none")

    def send(self) -> list[float]:
        return self._spread("send", self._clock(), times=_SEND_SHARE)

    def send_end(self) -> list[float]:
        return self._spread("send", self._clock(), times=1 - _SEND_SHARE)

    def send_idle(self) -> list[float]:
        return self._spread("socket_idle_call", self._median("send"))

    def receive_ready(self) -> list[float]:
        return self._spread("receive", self._clock())

    def receive_sleep(self) -> list[float]:
        return self._spread("receive_none", self._clock())

    def receive_woken(self) -> list[float]:
        return self._spread("receive", self._clock(), times=_RECEIVE_SHARE)

    def lock(self) -> list[float]:
        return self._spread("lock", times=0.5)

    def cache_line(self) -> list[float]:
        return self._spread("pair_cache_line", times=1 / _TRANSFERS)

    def check(self) -> list[float]:
        # The loop checks for requests once a round, and a request comes at any time within a round.
        return [0.0, self._median("python_loop")]

    def pending(self) -> float:
        # The measurement adds a call and then answers it; each is half of the time.
        return max(0.0, (self._median("python_hot_pending") - self._median("python_hot_direct")) / 2)

    def cold_send(self) -> list[float]:
        return self._spread("python_cold_send", self._median("python_hot_send"))

    def cold_receive(self) -> list[float]:
        return self._spread("python_cold_receive", self._median("python_hot_receive"))

    def cold_futex_wake(self) -> list[float]:
        return self._spread("futex_busy_long_call", self._median("futex_busy_call"))

    def cold_futex_sleep(self) -> list[float]:
        return self._spread("pair_futex_cold", self._median("pair_futex") + self._colder("futex", "long"))

    def cold_pending(self) -> list[float]:
        # Half of it, as for `pending`. The extra time of any cold call is not included.
        hot = self._median("python_hot_pending") - self._median("python_hot_direct")
        return self._spread("python_cold_pending", self._median("python_cold_direct") + hot, times=0.5)

    def cold_python(self) -> list[float]:
        return self._spread("python_cold_work", self._median("python_hot_work"))

    def cold_python_next(self) -> list[float]:
        return self._spread("python_cold_work_next", self._median("python_hot_work"))
