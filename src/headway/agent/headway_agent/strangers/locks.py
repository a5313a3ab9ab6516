"""Finds the locks of the user's that calls of a function take, and for how long the calls hold them.

Each lock that a name of the user's modules or the function's closure holds is replaced by a watched one. So is each lock
of an object or class in these modules, unless its class is one of the standard library. The calls after that tell which
of them they take, at which line, and how long they hold it. A lock that the function reaches in another way, as through a container, is not found.
"""

import functools
import os
import sys
import threading
import time
import types

from .effects import folder_of, is_of_python, own_modules

__all__ = ["Locks"]

_OF_THREADS = (type(threading.Lock()), type(threading.RLock()), threading.Condition, threading.Semaphore)
_OURS = os.path.abspath(__file__)


def _in_loops():
    """Return the kinds of locks of asyncio; none if it is not imported, as then there is no such lock."""
    asyncio = sys.modules.get("asyncio")
    return () if asyncio is None else (asyncio.Lock, asyncio.Condition, asyncio.Semaphore)


class _Watched:
    """A lock with an account of its holds; whatever else it can do, the lock itself does."""

    def __init__(self, lock, name):
        self._lock, self.name = lock, name
        self.taken_at, self.held_ns = "", 0
        self._depth, self._since_ns = 0, 0

    def __getattr__(self, name):
        return getattr(self._lock, name)

    def acquire(self, *args, **kwargs):
        taken = self._lock.acquire(*args, **kwargs)
        if taken:
            self._begin()
        return taken

    def release(self, *args):
        self._end()
        return self._lock.release(*args)

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *_error):
        self.release()

    def wait(self, *args, **kwargs):
        return self._paused(self._lock.wait, *args, **kwargs)

    def wait_for(self, *args, **kwargs):
        return self._paused(self._lock.wait_for, *args, **kwargs)

    def _paused(self, wait, *args, **kwargs):
        # A condition lets go of its lock while it waits.
        depth, self._depth = self._depth, 1
        self._end()
        try:
            return wait(*args, **kwargs)
        finally:
            self._begin()
            self._depth = depth

    def _begin(self):
        if not self._depth:
            self._since_ns = time.perf_counter_ns()
            self.taken_at = self.taken_at or _caller()
        self._depth += 1

    def _end(self):
        self._depth = max(0, self._depth - 1)
        if not self._depth and self._since_ns:
            self.held_ns += time.perf_counter_ns() - self._since_ns
            self._since_ns = 0


class _WatchedInLoop(_Watched):
    """The same for a lock of asyncio, which is taken by a coroutine."""

    async def acquire(self):
        taken = await self._lock.acquire()
        self._begin()
        return taken

    async def __aenter__(self):
        await self.acquire()

    async def __aexit__(self, *_error):
        self.release()

    async def wait(self):
        return await self._paused_in_loop(self._lock.wait)

    async def wait_for(self, predicate):
        return await self._paused_in_loop(self._lock.wait_for, predicate)

    async def _paused_in_loop(self, wait, *args):
        depth, self._depth = self._depth, 1
        self._end()
        try:
            return await wait(*args)
        finally:
            self._begin()
            self._depth = depth


def _caller():
    """Return the innermost line outside this file: "/app.py:17"."""
    frame = sys._getframe(1)
    while frame is not None and os.path.abspath(frame.f_code.co_filename) == _OURS:
        frame = frame.f_back
    return "%s:%d" % (frame.f_code.co_filename, frame.f_lineno) if frame is not None else ""


class Locks:
    """The watched locks, from the making of this object on; nothing puts the user's own locks back."""

    def __init__(self, function, objects=()):
        """Replace the locks that the function may take; `objects` are those whose method it is."""
        self._by_id, self._in_loops = {}, _in_loops()
        for module in own_modules(folder_of(function)).values():
            for name, value in list(vars(module).items()):
                self._replace(functools.partial(setattr, module, name), name, value)
                self._inside(name, value)
        for one in (getattr(function, "__self__", None), *objects):
            self._inside("self", one)
        code = getattr(function, "__code__", None)
        for place, cell in enumerate(getattr(function, "__closure__", None) or ()):
            try:
                self._replace(
                    functools.partial(setattr, cell, "cell_contents"), code.co_freevars[place], cell.cell_contents
                )
            except (ValueError, AttributeError):
                continue  # the cell is empty
        self.watched = list(self._by_id.values())

    def _inside(self, name, value):
        kind = value if isinstance(value, type) else type(value)
        if not is_of_python(kind.__module__) and not isinstance(value, (types.FunctionType, _Watched)):
            try:
                found = list(vars(value).items())
            except TypeError:
                return  # it has only slots
            for attribute, one in found:
                self._replace(functools.partial(setattr, value, attribute), "%s.%s" % (name, attribute), one)

    def _replace(self, put, name, value):
        if not isinstance(value, (*_OF_THREADS, *self._in_loops)):
            return
        watched = self._by_id.get(id(value))
        if watched is None:
            watched = (_WatchedInLoop if isinstance(value, self._in_loops) else _Watched)(value, name)
        try:
            put(watched)
        except Exception:
            return  # the object forbids it
        self._by_id[id(value)] = watched

    def over(self, wall_ns):
        """Return the locks that calls have taken in that time, as dicts; `share` is the share of it in which one was held."""
        return [
            {
                "name": one.name,
                "at": one.taken_at,
                "share": min(1.0, one.held_ns / max(1, wall_ns)),
                # A semaphore lets several calls in.
                "most": getattr(one, "_value", 1),
            }
            for one in self.watched
            if one.taken_at
        ]
