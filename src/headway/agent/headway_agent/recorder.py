"""Starts and stops the recording of the GIL in this process, and tells it the names of threads.

The program, `headway attach` and `headway.trace()` all come here; what records is native/trace. CPython 3.8 to 3.15 on
Linux; stacks from 3.11 on. Anything that is not as expected raises `UnfitError`, and the program goes on as it was.
"""

import os
import struct
import sys

from . import frames
from .library import UnfitError, errno_name, gil_enabled, load, say

__all__ = ["Recorder", "attach", "detach", "start_from_environment"]

DEFAULT_BYTES = 512 << 20

_PROBLEMS = {
    "EALREADY": "it is recorded already",
    "EEXIST": "%(path)s exists already",
    "ENOSPC": "no room for %(path)s",
    "ENOENT": "the interpreter's _PyRuntime, or the folder of %(path)s, is not to be found",
    "ENXIO": "the interpreter is linked statically: its calls of pthread_cond_* cannot be hooked",
    "EPROTO": "the GIL is not where this CPython should have it",
    "ETIMEDOUT": "this thread does not hold the main interpreter's GIL: start from the main interpreter",
}


def _command():
    """Return the arguments that this process was started with, each with a NUL after it."""
    try:
        with open("/proc/self/cmdline", "rb", buffering=0) as file:
            return file.read(4096)
    except OSError:
        return b""


def _program(command):
    """Return what a user calls this program: the script, `-m module`, or the interpreter."""
    words = command.split(b"\0")[1:]
    for i, word in enumerate(words):
        if word in (b"-m", b"-c"):
            return b" ".join(words[i : i + 2])[:200]
        if word in (b"-W", b"-X"):
            continue
        if word and not word.startswith(b"-") and (i == 0 or words[i - 1] not in (b"-W", b"-X")):
            return os.path.basename(word)
    return os.path.basename(command.split(b"\0")[0])


class Recorder:
    """The recorder of this process; there is one session at a time, however many objects."""

    def __init__(self, library):
        """Load the shared library. Raises UnfitError."""
        self._library = load(library)
        self.without_stacks = ""
        """Why there are no stacks; "" where there are."""

    def start(self, path, family=None, max_bytes=DEFAULT_BYTES):
        """Record into a new file, or with "" count only. Raises UnfitError."""
        command = _command()
        options = (
            os.fsencode(os.path.abspath(path)) if path else b"",
            max_bytes,
            family if family is not None else struct.unpack("Q", os.urandom(8))[0],
            sys.hexversion,
            _free_threaded(),
            int(gil_enabled()),
            command,
            os.fsencode(sys.executable or ""),
            _program(command),
            self._layout() if path else b"",
        )
        named = path or "the counters"
        try:
            failed = self._library.start(*options)
        except (ValueError, OverflowError) as error:  # a NUL in a path, a size beyond 64 bits
            raise UnfitError("%s: %s" % (named, error))
        if failed:
            name = errno_name(-failed)
            text = _PROBLEMS.get(name, os.strerror(-failed) + " (%(path)s)")
            raise UnfitError(text % {"path": named})
        _names.watch(self._name)

    def _layout(self):
        if sys.version_info < (3, 11):
            self.without_stacks = "CPython before 3.11"
            return b""
        try:
            layout = frames.find(self._library)
            frames.check(layout, self._library)
        except frames.LayoutError as error:
            self.without_stacks = str(error)
            return b""
        return layout.packed()

    def stop(self):
        """End the session; returns whether there was one."""
        _names.unwatch()
        return self._library.stop() == 0

    @property
    def active(self):
        """There is a session, here or started by someone else."""
        return self._library.active() != 0

    @property
    def path(self):
        """The session's file, "" for counters only."""
        return os.fsdecode(self._library.path())

    def times(self):
        """Return (held, waited) of the calling thread so far, in nanoseconds; (0, 0) without a session."""
        return self._library.times()

    def _name(self, tid, name):
        self._library.name(tid, name.encode("utf-8", "replace").replace(b"\0", b"?"))


def _free_threaded():
    import sysconfig

    return int(bool(sysconfig.get_config_var("Py_GIL_DISABLED")))


class _Names:
    """Tells the recorder how Python names its threads, when they begin and when they are renamed.

    `threading` has no event for either, so two of its methods get ours around them, and theirs back in the end.
    """

    def __init__(self):
        self._tell = None
        self._originals = None
        self._forks = False

    def watch(self, tell):
        import threading

        self._tell = tell
        if self._originals is None:
            thread = threading.Thread
            self._originals = (thread._set_native_id, thread.name)
            thread._set_native_id = self._around_native_id(thread._set_native_id)
            thread.name = self._around_name(thread.name)
        if not self._forks:
            # After threading's own, which was imported first: the child's only thread is then its main thread.
            os.register_at_fork(after_in_child=self._tell_all)
            self._forks = True
        self._tell_all()

    def unwatch(self):
        import threading

        self._tell_all()
        self._tell = None
        if self._originals is not None:
            threading.Thread._set_native_id, threading.Thread.name = self._originals
            self._originals = None

    def _tell_all(self):
        import threading

        if self._tell is not None:
            # Not enumerate(): it takes a lock, which another thread may hold for ever.
            for ident, thread in list(threading._active.items()):
                # A forked child's main thread still has its parent's native id (up to CPython 3.13).
                mine = ident == threading.get_ident()
                self._tell_one(thread, threading.get_native_id() if mine else None)

    def _tell_one(self, thread, tid=None):
        tell, name = self._tell, getattr(thread, "_name", None)
        tid = tid or getattr(thread, "_native_id", None)
        if tell is not None and isinstance(tid, int) and isinstance(name, str):
            tell(tid, name)

    def _around_native_id(self, original):
        def _set_native_id(thread):
            original(thread)
            self._tell_one(thread)

        return _set_native_id

    def _around_name(self, original):
        def set_name(thread, name):
            original.fset(thread, name)
            self._tell_one(thread)

        return property(original.fget, set_name, original.fdel, original.__doc__)


_names = _Names()


def start_from_environment():
    """Record this process as the environment says; where that cannot be, say why in one line on stderr.

    Environment: HEADWAY_TRACE_FILE, the first process's file (each other one gets a name made from it);
    HEADWAY_NATIVE, the shared library; HEADWAY_TRACE_FAMILY and HEADWAY_TRACE_BYTES.
    """
    path = os.environ["HEADWAY_TRACE_FILE"]
    try:
        recorder = Recorder(os.environ["HEADWAY_NATIVE"])
        family = int(os.environ.get("HEADWAY_TRACE_FAMILY", "0"))
        max_bytes = int(os.environ.get("HEADWAY_TRACE_BYTES", str(DEFAULT_BYTES)))
        recorder.start(_free_path(path), family, max_bytes)
        if recorder.without_stacks and sys.version_info >= (3, 11):
            say("process %d is traced without stacks: %s" % (os.getpid(), recorder.without_stacks))
    except (UnfitError, KeyError, ValueError, OSError) as error:
        say("process %d is not traced: %s" % (os.getpid(), error))


def attach(library, path, max_bytes):
    """Record this process from now on; returns the path that is recorded to, which may be an earlier session's."""
    recorder = Recorder(library)
    if recorder.active and (recorder.path or not path):
        return recorder.path
    recorder.stop()  # counters only
    recorder.start(path, None, max_bytes)
    return recorder.path


def detach(library):
    """End the recording of this process."""
    return Recorder(library).stop()


def _free_path(path):
    """Return the name of this process's file: the first's as it is, `app.PID.hwt` for the others."""
    if not os.path.lexists(path):
        return path
    stem = path[: -len(".hwt")] if path.endswith(".hwt") else path
    attempt = 1
    while True:
        found = "%s.%d%s.hwt" % (stem, os.getpid(), "" if attempt == 1 else "-%d" % attempt)
        if not os.path.lexists(found):
            return found
        attempt += 1
