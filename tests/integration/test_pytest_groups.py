"""Sessions of which another plugin runs a group of the tests, as on one of several machines of a CI."""

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SPLITS = """
import pytest

def pytest_addoption(parser):
    parser.addoption("--group", type=int)

@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    kept = items[config.getoption("group") - 1 :: 2]
    config.hook.pytest_deselected(items=[one for one in items if one not in kept])
    items[:] = kept
"""

TWO = """
import pytest

pytestmark = pytest.mark.headway(rounds=3, calls=3)

def test_first(headway):
    headway(int)

def test_second(headway):
    headway(int)
"""


def test_a_test_of_any_group_is_launched(quick):
    """A launch collects one test, and a plugin that splits tests into groups would leave the second group empty."""
    quick.makeconftest(SPLITS)
    quick.makepyfile(TWO)
    result = quick.runpytest_subprocess("-q", "--headway-launches", "2", "--group", "2")

    result.assert_outcomes(passed=1, deselected=1)
    result.stdout.re_match_lines([r"test_second .* 2/ 3/ 3"])
