"""The sentence of `headway run --why` about a policy, at the program's end."""

import pytest
from headway_agent.scheduler import told

COUNTS = {"early": 1_525, "early_wait_ns": 1_525 * 237_000, "worst_wait_ns": 7_960_000}


def test_the_thread_that_gained_most_is_named_if_it_had_most():
    """A living thread is named only where most of the early requests were for its sake: others may have ended."""
    assert "most often for io (1,000)" in told("fair", COUNTS, 0.005, "io", 1_000)
    assert "most often" not in told("fair", COUNTS, 0.005, "MainThread", 1)
    assert "most often" not in told("fair", {**COUNTS, "early": 2}, 0.005, "MainThread", 1)
    assert "most often" not in told("fair", COUNTS, 0.005)


@pytest.mark.parametrize(("worst_ns", "said"), [(7_960_000, "7.96 ms"), (1_230_000_000, "1.23 s")])
def test_waits_have_the_unit_that_fits(worst_ns, said):
    """A wait of more than a second is told in seconds."""
    assert told("fair", {**COUNTS, "worst_wait_ns": worst_ns}, 0.005).endswith(
        f"no wait that ended was longer than {said}"
    )


def test_a_policy_that_had_nothing_to_do_says_so():
    """Without an early request there is one sentence and no figure."""
    assert told("fair", {"early": 0}, 0.005) == (
        "fair had nothing to do: it saw no long wait for the GIL of the main interpreter"
    )


@pytest.mark.parametrize(
    ("worst_ns", "interval_s", "is_long"), [(2e9, 0.005, True), (4e6, 0.005, False), (4e6, 0.001, True)]
)
def test_a_policy_that_never_asks_is_told_with_the_longest_wait(worst_ns, interval_s, is_long):
    """A wait of more than a switch interval is long, and a policy that requested nothing then did not lack an occasion."""
    said = told("starve", {"early": 0, "asked": 0, "worst_wait_ns": worst_ns}, interval_s)

    assert said.startswith("starve never requested the GIL; the longest wait") is is_long
    assert ("nothing to do" in said) is not is_long
    assert said.endswith(("was 2 s", "was 4 ms")) is is_long


def test_a_policy_that_only_asked_as_cpython_does_does_not_say_that_nobody_waited():
    """`stock` makes no request early, whatever it does."""
    counts = {"early": 0, "asked": 1_234}

    assert told("stock", counts, 0.005) == "stock requested the GIL 1,234 times, never earlier than CPython would have"


def test_early_requests_in_other_interpreters_are_told():
    """A policy that worked only in sub-interpreters did not have nothing to do."""
    elsewhere = {"early": 0, "asked": 0, "early_elsewhere": 1_312}

    assert told("fair", elsewhere, 0.005) == (
        "fair requested the GILs of other interpreters early 1,312 times, and the GIL of the main interpreter never"
    )
    for counts in (COUNTS, {"early": 0, "asked": 3}):
        said = told("fair", {**counts, "early_elsewhere": 2}, 0.005)
        assert said == told("fair", counts, 0.005) + "; the GILs of other interpreters were requested early 2 times"


@pytest.mark.parametrize("counts", [COUNTS, {"early": 0}, {"early": 0, "asked": 3}])
def test_a_policy_that_is_no_longer_active_says_so(counts):
    """The watchdog may have removed the policy: its counts are not those of the whole program."""
    said = told("fair", counts, 0.005, is_on=False)

    assert said.startswith("fair, which is no longer active, ")
    assert "nothing to do" not in said
