"""The lines of a watcher on stderr, which belongs to the service."""

from types import SimpleNamespace
from typing import cast

import pytest

from headway.live.door import Door
from headway.live.options import Limits, Options
from headway.live.ring import Ring
from headway.live.said import Said
from headway.live.watched import Watched
from headway.live.watcher import Watcher


def test_each_text_is_printed_once(capfd):
    """A text that is forgotten may come again, and a quiet watcher prints nothing."""
    said = Said(quiet=False)
    for text in ("one", "other", "one"):
        said.say(text)
    said.forget("one")
    said.say("one")
    Said(quiet=True).say("one")

    assert capfd.readouterr().err == "headway: one\nheadway: other\nheadway: one\n"


@pytest.mark.parametrize("workers", [3, 300])
def test_a_reason_is_told_of_one_process(tmp_path, capfd, monkeypatch, workers):
    """A server that begins a worker for each request, all of an old Python, prints one line, and keeps one reason."""
    watcher = Watcher(Door(), Options(str(tmp_path), "it", 1, Limits()))
    monkeypatch.setattr(watcher, "_wait", lambda: None)
    monkeypatch.setattr(watcher, "_look", lambda *_: None)
    monkeypatch.setattr(watcher, "_over", watcher._rings.remove)
    for pid in range(1000, 1000 + workers):
        blind = "its Python is old" if pid != 1002 else "its memory may not be read"
        ring = SimpleNamespace(pid=pid, gone=True, blind=blind, lost_children=0)
        watcher._rings.append(Watched(cast(Ring, ring)))
        watcher._step()
    watcher._reception.close()

    more = "(further such processes get no line)"
    assert capfd.readouterr().err.splitlines() == [
        f"headway: process 1000: its Python is old {more}",
        f"headway: process 1002: its memory may not be read {more}",
    ]
    assert len(watcher._said._texts) == 2
