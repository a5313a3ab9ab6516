"""The versions of CPython that the agent takes, and the tables that follow them."""

import pytest

from headway.agent.headway_agent import library
from headway.live.remote import OFFSETS


def test_a_newer_cpython_is_refused_with_its_version(monkeypatch):
    """A CPython that is newer than the newest known one is not traced, and the reason names its version."""
    monkeypatch.setattr(library, "NEWEST", (3, 9))

    with pytest.raises(library.UnfitError, match=r"^CPython 3\.\d+ is not known to this version of headway$"):
        library.load("nowhere.so")


def test_each_version_that_is_asked_to_run_a_script_has_offsets():
    """From 3.14 on, each version that the agent takes has its row in the table of `headway attach`."""
    assert list(OFFSETS) == [(3, minor) for minor in range(14, library.NEWEST[1] + 1)]
