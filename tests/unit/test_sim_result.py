"""The results of simulated runs, and their summary over seeds."""

import numpy as np
import pytest

from headway.native_sim import GilResult, RoleResult
from headway.sim.result import Outcome, gil_outcome, part_outcome
from headway.sim.summary import Spread, summarise
from headway.traces.model import Flag, Kind

NOTHING = RoleResult(0, 0, 0, 0, 0, 0, 0, 0)


def part(latencies_ms, results=(NOTHING,), threads=1):
    latencies = np.array(latencies_ms, dtype=np.float32) * 1e6
    return part_outcome("a", client=False, threads=threads, results=results, latencies_ns=latencies, elapsed_ns=10**9)


def test_percentiles_are_of_the_nearest_rank():
    """The p-th percentile is the least time that p of the pieces took or less, whatever their order."""
    found = part(np.random.default_rng(1).permutation(np.arange(1, 1001)))

    assert (found.p50_ms, found.p90_ms, found.p99_ms, found.max_ms) == (500.0, 900.0, 990.0, 1000.0)


@pytest.mark.parametrize(("count", "told"), [(0, 0), (1, 2), (29, 2), (30, 3), (299, 3), (300, 4)])
def test_percentiles_of_few_pieces_are_not_told(count, told):
    """A p99 needs 300 pieces, a p90 needs 30."""
    found = part(range(1, count + 1))

    assert sum(one is not None for one in (found.p50_ms, found.p90_ms, found.p99_ms, found.max_ms)) == told


def test_a_role_in_several_processes_is_added_up():
    """A role's counts and times are sums, its worst wait is the worst, and waiting is a share of all threads' time."""
    results = (
        RoleResult(3, 10**8, 2 * 10**8, 3 * 10**8, 10**8, 0, 5, 7_000_000),
        RoleResult(4, 10**8, 0, 0, 0, 0, 0, 9_000_000),
    )

    found = part([], results, threads=2)

    assert (found.done, found.done_per_s, found.waits_per_s, found.worst_wait_ms) == (7, 7.0, 5.0, 9.0)
    assert (found.held_share, found.waited_share, found.cpu_share, found.work_share) == (0.2, 0.1, 0.3, 0.1)


def test_a_gils_outcome():
    """Rates are per second of virtual time."""
    found = gil_outcome("main", GilResult(10**9, 40, 10, 20), 2 * 10**9)

    assert (found.held_share, found.acquires_per_s, found.forced_per_s, found.requests_per_s) == (0.5, 20.0, 5.0, 10.0)


def outcome(seed, latencies_ms):
    return Outcome(seed, 1.0, 10, (part(latencies_ms),), (gil_outcome("main", GilResult(seed, 0, 0, 0), 10),))


def test_a_summary_has_medians_and_ranges():
    """Each figure has a median and a range, or None if a seed has none."""
    found = summarise([outcome(1, [1.0]), outcome(2, [5.0]), outcome(3, [2.0])])

    assert found.seeds == (1, 2, 3)
    assert found.parts["a"]["p50_ms"] == Spread(2.0, 1.0, 5.0)
    assert found.parts["a"]["p99_ms"] is None
    assert found.gils["main"]["held_share"] == Spread(0.2, 0.1, 0.3)
    assert summarise([outcome(1, [1.0]), outcome(2, [])]).parts["a"]["p50_ms"] is None


def test_json_is_plain():
    """The JSON has each seed's outcome, too."""
    found = summarise([outcome(1, [1.0])]).to_json()

    assert found["parts"]["a"]["p50_ms"] == {"median": 1.0, "low": 1.0, "high": 1.0}
    assert found["outcomes"][0]["parts"][0]["max_ms"] == 1.0


def test_the_flags_of_the_simulator_are_those_of_traces():
    """The kinds and flags are those of traces, so events need no translation."""
    assert (Kind.ACQUIRE, Kind.RELEASE, Flag.FORCED) == (2, 3, 1)
