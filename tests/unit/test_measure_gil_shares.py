"""The shares of the GIL in a benchmark's time, with and without one."""

import pytest

from headway.measure import rounds


@pytest.mark.parametrize(("enabled", "shares"), [(True, (0.25, 0.5)), (False, (0.0, 0.0))])
def test_without_a_gil_nothing_is_held_or_waited_for(monkeypatch, enabled, shares):
    """The counters have waits for locks then: a test on the time waited for the GIL is no test of these."""
    watch = rounds.Watch(wanted=False)
    watch._times = lambda: (25, 50)
    monkeypatch.setattr(rounds, "gil_enabled", lambda: enabled)
    assert watch.shares(25, 50, 100) == shares


def test_a_gil_that_is_not_measured_has_no_shares(monkeypatch):
    """That holds without a GIL, too: nobody has asked for them."""
    monkeypatch.setattr(rounds, "gil_enabled", lambda: False)
    assert rounds.Watch(wanted=False).shares(25, 50, 100) == (None, None)
