"""How often the interval of a percentile of calls misses a known truth: independent calls, bursts, drift, two modes.

The percentile of each kind of calls is known from many more calls than a session has.
"""

import functools
import math
import zlib

import numpy as np
import pytest

from headway.measure import intervals
from headway.measure.decision import Basis, Level
from headway.measure.measured import percentile

SESSIONS = 150
CALLS = 6000


def lognormal(noise, count):
    """Return independent calls of about 1 ms."""
    return 1e-3 * noise.lognormal(0, 0.3, count)


def exponential(noise, count):
    """Return independent calls with an exponential tail."""
    return noise.exponential(1e-3, count)


def pareto(noise, count):
    """Return independent calls with a heavy tail."""
    return 1e-3 * (1 + noise.pareto(2.0, count))


def bursts(noise, count, *, share, number, dense=1.0):
    """Return calls of which bursts of random length are slow.

    Args:
        noise: The generator.
        count: The number of calls.
        share: The share of calls in bursts.
        number: The mean number of bursts in `CALLS` calls.
        dense: The share of a burst's calls that are slow.
    """
    calls = lognormal(noise, count)
    for _ in range(noise.poisson(number * count / CALLS)):
        length = max(1, int(noise.exponential(share * CALLS / number)))
        begin = noise.integers(-length, count)
        places = np.arange(max(0, begin), min(count, begin + length))
        places = places[noise.random(len(places)) < dense]
        calls[places] = 0.1 * noise.lognormal(0, 0.1, len(places))
    return calls


def modes(noise, count, *, stay):
    """Return calls that take twice as long for a while, in one of two modes."""
    calls, at, slow = lognormal(noise, count), 0, noise.random() < 0.5
    while at < count:
        length = 1 + int(noise.exponential(stay))
        calls[at : at + length] *= 2 if slow else 1
        at, slow = at + length, not slow
    return calls


def drifting(noise, count):
    """Return calls of which each next thousand takes 5 % longer; after `CALLS` calls it begins again."""
    return lognormal(noise, count) * np.exp(0.3 * (np.arange(count) % CALLS) / CALLS)


def seed(*what):
    return np.random.default_rng(zlib.crc32(repr(what).encode()))


def truth(kind, share):
    """Return the percentile of many calls, of which each part is a session of its own."""
    noise = seed("truth")
    return percentile(np.concatenate([kind(noise, 4 * CALLS) for _ in range(60)]).tolist(), share)


@functools.cache
def sessions(kind, count, share, launches=1):
    """Return the intervals of many sessions."""
    found = []
    for session in range(SESSIONS):
        noise = seed(session, count, launches)
        by_launch = [kind(noise, count // launches).tolist() for _ in range(launches)]
        found.append(intervals.percentile_of_calls(by_launch, share, of_launches=launches > 1)[0])
    return found


def allowed(most):
    """Return a number of sessions for a share of them, with the sampling error of so many sessions."""
    return SESSIONS * (most + 2.6 * math.sqrt(most * (1 - most) / SESSIONS))


@pytest.mark.parametrize(
    ("kind", "count", "share", "launches"),
    [
        (lognormal, CALLS, 0.5, 1),
        (lognormal, CALLS, 0.99, 1),
        (exponential, CALLS, 0.99, 1),
        (pareto, CALLS, 0.99, 1),
        (pareto, 1500, 0.99, 1),
        (exponential, 20 * 500, 0.99, 20),
        (pareto, 5 * 2000, 0.99, 5),
    ],
)
def test_intervals_of_independent_calls_hold_the_percentile(kind, count, share, launches):
    """A twentieth of the intervals miss the percentile at most, neither bound in most of them, and they are bounded."""
    found, known = sessions(kind, count, share, launches), truth(kind, share)

    assert sum(one.high < known for one in found) <= allowed(0.025)
    assert sum(one.low > known for one in found) <= allowed(0.025)
    assert sum(math.isinf(one.high) for one in found) <= SESSIONS * (0.2 if count < CALLS else 0.0)


LONG = functools.partial(bursts, share=0.02, number=8)
LOOSE = functools.partial(bursts, share=0.04, number=8, dense=0.5)
RARE = functools.partial(bursts, share=0.005, number=5)
NEAR = functools.partial(bursts, share=0.009, number=6)
MANY = functools.partial(bursts, share=0.01, number=60)


@pytest.mark.parametrize("kind", [LONG, LOOSE, RARE, NEAR, MANY], ids=["long", "loose", "rare", "near", "many"])
def test_bursts_make_no_percentile_seem_known(kind):
    """A twentieth of sessions at most claim falsely that a percentile is below a limit, or above it."""
    found, known = sessions(kind, CALLS, 0.99), truth(kind, 0.99)

    assert sum(one.high < known for one in found) <= allowed(0.05)
    assert sum(one.low > known for one in found) <= allowed(0.05)


def test_many_bursts_bound_a_percentile():
    """With sixty bursts in a session, nearly all sessions bound the percentile, so caution is not all that there is."""
    assert sum(math.isinf(one.high) for one in sessions(MANY, CALLS, 0.99)) < SESSIONS / 20


@pytest.mark.parametrize(
    ("kind", "share", "most"),
    [
        (drifting, 0.99, 0.05),
        (functools.partial(modes, stay=50), 0.5, 0.05),
        (functools.partial(modes, stay=200), 0.99, 0.05),
        (functools.partial(modes, stay=400), 0.99, 0.05),
    ],
)
def test_intervals_of_calls_that_drift_or_have_two_modes(kind, share, most):
    """A twentieth of the intervals miss the percentile at most."""
    found, known = sessions(kind, CALLS, share), truth(kind, share)

    assert sum(not one.low <= known <= one.high for one in found) <= allowed(most)


def test_one_burst_decides_nothing():
    """One burst of 2 % of the calls is no proof that the 99th percentile is below what it takes, nor above it."""
    calls = lognormal(seed("one"), CALLS)
    calls[2000:2120] = 0.1
    interval, times = intervals.percentile_of_calls([calls.tolist()], 0.99)
    level = Level("it", interval, Basis(CALLS, times_the_calls=times))

    assert interval.value == 0.1
    assert [one.outcome for one in (level.below(0.05), level.above(0.05), level.below(1.0))] == ["inconclusive"] * 3
    assert f"too few calls or bursts to bound it; about {math.ceil(10 * times) / 10:g} times as many" in repr(
        level.below(0.05)
    )
