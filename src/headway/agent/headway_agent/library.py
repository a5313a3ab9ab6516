"""Loads the shared library into this process as an extension module, which it also is (native/module/module.c).

CPython 3.8 to 3.15 on Linux. Any unexpected condition raises `UnfitError`, and the program goes on as before.
"""

import _imp
import os
import stat
import sys

__all__ = [
    "LEASE_SCHEDULE",
    "LEASE_TRACE",
    "UnfitError",
    "errno_name",
    "gil_enabled",
    "leased",
    "load",
    "say",
]

ABI_VERSION = 23
"""HW_ABI_VERSION of native/include/headway/version.h for which agent and package were written. No other place has it."""

NEWEST = (3, 15)

LEASE_TRACE, LEASE_SCHEDULE = 0, 1
"""The uses of a lease, as in native/base/lease.h."""

_HIDDEN = (
    "no extension module loads, as the program hides the symbols of its Python; "
    "load libpython with RTLD_GLOBAL, or link the program with -rdynamic"
)
_STARTING_NS = 60 * 10**9
_LEASE_NS = 5 * 10**9
"""How long we go on without hearing of the attaching process; SPAN_S of headway/live/lease.py has the same value."""


class UnfitError(Exception):
    """Why this process cannot be recorded, or its GIL cannot be scheduled, in one sentence."""


def load(path):
    """Return the library at `path`. Raises UnfitError."""
    _check_interpreter()
    spec = type(sys.__spec__)("headway_recorder", None, origin=path)
    try:
        library = _imp.create_dynamic(spec)
        _imp.exec_dynamic(library)
        found = library.version()
    except (ImportError, SystemError, AttributeError) as error:
        if "failed without raising an exception" in str(error):  # PyInit_headway_recorder() of native/module/module.c
            raise UnfitError(_HIDDEN)
        raise UnfitError("%s does not load: %s" % (path, error))
    if found != ABI_VERSION:
        raise UnfitError("%s has ABI version %d, expected %d" % (path, found, ABI_VERSION))
    if _stderr is None:
        library.mute()
    return library


def leased(library, what, stop, start):
    """Start something that ends by itself unless an owner of the lease's descriptor renews the lease.

    `stop` ends what is there before; it is called only when there is a page for the lease, so that a process that cannot
    have one keeps what it has. Returns the descriptor, which the caller must send and close. Raises UnfitError, and what
    `start` raises.
    """
    page = library.lease_page(_STARTING_NS)
    if page < 0:
        raise _no_memory(page)
    try:
        stop()
        failed = library.lease(what, page)
        if failed:
            raise _no_memory(failed)
        try:
            start()
        except BaseException:
            library.lease_end(what)
            raise
    except BaseException:
        os.close(page)
        raise
    library.lease_renew(what, _LEASE_NS)
    return page


def _no_memory(error):
    return UnfitError("there is no memory to share with whoever attaches: %s" % os.strerror(-error))


def _check_interpreter():
    version = sys.version_info[:2]
    if sys.implementation.name != "cpython":
        raise UnfitError("this is %s, not CPython" % sys.implementation.name)
    if not (3, 8) <= version <= NEWEST:
        raise UnfitError("CPython %d.%d is not known to this version of headway" % version)
    machine = os.uname().machine  # platform.machine() would start a process in 3.8
    if sys.platform != "linux" or machine not in ("x86_64", "aarch64"):
        raise UnfitError("%s on %s is not supported" % (sys.platform, machine))


def gil_enabled():
    """Return whether this interpreter has a GIL, and the GIL is on."""
    check = getattr(sys, "_is_gil_enabled", None)
    return bool(check() if check is not None else True)


def errno_name(number):
    """Return the symbolic name of an errno, such as "ENOENT"; "" for an unknown number."""
    import errno

    return errno.errorcode.get(number, "")


def say(text):
    """Print a line on stderr at a process's start or end, without Python's own streams.

    There is no line if descriptor 2 is not the stderr of the start any more: the program may have opened its database
    there. A child process prints none if the program, or another process, may read its stderr: see `_find_stderr`.
    """
    try:
        if _stderr is not None and _identity(os.fstat(2)) == _stderr:
            _write(("headway: %s\n" % text).encode("utf-8", "replace"))
    except OSError:
        pass  # there is no stderr


def _write(line):
    """Write to stderr without a wait: a pipe that nobody reads may be full, and then the line is left out.

    A descriptor that is made non-blocking for that would be so for the program, too. A terminal and a file have no such
    write, and take a line at once.
    """
    try:
        os.pwritev(2, [line], -1, os.RWF_NOWAIT)
    except (BlockingIOError, BrokenPipeError):
        pass
    except (AttributeError, OSError):  # older kernels have it for no pipe, and old C libraries not at all
        os.write(2, line)


def _find_stderr():
    """Return device and inode of this process's stderr; None if there is none, or none for lines of ours.

    HEADWAY_STDERR has those of the launch's stderr, on which the launch has already printed its line. Another pipe or
    connection of a child process has a reader, whether a shell stands between or not. Another file may be a log that a
    shell has opened; it has a reader only if a recorded or scheduled Python has started this process.
    """
    try:
        found = os.fstat(2)
    except OSError:
        return None
    launch, name = os.environ.get("HEADWAY_STDERR"), os.path.basename(os.environ.get("HEADWAY_NATIVE", ""))
    ours = _identity(found)
    if not launch or not name or launch == "%d:%d" % ours or os.environ.get("HEADWAY_LAUNCHED") == str(os.getpid()):
        return ours
    if stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode):
        return None
    try:
        with open("/proc/%d/maps" % os.getppid(), "rb") as maps:
            return None if name.encode() in maps.read() else ours
    except OSError:
        return ours


def _identity(file):
    return file.st_dev, file.st_ino


_stderr = _find_stderr()
