"""Loads of several threads: how long each waited for the GIL is counted from before the first of them began."""

import threading

import pytest

from headway.measure.rounds import Load, Target, Watch


@pytest.mark.parametrize("tasks", [1, 2, 8])
def test_no_thread_begins_before_all_have_read_their_times(tasks, monkeypatch):
    """A thread whose first turn comes late has waited for it, so its times are read before another one begins."""
    events, lock = [], threading.Lock()

    def note(event):
        with lock:
            events.append(event)

    watch = Watch(wanted=False)
    monkeypatch.setattr(watch, "_times", lambda: note("read") or (0, 0))
    load = Load(Target(lambda: note("call")), tasks, "threads", watch)
    for _ in range(3):
        events.clear()
        load.once(2)
        assert events[:tasks] == ["read"] * tasks
        assert events.count("call") == 2 * tasks
    load.close()
