"""Tells the files of the standard library and of installed packages, and those in which threads wait for each other.

The last part of a path does not tell them: a program, or a package, may have a `queue.py` or a `_base.py` of its own.
"""

import functools
import re
from enum import Enum
from typing import Final

from headway.traces.frames import OURS, Frame

__all__ = [
    "Awaited",
    "awaited_in",
    "awaits_others",
    "is_library",
    "is_of_a_log_handler",
    "is_of_processes",
    "is_of_threading",
    "is_of_threads",
    "is_standard",
    "module_of_threads",
]


class Awaited(Enum):
    """The thing that a thread waits for; the value is how it is told."""

    LOCK = "a lock"
    EVENT = "an event"
    CONDITION = "a condition"
    QUEUE = "a queue"
    RESULT = "a result"
    THREAD = "the end of a thread"
    PERMIT = "a permit of a semaphore"
    BARRIER = "a barrier"
    CONNECTION = "a connection of a pool"


_FOLDER: Final = r"(?:/lib(?:64)?/python3\.\d+t?|/python3\d+t?\.zip)/(?!bin/)"
"""The standard library's folder, which ends in `t` in a free-threaded build, or its archive; a `bin` is none of its parts."""
_PACKAGES: Final = "(?:site|dist)-packages/"
_STANDARD: Final = re.compile(rf"{_FOLDER}(?!{_PACKAGES})|^<frozen ")
_LIBRARIES: Final = re.compile(rf"/{_PACKAGES}|{_FOLDER}|^<frozen ")
_OF_THREADS: Final = re.compile(rf"(?:{_FOLDER}|/Lib/|^)(threading\.py|queue\.py|concurrent/futures/_base\.py)$")
"""Modules whose locks, events and queues the threads of one process share. CPython's own source has them in `Lib`, and a
program that was packed into one file has no folder before them."""
_OF_LOGGING: Final = re.compile(rf"(?:{_FOLDER}|/Lib/|^)logging/__init__\.py$")
_OF_POOLS: Final = re.compile(rf"(?:{_FOLDER}|/Lib/|^)concurrent/futures/thread\.py$")
_OF_PROCESSES: Final = re.compile(r"(?:^|/)(?:multiprocessing|billiard|loky/backend)/(?:synchronize|queues)\.py$")
"""Modules of multiprocessing, and of its copies in Celery's and joblib's packages, for what any process may have."""

_FUNCTIONS: Final = {
    ("threading.py", "Condition.__enter__"): Awaited.LOCK,
    ("threading.py", "Condition._acquire_restore"): Awaited.LOCK,
    ("threading.py", "_RLock.acquire"): Awaited.LOCK,
    ("threading.py", "Condition.wait"): Awaited.CONDITION,
    ("threading.py", "Condition.wait_for"): Awaited.CONDITION,
    ("threading.py", "Event.wait"): Awaited.EVENT,
    ("threading.py", "Semaphore.acquire"): Awaited.PERMIT,
    ("threading.py", "Barrier.wait"): Awaited.BARRIER,
    ("threading.py", "Thread.join"): Awaited.THREAD,
    ("threading.py", "Thread._wait_for_tstate_lock"): Awaited.THREAD,
    ("queue.py", "Queue.get"): Awaited.QUEUE,
    ("queue.py", "Queue.put"): Awaited.QUEUE,
    ("queue.py", "Queue.join"): Awaited.QUEUE,
    ("concurrent/futures/_base.py", "Future.result"): Awaited.RESULT,
    ("concurrent/futures/_base.py", "Future.exception"): Awaited.RESULT,
    ("concurrent/futures/_base.py", "wait"): Awaited.RESULT,
    ("concurrent/futures/_base.py", "as_completed"): Awaited.RESULT,
}
"""The functions of these modules that wait, by file and name; the outermost one of a stack tells what for."""


@functools.lru_cache(maxsize=8192)
def is_library(frame: Frame) -> bool:
    """Tell whether a frame is in the standard library, an installed package or Headway, and not in the program itself."""
    return frame == OURS or _LIBRARIES.search(frame.filename) is not None


def is_standard(frame: Frame) -> bool:
    """Tell whether a frame is in the standard library."""
    return _STANDARD.search(frame.filename) is not None


@functools.lru_cache(maxsize=8192)
def module_of_threads(frame: Frame) -> str:
    """Return a frame's module if it is one of those in which threads wait for each other, as `queue.py`; else ""."""
    found = _OF_THREADS.search(frame.filename)
    return "" if found is None else found[1]


def is_of_threads(frame: Frame) -> bool:
    """Tell whether a frame is in `threading`, `queue` or the base of `concurrent.futures`."""
    return bool(module_of_threads(frame))


def is_of_threading(frame: Frame) -> bool:
    """Tell whether a frame is in `threading`."""
    return module_of_threads(frame) == "threading.py"


def is_of_processes(frame: Frame) -> bool:
    """Tell whether a frame is in one of the modules in which processes of multiprocessing wait for each other."""
    return _OF_PROCESSES.search(frame.filename) is not None


def is_of_a_log_handler(frame: Frame) -> bool:
    """Tell whether a thread takes the lock of a handler of `logging` there, which it has until the record is written."""
    is_taking = frame.function in ("Handler.acquire", "Handler.handle")  # `acquire` was called before CPython 3.13
    return is_taking and _OF_LOGGING.search(frame.filename) is not None


def awaits_others(frame: Frame) -> bool:
    """Tell whether a frame is in a library's module whose own frames block only for a lock of the program.

    Most of them do so to await another thread or process.
    """
    return is_of_threads(frame) or is_of_processes(frame) or _OF_POOLS.search(frame.filename) is not None


def awaited_in(frame: Frame) -> Awaited | None:
    """Return what the function of a frame waits for that another thread gives; None if it is none of those that wait."""
    return _FUNCTIONS.get((module_of_threads(frame), frame.function))
