"""Counters of threads: the contents of a snapshot, and the rates between two of them."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from live_image import make_snapshot

from headway.live.beginnings import UNKNOWN
from headway.live.counters import difference, percentile
from headway.traces import format as hwt

S = 10**9


def rates_of(rates, serial):
    return next(one for one in rates.threads if one.now.serial == serial)


def test_what_goes_on_counts():
    """A hold and a wait in progress count in the times, and in nothing that ended."""
    snapshot = make_snapshot(
        500,
        {"serial": 1, "state": "holding", "since_ns": 400, "hold_ns": 1000, "holds": 3},
        {"serial": 2, "state": "waiting", "since_ns": 450, "wait_ns": 70, "waits": 1, "worst_wait_ns": 70},
    )

    holder, waiter = snapshot.threads
    assert (holder.hold_ns, holder.state_ns, holder.holds) == (1100, 100, 3)
    assert (waiter.wait_ns, waiter.waits, waiter.worst_wait_ns) == (120, 1, 70)


def test_a_state_that_begins_after_the_reading_has_lasted_no_time():
    """A state that begins after the clock's reading has lasted 0, and never a negative time."""
    (thread,) = make_snapshot(500, {"serial": 1, "state": "holding", "since_ns": 501, "hold_ns": 7}).threads

    assert (thread.state_ns, thread.hold_ns) == (0, 7)


def test_names_are_kept_as_they_are():
    """Names are kept as they are, because the display escapes them; a thread without a name has its id."""
    named, nameless = make_snapshot(
        1, {"serial": 1, "name": "a\x1b[2Jb\n"}, {"serial": 2, "name": "", "tid": 42}
    ).threads

    assert (named.name, nameless.name) == ("a\x1b[2Jb\n", "thread 42")


def test_rates_are_of_the_time_between():
    """Shares and rates are differences divided by the wall time, and the last holder has the GIL."""
    old = make_snapshot(1 * S, {"serial": 1, "hold_ns": 5 * S, "holds": 10, "waits": 4, "wait_ns": S, "forced": 1})
    new = make_snapshot(
        3 * S,
        {
            "serial": 1,
            "state": "holding",
            "since_ns": 3 * S - 1000,
            "hold_ns": 6 * S - 1000,
            "holds": 30,
            "waits": 14,
            "wait_ns": S + S // 2,
            "forced": 5,
        },
    )

    rates = difference(old, new)

    one = rates_of(rates, 1)
    assert (one.hold_share, one.wait_share) == (0.5, 0.25)
    assert (one.holds_per_s, one.waits_per_s, one.forced_per_s) == (10, 5, 2)
    (gil,) = rates.gils
    assert (gil.index, gil.utilisation, gil.handovers_per_s, gil.holder.serial) == (0, 0.5, 10, 1)


def test_two_gils_are_two():
    """Each GIL has its own utilisation and holder."""
    old = make_snapshot(0, {"serial": 1}, {"serial": 2, "gil": 3})
    new = make_snapshot(
        S, {"serial": 1, "hold_ns": S // 2, "holds": 1}, {"serial": 2, "gil": 3, "hold_ns": S // 4, "holds": 1}
    )

    assert [(gil.index, gil.utilisation, gil.holder) for gil in difference(old, new).gils] == [
        (0, 0.5, None),
        (3, 0.25, None),
    ]


def test_of_two_holders_the_later_one_holds():
    """The GIL belongs to the later holder if one hold's end and the next one's beginning were read together."""
    both = [
        {"serial": 1, "state": "holding", "since_ns": 10, "holds": 1},
        {"serial": 2, "state": "holding", "since_ns": 20, "holds": 1},
    ]

    (gil,) = difference(make_snapshot(0), make_snapshot(30, *both)).gils

    assert gil.holder.serial == 2


def test_a_slot_with_another_serial_is_another_thread():
    """A thread that took an ended thread's slot starts at 0; one thread came and one went."""
    old = make_snapshot(0, {"serial": 1, "hold_ns": 9 * S, "holds": 900})
    new = make_snapshot(S, {"serial": 2, "hold_ns": S // 10, "holds": 5})

    rates = difference(old, new)

    assert rates_of(rates, 2).hold_share == 0.1
    assert [one.serial for one in rates.came] == [2]
    assert [one.serial for one in rates.went] == [1]


@pytest.mark.parametrize(("began_ns", "came"), [(S - 1, []), (S + 1, [1]), (UNKNOWN, [])])
def test_a_thread_that_had_no_counters_yet_came_only_if_it_began_meanwhile(began_ns, came):
    """A thread has counters from its first event on, which an old thread may have after the first reading."""
    new = replace(make_snapshot(2 * S, {"serial": 1}), began_ns={1: began_ns})

    assert [one.serial for one in difference(make_snapshot(S), new).came] == came


def test_threads_that_ended_count_while_their_counters_stand():
    """A GIL's utilisation includes threads that ended, also those that came and went in between."""
    old = make_snapshot(0, {"serial": 1, "hold_ns": 5}, {"serial": 2, "state": "exited", "hold_ns": 77})
    new = make_snapshot(
        1000,
        {"serial": 1, "state": "exited", "hold_ns": 105},
        {"serial": 2, "state": "exited", "hold_ns": 77},
        {"serial": 3, "state": "exited", "hold_ns": 200},
        {"serial": 4, "hold_ns": 400, "holds": 1},
    )

    assert difference(old, new).gils[0].utilisation == pytest.approx(0.7)


def test_counters_that_went_back_make_no_negative_rates():
    """A torn reading gives rates of 0, and never less."""
    old = make_snapshot(0, {"serial": 1, "hold_ns": 100, "wait_ns": 100, "holds": 9, "waits": 9, "forced": 9})
    new = make_snapshot(S, {"serial": 1, "hold_ns": 50, "wait_ns": 50, "holds": 8, "waits": 8, "forced": 8})

    one = rates_of(difference(old, new), 1)
    assert (one.hold_share, one.wait_share, one.holds_per_s, one.waits_per_s, one.forced_per_s) == (0, 0, 0, 0, 0)


def test_buckets_wrap_around():
    """A 32-bit bucket that overflowed has counted on."""
    old = make_snapshot(0, {"serial": 1, "waits_of": {10: 2**32 - 1}, "worst_wait_ns": 1000})
    new = make_snapshot(S, {"serial": 1, "waits_of": {10: 3}, "worst_wait_ns": 1000})

    assert 512 <= rates_of(difference(old, new), 1).wait_p50_ns <= 1000


def test_percentiles_are_of_the_waits_between():
    """Waits before the first snapshot do not count."""
    old = make_snapshot(0, {"serial": 1, "waits_of": {30: 1000}, "worst_wait_ns": 2**30 - 1})
    new = make_snapshot(S, {"serial": 1, "waits_of": {30: 1000, 11: 99, 21: 1}, "worst_wait_ns": 2**30 - 1})

    one = rates_of(difference(old, new), 1)
    assert 2**10 <= one.wait_p50_ns < 2**11
    assert 2**10 <= one.wait_p99_ns <= 2**11
    assert one.worst_wait_ns == 2**21  # not the worst ever, so the upper end of its bucket


def test_the_worst_wait_is_exact_where_it_is_the_worst_ever():
    """A new worst wait is exact, and no percentile exceeds it."""
    old = make_snapshot(0, {"serial": 1, "worst_wait_ns": 600, "waits_of": {10: 1}})
    new = make_snapshot(S, {"serial": 1, "worst_wait_ns": 1100, "waits_of": {10: 1, 11: 1}})

    one = rates_of(difference(old, new), 1)
    assert (one.worst_wait_ns, one.wait_p99_ns) == (1100, 1100)


def test_a_wait_in_progress_is_the_worst():
    """A wait that is longer than all before is the worst even before it ends."""
    new = make_snapshot(9 * S, {"serial": 1, "state": "waiting", "since_ns": S, "worst_wait_ns": 5})

    assert rates_of(difference(make_snapshot(0), new), 1).worst_wait_ns == 8 * S


def test_who_waits_not_has_no_percentiles():
    """A thread without waits has no percentiles."""
    one = rates_of(difference(make_snapshot(0), make_snapshot(S, {"serial": 1})), 1)

    assert (one.wait_p50_ns, one.wait_p99_ns, one.worst_wait_ns) == (None, None, 0)


def test_snapshots_of_two_recordings_have_no_difference():
    """Serials of another recording are other threads, so the difference is an error."""
    with pytest.raises(ValueError, match="different recordings"):
        difference(make_snapshot(0), make_snapshot(S, start_ns=5))


def test_without_a_gil_there_is_none():
    """A free-threaded process has no GILs, unless the GIL is on."""
    flags = hwt.FREE_THREADED
    off = difference(make_snapshot(0, flags=flags), make_snapshot(S, {"serial": 1, "holds": 1}, flags=flags))
    flags |= hwt.GIL_ENABLED
    on = difference(make_snapshot(0, flags=flags), make_snapshot(S, {"serial": 1, "holds": 1}, flags=flags))

    assert (len(off.gils), len(on.gils)) == (0, 1)


@given(st.lists(st.integers(1, 2**34), min_size=1, max_size=60), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_percentile_is_off_by_less_than_a_factor_of_two(waits, share):
    """The estimate lies in the bucket of the true value (nearest rank)."""
    buckets = [0] * hwt.BUCKETS
    for wait in waits:
        buckets[wait.bit_length()] += 1
    true = sorted(waits)[math.ceil(share * len(waits)) - 1]

    estimate = percentile(buckets, share)

    assert true / 2 < estimate <= true * 2
