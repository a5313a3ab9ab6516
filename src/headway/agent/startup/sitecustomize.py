"""Starts the recorder, and a policy for the GIL, in every Python process that has startup.zip on its PYTHONPATH, before the program runs.

CPython's `site` imports `sitecustomize` at startup, unless it is told not to (-I, -E with PYTHONPATH, -S). Afterwards
the program's world is as it would be: the archive is off sys.path, and the sitecustomize that this one hides is run and
stands in sys.modules. What stays: the environment, which child processes need, and the modules that the recorder uses.

Whatever fails here, the program runs. Pythons that have no recorder (2.7, 3.7) read this file, too, and are left alone.
It is imported from an archive that tools/startup_archive.py makes of it, because of a module in an archive no Python writes bytecode.
"""

import os
import sys


def _start():
    archive = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != archive]
    sys.path_importer_cache.pop(archive, None)
    getattr(sys.modules.get("zipimport"), "_zip_directory_cache", {}).pop(archive, None)
    traced, scheduled = "HEADWAY_TRACE_DOOR" in os.environ, "HEADWAY_POLICY" in os.environ
    scheduled = scheduled or "HEADWAY_SWITCH_INTERVAL" in os.environ
    if sys.version_info < (3, 8) or not (traced or scheduled):
        return
    agent = os.path.dirname(archive)
    writes = sys.dont_write_bytecode
    try:
        if _is_there():
            return
        sys.dont_write_bytecode = True
        sys.path.insert(0, agent)
        if scheduled:
            from headway_agent import scheduler

            scheduler.start_from_environment()
        if traced:
            from headway_agent import recorder

            recorder.start_from_environment()
    except Exception as error:
        what = "traced" if traced else "scheduled"
        _say("headway: process %d is not %s: %s\n" % (os.getpid(), what, error or type(error).__name__))
    finally:
        sys.dont_write_bytecode = writes
        sys.path[:] = [entry for entry in sys.path if entry != agent]
        for entry in (agent, os.path.join(agent, "headway_agent")):
            sys.path_importer_cache.pop(entry, None)


def _is_there():
    """The recorder's library is in this process: we are in one of its sub-interpreters."""
    name = os.path.basename(os.environ.get("HEADWAY_NATIVE", ""))
    with open("/proc/self/maps", "rb", buffering=0) as file:
        return bool(name) and name.encode() in b"".join(iter(lambda: file.read(1 << 16), b""))


def _say(text):
    try:
        os.write(2, text.encode("utf-8", "replace"))
    except OSError:
        pass  # no stderr: nobody listens


try:
    _start()
except Exception as error:
    _say("headway: process %d is left alone: %s\n" % (os.getpid(), error))
# The sitecustomize that would have been found without us takes our place in sys.modules. Its errors are its own, and where
# there is none, that error is what `site` expects. Some importers want to remove us themselves then.
ours = sys.modules.pop(__name__)
try:
    import sitecustomize  # noqa: F401
finally:
    sys.modules.setdefault(__name__, ours)
