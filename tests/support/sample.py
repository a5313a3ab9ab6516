"""The sample of the tests that `make test` runs: one value of each matrix, and fewer examples of each property."""

import zlib
from collections.abc import Iterable

import pytest
from hypothesis import settings

# hypothesis's own default, which the full matrix has
_EXAMPLES = 100


def sampled(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Return all tests without the mark `matrix`, and one of those that differ in the mark's parameters only.

    The test's name decides which one: it is the same in each process and on each day. Over many tests all values come in turn.
    """
    kept: set[pytest.Item] = set()
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        mark = item.get_closest_marker("matrix")
        if mark is None or not isinstance(item, pytest.Function):
            kept.add(item)
            continue
        if not mark.args:
            raise pytest.UsageError(f"{item.nodeid}: the marker `matrix` names no parameter")
        values = [item.callspec.params[name] for name in mark.args]
        left_out = {str(getattr(value, "id", value)) for value in values}
        name, _, ids = item.nodeid.removesuffix("]").partition("[")
        key = "-".join([name, *(part for part in ids.split("-") if part not in left_out)])
        groups.setdefault(key, []).append(item)
    return kept | {_one_of(key, group) for key, group in groups.items()}


def _one_of(key: str, group: list[pytest.Item]) -> pytest.Item:
    """Return one test, of those that can run beside others if there are any.

    A test that must run alone takes as much of a sample's time as several others.
    """
    beside = [item for item in group if item.get_closest_marker("times") is None] or group
    return beside[zlib.crc32(key.encode()) % len(beside)]


def examples(count: int) -> settings:
    """Return the settings of a property that tries `count` examples, and as many times fewer in a sample as the others."""
    return settings(deadline=None, max_examples=max(1, count * settings.default.max_examples // _EXAMPLES))
