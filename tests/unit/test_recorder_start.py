"""The start of a recording in a process: it leaves nothing in the trace that is not the program's."""

import errno
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from headway.agent import AGENT_PATH
from headway.agent.headway_agent import recorder as agents
from headway.agent.headway_agent.recorder import RecordedError
from headway.live import joining, recording
from headway.live.own_recorder import session_lock

CODE = """
import sys
sys.path.insert(0, sys.argv[1])
from headway_agent import recorder

class Library:
    def start(self, *_):
        print("threading" in sys.modules)
        return 0

    def name(self, *_):
        pass

one = recorder.Recorder.__new__(recorder.Recorder)
one._library, one._layout = Library(), lambda: b""
print("threading" in sys.modules)
one.start("/door")
"""


def test_what_the_recorder_needs_is_imported_before_the_recording_begins():
    """An import reads files, whose locks and waits would be told as those of the program."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", CODE, str(AGENT_PATH)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True"]


class _Busy:
    """The recorder of a process in which another thread starts a recording at this moment."""

    active = False

    def start(self, *_):
        """Refuse, as the library does."""
        raise RecordedError("it is already recorded")

    def times(self):
        """Return the times without a session."""
        return 0, 0


def test_the_times_can_be_asked_while_another_thread_starts_a_recording(monkeypatch):
    """The other thread's start is no error of this one."""
    monkeypatch.setattr(recording, "present_recorder", lambda: None)
    monkeypatch.setattr(recording, "the_recorder", _Busy)
    assert recording.gil_times() == (0, 0)


class _Counting:
    """The library of a process that counts, where other threads ask for their times after each of the first stops."""

    def __init__(self, asked, count=2):
        self.is_active, self.asked, self.count = count, asked, count
        self.leases = 0

    def active(self):
        return self.is_active

    def path(self):
        return b""

    def stop(self):
        self.is_active = self.count if self.asked else 0
        self.asked = max(0, self.asked - 1)
        return 0

    def start(self, *_):
        if self.is_active:
            return -errno.EALREADY
        self.is_active = 1
        return 0

    def lease_page(self, _):
        return os.open(os.devnull, os.O_RDONLY)

    def lease(self, *_):
        self.leases += 1
        return 0

    def lease_end(self, _):
        self.leases -= 1

    def lease_renew(self, *_):
        pass

    def name(self, *_):
        pass

    def note(self, _):
        pass


@pytest.fixture
def attached(monkeypatch):
    """Return a function that attaches to a process with a library, and returns the number of its leases."""

    def attach(library):
        monkeypatch.setattr(agents, "load", lambda _: library)
        monkeypatch.setattr(agents.Recorder, "_layout", lambda _: b"")
        monkeypatch.setattr(agents, "_attached", "")
        try:
            _, (lease,) = agents.attach("", "/door", 1, 1 << 20)
            os.close(lease)
        finally:
            agents._names.unwatch()
        return library.leases

    return attach


def test_threads_that_ask_for_their_times_do_not_refuse_who_attaches(attached):
    """A request that is timed may begin to count again at each moment between the stop and the start."""
    assert attached(_Counting(3)) == 1


def test_attaching_ends_neither_a_recording_nor_an_endless_count(attached):
    """A recording that another thread begins meanwhile stays, and the attempts have an end."""
    endless, recorded = _Counting(10**6), _Counting(10**6)
    recorded.count = 1
    for library in (endless, recorded):
        with pytest.raises(RecordedError):
            attached(library)
        assert library.leases == 0
    assert recorded.asked == 10**6 - 1


def test_no_thread_begins_to_count_while_a_watch_begins(monkeypatch):
    """The lock by which `gil_times` starts is held from the stop of a count to the start of the watch."""
    held = []

    class Recorder:
        def stop(self):
            held.append(session_lock.locked())

        def start(self, *_):
            held.append(session_lock.locked())

    monkeypatch.setattr(joining, "let_watch", lambda *_: None)
    joining.enter(Recorder(), "1 4096 /door 7")
    assert held == [True, True]
    assert not session_lock.locked()


YAMA = """
import sys
sys.path.insert(0, sys.argv[1])
from headway_agent import watched
watched._YAMA = sys.argv[2]
print(watched._only_parents_may_look())
"""


def test_a_program_may_treat_warnings_as_errors(tmp_path):
    """A file that the agent reads as text would warn in the program, which may ask for an encoding everywhere."""
    (tmp_path / "scope").write_text("1\n")
    command = [sys.executable, "-W", "error", "-X", "warn_default_encoding", "-c", YAMA, str(AGENT_PATH)]
    done = subprocess.run([*command, str(tmp_path / "scope")], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_process_that_the_watcher_cannot_see_is_not_said_to_be_untraced(monkeypatch):
    """The recording has begun by then, and goes on."""

    def fails(*_):
        raise RuntimeError("on purpose")

    said = []
    monkeypatch.setattr(agents, "Recorder", lambda _: SimpleNamespace(start=lambda *_, **__: None, without_stacks=""))
    monkeypatch.setattr(agents, "let_watch", fails)
    monkeypatch.setattr(agents, "say", said.append)
    for name, value in {"TRACE_DOOR": "/door", "NATIVE": "/library", "TRACE_WATCHER": "1"}.items():
        monkeypatch.setenv(f"HEADWAY_{name}", value)

    agents.start_from_environment()

    assert said == [f"process {os.getpid()} is watched, but perhaps not the lines of its threads: on purpose"]
