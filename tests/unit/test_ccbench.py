"""ccbench's measures: the units of work themselves, and what the experiments make of them."""

import bz2
import decimal
import math
import re

import pytest
from headway_agent.workloads.units import _TEXT, UNITS
from synthetic import make_interpreter, make_machine

from headway import native
from headway.lab.experiments import experiment
from headway.lab.plan import make_plan

MEASURES = ("ccbench-throughput", "ccbench-latency", "ccbench-bandwidth")
FREE_THREADED = make_interpreter("3.13.5", free_threaded=True)


def cells(name, size, interpreter=None):
    return make_plan([experiment(name)], [interpreter or make_interpreter()], make_machine(), size=size, seed=1).cells


def test_pidigits_are_pis():
    """All 500 digits are right: near pi the sine is what is missing to pi, here less than one of the last digit."""
    digits = UNITS["pidigits"]()
    assert len(str(digits)) == 500
    assert digits // 10**484 == int(math.pi * 10**15)

    with decimal.localcontext() as context:
        context.prec = 520
        x = decimal.Decimal(digits).scaleb(-499)
        sine = term = x
        for k in range(1, 300):
            term *= -x * x / (2 * k * (2 * k + 1))
            sine += term
        assert 0 <= sine < decimal.Decimal(1).scaleb(-499)


def test_regex_finds_every_word_with_a_letter_twice():
    """As many as there are, counted another way."""
    words = re.findall(r"\w+", _TEXT)

    assert len(UNITS["regex"]()) == sum(len(set(word)) < len(word) for word in words) > 400


def test_bz2_compresses():
    """What comes back is the whole input."""
    assert len(bz2.decompress(UNITS["bz2"]())) == 20_480


@pytest.mark.parametrize("name", MEASURES)
def test_every_policy_there_is_stands_beside_none(name):
    """At standard size the policies are none and all that are built in; quick has none and `fair`."""
    built_in = {one.name for one in native.policies()[0]}

    assert {cell.variant.params["policy"] for cell in cells(name, "standard")} == {"", *built_in}
    assert {cell.variant.params["policy"] for cell in cells(name, "quick")} == {"", "fair"}


@pytest.mark.parametrize("name", MEASURES)
def test_without_a_gil_there_is_nothing_to_schedule(name):
    """On a free-threaded interpreter only the cells without a policy run."""
    assert {cell.variant.params["policy"] for cell in cells(name, "standard", FREE_THREADED)} == {""}


@pytest.mark.parametrize("name", MEASURES)
def test_every_task_is_a_unit_of_the_agent(name):
    """All three of ccbench's tasks run, by names that the agent knows."""
    tasks = {cell.variant.params["unit"] for cell in cells(name, "standard") if cell.variant.params["cpu"]}

    assert tasks == {"pidigits", "regex", "bz2"} <= UNITS.keys()


def test_quick_size_stays_quick():
    """The three measure for no more than ten seconds a block, and have no more than 40 launches in it."""
    launches = [cell for name in MEASURES for cell in cells(name, "quick")]

    assert len(launches) <= 40
    assert (
        sum(cell.variant.params["duration_s"] * (cell.variant.samples + cell.variant.warmups) for cell in launches)
        <= 10
    )


def test_pings_come_as_often_as_ccbench_sends_them():
    """Ten a second, 20 in all at published size; the bandwidth is of 1 KiB."""
    (ping,) = {
        (one.variant.params["rate_per_s"], one.variant.params["duration_s"])
        for one in cells("ccbench-latency", "published")
    }
    (size_bytes,) = {one.variant.params["message_bytes"] for one in cells("ccbench-bandwidth", "published")}

    assert ping == (10, 2.0)
    assert size_bytes == 1024
