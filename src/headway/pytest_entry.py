"""The plugin that pytest finds by its entry point: it loads `headway.pytest_plugin`, or says that this pytest is too old.

An environment may have Headway for another purpose than tests. A plugin that cannot be loaded would end each of its
pytest sessions.
"""

import re

import pluggy
import pytest

__all__: list[str] = []

_LEAST = (("pytest", pytest.__version__, (7, 0)), ("pluggy", pluggy.__version__, (1, 2)))
"""What has `pytest.StashKey`, and wrappers of hooks that are plain generators."""


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


_TOO_OLD = [
    f"{name} {version} (at least {'.'.join(map(str, least))})"
    for name, version, least in _LEAST
    if _parts(version) < least
]

pytest_plugins = [] if _TOO_OLD else ["headway.pytest_plugin"]


def pytest_report_header() -> list[str]:
    """Say why there is no fixture."""
    return [f"headway: no fixture, since a package is too old: {' and '.join(_TOO_OLD)}"] if _TOO_OLD else []
