"""Takes the arguments of a function's calls in every Python that has this folder on its PYTHONPATH.

`headway advise --observe` uses it. After the import of the module HEADWAY_OBSERVE_MODULE, its function
HEADWAY_OBSERVE_NAME gets other code, so that a table or a class that has kept the function is observed, too. That code
pickles (args, kwargs), calls a function with the code of before, and once it has returned appends
a pickle of that pickle to HEADWAY_OBSERVE_FOLDER/PID.taken. PID.path has the folders of the import path, one a line, from
which the arguments can be loaded. PID.raised has a byte for each call that raised (SystemExit and cancellation count, too),
which is left out: a measured call must return. PID.begun is there if a call was begun. Calls that the function makes of
itself are not taken: its own call has their work.
Another sitecustomize, which this one hides, is run, too. CPython 3.8 to 3.15, standard library only.
"""

import itertools
import os
import sys


def _run_the_hidden_one():
    """Run the sitecustomize that would have been found without us."""
    import importlib.util

    own = os.path.dirname(os.path.abspath(__file__))
    path = [one for one in sys.path if os.path.abspath(one or ".") != own]
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _own_path():
    """Return the folders of the import path that belong to the program, and not to this Python or its libraries."""
    pythons = os.path.dirname(os.path.abspath(os.__file__))
    ours = os.path.dirname(os.path.abspath(__file__))
    found = map(os.path.abspath, sys.path)
    return [
        one
        for one in found
        if os.path.exists(one)
        and one != ours
        and not one.startswith(pythons)
        and not {"site-packages", "dist-packages"} & set(one.split(os.sep))
        and os.path.basename(one) != "python%d%d.zip" % sys.version_info[:2]
        and "\n" not in one
    ]


class _Taker:
    """Takes the first `most` calls, up to MOST_BYTES; reports a call that cannot be pickled, and calls that raise.

    The pickles of calls that have not returned yet count: a program may begin any number of coroutines before one ends.
    """

    MOST_BYTES = 64 << 20
    MOST_RAISED = 1000
    """No further call is taken after this number of calls that raise."""

    def __init__(self, function, folder, most):
        self._function, self._folder, self._most = function, folder, most
        self._taken, self._lost, self._raised, self._bytes = 0, 0, 0, 0
        # The pickles of calls that have not returned, by the calls' numbers. Threads share it: each use is one operation of
        # the dictionary, so it needs no lock, which a fork could leave held.
        self._pending, self._numbers = {}, itertools.count()

    def _is_full(self):
        pending = list(self._pending.values())
        return (
            self._taken + len(pending) + self._lost >= self._most
            or self._bytes + sum(map(len, pending)) >= self.MOST_BYTES
            or self._raised >= self.MOST_RAISED
        )

    def take(self, args, kwargs):
        """Pickle a call's arguments, which the call may change; return the call's number, or None if it is not taken."""
        if self._taken + self._lost >= self._most or self._is_full():
            return None
        import pickle

        try:
            data = pickle.dumps((args, kwargs))
        except Exception as error:
            self._lost += 1
            self._write("said", "wb", ("a call could not be taken: %s: %s\n" % (type(error).__name__, error)).encode())
            return None
        number = next(self._numbers)
        if number == 0:
            self._write("begun", "wb", b"")
        self._pending[number] = data
        return number

    def keep(self, number):
        """Keep the arguments of a call that has returned, by the number that `take` has returned."""
        data = self._pending.pop(number, None)
        if data is None or self._taken >= self._most:
            return
        import pickle

        self._taken += 1
        self._bytes += len(data)
        if self._taken == 1:
            self._write("path", "wb", os.fsencode("\n".join(_own_path())))
        # One that cannot be loaded does not hide the next.
        self._write("taken", "ab", pickle.dumps(data))

    def leave_out(self, number):
        """Count a call that has raised, by the number that `take` has returned."""
        if self._pending.pop(number, None) is not None:
            self._raised += 1
            self._write("raised", "ab", b".")

    def _write(self, ending, mode, data):
        try:
            with open(os.path.join(self._folder, "%d.%s" % (os.getpid(), ending)), mode) as file:
                file.write(data)
        except OSError:
            pass  # the folder is gone: the observation is over


def _runs(code):
    """Tell whether a frame of this thread runs that code."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code is code:
            return True
        frame = frame.f_back
    return False


class _Observed:
    """The objects that the code of an observed function needs: a function with the code of before, and the taker."""

    def __init__(self, function, taker, kind):
        import contextvars

        # Other than a thread's own value, it tells the tasks of an event loop apart, and a task's own tasks inherit it.
        self.inside = contextvars.ContextVar("inside", default=False)
        self.function, self._taker, self._kind = function, taker, kind

    def is_part(self, args):
        """Tell whether a call is part of another one (recursion), or has an object of another class."""
        return self.inside.get() or not self._suits(args)

    def _suits(self, args):
        return self._kind is None or bool(args and isinstance(args[0], self._kind))

    def begin(self, args, kwargs):
        number = self._taker.take(args, kwargs)
        self.inside.set(True)
        return number

    def end(self, number, has_returned):
        self.inside.set(False)
        (self._taker.keep if has_returned else self._taker.leave_out)(number)

    def begin_to_iterate(self, args, kwargs):
        # The call returns before the generator runs.
        if self._suits(args) and not _runs(self.function.__code__):
            self._taker.keep(self._taker.take(args, kwargs))


# The code of observed functions. It runs with the globals of the user's module, and so names none: the text, which is
# replaced by an `_Observed`, is a constant. An exception of any kind is a call that has not returned: a task that is
# cancelled, sys.exit and Ctrl-C, too.


def _plain(*args, **kwargs):
    observed = "headway: observed"
    if observed.is_part(args):
        return observed.function(*args, **kwargs)
    number, has_returned = observed.begin(args, kwargs), False
    try:
        result = observed.function(*args, **kwargs)
        has_returned = True
    finally:
        observed.end(number, has_returned)
    return result


async def _awaited(*args, **kwargs):
    observed = "headway: observed"
    if observed.is_part(args):
        return await observed.function(*args, **kwargs)
    number, has_returned = observed.begin(args, kwargs), False
    try:
        result = await observed.function(*args, **kwargs)
        has_returned = True
    finally:
        observed.end(number, has_returned)
    return result


def _iterated(*args, **kwargs):
    observed = "headway: observed"
    observed.begin_to_iterate(args, kwargs)
    return observed.function(*args, **kwargs)


def _observe(function, taker, kind):
    """Exchange a function's code. `kind`: take only calls whose first argument is an object of this class."""
    import functools
    import inspect
    import types

    before = function.__code__
    copy = types.FunctionType(
        before, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    functools.update_wrapper(copy, function)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__dict__.pop("__wrapped__")
    copy.__dict__.update(function.__dict__)
    code = _plain
    if inspect.iscoroutinefunction(function):
        code = _awaited
    elif inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        code = _iterated
    code, observed = code.__code__, _Observed(copy, taker, kind)
    code = code.replace(
        co_consts=tuple(observed if one == "headway: observed" else one for one in code.co_consts),
        co_name=before.co_name,
        # A function keeps the cells that it was made with, and its code has a name for each.
        co_freevars=before.co_freevars,
    )
    # The parameters of the function are looked for there, by whatever asks for them.
    function.__dict__.setdefault("__wrapped__", copy)
    function.__code__ = code


def _put_around(module, name, folder, most):
    *owners, last = name.split(".")
    owner = module
    for one in owners:
        owner = getattr(owner, one)
    import inspect

    # A class may have inherited it.
    found = inspect.getattr_static(owner, last, None)
    function = found.__func__ if isinstance(found, staticmethod) else found
    taker = _Taker(function, folder, most)
    if not inspect.isfunction(function):
        # Other objects may be used for more than calls: a class, an object that functools makes, a method of a class.
        words = "%s is %s" % (name, type(found).__name__) if found is not None else "there is no %s" % name
        taker._write("said", "wb", ("%s, which is not observed\n" % words).encode())
        return
    is_inherited = inspect.isclass(owner) and last not in vars(owner) and function is found
    _observe(function, taker, owner if is_inherited else None)


class _Finder:
    """Finds the module as other finders do, and wraps its function after the module has run."""

    def __init__(self, module, name, folder, most):
        self._module, self._rest = module, (name, folder, most)
        self._looking = False
        self._ours = []

    def find_spec(self, name, path=None, target=None):
        if name != self._module or self._looking:
            return None
        import importlib.util

        self._looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looking = False
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return None
        run, rest = spec.loader.exec_module, self._rest
        if run in self._ours:
            return spec

        def exec_module(module):
            run(module)
            # A loader may be one object for many modules, as that of a zip archive or of pytest.
            if module.__spec__.name != name:
                return
            try:
                _put_around(module, *rest)
            except Exception as error:
                sys.stderr.write("headway: %s is not observed: %s\n" % (module.__name__, error))

        try:
            spec.loader.exec_module = exec_module
            self._ours.append(exec_module)
        except AttributeError:
            return None
        return spec


def _begin():
    environment = os.environ
    sys.meta_path.insert(
        0,
        _Finder(
            environment["HEADWAY_OBSERVE_MODULE"],
            environment["HEADWAY_OBSERVE_NAME"],
            environment["HEADWAY_OBSERVE_FOLDER"],
            int(environment["HEADWAY_OBSERVE_MOST"]),
        ),
    )


try:
    _begin()
except (KeyError, ValueError):
    pass  # the environment names no function to observe
_run_the_hidden_one()
