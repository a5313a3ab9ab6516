"""The folder of a watcher: which recordings are in it, and under which names."""

import os
import time
from types import SimpleNamespace
from typing import cast

import pytest

from headway.live.door import Door
from headway.live.ring import Limits, Ring
from headway.live.watcher import Options, Watcher, _Watched

LIMIT_S = 60


@pytest.fixture
def make(tmp_path):
    """Return a function that makes a watcher of the folder; it watches nothing."""
    made = []

    def watcher():
        made.append(Watcher(Door(), Options(str(tmp_path), "it", 1, Limits(), keep=2, quiet=True)))
        return made[-1]

    yield watcher
    for one in made:
        one._reception.close()


def ring(pid):
    """Return a ring whose recordings are no traces."""
    laps = SimpleNamespace(late_loops=0, late_pools=0, open_loops=0, open_pools=0)
    return cast(
        Ring,
        SimpleNamespace(
            pid=pid,
            gone=False,
            laps=laps,
            copy=lambda *_, **__: None,
            evidence=lambda _: {},
            save=lambda file: os.write(file, b"no trace"),
        ),
    )


def test_a_recording_has_its_name_once_it_is_complete(make, tmp_path):
    """A recording that is still being analysed has another name; one that cannot be analysed is kept."""
    watcher = make()
    watcher._report(_Watched(ring(7)), time.monotonic_ns())
    (partial,) = tmp_path.iterdir()
    assert partial.name.endswith("-7.hwt.partial")

    deadline = time.monotonic() + LIMIT_S
    while watcher._reports:
        assert time.monotonic() < deadline
        time.sleep(0.02)
        watcher._collect()
    assert [one.name for one in tmp_path.iterdir()] == [partial.name.removesuffix(".partial")]
