"""Starts the recorder, and a policy for the GIL, in every Python process that has this folder on its PYTHONPATH, before the program runs.

CPython's `site` imports `sitecustomize` at startup, unless it is told not to (-I, -E with PYTHONPATH, -S). Afterwards
the program's world is as it would be: this folder is off sys.path, and the sitecustomize that this one hides is run and
stands in sys.modules. What stays: the environment, which child processes need, and the modules that the recorder uses.
"""

import os
import sys


def _start():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
    sys.path_importer_cache.pop(here, None)
    traced, scheduled = "HEADWAY_TRACE_FILE" in os.environ, "HEADWAY_POLICY" in os.environ
    scheduled = scheduled or "HEADWAY_SWITCH_INTERVAL" in os.environ
    if (traced or scheduled) and not _is_there():
        agent = os.path.dirname(here)
        sys.path.insert(0, agent)
        try:
            if scheduled:
                from headway_agent import scheduler

                scheduler.start_from_environment()
            if traced:
                from headway_agent import recorder

                recorder.start_from_environment()
        except ImportError as error:  # a module of the standard library is missing
            what = "traced" if traced else "scheduled"
            os.write(2, ("headway: process %d is not %s: %s\n" % (os.getpid(), what, error)).encode())
        finally:
            sys.path.remove(agent)
            sys.path_importer_cache.pop(agent, None)


def _is_there():
    """The recorder's library is in this process: we are in one of its sub-interpreters."""
    name = os.path.basename(os.environ.get("HEADWAY_NATIVE", ""))
    with open("/proc/self/maps", "rb", buffering=0) as file:
        return bool(name) and name.encode() in b"".join(iter(lambda: file.read(1 << 16), b""))


def _run_hidden():
    """Import the sitecustomize that would have been found without us; its errors are its own."""
    ours = sys.modules.pop(__name__)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault(__name__, ours)


_start()
_run_hidden()
