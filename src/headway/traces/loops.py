"""Recognises the places where a thread waits for work: an event loop in its poll, a pool's thread at its queue.

Between leaving this place and the return to it, a thread does one thing. An event loop runs one iteration, during which
no other code of the loop can run; a server's thread answers one request. This time is a *lap*. A trace has laps without
any change of the program, because both ends of a lap are releases of the GIL whose stacks show the loop's own frames.
"""

import functools
import itertools
import os
import re
from collections.abc import Collection, Iterable, Sequence
from enum import Enum
from typing import Final

from headway.traces.calls import awaits_a_queue, may_await_a_thread, takes_a_lock
from headway.traces.frames import BEGINS, CUT, OURS, Frame
from headway.traces.libraries import is_library, is_of_processes, is_of_threading, is_of_threads, is_standard
from headway.traces.sources import source_line, words_in

__all__ = [
    "Home",
    "home_at",
    "is_a_hub",
    "is_for_a_request",
    "is_generated",
    "is_in_a_loop",
    "is_in_a_pool",
    "is_in_anyio",
    "is_whole",
    "serves_the_web",
    "waits_for_a_lock",
    "work_in",
]


class Home(Enum):
    """The place where a thread waits for its next work."""

    LOOP = "event loop"
    """An event loop waits for any of its connections and timers."""
    POOL = "pool"
    """A pool's thread waits for work: a request, or a job."""


_RUNS: Final = re.compile(r"\brun_(forever|until_complete)\(|\.exec_?\(")
"""Calls that run an event loop: of asyncio's kind, and of Qt."""
_COROUTINES: Final = re.compile(r"\basync\s+def\s+(\w+)")
_QT: Final = re.compile(r"\b(PySide|PyQt|qtpy|QApplication|QCoreApplication|QEventLoop)")
"""A file of source without these words has other methods with the name of Qt's, such as SQLModel's `Session.exec`."""
_SERVES: Final = re.compile(r"\b(processEvents)\(")
"""A call that lets Qt's loop serve what waits, in the midst of a long piece of work."""
_TK_SERVES: Final = ("tkinter/__init__.py", "Misc.update")
_TRIO: Final = "unrolled_run"
"""The function of trio/_core/_run.py that runs its loop."""
_HUBS: Final = {("gevent/hub.py", "Hub.run"), ("hubs/hub.py", "BaseHub.run"), ("hubs/asyncio.py", "Hub.run")}
"""Functions of gevent and eventlet that run a loop in a greenlet of its own: the loop's stack begins there."""
_HUB_POLLS: Final = {
    ("hubs/poll.py", "Hub.do_poll"),
    ("hubs/poll.py", "Hub.wait"),
    ("hubs/epolls.py", "Hub.do_poll"),
    ("hubs/selects.py", "Hub.wait"),
    ("libuv/loop.py", "loop.run"),
    ("libev/corecffi.py", "loop.run"),
}
"""Functions in which the loop waits: of eventlet, and of gevent where Python calls libuv or libev by CFFI.
eventlet's `Hub.wait` sleeps if the hub has only timers."""
_RUNNERS: Final = {
    ("asyncio/runners.py", "Runner.run"),
    ("asyncio/runners.py", "run"),
    ("uvloop/__init__.py", "run"),
    ("uvicorn/_compat.py", "asyncio_run"),
    ("aiohttp/web.py", "run_app"),
    ("tkinter/__init__.py", "Misc.mainloop"),
    *_HUBS,
}
"""Functions that call a loop written in C, such as uvloop's; during the loop's poll, they are the innermost frame."""

_ANYIO: Final = ("anyio/_backends/_asyncio.py", "WorkerThread.run")
"""Starlette and FastAPI run what is written without `async` in a thread of AnyIO: endpoints, dependencies, tasks."""
_ASGIREF: Final = ("asgiref/sync.py", "SyncToAsync.thread_handler")
"""Django on ASGI runs what is written without `async` there, in a thread of an executor: views, middleware."""
_POOLS: Final = {
    ("concurrent/futures/thread.py", "_worker"),
    ("distributed/threadpoolexecutor.py", "_worker"),
    ("waitress/task.py", "ThreadedTaskDispatcher.handler_thread"),
    ("multiprocessing/pool.py", "worker"),
    ("cheroot/workers/threadpool.py", "WorkerThread.run"),
    ("cheroot/workers/threadpool.py", "WorkerThread._process_connections_until_interrupted"),
    ("eventlet/tpool.py", "tworker"),
    ("gevent/threadpool.py", "_WorkerGreenlet.run"),
    _ANYIO,
}
"""Functions that take work from a queue and run it."""
_CONNECTIONS: Final = {
    ("socketserver.py", "BaseServer.serve_forever"),
    ("server.py", "BaseHTTPRequestHandler.handle_one_request"),
    ("simple_server.py", "WSGIRequestHandler.handle"),
    ("basehttp.py", "WSGIRequestHandler.handle"),
    ("basehttp.py", "WSGIRequestHandler.handle_one_request"),
    ("sync.py", "SyncWorker.accept"),
}
"""Functions of the standard library's servers, of Django's server for development and of gunicorn's default worker that
take a connection, or a request from one, and answer it."""
_BETWEEN: Final = {
    ("socketserver.py", "TCPServer.shutdown_request"),
    ("socketserver.py", "ForkingMixIn.process_request"),
    ("sync.py", "SyncWorker.wait"),
    ("base.py", "Worker.notify"),
    ("gthread.py", "TConn.wait_for_data"),
}
"""Functions of these servers that run between two requests. The thread of a connection ends after the first one."""
_TURNS: Final = {
    ("gthread.py", "ThreadWorker.handle"): {"unreader.py", "message.py", "parser.py", "body.py", "socket.py", "ssl.py"},
    ("channel.py", "HTTPChannel.service"): {"trigger.py", "server.py"},
    ("server.py", "HTTPConnection.communicate"): {"server.py", "makefile.py", "_pyio.py", "socket.py", "ssl.py"},
}
"""Functions of gunicorn's, waitress's and cheroot's threads that serve one request, each with the modules in which they
receive it, or tell that it is over. A thread whose queue has a further request only yields the GIL here."""
_HANDS_OVER: Final = ("socketserver.py", "ThreadingMixIn.process_request")
"""A server's thread has another thread answer a request: it waits until that one has started, for the GIL, too."""
_SOCKETS: Final = {"selectors.py", "socket.py", "ssl.py", "workertmp.py"}
"""Modules in which these servers wait, or tell that they live."""
_WAITS: Final = "gevent/_threading.py"
"""The module in which a thread of gevent's pool waits; those of other pools wait in `threading` and `queue`."""
_AT_EXIT: Final = {"_shutdown", "_leave_the_loop"}
"""Functions that the interpreter calls at its exit: threading's, and the recorder's."""
_CHILD: Final = "BaseProcess._bootstrap"
"""The function in which a process of multiprocessing runs. One that was forked has its parent's frames below."""
_FORK: Final = ("multiprocessing/popen_fork.py", "Popen._launch")
_BEGINS: Final = BEGINS | _AT_EXIT | {_CHILD}
"""The outermost functions of a thread's stack."""
_MAIN: Final = _BEGINS - {"Thread._bootstrap", _CHILD}
"""The outermost functions of the main thread's stack."""
_WAIT_FRAMES: Final = 4
"""gevent's pool waits four frames deep."""
_POLL_FRAMES: Final = 6
"""A selector that times its polls or counts them is one to three frames above asyncio's own one."""
_SOCKET_FRAMES: Final = 4
"""A TLS connection waits three frames deep."""
_TURN_FRAMES: Final = 12
"""gunicorn receives a request some ten frames deep."""
_START_FRAMES: Final = 6
"""`Thread.start` waits three frames deep."""

_SERVERS: Final = (
    "/gunicorn/workers/",
    "/waitress/",
    "/cheroot/",
    "/werkzeug/serving.py",
    "/wsgiref/",
    "/socketserver.py",
    "/http/server.py",
    "/grpc/_server.py",
)
_WEB: Final = ("/uvicorn/", "/hypercorn/", "/daphne/", "/granian/", "/starlette/")
"""Packages that serve requests in an event loop."""


@functools.lru_cache(maxsize=8192)
def _at(frame: Frame) -> tuple[str, str]:
    """Return the end of the path of a frame's file, the last two or three parts, and the frame's function."""
    parts = frame.filename.rsplit("/", 3)
    depth = 3 if parts[-2:-1] in (["workers"], ["_backends"], ["futures"]) else 2
    return "/".join(parts[-depth:]), frame.function


@functools.lru_cache(maxsize=8192)
def _runs_a_loop(frame: Frame) -> bool:
    """Tell whether a frame calls an event loop written in C: by its name, or, outside the standard library, by its line."""
    if _at(frame) in _RUNNERS:
        return True
    # Libraries have thousands of frames: the look at each line begins with one at each file.
    if is_standard(frame) or (is_library(frame) and not words_in(frame.filename, _RUNS)):
        return False
    found = _RUNS.search(source_line(frame.filename, frame.line))
    return found is not None and (found[1] is not None or bool(words_in(frame.filename, _QT)))


@functools.lru_cache(maxsize=8192)
def _calls_beside(frame: Frame, inner: Frame) -> bool:
    """Tell whether a frame, whose line runs a loop, calls another function on that line: before the loop, or after it.

    A loop written in C calls coroutines of the same file: they have no frame of the loop between them and the line.
    """
    name = inner.function.rpartition(".")[2]
    if _at(frame) in _RUNNERS or _RUNS.search(f"{name}("):
        return False
    called = re.search(rf"\b{re.escape(name)}\(", source_line(frame.filename, frame.line))
    return called is not None and name not in words_in(inner.filename, _COROUTINES)


@functools.lru_cache(maxsize=8192)
def _serves_a_window(frame: Frame) -> bool:
    """Tell whether a frame lets a window's loop serve what waits, and then goes on with its work."""
    if _at(frame) == _TK_SERVES:
        return True
    return bool(words_in(frame.filename, _SERVES) and _SERVES.search(source_line(frame.filename, frame.line)))


def _runs_a_target_in_c(frame: Frame) -> bool:
    """Tell whether a frame is `Thread.run`; as the innermost frame, it means that the thread's target is written in C.

    If such a target releases the GIL again and again and calls Python in between, it is a loop: `loop.run_forever` of
    uvloop (Ray's async actors), or a library's poller.
    """
    return frame.function == "Thread.run" and is_of_threading(frame)


def home_at(frames: Sequence[Frame]) -> Home | None:
    """Return the place where a thread waits for its next work, if it yields the GIL at this stack; else None.

    Args:
        frames: The stack, the innermost frame first. The hold must not have ended because of a request: a thread that
            was preempted does not wait at the frame at which it was interrupted.
    """
    if not frames:
        return None
    inner = frames[0]
    if _polls_for_asyncio(frames) or _polls_for_trio(inner):
        return None if _is_in_another_loop(frames) else Home.LOOP
    if _runs_a_loop(inner) or _runs_a_target_in_c(inner) or _at(inner) in _HUB_POLLS or _serves_a_window(inner):
        return Home.LOOP
    if _is_between_requests(frames):
        return Home.POOL
    for frame in frames[:_WAIT_FRAMES]:
        if _at(frame) in _POOLS:
            # AnyIO waits in a queue of Python code: without a frame of it, the thread runs a function written in C.
            return None if frame is inner and _at(frame) == _ANYIO else Home.POOL
        if not (is_of_threads(frame) or frame.filename.endswith(_WAITS)):
            return None
    return None


def _polls_for_asyncio(frames: Sequence[Frame]) -> bool:
    """Tell whether asyncio's loop polls, also through a selector of the program's own, or a function that times the poll."""
    inner = frames[0]
    if not (inner.function.endswith(".select") and os.path.basename(inner.filename) == "selectors.py"):
        return False
    above = frames[1:_POLL_FRAMES]
    at = next((place for place, frame in enumerate(above) if frame.function.endswith("_run_once")), None)
    # A callback may wait in a selector of its own, as `subprocess.run` does: the loop's line tells which one it is.
    return at == 0 or (at is not None and ".select(" in source_line(above[at].filename, above[at].line))


def _polls_for_trio(frame: Frame) -> bool:
    return frame.function == "EpollIOManager.get_events"


def _is_in_another_loop(frames: Sequence[Frame]) -> bool:
    """Tell whether the innermost loop of a stack runs within one of another library, which it blocks: `asyncio.run()` in trio.

    A loop of asyncio within one of asyncio is the same one (nest_asyncio), and serves all its tasks.
    """
    return len({frame.function.endswith(_TRIO) for frame in frames if _steps(frame)}) > 1


def _steps(frame: Frame) -> bool:
    """Tell whether a frame runs the steps of asyncio's loop, or of trio's."""
    return frame.function.endswith(("._run_once", _TRIO))


def work_in(frames: Sequence[Frame]) -> Sequence[Frame]:
    """Return the frames that a loop, a pool or a thread has called, innermost first: all of them if there is none of these.

    A loop within one of another library is work of the outer one.
    """
    outer = max((at for at, frame in enumerate(frames) if _steps(frame)), default=0)
    if outer and _is_in_another_loop(frames):
        return frames[:outer]
    inner = itertools.chain([None], frames)
    return [
        one for one, _ in itertools.takewhile(lambda pair: not _is_machinery(*pair), zip(frames, inner, strict=False))
    ]


def _short(frame: Frame) -> tuple[str, str]:
    """Return the name of a frame's file without its folders, and the frame's function."""
    return os.path.basename(frame.filename), frame.function


def _is_between_requests(frames: Sequence[Frame]) -> bool:
    """Tell whether a server without a pool waits for a connection or a request, or has just answered one."""
    if _hands_over(frames) or _is_at_a_turn(frames):
        return True
    at = next((frame for frame in frames[:_SOCKET_FRAMES] if os.path.basename(frame.filename) not in _SOCKETS), None)
    return at is not None and (_short(at) in _BETWEEN or (at is not frames[0] and _short(at) in _CONNECTIONS))


def _hands_over(frames: Sequence[Frame]) -> bool:
    """Tell whether a server's thread has another thread answer a request."""
    return any(_short(frame) == _HANDS_OVER for frame in frames[:_START_FRAMES])


def _is_at_a_turn(frames: Sequence[Frame]) -> bool:
    """Tell whether a server's thread is at one end of a request that it took from a queue."""
    for depth, frame in enumerate(frames[:_TURN_FRAMES]):
        modules = _TURNS.get(_short(frame))
        if modules is not None:
            return depth > 0 and all(os.path.basename(one.filename) in modules for one in frames[:depth])
    return False


def _takes_work(frame: Frame) -> bool:
    return _at(frame) in _POOLS or _short(frame) in _CONNECTIONS


def _is_a_loop(frame: Frame, inner: Frame | None) -> bool:
    """Tell whether a frame runs a loop; `inner` is the one that it has called."""
    return _steps(frame) or (_runs_a_loop(frame) and (inner is None or not _calls_beside(frame, inner)))


def _is_machinery(frame: Frame, inner: Frame | None) -> bool:
    """Tell whether a frame is that of a loop, a pool or a thread: what it calls, as `inner`, is the work."""
    return _is_a_loop(frame, inner) or _takes_work(frame) or _runs_a_target_in_c(frame)


def is_in_a_loop(frames: Sequence[Frame], home: Sequence[Frame] = (), *, returned: bool = False) -> bool:
    """Tell whether a stack may be that of a running event loop: also a stack whose callers are not known.

    Args:
        frames: The stack.
        home: The stack at which the loop's thread waits; () if it is not known. At a thread's target that is written in
            C, each stack of the thread is the loop's.
        returned: The thread was at such a home later: it has not left the loop for good.
    """
    frames = _since_the_fork(frames)
    if _has_unknown_callers(frames):
        return True
    in_c = bool(home) and _runs_a_target_in_c(home[0])
    calls = zip(frames, itertools.chain([None], frames), strict=False)
    return any(_is_a_loop(one, inner) or (in_c and _runs_a_target_in_c(one)) for one, inner in calls) or (
        bool(frames) and _is_a_greenlets(frames[-1], home, returned=returned)
    )


def _is_a_greenlets(begin: Frame, home: Sequence[Frame], *, returned: bool) -> bool:
    """Tell whether a stack may be that of a greenlet that a loop has switched to: such a stack does not show the loop.

    Any function that the interpreter calls begins a stack, too, such as one for the program's exit: only hubs and
    SQLAlchemy, which runs queries in greenlets below asyncio, are certain. A thread that C has created begins at a
    function of the program, where its loop's stack begins as well.

    Args:
        begin: The stack's outermost frame.
        home: As in is_in_a_loop().
        returned: As there.
    """
    if is_a_hub(home):
        return returned or begin.function not in _MAIN
    differs = not home or _at(begin) != _at(home[-1])
    return begin.function not in _BEGINS and differs and (returned or "/sqlalchemy/" in begin.filename)


def is_a_hub(home: Sequence[Frame]) -> bool:
    """Tell whether a loop, which waits at this stack, is that of gevent or eventlet: all code of its thread is in greenlets."""
    return bool(home) and _at(home[-1]) in _HUBS


def _since_the_fork(frames: Sequence[Frame]) -> Sequence[Frame]:
    """Return the frames of a stack without those of the parent process, whose work goes on there."""
    for at, (inner, outer) in enumerate(itertools.pairwise(frames)):
        if inner.function == _CHILD and _at(outer) == _FORK:
            return frames[: at + 1]
    return frames


def is_whole(frames: Sequence[Frame]) -> bool:
    """Tell whether a stack reaches down to where its thread began; one of a greenlet ends where the greenlet began."""
    return bool(frames) and frames[-1].function in _BEGINS


def is_in_a_pool(frames: Sequence[Frame]) -> bool:
    """Tell whether a stack may be that of a pool's thread that has work: also a stack whose callers are not known."""
    frames = _since_the_fork(frames)
    return _has_unknown_callers(frames) or any(_takes_work(frame) for frame in frames)


def _has_unknown_callers(frames: Sequence[Frame]) -> bool:
    """Tell whether a stack was cut, or stands for Headway's own work, which interrupts the program anywhere."""
    return bool(frames) and frames[-1] in (CUT, OURS)


def is_for_a_request(frames: Sequence[Frame], *, is_web: bool) -> bool:
    """Tell whether a stack is that of a thread that answers a request.

    Args:
        frames: The stack.
        is_web: The process serves requests in an event loop (serves_the_web()): AnyIO's threads, and those in which
            asgiref runs a function, work for requests then.
    """
    frames = _since_the_fork(frames)
    if any(part in frame.filename for frame in frames for part in _SERVERS):
        return not _hands_over(frames)
    return is_web and any(_at(frame) in {_ANYIO, _ASGIREF} for frame in frames)


def is_in_anyio(frames: Sequence[Frame]) -> bool:
    """Tell whether a stack is that of a thread of AnyIO's pool, with work or without."""
    return any(_at(frame) == _ANYIO for frame in frames)


def serves_the_web(frames: Iterable[Frame]) -> bool:
    """Tell whether one of these frames shows that the process serves requests in an event loop.

    A module's own code shows only that the module was imported.
    """
    return any(part in frame.filename and frame.function != "<module>" for frame in frames for part in _WEB)


def waits_for_a_lock(frames: Sequence[Frame], changed: Collection[str] = (), *, asleep: bool = False) -> bool:
    """Tell whether a thread that releases the GIL at this stack waits for one of Python's locks.

    The file tells, or the text of the line: a lock written in C has no frame of its own.

    Args:
        frames: The stack.
        changed: Files whose lines are not those of the trace.
        asleep: The thread was seen asleep in a futex, from which another thread wakes it.
    """
    if not frames:
        return False
    at = frames[0]
    return (
        is_of_threads(at)
        or is_of_processes(at)
        or takes_a_lock(at, changed)
        or awaits_a_queue(at, changed)
        or (asleep and may_await_a_thread(at, changed))
    )


_WRITTEN: Final = ("<stdin", "<console", "<python-input", "<ipython-input", "<doctest", "<dynamic-code")
"""The beginnings of the names of code that a user has typed, has in a docstring, or sends to a worker of Dask or Ray.

`<dynamic-code>` is cloudpickle's name for the file of each function that it sends as a whole; the lines are those of its file.
"""


def is_generated(frame: Frame) -> bool:
    """Tell whether the code of a frame may be generated: its name in angle brackets is that of no file.

    `<string>` is also the name of a program that Python runs with `-c`.
    """
    return frame.filename.startswith("<") and not frame.filename.startswith(_WRITTEN)
