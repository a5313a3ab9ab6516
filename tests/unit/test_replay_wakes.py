"""The threads that usually end the waits of a place, told from those that held the GIL then by chance."""

from collections import Counter

from made_turns import MS, US, trace_of, turn

from headway.sim.replay.bursts import see
from headway.sim.replay.wakes import find_wakes
from headway.traces.calls import Call

KINDS = {0: Call.UNKNOWN, 1: Call.RUN, 2: Call.LOCK}
WAITER, SOURCE, OTHER, STRANGER = range(4)


def wakes_of(ended, *, by_chance=(), late=(), roles=None, locks=()):
    """Return the wake-ups of a thread that waits again and again.

    Args:
        ended: The thread that ended each wait; -1: none held the GIL.
        by_chance: The numbers of the waits in which the stranger held the GIL between that and the waiter's return.
        late: The numbers of the waits that ended 2 ms before the waiter wanted the GIL again.
        roles: The roles of the threads.
        locks: The stacks at which threads wait for locks.
    """
    rows, now = [], 0
    for number, thread in enumerate(ended):
        rows += turn(now, WAITER, holds_us=10, stack=2)
        now += 5_000
        if thread >= 0:
            rows += turn(now - (2_000 if number in late else 90), thread, holds_us=30, stack=1)
        if number in by_chance:
            rows += turn(now - 50, STRANGER, holds_us=20, stack=1)
    rows += turn(now, WAITER, holds_us=10, stack=2)
    trace = trace_of(rows, names=("waiter", "source", "other", "stranger"))
    return find_wakes(see(trace, 0, 0, 1000 * MS), KINDS, 40 * US, None, roles, locks)


def wakers(ended, **more):
    """Return how many of the waiter's waits each thread ended, as the wake-ups have it."""
    return Counter(thread for (thread, _), posts in wakes_of(ended, **more).posts.items() for _ in posts)


def test_a_thread_that_is_there_in_nearly_all_waits_ended_them_all():
    """The stranger is nearer to the wake-up in 40 % of the waits, and ended none of them."""
    assert wakers([SOURCE] * 40, by_chance=range(0, 40, 5)) == {SOURCE: 40}
    assert wakers([SOURCE] * 40, by_chance=range(16)) == {SOURCE: 40}


def test_a_late_wake_up_is_also_the_sources():
    """The waiter had to wait for a core, and meanwhile the stranger had the GIL. Without a hold of the source, nobody did."""
    assert wakers([SOURCE] * 40, by_chance=(7,), late=(7,)) == {SOURCE: 40}
    assert wakers([*[SOURCE] * 39, -1], by_chance=(39,)) == {SOURCE: 39}


def test_each_of_several_usual_threads_ended_its_waits():
    """A thread that was there in half of the waits cannot have ended all."""
    assert wakers([SOURCE, OTHER] * 20) == {SOURCE: 20, OTHER: 20}


def test_a_role_that_is_seldom_there_ends_no_wait():
    """It is not the waker, whose wait another one's hold then ended, or nothing that is known."""
    halves = [SOURCE, OTHER] * 20
    assert wakers(halves, by_chance=(7,)) == {SOURCE: 20, OTHER: 20}
    assert wakers([*halves, -1], by_chance=(40,)) == {SOURCE: 20, OTHER: 20}


def test_the_threads_of_a_role_count_together():
    """A thread of a pool ends few of the waits that the pool ends."""
    roles = {WAITER: "waiter", SOURCE: "pool *", OTHER: "other", STRANGER: "pool *"}
    halves = [SOURCE, OTHER] * 20
    assert wakers([*halves, STRANGER], roles=roles) == {SOURCE: 20, OTHER: 20, STRANGER: 1}


def test_few_waits_show_no_usual_thread():
    """With few waits, the holder of one wake-up earlier stands."""
    assert wakers([SOURCE] * 8, by_chance=(3,)) == {SOURCE: 7, STRANGER: 1}


# ---------------------------------------------------------------------------- one semaphore for a queue
def test_the_next_item_of_a_queue_comes_from_any_of_its_sources():
    """Several threads that end the waits of a place have one semaphore; a single one has one for each wait, in order."""
    found = wakes_of([SOURCE, OTHER] * 20)
    assert found.count == 1
    assert set(found.takes.values()) == {0}
    assert len(found.takes) == 40

    alone = wakes_of([SOURCE] * 40)
    assert alone.count == len(set(alone.takes.values())) == 40


def test_a_wait_for_a_lock_has_a_semaphore_of_its_own():
    """Without those that held it, these waits are left out one by one."""
    assert wakes_of([SOURCE, OTHER] * 20, locks=(2,)).count == 40
