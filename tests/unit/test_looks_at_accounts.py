"""The watcher's looks at the system's account of threads: what is read, and what of it is believed."""

import os
import threading
import time
from pathlib import Path

import pytest

from headway.live.sampling import Accounts, _state_in

MS = 1_000_000


def test_the_kernel_tells_what_a_thread_sleeps_for():
    """A thread that waits for a lock sleeps in a futex; one that sleeps for a time does not."""
    if not Path("/proc/self/syscall").exists():
        pytest.skip("this kernel does not tell system calls")
    lock = threading.Lock()
    accounts = Accounts(os.getpid())
    with lock:
        waiting = threading.Thread(target=lock.acquire)
        sleeping = threading.Thread(target=time.sleep, args=(5,), daemon=True)
        for one in (waiting, sleeping):
            one.start()
        until, found = time.monotonic() + 60, [False, False]
        while found != [True, False] and time.monotonic() < until:  # a thread that waits for the GIL is in a futex, too
            time.sleep(0.01)
            found = [accounts.sleeps_in_a_futex(one.native_id, 1) for one in (waiting, sleeping)]
    waiting.join()

    assert found == [True, False]
    assert not accounts.sleeps_in_a_futex(1 << 30, 1)


def test_a_holder_that_waits_for_a_core_is_seen_while_it_waits(monkeypatch):
    """The kernel counts a wait for a core when it is over; a thread that could run, and whose account stands still, waits."""
    accounts = Accounts(os.getpid())
    rows = {"ran": 5 * MS, "queued": 7 * MS}
    state = [b"R"]
    monkeypatch.setattr(os, "pread", lambda *_: b"%d %d 1\n" % (rows["ran"], rows["queued"]))
    monkeypatch.setattr(Accounts, "_state_of", lambda *_: state[0])

    def queued_ms(ms, *, holds=True):
        return accounts.of(threading.get_native_id(), ms * MS, holds=holds).queued_ns // MS

    assert [queued_ms(ms) for ms in (100, 110, 130, 200)] == [7, 7, 37, 107]
    assert queued_ms(210, holds=False) == 7
    rows["queued"] = 117 * MS  # the wait is over
    assert [queued_ms(ms) for ms in (220, 225)] == [117, 117]
    state[0], rows["ran"] = b"S", 9 * MS
    assert [queued_ms(ms) for ms in (230, 300, 400)] == [117, 117, 117]


@pytest.mark.parametrize(("awake_ms", "counted_ms"), [(390, 10), (300, 100), (110, 290)])
@pytest.mark.parametrize("holds", [True, False])
def test_a_sleep_that_the_kernel_counts_as_a_wait_for_a_core_is_none(monkeypatch, awake_ms, counted_ms, holds):
    """A thread that was seen asleep did not wait for a core before; Linux 6.12 and later may say so."""
    accounts = Accounts(os.getpid())
    rows, now = {"ran": 5 * MS, "queued": 7 * MS}, [90 * MS]
    monkeypatch.setattr(os, "pread", lambda *_: b"%d %d 1\n" % (rows["ran"], rows["queued"]))
    monkeypatch.setattr(Accounts, "_state_of", lambda *_: b"S" if now[0] < awake_ms * MS else b"R")
    monkeypatch.setattr(time, "monotonic_ns", lambda: now[0])

    def queued_ns():
        now[0] += 10 * MS
        return accounts.of(threading.get_native_id(), now[0], holds=holds).queued_ns

    before = [queued_ns() for _ in range(30)]
    rows["queued"] = 299 * MS  # at 400 ms, 292 ms more
    after = []
    for _ in range(5):
        rows["ran"] += 10 * MS
        after.append(queued_ns())
    late_ns = 10 * MS + (awake_ms - 100) * MS // 8  # it is not looked at again and again

    assert holds or set(before) == {7 * MS}
    assert 7 * MS + counted_ms * MS <= after[0] <= min(299 * MS, 7 * MS + counted_ms * MS + late_ns)
    assert set(after) == {after[0]}


@pytest.mark.parametrize(("late_ms", "looked_ms"), [((0,), 100), ((1500, 0), 1600), ((900, 900, 900), 1900)])
def test_an_account_that_was_read_late_is_read_again(monkeypatch, late_ms, looked_ms):
    """An account has the time at which it was read, though its reader had lost its core after the look at the clock."""
    clock, late = [100 * MS], list(late_ms)

    def account(*_):
        clock[0] += late.pop(0) * MS
        return b"%d 0 1\n" % clock[0]

    monkeypatch.setattr(os, "pread", account)
    monkeypatch.setattr(time, "monotonic_ns", lambda: clock[0])
    seen = Accounts(os.getpid()).now(threading.get_native_id())

    assert (seen.time_ns, late) == (looked_ms * MS, [])


def test_the_state_of_a_thread_is_told():
    """A thread that looks at itself runs; there is none of a thread that is not there, nor a name that confuses it."""
    accounts = Accounts(os.getpid())

    assert accounts._state_of(threading.get_native_id(), 1) == b"R"
    assert accounts._state_of(1 << 30, 1) == b""
    assert _state_in(b"12 (a) R) S 1 2 3") == b"S"
