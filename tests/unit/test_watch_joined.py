"""A process that has joined the watch of the one that started it: what its start imports, and what it knows of its watcher."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from headway.live import joining, watching

NOBODY = (1 << 22) + 1  # the kernel has no larger id than 1 << 22
DOOR = f"5 4194304 /run/a folder/door {NOBODY}"


@pytest.fixture
def joined(monkeypatch, tmp_path):
    """Let this process have joined the watch of a process that has ended."""
    monkeypatch.setattr(joining, "_joined", DOOR)
    monkeypatch.setattr(watching, "_watch", None)
    monkeypatch.setenv("HEADWAY_WATCH", str(tmp_path / "some"))
    monkeypatch.delenv("HEADWAY_TRACE_WATCHER", raising=False)
    recorder = SimpleNamespace(active=True, counts_only=False, in_memory=0, path="")
    monkeypatch.setattr(watching, "the_recorder", lambda: recorder)
    return recorder


@pytest.mark.parametrize(("joins", "imported"), [(True, False), (False, True)])
def test_only_a_process_that_starts_a_watcher_imports_what_that_needs(tmp_path, joins, imported):
    """The imports would take longer than a health check, and each Python with the variable begins so."""
    code = (
        "import importlib.abc, sys\n"
        "from headway.live import joining\n"
        f"joining.join = lambda door: door == {DOOR!r} and {joins}\n"
        "asked = []\n"
        "class Seen(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        asked.append(name)\n"
        "sys.meta_path.insert(0, Seen())\n"
        "import headway.live.begin\n"
        "print('headway.live.watching' in asked)"
    )
    env = {name: text for name, text in os.environ.items() if not name.startswith("HEADWAY_")}
    env |= {"HEADWAY_WATCH": str(tmp_path / "none" / "such"), "HEADWAY_WATCH_DOOR": DOOR}
    (tmp_path / "none").write_text("no folder")  # so that no watcher is started
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{code}"],
        env=env, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert done.stdout == f"{imported}\n"


def test_a_call_returns_the_watch_that_was_joined(joined, tmp_path):
    """It requests a recording of the watcher that watches this process; the id is of no watcher, so the folder is the preset."""
    found = watching.watch()

    assert (found.door, found.watcher, found._recording, found.folder) == (DOOR, 0, NOBODY, tmp_path / "some")
    assert watching.watch() is found


def test_the_counts_of_a_process_are_asked_for_where_it_has_joined(joined, monkeypatch):
    """Another watch, which this process has begun since, comes first."""
    assert watching.own_door() == ("/run/a folder/door", 5)
    monkeypatch.setattr(watching, "_watch", watching.Watch(None, 8, "6 4096 /other 8"))
    assert watching.own_door() == ("/other", 6)
