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


def test_the_oldest_are_forgotten():
    """A service that stalls all the time fills no memory."""
    told = Told({"1:1": 0})
    told.update({f"2:{number}": S for number in range(256)})

    assert len(told.lengths_ns) == 256
    assert not told.is_known(1, 1)
    assert told.has_unended
