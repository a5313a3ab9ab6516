"""`headway advise` under a CPU quota: the workers that it tries, and what it says."""

import math

import pytest

from headway.advice import course


@pytest.mark.parametrize(("quota", "cores"), [(0.5, 1), (1.5, 2), (3.0, 3), (8.0, 8), (20.0, 8), (math.inf, 8)])
def test_workers_are_chosen_for_the_quota(quota: float, cores: int) -> None:
    """A quota allows its cores, rounded up, and a note tells of it if it is less than the machine has."""
    assert course._cores_to_use(8, quota) == cores
    notes = course._of_the_quota(8, quota)
    assert bool(notes) == (quota < 8)
    assert all(f"a CPU quota of {quota:.2f} cores applies here, of 8 cores" in one for one in notes)
