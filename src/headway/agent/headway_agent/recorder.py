"""Starts and stops the recording of the GIL in this process, and tells the recorder the names of threads.

Launched programs (`start_from_environment`), `headway attach` and `headway.trace()` all use this module; native/trace
is the recorder itself. Supports CPython 3.8 to 3.15 on Linux, with stacks from 3.11 on. Any unexpected condition raises
`UnfitError`, and the program goes on as before.
"""

import os
import sys

from . import frames
from .library import LEASE_TRACE, UnfitError, errno_name, gil_enabled, leased, load, say
from .watched import let_watch

__all__ = [
    "WATCHED",
    "RecordedError",
    "Recorder",
    "attach",
    "detach",
    "go_on_from_environment",
    "start_from_environment",
]

DEFAULT_BYTES = 64 << 20

WATCHED = "headway watch"
"""`Recorder.path` where a watcher keeps the events, in memory of its own, and writes no file yet."""

_NO_MEMFD = 4096
"""HW_TRACE_NO_MEMFD of native/include/headway/trace.h."""
_PROBLEMS = {
    "EALREADY": "it is already recorded",
    "ECONNREFUSED": "no collector answers at %(door)s",
    "EACCES": "%(door)s belongs to another user",
    "EAGAIN": "too many processes connect to %(door)s",
    "ENOMEM": "there is no memory to record into",
    "EFBIG": "memory for events cannot be had: its limit on the size of files (ulimit -f) is too small",
    "ENOENT": "the interpreter's _PyRuntime cannot be found",
    "ENXIO": "the interpreter is linked statically: its calls of pthread_cond_* cannot be hooked",
    "EPROTO": "the GIL is not at the place where this CPython should have it",
    "ETIMEDOUT": "this thread does not hold the main interpreter's GIL: start from the main interpreter",
}


def _command_words():
    """Return the arguments that this process was started with, the interpreter and its options first; [] if unknown."""
    # sys.orig_argv has Python's arguments. The process's memory of them may have been overwritten, as by a title.
    words = getattr(sys, "orig_argv", None)
    if words is not None:
        return [os.fsencode(word) for word in words]
    try:
        with open("/proc/self/cmdline", "rb", buffering=0) as file:
            words = file.read(4096).split(b"\0")[:-1]
    except OSError:
        return []
    # In a process that embeds Python, the arguments are not Python's.
    return words if words and os.path.basename(words[0]).startswith(b"python") else []


def _executable_name():
    try:
        return os.path.basename(os.fsencode(os.readlink("/proc/self/exe")))
    except OSError:
        return os.path.basename(os.fsencode(sys.executable or ""))


def _program_words(words):
    """Return the interpreter, and what it runs: [script], [b"-m", module] or [b"-c"]; without arguments and code."""
    options = iter(words[1:])
    for word in options:
        if word in (b"-", b"--") or not word.startswith(b"-"):
            return [words[0], word]
        if word.startswith(b"--"):
            next(options, None) if word == b"--check-hash-based-pycs" else None
            continue
        for i, letter in enumerate(word[1:].decode("latin-1"), 2):
            if letter == "c":
                return [words[0], b"-c"]
            if letter == "m":
                return [words[0], b"-m", word[i:] or next(options, b"")]
            if letter in "WX":
                word[i:] or next(options, None)
                break
    return words[:1]


def _command(arguments):
    """Return the command line of this process, each word followed by a NUL; secrets can occur only with `arguments`."""
    words = _command_words()
    if not arguments:
        words = _program_words(words) if words and words[0] else [_executable_name()]
    return b"".join(word + b"\0" for word in words)[:4096]


def _program():
    """Return the program's name for users: the script, `-m module`, `-c`, the interpreter, or `multiprocessing.spawn`."""
    whole = _command_words()
    words = _program_words(whole)
    if words[1:] == [b"-c"] and b"-c" in whole[:-1]:
        before, package, code = whole[whole.index(b"-c") + 1].partition(b"from multiprocessing.")
        if package and before in (b"", b"import sys; "):  # its own processes: popen_spawn_posix.py, forkserver.py
            return b"multiprocessing." + code.partition(b" ")[0][:200]
    if len(words) == 2:
        return os.path.basename(words[1])[:200] or words[1][:200]
    return b" ".join(words[1:])[:200] or _executable_name()


_MOST_STACKS = 256
_MOST_IDS = 1000  # of threads in a note, which must fit in a chunk
_MOST_BYTES = 12000
"""A note has to fit in a chunk of 16 KiB: of a stack that does not, the outermost frames are left out."""
_MOST_TEXT = 300
"""The longest name of a file or a function, in characters."""


def _places(frame):
    """Return a frame and its callers as JSON: [file, line, function, first line], ..."""
    found, room = [], _MOST_BYTES
    while frame is not None:
        code = frame.f_code
        function = _json(getattr(code, "co_qualname", code.co_name))
        found.append(b"[%s,%d,%s,%d]" % (_json(code.co_filename), frame.f_lineno or 0, function, code.co_firstlineno))
        room -= len(found[-1]) + 1
        if room < 0:
            return found[:-1]
        frame = frame.f_back
    return found


def _json(text):
    """Return a text as JSON. The module `json` is not imported: the program may not have it."""
    units = text[-_MOST_TEXT:].encode("utf-16-be", "surrogatepass")
    codes = [units[i] << 8 | units[i + 1] for i in range(0, len(units), 2)]
    plain = [b"%c" % one if 31 < one < 127 and one not in b'"\\' else b"\\u%04x" % one for one in codes]
    return b'"%s"' % b"".join(plain)


class RecordedError(UnfitError):
    """A process that is recorded already, or in which another thread starts a recording at this moment."""


class Recorder:
    """The recorder of this process. All objects share one session."""

    def __init__(self, library):
        """Load the shared library. Raises UnfitError."""
        self._library = load(library)
        self.without_stacks = ""
        """Why there are no stacks; "" if there are stacks."""

    def start(self, door, family=None, memory_bytes=DEFAULT_BYTES, *, arguments=False):
        """Record into memory. Raises UnfitError; RecordedError if there is a recording.

        door: the socket of the collector, which writes the file; with "" the newest events stay in memory.
        memory_bytes: the memory for events; 0: only count.
        arguments: record the program's arguments, too, and not only its name.
        """
        self.begin(self.prepared(door, family, memory_bytes, arguments=arguments))

    def prepared(self, door, family=None, memory_bytes=DEFAULT_BYTES, *, arguments=False):
        """Return what `begin` takes, which needs milliseconds to make; the arguments are those of `start`."""
        # Needed by `begin`. An import during the session would be recorded, and reported as the program's own.
        import threading  # noqa: F401

        return (
            os.fsencode(door),
            memory_bytes,
            family if family is not None else int.from_bytes(os.urandom(8), sys.byteorder),
            sys.hexversion,
            int("t" in sys.abiflags),  # a free-threaded build
            int(gil_enabled()),
            _command(arguments),
            os.fsencode(sys.executable or ""),
            _program(),
            # A count needs no stacks, but must know the locks of the program's own, in which threads may idle.
            self._layout() if memory_bytes or not gil_enabled() else b"",
        )

    def begin(self, prepared):
        """Start what `prepared` has returned. Raises UnfitError; RecordedError if there is a recording."""
        door = os.fsdecode(prepared[0]) or "memory"
        try:
            failed = self._library.start(*prepared)
        except (ValueError, OverflowError) as error:  # a NUL in a path, a size beyond 64 bits
            raise UnfitError("%s: %s" % (door, error))
        if -failed > _NO_MEMFD:
            raise UnfitError("memory for events cannot be had (memfd_create): " + os.strerror(-failed - _NO_MEMFD))
        if failed:
            name = errno_name(-failed)
            text = _PROBLEMS.get(name, os.strerror(-failed) + " (%(door)s)")
            raise (RecordedError if name == "EALREADY" else UnfitError)(text % {"door": door})
        try:
            self.tell_names()
            self._tell_others()
        except BaseException:
            self.stop()  # the caller takes the process for one that is not recorded
            raise

    def tell_names(self):
        """Tell the names of this interpreter's threads, now and from now on."""
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
        """End the session; return whether there was one."""
        try:
            _names.unwatch()
        finally:
            ended = self._library.stop() == 0
        return ended

    @property
    def active(self):
        """Whether there is a session, started by this object or any other."""
        return self._library.active() != 0

    @property
    def counts_only(self):
        """Whether there is a session, and it has no events."""
        return self._library.active() == 2

    @property
    def path(self):
        """The file that a collector writes; "" if there is no collector."""
        return os.fsdecode(self._library.path())

    @property
    def collected_ns(self):
        """The time, by time.monotonic_ns(), up to which that file has all recorded events."""
        return self._library.collected()

    @property
    def in_memory(self):
        """The number of the session, which no other one has, if it has no collector; otherwise 0."""
        return self._library.in_memory()

    def times(self):
        """Return (held, waited) of the calling thread so far, in nanoseconds; (0, 0) without a session."""
        return self._library.times()

    def longest(self):
        """Return the calling thread's longest (hold, wait) since its last call, in ns; (0, 0) without a session."""
        return self._library.longest()

    def tell_stacks(self):
        """Record where Python's threads are now, but for the calling one: a thread that is blocked for good has no event.

        Nothing is recorded from 3.12 on if there are other interpreters: they may run meanwhile.
        """
        import threading

        # enumerate() would take a lock, which another thread may hold for ever.
        tids = {ident: getattr(one, "_native_id", None) for ident, one in list(threading._active.items())}
        stacks = self._library.current_frames(int(sys.version_info >= (3, 12)))
        stacks.pop(threading.get_ident(), None)
        for ident, frame in list(stacks.items())[:_MOST_STACKS]:
            if isinstance(tids.get(ident), int):
                self._library.note(b'{"standing":[[%d,[%s]]]}' % (tids[ident], b",".join(_places(frame))))

    def _tell_others(self):
        """Record which other threads are there: they may be waiting already, and a trace has no begin of such a wait."""
        import threading

        ids = [getattr(one, "_native_id", None) for one in list(threading._active.values())]
        others = [tid for tid in ids if isinstance(tid, int) and tid != threading.get_native_id()]
        for first in range(0, len(others), _MOST_IDS):
            self._library.note(b'{"there":%s}' % repr(others[first : first + _MOST_IDS]).encode())

    def _name(self, tid, name):
        self._library.name(tid, name.encode("utf-8", "replace").replace(b"\0", b"?"))


class _Names:
    """Tells the recorder the names of Python's threads, when they begin and when they are renamed.

    `threading` reports neither, so two attributes of threading.Thread are wrapped, and restored in the end. If another
    tool has wrapped an attribute again meanwhile, our wrapper stays, and does nothing.

    gevent puts a subclass in the place of threading.Thread, whose objects are greenlets of the main thread, as they are
    with eventlet: they have the main thread's native id, and must not give their names to it.
    """

    def __init__(self):
        self._tell = None
        self._changed = {}  # (class, attribute's name) -> (our wrapper, the original)
        self._forks = False

    def watch(self, tell):
        import threading

        self._tell = tell
        for name, around in (("_set_native_id", self._around_native_id), ("name", self._around_name)):
            owner = next((one for one in threading.Thread.__mro__ if name in vars(one)), None)
            if owner is None:
                continue  # a class of another tool, which is no Thread: its threads have no names here
            at, present = (owner, name), vars(owner)[name]
            if at not in self._changed or present is self._changed[at][1]:
                self._changed[at] = (around(present), present)
                setattr(owner, name, self._changed[at][0])
        if not self._forks:
            # Runs after threading's own hook, which was registered first and makes the child's thread the main thread.
            os.register_at_fork(after_in_child=self._tell_all)
            self._forks = True
        self._tell_all()

    def unwatch(self):
        self._tell_all()
        self._tell = None
        for (owner, name), (ours, theirs) in list(self._changed.items()):
            if vars(owner).get(name) is ours:
                setattr(owner, name, theirs)
                del self._changed[owner, name]

    def _tell_all(self):
        import threading

        if self._tell is not None:
            # enumerate() would take a lock, which another thread may hold for ever.
            for ident, thread in list(threading._active.items()):
                # A forked child's main thread still has its parent's native id (up to CPython 3.13).
                mine = ident == threading.get_ident()
                self._tell_one(thread, threading.get_native_id() if mine else None)

    def _tell_one(self, thread, tid=None):
        import threading

        tell, name = self._tell, getattr(thread, "_name", None)
        tid = tid or getattr(thread, "_native_id", None)
        if tell is None or not isinstance(tid, int) or not isinstance(name, str):
            return
        # A second object with the main thread's id is a greenlet. No system call: the program may have forbidden it.
        main = threading.main_thread()
        if thread is main or tid != getattr(main, "_native_id", None):
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
    """Record this process as the environment says; if that fails, print the reason in one line on stderr.

    Environment: HEADWAY_TRACE_DOOR, the collector's socket ("": only count); HEADWAY_NATIVE, the shared library;
    HEADWAY_TRACE_FAMILY, the number by which the collector knows us; HEADWAY_TRACE_BYTES, the memory for events;
    HEADWAY_TRACE_ARGUMENTS, "1" to record the program's arguments, too; HEADWAY_TRACE_WATCHER, the id of the watcher's
    process.
    """
    what = "traced" if os.environ.get("HEADWAY_TRACE_WATCHER", "0") == "0" else "watched"
    try:
        door = os.environ["HEADWAY_TRACE_DOOR"]
        recorder = Recorder(os.environ["HEADWAY_NATIVE"])
        family = int(os.environ.get("HEADWAY_TRACE_FAMILY", "0"))
        memory_bytes = int(os.environ.get("HEADWAY_TRACE_BYTES", str(DEFAULT_BYTES))) if door else 0
        arguments = os.environ.get("HEADWAY_TRACE_ARGUMENTS") == "1"
        recorder.start(door, family, memory_bytes, arguments=arguments)
        if memory_bytes and recorder.without_stacks and sys.version_info >= (3, 11):
            say("process %d is %s without stacks: %s" % (os.getpid(), what, recorder.without_stacks))
    except (UnfitError, KeyError, ValueError, OSError) as error:
        say("process %d is not %s: %s" % (os.getpid(), what, error))
    else:
        _let_watch(recorder)


def go_on_from_environment():
    """Tell the names of threads again, where a program that embeds Python has ended it and begins it once more.

    The recording goes on meanwhile, but the interpreter's objects are new. Environment: see `start_from_environment`.
    """
    recorder = Recorder(os.environ["HEADWAY_NATIVE"])
    if recorder.active:
        recorder.tell_names()
        _let_watch(recorder)


def _let_watch(recorder):
    """Do what the watcher needs, if there is one. The process is recorded, whatever fails here."""
    try:
        watcher = int(os.environ.get("HEADWAY_TRACE_WATCHER", "0"))
        if watcher:
            let_watch(recorder, watcher)
    except Exception as error:
        say("process %d is watched, but perhaps not the lines of its threads: %s" % (os.getpid(), error))


_attached = ""
"""The time of the last attach(), or ""."""
_ATTEMPTS = 20
"""How often attach() ends a count that other threads begin again: each thread of a measured service may do so once."""


def attach(library, door, family, memory_bytes):
    """Record this process from now on, as long as a lease is renewed; with "" and 0 bytes, only count.

    Returns "", as the trace's path is not known yet, and the lease's descriptor. Raises UnfitError.
    """
    global _attached
    recorder = Recorder(library)
    if recorder.active and not (recorder.counts_only and memory_bytes):
        since = "since %s " % _attached if _attached else ""
        raise UnfitError("it is already recorded, %sinto %s" % (since, recorder.path or "memory"))
    lease = _begin_leased(recorder, recorder.prepared(door, family, memory_bytes))
    if memory_bytes:
        _tell_stacks(recorder)
    import time

    _attached = time.strftime("%H:%M:%S")
    return "", (lease,)


def _begin_leased(recorder, prepared):
    """Begin in the place of a session that only counts, or that an ended client has left behind; return the lease."""
    attempts = 0
    while True:
        attempts += 1
        try:
            return leased(recorder._library, LEASE_TRACE, recorder.stop, lambda: recorder.begin(prepared))
        except RecordedError:
            # Another thread may have asked for its times after the stop, and so begun to count again.
            if attempts == _ATTEMPTS or not recorder.counts_only:
                raise


def _tell_stacks(recorder):
    try:
        recorder.tell_stacks()
    except Exception:  # an audit hook of the program's own may forbid it, and the recording goes on
        pass


def detach(library):
    """End the recording of this process, whoever began it; return a description of the recording, or "" for none."""
    global _attached
    recorder = Recorder(library)
    what = "the counting" if recorder.counts_only else "the recording into %s" % (recorder.path or "memory")
    was_active = recorder.active
    _attached = ""
    stopped = recorder.stop()  # also a session that an ended client has left behind
    return what if was_active and stopped else ""
