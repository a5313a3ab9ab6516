"""Open loads: calls that begin at fixed times, whether or not earlier ones have ended.

Each call's latency counts from its time. If this process cannot begin calls as fast as they are asked for, or if their
begins wait for the loop or the GIL, latencies include that, so it is told (`told_of_begins`).
"""

import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, final

from headway.measure import intervals, loops, work
from headway.measure.alarm import Alarm
from headway.measure.rounds import Begins, Round, Target, Watch

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["Open", "told_of_begins"]

_STRETCHES = 5
_LEAD_NS = 1_000_000
"""The time from the start of an open load to its first call."""
_LATE_NS = 1_000_000
"""A call that begins so much after its time is late; an idle loop takes 0.1 to 0.3 ms to wake up."""
_LATE_SHARE = 0.01
"""The share of late calls that is told: it moves the 99th percentile."""


def told_of_begins(rounds: Sequence[Begins]) -> str:
    """Return a sentence about calls that began late, as part of their latencies is no time of theirs; "" if few did."""
    calls, late = sum(one.calls for one in rounds), sum(one.late for one in rounds)
    if late <= _LATE_SHARE * calls:
        return ""
    gaps = sum(one.calls - 1 for one in rounds)
    asked, began = (
        gaps * 1e9 / max(1, sum(took)) for took in ([r.asked_ns for r in rounds], [r.took_ns for r in rounds])
    )
    rates = f": {asked:,.0f} calls/s were asked for, and {began:,.0f} began" if gaps else ""
    latest_s = max(one.latest_ns for one in rounds) / 1e9
    return (
        f"{100 * late / calls:.0f} % of the calls began over 1 ms late, by up to {latest_s:.2g} s, "
        f"which is in their latencies{rates}"
    )


@final
class _Begun:
    """Notes when calls begin."""

    def __init__(self, times: Sequence[int]) -> None:
        self._first, self._last, self._calls = times[0], times[-1], len(times)
        self._late = self._latest_ns = self._ended = 0

    def note(self, intended: int) -> None:
        """Note that a call begins now."""
        self._ended = work.now_ns()
        late_ns = self._ended - intended
        if late_ns > _LATE_NS:
            self._late += 1
            self._latest_ns = max(self._latest_ns, late_ns)

    @property
    def found(self) -> Begins:
        """The begins that were noted."""
        asked_ns = self._last - self._first
        return Begins(self._calls, self._late, self._latest_ns, self._ended - self._first, asked_ns)


@final
class Open:
    """Calls that begin at fixed times, whether or not earlier ones have ended; latency counts from the fixed time.

    Plain functions are called by `workers` threads. If all are busy, a call waits for one, and the wait is in its
    latency.
    """

    def __init__(self, target: Target, rate_per_s: float, workers: int, watch: Watch) -> None:
        self._target, self._rate_per_s, self._watch = target, rate_per_s, watch
        from concurrent.futures import ThreadPoolExecutor

        self._pool = None if target.is_async else ThreadPoolExecutor(workers)

    def once(self, calls: int) -> Round | Awaitable[Round]:
        """Begin the calls at their times, and wait for the last one."""
        return self._awaited(calls) if self._target.is_async else self._threaded(calls)

    def _times(self, calls: int) -> list[int]:
        begin = work.now_ns() + _LEAD_NS
        return [begin + int(place / self._rate_per_s * 1e9) for place in range(calls)]

    def _threaded(self, calls: int) -> Round:
        assert self._pool is not None
        times, target, watch = self._times(calls), self._target, self._watch

        def one() -> tuple[int, int, int, int]:
            before, begun = watch.read(), work.now_ns()
            target.function(*target.args, **target.kwargs)
            ended = work.now_ns()
            return ended, ended - begun, *watch.since(before)

        begun, answers = _Begun(times), []
        waited_for: deque[Future[tuple[int, int, int, int]]] = deque()
        # Nothing sets this event: its timed wait is the finest sleep that threads have.
        never = threading.Event()
        for intended in times:
            left_ns = intended - work.now_ns()
            if left_ns > 0:
                never.wait(left_ns / 1e9)
            begun.note(intended)
            waited_for.append(self._pool.submit(one))
            # A future takes many times the memory of its answer.
            while waited_for and waited_for[0].done():
                answers.append(waited_for.popleft().result())
        answers += [future.result() for future in waited_for]
        # Shares are of the calls' own time: an idle worker waits for nothing.
        _, took_ns, held, waited = (sum(one[place] for one in answers) for place in range(4))
        return self._round(times, [ended for ended, *_ in answers], begun.found, took_ns, held, waited)

    async def _awaited(self, calls: int) -> Round:
        times, target = self._times(calls), self._target
        before, began_ns, begun = self._watch.read(), work.now_ns(), _Begun(times)

        async def one() -> int:
            await target.function(*target.args, **target.kwargs)
            return work.now_ns()

        async def begin_all(begin: Callable[[loops.Task], None]) -> None:
            with Alarm() as alarm:
                for intended in times:
                    await alarm.until(intended)
                    begun.note(intended)
                    begin(one)

        ended = await loops.gathered(begin_all)
        took_ns = work.now_ns() - began_ns
        return self._round(times, ended, begun.found, took_ns, *self._watch.since(before))

    def _round(
        self, times: list[int], ended: list[int], begins: Begins, watched_ns: int, held: int, waited: int
    ) -> Round:
        latencies = [end - intended for intended, end in zip(times, ended, strict=True)]
        stretches = map(sorted, intervals.parts(latencies, min(_STRETCHES, len(latencies))))
        medians = tuple(one[len(one) // 2] / 1e9 for one in stretches)
        shares = self._watch.shares(held, waited, watched_ns)
        return Round(max(ended) - times[0], len(latencies), latencies, shares[0], shares[1], medians, begins)

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
