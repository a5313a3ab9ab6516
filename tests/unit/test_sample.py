"""The sample of the matrices: which tests `--matrix sample` runs."""

import pytest
from hypothesis import settings
from sample import examples, sampled

SOME = """
import pytest

@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", ["a", pytest.param("alone", marks=pytest.mark.times)])
@pytest.mark.parametrize("place", range(8))
def test_some_alone(name, place): pass

@pytest.mark.times
@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", ["a", "b"])
def test_all_alone(name): pass

def test_plain(): pass
"""


def test_a_value_whose_test_must_run_alone_is_left_to_the_full_matrix(pytester: pytest.Pytester) -> None:
    """A sample has a test that must run alone only where no other value of its matrix can run beside others."""
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    names = sorted(item.name for item in sampled(pytester.getitems(SOME)))

    assert [name for name in names if "some" in name] == [f"test_some_alone[{place}-a]" for place in range(8)]
    assert sum("all" in name for name in names) == 1
    assert "test_plain" in names


def test_a_property_has_fewer_examples_in_a_sample() -> None:
    """A property with a number of examples of its own has proportionally fewer in a sample, and never none."""
    default = settings.default.max_examples

    assert [examples(count).max_examples for count in (200, 100, 1)] == [2 * default, default, max(1, default // 100)]
