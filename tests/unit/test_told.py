"""Which stalls of a process are reported."""

import pytest

from headway.live.told import Told

S = 1_000_000_000


@pytest.mark.parametrize(
    ("length_s", "goes_on", "is_news"),
    [(1, True, False), (8, True, False), (10, True, True), (1, False, True), (10, False, True)],
)
def test_a_stall_is_reported_once_until_it_has_grown_or_is_over(length_s, goes_on, is_news):
    """A stall in progress is no news unless it is ten times as long; its end always is."""
    told = Told()
    assert told.add(7, 5, 1 * S, goes_on=True)

    assert told.add(7, 5, length_s * S, goes_on=goes_on) is is_news
    assert told.add(7, 6, 1 * S, goes_on=True), "another stall of the thread"


def test_a_stall_that_is_over_is_reported_once():
    """A recording may show a stall that an earlier one showed."""
    told = Told()
    assert told.add(7, 5, 1 * S, goes_on=False)

    assert told.is_known(7, 5)
    assert not told.add(7, 5, 1 * S, goes_on=False)
    assert not told.add(7, 5, 100 * S, goes_on=True)
    assert not told.has_unended


def test_of_very_many_stalls_the_oldest_that_are_over_are_forgotten():
    """A service that stalls all the time fills no memory, and a request that hangs is not forgotten for others."""
    told = Told({"1:1": S, **{f"2:{number}": 0 for number in range(4096)}})
    told.update({"3:1": 0})

    assert len(told.lengths_ns) == 4096
    assert told.is_known(1, 1)
    assert not told.is_known(2, 0)
    assert told.is_known(3, 1)
    assert told.has_unended


def test_all_stalls_of_one_hold_are_known():
    """Thousands of threads may have waited for one hold, and the next recording shows their waits again."""
    told = Told()
    told.update({f"{number}:5": 0 for number in range(5000)})
    told.update({"1:6": 0})

    assert all(told.is_known(number, 5) for number in range(1000, 5000))
    assert not told.add(4999, 5, S, goes_on=False)


def test_the_oldest_stall_that_goes_on():
    """The watcher keeps what it has seen since that begin, because the cause needs it."""
    told = Told({"1:9": S, "2:7": 0, "3:8": S})

    assert told.oldest_ns == 8
    assert Told().oldest_ns == 0
