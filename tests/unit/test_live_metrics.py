"""Metrics by role: names, totals that never go back, and what Prometheus is given."""

import pytest
from live_image import make_snapshot

from headway.live import metrics
from headway.live.metrics import OTHER, normalised


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("MainThread", "MainThread"),
        ("ThreadPoolExecutor-0_3", "ThreadPoolExecutor-0"),
        ("Thread-7 (worker)", "worker"),
        ("Thread-7", "Thread"),
        ("Dummy-3", "Dummy"),
        ("asyncio_4", "asyncio"),
        ("worker-12", "worker"),
        ("thread 4711", "thread"),
        ("7", "7"),
    ],
)
def test_roles_are_names_without_numbers(name, role):
    """What numbers a thread is no part of its role."""
    assert normalised(name) == role


def totals(roles):
    return {role: (one.hold_ns, one.wait_ns, one.voluntary, one.forced) for role, one in roles.totals.items()}


def test_threads_of_one_role_add_up():
    """A role has the sum of its threads; the hold in progress is no release yet."""
    roles = metrics._Roles(normalised, 20)
    roles.add(
        make_snapshot(
            100,
            {"serial": 1, "name": "w-1", "hold_ns": 5, "holds": 4, "forced": 1, "wait_ns": 2},
            {"serial": 2, "name": "w-2", "hold_ns": 5, "holds": 4, "state": "holding", "since_ns": 90},
        )
    )

    assert totals(roles) == {"w": (20, 2, 6, 1)}


def test_totals_stay_when_a_thread_goes():
    """The totals of a thread that ended stay its role's, and the next in its slot adds to them."""
    roles = metrics._Roles(normalised, 20)
    roles.add(make_snapshot(100, {"serial": 1, "name": "w-1", "hold_ns": 50, "holds": 3}))
    roles.add(make_snapshot(200, {"serial": 1, "name": "w-1", "hold_ns": 70, "holds": 5, "state": "exited"}))
    roles.add(make_snapshot(300, {"serial": 2, "name": "w-2", "hold_ns": 1, "holds": 1}))
    roles.add(make_snapshot(400))

    assert totals(roles) == {"w": (71, 0, 6, 0)}


def test_totals_never_go_back():
    """A torn reading, another name and another recording take nothing away, and nothing is counted twice."""
    roles = metrics._Roles(normalised, 20)
    for hold, name, start in [(50, "a", 1), (40, "a", 1), (55, "a", 1), (60, "b", 1), (10, "a", 2)]:
        roles.add(make_snapshot(100, {"serial": 1, "name": name, "hold_ns": hold}, start_ns=start))

    assert {role: one[0] for role, one in totals(roles).items()} == {"a": 65, "b": 5}


def test_there_are_only_so_many_roles():
    """Threads with one role too many are `other`, which is one of the allowed."""
    roles = metrics._Roles(lambda name: name, 3)
    roles.add(make_snapshot(100, *({"serial": n, "name": f"n{n}", "hold_ns": 1} for n in range(1, 8))))

    assert {role: one[0] for role, one in totals(roles).items()} == {"n1": 1, "n2": 1, OTHER: 5}


def test_the_histogram_is_cumulative():
    """Buckets have bounds in seconds, each with all waits below; its sum leaves out the wait in progress."""
    roles = metrics._Roles(normalised, 20)
    roles.add(
        make_snapshot(
            1000,
            {
                "serial": 1,
                "name": "w",
                "wait_ns": 900,
                "state": "waiting",
                "since_ns": 0,
                "waits_of": {10: 2, 11: 1, 39: 1},
            },
        )
    )
    one = roles.totals["w"]

    bounds = dict(metrics._cumulative(one.wait_buckets))
    assert (one.wait_ns, one.ended_wait_ns) == (1900, 900)
    assert bounds["1.024e-06"] == 2
    assert bounds["4.096e-06"] == 3
    assert bounds["1.073741824"] == 3
    assert bounds["+Inf"] == 4


def test_no_role_at_all_is_an_error():
    """There must be room for one role."""
    with pytest.raises(ValueError, match="max_roles is 0"):
        metrics.GilCollector(max_roles=0)
