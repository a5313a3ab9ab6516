"""When the watcher looks at the system's account of a thread."""

from types import SimpleNamespace
from typing import cast

import pytest

from headway.live.options import Limits
from headway.live.ring import Ring
from headway.live.sampling import Stops
from headway.live.slots import HOLDING, IDLE
from headway.native import Laps

MS = 1_000_000


@pytest.fixture
def looks(monkeypatch):
    """Return a function that passes over the slots at some times, and returns when it looked at which thread."""
    found = []
    slots = []
    ring = object.__new__(Ring)
    monkeypatch.setattr(Ring, "slots", lambda _: slots)
    monkeypatch.setattr(Ring, "_have_room", lambda _: None)
    monkeypatch.setattr(Ring, "_sample", lambda *_: None)
    ring.laps = cast(Laps, SimpleNamespace(loops=()))
    ring._limits = Limits()
    ring._stops = cast(Stops, SimpleNamespace(look=lambda _: None))
    ring._long_waits, ring._queued_ns, ring._accounted = {}, {}, {}

    def passes(times_ms, now):
        found.clear()
        for now_ms in times_ms:
            slots[:] = now
            monkeypatch.setattr(Ring, "_account", lambda _, tid, t=now_ms, **__: found.append((t, tid)))
            ring.look(now_ms * MS)
        return found

    return passes


def slot(number, state, since_ms):
    return SimpleNamespace(serial=number, tid=100 + number, state=state, since_ns=since_ms * MS, worst_wait_ns=0)


def test_a_thread_that_stays_away_is_looked_at_ever_more_rarely(looks):
    """It may end right after that call, so that no look comes after the call: the last one is late in it."""
    found = looks(range(5, 10_000, 5), [slot(1, IDLE, 0)])

    assert [now_ms for now_ms, _ in found] == [10, 100, 150, 225, 340, 510, 765, 1150, 1725, 2590, 3885, 5830, 8745]


def test_a_thread_that_is_back_is_looked_at_once_more(looks):
    """The account has what the call ran, and its wait for a core. The next call begins anew."""
    looks(range(0, 300, 5), [slot(1, IDLE, 0)])

    assert looks(range(300, 305, 5), [slot(1, HOLDING, 299)]) == [(300, 101)]
    assert looks(range(305, 420, 5), [slot(1, IDLE, 303)]) == [(315, 101), (405, 101)]


def test_many_idle_threads_share_few_looks(looks):
    """They cost the watcher time, and the room of other evidence; each gets its look later."""
    idle = [slot(number, IDLE, 0) for number in range(12)]
    found = looks([10, 100, 105, 110, 115], idle)

    assert [sum(now == now_ms for now, _ in found) for now_ms in (10, 100, 105, 110, 115)] == [12, 4, 4, 4, 0]
    assert len({tid for now, tid in found if now > 10}) == 12
