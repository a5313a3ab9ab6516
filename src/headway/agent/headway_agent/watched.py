"""Prepares a recorded process for the watcher of `headway watch`. CPython 3.8 to 3.15 on Linux."""

import os

__all__ = ["let_watch"]

_YAMA = "/proc/sys/kernel/yama/ptrace_scope"


def _only_parents_may_look():
    """Tell whether Yama lets a process be read by its parents only, and by those that it names."""
    try:
        with open(_YAMA, "rb", buffering=0) as file:  # a text would need an encoding, which not every program can have
            return file.read(8).strip() == b"1"
    except OSError:
        return False


def let_watch(recorder, watcher):
    """Record garbage collections and the end of the main thread's loop, and let the watcher read where threads are."""
    import atexit
    import gc

    library = recorder._library
    # Each loading of the library makes a module of its own, so these functions are not equal.
    ours = (type(library.collection), library.collection.__module__)
    gc.callbacks[:] = [one for one in gc.callbacks if (type(one), getattr(one, "__module__", None)) != ours]
    gc.callbacks.append(library.collection)
    atexit.unregister(_leave_the_loop)
    atexit.register(_leave_the_loop)
    # Called only if Yama needs it: a seccomp filter of the program's own may end the process for this call, and the call
    # takes the permission from another process that the program has named.
    if _only_parents_may_look():
        library.let_trace(watcher)
        os.register_at_fork(after_in_child=lambda: library.let_trace(watcher))


def _leave_the_loop():
    """Release the GIL outside of any event loop: else the interpreter's end may look like a long lap of the last loop.

    The interpreter frees all objects then, which may take seconds, and it need not release the GIL meanwhile.
    Not time.sleep(): gevent may have put a function in its place that runs other greenlets.
    """
    try:
        os.stat("/")
    except OSError:
        pass
