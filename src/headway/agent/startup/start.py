"""Starts the recorder, and a policy for the GIL, in this process; sitecustomize.py executes this text.

Afterwards the program's environment is as without us: the archive is off sys.path, and the sitecustomize that ours hides
has run and is in sys.modules. The exceptions are the environment variables, which child processes need, and the modules
that the recorder uses.

If anything here fails, the program still runs. Pythons that have no recorder (2.7, 3.7) are left alone; only the launched
program says so, whose process id is in HEADWAY_LAUNCHED.
"""

import os
import sys

_STOCK_INTERVAL_S = 0.005


def start(folder, read):
    """Start what the environment says. `folder` is that of this file, in the archive, from which `read` reads a file."""
    try:
        _start(os.path.abspath(folder), read(os.path.join(folder, "bring.py")))
    except Exception as error:
        _say("headway: process %d is left alone: %s\n" % (os.getpid(), error))


def _start(archive, bring_text):
    sys.path[:] = [entry for entry in sys.path if not _is_at(entry, archive)]
    sys.path_importer_cache.pop(archive, None)
    getattr(sys.modules.get("zipimport"), "_zip_directory_cache", {}).pop(archive, None)
    traced, scheduled = "HEADWAY_TRACE_DOOR" in os.environ, "HEADWAY_POLICY" in os.environ
    scheduled = scheduled or "HEADWAY_SWITCH_INTERVAL" in os.environ
    what = "traced" if traced else "scheduled"
    if not (traced or scheduled):
        return
    if sys.version_info < (3, 8):
        if os.environ.get("HEADWAY_LAUNCHED") == str(os.getpid()):
            why = "Headway needs CPython 3.8 or later, and this is %d.%d" % tuple(sys.version_info[:2])
            _say("headway: process %d is not %s: %s\n" % (os.getpid(), what, why))
        return
    path, writes = sys.path[:], sys.dont_write_bytecode
    try:
        is_there = _is_there()
        if is_there:
            _set_own_interval()
            if not traced or not _is_main():
                return
        sys.dont_write_bytecode = True
        sys.path[:] = _standard(path)
        given = {"__name__": "headway_bring"}
        exec(compile(bring_text, "<headway>/startup/bring.py", "exec"), given)
        bring, agent = given["bring"], os.path.dirname(archive)
        if scheduled and not is_there:
            bring(agent, "scheduler")[0].start_from_environment()
        if traced:
            recorder = bring(agent, "recorder")[0]
            recorder.go_on_from_environment() if is_there else recorder.start_from_environment()
    except Exception as error:
        _say("headway: process %d is not %s: %s\n" % (os.getpid(), what, error or type(error).__name__))
    finally:
        sys.dont_write_bytecode = writes
        sys.path[:] = path


def _is_at(entry, archive):
    """Tell whether an entry of sys.path is the archive: then the next import of sitecustomize would find us again."""
    try:
        return entry == archive or os.path.abspath(entry) == archive
    except OSError:
        return False  # a relative entry, and the current folder is gone


def _standard(path):
    """Return the entries from the standard library on: a user's module in front of it may have the name of a standard one.

    It must not run for us, before the program and perhaps in vain.
    """
    library = os.path.dirname(getattr(os, "__file__", None) or "")
    return path[path.index(library) :] if library in path else path


def _is_there():
    """Tell whether this process has the recorder's library already.

    Then this is one of its sub-interpreters, or the program that embeds Python has begun it again.
    """
    name = os.path.basename(os.environ.get("HEADWAY_NATIVE", ""))
    try:
        with open("/proc/self/maps", "rb", buffering=0) as file:
            return bool(name) and name.encode() in b"".join(iter(lambda: file.read(1 << 16), b""))
    except OSError as error:
        raise OSError("Headway needs /proc, and cannot read %s: %s" % (error.filename, error.strerror))


def _set_own_interval():
    """Set the switch interval of a sub-interpreter with a GIL of its own.

    Such a GIL begins with CPython's 5 ms. A GIL that it shares with the main interpreter has the interval that was set
    there.
    """
    interval = os.environ.get("HEADWAY_SWITCH_INTERVAL")
    if interval and sys.version_info >= (3, 12) and sys.getswitchinterval() == _STOCK_INTERVAL_S:
        sys.setswitchinterval(float(interval))


def _is_main():
    """Tell whether this is the main interpreter, whose main thread is the only one that may make this call."""
    if sys.version_info < (3, 9):
        return False  # there a sub-interpreter may make that call, too, and would take the descriptor from the main one
    import _signal

    try:
        _signal.set_wakeup_fd(-1)  # no change: the interpreter has just begun, and has none
    except ValueError:
        return False
    return True


def _say(text):
    try:
        if not _is_captured():
            _write(text.encode("utf-8", "replace"))
    except OSError:
        pass  # there is no stderr


def _write(line):
    """Write to stderr, if that needs no wait. headway_agent.library has the same, and cannot be imported here."""
    try:
        os.pwritev(2, [line], -1, os.RWF_NOWAIT)
    except (BlockingIOError, BrokenPipeError):
        pass
    except (AttributeError, OSError):
        os.write(2, line)


def _is_captured():
    """Tell whether stderr is a pipe or a connection that the launch has not made: something reads it.

    headway_agent.library knows files, too, that another Python of the launch has made this stderr. It cannot be imported
    where this is needed.
    """
    launch, here = os.environ.get("HEADWAY_STDERR"), os.fstat(2)
    if not launch or os.environ.get("HEADWAY_LAUNCHED") == str(os.getpid()):
        return False
    kind = here.st_mode & 0o170000  # S_IFMT: 0o010000 is S_IFIFO, 0o140000 is S_IFSOCK
    return launch != "%d:%d" % (here.st_dev, here.st_ino) and kind in (0o010000, 0o140000)
