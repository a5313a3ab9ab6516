"""Detects changes by calls of a function besides its result: to names, containers, files, environment, random states.

If a function changes something, concurrent calls may differ from calls one after the other. Audit events (PEP 578)
reveal changes to files and processes, and those of the process's own state that a call takes back before it returns. A
comparison with earlier values reveals changes to names and containers.
"""

import functools
import inspect
import os
import random
import signal
import sys
import sysconfig
import threading
import types

from .. import proc
from .contents import contents_of, is_random, parts_of, same
from .settings import BY_IMPORTS, settings
from .written import written

__all__ = ["Effects", "folder_of", "is_installed", "is_of_python", "own_modules"]

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_FILES = {
    "os.remove": (0, "removes"),
    "os.rename": (0, "renames"),
    "os.mkdir": (0, "makes the folder"),
    "os.rmdir": (0, "removes the folder"),
    "os.symlink": (1, "makes the link"),
    "os.link": (1, "makes the link"),
    "os.truncate": (0, "cuts"),
    "os.chmod": (0, "changes the mode of"),
    "os.chown": (0, "changes the owner of"),
    "os.utime": (0, "changes the times of"),
}
"""The audit events of changes to files: the place of the path among the arguments, and the words."""
_CACHE = type(functools.lru_cache()(len))
_SENDS = ("socket.sendto", "socket.sendmsg")
_ENVIRONMENT = ("os.putenv", "os.unsetenv")
_PROCESSES = ("subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec")
_WORKING_DIRECTORY = (
    "working directory",
    "changes the working directory (os.chdir), which all threads of a process share",
)
"""The kind and the words of this effect; `headway.advice.shared` has the same kind."""
_INSTALLED = {"site-packages", "dist-packages"}
"""The folders of installed packages; `headway.host.packages` has the same."""
_STANDARD = tuple(
    os.path.abspath(one) + os.sep
    for one in (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), os.path.dirname(os.__file__))
    if one
)
_AGENT = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_MOST = 20


def folder_of(function):
    """Return the folder of the function's module: for a module in a package, the package's other modules are the user's, too."""
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    return os.path.dirname(os.path.abspath(file)) if file else os.getcwd()


def is_installed(path):
    """Tell whether a path is one of an installed package, by its folders."""
    return not _INSTALLED.isdisjoint(path.split(os.sep))


def own_modules(folder):
    """Return the user's own modules: those below that folder, and those of other projects, that are not installed.

    A library that is installed as editable, or that is found by PYTHONPATH, is such a project.
    """
    own = {}
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None) or ""
        if not path or is_installed(path) or _is_ours(name):
            continue
        if os.path.abspath(path).startswith(folder + os.sep) or not is_of_python(name):
            own[name] = module
    return own


def _is_ours(name):
    return name.partition(".")[0] in ("headway", "headway_agent")


def is_of_python(name):
    """Tell whether a module belongs to the interpreter, or to Headway; so does a module that has no file."""
    path = getattr(sys.modules.get(name), "__file__", None)
    if not path or _is_ours(name):
        return True
    path = os.path.abspath(path)
    return path.startswith((_AGENT, *_STANDARD)) and not is_installed(path)


class Effects:
    """Observes from `begin` to `end`, once per object; all objects share one audit hook, which Python never removes."""

    _now = None
    _hooked = False

    def __init__(self, function, objects=()):
        """`objects` are those whose method the function is, besides the one to which it is bound."""
        self._function = function
        self._objects = [one for one in (getattr(function, "__self__", None), *objects) if one is not None]
        self._folder = folder_of(function)
        self._seen = {}

    def begin(self):
        self._note_state()
        self._hits, self._answers = self._cached(), self._kept()
        if not Effects._hooked and hasattr(sys, "addaudithook"):
            sys.addaudithook(_audit)
            Effects._hooked = True
        Effects._now = self

    def _note_state(self):
        self._modules = set(own_modules(self._folder))
        self._names = self._own_values()
        self._environment, self._cwd, self._signals = dict(os.environ), _cwd(), _handlers()
        self._random, self._numpy = random.getstate(), self._numpy_state()
        self._threads = set(threading.enumerate())
        self._settings, self._all = settings(), set(sys.modules)
        self.called_once()

    def apart(self, make):
        """Return what `make` returns between two calls; what it changes is no effect of theirs."""
        self._compare()
        try:
            return self.unseen(make)
        finally:
            self._note_state()

    def unseen(self, make):
        """Return what `make` returns, whose audit events are none of the function's."""
        Effects._now = None
        try:
            return make()
        finally:
            Effects._now = self

    def called_once(self):
        """Take as given what the first calls have made once for the process.

        These are modules that they imported, with the settings that imports change, and the children that multiprocessing
        keeps as its own helpers: the server of forks, and the tracker of shared memory and semaphores. A function that
        leaves processes behind leaves one after each call.
        """
        self._children = set(proc.children(os.getpid()))
        imported = set(own_modules(self._folder)) - self._modules
        # Objects are looked into if their class is of one of these modules.
        self._modules |= imported
        self._names.update(self._values(imported))
        now = settings()
        if self._all != set(sys.modules):
            self._settings.update((name, now[name]) for name in BY_IMPORTS)
            self._all = set(sys.modules)
        for name, value in now.items():
            self._settings.setdefault(name, value)

    def leave_processes(self):
        """Tell whether processes live that the calls since `called_once` have started."""
        return any(map(_lives, set(proc.children(os.getpid())) - self._children))

    def end(self):
        """Return the first _MOST observations, a list of [kind, words]."""
        Effects._now = None
        self._compare()
        if self._cached() != self._hits:
            self._note(
                "cache", "results are kept (functools.lru_cache): a call with the same arguments costs nothing later"
            )
        for place, (hits, misses) in self._kept().items():
            before = self._answers.get(place, (0, 0))
            if hits > before[0] and misses > before[1]:
                self._note("helper's cache", "results of %s are kept (functools.lru_cache)" % place)
        for (kind, name), words in written(self._function, own_modules(self._folder)).items():
            if not self._is_told(kind, name):
                self._note(kind, words)
        return [[kind, words] for (kind, words) in self._seen]

    def _is_told(self, kind, name):
        """Return whether the comparison has told of this place: it tells of what stays, and names the object of a method."""
        return any(
            kind == one
            and (
                (told + " ").startswith(name + " ")
                or (name.startswith("self.") and told.split(" ")[0].endswith(name[4:]))
            )
            for one, told in self._seen
        )

    def _compare(self):
        """Note the state that differs from that of before."""
        changed = set()
        for place, (value, contents) in self._own_values().items():
            if any(place.startswith((one + ".", one + "[")) for one in changed):
                continue  # what has changed has other parts now
            before = self._names.get(place)
            if before is None or before[0] is not value:
                self._note("globals", "%s is bound anew" % place if before else "%s is made" % place)
            elif same(contents, before[1]):
                continue
            elif is_random(value):
                self._note("random", "%s's state" % place)
            else:
                self._note("globals", "%s changes" % place)
            changed.add(place)
        if dict(os.environ) != self._environment:
            for name in sorted({**os.environ, **self._environment}):
                if os.environ.get(name) != self._environment.get(name):
                    self._note("environment", name)
        if _cwd() != self._cwd:
            self._note(*_WORKING_DIRECTORY)
        if _handlers() != self._signals:
            self._note("signals", "sets a signal's handler")
        now = settings()
        for name, value in self._settings.items():
            if not same(now.get(name), value):
                self._note("settings", name)
        if random.getstate() != self._random:
            self._note("random", "random's global state")
        if self._numpy is not None and repr(self._numpy_state()) != repr(self._numpy):
            self._note("random", "numpy.random's global state")
        for thread in set(threading.enumerate()) - self._threads:
            self._note("threads", "leaves the thread %s" % thread.name)

    def _note(self, kind, words):
        if len(self._seen) < _MOST:
            self._seen[kind, words] = None

    def _values(self, modules):
        """Return the names of these modules; a name of a module is none, as an import may bind it."""
        found = {}
        for name, module in own_modules(self._folder).items():
            for key, value in list(vars(module).items()) if name in modules else ():
                if not key.startswith("__") and not isinstance(value, types.ModuleType):
                    place = "%s.%s" % (name, key)
                    found[place] = (value, contents_of(value))
                    is_named = isinstance(value, (type, types.FunctionType))
                    if not is_named or value.__module__ == name:  # once, where the class or function is made
                        found.update(self._inside(place, value))
        return found

    def _inside(self, place, value):
        return {part: (one, contents_of(one)) for part, one in parts_of(place, value, self._modules).items()}

    def _own_values(self):
        """Return the names of the modules that were there, those of the function's closure, and those of its object."""
        found = self._values(self._modules)
        for one in self._objects:
            if not any(value is one for value, _ in found.values()):
                found.update(self._inside("self", one))
        for place, cell in enumerate(getattr(self._function, "__closure__", None) or ()):
            try:
                value = cell.cell_contents
            except ValueError:
                continue
            name = self._function.__code__.co_freevars[place]
            found["%s (of its closure)" % name] = (value, contents_of(value))
        return found

    def _numpy_state(self):
        numpy_random = sys.modules.get("numpy.random")
        return numpy_random.get_state() if numpy_random is not None else None

    def _cached(self):
        info = getattr(self._function, "cache_info", None)
        return info() if info is not None else None

    def _kept(self):
        """Return {name: (hits, misses)} of the caches that functions of the user's modules have, besides the function's.

        A function without arguments keeps one value for all calls, as a connection or a model that is loaded once.
        """
        found = {}
        for name, module in own_modules(self._folder).items():
            for key, value in list(vars(module).items()):
                is_cache = type(value) is _CACHE and value is not self._function and value.__module__ == name
                if is_cache and _takes_arguments(value):
                    info = value.cache_info()
                    found["%s.%s" % (name, key)] = (info.hits, info.misses)
        return found


def _takes_arguments(function):
    code = getattr(getattr(function, "__wrapped__", None), "__code__", None)
    if code is None:
        return True  # a function in C
    takes_any = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    return bool(code.co_argcount or code.co_kwonlyargcount or takes_any)


def _cwd():
    try:
        return os.getcwd()
    except OSError:
        return None  # the folder is gone


def _handlers():
    return [signal.getsignal(number) for number in sorted(signal.valid_signals())]


def _lives(pid):
    try:
        return proc.read("/proc/%d/stat" % pid).rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False


def _audit(event, args):
    effects = Effects._now
    if effects is None:
        return
    try:
        if event == "open" and args and isinstance(args[0], (str, bytes)):
            path, mode, flags = os.fsdecode(args[0]), args[1] or "", args[2] or 0
            writes = any(letter in mode for letter in "wax+") if mode else bool(flags & _WRITING)
            if writes and "__pycache__" not in path and path != os.devnull:
                effects._note("files", "writes %s" % path)
        elif event in _FILES:
            which, words = _FILES[event]
            path = "an open file" if isinstance(args[which], int) else os.fsdecode(args[which])
            if "__pycache__" not in path:
                effects._note("files", "%s %s" % (words, path))
        elif event == "sqlite3.connect":
            path = os.fsdecode(args[0])
            if path not in ("", ":memory:"):  # SQLite opens its files by itself, and tells Python of none
                effects._note("files", "opens a database: sqlite3.connect(%s)" % path)
        elif event == "os.chdir":
            effects._note(*_WORKING_DIRECTORY)
        elif event in _ENVIRONMENT:
            effects._note("environment", os.fsdecode(args[0]))
        elif event == "socket.connect":
            effects._note("network", "connects to %s" % (args[1],))
        elif event in _SENDS and args[1] is not None:
            effects._note("network", "sends to %s" % (args[1],))
        elif event in _PROCESSES:
            effects._note("processes", "starts a process (%s)" % event)
    except Exception:
        pass  # A hook that raises would end the user's call.
