"""Shows what a program finds around it: `behaviours_world.py [FACT ...]`, by default all facts.

Runs on CPython 3.8 and later.
"""

import atexit
import contextlib
import ctypes
import gc
import json
import locale
import multiprocessing
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings

MODULES = set(sys.modules)
PRCTL = {"death_signal": 2, "subreaper": 37}  # these write to a pointer
PRCTL_PLAIN = {"dumpable": 3, "keeps_capabilities": 7, "timer_slack": 30, "no_new_privileges": 39}


def status(name):
    """Return a line of /proc/self/status."""
    with open("/proc/self/status") as file:
        return next((line.split(":", 1)[1].strip() for line in file if line.startswith(name + ":")), None)


def text_of(path):
    """Return the text of a file under /proc."""
    with open(path, "rb") as file:
        return file.read().decode("utf-8", "replace")


def no_child():
    """Return the result of waiting for any child."""
    try:
        return os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return "ChildProcessError"


def open_files():
    """Return descriptors and their targets, without the numbers that differ from run to run."""
    found = {}
    for name in sorted(os.listdir("/proc/self/fd"), key=int):
        with contextlib.suppress(OSError):  # the descriptor through which the folder is read
            found[name] = re.sub(r"\d+", "N", os.readlink("/proc/self/fd/" + name))
    return found


def prctl():
    """Return the settings that prctl reports."""
    libc = ctypes.CDLL(None)
    found = {name: libc.prctl(number, 0, 0, 0, 0) for name, number in PRCTL_PLAIN.items()}
    for name, number in PRCTL.items():
        value = ctypes.c_int(0)
        libc.prctl(number, ctypes.byref(value), 0, 0, 0)
        found[name] = value.value
    return found


def stream(one):
    """Return the settings of a standard stream."""
    return [one.encoding, one.errors, one.isatty(), one.line_buffering, getattr(one, "write_through", None)]


def capture(code):
    """Return the output of a Python child with this code."""
    return subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False).stdout.decode()


# These come first, before looking changes anything else.
FACTS = {
    "child processes": no_child,
    "children by /proc": lambda: text_of("/proc/thread-self/children"),
    "threads of the system": lambda: len(os.listdir("/proc/self/task")),
    "descriptors": open_files,
    "the next descriptor": lambda: os.open(os.devnull, os.O_RDONLY),
    "threads of Python": lambda: [thread.name for thread in threading.enumerate()],
    "argv": lambda: sys.argv,
    "orig_argv": lambda: getattr(sys, "orig_argv", None),
    "executable": lambda: sys.executable,
    "prefixes": lambda: [sys.prefix, sys.base_prefix, sys.exec_prefix],
    "flags": lambda: str(sys.flags),
    "path": lambda: sys.path,
    "path importers": lambda: sorted(sys.path_importer_cache),
    "path hooks": lambda: [getattr(one, "__qualname__", str(one)).split(".")[0] for one in sys.path_hooks],
    "meta path": lambda: [getattr(one, "__name__", str(type(one))) for one in sys.meta_path],
    "name of __main__": lambda: [__name__, sys.modules["__main__"].__file__, str(__spec__)],
    "names in __main__": lambda: sorted(name for name in vars(sys.modules["__main__"]) if name.startswith("__")),
    "sitecustomize": lambda: "sitecustomize" in MODULES,
    "usercustomize": lambda: "usercustomize" in MODULES,
    "large modules": lambda: sorted(
        {"ctypes", "_ctypes", "numpy", "rich", "headway", "json", "zlib", "logging"} & MODULES
    ),
    "working folder": os.getcwd,
    "umask": lambda: os.umask(0o77),
    "process group is the parent's": lambda: os.getpgrp() == os.getpgid(os.getppid()),
    "session is the parent's": lambda: os.getsid(0) == os.getsid(os.getppid()),
    "leads a group": lambda: os.getpgrp() == os.getpid(),
    "ignored signals": lambda: status("SigIgn"),
    "blocked signals": lambda: status("SigBlk"),
    # Without the C library's own two; the library catches one of these as soon as there has been a thread.
    "caught signals": lambda: hex(int(status("SigCgt"), 16) & ~(3 << 31)),
    "pending signals": lambda: [status("SigPnd"), status("ShdPnd")],
    "handlers": lambda: [
        str(signal.getsignal(n)).split(" at ")[0] for n in range(1, signal.NSIG) if n in signal.valid_signals()
    ],
    "interrupting signals": lambda: signal.set_wakeup_fd(-1),
    "limits": lambda: {
        name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")
    },
    "allowed CPUs": lambda: sorted(os.sched_getaffinity(0)),
    "nice value": lambda: os.getpriority(os.PRIO_PROCESS, 0),
    "scheduler of the system": lambda: [os.sched_getscheduler(0), os.sched_getparam(0).sched_priority],
    "switch interval": sys.getswitchinterval,
    "recursion limit": sys.getrecursionlimit,
    "bytecode": lambda: [sys.dont_write_bytecode, getattr(sys, "pycache_prefix", None)],
    "hooks of sys": lambda: [
        sys.excepthook is sys.__excepthook__,
        sys.displayhook is sys.__displayhook__,
        sys.unraisablehook is sys.__unraisablehook__,
        sys.breakpointhook is sys.__breakpointhook__,
    ],
    "hook of threads": lambda: threading.excepthook.__name__,
    "trace and profile functions": lambda: [
        sys.gettrace(),
        sys.getprofile(),
        threading._trace_hook,  # type: ignore[attr-defined]
        threading._profile_hook,
    ],
    "atexit functions": atexit._ncallbacks,
    "collector of garbage": lambda: [gc.isenabled(), gc.get_threshold(), gc.get_debug(), len(gc.callbacks)],
    "filters of warnings": lambda: [str(one) for one in warnings.filters],
    "warn options": lambda: [sys.warnoptions, str(sys._xoptions)],
    "streams": lambda: [stream(sys.stdin), stream(sys.stdout), stream(sys.stderr)],
    "input": sys.stdin.read,
    "encodings": lambda: [
        sys.getfilesystemencoding(),
        sys.getfilesystemencodeerrors(),
        locale.getpreferredencoding(False),
    ],
    "locale": lambda: locale.setlocale(locale.LC_CTYPE),
    "name for the kernel": lambda: text_of("/proc/self/comm"),
    "command line for the kernel": lambda: text_of("/proc/self/cmdline"),
    "executable for the kernel": lambda: os.readlink("/proc/self/exe"),
    "root and cwd for the kernel": lambda: [os.readlink("/proc/self/root"), os.readlink("/proc/self/cwd")],
    "control group": lambda: text_of("/proc/self/cgroup"),
    "out-of-memory score": lambda: text_of("/proc/self/oom_score_adj"),
    "who it is": lambda: [os.getresuid(), os.getresgid(), os.getgroups()],
    "capabilities": lambda: [status(name) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
    "seccomp": lambda: status("Seccomp"),
    "timers": lambda: [signal.getitimer(signal.ITIMER_REAL), signal.getitimer(signal.ITIMER_VIRTUAL), signal.alarm(0)],
    "prctl": prctl,
    "namespaces": lambda: sorted(os.readlink("/proc/self/ns/" + name) for name in os.listdir("/proc/self/ns")),
    "folder for temporary files": tempfile.gettempdir,
    "time zone": lambda: time.tzname,
    "start method": multiprocessing.get_start_method,
    "Thread's methods": lambda: sorted(vars(threading.Thread)),
    "builtins": lambda: sorted(dir(__builtins__)),
    "a file's mode": lambda: oct(os.stat(made()).st_mode),
    "its child's path": lambda: capture("import sys; print(sys.path, sys.flags)"),
    "its child's streams": lambda: capture("import sys; print(sys.stdout.encoding, sys.stdin.encoding)"),
    "its child's modules": lambda: capture(
        "import sys; print('ctypes' in sys.modules, 'sitecustomize' in sys.modules)"
    ),
    "its child's threads": lambda: capture("import os; print(len(os.listdir('/proc/self/task')))"),
    "a missing file": lambda: [type(error(os.stat, "/nothing")).__name__, type(error(open, "/nothing")).__name__],
}


def error(function, *arguments):
    """Return the exception that a call raises."""
    try:
        function(*arguments)
    except OSError as raised:
        return raised
    return None


def made():
    """Create a file with the mode that the umask gives, and return its path."""
    path = os.path.join(os.getcwd(), "made")
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o666))
    return path


def world(*names):
    """Print what the program finds around it: these facts, or all."""
    found = {name: fact() for name, fact in FACTS.items() if not names or name in names}
    environ = {os.fsdecode(name): os.fsdecode(value) for name, value in os.environb.items()}
    print(json.dumps({"facts": found, "parent": os.getppid(), "pid": os.getpid(), "environ": environ}))


if __name__ == "__main__":
    world(*sys.argv[1:])
