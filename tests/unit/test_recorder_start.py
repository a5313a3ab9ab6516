"""The start of a recording in a process: it leaves nothing in the trace that is not the program's."""

import subprocess
import sys

from headway.agent import AGENT_PATH
from headway.agent.headway_agent.recorder import RecordedError
from headway.live import recording

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
