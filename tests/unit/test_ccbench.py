"""ccbench's measures: the units of work, and the experiments' cells."""

import bz2
import decimal
import importlib.util
import math
import re
import sys

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


def test_units_that_need_no_module_work_without_bz2(monkeypatch):
    """An interpreter without bz2 has the other units, and a launch with that unit fails before a thread begins."""
    monkeypatch.setitem(sys.modules, "bz2", None)
    spec = importlib.util.find_spec("headway_agent.workloads.units")
    units = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(units)

    units.loaded("count")()
    with pytest.raises(ImportError):
        units.loaded("bz2")


def test_pidigits_are_pis():
    """All 500 digits of pi are right.

    Near pi, the sine is the distance to pi, which must be less than one of the last digit.
    """
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
    """The unit finds as many words as another way of counting does."""
    words = re.findall(r"\w+", _TEXT)

    assert len(UNITS["regex"]()) == sum(len(set(word)) < len(word) for word in words) > 400


def test_bz2_compresses():
    """The compressed data gives back the whole input."""
    assert len(bz2.decompress(UNITS["bz2"]())) == 20_480


@pytest.mark.parametrize("name", MEASURES)
def test_every_policy_there_is_stands_beside_none(name):
    """The standard size has no policy and all built-in ones; the quick size has none and `fair`."""
    built_in = {one.name for one in native.policies()[0]}

    assert {cell.variant.params["policy"] for cell in cells(name, "standard")} == {"", *built_in}
    assert {cell.variant.params["policy"] for cell in cells(name, "quick")} == {"", "fair"}


@pytest.mark.parametrize("name", MEASURES)
def test_without_a_gil_there_is_nothing_to_schedule(name):
    """A free-threaded interpreter has only the cells without a policy."""
    assert {cell.variant.params["policy"] for cell in cells(name, "standard", FREE_THREADED)} == {""}


@pytest.mark.parametrize("name", MEASURES)
def test_every_task_is_a_unit_of_the_agent(name):
    """All three of ccbench's tasks run, under names that the agent knows."""
    tasks = {cell.variant.params["unit"] for cell in cells(name, "standard") if cell.variant.params["cpu"]}

    assert tasks == {"pidigits", "regex", "bz2"} <= UNITS.keys()


def test_quick_size_stays_quick():
    """The three measures take at most ten seconds a block, with at most 40 launches."""
    launches = [cell for name in MEASURES for cell in cells(name, "quick")]

    assert len(launches) <= 40
    assert (
        sum(cell.variant.params["duration_s"] * (cell.variant.samples + cell.variant.warmups) for cell in launches)
        <= 10
    )


def test_pings_come_as_often_as_ccbench_sends_them():
    """Pings come ten a second, 20 in all at published size, and the bandwidth is measured with 1 KiB."""
    (ping,) = {
        (one.variant.params["rate_per_s"], one.variant.params["duration_s"])
        for one in cells("ccbench-latency", "published")
    }
    (size_bytes,) = {one.variant.params["message_bytes"] for one in cells("ccbench-bandwidth", "published")}

    assert ping == (10, 2.0)
    assert size_bytes == 1024
