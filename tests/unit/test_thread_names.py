"""The recorder tells the names of Python's threads, also where gevent or eventlet has replaced them."""

import os
import threading

import pytest

from headway.agent.headway_agent.recorder import Recorder, _Names


@pytest.fixture
def told():
    """The names that were told, with a native id each, and whoever tells them."""
    found: list[tuple[int, str]] = []
    names = _Names()
    yield found, names
    names.unwatch()


def test_a_thread_is_named_at_its_beginning_and_when_it_is_renamed(told):
    """Both names are told with the thread's own id; the class is afterwards as it was."""
    before = dict(vars(threading.Thread))
    found, names = told
    names.watch(lambda tid, name: found.append((tid, name)))
    thread = threading.Thread(target=lambda: setattr(threading.current_thread(), "name", "second"), name="first")
    thread.start()
    thread.join()
    names.unwatch()

    assert (os.getpid(), threading.main_thread().name) in found
    assert [name for tid, name in found if tid == thread.native_id] == ["first", "second"]
    assert dict(vars(threading.Thread)) == before


def test_a_class_in_the_place_of_thread_is_no_error(monkeypatch, told):
    """The class of gevent inherits what is wrapped: the wrapper is put where the attribute is, and removed there."""
    before = dict(vars(threading.Thread))

    class Green(threading.Thread):
        """As gevent.threading.Thread of 26.9."""

    real = threading.Thread
    monkeypatch.setattr(threading, "Thread", Green)
    found, names = told
    names.watch(lambda tid, name: found.append((tid, name)))
    thread = Green(target=bool, name="green")
    thread.start()
    thread.join()
    names.unwatch()

    assert (thread.native_id, "green") in found
    assert dict(vars(real)) == before


def test_only_the_main_thread_names_itself(told):
    """A greenlet that looks like a thread has the main thread's native id, and does not give its name to that thread."""
    found, names = told
    names.watch(lambda tid, name: found.append((tid, name)))
    greenlet = threading.Thread(name="heartbeat")
    threading.Thread._set_native_id(greenlet)  # type: ignore[attr-defined]  # as a greenlet does
    greenlet.name = "renamed"
    threading._active[id(greenlet)] = greenlet  # type: ignore[attr-defined]
    try:
        names.unwatch()
    finally:
        del threading._active[id(greenlet)]  # type: ignore[attr-defined]

    assert {name for tid, name in found if tid == os.getpid()} == {threading.main_thread().name}


def test_a_recording_whose_names_fail_is_ended(monkeypatch):
    """The caller takes the process for one that is not recorded, so no session goes on."""
    calls = []

    class Library:
        def start(self, *_):
            calls.append("start")
            return 0

        def stop(self):
            calls.append("stop")
            return 0

    def fails(*_):
        raise KeyError("_set_native_id")

    recorder = Recorder.__new__(Recorder)
    recorder._library = Library()
    monkeypatch.setattr(_Names, "watch", fails)
    with pytest.raises(KeyError):
        recorder.start("", None, 0)

    assert calls == ["start", "stop"]
